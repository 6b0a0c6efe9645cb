//! The conversation with the lab: commands in, events out, one run at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use plimsoll_link::identity::Keys;
use plimsoll_link::message::is_name;
use plimsoll_link::{Greeting, LinkError, TimeService, ToController};
use plimsoll_model::{AgentSpec, AgentStartKind, Command, Event, ListenSpec, format};
use tokio::runtime::Runtime;

use crate::assemble::check_names;
use crate::door::{self, Arrival};
use crate::events::Events;
use crate::peer::{AgentEvent, Peer, PeerContext};
use crate::time_service::TimeServer;
use crate::{check, gather, run};

/// Longest line that the lab may send.
const MAX_LINE: u64 = 64 * 1024 * 1024;
/// Agents that are told of as refused; more than so many are one fault, which need not be told more
/// often.
const MAX_REFUSED: usize = 100;
/// Characters of a name that is none.
const MAX_SHOWN_NAME: usize = 60;

/// How a local agent is started: the program, and the arguments before `--fd N`.
#[derive(Debug, Clone)]
pub struct AgentCommand {
    /// Path of the engine.
    pub program: OsString,
    /// For instance `["agent"]`.
    pub arguments: Vec<OsString>,
    /// A link over which nothing is heard for so long is broken: [`plimsoll_link::SILENCE_TIMEOUT`].
    pub silence: Duration,
}

/// Why the controller cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No thread is to be had.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// Everything that the deciding thread hears.
#[derive(Debug)]
pub(crate) enum Input {
    /// From the lab.
    Command(Command),
    /// A line that is no command.
    InvalidCommand(String),
    /// The lab closed its end, or died.
    LabEnded,
    /// Somebody asks us to end.
    Signal,
    /// From the agent of this name and generation.
    Agent {
        /// Its name.
        name: Arc<str>,
        /// Which of those that had the name.
        generation: u64,
        /// What it says, or what became of it.
        heard: AgentEvent,
    },
    /// An agent has dialled in.
    Arrived(Box<Arrival>),
    /// Somebody who has no key has knocked.
    Stranger(String),
    /// A file of an agent is whole, or cannot be stored.
    Stored {
        /// Of the request.
        ticket: u32,
        /// Why not.
        outcome: Result<(), String>,
    },
}

/// The deciding thread's means.
pub(crate) struct Session {
    pub(crate) inbox: Receiver<Input>,
    pub(crate) events: Events,
    /// All agents that are there, by name. They live until the session ends, or are lost.
    pub(crate) peers: BTreeMap<String, Peer>,
    /// The conversation ends when the run that goes on has ended.
    pub(crate) ending: bool,
    pub(crate) context: PeerContext,
    generation: u64,
    how: AgentCommand,
    runtime: Runtime,
    time: Option<TimeServer>,
    /// Where agents are told to dial us, and the ports that we may take for that; 0: any.
    address: Option<IpAddr>,
    ports: RangeInclusive<u16>,
    /// Processes that were refused, by the name that they gave.
    refused: BTreeSet<(String, u64)>,
}

impl Session {
    /// Starts an agent, or tells the one that is there and is started in this way what it is now.
    ///
    /// # Errors
    /// A text for people.
    pub(crate) fn start(&mut self, spec: &AgentSpec) -> Result<(), String> {
        match self.peers.get_mut(&spec.name) {
            // It is the same process, whatever it is to be called or to do.
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
            .map_err(|error| format!("agent {} could not be started: {error}", spec.name))?,
            AgentStartKind::Command { argv } => {
                let time = self.time_for(self.generation);
                let runtime = self.runtime.handle();
                Peer::command(spec, self.generation, argv, &self.context, runtime, time)
            }
            AgentStartKind::Joined => return Err("it has not dialled in".into()),
        };
        self.peers.insert(spec.name.clone(), peer);
        Ok(())
    }

    /// Ends an agent at once; gives how its process had ended.
    pub(crate) fn drop_peer(&mut self, name: &str) -> String {
        let Some(peer) = self.peers.remove(name) else {
            return String::new();
        };
        let how = peer.kill();
        // Client programs run in process groups of their own; orphans come to us, their subreaper.
        let spared: Vec<u32> = self.peers.values().flat_map(Peer::processes).collect();
        plimsoll_agent::end_children_but(&spared);
        how
    }

    /// Waits a moment until agents that were told to end have done so; then they are not there any
    /// more.
    pub(crate) fn dismiss(&mut self, names: &[String]) {
        let since = Instant::now();
        for name in names {
            if let Some(peer) = self.peers.remove(name) {
                peer.wait_for_end(since);
            }
        }
    }

    /// The agent that an input is from; none if that is not there any more.
    pub(crate) fn peer(&self, name: &str, generation: u64) -> Option<&Peer> {
        let peer = self
            .peers
            .get(name)
            .filter(|peer| peer.generation == generation)?;
        peer.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(peer)
    }

