//! The state of the deciding thread, and the inputs that it handles independent of the work in
//! progress.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use plimsoll_clock::{Clock, SystemClock};
use plimsoll_link::identity::Keys;
use plimsoll_link::message::is_name;
use plimsoll_link::{LinkError, TimeService, ToController};
use plimsoll_model::{AgentSpec, AgentStartKind, Command, Event, ListenSpec};
use tokio::runtime::Runtime;

use crate::agents::door::{self, DoorError};
use crate::agents::peer::{AgentCommand, Peer, PeerContext, QUIT_TIMEOUT};
use crate::agents::time_service::TimeServer;
use crate::error::StartError;
use crate::events::Events;
use crate::input::{AgentEvent, Arrival, Input};

/// Maximum number of refused agents that are reported; further ones have the same cause.
const MAX_REFUSED: usize = 100;
/// Maximum number of characters of an invalid name in a message.
const MAX_SHOWN_NAME: usize = 60;

/// What the work in progress has to react to. [`Session::next`] handles all other inputs.
#[derive(Debug)]
pub(crate) enum Incident {
    /// The lab requests work, and none is in progress.
    Command(Command),
    /// The lab asks to stop the work in progress.
    Stop {
        /// The reason, as text.
        reason: String,
    },
    /// The session ends, and the work in progress with it.
    End {
        /// The reason, as text.
        reason: &'static str,
    },
    /// An event of a present agent.
    Agent {
        /// Name of the agent.
        name: Arc<str>,
        /// Generation, which distinguishes successive agents of the same name.
        generation: u64,
        /// The event. Reports of host and clock are already stored ([`AgentEvent::Learnt`]).
        event: AgentEvent,
    },
    /// A file of an agent is complete, or cannot be stored.
    Stored {
        /// Ticket of the request.
        ticket: u32,
        /// The error, if it cannot be stored.
        outcome: io::Result<()>,
    },
    /// The deadline has passed.
    Deadline,
}

/// Agents, the lab, and the inputs of the deciding thread.
pub(crate) struct Session {
    inbox: Receiver<Input>,
    pub(crate) events: Events,
    /// The present agents, by name. They live until the session ends, or are lost.
    pub(crate) peers: BTreeMap<String, Peer>,
    pub(crate) context: PeerContext,
    /// The session ends when the work in progress has ended.
    ending: bool,
    is_busy: bool,
    /// Zero of the run in progress on the controller's clock, ns: notes have the time of the run.
    t0_ns: Option<i64>,
    generation: u64,
    how: AgentCommand,
    runtime: Runtime,
    time: Option<TimeServer>,
    /// Address that agents dial, and the ports that the controller may use; 0: any port.
    address: Option<IpAddr>,
    ports: RangeInclusive<u16>,
    /// Name and incarnation of the processes that were refused.
    refused: BTreeSet<(String, u64)>,
}

impl Session {
    pub(crate) fn new(
        inbox: Receiver<Input>,
        events: Events,
        context: PeerContext,
        how: AgentCommand,
        runtime: Runtime,
    ) -> Self {
        Self {
            inbox,
            events,
            peers: BTreeMap::new(),
            context,
            ending: false,
            is_busy: false,
            t0_ns: None,
            generation: 0,
            how,
            runtime,
            time: None,
            address: None,
            ports: 0..=0,
            refused: BTreeSet::new(),
        }
    }

