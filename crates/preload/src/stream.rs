//! Streams of stdio, as glibc lays them out: programs of all times read the first fields themselves
//! (getc was a macro), so that they have never changed.

use core::ffi::{c_char, c_int};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::calls::Call;
use crate::kernel;
use crate::record::{self, CallEnd, CallStart};

/// It has data that are to be written.
const PUTTING: c_int = 0x800;

/// `FILE`.
#[repr(C)]
pub struct Stream {
    flags: c_int,
    read_next: *const u8,
    read_end: *const u8,
    read_begin: *const u8,
    write_begin: *const u8,
    write_next: *const u8,
    write_end: *const u8,
    /// What backs up a buffer, and a list of all streams.
    buffer: [*const u8; 7],
    descriptor: c_int,
}

/// What a function does with a stream, besides writing what was to be written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It reads.
    Read,
    /// It moves.
    Seek,
}

/// How the stream of a function stood before it.
pub struct Before {
    begun: CallStart,
    fd: c_int,
    pending: i64,
    /// In the file, where that has to be known.
    position: Option<i64>,
}

impl Stream {
    /// Its descriptor; -1 where it has none.
    pub fn descriptor(&self) -> c_int {
        self.descriptor
    }

    /// Data that are read already, bytes.
    pub fn available(&self) -> &[u8] {
        if self.read_next.is_null() || self.read_next >= self.read_end {
            return &[];
        }
        let length = self.read_end as usize - self.read_next as usize;
        // SAFETY: glibc's buffer; the thread that reads has locked the stream, or is the only one.
        unsafe { core::slice::from_raw_parts(self.read_next, length) }
    }

    /// How many bytes can be added without any being written.
    pub fn room(&self) -> usize {
        (self.write_end as usize).saturating_sub(self.write_next as usize)
    }

    /// Data that are to be written, bytes.
    fn pending(&self) -> i64 {
        if self.flags & PUTTING == 0 {
            return 0;
        }
        (self.write_next as usize).saturating_sub(self.write_begin as usize) as i64
    }

    /// More was read than the program has taken, or will write over: the kernel is told to go back
    /// first.
    fn is_ahead(&self) -> bool {
        let reached = if self.flags & PUTTING == 0 {
            self.read_next
        } else {
            self.write_begin
        };
        self.read_end != reached
    }

    /// Data that were read at once, of which some may have been taken: bytes.
    fn filled(&self) -> i64 {
        if self.flags & PUTTING != 0 {
            return 0;
        }
        (self.read_end as usize).saturating_sub(self.read_begin as usize) as i64
    }
}

/// A function that reads or moves is about to be called. None where it is not recorded, or the
/// stream is a pipe or the like: only of files is it seen what it does.
///
/// # Safety
/// It must be a stream.
pub unsafe fn before(stream: *const Stream) -> Option<Before> {
    let begun = record::begin_perhaps()?;
    // SAFETY: the caller's.
    let stream = unsafe { stream.as_ref() }?;
    let position = Some(kernel::position(stream.descriptor)?);
    Some(Before {
        begun,
        fd: stream.descriptor,
        pending: stream.pending(),
        position,
    })
}

/// It was called: what the kernel must have done is recorded.
///
/// # Safety
/// It must be the same stream, still open.
pub unsafe fn after(before: Option<Before>, stream: *const Stream, way: Way) {
    let Some(before) = before else { return };
    let (Some(stood), Some(position)) = (before.position, kernel::position(before.fd)) else {
        return;
    };
    let mut told = FunctionRecords::of(&before);
    let mut moved = position - stood;
    if before.pending > 0 && (way == Way::Seek || moved >= before.pending) {
        told.moved(Call::Write, before.pending);
        moved -= before.pending;
    }
    match way {
        _ if moved == 0 => {}
        Way::Read if moved > 0 => told.moved(Call::Read, moved),
        Way::Read => told.sought(position),
        Way::Seek => {
            // SAFETY: the caller's.
            let filled = unsafe { (*stream).filled() }.min(position);
            told.sought(position - filled);
            if filled > 0 {
                told.moved(Call::Read, filled);
            }
        }
    }
}

/// A function that writes is about to be called. None where it is not recorded.
///
/// # Safety
/// It must be a stream.
pub unsafe fn before_write(stream: *const Stream) -> Option<Before> {
    let begun = record::begin_perhaps()?;
    // SAFETY: the caller's.
    let stream = unsafe { stream.as_ref() }?;
    Some(Before {
        begun,
        fd: stream.descriptor,
        pending: stream.pending(),
        position: if stream.is_ahead() {
            kernel::position(stream.descriptor)
        } else {
            None
        },
    })
}

