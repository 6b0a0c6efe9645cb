//! A log as a whole: its lines become calls, of which it is known what they do and to which files.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::constants;
use crate::event::{Event, Outcome, ThreadId};
use crate::kernel::{Birth, CallResult, EarlyRelease, Kernel, Request};
use crate::memo::Memo;
use crate::mixed::Mixed;
use crate::one_core::OneCore;
use crate::syscalls::{self, Effect, Syscall};
use crate::telling;
use crate::text::line::CallEnd;
use crate::text::{Call, Calls, LineContent, Stamp, line};
use crate::timeline::Timeline;

/// Lines of a thread that are kept until it is known whose child it is.
const TIMEOUT: usize = 10_000;
/// Of an error that nobody knew when this was written: the largest that the kernel may return.
const STRANGE: u16 = 4095;

/// Something that has happened.
#[derive(Debug, Clone, Copy)]
pub struct Observation<'a> {
    /// What it was.
    pub event: &'a Event,
    /// As it was written; none where no call was.
    pub call: Option<&'a Call<'a>>,
}

/// What could not be understood.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Lines that strace does not write, or that were cut in the middle of a log.
    pub odd_lines: u64,
    /// Last lines of logs that were cut: of a strace that was killed.
    pub cut_lines: u64,
    /// The first of them, each to its 200th byte.
    pub examples: Vec<String>,
    /// Calls that nobody knew when this was written.
    pub unknown_calls: u64,
    /// Ends of calls without a beginning.
    pub halves: u64,
}

/// Examples that are kept.
const EXAMPLES: usize = 5;

/// Follows a log, line by line.
#[derive(Debug, Default)]
pub struct Follower {
    calls: Calls,
    kernel: Kernel,
    timeline: Timeline,
    /// What calls are, by their names.
    known: Memo<Option<&'static Syscall>>,
    /// What calls that go on have said when they began; none of threads whose call has ended.
    begun: HashMap<u32, Option<EarlyRelease>, Mixed>,
    /// Threads that are making another one now, and what that has in common with them.
    forking: BTreeMap<u32, Birth>,
    /// Lines of threads that are somebody's child, as long as it can be that of several, and when
    /// they were written.
    waiting: BTreeMap<u32, VecDeque<(i64, Vec<u8>)>>,
    /// Who has it, where all threads share one.
    one_core: Option<OneCore>,
    trouble: Trouble,
    /// When the recording has ended, where calls went on then: since the zero of the trace.
    ended_ns: Option<i64>,
    lines: u64,
    /// The number of the last line that was odd, from 1.
    last_odd: u64,
}

