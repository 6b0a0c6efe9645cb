//! One run, from the lab's command to the files on disk.
//!
//! It starts and prepares the agents ([`assemble`], [`begin`]), merges their second reports and
//! checks the ceilings (this file), and fetches the segments and completes the files ([`gather`],
//! [`closing`]).

pub(crate) mod assemble;
mod begin;
mod ceiling;
mod closing;
pub(crate) mod gather;
mod host_files;
mod leaving;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plimsoll_link::{LinkError, RunKey, ToAgent, ToController};
use plimsoll_model::{
    AgentRules, AgentSpec, AgentTotals, Counters, Event, Role, RunOutcome, RunSpec, grouped,
};
use plimsoll_record::{START_FILE, SecondMerger, Start, write_json_soon};

use self::assemble::{ask_to_prepare, crew};
use self::begin::{PreparedRun, begin, create_segments_directory, forget, spool};
use self::ceiling::CeilingWatch;
use self::gather::Gathering;
use self::leaving::LeavingAgent;
use crate::error::WorkError;
use crate::files::live::LiveFile;
use crate::input::AgentEvent;
use crate::session::{Incident, Session};

/// Time in addition to the drain in which agents close their segments on a slow disk.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(150);
/// Interval at which the time limits of leaving agents are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Executes one run.
///
/// # Errors
/// [`WorkError`]: nothing was measured.
pub(crate) fn carry_out(
    session: &mut Session,
    spec: RunSpec,
    agents: &[AgentSpec],
    rules: AgentRules,
) -> Result<RunOutcome, WorkError> {
    spec.check()?;
    let segments = create_segments_directory(&spec)?;
    let begun = begin(session, spec, &segments, crew(agents), rules);
    let begun = begun.map_err(|error| forget(&segments, error))?;
    let mut active = ActiveRun::new(session, begun);
    active.start(session);
    while !active.is_over() {
        active.step(session);
    }
    Ok(active.close(session))
}

/// Whether an agent has any testers in this run.
fn has_testers(agent: &AgentSpec, spec: &RunSpec) -> bool {
    let mut workloads = spec.workloads.iter();
    agent.role == Role::Testers
        && workloads.any(|workload| workload.agents.is_empty() || workload.agents.contains(&agent.name))
}

/// The state of one agent of the run.
struct AgentState {
    name: String,
    /// Generation of the agent; 0 until it is connected.
    generation: u64,
    /// Whether it has testers; otherwise it only watches.
    has_testers: bool,
    local: bool,
    /// Whether it watches a host of the target. Its loss changes no counts.
    watches: bool,
    reported: Counters,
    /// End of the last second that it reported, ns from the start of the run.
    reported_ns: i64,
    ended: Option<AgentEnd>,
}

/// How an agent's part of a run ended.
struct AgentEnd {
    totals: AgentTotals,
    window_ns: Option<i64>,
    /// Time at which it was lost, ns from the start of the run.
    lost_ns: Option<i64>,
}

/// A run whose load has begun.
struct ActiveRun {
    spec: RunSpec,
    start: Start,
    crew: Vec<AgentSpec>,
    rules: AgentRules,
    key: Option<RunKey>,
    agents: Vec<AgentState>,
    /// The agents that were asked to end, by index, until their measurements are transferred.
    leaving: BTreeMap<usize, LeavingAgent>,
    /// The transfers from agents that leave before the end, if there are agents on other hosts.
    gathering: Option<Gathering>,
    /// Names of the agents whose measurements are transferred and that are about to end.
    left: Vec<String>,
    merger: SecondMerger,
    live: LiveFile,
    ceiling: CeilingWatch,
    /// Testers that were active at the end of the last complete second.
    active: u32,
    damage: Vec<String>,
    status: &'static str,
    reason: String,
    stopping: bool,
    deadline: Option<Instant>,
}

