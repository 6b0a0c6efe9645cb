//! What a thread records: a call begins, is made, and is written down.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{Ordering, compiler_fence};

use crate::calls::Call;
use crate::encode::{self, Out, extra};
use crate::log::{Log, MAX_RECORD};
use crate::thread::Thread;
use crate::{clock, kernel, next, process};

/// Where more time than this passes between two calls, or in one, the processor time is asked for:
/// ns. Asking costs some 200 ns.
const LONG_NS: u64 = 20_000;
/// Instead of a call: how many records are lost.
const LOST: u16 = u16::MAX;

/// A call that has begun.
#[derive(Clone, Copy)]
pub struct CallStart {
    pub start_ns: u64,
    /// Of the thread in all, where the call comes long after the one before.
    processor_ns: Option<u64>,
    pid: u32,
}

/// What is known of a call besides its words.
#[derive(Clone, Copy)]
pub struct CallEnd {
    /// What it has returned.
    pub value: i64,
    /// Where it has failed.
    pub errno: u16,
    /// libc has made it, and this library has only seen what came of it.
    pub inferred: bool,
}

impl CallEnd {
    /// It has returned this.
    pub fn with(value: i64) -> Self {
        Self {
            value,
            errno: 0,
            inferred: false,
        }
    }

    /// It has failed.
    pub fn failed(errno: c_int) -> Self {
        Self {
            value: -1,
            errno: errno as u16,
            inferred: false,
        }
    }

    /// By the value, which is -1 where errno is set.
    pub fn told(value: i64) -> Self {
        if value == -1 {
            Self::failed(next::errno())
        } else {
            Self::with(value)
        }
    }
}

/// A record that stands there before its call has ended.
pub struct Open {
    call: Call,
    place: *mut u64,
    begun: CallStart,
}

/// The call begins now. None where it is not recorded.
#[inline]
pub fn begin() -> Option<CallStart> {
    if process::is_off() {
        return None;
    }
    Thread::own().begin()
}

/// The same of a call that may turn out to be none; the processor time is asked for when it is one.
#[inline]
pub fn begin_perhaps() -> Option<CallStart> {
    if process::is_off() {
        return None;
    }
    Thread::own().begin_perhaps()
}

/// It has ended now. errno stays as it is.
///
/// # Safety
/// `words` are what the call has been given, so that its names can be read.
pub unsafe fn end(begun: Option<CallStart>, call: Call, words: &[i64], ended: CallEnd) {
    if let Some(begun) = begun {
        // SAFETY: the caller's.
        unsafe { Thread::own().end(begun, call, words, ended) };
    }
}

/// It may never end: what is known of it is written down now. [`finish`] tells more.
///
/// # Safety
/// See [`end`].
pub unsafe fn open(begun: Option<CallStart>, call: Call, words: &[i64]) -> Option<Open> {
    let begun = begun?;
    let now = begun.start_ns;
    // SAFETY: the caller's.
    let place = unsafe { Thread::own().write(begun, now, call, words, CallEnd::with(0), extra::UNFINISHED) }?;
    Some(Open { call, place, begun })
}

/// The call of such a record has ended after all.
///
/// # Safety
/// It is the last one of the thread, but for those of a child that had its memory.
pub unsafe fn finish(open: &Open, ended: CallEnd) {
    let thread = Thread::own();
    if thread.pid.get() != open.begun.pid {
        return;
    }
    let now = clock::monotonic();
    // SAFETY: a record that begins in the window lies in it; the call has no words where another
    // one is made.
    unsafe {
        if (*thread.log.get()).holds(open.place) {
            encode::finish(open.place, now - open.begun.start_ns, ended);
        } else {
            // A child with our memory has filled the window. What stands in the one of before stays
            // unfinished.
            thread.write(open.begun, now, open.call, &[], ended, 0);
        }
    }
    thread.rest(open.begun.start_ns, now);
}

/// From now on a child runs with the memory of this thread, or no more: 0.
pub fn lend(child: u32) {
    Thread::own().borrower.set(child);
}

