//! One run, from the lab's command to the files on disk.

use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use plimsoll_clock::{Clock, SystemClock};
use plimsoll_link::{LinkError, Prepare, ToAgent, ToController};
use plimsoll_model::{AgentBooks, Command, Counters, Event, Finished, RunSpec, format};
use plimsoll_record::{
    AgentStart, Merged, START_FILE, SecondMerger, Start, Times, convert, write_json, write_json_soon,
};

use crate::ceiling::CeilingWatch;
use crate::live::LiveFile;
use crate::session::{Input, Session};
use crate::summary::{AgentSummary, Summary};

/// Time between saying when and beginning: a message over a socket pair takes a thousandth of it.
const LEAD_NS: i64 = 20_000_000;
/// A process must speak after so long.
const GREETING: Duration = Duration::from_secs(10);
/// Reading certificates and looking up names may take long; longer than this is a fault.
const PREPARING: Duration = Duration::from_secs(120);
/// Beyond the drain, for closing segments on a slow disk.
const CLOSING: Duration = Duration::from_secs(150);

/// Waits for the first message of a new agent, and checks who it is.
///
/// # Errors
/// A text for people.
pub(crate) fn greet(session: &mut Session) -> Result<(), String> {
    let message = wait_for(session, GREETING, "the agent did not speak")?;
    match message {
        ToController::Hello(theirs) => theirs
            .check("the agent", "engine", &session.version)
            .map_err(|error| error.to_string()),
        other => Err(format!("the agent began with {other:?} instead of a greeting")),
    }
}

/// Waits for an answer of the agent. A wish to stop is remembered as the error.
fn wait_for(session: &mut Session, patience: Duration, what: &str) -> Result<ToController, String> {
    let deadline = Instant::now() + patience;
    let mut stopped = None;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match session.inbox.recv_timeout(left) {
            Ok(Input::Agent { generation, message }) => {
                if session
                    .agent
                    .as_ref()
                    .is_none_or(|agent| agent.generation != generation)
                {
                    continue;
                }
                match message {
                    Ok(ToController::Heartbeat) => {}
                    Ok(message) => return stopped.map_or(Ok(message), Err),
                    Err(error) => {
                        let how = session.drop_agent();
                        return Err(format!("the agent is lost: {error} {how}"));
                    }
                }
            }
            Ok(Input::Command(Command::Stop { reason })) => {
                stopped = Some(format!("stopped before the load began: {reason}"));
            }
            Ok(Input::Command(Command::Quit) | Input::LabGone | Input::Signal) => {
                session.ending = true;
                stopped = Some("stopped before the load began".to_owned());
            }
            Ok(Input::Command(Command::Run { .. })) => busy(session),
            Ok(Input::Rubbish(_)) => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                session.drop_agent();
                return Err(format!("{what} within {} s", patience.as_secs()));
            }
        }
    }
}

fn busy(session: &mut Session) {
    session.events.tell(&Event::Refused {
        error: "a run goes on; one at a time".into(),
    });
}

fn note(session: &mut Session, t_ns: i64, kind: &str, text: &str) {
    session.events.tell(&Event::Note {
        t_s: t_ns as f64 / 1e9,
        kind: kind.into(),
        text: text.into(),
    });
}

/// Carries out one run.
///
/// # Errors
/// A text for people; nothing was measured.
pub(crate) fn carry_out(session: &mut Session, spec: RunSpec) -> Result<Finished, String> {
    spec.check().map_err(|error| error.to_string())?;
    let segments = room(&spec)?;
    let name = match session.agent() {
        Ok(agent) => agent.name.clone(),
        Err(error) => return Err(forget(&segments, error)),
    };
    let prepare = Prepare {
        spec: spec.clone(),
        agents: vec![name.clone()],
        index: 0,
        spool: segments.clone(),
    };
    let prepared = match session.agent()?.send(&ToAgent::Prepare(Box::new(prepare))) {
        Ok(()) => wait_for(session, PREPARING, "the agent was not ready"),
        Err(error) => {
            session.drop_agent();
            Err(format!("the agent is lost: {error}"))
        }
    };
    match prepared {
        Ok(ToController::Prepared) => {}
        Ok(ToController::Failed { error }) => return Err(forget(&segments, error)),
        Ok(other) => {
            session.drop_agent();
            return Err(forget(
                &segments,
                format!("the agent answered {other:?}: please report this"),
            ));
        }
        Err(error) => {
            // It holds a prepared run that nobody wants: the next run gets a fresh process.
            session.drop_agent();
            return Err(forget(&segments, error));
        }
    }
    let clock = SystemClock;
    let (raw, unix) = (clock.raw_ns(), clock.realtime_ns());
    let start = Start {
        format: format::START.into(),
        experiment: spec.experiment.clone(),
        run: spec.run.clone(),
        t0_unix_ns: unix + LEAD_NS,
        warmup_ns: spec.warmup_ns,
        duration_ns: spec.end.duration_ns,
        keep: spec.keep,
        agents: vec![AgentStart {
            name,
            t0_raw_ns: raw + LEAD_NS,
        }],
    };
    // Not synced: the load begins in a moment, and a killed process loses nothing by it.
    if let Err(error) = write_json_soon(&segments.join(START_FILE), &start) {
        session.drop_agent();
        return Err(forget(&segments, error.to_string()));
    }
    let mut going = Going::new(spec, start);
    going.start(session);
    while !going.is_over() {
        going.step(session);
    }
    Ok(going.close(session))
}