impl ActiveRun {
    fn new(session: &Session, begun: PreparedRun) -> Self {
        let PreparedRun {
            spec,
            start,
            crew,
            rules,
            key,
        } = begun;
        let mut damage = Vec::new();
        let live = LiveFile::create(&spec.directory, &start, &mut damage);
        let agents: Vec<AgentState> = start
            .agents
            .iter()
            .zip(&crew)
            .map(|(agent, known)| AgentState {
                has_testers: has_testers(known, &spec),
                name: agent.name.clone(),
                generation: session.peers.get(&agent.name).map_or(0, |peer| peer.generation),
                local: agent.same_clock,
                watches: known.role == Role::Watch,
                reported: Counters::default(),
                reported_ns: 0,
                ended: None,
            })
            .collect();
        let max_wait = Duration::from_nanos(spec.drain_ns).saturating_add(CLOSE_TIMEOUT);
        let deadline = spec.end.duration_ns.and_then(|ns| {
            Instant::now()
                .checked_add(Duration::from_nanos(ns))?
                .checked_add(max_wait)
        });
        Self {
            ceiling: CeilingWatch::new(&spec.ceiling),
            active: 0,
            leaving: BTreeMap::new(),
            gathering: key
                .as_ref()
                .map(|key| Gathering::new(key, &spec.directory.join("segments"))),
            left: Vec::new(),
            merger: SecondMerger::new(agents.len()),
            status: "done",
            reason: String::new(),
            stopping: false,
            spec,
            start,
            crew,
            rules,
            key,
            agents,
            live,
            damage,
            deadline,
        }
    }

    fn start(&mut self, session: &mut Session) {
        session.events.send(&Event::Started {
            t0_unix_ns: self.start.t0_unix_ns,
            agents: self.agents.iter().map(|agent| agent.name.clone()).collect(),
        });
        for index in 0..self.agents.len() {
            if self.agents[index].generation == 0 || !self.agents[index].has_testers {
                self.merger.end(index); // the seconds do not wait for it
            }
        }
        let t0_ns = self.start.t0_ns;
        session.begin_run(t0_ns);
        self.send(session, &ToAgent::Go { t0_ns });
    }

    /// Sends a message to each agent whose part has not ended. If it cannot be sent, the loss of
    /// the agent is reported as an event.
    fn send(&self, session: &Session, message: &ToAgent) {
        for agent in self.agents.iter().filter(|agent| agent.is_present()) {
            if let Some(peer) = session.peers.get(&agent.name) {
                peer.send(message);
            }
        }
    }

    fn is_over(&self) -> bool {
        !self.agents.iter().any(AgentState::is_present)
    }

    /// Waits for the next incident and handles it.
    fn step(&mut self, session: &mut Session) {
        let next_check = (!self.leaving.is_empty()).then(|| Instant::now() + CHECK_INTERVAL);
        let deadline = self.deadline.into_iter().chain(next_check).min();
        match session.next(deadline) {
            Incident::Stop { reason } => self.stop(session, "stopped", reason),
            Incident::End { reason } => self.stop(session, "stopped", reason.to_owned()),
            Incident::Agent {
                name,
                generation,
                event,
            } => self.handle_event(session, &name, generation, event),
            Incident::Stored { ticket, outcome } => {
                if let Some(gathering) = &mut self.gathering {
                    gathering.handle_stored(session, ticket, outcome);
                }
            }
            Incident::Deadline if self.deadline.is_some_and(|at| Instant::now() >= at) => {
                for index in 0..self.agents.len() {
                    self.handle_loss(session, index, &LinkError::Silent(CLOSE_TIMEOUT));
                }
            }
            Incident::Deadline | Incident::Command(_) => {}
        }
        self.release_leaving(session);
    }

    fn handle_event(&mut self, session: &mut Session, name: &str, generation: u64, event: AgentEvent) {
        let index = self
            .agents
            .iter()
            .position(|agent| agent.name == name && agent.generation == generation);
        match (index, event) {
            (Some(index), AgentEvent::Message(message)) => self.handle_message(session, index, message),
            (Some(index), AgentEvent::Lost(error)) => self.handle_loss(session, index, &error),
            (Some(_), AgentEvent::Cut(error)) => {
                session.note("link-cut", &format!("the link to agent {name} ended: {error}"));
            }
            (Some(_), AgentEvent::Up { again: true }) => {
                session.note("link-made", &format!("agent {name} has a link again"));
                if let Some(gathering) = &mut self.gathering {
                    gathering.resume(session, name);
                }
            }
            (None, AgentEvent::Lost(error)) => {
                session.drop_lost(name, &error);
            }
            (None, AgentEvent::Message(_) | AgentEvent::Learnt) => {
                self.admit_late_agent(session, name, generation);
            }
            _ => {}
        }
    }

    fn stop(&mut self, session: &mut Session, status: &'static str, reason: String) {
        if self.stopping {
            return;
        }
        self.stopping = true;
        self.status = status;
        self.reason = reason;
        let max_wait = Duration::from_nanos(self.spec.drain_ns).saturating_add(CLOSE_TIMEOUT);
        self.deadline = Instant::now().checked_add(max_wait);
        self.send(session, &ToAgent::Stop);
    }

