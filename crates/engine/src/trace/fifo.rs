//! A named pipe that strace writes its log to. An inherited pipe would be one more descriptor of
//! the traced program.

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

/// Between two looks at whether the writer is there yet.
const LOOK: Duration = Duration::from_millis(5);

/// The pipe, in a directory of its own that goes with it.
pub(super) struct Fifo {
    directory: PathBuf,
    path: PathBuf,
    file: File,
}

impl Fifo {
    pub(super) fn new() -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("plimsoll-trace-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::DirBuilder::new().mode(0o700).create(&directory)?;
        let path = directory.join("log");
        let made = CString::new(path.as_os_str().as_bytes())
            .map_err(io::Error::from)
            .and_then(|name| {
                // SAFETY: a string with its end.
                if unsafe { libc::mkfifo(name.as_ptr(), 0o600) } < 0 {
                    return Err(io::Error::last_os_error());
                }
                OpenOptions::new()
                    .read(true)
                    .custom_flags(libc::O_NONBLOCK)
                    .open(&path)
            });
        match made {
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

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for bytes until the writer has closed its end or is gone; for `patience` at most, when
    /// it gives None.
    pub(super) fn read(
        &mut self,
        writer: &mut Child,
        bytes: &mut [u8],
        patience: Duration,
    ) -> io::Result<Option<usize>> {
        let mut waited = Duration::ZERO;
        loop {
            // Asked first: what it wrote before it ended is in the pipe then.
            let is_gone = writer.try_wait()?.is_some();
            match self.file.read(bytes) {
                Ok(0) if is_gone => return Ok(Some(0)),
                Ok(0) => {}
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if waited >= patience {
                return Ok(None);
            }
            thread::sleep(LOOK);
            waited += LOOK;
        }
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}