    /// Takes in what an agent says of itself at any time; gives back what else it says.
    pub(crate) fn learn(&mut self, name: &str, said: ToController) -> Option<ToController> {
        let peer = self.peers.get_mut(name)?;
        match said {
            ToController::Facts(facts) => {
                if peer.spec.start == AgentStartKind::Joined {
                    self.events.send(&Event::Joined {
                        name: name.to_owned(),
                        facts: facts.clone(),
                    });
                }
                peer.facts = Some(facts);
            }
            ToController::Clock(clock) => peer.clock = Some(clock),
            other => return Some(other),
        }
        None
    }

    /// Opens the door, once, and gives what agents need to come through it.
    fn listen(&mut self, spec: &ListenSpec) -> Result<Event, String> {
        let mut keys = Keys::generate().map_err(|error| error.to_string())?;
        (self.address, self.ports) = (Some(door::address(spec)?), door::ports(spec));
        let port = door::open(spec, &keys, &self.context.inbox, self.runtime.handle())?;
        let mut time_port = 0;
        // One that agents of another kind have needed before keeps its port, be it of the range or
        // not.
        if let Some(time) = self.time() {
            (keys.time, time_port) = (time.key(), time.port());
        }
        let token = door::token(spec, &self.context.version, &keys, port, time_port)?;
        Ok(Event::Listening { token, port })
    }

    /// An agent that has the key is at the door: it is new, or comes again over another link.
    /// `t_ns` is the time of the run.
    pub(crate) fn admit(&mut self, arrival: Arrival, t_ns: i64) {
        if !is_name(&arrival.name) {
            let name: String = arrival.name.escape_default().take(MAX_SHOWN_NAME).collect();
            let why = "a name has letters, digits, `.`, `_` and `-`, and does not begin with a dot";
            return self.refuse(t_ns, &name, arrival.greeting.incarnation, why);
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
                    Err(why) => self.refuse(t_ns, &arrival.name, arrival.greeting.incarnation, &why),
                }
            }
            Some(_) => {
                let why = "an agent of this name is started by the lab";
                self.refuse(t_ns, &arrival.name, arrival.greeting.incarnation, why);
            }
        }
    }

    /// Tells of an agent that may not take part, once for each process: it asks again and again,
    /// and nobody waits for one that dials in by name, and so nobody would ask why it does not
    /// come.
    pub(crate) fn refuse(&mut self, t_ns: i64, name: &str, incarnation: u64, why: &str) {
        if self.refused.len() < MAX_REFUSED && self.refused.insert((name.to_owned(), incarnation)) {
            let text = format!("an agent that calls itself {name} may not take part: {why}");
            note(self, t_ns, "agent-refused", &text);
        }
    }

    /// The time service; it begins with the first who needs it. None where it cannot: probes ride
    /// the link then.
    fn time(&mut self) -> Option<&TimeServer> {
        if self.time.is_none() {
            self.time = TimeServer::open(self.ports.clone()).ok();
        }
        self.time.as_ref()
    }

    /// What the agent of this generation is told of our time.
    fn time_for(&mut self, generation: u64) -> TimeService {
        let address = self.address;
        self.time()
            .map(|time| time.of(generation as u32, address))
            .unwrap_or_default()
    }

    fn end_peers(&mut self) {
        let since = Instant::now();
        self.peers.values().for_each(Peer::ask_to_quit);
        while let Some((_, peer)) = self.peers.pop_first() {
            peer.wait_for_end(since);
        }
        plimsoll_agent::end_children();
    }
}

/// Tells the lab of something worth a line in the events, `t_ns` into the run.
pub(crate) fn note(session: &mut Session, t_ns: i64, kind: &str, text: &str) {
    session.events.send(&Event::Note {
        t_s: t_ns as f64 / 1e9,
        kind: kind.into(),
        text: text.into(),
    });
}

/// Carries out what the lab asks for on `input`, and tells on `output`, until Quit, the end of
/// `input`, or a message on `signals`. A run that goes on is then stopped cleanly first.
///
/// # Errors
/// [`ControlError`] before anything has begun; later failures are events.
pub fn control(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    signals: Receiver<i32>,
    how: AgentCommand,
    version: &str,
) -> Result<(), ControlError> {
    plimsoll_agent::adopt_orphans();
    let (sender, inbox) = mpsc::channel();
    let events = Events::start(output, sender.clone())?;
    read_commands(input, sender.clone())?;
    forward_signals(signals, sender.clone())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("links")
        .enable_all()
        .build()?;
    let context = PeerContext {
        inbox: sender,
        store: Arc::default(),
        own: Greeting::new(version),
        version: version.to_owned(),
        silence: how.silence,
    };
    let mut session = Session {
        inbox,
        events,
        peers: BTreeMap::new(),
        ending: false,
        context,
        generation: 0,
        how,
        runtime,
        time: None,
        address: None,
        ports: 0..=0,
        refused: BTreeSet::new(),
    };
    session.events.send(&Event::Hello {
        format: format::ENGINE.into(),
        version: version.into(),
    });
    while !session.ending {
        match session.inbox.recv() {
            Ok(Input::Command(command)) => obey(&mut session, command),
            Ok(Input::LabEnded | Input::Signal) | Err(_) => session.ending = true,
            Ok(Input::InvalidCommand(why)) => session.events.send(&Event::Refused { error: why }),
            Ok(Input::Agent {
                name,
                generation,
                heard,
            }) => between_runs(&mut session, &name, generation, heard),
            Ok(Input::Arrived(arrival)) => session.admit(*arrival, 0),
            Ok(Input::Stranger(text)) => note(&mut session, 0, "stranger", &text),
            Ok(Input::Stored { .. }) => {}
        }
    }
    session.end_peers();
    session.events.finish();
    session.runtime.shutdown_background();
    Ok(())
}