    fn handle_message(&mut self, session: &mut Session, index: usize, message: ToController) {
        match message {
            ToController::Second(report) => {
                self.agents[index].reported.add(&report.counters);
                self.agents[index].reported_ns = (i64::from(report.second) + 1) * 1_000_000_000;
                if let Err(error) = self.merger.add(index, &report) {
                    let name = &self.agents[index].name;
                    self.damage
                        .push(format!("agent {name}, second {}: {error}", report.second));
                }
                self.report_seconds(session);
            }
            // Reported by `stop_at_ceiling`.
            ToController::Note { kind, text, .. } if kind == "ceiling" => {
                let active = u64::from(self.active);
                let testers = if active == 1 { "tester" } else { "testers" };
                let text = format!("{text}, with {} active {testers}", grouped(active));
                self.stop_at_ceiling(session, text);
            }
            ToController::Note { t_ns, kind, text } => {
                session.note_at(t_ns, &kind, &text);
                if kind == "service-gone" {
                    self.stop(session, "service-gone", text);
                }
            }
            ToController::Leaving { reason } => self.begin_leave(session, index, &reason),
            ToController::Files { .. } | ToController::Unsent { .. } => {
                if let Some(gathering) = &mut self.gathering {
                    gathering.handle_message(session, &self.agents[index].name, message);
                }
            }
            ToController::Finished { totals, window_ns } if self.leaving.contains_key(&index) => {
                self.merger.end(index);
                self.report_seconds(session);
                self.close_agent(session, index, totals, window_ns);
            }
            ToController::Finished { totals, window_ns } => {
                self.agents[index].ended = Some(AgentEnd {
                    totals,
                    window_ns: Some(window_ns),
                    lost_ns: None,
                });
                self.merger.end(index);
                self.report_seconds(session);
                self.end_watching(session);
            }
            ToController::Prepared => {
                let t0_ns = self.start.t0_ns;
                if let Some(peer) = session.peers.get(&self.agents[index].name) {
                    peer.send(&ToAgent::Go { t0_ns });
                }
            }
            ToController::Failed { error } => {
                let name = self.agents[index].name.clone();
                self.damage.push(format!(
                    "agent {name} connected late and cannot take part: {error}"
                ));
                self.agents[index].generation = 0;
                session.drop_peer(&name);
            }
            ToController::Going { t0_raw_ns, bound_ns } => {
                self.record_start(session, index, t0_raw_ns, bound_ns);
            }
            other => {
                let name = &self.agents[index].name;
                self.damage.push(format!(
                    "agent {name} sent {other:?} during a run: please report this"
                ));
            }
        }
    }

    /// Reports the complete seconds to the lab, writes them to `live.jsonl`, and checks the
    /// ceilings.
    fn report_seconds(&mut self, session: &mut Session) {
        while let Some((report, times)) = self.merger.take() {
            self.live.second(&report, &mut self.damage);
            let ms = |q: f64| times.quantile_ns(q).map(|ns| ns as f64 / 1e6);
            session.events.send(&Event::Second {
                second: report.second,
                counters: report.counters,
                active: report.active,
                in_progress: report.in_progress,
                p50_ms: ms(0.50),
                p95_ms: ms(0.95),
                p99_ms: ms(0.99),
            });
            self.active = report.active;
            if let Some(reason) = self.ceiling.second(&report.counters, &times) {
                self.stop_at_ceiling(session, reason);
            }
        }
    }

    fn stop_at_ceiling(&mut self, session: &mut Session, reason: String) {
        if !self.stopping {
            session.note("ceiling", &reason);
            self.stop(session, "ceiling", reason);
        }
    }

    /// Stops the watching agents when no agent with testers remains.
    fn end_watching(&self, session: &Session) {
        let has_load = |(index, agent): (usize, &AgentState)| {
            agent.has_testers && agent.is_present() && !self.leaving.contains_key(&index)
        };
        if !self.agents.iter().enumerate().any(has_load) {
            self.send(session, &ToAgent::Stop);
        }
    }