    /// Waits for the next incident, at most until `deadline`. Inputs that concern no work in
    /// particular are handled here: agents that dial in, refused strangers, commands that cannot be
    /// carried out now, and what agents report about their hosts and clocks.
    pub(crate) fn next(&mut self, deadline: Option<Instant>) -> Incident {
        loop {
            let input = match deadline {
                Some(at) => self
                    .inbox
                    .recv_timeout(at.saturating_duration_since(Instant::now())),
                None => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let incident = match input {
                Ok(input) => self.handle(input),
                Err(RecvTimeoutError::Timeout) => Some(Incident::Deadline),
                Err(RecvTimeoutError::Disconnected) => Some(self.begin_end("the session ends")),
            };
            if let Some(incident) = incident {
                return incident;
            }
        }
    }

    /// What the work in progress has to react to; None if the input is handled.
    fn handle(&mut self, input: Input) -> Option<Incident> {
        match input {
            Input::Command(Command::Stop { reason }) => {
                return self.is_busy.then_some(Incident::Stop { reason });
            }
            Input::Command(Command::Quit) => return Some(self.begin_end("the lab asked to quit")),
            Input::LabEnded => return Some(self.begin_end("the lab has ended")),
            Input::Signal => return Some(self.begin_end("interrupted")),
            Input::Command(command) if !self.is_busy => return Some(Incident::Command(command)),
            Input::Command(_) => self.events.send(&Event::Refused {
                error: "busy: another run or check is in progress".into(),
            }),
            Input::InvalidCommand(why) if self.is_busy => self.note("bad-command", &why),
            Input::InvalidCommand(why) => self.events.send(&Event::Refused { error: why }),
            Input::Arrived(arrival) => self.admit(*arrival),
            Input::Stranger(text) => self.note("stranger", &text),
            Input::Stored { ticket, outcome } => return Some(Incident::Stored { ticket, outcome }),
            Input::Agent {
                name,
                generation,
                event,
            } => return self.handle_agent(name, generation, event),
        }
        None
    }

    /// Handles an event of an agent. Returns `None` if that agent was replaced.
    fn handle_agent(&mut self, name: Arc<str>, generation: u64, event: AgentEvent) -> Option<Incident> {
        let peer = self
            .peers
            .get_mut(&*name)
            .filter(|peer| peer.generation == generation)?;
        peer.waiting.fetch_sub(1, Ordering::Relaxed);
        let event = match event {
            AgentEvent::Message(ToController::Facts(facts)) => {
                if peer.spec.start == AgentStartKind::Joined {
                    self.events.send(&Event::Joined {
                        name: name.to_string(),
                        facts: facts.clone(),
                    });
                }
                peer.facts = Some(facts);
                AgentEvent::Learnt
            }
            AgentEvent::Message(ToController::Clock(clock)) => {
                peer.clock = Some(clock);
                AgentEvent::Learnt
            }
            other => other,
        };
        Some(Incident::Agent {
            name,
            generation,
            event,
        })
    }

    fn begin_end(&mut self, reason: &'static str) -> Incident {
        self.ending = true;
        Incident::End { reason }
    }

    /// Whether the session ends when the work in progress has ended.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending
    }

    /// From now on, commands for other work are refused.
    pub(crate) fn begin_work(&mut self) {
        self.is_busy = true;
    }

    /// The next command is accepted.
    pub(crate) fn end_work(&mut self) {
        (self.is_busy, self.t0_ns) = (false, None);
    }

    /// A run begins at this time of the controller's clock, ns. Later notes have the time of the
    /// run.
    pub(crate) fn begin_run(&mut self, t0_ns: i64) {
        self.t0_ns = Some(t0_ns);
    }

    /// Time of the run in progress, ns; 0 outside of a run.
    pub(crate) fn run_time_ns(&self) -> i64 {
        self.t0_ns.map_or(0, |t0_ns| SystemClock.raw_ns() - t0_ns)
    }

    /// Reports an event to the lab, at the present time of the run.
    pub(crate) fn note(&mut self, kind: &str, text: &str) {
        self.note_at(self.run_time_ns(), kind, text);
    }

    /// Reports an event to the lab, `t_ns` into the run.
    pub(crate) fn note_at(&mut self, t_ns: i64, kind: &str, text: &str) {
        self.events.send(&Event::Note {
            t_s: t_ns as f64 / 1e9,
            kind: kind.into(),
            text: text.into(),
        });
    }

    /// Starts an agent. If it was already started in the same way, only its description is
    /// replaced.
    ///
    /// # Errors
    /// [`StartError`].
    pub(crate) fn start(&mut self, spec: &AgentSpec) -> Result<(), StartError> {
        match self.peers.get_mut(&spec.name) {
            // The same process serves the new description.
            Some(peer) if peer.spec.start == spec.start => {
                peer.spec = spec.clone();
                return Ok(());
            }
            Some(_) => self.drop_peer(&spec.name),
            None => String::new(),
        };
        self.generation += 1;
        let peer = match &spec.start {
            AgentStartKind::Local => Peer::local(
                spec,
                self.generation,
                &self.how,
                &self.context,
                self.runtime.handle(),
            )
            .map_err(|source| StartError::Process {
                name: spec.name.clone(),
                source,
            })?,
            AgentStartKind::Command { argv } => {
                let time = self.time_for(self.generation);
                let runtime = self.runtime.handle();
                Peer::command(spec, self.generation, argv, &self.context, runtime, time)
            }
            AgentStartKind::Joined => return Err(StartError::NotJoined),
        };
        self.peers.insert(spec.name.clone(), peer);
        Ok(())
    }

    /// Ends an agent at once. Returns the exit status of its process as text, if it is known.
    pub(crate) fn drop_peer(&mut self, name: &str) -> String {
        let Some(peer) = self.peers.remove(name) else {
            return String::new();
        };
        let how = peer.kill();
        // Client programs run in separate process groups. Orphans become children of this process,
        // which is their subreaper.
        let spared: Vec<u32> = self.peers.values().flat_map(Peer::processes).collect();
        plimsoll_agent::end_children_but(&spared);
        how
    }

