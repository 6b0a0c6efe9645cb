//! Recording of calls by a thread: the start of a call, its end, and the record.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{Ordering, compiler_fence};

use plimsoll_preload_log::{LOST, extra};

use crate::calls::Call;
use crate::encode::{self, Out};
use crate::log::{Log, MAX_RECORD};
use crate::thread::Thread;
use crate::{clock, kernel, next, process};

/// If a call, or the time between two calls, takes longer than this, the processor time is read.
/// Unit: ns. Reading it takes about 200 ns.
const LONG_NS: u64 = 20_000;

/// The start of a call.
#[derive(Clone, Copy)]
pub struct CallStart {
    pub start_ns: u64,
    /// Total processor time of the thread, ns. It is read only if the previous call ended long ago.
    processor_ns: Option<u64>,
    pid: u32,
}

/// The result of a call.
#[derive(Clone, Copy)]
pub struct CallEnd {
    /// The return value, or -1.
    pub value: i64,
    /// The error number if the call failed, otherwise 0.
    pub errno: u16,
    /// The call was made inside libc and was inferred from its effect.
    pub inferred: bool,
}

impl CallEnd {
    /// A call that returned this value.
    pub fn returned(value: i64) -> Self {
        Self {
            value,
            errno: 0,
            inferred: false,
        }
    }

    /// A call that failed with this error.
    pub fn failed(errno: c_int) -> Self {
        Self {
            value: -1,
            errno: errno as u16,
            inferred: false,
        }
    }

    /// The result of a function that returns -1 and sets errno if it fails.
    pub fn from_return(value: i64) -> Self {
        if value == -1 {
            Self::failed(next::errno())
        } else {
            Self::returned(value)
        }
    }
}

/// A record that was written before its call had ended.
pub struct OpenRecord {
    call: Call,
    address: *mut u64,
    begun: CallStart,
}

/// Starts a call. None if it is not recorded.
#[inline]
pub fn begin() -> Option<CallStart> {
    if process::is_off() {
        return None;
    }
    Thread::own().begin()
}

/// Starts a function that may turn out to make no system call. The processor time is read only if
/// it makes one.
#[inline]
pub fn begin_perhaps() -> Option<CallStart> {
    if process::is_off() {
        return None;
    }
    Thread::own().begin_perhaps()
}

/// Records a call that ends now. errno does not change.
///
/// # Safety
/// `words` must be the arguments of the call, so that its texts can be read.
pub unsafe fn end(begun: Option<CallStart>, call: Call, words: &[i64], ended: CallEnd) {
    if let Some(begun) = begun {
        // SAFETY: the caller guarantees it.
        unsafe { Thread::own().end(begun, call, words, ended) };
    }
}

/// Writes a record before the call ends, because it may never return. [`finish`] completes it.
///
/// # Safety
/// See [`end`].
pub unsafe fn open(begun: Option<CallStart>, call: Call, words: &[i64]) -> Option<OpenRecord> {
    let begun = begun?;
    let now = begun.start_ns;
    // SAFETY: the caller guarantees it.
    let address =
        unsafe { Thread::own().write(begun, now, call, words, CallEnd::returned(0), extra::UNFINISHED) }?;
    Some(OpenRecord { call, address, begun })
}

/// Completes a record of [`open`] when the call has returned.
///
/// # Safety
/// `open` must be the last record of the thread, except for those of a child that shares its
/// memory.
pub unsafe fn finish(open: &OpenRecord, ended: CallEnd) {
    let thread = Thread::own();
    if thread.pid.get() != open.begun.pid {
        return;
    }
    let now = clock::monotonic();
    // SAFETY: a record that begins in the window lies in it completely. The new record has no
    // arguments, so no address is read.
    unsafe {
        if (*thread.log.get()).contains(open.address) {
            encode::finish(open.address, now - open.begun.start_ns, ended);
        } else {
            // A child that shares the memory has filled the window. The record in the previous
            // window stays unfinished.
            thread.write(open.begun, now, open.call, &[], ended, 0);
        }
    }
    thread.note_end(open.begun.start_ns, now);
}

