//! A named pipe to which strace writes its log. An inherited pipe would be an additional descriptor
//! of the traced program.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// Interval between two checks of whether the writer has opened the pipe.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The pipe, in a private directory that is removed with it.
pub(crate) struct Fifo {
    directory: PathBuf,
    path: PathBuf,
    file: File,
}

impl Fifo {
    pub(crate) fn new() -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("plimsoll-trace-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::DirBuilder::new().mode(0o700).create(&directory)?;
        let path = directory.join("log");
        let opened = CString::new(path.as_os_str().as_bytes())
            .map_err(io::Error::from)
            .and_then(|name| {
                // SAFETY: the string ends with 0.
                if unsafe { libc::mkfifo(name.as_ptr(), 0o600) } < 0 {
                    return Err(io::Error::last_os_error());
                }
                OpenOptions::new()
                    .read(true)
                    .custom_flags(libc::O_NONBLOCK)
                    .open(&path)
            });
        match opened {
            Ok(file) => Ok(Self {
                directory,
                path,
                file,
            }),
            Err(error) => {
                let _ = fs::remove_dir_all(&directory);
                Err(error)
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for bytes. Returns 0 when the writer has closed its end or has ended, and None after
    /// `timeout`.
    pub(crate) fn read(
        &mut self,
        writer: &mut Child,
        bytes: &mut [u8],
        timeout: Duration,
    ) -> io::Result<Option<usize>> {
        let mut waited = Duration::ZERO;
        loop {
            // Checked first: all that the writer wrote before its end is in the pipe then.
            let has_ended = writer.try_wait()?.is_some();
            match self.file.read(bytes) {
                Ok(0) if has_ended => return Ok(Some(0)),
                Ok(0) => {}
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if waited >= timeout {
                return Ok(None);
            }
            thread::sleep(POLL_INTERVAL);
            waited += POLL_INTERVAL;
        }
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}
