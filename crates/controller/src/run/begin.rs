//! The part of a run before its load: creates the directory of the segments, starts and prepares
//! the agents, and writes the start of the run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plimsoll_clock::{Assumptions, Clock, SystemClock};
use plimsoll_link::{RunKey, Spool};
use plimsoll_model::{AgentRules, AgentSpec, AgentStartKind, Role, RunSpec, format};
use plimsoll_record::{AgentStart, START_FILE, Start, write_json_soon};

use super::assemble::{greet, prepare};
use super::gather::run_key;
use crate::agents::peer::Peer;
use crate::error::{MissingError, WorkError};
use crate::session::Session;

/// Time from the Go message to the start of the load, ns. A message over a socket pair needs a
/// thousandth of it.
const LEAD_NS: i64 = 20_000_000;
/// With agents on other hosts, this number of the longest round trip is added.
const LEAD_ROUND_TRIPS: i64 = 5;

/// A run that may start: all agents are prepared, except those that connect late.
pub(crate) struct PreparedRun {
    pub(crate) spec: RunSpec,
    pub(crate) start: Start,
    /// The agents of the run, in the order of their indices.
    pub(crate) crew: Vec<AgentSpec>,
    pub(crate) rules: AgentRules,
    /// Name of the run for agents on other hosts.
    pub(crate) key: Option<RunKey>,
}

/// Starts and prepares the agents, and writes the start of the run.
///
/// # Errors
/// [`WorkError`].
pub(crate) fn begin(
    session: &mut Session,
    spec: RunSpec,
    segments: &Path,
    mut crew: Vec<AgentSpec>,
    rules: AgentRules,
) -> Result<PreparedRun, WorkError> {
    let mut missing = greet(session, &crew)?;
    check_present(&crew, &mut missing, rules.at_least)?;
    let watches = |name: &&String| {
        let mut all = crew.iter();
        all.any(|agent| agent.name == **name && agent.role == Role::Watch)
    };
    let unwatched: Vec<String> = missing.keys().filter(watches).cloned().collect();
    // An agent that dials in may connect later and then has its part. An agent that the controller
    // starts itself will not.
    crew.retain(|agent| agent.start == AgentStartKind::Joined || !missing.contains_key(&agent.name));
    let late: Vec<String> = crew
        .iter()
        .map(|agent| agent.name.clone())
        .filter(|name| missing.contains_key(name))
        .collect();
    for (name, why) in &missing {
        if unwatched.contains(name) {
            session.note("watch-lost", &format!("{name} is not watched: {why}"));
            continue;
        }
        let state = if late.contains(name) {
            "is not connected yet"
        } else {
            "does not take part"
        };
        session.note("agent-missing", &format!("agent {name} {state}: {why}"));
    }
    let key = run_key(&spec.directory);
    if key.is_none() && crew.iter().any(|agent| !is_local(agent)) {
        return Err(WorkError::NotRun(spec.directory));
    }
    prepare(
        session,
        &crew,
        &late,
        &spec,
        &rules,
        &spool(key.as_ref(), segments),
    )?;
    let clock = SystemClock;
    let (raw, unix) = (clock.raw_ns(), clock.realtime_ns());
    let lead = lead_ns(session, &crew);
    let start = Start {
        format: format::START.into(),
        experiment: spec.experiment.clone(),
        run: spec.run.clone(),
        t0_unix_ns: unix + lead,
        t0_ns: raw + lead,
        warmup_ns: spec.warmup_ns,
        duration_ns: spec.end.duration_ns,
        keep: spec.keep,
        assumptions: Assumptions {
            max_rate_error_ppm: rules.max_rate_error_ppm,
            physical_min_rtt_ns: rules.physical_min_rtt_ns as i64,
            granularity_ns: plimsoll_agent::GRAIN_NS,
        },
        agents: crew
            .iter()
            .map(|agent| AgentStart {
                name: agent.name.clone(),
                host: agent.host.clone(),
                site: agent.site.clone(),
                t0_raw_ns: raw + lead,
                role: agent.role,
                same_clock: is_local(agent),
            })
            .collect(),
    };
    // Not synced: the load begins immediately, and a killed process loses no written data.
    if let Err(error) = write_json_soon(&segments.join(START_FILE), &start) {
        for agent in &crew {
            session.drop_peer(&agent.name);
        }
        return Err(error.into());
    }
    Ok(PreparedRun {
        spec,
        start,
        crew,
        rules,
        key,
    })
}

