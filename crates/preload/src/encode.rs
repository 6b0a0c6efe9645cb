//! A record as it stands in a log, which is described where it is read.

use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{Ordering, compiler_fence};

use crate::calls::{Call, Kind, TABLE};
use crate::record::CallEnd;

/// A word that a call does not have: not written.
pub const ABSENT: i64 = i64::MIN;

/// What a record has besides its words.
pub mod extra {
    pub const PROCESSOR: u8 = 1;
    pub const FIRST_TEXT: u8 = 2;
    pub const SECOND_TEXT: u8 = 4;
    pub const STATUS: u8 = 8;
    pub const PAIR: u8 = 16;
    pub const OTHER_THREAD: u8 = 32;
    pub const UNFINISHED: u8 = 64;
    pub const INFERRED: u8 = 128;
}

/// A record on its way.
pub struct Out {
    begin: *mut u64,
    next: *mut u64,
    given: u8,
    extras: u8,
}

impl Out {
    pub unsafe fn new(begin: *mut u64, extras: u8) -> Self {
        // SAFETY: a place is longer than any record.
        let next = unsafe { begin.add(1) };
        Self {
            begin,
            next,
            given: 0,
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
    pub unsafe fn fill(
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

    /// The numbers first, then what the call points to.
    #[inline]
    pub unsafe fn words(&mut self, call: Call, words: &[i64], errno: u16) {
        let kinds = TABLE[call as usize].kinds;
        let mut pointers = false;
        for (place, (&kind, &word)) in kinds.iter().zip(words).enumerate() {
            match kind {
                Kind::Number if word != ABSENT => {
                    self.given |= 1 << place;
                    // SAFETY: at most six words.
                    unsafe { self.put(word.cast_unsigned()) };
                }
                Kind::Number | Kind::Skip => {}
                _ => pointers = true,
            }
        }
        // A pointer that the kernel could not follow is not followed here.
        if pointers && c_int::from(errno) != libc::EFAULT {
            let told = |&(&kind, &word): &(&Kind, &i64)| {
                !matches!(kind, Kind::Number | Kind::Skip) && word != 0 && word != ABSENT
            };
            let pointed = kinds.iter().zip(words).filter(told);
            for (&kind, &word) in pointed.clone().filter(|_| errno == 0) {
                // SAFETY: the kernel has filled it.
                unsafe { self.filled(kind, word as usize as *const c_void) };
            }
            for (_, &name) in pointed.filter(|&(&kind, _)| kind == Kind::Text) {
                // SAFETY: the kernel has read it.
                unsafe { self.text(name as usize as *const c_char) };
            }
        }
    }

    unsafe fn filled(&mut self, kind: Kind, from: *const c_void) {
        // SAFETY: the caller's.
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
                    self.status(u64::from(mode), size.cast_unsigned());
                }
                Kind::Statx => {
                    let status = from.cast::<libc::statx>();
                    let mode = (&raw const (*status).stx_mode).read_unaligned();
                    let size = (&raw const (*status).stx_size).read_unaligned();
                    self.status(u64::from(mode), size);
                }
                _ => {}
            }
        }
    }

    unsafe fn status(&mut self, mode: u64, size: u64) {
        self.extras |= extra::STATUS;
        // SAFETY: two words.
        unsafe {
            self.put(mode);
            self.put(size);
        }
    }

    unsafe fn text(&mut self, from: *const c_char) {
        // SAFETY: it ends with 0, or the kernel has refused it for its length.
        let length = unsafe { libc::strnlen(from, libc::PATH_MAX as usize) };
        let is_first = self.extras & extra::FIRST_TEXT == 0;
        self.extras |= if is_first {
            extra::FIRST_TEXT
        } else {
            extra::SECOND_TEXT
        };
        // SAFETY: the place has room for two texts of the greatest length.
        unsafe {
            self.put(length as u64);
            ptr::copy_nonoverlapping(from.cast::<u8>(), self.next.cast::<u8>(), length);
            self.next = self.next.add(length.div_ceil(8));
        }
    }

    /// The first word makes the record valid: how many words it has, what it is, how it has failed.
    /// How many words that are.
    #[inline]
    pub unsafe fn commit(self, call: u16, errno: u16) -> usize {
        // SAFETY: both point into the place.
        let words = unsafe { self.next.offset_from_unsigned(self.begin) };
        let head = words as u64
            | u64::from(call) << 16
            | u64::from(errno) << 32
            | u64::from(self.given) << 48
            | u64::from(self.extras) << 56;
        compiler_fence(Ordering::Release);
        // SAFETY: the first word of the place.
        unsafe { self.begin.write(head) };
        words
    }
}

/// What is known now of a record that was written before its call had ended.
///
/// # Safety
/// It must stand there.
pub unsafe fn finish(record: *mut u64, duration_ns: u64, ended: CallEnd) {
    // SAFETY: the caller's: a record has four words and more.
    unsafe {
        record.add(2).write(duration_ns);
        record.add(3).write(ended.value.cast_unsigned());
        let head = record.read() & !(u64::from(extra::UNFINISHED) << 56);
        compiler_fence(Ordering::Release);
        record.write(head | u64::from(ended.errno) << 32);
    }
}