    /// Removes agents that were asked to end; waits for some seconds until they have ended.
    pub(crate) fn dismiss(&mut self, names: &[String]) {
        let since = Instant::now();
        for name in names {
            if let Some(peer) = self.peers.remove(name) {
                peer.wait_for_end(since);
            }
        }
    }

    /// Removes a lost agent. If its version is the cause, the refusal is reported: no other part of
    /// the controller waits for an agent that dials in and would report it.
    pub(crate) fn drop_lost(&mut self, name: &str, error: &LinkError) -> String {
        if let (LinkError::Version(_), Some(peer)) = (error, self.peers.get(name)) {
            let incarnation = peer.incarnation.unwrap_or_default();
            self.refuse(name, incarnation, &error.to_string());
        }
        self.drop_peer(name)
    }

    /// Opens the door, once per session, and returns the event with the token for agents.
    ///
    /// # Errors
    /// [`DoorError`].
    pub(crate) fn listen(&mut self, spec: &ListenSpec) -> Result<Event, DoorError> {
        let mut keys = Keys::generate()?;
        (self.address, self.ports) = (Some(door::address(spec)?), door::ports(spec));
        let port = door::open(spec, &keys, &self.context.inbox, self.runtime.handle())?;
        let mut time_port = 0;
        // A time service that was started before keeps its port, also if that is not in the range.
        if let Some(time) = self.time() {
            (keys.time, time_port) = (time.key(), time.port());
        }
        let token = door::token(spec, &self.context.version, &keys, port, time_port)?;
        Ok(Event::Listening { token, port })
    }

    /// Admits an agent that has dialled in: a new one, or a known one over another link.
    fn admit(&mut self, arrival: Arrival) {
        if !is_name(&arrival.name) {
            let name: String = arrival.name.escape_default().take(MAX_SHOWN_NAME).collect();
            let why = "a name consists of letters, digits, `.`, `_` and `-`, and does not begin with a dot";
            return self.refuse(&name, arrival.greeting.incarnation, why);
        }
        match self.peers.get(&arrival.name) {
            None => {
                self.generation += 1;
                let name = arrival.name.clone();
                let time = self.time_for(self.generation);
                let runtime = self.runtime.handle();
                let peer = Peer::joined(arrival, self.generation, &self.context, runtime, time);
                self.peers.insert(name, peer);
            }
            Some(peer) if peer.spec.start == AgentStartKind::Joined => {
                match peer.check_arrival(&arrival.greeting, &self.context.version) {
                    Ok(()) => peer.add_link(arrival),
                    Err(error) => {
                        self.refuse(&arrival.name, arrival.greeting.incarnation, &error.to_string());
                    }
                }
            }
            Some(_) => {
                let why = "the lab starts an agent with this name: give each agent its own name";
                self.refuse(&arrival.name, arrival.greeting.incarnation, why);
            }
        }
    }

    /// Reports an agent that may not take part, once per process, because it dials repeatedly. No
    /// other part of the controller reports why an agent that dials in is missing.
    fn refuse(&mut self, name: &str, incarnation: u64, why: &str) {
        if self.refused.len() < MAX_REFUSED && self.refused.insert((name.to_owned(), incarnation)) {
            let text = format!("an agent named {name} may not take part: {why}");
            self.note("agent-refused", &text);
        }
    }

    /// The time service, which is started at its first use. `None` if it cannot be started; probes
    /// are then sent over the link.
    fn time(&mut self) -> Option<&TimeServer> {
        if self.time.is_none() {
            self.time = TimeServer::open(self.ports.clone()).ok();
        }
        self.time.as_ref()
    }

    /// The time service for the agent of this generation.
    fn time_for(&mut self, generation: u64) -> TimeService {
        let address = self.address;
        self.time()
            .map(|time| time.of(generation as u32, address))
            .unwrap_or_default()
    }

    /// Ends all agents and writes the remaining events.
    pub(crate) fn end(mut self) {
        let since = Instant::now();
        self.peers.values().for_each(Peer::ask_to_quit);
        let has_commands = self.peers.values().any(|peer| !peer.is_local());
        while let Some((_, peer)) = self.peers.pop_first() {
            peer.wait_for_end(since);
        }
        if has_commands {
            // An agent that a command has started on this host is an orphan as soon as its link has
            // ended, and then still removes its files.
            plimsoll_agent::wait_for_children(QUIT_TIMEOUT.saturating_sub(since.elapsed()));
        }
        plimsoll_agent::end_children();
        self.events.finish();
        self.runtime.shutdown_background();
    }
}