/// Checks that enough agents are connected. Watched hosts do not count: they have no testers, and a
/// run never waits for them.
///
/// # Errors
/// [`WorkError::AgentLost`], or [`WorkError::TooFewAgents`] with the first missing agent, which is
/// removed from `missing`.
fn check_present(
    crew: &[AgentSpec],
    missing: &mut BTreeMap<String, MissingError>,
    at_least: u16,
) -> Result<(), WorkError> {
    let counted: Vec<&AgentSpec> = crew.iter().filter(|agent| agent.role == Role::Testers).collect();
    let required = if at_least == 0 {
        counted.len()
    } else {
        usize::from(at_least)
    };
    let names = counted.iter().map(|agent| &agent.name);
    let absent: Vec<&String> = names.filter(|name| missing.contains_key(*name)).collect();
    let (present, all) = (counted.len() - absent.len(), counted.len());
    let first = absent.first().filter(|_| present < required);
    match first.and_then(|name| missing.remove_entry(*name)) {
        None => Ok(()),
        Some((_, why)) if all == 1 => Err(WorkError::AgentLost(why)),
        Some((agent, why)) => Err(WorkError::TooFewAgents {
            present,
            all,
            required,
            agent,
            why: Box::new(why),
        }),
    }
}

fn is_local(agent: &AgentSpec) -> bool {
    agent.start == AgentStartKind::Local
}

/// The spool of an agent: the directory of the segments, or the agent's own directory.
pub(crate) fn spool(key: Option<&RunKey>, segments: &Path) -> impl Fn(&Peer) -> Spool {
    move |peer| match key {
        Some(key) if !peer.is_local() => Spool::Own(key.clone()),
        _ => Spool::Here(segments.to_owned()),
    }
}

/// Time until the start of a run, ns: long enough that every agent receives the start message
/// before.
fn lead_ns(session: &Session, crew: &[AgentSpec]) -> i64 {
    let clocks = crew
        .iter()
        .filter_map(|agent| session.peers.get(&agent.name)?.clock);
    let longest = clocks.map(|clock| clock.rtt_median_ns).max();
    LEAD_NS + longest.map_or(0, |rtt| LEAD_NS * 5 + LEAD_ROUND_TRIPS * rtt)
}

/// Removes the empty directory of a run that did not start. Returns `error`.
pub(crate) fn forget(segments: &Path, error: WorkError) -> WorkError {
    let _ = std::fs::remove_file(segments.join(START_FILE));
    let _ = std::fs::remove_dir(segments);
    error
}

/// Creates the directory for the segments. An existing measurement is never overwritten.
///
/// # Errors
/// [`WorkError::Measured`], or [`WorkError::Create`].
pub(crate) fn create_segments_directory(spec: &RunSpec) -> Result<PathBuf, WorkError> {
    let directory = &spec.directory;
    let segments = directory.join("segments");
    if directory.join("transactions.parquet").exists()
        || directory.join("summary.json").exists()
        || segments.join(START_FILE).exists()
    {
        return Err(WorkError::Measured(directory.clone()));
    }
    create_directory(&segments)?;
    Ok(segments)
}

/// Creates a directory and its parents, if it does not exist.
///
/// # Errors
/// [`WorkError::Create`].
pub(crate) fn create_directory(path: &Path) -> Result<(), WorkError> {
    std::fs::create_dir_all(path).map_err(|source| WorkError::Create {
        path: path.to_owned(),
        source,
    })
}