/// Sets the child that runs with the memory of this thread; 0 ends that.
pub fn lend(child: u32) {
    Thread::own().borrower.set(child);
}

/// Closes the log of a thread that ends. If the thread makes further calls, they are recorded in
/// another log.
pub fn close_log() {
    let thread = Thread::own();
    if thread.pid.get() == process::pid() {
        thread.busy.set(true);
        // SAFETY: `busy` excludes other users of the log. A previous log belongs to another
        // process.
        unsafe { (*thread.log.get()).end() };
        thread.pid.set(0);
        thread.busy.set(false);
    }
}

impl Thread {
    #[inline]
    fn begin(&self) -> Option<CallStart> {
        let mut begun = self.begin_perhaps()?;
        if begun.start_ns.saturating_sub(self.ended_ns.get()) > LONG_NS {
            begun.processor_ns = Some(clock::processor());
        }
        Some(begun)
    }

    #[inline]
    fn begin_perhaps(&self) -> Option<CallStart> {
        if self.pid.get() != process::pid() || self.pid.get() == 0 {
            self.begin_log()?;
        }
        Some(CallStart {
            start_ns: clock::monotonic(),
            processor_ns: None,
            pid: self.pid.get(),
        })
    }

    #[cold]
    fn begin_log(&self) -> Option<()> {
        if !process::begin() {
            return None;
        }
        // In a child of fork, `busy` may have been set by the parent; it has no meaning in the
        // child.
        let inherited = self.pid.replace(0) != 0;
        if self.busy.replace(true) && !inherited {
            return None;
        }
        let (pid, _, tid) = kernel::ids();
        let is_image = process::take_new_image();
        let now = clock::monotonic();
        let log = Log::make(pid, tid, now, is_image);
        // SAFETY: `busy` excludes other users of the log. A previous log belongs to another
        // process.
        unsafe { *self.log.get() = log.unwrap_or(Log::NONE) };
        self.lost.store(0, Ordering::Relaxed);
        self.borrower.set(0);
        // A new thread has used no processor time, and its start time is not known: it is estimated
        // from the processor time used. A program may have used processor time before.
        let used = clock::processor();
        let now = clock::monotonic();
        let (read_ns, used_before) = if is_image {
            (now, used)
        } else {
            (now.saturating_sub(used), 0)
        };
        self.ended_ns.set(read_ns);
        self.asked_ns.set(read_ns);
        self.processor_ns.set(used_before);
        // Set last, because `pid` states that the thread has a log.
        self.pid.set(pid);
        self.busy.set(false);
        crate::processes::close_log_at_thread_end();
        Some(())
    }

    /// Processor time since the previous call, ns. None if that call ended less than [`LONG_NS`]
    /// ago. Shorter intervals since the processor time was last read count as computing, as does a
    /// call for which it was not read at the start.
    #[inline]
    fn processor(&self, begun: CallStart, now_ns: u64) -> Option<u64> {
        let idle = begun.start_ns.saturating_sub(self.ended_ns.get());
        if idle <= LONG_NS {
            return None;
        }
        let before = || clock::processor().saturating_sub(now_ns - begun.start_ns);
        let used = begun.processor_ns.unwrap_or_else(before);
        let since = used.saturating_sub(self.processor_ns.get());
        let short = self.ended_ns.get().saturating_sub(self.asked_ns.get());
        self.processor_ns.set(used);
        self.asked_ns.set(begun.start_ns);
        Some(since.saturating_sub(short).min(idle))
    }

    unsafe fn end(&self, begun: CallStart, call: Call, words: &[i64], ended: CallEnd) {
        let now = clock::monotonic();
        // SAFETY: the caller guarantees it.
        unsafe { self.write(begun, now, call, words, ended, 0) };
        self.note_end(begun.start_ns, now);
    }

