//! Follows a whole log of strace: its lines become events.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::constants;
use crate::event::{Event, Outcome, ThreadId};
use crate::hash::BuildMixer;
use crate::implied;
use crate::kernel::{Birth, CallResult, EarlyRelease, Kernel, Request};
use crate::memo::Memo;
use crate::one_core::OneCore;
use crate::syscalls::{self, Effect, Syscall};
use crate::text::line::CallEnd;
use crate::text::{Call, Calls, LineContent, Stamp, line};
use crate::timeline::Timeline;

/// Maximum number of lines of a thread that wait until its parent is known.
const MAX_WAITING_LINES: usize = 10_000;
/// The number of an unknown error: the largest that the kernel may return.
const UNKNOWN_ERROR: u16 = 4095;

/// An event, and the call in the text.
#[derive(Debug, Clone, Copy)]
pub struct Observation<'a> {
    /// The event.
    pub event: &'a Event,
    /// The call as strace wrote it; None for an implied event.
    pub call: Option<&'a Call<'a>>,
}

/// Counts of the input that could not be interpreted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Number of lines that strace does not write, or that are cut in the middle of a log.
    pub odd_lines: u64,
    /// Number of logs whose last line is cut, as by a kill of strace.
    pub cut_lines: u64,
    /// The first of these lines, at most 200 bytes of each.
    pub examples: Vec<String>,
    /// Number of calls that this version does not know.
    pub unknown_calls: u64,
    /// Number of ends of calls without a start.
    pub halves: u64,
}

/// Maximum number of examples.
const MAX_EXAMPLES: usize = 5;

/// Follows a log, line by line.
#[derive(Debug, Default)]
pub struct Follower {
    calls: Calls,
    kernel: Kernel,
    timeline: Timeline,
    /// Cache of system calls by name.
    known: Memo<Option<&'static Syscall>>,
    /// Descriptors that unfinished calls released at their start; None for a thread whose call has
    /// ended.
    begun: HashMap<u32, Option<EarlyRelease>, BuildMixer>,
    /// Threads that are in a fork or clone, and what the child will share with them.
    forking: BTreeMap<u32, Birth>,
    /// Lines of threads whose parent may be one of several, and the times of the lines.
    waiting: BTreeMap<u32, VecDeque<(i64, Vec<u8>)>>,
    /// Attribution of processor time, if all threads share one core.
    one_core: Option<OneCore>,
    trouble: Trouble,
    /// End of the recording if calls were unfinished then: ns since the zero of the trace.
    ended_ns: Option<i64>,
    lines: u64,
    /// The number of the last malformed line, from 1.
    last_odd: u64,
}

impl Follower {
    /// A follower before the first line.
    pub fn new() -> Self {
        Self::default()
    }

