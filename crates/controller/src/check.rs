//! Reports on the hosts of agents, and measures network paths from them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plimsoll_link::{Baseline, Measure, ToAgent, ToController};
use plimsoll_model::{
    AgentSpec, BaselineSpec, ClockState, Event, HostReport, PathReport, PathSpec, RttReport,
};

use crate::agents::peer::Peer;
use crate::error::MissingError;
use crate::run::assemble::{greet, wait_for};
use crate::session::Session;

/// Time in addition to that of the measurements.
const MARGIN: Duration = Duration::from_secs(60);

/// Time for one path in addition to that of its transfers: the lookup, handshakes and connections.
const PATH_MARGIN: Duration = Duration::from_secs(60);

/// Starts `agents`, measures their hosts if `baseline` is given, and reports the hosts.
pub(crate) fn check(session: &mut Session, agents: &[AgentSpec], baseline: Option<&BaselineSpec>) {
    let missing = missing_of(session, agents);
    let mut measured = BTreeMap::new();
    if let Some(spec) = baseline {
        // One after the other, because hosts that share a machine or a link would disturb each
        // other.
        for agent in agents.iter().filter(|agent| !missing.contains_key(&agent.name)) {
            if let Some(speed) = measure(session, &agent.name, spec) {
                measured.insert(agent.name.clone(), speed);
            }
        }
    }
    for agent in agents {
        let facts = session
            .peers
            .get(&agent.name)
            .and_then(|peer| report(peer, measured.get(&agent.name)));
        let error = match (&facts, missing.get(&agent.name)) {
            (Some(_), _) => None,
            (None, Some(why)) => Some(why.to_string()),
            (None, None) => Some("its agent has ended".into()),
        };
        session.events.send(&Event::Host {
            name: agent.name.clone(),
            facts,
            error,
        });
    }
}

/// Starts `agents` and measures `paths` from their hosts, one host after the other, because hosts
/// that share a link would disturb each other.
pub(crate) fn measure_paths(
    session: &mut Session,
    agents: &[AgentSpec],
    paths: &BTreeMap<String, Vec<PathSpec>>,
) {
    let missing = missing_of(session, agents);
    for agent in agents {
        let mut measured = Vec::new();
        let mut error = missing.get(&agent.name).map(ToString::to_string);
        if let (None, Some(wanted)) = (&error, paths.get(&agent.name)) {
            match paths_of(session, &agent.name, wanted) {
                Some(found) => measured = found,
                None => error = Some("its agent has ended".into()),
            }
        }
        session.events.send(&Event::Paths {
            name: agent.name.clone(),
            paths: measured,
            error,
        });
    }
}

fn paths_of(session: &mut Session, name: &str, paths: &[PathSpec]) -> Option<Vec<PathReport>> {
    session.peers.get(name)?.send(&ToAgent::MeasurePaths {
        paths: paths.to_vec(),
    });
    let max_wait = paths
        .iter()
        .map(|path| PATH_MARGIN + Duration::from_nanos(path.transfer.map_or(0, |spec| spec.max_ns)) * 2)
        .sum();
    let mut measured = None;
    let _ = wait_for(
        session,
        &BTreeSet::from([name.to_owned()]),
        max_wait,
        |_, _, message| {
            if let Some(ToController::Paths { paths }) = message {
                measured = Some(paths);
            }
            Ok(measured.is_some())
        },
    );
    measured
}

/// Starts `agents`; returns those that are not available, with the cause.
fn missing_of(session: &mut Session, agents: &[AgentSpec]) -> BTreeMap<String, MissingError> {
    match greet(session, agents) {
        Ok(missing) => missing,
        Err(stopped) => agents
            .iter()
            .map(|agent| (agent.name.clone(), stopped.clone().into()))
            .collect(),
    }
}

fn measure(session: &mut Session, name: &str, spec: &BaselineSpec) -> Option<Baseline> {
    session
        .peers
        .get(name)?
        .send(&ToAgent::Measure(Measure { for_ns: spec.for_ns }));
    let max_wait = Duration::from_nanos(spec.for_ns) * 4 + MARGIN;
    let mut measured = None;
    let names = BTreeSet::from([name.to_owned()]);
    let _ = wait_for(session, &names, max_wait, |_, _, message| {
        if let Some(ToController::Measured(baseline)) = message {
            measured = Some(baseline);
        }
        Ok(measured.is_some())
    });
    measured
}

fn report(peer: &Peer, baseline: Option<&Baseline>) -> Option<HostReport> {
    let clock = peer.clock;
    Some(HostReport {
        facts: peer.facts.clone()?,
        rtt_ns: clock.map_or(RttReport::default(), |clock| RttReport {
            min: clock.rtt_min_ns,
            median: clock.rtt_median_ns,
        }),
        clock: ClockState {
            offset_ns: clock.map_or(0, |clock| clock.offset_ns),
            bound_ns: clock.map_or(0, |clock| clock.bound_ns),
            same: peer.is_local(),
            udp: clock.is_some_and(|clock| clock.udp),
        },
        baseline: baseline.and_then(|baseline| serde_json::to_value(baseline).ok()),
    })
}