/// It was called, and has added so many bytes to the stream: what is not there any more was
/// written.
///
/// # Safety
/// It must be the same stream, still open.
pub unsafe fn after_write(before: Option<Before>, stream: *const Stream, added: i64) {
    let Some(before) = before else { return };
    // SAFETY: the caller's.
    let pending = unsafe { (*stream).pending() };
    let written = before.pending + added - pending;
    let mut told = FunctionRecords::of(&before);
    if let Some(stood) = before.position
        && let Some(position) = kernel::position(before.fd)
        && position != stood
    {
        told.sought(position - written.max(0));
    }
    if written > 0 {
        told.moved(Call::Write, written);
    }
}

/// What is to be written will be now, and nobody can look afterwards.
///
/// # Safety
/// It must be a stream.
pub unsafe fn flushed(stream: *const Stream) {
    // SAFETY: the caller's.
    let Some(before) = (unsafe { before_write(stream) }) else {
        return;
    };
    if before.pending > 0 {
        FunctionRecords::of(&before).moved(Call::Write, before.pending);
    }
}

/// Records of one function; all but the first one take no time.
struct FunctionRecords {
    begun: Option<CallStart>,
    fd: c_int,
}

impl FunctionRecords {
    fn of(before: &Before) -> Self {
        Self {
            begun: Some(before.begun),
            fd: before.fd,
        }
    }

    fn moved(&mut self, call: Call, bytes: i64) {
        self.tell(call, &[i64::from(self.fd), 0, bytes], bytes);
    }

    fn sought(&mut self, position: i64) {
        let words = [i64::from(self.fd), position, i64::from(libc::SEEK_SET)];
        self.tell(Call::Lseek, &words, position);
    }

    fn tell(&mut self, call: Call, words: &[i64], value: i64) {
        let begun = self.begun.take().or_else(record::begin);
        let ended = CallEnd {
            inferred: true,
            ..CallEnd::with(value)
        };
        // SAFETY: these calls have no pointers.
        unsafe { record::end(begun, call, words, ended) };
    }
}

/// Streams that are open, by their descriptors: fflush(NULL) and the end of the program write them
/// all. Higher descriptors are rare, and what is written of them then is not seen.
const REMEMBERED: usize = 1024;
static STREAMS: [AtomicPtr<Stream>; REMEMBERED] = [const { AtomicPtr::new(ptr::null_mut()) }; REMEMBERED];

/// A stream is open now.
pub fn remember(stream: *mut Stream) {
    // SAFETY: a stream, or null.
    let fd = unsafe { stream.as_ref() }.map_or(-1, Stream::descriptor);
    if let Some(place) = usize::try_from(fd).ok().and_then(|fd| STREAMS.get(fd)) {
        place.store(stream, Ordering::Relaxed);
    }
}

/// It is closed.
pub fn forget(fd: c_int) {
    if let Some(place) = usize::try_from(fd).ok().and_then(|fd| STREAMS.get(fd)) {
        place.store(ptr::null_mut(), Ordering::Relaxed);
    }
}

/// All of them are written now.
pub fn all_flushed() {
    for stream in &STREAMS {
        let stream = stream.load(Ordering::Relaxed);
        if !stream.is_null() {
            // SAFETY: it is open, as nobody has told that it was closed.
            unsafe { flushed(stream) };
        }
    }
}

/// The flags of open(2) of which fopen's mode is made, and whether it goes to the end of the file.
///
/// # Safety
/// It must end with 0.
pub unsafe fn flags(mode: *const c_char) -> (c_int, bool) {
    // SAFETY: the caller's.
    let mode = unsafe { core::ffi::CStr::from_ptr(mode) }.to_bytes();
    let (kind, letters) = mode.split_first().unwrap_or((&b'r', b""));
    let letters = letters.split(|&letter| letter == b',').next().unwrap_or_default();
    let has = |letter| letters.contains(&letter);
    let access = match (kind, has(b'+')) {
        (_, true) => libc::O_RDWR,
        (b'r', false) => libc::O_RDONLY,
        _ => libc::O_WRONLY,
    };
    let makes = match kind {
        b'w' => libc::O_CREAT | libc::O_TRUNC,
        b'a' => libc::O_CREAT | libc::O_APPEND,
        _ => 0,
    };
    let marked = if has(b'e') { libc::O_CLOEXEC } else { 0 };
    let new = if has(b'x') { libc::O_EXCL } else { 0 };
    (access | makes | marked | new, *kind == b'a')
}