/// The thread ends. What it may still do is recorded in another log.
pub fn leave() {
    let thread = Thread::own();
    if thread.pid.get() == process::pid() {
        thread.busy.set(true);
        // SAFETY: `busy` keeps others from it.
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
        // In a child of fork it can only be the parent who was busy; that is over.
        let inherited = self.pid.replace(0) != 0;
        if self.busy.replace(true) && !inherited {
            return None;
        }
        let (pid, _, tid) = kernel::ids();
        let is_image = process::is_new_image();
        let now = clock::monotonic();
        let log = Log::make(pid, tid, now, is_image);
        // SAFETY: `busy` keeps others from it. The one before is another process's.
        unsafe { *self.log.get() = log.unwrap_or(Log::NONE) };
        self.lost.store(0, Ordering::Relaxed);
        self.borrower.set(0);
        // A thread begins with no processor time, and with nothing said of when; a program has used
        // some before.
        let used = clock::processor();
        let now = clock::monotonic();
        let (asked, before) = if is_image {
            (now, used)
        } else {
            (now.saturating_sub(used), 0)
        };
        self.ended_ns.set(asked);
        self.asked_ns.set(asked);
        self.processor_ns.set(before);
        // Last, as a thread with a process has a log.
        self.pid.set(pid);
        self.busy.set(false);
        crate::processes::leave_at_end_of_thread();
        Some(())
    }

    /// Processor time since the call before, where that is long ago. What has passed since it was
    /// asked for last was short, and is taken for computing, as is a call that was not asked about
    /// before it began.
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
        // SAFETY: the caller's.
        unsafe { self.write(begun, now, call, words, ended, 0) };
        self.rest(begun.start_ns, now);
    }

    /// A call has ended. In a long one processor time may have passed or not.
    #[inline]
    fn rest(&self, start_ns: u64, now_ns: u64) {
        if now_ns - start_ns > LONG_NS {
            self.processor_ns.set(clock::processor());
            self.asked_ns.set(now_ns);
        }
        self.ended_ns.set(now_ns);
    }

    /// Where the record stands. None where it is lost.
    unsafe fn write(
        &self,
        begun: CallStart,
        now_ns: u64,
        call: Call,
        words: &[i64],
        ended: CallEnd,
        extras: u8,
    ) -> Option<*mut u64> {
        // Also false in a child that nobody has told us of.
        if begun.pid != process::pid() || self.pid.get() != begun.pid {
            return None;
        }
        if self.busy.replace(true) {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        compiler_fence(Ordering::AcqRel);
        // SAFETY: `busy` keeps others from the log; the words are the caller's.
        let place = unsafe {
            let log = &mut *self.log.get();
            self.tell_losses(log, now_ns);
            let place = log.place(MAX_RECORD);
            if let Some(place) = place {
                let mut out = Out::new(place, extras);
                out.fill(
                    begun.start_ns,
                    now_ns,
                    self.processor(begun, now_ns),
                    self.borrower.get(),
                    ended,
                );
                out.words(call, words, ended.errno);
                log.advance(out.commit(call as u16, ended.errno));
            } else {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
            place
        };
        compiler_fence(Ordering::AcqRel);
        self.busy.set(false);
        place
    }

    #[inline]
    unsafe fn tell_losses(&self, log: &mut Log, now_ns: u64) {
        let lost = self.lost.load(Ordering::Relaxed);
        if lost == 0 {
            return;
        }
        if let Some(place) = log.place(MAX_RECORD) {
            // SAFETY: a place of the log.
            unsafe {
                let mut out = Out::new(place, 0);
                for word in [now_ns, 0, lost] {
                    out.put(word);
                }
                log.advance(out.commit(LOST, 0));
            }
            // Not 0: a handler may have lost another record meanwhile.
            self.lost.fetch_sub(lost, Ordering::Relaxed);
        }
    }
}

/// What a wrapped function returns.
pub trait Returns: Copy {
    /// How the call has ended.
    fn ended(self) -> CallEnd;
}

impl Returns for c_int {
    fn ended(self) -> CallEnd {
        CallEnd::told(i64::from(self))
    }
}

impl Returns for isize {
    fn ended(self) -> CallEnd {
        CallEnd::told(self as i64)
    }
}

impl Returns for i64 {
    fn ended(self) -> CallEnd {
        CallEnd::told(self)
    }
}

impl Returns for u32 {
    fn ended(self) -> CallEnd {
        CallEnd::with(i64::from(self))
    }
}

impl Returns for () {
    fn ended(self) -> CallEnd {
        CallEnd::with(0)
    }
}

impl Returns for *mut c_void {
    fn ended(self) -> CallEnd {
        CallEnd::told(self as i64)
    }
}

/// The end of a function that returns its errno instead of setting it.
pub fn by_errno(errno: c_int) -> CallEnd {
    if errno == 0 {
        CallEnd::with(0)
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
    // SAFETY: the caller's.
    unsafe { end(begun, call, words, returned.ended()) };
    returned
}
