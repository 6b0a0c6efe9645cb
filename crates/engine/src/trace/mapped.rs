//! A file as memory: logs of the preload recorder are read as they lie, whatever their size.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;

/// A file that nobody changes any more, mapped to be read.
pub(super) struct Mapped {
    start: NonNull<u8>,
    length: usize,
}

impl Mapped {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        if length == 0 {
            return Ok(Self {
                start: NonNull::dangling(),
                length,
            });
        }
        // SAFETY: a new mapping, where the kernel finds room for it, of an open file.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping, or nothing, is there as long as self; its program has ended, and
        // nobody else has the file in this private directory.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: our own mapping, of which no slice is left.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
        }
    }
}
