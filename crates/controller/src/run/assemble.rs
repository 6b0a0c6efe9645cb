//! Starts and prepares the agents of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plimsoll_link::{Portion, Prepare, Spool, ToAgent, ToController};
use plimsoll_model::{AgentRules, AgentSpec, AgentStartKind, Limits, Role, RunSpec};

use super::host_files::with_host_files;
use crate::agents::peer::Peer;
use crate::error::{MissingError, NameError, PrepareError, StoppedError, WorkError};
use crate::input::AgentEvent;
use crate::session::{Incident, Session};

/// Maximum time until an agent has reported its host and its clock: on this host, and on another
/// host, which may need a login.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
const FAR_GREETING_TIMEOUT: Duration = Duration::from_secs(40);
/// Maximum time to prepare a run. To read certificates and look up names may take long.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(120);
/// The same if testers replay a trace: they create its files before the load.
const MAKE_FILES_TIMEOUT: Duration = Duration::from_secs(3600);
/// Name of the agent of a run without a list of agents.
const LOCAL_AGENT: &str = "local";

/// Waits until each of the agents `names` has answered or is lost, for at most `max_wait`. Each
/// event of such an agent is passed to `handle`, with its message if it has one. `handle` returns
/// true if the agent has answered, or the cause why it is missing. Returns the missing agents with
/// the cause.
///
/// # Errors
/// [`StoppedError`]: the work was stopped before all had answered.
pub(crate) fn wait_for(
    session: &mut Session,
    names: &BTreeSet<String>,
    max_wait: Duration,
    mut handle: impl FnMut(&mut Session, &str, Option<ToController>) -> Result<bool, MissingError>,
) -> Result<BTreeMap<String, MissingError>, StoppedError> {
    let deadline = Instant::now() + max_wait;
    let mut left = names.clone();
    let mut missing = BTreeMap::new();
    while !left.is_empty() {
        let (name, event) = match session.next(Some(deadline)) {
            Incident::Agent { name, event, .. } => (name, event),
            Incident::Stop { reason } => return Err(StoppedError::ByLab(reason)),
            Incident::End { .. } => return Err(StoppedError::SessionEnd),
            Incident::Deadline => {
                for name in std::mem::take(&mut left) {
                    session.drop_peer(&name);
                    missing.insert(name, MissingError::Silent(max_wait));
                }
                break;
            }
            Incident::Command(_) | Incident::Stored { .. } => continue,
        };
        if !left.contains(&*name) {
            if let AgentEvent::Lost(error) = event {
                session.drop_lost(&name, &error);
            }
            continue;
        }
        let answer = match event {
            AgentEvent::Lost(error) => {
                let status = session.drop_peer(&name);
                Err(if status.is_empty() {
                    MissingError::Lost(error)
                } else {
                    MissingError::Ended { error, status }
                })
            }
            AgentEvent::Message(message) => handle(session, &name, Some(message)),
            AgentEvent::Learnt | AgentEvent::Up { .. } | AgentEvent::Cut(_) => handle(session, &name, None),
        };
        if !matches!(answer, Ok(false)) {
            left.remove(&*name);
        }
        if let Err(why) = answer {
            missing.insert(name.to_string(), why);
        }
    }
    Ok(missing)
}

/// Starts those of `agents` that are not connected, and waits until they have reported their host
/// and, on other hosts, their estimate of the controller's clock. Returns the missing agents with
/// the cause.
///
/// # Errors
/// [`StoppedError`].
pub(crate) fn greet(
    session: &mut Session,
    agents: &[AgentSpec],
) -> Result<BTreeMap<String, MissingError>, StoppedError> {
    let mut missing = BTreeMap::new();
    let mut expected = BTreeSet::new();
    let known = |peer: &Peer| peer.facts.is_some() && (peer.is_local() || peer.clock.is_some());
    for agent in agents {
        match session.start(agent) {
            Ok(()) if session.peers.get(&agent.name).is_some_and(known) => {}
            Ok(()) => {
                expected.insert(agent.name.clone());
            }
            Err(error) => {
                missing.insert(agent.name.clone(), error.into());
            }
        }
    }
    let far = agents.iter().any(|agent| agent.start != AgentStartKind::Local);
    let max_wait = if far {
        FAR_GREETING_TIMEOUT
    } else {
        GREETING_TIMEOUT
    };
    let late = wait_for(session, &expected, max_wait, |session, name, _| {
        Ok(session.peers.get(name).is_some_and(known))
    })?;
    missing.extend(late);
    Ok(missing)
}

