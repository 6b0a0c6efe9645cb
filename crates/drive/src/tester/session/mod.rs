//! Sessions: a tester carries out its transactions as parts of emulated application jobs.
//!
//! This file keeps the parts of a session that are left, without I/O; `work` carries out the parts
//! that use a core, on threads of their own.

pub(crate) mod work;

use std::collections::VecDeque;
use std::sync::Arc;

use plimsoll_model::{Code, Codes};
use plimsoll_schedule::Sessions;

use self::work::SessionWork;
use super::policy::TesterSlot;

/// Pause after a session whose start failed, ns: a program that fails at once must not be started
/// without end.
pub(crate) const START_FAILED_PAUSE_NS: u64 = 1_000_000_000;

/// One part of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// Work on a thread of its own.
    Work(SessionWork),
    /// The tester waits for this time, ns.
    Wait(u64),
    /// A transaction.
    Query,
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    /// All parts succeeded.
    Succeeded,
    /// A program or thread for its work could not be started, or failed.
    WorkFailed,
    /// A transaction failed.
    QueryFailed,
    /// The run ended before it.
    Unfinished,
}

/// A session in progress.
struct Session {
    /// Start, raw stamp, ns.
    start: i64,
    stage: u16,
    left: VecDeque<Part>,
}

/// The sessions of one tester.
pub(crate) struct TesterSessions {
    draws: Sessions,
    /// Program with which a session starts, and its arguments; none: no program.
    program: Option<Arc<[String]>>,
    is_busy: bool,
    /// Number of transactions with which a session begins.
    openings: u64,
    timeout_ns: u64,
    tester: u32,
    /// Number of sessions begun.
    begun: u32,
    current: Option<Session>,
    metrics: [Code; 4],
}

impl TesterSessions {
    /// The metric of each [`SessionEnd`], in its order; the values are durations, s.
    const METRICS: [&str; 4] = [
        "session_s",
        "session_work_failed_s",
        "session_query_failed_s",
        "session_unfinished_s",
    ];

    /// None if the tester carries out single transactions.
    pub(crate) fn new(slot: &TesterSlot, codes: &Codes) -> Option<Self> {
        let population = &slot.population;
        let spec = population.session.clone()?;
        Some(Self {
            program: (!spec.start.is_empty()).then(|| spec.start.clone().into()),
            is_busy: spec.busy,
            openings: population.first.iter().map(|&(_, times)| times).sum(),
            timeout_ns: population.timeout_ns,
            tester: slot.tester(),
            begun: 0,
            current: None,
            metrics: Self::METRICS.map(|name| codes.number(name)),
            draws: Sessions::new(spec, slot.seed, population.workload.into(), slot.number.into()),
        })
    }

    /// Begins a session at the stamp `start`, unless one is in progress. Returns whether it began.
    pub(crate) fn begin(&mut self, start: i64, stage: u16) -> bool {
        if self.current.is_some() {
            return false;
        }
        self.begun = self.begun.saturating_add(1);
        let mut left = VecDeque::new();
        if let Some(command) = &self.program {
            left.push_back(Part::Work(SessionWork::Program {
                command: Arc::clone(command),
                timeout_ns: self.timeout_ns,
            }));
        }
        left.extend((0..self.openings).map(|_| Part::Query));
        let mut times = self.draws.draw();
        let last = times.pop();
        for ns in times {
            left.push_back(self.computing(ns));
            left.push_back(Part::Query);
        }
        left.extend(last.map(|ns| self.computing(ns)));
        self.current = Some(Session { start, stage, left });
        true
    }

    fn computing(&self, ns: u64) -> Part {
        if self.is_busy && ns > 0 {
            Part::Work(SessionWork::Compute { ns })
        } else {
            Part::Wait(ns)
        }
    }

    /// Number of the session in progress, or of the last one, from 1.
    pub(crate) fn number(&self) -> u32 {
        self.begun
    }

    /// Takes the next part of the session in progress, and the stage in which the session began;
    /// none if no part is left.
    pub(crate) fn take_part(&mut self) -> Option<(Part, u16)> {
        let session = self.current.as_mut()?;
        session.left.pop_front().map(|part| (part, session.stage))
    }

    /// Ends the session in progress. Returns tester, start and metric for the record; none if no
    /// session is in progress.
    pub(crate) fn end(&mut self, how: SessionEnd) -> Option<(u32, i64, Code)> {
        let session = self.current.take()?;
        Some((self.tester, session.start, self.metrics[how as usize]))
    }
}
