//! Streams of stdio, in the layout of glibc. Programs have always accessed the first fields
//! directly (getc was a macro), so their layout has never changed.

use core::ffi::{c_char, c_int};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::calls::Call;
use crate::kernel;
use crate::record::{self, CallEnd, CallStart};

/// Flag: the stream has data to be written.
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
    /// The buffer, its backup, and a link in the list of all streams.
    buffer: [*const u8; 7],
    descriptor: c_int,
}

/// What a function does with a stream, in addition to writing its buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Reads data.
    Read,
    /// Changes the position.
    Seek,
}

/// The state of the stream before the function was called.
pub struct Before {
    begun: CallStart,
    fd: c_int,
    pending: i64,
    /// Position in the file, where it is needed.
    position: Option<i64>,
}

impl Stream {
    /// The descriptor; -1 if the stream has none.
    pub fn descriptor(&self) -> c_int {
        self.descriptor
    }

    /// The bytes in the buffer that the program has not read yet.
    pub fn available(&self) -> &[u8] {
        if self.read_next.is_null() || self.read_next >= self.read_end {
            return &[];
        }
        let length = self.read_end as usize - self.read_next as usize;
        // SAFETY: glibc's buffer; the thread that reads has locked the stream, or is the only one.
        unsafe { core::slice::from_raw_parts(self.read_next, length) }
    }

    /// The number of bytes that can be added without a write.
    pub fn free_bytes(&self) -> usize {
        (self.write_end as usize).saturating_sub(self.write_next as usize)
    }

    /// The number of bytes that are to be written.
    fn pending(&self) -> i64 {
        if self.flags & PUTTING == 0 {
            return 0;
        }
        (self.write_next as usize).saturating_sub(self.write_begin as usize) as i64
    }

    /// Whether more was read than the program has taken or will overwrite. Then libc moves the
    /// position back before it writes.
    fn is_ahead(&self) -> bool {
        let reached = if self.flags & PUTTING == 0 {
            self.read_next
        } else {
            self.write_begin
        };
        self.read_end != reached
    }

    /// The number of bytes that the last read put into the buffer, including those that the program
    /// has taken.
    fn filled(&self) -> i64 {
        if self.flags & PUTTING != 0 {
            return 0;
        }
        (self.read_end as usize).saturating_sub(self.read_begin as usize) as i64
    }
}

/// Notes the state before a function that reads or seeks. None if it is not recorded, or if the
/// stream is not a file: only files have a position.
///
/// # Safety
/// `stream` must be a valid stream or null.
pub unsafe fn before(stream: *const Stream) -> Option<Before> {
    let begun = record::begin_perhaps()?;
    // SAFETY: the caller guarantees it.
    let stream = unsafe { stream.as_ref() }?;
    let position = Some(kernel::position(stream.descriptor)?);
    Some(Before {
        begun,
        fd: stream.descriptor,
        pending: stream.pending(),
        position,
    })
}

/// Records, after the function has returned, the system calls that it must have made.
///
/// # Safety
/// `stream` must be the same stream, still open.
pub unsafe fn after(before: Option<Before>, stream: *const Stream, way: Way) {
    let Some(before) = before else { return };
    let (Some(start), Some(position)) = (before.position, kernel::position(before.fd)) else {
        return;
    };
    let mut records = FunctionRecords::of(&before);
    let mut moved = position - start;
    if before.pending > 0 && (way == Way::Seek || moved >= before.pending) {
        records.add_transfer(Call::Write, before.pending);
        moved -= before.pending;
    }
    match way {
        _ if moved == 0 => {}
        Way::Read if moved > 0 => records.add_transfer(Call::Read, moved),
        Way::Read => records.add_seek(position),
        Way::Seek => {
            // SAFETY: the caller guarantees it.
            let filled = unsafe { (*stream).filled() }.min(position);
            records.add_seek(position - filled);
            if filled > 0 {
                records.add_transfer(Call::Read, filled);
            }
        }
    }
}