/// The agents of a run: `agents`, or one on this host if the list is empty.
pub(crate) fn crew(agents: &[AgentSpec]) -> Vec<AgentSpec> {
    if !agents.is_empty() {
        return agents.to_vec();
    }
    vec![AgentSpec {
        name: LOCAL_AGENT.into(),
        host: LOCAL_AGENT.into(),
        site: LOCAL_AGENT.into(),
        role: Role::Testers,
        start: AgentStartKind::Local,
        watch: Vec::new(),
        files: BTreeMap::new(),
        limits: Limits::default(),
    }]
}

/// Checks that the names of the agents are unique and can be names of files.
///
/// # Errors
/// [`NameError`] for the first name that is repeated or invalid.
pub(crate) fn check_names(agents: &[AgentSpec]) -> Result<(), NameError> {
    let mut names = BTreeSet::new();
    for agent in agents {
        let name = agent.name.as_str();
        if !plimsoll_link::message::is_name(name) {
            return Err(NameError::Invalid(name.to_owned()));
        }
        if !names.insert(name) {
            return Err(NameError::Repeated(name.to_owned()));
        }
    }
    Ok(())
}

/// Asks one agent of `crew` to prepare the run. The agent answers Prepared or Failed.
///
/// # Errors
/// [`PrepareError`].
pub(crate) fn ask_to_prepare(
    session: &Session,
    name: &str,
    crew: &[AgentSpec],
    spec: &RunSpec,
    rules: &AgentRules,
    spool: &impl Fn(&Peer) -> Spool,
) -> Result<(), PrepareError> {
    let portions = portions(crew, spec)?;
    let known = session
        .peers
        .get(name)
        .zip(crew.iter().position(|agent| agent.name == name));
    let (peer, index) = known.ok_or_else(|| PrepareError::Ended(name.to_owned()))?;
    peer.grace_ns.store(rules.grace_ns, Ordering::Relaxed);
    let mut own = with_host_files(spec, &crew[index].files);
    if !peer.is_local() {
        // Process ids and core numbers are only valid on this host.
        own.watch = Vec::new();
        own.tester_cpus = Vec::new();
    }
    peer.send(&ToAgent::Prepare(Box::new(Prepare {
        spec: own,
        agents: crew.iter().map(|agent| agent.name.clone()).collect(),
        index: index as u16,
        portions: portions.iter().map(|workload| workload[index]).collect(),
        budget: budget(&portions, crew.len())[index],
        spool: spool(peer),
        watch: crew[index].watch.clone(),
        grace_ns: rules.grace_ns,
        max_rate_error_ppm: rules.max_rate_error_ppm,
        limits: crew[index].limits,
    })));
    Ok(())
}

