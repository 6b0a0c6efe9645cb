//! Fetches the segments of agents on other hosts after the load.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_link::{FileInfo, RunKey, ToAgent, ToController};
use plimsoll_model::{AgentSpec, Event};

use super::assemble::greet;
use super::begin::create_directory;
use crate::error::WorkError;
use crate::files::convert::convert_directory;
use crate::input::AgentEvent;
use crate::session::{Incident, Session};

/// If no byte arrives for this time, which is longer than the default grace of a link, the fetch is
/// given up. The segments stay on the agent's host.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Interval at which transfers are checked for this timeout.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The key of the run in `directory` (`RESULTS/runs/0001`). `None` if a name is not valid.
pub(crate) fn run_key(directory: &Path) -> Option<RunKey> {
    let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
    let key = RunKey {
        experiment: name(directory.parent()?.parent()?)?,
        run: name(directory)?,
    };
    key.path().map(|_| key)
}

/// The transfer of the files of one agent.
struct Transfer {
    /// The files that remain; `None` until the agent has sent its list.
    left: Option<Vec<FileInfo>>,
    ticket: Option<u32>,
    name: String,
    /// Bytes of the present file that were written at the last check.
    written: u64,
    /// Time at which bytes were last written.
    since: Instant,
}

/// Fetches all files of a run from `agents` into `segments`: one file at a time from each agent,
/// and from all agents at once. Returns the agents whose files could not be fetched, with the
/// cause.
pub(crate) fn gather(
    session: &mut Session,
    run: &RunKey,
    segments: &Path,
    agents: &[String],
) -> BTreeMap<String, String> {
    let mut gathering = Gathering::new(run, segments);
    for agent in agents {
        gathering.begin(session, agent);
    }
    while !gathering.transfers.is_empty() {
        gathering.step(session);
    }
    gathering.failed
}

/// The transfers of the files of one run from any number of agents. The caller passes it the
/// messages and events that concern it.
pub(crate) struct Gathering {
    run: RunKey,
    segments: PathBuf,
    transfers: BTreeMap<String, Transfer>,
    failed: BTreeMap<String, String>,
    next_check: Instant,
}

impl Gathering {
    pub(crate) fn new(run: &RunKey, segments: &Path) -> Self {
        Self {
            run: run.clone(),
            segments: segments.to_owned(),
            transfers: BTreeMap::new(),
            failed: BTreeMap::new(),
            next_check: Instant::now() + CHECK_INTERVAL,
        }
    }

    /// Starts the transfer of all files that an agent has of the run.
    pub(crate) fn begin(&mut self, session: &Session, agent: &str) {
        let Some(peer) = session.peers.get(agent) else {
            self.failed
                .insert(agent.to_owned(), "its agent has ended".to_owned());
            return;
        };
        let run = self.run.clone();
        peer.send(&ToAgent::List { run });
        let transfer = Transfer {
            left: None,
            ticket: None,
            name: String::new(),
            written: 0,
            since: Instant::now(),
        };
        self.transfers.insert(agent.to_owned(), transfer);
    }

    /// Whether the transfer of this agent's files is in progress.
    pub(crate) fn waits_for(&self, agent: &str) -> bool {
        self.transfers.contains_key(agent)
    }

    /// Removes and returns the cause why the files of this agent could not be fetched; `None` if
    /// all were fetched.
    pub(crate) fn take_failure(&mut self, agent: &str) -> Option<String> {
        self.failed.remove(agent)
    }

    fn step(&mut self, session: &mut Session) {
        match session.next(Some(self.next_check)) {
            Incident::Agent { name, event, .. } => match event {
                AgentEvent::Message(message) => self.handle_message(session, &name, message),
                AgentEvent::Up { again: true } => self.resume(session, &name),
                AgentEvent::Lost(error) => {
                    session.drop_peer(&name);
                    self.give_up(session, &name, error.to_string());
                }
                AgentEvent::Learnt | AgentEvent::Up { .. } | AgentEvent::Cut(_) => {}
            },
            Incident::Stored { ticket, outcome } => self.handle_stored(session, ticket, outcome),
            Incident::End { .. } => self.give_up_all(session, "interrupted"),
            Incident::Deadline => {
                self.next_check = Instant::now() + CHECK_INTERVAL;
                self.give_up_silent(session);
            }
            Incident::Stop { .. } | Incident::Command(_) => {}
        }
    }

    /// Handles a message of an agent.
    pub(crate) fn handle_message(&mut self, session: &Session, name: &str, message: ToController) {
        match message {
            ToController::Files { run, mut files } if run == self.run => {
                if let Some(transfer) = self
                    .transfers
                    .get_mut(name)
                    .filter(|transfer| transfer.left.is_none())
                {
                    files.reverse();
                    transfer.left = Some(files);
                    self.next(session, name);
                }
            }
            ToController::Unsent { ticket, error } => {
                let mine = |transfer: &Transfer| transfer.ticket == Some(ticket);
                if self.transfers.get(name).is_some_and(mine) {
                    self.give_up(session, name, error);
                }
            }
            _ => {}
        }
    }