impl Follower {
    /// Of an empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is known so far. Whoever knows more than the log tells it before its first line:
    /// descriptors, directories.
    pub fn kernel(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    /// All that was traced had one core together, and strace the same: what a thread computed
    /// between two calls is told from what it waited for the core.
    pub fn on_one_core(&mut self) {
        self.one_core = Some(OneCore::default());
    }

    /// What could not be understood so far.
    pub fn trouble(&self) -> &Trouble {
        &self.trouble
    }

    /// The times of the log.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Lines so far.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Calls whose end is missing although their thread went on: lines are lost.
    pub fn endless(&self) -> u64 {
        self.calls.endless()
    }

    /// The line that was taken in last had no end, and its log goes on nowhere: if it is odd, it is
    /// because it was cut.
    pub fn mark_cut(&mut self) {
        if self.last_odd == self.lines && self.lines > 0 {
            self.last_odd = 0;
            self.trouble.odd_lines -= 1;
            self.trouble.cut_lines += 1;
        }
    }

    /// Takes in the next line, without its end. `pid` is the thread where the line does not tell.
    /// What has happened is given to `hear`, that of each thread in its order.
    pub fn line(&mut self, text: &[u8], pid: u32, hear: &mut impl FnMut(&mut Kernel, &Observation<'_>)) {
        self.told(text, line::parse(text).as_ref(), pid, hear);
    }

    /// The same for a line that was told apart already: `line` is what [`line::parse`] gives for
    /// `text`.
    pub fn told(
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
        if !matches!(line.what, line::What::Note) && !self.knows_parent(pid) {
            let lines = self.waiting.entry(pid).or_default();
            lines.push_back((at_ns, text.to_vec()));
            if lines.len() > TIMEOUT {
                self.adopt(pid);
                self.catch_up(pid, hear);
            }
            return;
        }
        self.take(line, pid, at_ns, hear);
        self.settle(hear);
    }

    /// The recording has ended then, ns since 1970, and calls that went on had not: they have
    /// lasted until then, at least.
    pub fn ended_at(&mut self, unix_ns: i64) {
        if self.timeline.has_times() {
            self.ended_ns = Some(self.timeline.at(Some(Stamp::Wall(unix_ns))));
        }
    }

    /// The log has ended: what still waits is taken in, and calls that go on are told as they are.
    pub fn end(&mut self, hear: &mut impl FnMut(&mut Kernel, &Observation<'_>)) {
        while let Some((&pid, _)) = self.waiting.first_key_value() {
            self.adopt(pid);
            self.catch_up(pid, hear);
        }
        let ended_ns = self.ended_ns;
        let Self {
            calls, kernel, begun, ..
        } = self;
        for call in calls.going_on() {
            if let Some(known) = syscalls::find(call.name) {
                let begun = begun.remove(&call.pid).flatten().unwrap_or_default();
                let lasted = ended_ns.map(|ended| ended.saturating_sub(call.at_ns));
                let done = CallResult {
                    duration_ns: lasted.and_then(|ns| u64::try_from(ns).ok()),
                    ..UNKNOWN
                };
                let event = kernel.ends(&Request::written(&call, known), &done, begun, call.at_ns);
                tell(kernel, &event, Some(&call), hear);
            }
        }
    }

    /// Whether this thread is known, or becomes so: as the child of the only one that is making
    /// any, or as one that was there before the trace began.
    fn knows_parent(&mut self, pid: u32) -> bool {
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

    /// Lines that have waited for a parent that is known now.
    fn settle(&mut self, hear: &mut impl FnMut(&mut Kernel, &Observation<'_>)) {
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
            self.catch_up(pid, hear);
        }
    }

    fn catch_up(&mut self, pid: u32, hear: &mut impl FnMut(&mut Kernel, &Observation<'_>)) {
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
                    core.enters(pid, at_ns);
                }
                if let Some(known) = self.known.get(call.name, syscalls::find) {
                    // Of all others, arguments matter when they end.
                    let asked = matches!(known.effect, Effect::Fork | Effect::Close)
                        .then(|| Request::written(&call, known));
                    if let Some(asked) = asked.filter(|_| known.effect == Effect::Fork) {
                        self.forking.insert(pid, Birth::of(&asked));
                    }
                    let begun = asked.map(|asked| self.kernel.begins(&asked));
                    self.begun.insert(pid, Some(begun.unwrap_or_default()));
                }
            }
            LineContent::Call(call) => {
                // On one line stands a call of its own: what began before it has lost its end.
                let is_whole = matches!(line.what, line::What::Call { .. });
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
                            .and_then(|core| has_had(core, &call, is_whole, known, &ended));
                        let event = ends(&mut self.kernel, &call, known, &ended, begun, cpu_ns);
                        tell(&mut self.kernel, &event, Some(&call), hear);
                    }
                    _ => self.trouble.unknown_calls += 1,
                }
            }
            LineContent::End(_) => self.trouble.halves += 1,
            LineContent::Exited { .. } | LineContent::Killed { .. } => {
                self.forking.remove(&pid);
                self.begun.remove(&pid);
                self.leaves_for_ever(pid);
                let status = match line.what {
                    line::What::Exited(status) => Outcome::Returned(i64::from(status)),
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
                self.leaves_for_ever(by);
                let gone = self.kernel.replace_thread(pid, by);
                self.exited(gone, at_ns, Outcome::Unknown, hear);
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
        if let Some(event) = thread.and_then(|thread| telling::exited(thread, at_ns, status)) {
            tell(&mut self.kernel, &event, None, hear);
        }
    }

    fn leaves_for_ever(&mut self, thread: u32) {
        if let Some(core) = &mut self.one_core {
            core.ends(thread);
        }
    }

    fn count_malformed_line(&mut self, text: &[u8]) {
        self.trouble.odd_lines += 1;
        self.last_odd = self.lines;
        if self.trouble.examples.len() < EXAMPLES {
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

/// The processor time that the thread of a call that has ended had before it, ns, where it had less
/// than passed.
fn has_had(
    core: &mut OneCore,
    call: &Call<'_>,
    is_whole: bool,
    known: &Syscall,
    ended: &CallEnd<'_>,
) -> Option<u64> {
    if is_whole {
        core.enters(call.pid, call.at_ns);
    }
    // Whose call takes two lines was interrupted by others.
    let waited = !is_whole || known.effect == Effect::Wait;
    let end = call.at_ns.saturating_add(ended.duration_ns.unwrap_or(0));
    core.leaves(call.pid, end, waited)
}

fn ends(
    kernel: &mut Kernel,
    call: &Call<'_>,
    known: &'static Syscall,
    ended: &CallEnd<'_>,
    begun: Option<EarlyRelease>,
    cpu_ns: Option<u64>,
) -> Event {
    let asked = Request::written(call, known);
    let begun = begun.unwrap_or_else(|| kernel.begins(&asked));
    let outcome = match (ended.error(), ended.value) {
        (Some(_), _) if ended.restarts() => Outcome::Restarted,
        (Some(error), _) => Outcome::Failed(constants::error(error).unwrap_or(STRANGE)),
        (None, Some(value)) => Outcome::Returned(value),
        (None, None) => Outcome::Unknown,
    };
    let done = CallResult {
        outcome,
        returned: ended.name(),
        duration_ns: ended.duration_ns.and_then(|ns| u64::try_from(ns).ok()),
        cpu_ns,
    };
    kernel.ends(&asked, &done, begun, call.at_ns)
}

/// Gives out an event, and behind it what went with it: requests that it has handed over, open
/// files that it has closed without a word.
fn tell(
    kernel: &mut Kernel,
    event: &Event,
    call: Option<&Call<'_>>,
    hear: &mut impl FnMut(&mut Kernel, &Observation<'_>),
) {
    hear(kernel, &Observation { event, call });
    for event in telling::behind(kernel, event) {
        let event = &event;
        hear(kernel, &Observation { event, call: None });
    }
}
