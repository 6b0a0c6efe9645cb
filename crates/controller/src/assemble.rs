//! The agents of a run, there and prepared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plimsoll_link::{Portion, Prepare, Spool, ToAgent, ToController};
use plimsoll_model::{AgentRules, AgentSpec, AgentStartKind, Role, RunSpec};

use crate::files_there::with_host_files;
use crate::input::AgentEvent;
use crate::peer::Peer;
use crate::session::{Incident, Session};

/// A process on this host must speak after so long; one elsewhere has a login before it.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
const FAR_GREETING_TIMEOUT: Duration = Duration::from_secs(40);
/// Reading certificates and looking up names may take long; longer than this is a fault.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(120);
/// Testers that replay make their files before the load.
const MAKE_FILES_TIMEOUT: Duration = Duration::from_secs(3600);
/// Name of the agent where a run names none.
const LOCAL_AGENT: &str = "local";

/// Waits until `is_there` holds for each of `names`, or they are lost, or `patience` is over. Words
/// that are nothing to wait for are given to `hear`; a true from it means that the agent has
/// answered. Gives why each of the missing is missing.
///
/// # Errors
/// The run was stopped meanwhile.
pub(crate) fn wait_for(
    session: &mut Session,
    names: &BTreeSet<String>,
    max_wait: Duration,
    mut handle: impl FnMut(&mut Session, &str, Option<ToController>) -> Result<bool, String>,
) -> Result<BTreeMap<String, String>, String> {
    let deadline = Instant::now() + max_wait;
    let mut left = names.clone();
    let mut missing = BTreeMap::new();
    while !left.is_empty() {
        let (name, event) = match session.next(Some(deadline)) {
            Incident::Agent { name, event, .. } => (name, event),
            Incident::Stop { reason } => return Err(stopped(&reason)),
            Incident::End { .. } => return Err(stopped("the session ends")),
            Incident::Deadline => {
                for name in std::mem::take(&mut left) {
                    session.drop_peer(&name);
                    missing.insert(name, format!("it did not answer within {} s", max_wait.as_secs()));
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
            AgentEvent::Lost(error) => Err(match session.drop_peer(&name).as_str() {
                "" => error.to_string(),
                how => format!("{error}; {how}"),
            }),
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

fn stopped(reason: &str) -> String {
    format!("stopped before the load began: {reason}")
}

/// Starts those of `agents` that are not there, and waits until they have said what host they are
/// on and, where their clock is another, what they know of ours. Gives why each of the missing is
/// missing.
///
/// # Errors
/// Stopped meanwhile.
pub(crate) fn greet(session: &mut Session, agents: &[AgentSpec]) -> Result<BTreeMap<String, String>, String> {
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
                missing.insert(agent.name.clone(), error);
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

/// The agents of a run: `agents`, or one on this host.
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
    }]
}

/// Refuses a list of agents that could not be told apart, or whose names cannot be names of files.
///
/// # Errors
/// A text for people, with the first such name.
pub(crate) fn check_names(agents: &[AgentSpec]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for agent in agents {
        let name = agent.name.as_str();
        if !plimsoll_link::message::is_name(name) {
            return Err(format!(
                "agent {name:?}: a name has letters, digits, `.`, `_` and `-`, and no dot in front"
            ));
        }
        if !seen.insert(name) {
            return Err(format!(
                "agent {name} is listed twice: each agent needs its own name"
            ));
        }
    }
    Ok(())
}

/// Asks one agent of `crew` to get ready for the run; answered by Prepared or Failed.
///
/// # Errors
/// A text for people.
pub(crate) fn ask_to_prepare(
    session: &Session,
    name: &str,
    crew: &[AgentSpec],
    spec: &RunSpec,
    rules: &AgentRules,
    spool: &impl Fn(&Peer) -> Spool,
) -> Result<(), String> {
    let portions = portions(crew, spec)?;
    let found = session
        .peers
        .get(name)
        .zip(crew.iter().position(|agent| agent.name == name));
    let (peer, index) = found.ok_or_else(|| format!("agent {name} has ended"))?;
    peer.grace_ns.store(rules.grace_ns, Ordering::Relaxed);
    let mut own = with_host_files(spec, &crew[index].files);
    if !peer.is_local() {
        // Process ids and cores are those of this host.
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
    })));
    Ok(())
}

/// Has every agent of `crew` but those that are `late` check the run and get ready for it. One that
/// only watches and cannot is left out.
///
/// # Errors
/// A text for people, from the first that cannot; those that could are told to forget it.
pub(crate) fn prepare(
    session: &mut Session,
    crew: &[AgentSpec],
    late: &[String],
    spec: &RunSpec,
    rules: &AgentRules,
    spool: &impl Fn(&Peer) -> Spool,
) -> Result<(), String> {
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
            Err(why) if watches(agent) => skip_watch(session, agent, &why),
            Err(why) => return Err(why),
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
    let prepared = wait_for(session, &names, max_wait, |_, _, said| match said {
        None => Ok(false),
        Some(ToController::Prepared) => Ok(true),
        Some(ToController::Failed { error }) => Err(error),
        Some(ToController::Leaving { reason }) => Err(format!("it was asked to end ({reason})")),
        Some(other) => Err(format!("it answered {other:?}: please report this")),
    });
    let why = match prepared {
        Ok(missing) => {
            let (unwatched, missing): (BTreeMap<_, _>, BTreeMap<_, _>) =
                missing.into_iter().partition(|(agent, _)| watches(agent));
            for (agent, why) in unwatched {
                skip_watch(session, &agent, &why);
            }
            if missing.is_empty() {
                return Ok(());
            }
            let first = missing.iter().next();
            let first = first.map(|(name, why)| {
                if crew.len() == 1 {
                    why.clone()
                } else {
                    format!("agent {name}: {why}")
                }
            });
            let more = missing.len().saturating_sub(1);
            match more {
                0 => first.unwrap_or_default(),
                _ => format!("{} (and {more} more)", first.unwrap_or_default()),
            }
        }
        Err(stopped) => stopped,
    };
    // They hold a prepared run that nobody wants: the next run gets fresh processes.
    for agent in &agents {
        session.drop_peer(agent);
    }
    Err(why)
}

/// A host of the target is not watched in this run.
fn skip_watch(session: &mut Session, agent: &str, why: &str) {
    session.drop_peer(agent);
    session.note("watch-lost", &format!("{agent} is not watched: {why}"));
}

/// For each workload and agent, what that carries: dealt out in turn, so that parts differ by at
/// most one.
fn portions(crew: &[AgentSpec], spec: &RunSpec) -> Result<Vec<Vec<Option<Portion>>>, String> {
    let mut all = Vec::new();
    for workload in &spec.workloads {
        let has_testers = |agent: &&AgentSpec| {
            agent.role == Role::Testers
                && (workload.agents.is_empty() || workload.agents.contains(&agent.name))
        };
        let of = crew.iter().filter(has_testers).count() as u16;
        if of == 0 {
            return Err(format!(
                "workload {}: none of its agents is connected",
                workload.name
            ));
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

/// For each agent its part of a budget of transactions: dealt out to those that carry anything.
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