    /// The state of the kernel. Knowledge that is not in the log, such as descriptors and
    /// directories, is added to it before the first line.
    pub fn kernel(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    /// States that strace and the traced threads shared one core. Then computing between two calls
    /// is distinguished from waiting for the core.
    pub fn on_one_core(&mut self) {
        self.one_core = Some(OneCore::default());
    }

    /// Counts of the input so far that could not be interpreted.
    pub fn trouble(&self) -> &Trouble {
        &self.trouble
    }

    /// The timeline of the log.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Number of lines so far.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Number of calls whose end is missing although their thread made further calls: lines are
    /// lost.
    pub fn endless(&self) -> u64 {
        self.calls.endless()
    }

    /// States that the last line had no line feed and was the last of its log. If it was malformed,
    /// it counts as cut.
    pub fn mark_cut(&mut self) {
        if self.last_odd == self.lines && self.lines > 0 {
            self.last_odd = 0;
            self.trouble.odd_lines -= 1;
            self.trouble.cut_lines += 1;
        }
    }

    /// Reads the next line, without its line feed. `pid` is the thread if the line does not contain
    /// it. The events are passed to `hear`, those of each thread in their order.
    pub fn line(&mut self, text: &[u8], pid: u32, hear: &mut impl FnMut(&mut Kernel, &Observation<'_>)) {
        self.parsed_line(text, line::parse(text).as_ref(), pid, hear);
    }

    /// The same for a line that was parsed already: `line` is the result of [`line::parse`] for
    /// `text`.
    pub fn parsed_line(
        &mut self,
        text: &[u8],
        line: Option<&line::Line<'_>>,
        pid: u32,
        hear: &mut impl FnMut(&mut Kernel, &Observation<'_>),
    ) {
        self.lines += 1;
        let Some(line) = line else {
            self.count_malformed_line(text);
            return;
        };
        let at_ns = self.timeline.at(line.stamp);
        let pid = line.pid.unwrap_or(pid);
        if !matches!(line.kind, line::LineKind::Note) && !self.find_parent(pid) {
            let lines = self.waiting.entry(pid).or_default();
            lines.push_back((at_ns, text.to_vec()));
            if lines.len() > MAX_WAITING_LINES {
                self.adopt(pid);
                self.read_waiting(pid, hear);
            }
            return;
        }
        self.take(line, pid, at_ns, hear);
        self.resume_waiting(hear);
    }

    /// Sets the end of the recording, ns since the Unix epoch. Calls that were unfinished lasted at
    /// least until then.
    pub fn ended_at(&mut self, unix_ns: i64) {
        if self.timeline.has_times() {
            self.ended_ns = Some(self.timeline.at(Some(Stamp::Wall(unix_ns))));
        }
    }

    /// Ends the log: lines that wait for a parent are read, and unfinished calls are passed on as
    /// such.
    pub fn end(&mut self, hear: &mut impl FnMut(&mut Kernel, &Observation<'_>)) {
        while let Some((&pid, _)) = self.waiting.first_key_value() {
            self.adopt(pid);
            self.read_waiting(pid, hear);
        }
        let ended_ns = self.ended_ns;
        let Self {
            calls, kernel, begun, ..
        } = self;
        for call in calls.unfinished() {
            if let Some(known) = syscalls::find(call.name) {
                let begun = begun.remove(&call.pid).flatten().unwrap_or_default();
                let lasted = ended_ns.map(|ended| ended.saturating_sub(call.at_ns));
                let done = CallResult {
                    duration_ns: lasted.and_then(|ns| u64::try_from(ns).ok()),
                    ..UNKNOWN
                };
                let event = kernel.end_call(&Request::written(&call, known), &done, begun, call.at_ns);
                emit(kernel, &event, Some(&call), hear);
            }
        }
    }

    /// Whether this thread is known. An unknown thread becomes known as the child of the only
    /// thread that is in a fork, or as one that existed before the trace began.
    fn find_parent(&mut self, pid: u32) -> bool {
        if self.kernel.knows(pid) {
            return true;
        }
        if self.waiting.contains_key(&pid) || self.forking.len() > 1 {
            return false;
        }
        self.adopt(pid);
        true
    }

    fn adopt(&mut self, pid: u32) {
        if let Some((&parent, &birth)) = self.forking.first_key_value() {
            self.kernel.add_thread(pid, parent, birth);
        }
    }

    /// Reads the waiting lines of threads whose parent is known now.
    fn resume_waiting(&mut self, hear: &mut impl FnMut(&mut Kernel, &Observation<'_>)) {
        while !self.waiting.is_empty() {
            let kernel = &self.kernel;
            let only_one = self.forking.len() <= 1 && self.waiting.len() == 1;
            let ready = self
                .waiting
                .keys()
                .copied()
                .find(|&pid| only_one || kernel.knows(pid));
            let Some(pid) = ready else { return };
            if !self.kernel.knows(pid) {
                self.adopt(pid);
            }
            self.read_waiting(pid, hear);
        }
    }

    fn read_waiting(&mut self, pid: u32, hear: &mut impl FnMut(&mut Kernel, &Observation<'_>)) {
        for (at_ns, text) in self.waiting.remove(&pid).unwrap_or_default() {
            if let Some(line) = line::parse(&text) {
                self.take(&line, pid, at_ns, hear);
            }
        }
    }

    fn take(
        &mut self,
        line: &line::Line<'_>,
        pid: u32,
        at_ns: i64,
        hear: &mut impl FnMut(&mut Kernel, &Observation<'_>),
    ) {
        match self.calls.take(line, pid, at_ns) {
            LineContent::Began(call) => {
                if let Some(core) = &mut self.one_core {
                    core.enter(pid, at_ns);
                }
                if let Some(known) = self.known.get(call.name, syscalls::find) {
                    // The arguments of all other calls are needed only at their end.
                    let request = matches!(known.effect, Effect::Fork | Effect::Close)
                        .then(|| Request::written(&call, known));
                    if let Some(request) = request.filter(|_| known.effect == Effect::Fork) {
                        self.forking.insert(pid, Birth::of(&request));
                    }
                    let begun = request.map(|request| self.kernel.begin_call(&request));
                    self.begun.insert(pid, Some(begun.unwrap_or_default()));
                }
            }
            LineContent::Call(call) => {
                // A call on one line is complete: the end of the call that began before it is lost.
                let is_whole = matches!(line.kind, line::LineKind::Call { .. });
                let begun = self.begun.get_mut(&pid).and_then(Option::take);
                let begun = begun.filter(|_| !is_whole);
                if !self.forking.is_empty() {
                    self.forking.remove(&pid);
                }
                match (self.known.get(call.name, syscalls::find), call.ended) {
                    (Some(known), Some(ended)) => {
                        let cpu_ns = self
                            .one_core
                            .as_mut()
                            .and_then(|core| cpu_before(core, &call, is_whole, known, &ended));
                        let event = end_call(&mut self.kernel, &call, known, &ended, begun, cpu_ns);
                        emit(&mut self.kernel, &event, Some(&call), hear);
                    }
                    _ => self.trouble.unknown_calls += 1,
                }
            }
            LineContent::End(_) => self.trouble.halves += 1,
            LineContent::Exited { .. } | LineContent::Killed { .. } => {
                self.forking.remove(&pid);
                self.begun.remove(&pid);
                self.remove_from_core(pid);
                let status = match line.kind {
                    line::LineKind::Exited(status) => Outcome::Returned(i64::from(status)),
                    _ => Outcome::Unknown,
                };
                let thread = self
                    .kernel
                    .remove_thread(pid)
                    .or_else(|| self.kernel.thread_id(pid));
                self.exited(thread, at_ns, status, hear);
            }
            LineContent::Superseded { pid, by } => {
                self.forking.remove(&pid);
                if let Some(begun) = self.begun.remove(&by).flatten() {
                    self.begun.insert(pid, Some(begun));
                }
                self.remove_from_core(by);
                let thread = self.kernel.replace_thread(pid, by);
                self.exited(thread, at_ns, Outcome::Unknown, hear);
            }
            LineContent::Nothing => {}
        }
    }

    fn exited(
        &mut self,
        thread: Option<ThreadId>,
        at_ns: i64,
        status: Outcome,
        hear: &mut impl FnMut(&mut Kernel, &Observation<'_>),
    ) {
        if let Some(event) = thread.and_then(|thread| implied::exited(thread, at_ns, status)) {
            emit(&mut self.kernel, &event, None, hear);
        }
    }

    fn remove_from_core(&mut self, thread: u32) {
        if let Some(core) = &mut self.one_core {
            core.remove(thread);
        }
    }

    fn count_malformed_line(&mut self, text: &[u8]) {
        self.trouble.odd_lines += 1;
        self.last_odd = self.lines;
        if self.trouble.examples.len() < MAX_EXAMPLES {
            let start = &text[..text.len().min(200)];
            self.trouble
                .examples
                .push(String::from_utf8_lossy(start).into_owned());
        }
    }
}

const UNKNOWN: CallResult<'_> = CallResult {
    outcome: Outcome::Unknown,
    returned: None,
    duration_ns: None,
    cpu_ns: None,
};

/// The processor time of the thread before a call that has ended, ns, if it is less than the
/// elapsed time.
fn cpu_before(
    core: &mut OneCore,
    call: &Call<'_>,
    is_whole: bool,
    known: &Syscall,
    ended: &CallEnd<'_>,
) -> Option<u64> {
    if is_whole {
        core.enter(call.pid, call.at_ns);
    }
    // A call on two lines was interrupted by other threads.
    let waited = !is_whole || known.effect == Effect::Wait;
    let end = call.at_ns.saturating_add(ended.duration_ns.unwrap_or(0));
    core.leave(call.pid, end, waited)
}

fn end_call(
    kernel: &mut Kernel,
    call: &Call<'_>,
    known: &'static Syscall,
    ended: &CallEnd<'_>,
    begun: Option<EarlyRelease>,
    cpu_ns: Option<u64>,
) -> Event {
    let request = Request::written(call, known);
    let begun = begun.unwrap_or_else(|| kernel.begin_call(&request));
    let outcome = match (ended.error(), ended.value) {
        (Some(_), _) if ended.restarts() => Outcome::Restarted,
        (Some(error), _) => Outcome::Failed(constants::error(error).unwrap_or(UNKNOWN_ERROR)),
        (None, Some(value)) => Outcome::Returned(value),
        (None, None) => Outcome::Unknown,
    };
    let done = CallResult {
        outcome,
        returned: ended.name(),
        duration_ns: ended.duration_ns.and_then(|ns| u64::try_from(ns).ok()),
        cpu_ns,
    };
    kernel.end_call(&request, &done, begun, call.at_ns)
}

/// Passes on an event, followed by its implied events: requests that it submitted, and open files
/// that it closed.
fn emit(
    kernel: &mut Kernel,
    event: &Event,
    call: Option<&Call<'_>>,
    hear: &mut impl FnMut(&mut Kernel, &Observation<'_>),
) {
    hear(kernel, &Observation { event, call });
    for event in implied::implied_events(kernel, event) {
        let event = &event;
        hear(kernel, &Observation { event, call: None });
    }
}