/// Removes the empty directory of a run that never began.
fn forget(segments: &Path, error: String) -> String {
    let _ = std::fs::remove_file(segments.join(START_FILE));
    let _ = std::fs::remove_dir(segments);
    error
}

/// The directory for the segments. A measurement that is there already is never overwritten.
fn room(spec: &RunSpec) -> Result<PathBuf, String> {
    let directory = &spec.directory;
    let segments = directory.join("segments");
    if directory.join("transactions.parquet").exists()
        || directory.join("summary.json").exists()
        || segments.join(START_FILE).exists()
    {
        return Err(format!(
            "{} holds a measurement already: move it away first",
            directory.display()
        ));
    }
    std::fs::create_dir_all(&segments)
        .map_err(|error| format!("creating {}: {error}", segments.display()))?;
    Ok(segments)
}

/// One agent of the run.
struct AgentState {
    name: String,
    t0_raw_ns: i64,
    reported: Counters,
    ended: Option<(AgentBooks, Option<i64>, bool)>,
}

/// A run whose load has begun.
struct Going {
    spec: RunSpec,
    start: Start,
    clock: SystemClock,
    agents: Vec<AgentState>,
    merger: SecondMerger,
    live: LiveFile,
    ceiling: CeilingWatch,
    damage: Vec<String>,
    status: &'static str,
    reason: String,
    stopping: bool,
    deadline: Option<Instant>,
}

impl Going {
    fn new(spec: RunSpec, start: Start) -> Self {
        let mut damage = Vec::new();
        let live = LiveFile::create(&spec.directory, &start, &mut damage);
        let agents: Vec<AgentState> = start
            .agents
            .iter()
            .map(|agent| AgentState {
                name: agent.name.clone(),
                t0_raw_ns: agent.t0_raw_ns,
                reported: Counters::default(),
                ended: None,
            })
            .collect();
        let patience = Duration::from_nanos(spec.drain_ns).saturating_add(CLOSING);
        let deadline = spec.end.duration_ns.and_then(|ns| {
            Instant::now()
                .checked_add(Duration::from_nanos(ns))?
                .checked_add(patience)
        });
        Self {
            ceiling: CeilingWatch::new(&spec.ceiling),
            merger: SecondMerger::new(agents.len()),
            clock: SystemClock,
            status: "done",
            reason: String::new(),
            stopping: false,
            spec,
            start,
            agents,
            live,
            damage,
            deadline,
        }
    }

    fn start(&mut self, session: &mut Session) {
        session.events.tell(&Event::Started {
            t0_unix_ns: self.start.t0_unix_ns,
            agents: self.agents.iter().map(|agent| agent.name.clone()).collect(),
        });
        let t0_raw_ns = self.agents[0].t0_raw_ns;
        if let Some(Err(error)) = session
            .agent
            .as_ref()
            .map(|agent| agent.send(&ToAgent::Go { t0_raw_ns }))
        {
            self.lost(session, &error);
        }
    }

    fn is_over(&self) -> bool {
        self.agents.iter().all(|agent| agent.ended.is_some())
    }

    /// Time of the run, ns.
    fn now_ns(&self) -> i64 {
        self.clock.raw_ns() - self.agents[0].t0_raw_ns
    }