/// Prepares the run on all agents of `crew`, except those that connect late (`late`). A watching
/// agent that cannot prepare the run is skipped.
///
/// # Errors
/// [`WorkError`] of the first agent that cannot prepare the run. All agents are then ended.
pub(crate) fn prepare(
    session: &mut Session,
    crew: &[AgentSpec],
    late: &[String],
    spec: &RunSpec,
    rules: &AgentRules,
    spool: &impl Fn(&Peer) -> Spool,
) -> Result<(), WorkError> {
    let agents: Vec<String> = crew
        .iter()
        .map(|agent| agent.name.clone())
        .filter(|name| !late.contains(name))
        .collect();
    let watches = |name: &str| {
        let mut all = crew.iter();
        all.any(|agent| agent.name == name && agent.role == Role::Watch)
    };
    let mut names = BTreeSet::new();
    for agent in &agents {
        match ask_to_prepare(session, agent, crew, spec, rules, spool) {
            Ok(()) => {
                names.insert(agent.clone());
            }
            Err(why) if watches(agent) => skip_watch(session, agent, &why.to_string()),
            Err(why) => return Err(why.into()),
        }
    }
    let mut drivers = spec
        .workloads
        .iter()
        .filter_map(|workload| plimsoll_drive::driver(&workload.driver));
    let max_wait = if drivers.any(|driver| driver.prepares_files) {
        MAKE_FILES_TIMEOUT
    } else {
        PREPARE_TIMEOUT
    };
    let prepared = wait_for(session, &names, max_wait, |_, _, message| match message {
        None => Ok(false),
        Some(ToController::Prepared) => Ok(true),
        Some(ToController::Failed { error }) => Err(MissingError::Failed(error)),
        Some(ToController::Leaving { reason }) => Err(MissingError::Leaving(reason)),
        Some(other) => Err(MissingError::Unexpected(Box::new(other))),
    });
    let why = match prepared {
        Ok(missing) => {
            let (unwatched, mut missing): (BTreeMap<_, _>, BTreeMap<_, _>) =
                missing.into_iter().partition(|(agent, _)| watches(agent));
            for (agent, why) in unwatched {
                skip_watch(session, &agent, &why.to_string());
            }
            match missing.pop_first() {
                None => return Ok(()),
                Some((_, why)) if crew.len() == 1 => WorkError::NotPrepared(why),
                Some((agent, why)) => WorkError::AgentsNotPrepared {
                    agent,
                    why: Box::new(why),
                    more: missing.len(),
                },
            }
        }
        Err(stopped) => stopped.into(),
    };
    // Some agents have prepared a run that does not start: the next run gets new processes.
    for agent in &agents {
        session.drop_peer(agent);
    }
    Err(why)
}

/// Ends the agent of a watched host, which is not watched in this run.
fn skip_watch(session: &mut Session, agent: &str, why: &str) {
    session.drop_peer(agent);
    session.note("watch-lost", &format!("{agent} is not watched: {why}"));
}

/// The parts of all agents in all workloads, indexed by workload and agent. Testers are assigned in
/// turn, so the numbers of testers differ by at most one.
///
/// # Errors
/// [`PrepareError::NoAgents`].
fn portions(crew: &[AgentSpec], spec: &RunSpec) -> Result<Vec<Vec<Option<Portion>>>, PrepareError> {
    let mut all = Vec::new();
    for workload in &spec.workloads {
        let has_testers = |agent: &&AgentSpec| {
            agent.role == Role::Testers
                && (workload.agents.is_empty() || workload.agents.contains(&agent.name))
        };
        let of = crew.iter().filter(has_testers).count() as u16;
        if of == 0 {
            return Err(PrepareError::NoAgents(workload.name.clone()));
        }
        let mut index = 0;
        all.push(
            crew.iter()
                .map(|agent| {
                    has_testers(&agent).then(|| {
                        index += 1;
                        Portion { index: index - 1, of }
                    })
                })
                .collect(),
        );
    }
    Ok(all)
}

/// The parts of all agents in the budget of transactions. It is divided among the agents with
/// testers.
fn budget(portions: &[Vec<Option<Portion>>], agents: usize) -> Vec<Portion> {
    let has_testers = |index: &usize| portions.iter().any(|workload| workload[*index].is_some());
    let of = (0..agents).filter(has_testers).count() as u16;
    let mut next = 0;
    (0..agents)
        .map(|index| {
            let portion = Portion { index: next, of };
            next += u16::from(has_testers(&index));
            portion
        })
        .collect()
}