fn obey(session: &mut Session, command: Command) {
    let named = match &command {
        Command::Run { agents, .. } | Command::Check { agents, .. } | Command::Collect { agents, .. } => {
            check_names(agents)
        }
        _ => Ok(()),
    };
    if let Err(error) = named {
        return session.events.send(&Event::Refused { error });
    }
    let event = match command {
        Command::Run { spec, agents, rules } => match run::carry_out(session, *spec, &agents, rules) {
            Ok(finished) => Event::Finished(finished),
            Err(error) => Event::Refused { error },
        },
        Command::Check { agents, baseline } => {
            check::check(session, &agents, baseline.as_ref());
            Event::Checked
        }
        Command::Collect { directory, agents } => gather::collect(session, &directory, &agents),
        Command::Listen(spec) => session
            .listen(&spec)
            .unwrap_or_else(|error| Event::Refused { error }),
        Command::Stop { .. } => return,
        Command::Quit => {
            session.ending = true;
            return;
        }
    };
    session.events.send(&event);
}

/// Between runs nothing is lost by the loss of an agent: the next run starts another one.
fn between_runs(session: &mut Session, name: &str, generation: u64, heard: AgentEvent) {
    if session.peer(name, generation).is_none() {
        return;
    }
    match heard {
        AgentEvent::Lost(error) => {
            report_version_refusal(session, 0, name, &error);
            session.drop_peer(name);
        }
        AgentEvent::Message(said) => {
            session.learn(name, said);
        }
        AgentEvent::Up { .. } | AgentEvent::Cut(_) => {}
    }
}

/// Tells of an agent that nobody has waited for if its version is what kept it out.
pub(crate) fn report_version_refusal(session: &mut Session, t_ns: i64, name: &str, error: &LinkError) {
    if let (LinkError::Version(_), Some(peer)) = (error, session.peers.get(name)) {
        let incarnation = peer.incarnation.unwrap_or_default();
        session.refuse(t_ns, name, incarnation, &error.to_string());
    }
}

/// Reads commands, a line each.
fn read_commands(input: impl Read + Send + 'static, sender: Sender<Input>) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name("commands".into())
        .spawn(move || {
            let mut input = BufReader::new(input);
            let mut line = Vec::new();
            loop {
                line.clear();
                let read = input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
                let message = match read {
                    Ok(0) | Err(_) => Input::LabEnded,
                    // The text is not repeated: it may hold secrets.
                    Ok(_) => match serde_json::from_slice(&line) {
                        Ok(command) => Input::Command(command),
                        Err(_) if line.trim_ascii().is_empty() => continue,
                        Err(error) => {
                            Input::InvalidCommand(format!("not a command: {}", without_values(&error)))
                        }
                    },
                };
                let last = matches!(message, Input::LabEnded);
                if sender.send(message).is_err() || last {
                    return;
                }
            }
        })?;
    Ok(())
}

/// What is wrong with a command, without the values in it.
fn without_values(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = match error.classify() {
        // Such a text names fields and types, and in quotation marks the value that was found.
        serde_json::error::Category::Data
            if text.starts_with("invalid value") || text.starts_with("invalid type") =>
        {
            text.split_once(", expected").map_or_else(
                || "a wrong value".to_owned(),
                |(_, rest)| format!("expected{rest}"),
            )
        }
        _ => text,
    };
    what.chars().take(400).collect()
}

fn forward_signals(signals: Receiver<i32>, sender: Sender<Input>) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let mut count = 0;
            while signals.recv().is_ok() {
                count += 1;
                if sender.send(Input::Signal).is_err() {
                    return;
                }
                if count == 3 {
                    // Whoever asks three times does not want to wait for files; `convert` finds the
                    // segments later.
                    plimsoll_agent::end_children();
                    std::process::exit(130);
                }
            }
        })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_command_is_told_without_what_stood_in_it() {
        for line in [
            r#"{"type":"run","spec":"hunter2"}"#,
            r#"{"type":"stop","reason":["hunter2"]}"#,
            r#"{"type":"stop","reason":7}"#,
        ] {
            let error = serde_json::from_str::<Command>(line).unwrap_err();
            let text = without_values(&error);
            assert!(!text.contains("hunter2") && !text.contains('7'), "{text}");
            assert!(text.contains("expected"), "{text}");
        }
    }
}