/// Notes the state before a function that writes. None if it is not recorded.
///
/// # Safety
/// `stream` must be a valid stream or null.
pub unsafe fn before_write(stream: *const Stream) -> Option<Before> {
    let begun = record::begin_perhaps()?;
    // SAFETY: the caller guarantees it.
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

/// Records, after the function has added `added` bytes to the stream, the bytes that are no longer
/// in the buffer as written.
///
/// # Safety
/// `stream` must be the same stream, still open.
pub unsafe fn after_write(before: Option<Before>, stream: *const Stream, added: i64) {
    let Some(before) = before else { return };
    // SAFETY: the caller guarantees it.
    let pending = unsafe { (*stream).pending() };
    let written = before.pending + added - pending;
    let mut records = FunctionRecords::of(&before);
    if let Some(start) = before.position
        && let Some(position) = kernel::position(before.fd)
        && position != start
    {
        records.add_seek(position - written.max(0));
    }
    if written > 0 {
        records.add_transfer(Call::Write, written);
    }
}

/// Records the bytes in the buffer as written, before a function after which the stream cannot be
/// read.
///
/// # Safety
/// `stream` must be a valid stream or null.
pub unsafe fn record_flush(stream: *const Stream) {
    // SAFETY: the caller guarantees it.
    let Some(before) = (unsafe { before_write(stream) }) else {
        return;
    };
    if before.pending > 0 {
        FunctionRecords::of(&before).add_transfer(Call::Write, before.pending);
    }
}

/// The records of one function. All except the first one have the duration 0.
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

    fn add_transfer(&mut self, call: Call, bytes: i64) {
        self.add(call, &[i64::from(self.fd), 0, bytes], bytes);
    }

    fn add_seek(&mut self, position: i64) {
        let words = [i64::from(self.fd), position, i64::from(libc::SEEK_SET)];
        self.add(Call::Lseek, &words, position);
    }

    fn add(&mut self, call: Call, words: &[i64], value: i64) {
        let begun = self.begun.take().or_else(record::begin);
        let ended = CallEnd {
            inferred: true,
            ..CallEnd::returned(value)
        };
        // SAFETY: these calls have no pointers.
        unsafe { record::end(begun, call, words, ended) };
    }
}

/// Open streams by descriptor: fflush(NULL) and the end of the program write all their buffers. For
/// higher descriptors, which are rare, these writes are not recorded.
const MAX_STREAMS: usize = 1024;
static STREAMS: [AtomicPtr<Stream>; MAX_STREAMS] = [const { AtomicPtr::new(ptr::null_mut()) }; MAX_STREAMS];

/// Registers an open stream.
pub fn remember(stream: *mut Stream) {
    // SAFETY: a valid stream or null.
    let fd = unsafe { stream.as_ref() }.map_or(-1, Stream::descriptor);
    if let Some(slot) = usize::try_from(fd).ok().and_then(|fd| STREAMS.get(fd)) {
        slot.store(stream, Ordering::Relaxed);
    }
}

/// Removes a stream that is being closed.
pub fn forget(fd: c_int) {
    if let Some(slot) = usize::try_from(fd).ok().and_then(|fd| STREAMS.get(fd)) {
        slot.store(ptr::null_mut(), Ordering::Relaxed);
    }
}

/// Records the buffers of all registered streams as written.
pub fn record_flush_of_all() {
    for stream in &STREAMS {
        let stream = stream.load(Ordering::Relaxed);
        if !stream.is_null() {
            // SAFETY: the stream is open, because fclose removes it.
            unsafe { record_flush(stream) };
        }
    }
}

/// The flags of open(2) for a mode of fopen, and whether it appends.
///
/// # Safety
/// `mode` must end with 0.
pub unsafe fn flags(mode: *const c_char) -> (c_int, bool) {
    // SAFETY: the caller guarantees it.
    let mode = unsafe { core::ffi::CStr::from_ptr(mode) }.to_bytes();
    let (kind, letters) = mode.split_first().unwrap_or((&b'r', b""));
    let letters = letters.split(|&letter| letter == b',').next().unwrap_or_default();
    let has = |letter| letters.contains(&letter);
    let access = match (kind, has(b'+')) {
        (_, true) => libc::O_RDWR,
        (b'r', false) => libc::O_RDONLY,
        _ => libc::O_WRONLY,
    };
    let creation = match kind {
        b'w' => libc::O_CREAT | libc::O_TRUNC,
        b'a' => libc::O_CREAT | libc::O_APPEND,
        _ => 0,
    };
    let close_on_exec = if has(b'e') { libc::O_CLOEXEC } else { 0 };
    let exclusive = if has(b'x') { libc::O_EXCL } else { 0 };
    (access | creation | close_on_exec | exclusive, *kind == b'a')
}