    /// Waits for the next thing that happens.
    fn step(&mut self, session: &mut Session) {
        let input = match self.deadline {
            Some(deadline) => session
                .inbox
                .recv_timeout(deadline.saturating_duration_since(Instant::now())),
            None => session.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match input {
            Ok(Input::Command(Command::Stop { reason })) => self.stop(session, "stopped", reason),
            Ok(Input::Command(Command::Quit)) => self.end(session, "the lab asked to quit"),
            Ok(Input::LabGone) => self.end(session, "the lab has ended"),
            Ok(Input::Signal) => self.end(session, "interrupted"),
            Ok(Input::Command(Command::Run { .. })) => busy(session),
            Ok(Input::Rubbish(why)) => note(session, self.now_ns(), "bad-command", &why),
            Ok(Input::Agent { generation, message }) => {
                if session
                    .agent
                    .as_ref()
                    .is_some_and(|agent| agent.generation == generation)
                {
                    match message {
                        Ok(message) => self.heard(session, message),
                        Err(error) => self.lost(session, &error),
                    }
                }
            }
            Err(_) => self.lost(session, &LinkError::Silent(CLOSING)),
        }
    }

    fn end(&mut self, session: &mut Session, reason: &str) {
        session.ending = true;
        self.stop(session, "stopped", reason.to_owned());
    }

    fn stop(&mut self, session: &mut Session, status: &'static str, reason: String) {
        if self.stopping {
            return;
        }
        self.stopping = true;
        self.status = status;
        self.reason = reason;
        let patience = Duration::from_nanos(self.spec.drain_ns).saturating_add(CLOSING);
        self.deadline = Instant::now().checked_add(patience);
        if let Some(Err(error)) = session.agent.as_ref().map(|agent| agent.send(&ToAgent::Stop)) {
            self.lost(session, &error);
        }
    }

    fn heard(&mut self, session: &mut Session, message: ToController) {
        match message {
            ToController::Second(report) => {
                self.agents[0].reported.add(&report.counters);
                if let Err(error) = self.merger.add(0, &report) {
                    self.damage.push(format!("second {}: {error}", report.second));
                }
                self.seconds(session);
            }
            ToController::Note { t_ns, kind, text } => {
                note(session, t_ns, &kind, &text);
                if kind == "service-gone" {
                    self.stop(session, "service-gone", text);
                }
            }
            ToController::Finished { books, window_ns } => {
                self.agents[0].ended = Some((books, Some(window_ns), false));
                self.merger.end(0);
                self.seconds(session);
            }
            ToController::Heartbeat => {}
            other => {
                self.damage.push(format!(
                    "the agent said {other:?} during a run: please report this"
                ));
            }
        }
    }

    /// Tells and files the seconds that are complete.
    fn seconds(&mut self, session: &mut Session) {
        while let Some((report, times)) = self.merger.take() {
            self.live.second(&report, &mut self.damage);
            let ms = |q: f64| times.quantile_ns(q).map(|ns| ns as f64 / 1e6);
            session.events.tell(&Event::Second {
                second: report.second,
                counters: report.counters,
                active: report.active,
                in_progress: report.in_progress,
                p50_ms: ms(0.50),
                p95_ms: ms(0.95),
                p99_ms: ms(0.99),
            });
            self.judge(session, &report.counters, &times);
        }
    }

    fn judge(&mut self, session: &mut Session, counters: &Counters, times: &Times) {
        if let Some(reason) = self.ceiling.second(counters, times).filter(|_| !self.stopping) {
            note(session, self.now_ns(), "ceiling", &reason);
            self.stop(session, "ceiling", reason);
        }
    }

    fn lost(&mut self, session: &mut Session, error: &LinkError) {
        let how = session.drop_agent();
        let Some(agent) = self.agents.first_mut().filter(|agent| agent.ended.is_none()) else {
            return;
        };
        let t_ns = self.clock.raw_ns() - agent.t0_raw_ns;
        let reported = agent.reported.started;
        let text = format!(
            "agent {} is lost ({error}; {how}); it had reported {reported} transactions, what is in its segments is kept",
            agent.name
        );
        let books = AgentBooks {
            counters: agent.reported,
            damage: vec![text.clone()],
            ..AgentBooks::default()
        };
        agent.ended = Some((books, None, true));
        self.merger.end(0);
        self.seconds(session);
        note(session, t_ns, "agent-lost", &text);
        self.status = "agent-lost";
        self.reason = text;
    }

    /// Files to their last form, books closed.
    fn close(self, session: &mut Session) -> Finished {
        let now_ns = self.now_ns();
        let agents = self.agents.into_iter().map(|agent| {
            let (books, window_ns, lost) = agent.ended.unwrap_or_default();
            AgentSummary {
                name: agent.name,
                t0_raw_ns: agent.t0_raw_ns,
                lost,
                window_ns,
                books,
            }
        });
        let mut summary = Summary::new(&self.start, agents.collect());
        summary.status = self.status.to_owned();
        summary.reason = self.reason;
        summary.damage.extend(self.damage);
        let merged = convert(&self.spec.directory, &self.start);
        match &merged {
            Ok(merged) => summary.settle(merged),
            Err(error) => summary.postpone(&self.spec.directory, error),
        }
        match write_json(&self.spec.directory.join("summary.json"), &summary) {
            Ok(()) => merged.iter().for_each(Merged::clean_up),
            Err(error) => summary.damage.push(error.to_string()),
        }
        for text in &summary.damage {
            note(session, now_ns, "damage", text);
        }
        summary.finished()
    }
}
