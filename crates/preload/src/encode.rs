//! Writes a record in the format of a log, which the crate `plimsoll-preload-log` describes.

use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{Ordering, compiler_fence};

use plimsoll_preload_log::{ABSENT, extra};

use crate::calls::{Call, Kind, TABLE};
use crate::record::CallEnd;

/// A record that is being written.
pub struct Out {
    begin: *mut u64,
    next: *mut u64,
    present: u8,
    extras: u8,
}

impl Out {
    pub unsafe fn new(begin: *mut u64, extras: u8) -> Self {
        // SAFETY: the caller's buffer is longer than any record.
        let next = unsafe { begin.add(1) };
        Self {
            begin,
            next,
            present: 0,
            extras,
        }
    }

    #[inline]
    pub unsafe fn put(&mut self, word: u64) {
        // SAFETY: see `new`.
        unsafe {
            self.next.write(word);
            self.next = self.next.add(1);
        }
    }

    #[inline]
    pub unsafe fn put_times(
        &mut self,
        start_ns: u64,
        now_ns: u64,
        processor_ns: Option<u64>,
        borrower: u32,
        ended: CallEnd,
    ) {
        // SAFETY: three to five words.
        unsafe {
            self.put(start_ns);
            self.put(now_ns - start_ns);
            self.put(ended.value.cast_unsigned());
            if let Some(processor_ns) = processor_ns {
                self.extras |= extra::PROCESSOR;
                self.put(processor_ns);
            }
            if borrower != 0 {
                self.extras |= extra::OTHER_THREAD;
                self.put(u64::from(borrower));
            }
        }
        if ended.inferred {
            self.extras |= extra::INFERRED;
        }
    }

    /// Writes the arguments: first the numbers, then the data that pointers refer to.
    #[inline]
    pub unsafe fn put_words(&mut self, call: Call, words: &[i64], errno: u16) {
        let kinds = TABLE[call as usize].kinds;
        let mut has_pointers = false;
        for (index, (&kind, &word)) in kinds.iter().zip(words).enumerate() {
            match kind {
                Kind::Number if word != ABSENT => {
                    self.present |= 1 << index;
                    // SAFETY: at most six words.
                    unsafe { self.put(word.cast_unsigned()) };
                }
                Kind::Number | Kind::Skip => {}
                _ => has_pointers = true,
            }
        }
        // The kernel could not read or write at one of the addresses, so none of them is
        // dereferenced.
        if has_pointers && c_int::from(errno) != libc::EFAULT {
            let is_address = |&(&kind, &word): &(&Kind, &i64)| {
                !matches!(kind, Kind::Number | Kind::Skip) && word != 0 && word != ABSENT
            };
            let pointers = kinds.iter().zip(words).filter(is_address);
            for (&kind, &word) in pointers.clone().filter(|_| errno == 0) {
                // SAFETY: the kernel has written the structure there.
                unsafe { self.put_result(kind, word as usize as *const c_void) };
            }
            for (_, &name) in pointers.filter(|&(&kind, _)| kind == Kind::Text) {
                // SAFETY: the kernel has read the text.
                unsafe { self.put_text(name as usize as *const c_char) };
            }
        }
    }

    unsafe fn put_result(&mut self, kind: Kind, from: *const c_void) {
        // SAFETY: the caller passes a pointer of this kind.
        unsafe {
            match kind {
                Kind::Pair => {
                    self.extras |= extra::PAIR;
                    self.put(from.cast::<u64>().read_unaligned());
                }
                Kind::Status => {
                    let status = from.cast::<libc::stat>();
                    let mode = (&raw const (*status).st_mode).read_unaligned();
                    let size = (&raw const (*status).st_size).read_unaligned();
                    self.put_status(u64::from(mode), size.cast_unsigned());
                }
                Kind::Statx => {
                    let status = from.cast::<libc::statx>();
                    let mode = (&raw const (*status).stx_mode).read_unaligned();
                    let size = (&raw const (*status).stx_size).read_unaligned();
                    self.put_status(u64::from(mode), size);
                }
                _ => {}
            }
        }
    }

    unsafe fn put_status(&mut self, mode: u64, size: u64) {
        self.extras |= extra::STATUS;
        // SAFETY: two words.
        unsafe {
            self.put(mode);
            self.put(size);
        }
    }

    unsafe fn put_text(&mut self, from: *const c_char) {
        // SAFETY: it ends with 0, or the kernel has refused it because of its length.
        let length = unsafe { libc::strnlen(from, libc::PATH_MAX as usize) };
        let is_first = self.extras & extra::FIRST_TEXT == 0;
        self.extras |= if is_first {
            extra::FIRST_TEXT
        } else {
            extra::SECOND_TEXT
        };
        // SAFETY: the buffer has capacity for two texts of the maximum length.
        unsafe {
            self.put(length as u64);
            ptr::copy_nonoverlapping(from.cast::<u8>(), self.next.cast::<u8>(), length);
            self.next = self.next.add(length.div_ceil(8));
        }
    }

    /// Writes the first word, which makes the record valid: its length in words, the call, errno,
    /// and the two bit sets. Returns the length in words.
    #[inline]
    pub unsafe fn commit(self, call: u16, errno: u16) -> usize {
        // SAFETY: both point into the buffer.
        let words = unsafe { self.next.offset_from_unsigned(self.begin) };
        let head = words as u64
            | u64::from(call) << 16
            | u64::from(errno) << 32
            | u64::from(self.present) << 48
            | u64::from(self.extras) << 56;
        compiler_fence(Ordering::Release);
        // SAFETY: the first word of the buffer.
        unsafe { self.begin.write(head) };
        words
    }
}

/// Adds the end of the call to a record that was written before the call had ended.
///
/// # Safety
/// `record` must point to a record of a mapped log.
pub unsafe fn finish(record: *mut u64, duration_ns: u64, ended: CallEnd) {
    // SAFETY: the caller guarantees it; a record has at least four words.
    unsafe {
        record.add(2).write(duration_ns);
        record.add(3).write(ended.value.cast_unsigned());
        let head = record.read() & !(u64::from(extra::UNFINISHED) << 56);
        compiler_fence(Ordering::Release);
        record.write(head | u64::from(ended.errno) << 32);
    }
}
