//! The log of a thread: a file that is memory, so that what stands in it stays whatever becomes of
//! the process.
//!
//! The head and the records are described where they are read: `preload` in the crate
//! `plimsoll-trace`.

use core::ffi::{CStr, c_int};

use crate::{head, kernel};

/// The most that a record takes: two names of the greatest length, and all the rest. Bytes.
pub const MAX_RECORD: usize = 2 * (libc::PATH_MAX as usize + 8) + 256;
/// The most that a head takes, bytes.
pub const MAX_HEAD: usize = 48 * 1024;
const FIRST_STEP: usize = 64 * 1024;
const MAX_STEP: usize = 4 * 1024 * 1024;
/// Sizes of pages of all kernels that there are divide it.
const GRAIN: u64 = 64 * 1024;

/// Where a log lies: a range of it is memory, from which the next range is made when it is full.
#[derive(Clone, Copy)]
pub struct Log {
    /// The name of its file, in the directory of the recording.
    name: [u8; 48],
    window: *mut u64,
    /// Bytes of the window.
    length: usize,
    /// Where in the file the window begins.
    offset: u64,
    /// Where in memory the next record goes.
    next: *mut u64,
}

impl Log {
    /// None yet.
    pub const NONE: Self = Self {
        name: [0; 48],
        window: core::ptr::null_mut(),
        length: 0,
        offset: 0,
        next: core::ptr::null_mut(),
    };

    /// Makes the file of a thread, with its head. None where that cannot be done: the thread is not
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
        // Whatever the program's umask is, the log can be opened again.
        kernel::change_mode(number, 0o600);
        let mapped = log.map(number, 0, FIRST_STEP);
        kernel::close(number);
        mapped?;
        // SAFETY: the window is longer than the longest head, and nobody else has it.
        let written = unsafe { head::write(log.window.cast(), MAX_HEAD, is_image) };
        // SAFETY: within the window.
        log.next = unsafe { log.window.add(written / 8) };
        Some(log)
    }

    /// A place for a record of this many bytes, at most [`MAX_RECORD`]. None where the file cannot
    /// grow.
    #[inline]
    pub fn place(&mut self, bytes: usize) -> Option<*mut u64> {
        if self.used() + bytes > self.length {
            self.grow()?;
        }
        Some(self.next)
    }

    /// This many words have been written to the place.
    #[inline]
    pub fn advance(&mut self, words: usize) {
        // SAFETY: not more than the place has, which lies in the window.
        self.next = unsafe { self.next.add(words) };
    }

    /// The thread has ended: its file is cut to what it holds.
    pub fn end(&mut self) {
        if self.window.is_null() {
            return;
        }
        if let Ok(number) = self.open(0) {
            let _ = kernel::set_length(number, self.offset + self.used() as u64);
            kernel::close(number);
        }
        // SAFETY: `NONE` takes its place.
        unsafe { kernel::unmap(self.window, self.length) };
        *self = Self::NONE;
    }

    /// Whether this place lies in memory now.
    pub fn holds(&self, place: *const u64) -> bool {
        let begin = self.window as usize;
        (begin..begin + self.length).contains(&(place as usize))
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
        // SAFETY: the record begins within the first grain of the new window.
        self.next = unsafe { self.window.add((reached - begin) as usize / 8) };
        // SAFETY: `self` has the new one, and what stands in the old one is the file's.
        unsafe { kernel::unmap(window, length) };
        Some(())
    }

    /// Makes a range of the file the window. It is reserved on the disk first: writing to memory
    /// for which there is no room would kill the program.
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

/// A short text, without memory of its own.
pub struct Text {
    bytes: [u8; 48],
    length: usize,
}

impl Text {
    /// Of these bytes, at most 48.
    pub fn new(start: &[u8]) -> Self {
        let mut text = Self {
            bytes: [0; 48],
            length: 0,
        };
        text.push(start);
        text
    }

    /// Appends; what does not fit is left out.
    pub fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = byte;
                self.length += 1;
            }
        }
    }

    /// Appends a number, decimal.
    pub fn number(&mut self, number: u64) {
        if number > 9 {
            self.number(number / 10);
        }
        self.push(&[b'0' + (number % 10) as u8]);
    }

    /// For the kernel. Empty where it has no room for its end.
    pub fn as_c(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}
