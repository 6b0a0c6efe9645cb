//! Memory-mapped files: logs of the preload recorder are read in place, also if they are large.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;

/// A file that is no longer changed, mapped for reading.
pub(crate) struct MappedFile {
    start: NonNull<u8>,
    length: usize,
}

impl MappedFile {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        if length == 0 {
            return Ok(Self {
                start: NonNull::dangling(),
                length,
            });
        }
        // SAFETY: a new mapping of an open file, at an unused address that the kernel chooses.
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

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping exists as long as self, or the length is 0. The program that wrote
        // the file has ended, and no other process uses this private directory.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: the mapping of self, to which no slice refers any more.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
        }
    }
}