    /// Requests the next file, or ends the transfer.
    fn next(&mut self, session: &Session, name: &str) {
        let Some(transfer) = self.transfers.get_mut(name) else {
            return;
        };
        while let Some(file) = transfer.left.as_mut().and_then(Vec::pop) {
            if Path::new(&file.name).extension().is_some_and(|end| end == "part") {
                continue; // incomplete, because the process was killed during the write
            }
            let path = self.segments.join(&file.name);
            if !plimsoll_record::is_segment_of(&file.name, name) {
                let why = format!("it sent a file called {:?}, which is not its own", file.name);
                return self.give_up(session, name, why);
            }
            let ticket = match session.context.store.expect(&path, file.bytes) {
                Ok(ticket) => ticket,
                Err(error) => return self.give_up(session, name, format!("{}: {error}", path.display())),
            };
            if file.bytes == 0 {
                if let Err(error) = session.context.store.finish_empty(ticket) {
                    return self.give_up(session, name, format!("{}: {error}", path.display()));
                }
                continue;
            }
            (transfer.ticket, transfer.name) = (Some(ticket), file.name);
            return self.resume(session, name);
        }
        self.transfers.remove(name);
    }

    /// Requests the rest of the present file, at its start or over a new link.
    pub(crate) fn resume(&mut self, session: &Session, name: &str) {
        let Some(transfer) = self.transfers.get_mut(name) else {
            return;
        };
        let (Some(ticket), Some(peer)) = (transfer.ticket, session.peers.get(name)) else {
            return;
        };
        transfer.since = Instant::now();
        transfer.written = session.context.store.written(ticket).unwrap_or(0);
        peer.send(&ToAgent::Fetch {
            ticket,
            run: self.run.clone(),
            name: transfer.name.clone(),
            offset: transfer.written,
        });
    }

    /// Handles the end of a file: it is complete, or cannot be stored.
    pub(crate) fn handle_stored(&mut self, session: &Session, ticket: u32, outcome: io::Result<()>) {
        let mut all = self.transfers.iter();
        let Some((name, _)) = all.find(|(_, transfer)| transfer.ticket == Some(ticket)) else {
            return;
        };
        let name = name.clone();
        match outcome {
            Ok(()) => self.next(session, &name),
            Err(error) => self.give_up(session, &name, error.to_string()),
        }
    }

    /// Abandons the transfers in which no byte has arrived for [`TIMEOUT`].
    fn give_up_silent(&mut self, session: &mut Session) {
        let mut silent = Vec::new();
        for (name, transfer) in &mut self.transfers {
            let written = transfer
                .ticket
                .and_then(|ticket| session.context.store.written(ticket))
                .unwrap_or(0);
            if written > transfer.written {
                (transfer.written, transfer.since) = (written, Instant::now());
            }
            if transfer.since.elapsed() > TIMEOUT {
                silent.push(name.clone());
            }
        }
        for name in silent {
            self.give_up(
                session,
                &name,
                format!("no data was received for {} s", TIMEOUT.as_secs()),
            );
        }
    }

    /// Abandons the transfer of an agent. Complete files stay.
    pub(crate) fn give_up(&mut self, session: &Session, name: &str, why: String) {
        if let Some(transfer) = self.transfers.remove(name) {
            if let Some(ticket) = transfer.ticket {
                session.context.store.forget(ticket);
            }
            self.failed.insert(name.to_owned(), why);
        }
    }

    fn give_up_all(&mut self, session: &Session, why: &str) {
        for name in self.transfers.keys().cloned().collect::<Vec<_>>() {
            self.give_up(session, &name, why.to_owned());
        }
    }
}

/// Asks agents to remove their files of a run, which are stored on this host.
pub(crate) fn forget(session: &Session, run: &RunKey, agents: &[String]) {
    for peer in agents.iter().filter_map(|agent| session.peers.get(agent)) {
        peer.send(&ToAgent::Forget { run: run.clone() });
    }
}

/// Fetches the segments of the run in `directory` that agents have kept, converts them, and
/// computes the summary again.
///
/// # Errors
/// [`WorkError`]. Fetched segments stay in `directory`.
pub(crate) fn collect(
    session: &mut Session,
    directory: &Path,
    agents: &[AgentSpec],
) -> Result<Event, WorkError> {
    let run = run_key(directory).ok_or_else(|| WorkError::NotRun(directory.to_owned()))?;
    let segments = directory.join("segments");
    create_directory(&segments)?;
    let missing = greet(session, agents)?;
    let present: Vec<String> = agents
        .iter()
        .map(|agent| agent.name.clone())
        .filter(|name| !missing.contains_key(name))
        .collect();
    let failed = gather(session, &run, &segments, &present);
    let complete: BTreeSet<&String> = present
        .iter()
        .filter(|name| !failed.contains_key(*name))
        .collect();
    let complete: Vec<String> = complete.into_iter().cloned().collect();
    let summary = convert_directory(directory)?;
    forget(session, &run, &complete);
    let missing = missing.into_iter().map(|(name, why)| (name, why.to_string()));
    let missing: BTreeMap<String, String> = missing.chain(failed).collect();
    Ok(Event::Collected {
        finished: summary.map(|summary| summary.outcome()),
        missing: missing
            .into_iter()
            .map(|(name, why)| format!("{name}: {why}"))
            .collect(),
    })
}
