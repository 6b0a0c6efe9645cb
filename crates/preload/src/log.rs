//! The log of a thread: a memory-mapped file, so its records remain after a kill.
//!
//! The crate `plimsoll-preload-log` describes the format.

use core::ffi::{CStr, c_int};

use crate::{head, kernel};

/// Maximum length of a record, bytes: two texts of the maximum length, and the numbers.
pub const MAX_RECORD: usize = 2 * (libc::PATH_MAX as usize + 8) + 256;
/// Maximum length of a head, bytes.
pub const MAX_HEAD: usize = 48 * 1024;
const FIRST_STEP: usize = 64 * 1024;
const MAX_STEP: usize = 4 * 1024 * 1024;
/// Alignment of a window in the file, bytes: a multiple of the page size of every kernel.
const GRAIN: u64 = 64 * 1024;

/// A log. A range of its file, the window, is mapped. When the window is full, the next range is
/// mapped.
#[derive(Clone, Copy)]
pub struct Log {
    /// The name of the file, in the directory of the recording.
    name: [u8; 48],
    window: *mut u64,
    /// Length of the window, bytes.
    length: usize,
    /// Offset of the window in the file, bytes.
    offset: u64,
    /// Address of the next record.
    next: *mut u64,
}

impl Log {
    /// No log.
    pub const NONE: Self = Self {
        name: [0; 48],
        window: core::ptr::null_mut(),
        length: 0,
        offset: 0,
        next: core::ptr::null_mut(),
    };

    /// Creates the file of a thread and writes its head. None if that fails: the thread is not
    /// recorded.
    pub fn make(pid: u32, tid: u32, now_ns: u64, is_image: bool) -> Option<Self> {
        let mut log = Self::NONE;
        let mut number = Err(0);
        for attempt in 0..100 {
            log.name = name(pid, tid, now_ns + attempt);
            number = log.open(libc::O_CREAT | libc::O_EXCL);
            if number != Err(libc::EEXIST as u16) {
                break;
            }
        }
        let number = number.ok()?;
        // The file can be opened again, independent of the program's umask.
        kernel::change_mode(number, 0o600);
        let mapped = log.map(number, 0, FIRST_STEP);
        kernel::close(number);
        mapped?;
        // SAFETY: the window is longer than the longest head, and no other code has access to it.
        let written = unsafe { head::write(log.window.cast(), MAX_HEAD, is_image) };
        // SAFETY: within the window.
        log.next = unsafe { log.window.add(written / 8) };
        Some(log)
    }

    /// The address for a record of at most `bytes` bytes, which must not exceed [`MAX_RECORD`].
    /// None if the file cannot grow.
    #[inline]
    pub fn reserve(&mut self, bytes: usize) -> Option<*mut u64> {
        if self.used() + bytes > self.length {
            self.grow()?;
        }
        Some(self.next)
    }

    /// Ends a record: this many words were written to the reserved address.
    #[inline]
    pub fn advance(&mut self, words: usize) {
        // SAFETY: the record fits in the window, see `reserve`.
        self.next = unsafe { self.next.add(words) };
    }

    /// Closes the log when its thread ends: unmaps it and cuts the file to its contents.
    pub fn end(&mut self) {
        if self.window.is_null() {
            return;
        }
        if let Ok(number) = self.open(0) {
            let _ = kernel::set_length(number, self.offset + self.used() as u64);
            kernel::close(number);
        }
        // SAFETY: `self` becomes `NONE`, so the mapping is not used again.
        unsafe { kernel::unmap(self.window, self.length) };
        *self = Self::NONE;
    }

    /// Whether this address lies in the mapped window.
    pub fn contains(&self, address: *const u64) -> bool {
        let begin = self.window as usize;
        (begin..begin + self.length).contains(&(address as usize))
    }

    fn used(&self) -> usize {
        self.next as usize - self.window as usize
    }

    #[cold]
    fn grow(&mut self) -> Option<()> {
        if self.window.is_null() {
            return None;
        }
        let used = self.used();
        let (window, length) = (self.window, self.length);
        let reached = self.offset + used as u64;
        let begin = reached / GRAIN * GRAIN;
        let step = (self.length * 2).min(MAX_STEP);
        let number = self.open(0).ok()?;
        let mapped = self.map(number, begin, step);
        kernel::close(number);
        mapped?;
        // SAFETY: the record begins within the first `GRAIN` bytes of the new window.
        self.next = unsafe { self.window.add((reached - begin) as usize / 8) };
        // SAFETY: `self` uses the new window; the records of the old one are in the file.
        unsafe { kernel::unmap(window, length) };
        Some(())
    }

    /// Maps a range of the file as the window. The range is reserved on the disk first: without
    /// free space a write to the mapping would kill the program.
    fn map(&mut self, number: c_int, offset: u64, length: usize) -> Option<()> {
        let end = offset + length as u64;
        if end > kernel::largest_file() {
            return None;
        }
        match kernel::allocate(number, offset, length) {
            Ok(_) => {}
            Err(errno) if c_int::from(errno) == libc::EOPNOTSUPP => {
                kernel::set_length(number, end).ok()?;
            }
            Err(_) => return None,
        }
        self.window = kernel::map(number, offset, length).ok()?;
        self.offset = offset;
        self.length = length;
        Some(())
    }

    fn open(&self, flags: c_int) -> Result<c_int, u16> {
        let mut path = [0; crate::process::MAX_DIRECTORY + 64];
        let directory = crate::process::directory();
        let name = self.name.iter().take_while(|&&byte| byte != 0);
        for (to, from) in path.iter_mut().zip(directory.iter().chain(b"/").chain(name)) {
            *to = *from;
        }
        let path = CStr::from_bytes_until_nul(&path).map_err(|_| 0_u16)?;
        kernel::open(path, libc::O_RDWR | libc::O_NOFOLLOW | flags, 0o600)
    }
}

/// `PID-TID-NS.calls`
fn name(pid: u32, tid: u32, now_ns: u64) -> [u8; 48] {
    let mut text = Text {
        bytes: [0; 48],
        length: 0,
    };
    text.number(u64::from(pid));
    text.push(b"-");
    text.number(u64::from(tid));
    text.push(b"-");
    text.number(now_ns);
    text.push(b".calls");
    text.bytes
}

/// A short text without allocated memory.
pub struct Text {
    bytes: [u8; 48],
    length: usize,
}

impl Text {
    /// A text that starts with these bytes, at most 48.
    pub fn new(start: &[u8]) -> Self {
        let mut text = Self {
            bytes: [0; 48],
            length: 0,
        };
        text.push(start);
        text
    }

    /// Appends bytes. Those that do not fit are dropped.
    pub fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if let Some(target) = self.bytes.get_mut(self.length) {
                *target = byte;
                self.length += 1;
            }
        }
    }

    /// Appends a decimal number.
    pub fn number(&mut self, number: u64) {
        if number > 9 {
            self.number(number / 10);
        }
        self.push(&[b'0' + (number % 10) as u8]);
    }

    /// The text with a terminating 0, for the kernel. Empty if there is no space for the 0.
    pub fn as_c(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}