    /// Asks an agent that connects after the start of the run to prepare it. The agent starts its
    /// load when it is prepared.
    fn admit_late_agent(&mut self, session: &mut Session, name: &str, generation: u64) {
        let expected = |agent: &&mut AgentState| agent.name == name && agent.generation == 0;
        let known = session
            .peers
            .get(name)
            .is_some_and(|peer| peer.facts.is_some() && peer.clock.is_some());
        let Some(agent) = self
            .agents
            .iter_mut()
            .find(expected)
            .filter(|_| known && !self.stopping)
        else {
            return;
        };
        let segments = self.spec.directory.join("segments");
        let spool = spool(self.key.as_ref(), &segments);
        let asked = ask_to_prepare(session, name, &self.crew, &self.spec, &self.rules, &spool);
        match asked {
            Ok(()) => {
                agent.generation = generation;
                let facts = session.peers.get(name).and_then(|peer| peer.facts.as_ref());
                for known in self.start.agents.iter_mut().filter(|known| known.name == name) {
                    // A host that differs from the agent's name was set by the lab and is kept.
                    if let Some(facts) = facts.filter(|_| known.host == known.name) {
                        known.host.clone_from(&facts.hostname);
                    }
                }
                let text = format!("agent {name} joins the run late");
                session.note("agent-late", &text);
            }
            Err(error) => self.damage.push(format!(
                "agent {name} connected late and cannot take part: {error}"
            )),
        }
    }

    /// Writes the start of the run on an agent's own clock, as converted by the agent. If the agent
    /// sends nothing more, the times in its segments are converted with it.
    fn record_start(&mut self, session: &mut Session, index: usize, t0_raw_ns: i64, bound_ns: i64) {
        let start = &mut self.start.agents[index];
        if start.t0_raw_ns == t0_raw_ns {
            return;
        }
        start.t0_raw_ns = t0_raw_ns;
        if bound_ns == i64::MAX {
            let text = format!(
                "agent {} has no estimate of the controller's clock: its load began when it received the start",
                start.name
            );
            session.note("clock-unknown", &text);
        }
        let segments = self.spec.directory.join("segments");
        if let Err(error) = write_json_soon(&segments.join(START_FILE), &self.start) {
            self.damage.push(error.to_string());
        }
    }

    fn handle_loss(&mut self, session: &mut Session, index: usize, error: &LinkError) {
        let t_ns = session.run_time_ns();
        let agent = &mut self.agents[index];
        let how = session.drop_peer(&agent.name);
        if agent.ended.is_some() {
            return;
        }
        if let Some(leaving) = self.leaving.remove(&index) {
            return self.abandon_handover(session, index, leaving, &error.to_string());
        }
        let how = if how.is_empty() {
            error.to_string()
        } else {
            format!("{error}; {how}")
        };
        let kept = if agent.local {
            "its segments are kept"
        } else {
            "`plimsoll collect` fetches its segments, unless they were lost with its host or Dask worker"
        };
        let text = if agent.watches {
            format!("{} is no longer watched ({how}); {kept}", agent.name)
        } else {
            format!(
                "agent {} is lost ({how}); it had reported {} transactions, {kept}",
                agent.name,
                grouped(agent.reported.started)
            )
        };
        let damage = if agent.watches { None } else { Some(text.clone()) };
        let totals = AgentTotals {
            counters: agent.reported,
            damage: damage.into_iter().collect(),
            ..AgentTotals::default()
        };
        agent.ended = Some(AgentEnd {
            totals,
            window_ns: None,
            lost_ns: Some(t_ns),
        });
        if agent.watches {
            session.note_at(t_ns, "watch-lost", &text);
            return;
        }
        self.merger.end(index);
        self.report_seconds(session);
        session.note_at(t_ns, "agent-lost", &text);
        self.react_to_loss(session, text);
    }

    /// Ends or stops the run after the loss of an agent, if the rules require it.
    fn react_to_loss(&mut self, session: &mut Session, text: String) {
        self.end_watching(session);
        let counts = |(index, agent): (usize, &AgentState)| {
            let lost = agent.lost_ns().is_some() || self.leaving.contains_key(&index);
            agent.has_testers && agent.generation != 0 && !lost
        };
        if !self.agents.iter().enumerate().any(counts) {
            self.status = "agent-lost";
            self.reason = text;
        } else if self.rules.abort_on_loss {
            self.stop(session, "agent-lost", text);
        }
    }
}

impl AgentState {
    /// Whether the agent takes part now.
    fn is_present(&self) -> bool {
        self.generation != 0 && self.ended.is_none()
    }

    fn lost_ns(&self) -> Option<i64> {
        self.ended.as_ref()?.lost_ns
    }
}