    /// Notes the end of a call. The processor time is read after a long call, which may have waited
    /// or computed.
    #[inline]
    fn note_end(&self, start_ns: u64, now_ns: u64) {
        if now_ns - start_ns > LONG_NS {
            self.processor_ns.set(clock::processor());
            self.asked_ns.set(now_ns);
        }
        self.ended_ns.set(now_ns);
    }

    /// Writes a record and returns its address. None if it is lost.
    unsafe fn write(
        &self,
        begun: CallStart,
        now_ns: u64,
        call: Call,
        words: &[i64],
        ended: CallEnd,
        extras: u8,
    ) -> Option<*mut u64> {
        // The pids also differ in a child that was not made by a function of this library.
        if begun.pid != process::pid() || self.pid.get() != begun.pid {
            return None;
        }
        if self.busy.replace(true) {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        compiler_fence(Ordering::AcqRel);
        // SAFETY: `busy` excludes other users of the log; the caller guarantees the words.
        let address = unsafe {
            let log = &mut *self.log.get();
            self.write_losses(log, now_ns);
            let address = log.reserve(MAX_RECORD);
            if let Some(address) = address {
                let mut out = Out::new(address, extras);
                out.put_times(
                    begun.start_ns,
                    now_ns,
                    self.processor(begun, now_ns),
                    self.borrower.get(),
                    ended,
                );
                out.put_words(call, words, ended.errno);
                log.advance(out.commit(call as u16, ended.errno));
            } else {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
            address
        };
        compiler_fence(Ordering::AcqRel);
        self.busy.set(false);
        address
    }

    #[inline]
    unsafe fn write_losses(&self, log: &mut Log, now_ns: u64) {
        let lost = self.lost.load(Ordering::Relaxed);
        if lost == 0 {
            return;
        }
        if let Some(address) = log.reserve(MAX_RECORD) {
            // SAFETY: the log has reserved space for a record.
            unsafe {
                let mut out = Out::new(address, 0);
                for word in [now_ns, 0, lost] {
                    out.put(word);
                }
                log.advance(out.commit(LOST, 0));
            }
            // Subtract instead of setting 0: a signal handler may have lost another record in
            // between.
            self.lost.fetch_sub(lost, Ordering::Relaxed);
        }
    }
}

/// A return type of a replaced function.
pub trait Returns: Copy {
    /// The result of the call.
    fn ended(self) -> CallEnd;
}

impl Returns for c_int {
    fn ended(self) -> CallEnd {
        CallEnd::from_return(i64::from(self))
    }
}

impl Returns for isize {
    fn ended(self) -> CallEnd {
        CallEnd::from_return(self as i64)
    }
}

impl Returns for i64 {
    fn ended(self) -> CallEnd {
        CallEnd::from_return(self)
    }
}

impl Returns for u32 {
    fn ended(self) -> CallEnd {
        CallEnd::returned(i64::from(self))
    }
}

impl Returns for () {
    fn ended(self) -> CallEnd {
        CallEnd::returned(0)
    }
}

impl Returns for *mut c_void {
    fn ended(self) -> CallEnd {
        CallEnd::from_return(self as i64)
    }
}

/// The result of a function that returns its error number instead of setting errno.
pub fn by_errno(errno: c_int) -> CallEnd {
    if errno == 0 {
        CallEnd::returned(0)
    } else {
        CallEnd::failed(errno)
    }
}

/// Makes a call and records it.
///
/// # Safety
/// See [`end`].
#[inline]
pub unsafe fn around<R: Returns>(call: Call, words: &[i64], make: impl FnOnce() -> R) -> R {
    let begun = begin();
    let returned = make();
    // SAFETY: the caller guarantees it.
    unsafe { end(begun, call, words, returned.ended()) };
    returned
}
