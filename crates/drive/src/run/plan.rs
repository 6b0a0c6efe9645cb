//! The populations of a run, compiled from the run document.

use std::sync::Arc;

use plimsoll_model::{
    Arrivals, Choose, Dist, Endpoint, Late, LoadSpec, OnError, Order, RunSpec, SessionSpec, WhenFull,
    Workload,
};
use plimsoll_schedule::{Mix, Presence, RateCurve, Values, portion};

use crate::api::AgentPortion;

/// One workload, compiled. Testers are numbered over all workloads: in each workload first its
/// closed testers, then its slots.
#[derive(Debug)]
pub struct Population {
    /// Index of the workload in the run.
    pub workload: u16,
    /// Name of the workload.
    pub name: String,
    /// Number of its first tester.
    pub first_tester: u32,
    /// Index of its first operation in the run's list of operations.
    pub first_operation: u16,
    /// Index of its first endpoint in the run's list of endpoints.
    pub first_endpoint: u16,
    /// Endpoints of the requests.
    pub endpoints: Vec<Endpoint>,
    /// When an endpoint is chosen.
    pub choose: Choose,
    /// In which order endpoints are chosen.
    pub order: Order,
    /// Maximum duration of a transaction, ns.
    pub timeout_ns: u64,
    /// What follows a failure.
    pub on_error: OnError,
    /// Operations with which each tester or session begins, in order, and the number of each.
    pub first: Vec<(usize, u64)>,
    /// Choice of the operations after those.
    pub mix: Mix,
    /// Generators of the values in the texts of requests.
    pub values: Values,
    /// When the closed testers are active; none if the load has none.
    pub presence: Option<Presence>,
    /// Interval of the slots of each closed tester, ns, and what happens to slots that pass; none
    /// if the testers have no slots.
    pub every: Option<(u64, Late)>,
    /// Think time of the closed testers.
    pub think: Dist,
    /// Sessions of the testers; none: they carry out single transactions.
    pub session: Option<SessionSpec>,
    /// Rate of the arrivals of an open load; none if the load has none.
    pub curve: Option<RateCurve>,
    /// Distribution of the intervals between arrivals.
    pub arrivals: Arrivals,
    /// Number of slots for arrivals, over all agents.
    pub in_flight: u32,
    /// What happens to an arrival without a free slot.
    pub when_full: WhenFull,
}

impl Population {
    /// Number of closed testers, over all agents.
    pub fn closed(&self) -> u32 {
        self.presence.as_ref().map_or(0, Presence::testers)
    }

    /// Number of slots of an open load, over all agents; 0 if the load is closed.
    pub fn slots(&self) -> u32 {
        if self.curve.is_some() { self.in_flight } else { 0 }
    }

    /// Numbers of the testers (or slots) of `total` that lane `lane` of an agent runs. They are
    /// dealt in turn, first to the agents and then to their lanes, so that the testers of a ramp
    /// that join early are spread, too.
    pub fn members(total: u32, of: AgentPortion, lane: usize, lanes: usize) -> impl Iterator<Item = u32> {
        let step = u32::from(of.agents) * lanes as u32;
        let first = u32::from(of.agent) + u32::from(of.agents) * lane as u32;
        (first..total).step_by(step as usize)
    }

    /// The agent's part of the sequence of arrivals; none if the agent has no slot, so that no
    /// arrival is assigned to it.
    pub fn arrivals_of(&self, of: AgentPortion) -> Option<Part> {
        let (agent, slots) = (u64::from(of.agent), u64::from(self.slots()));
        let agents = u64::from(of.agents).min(slots);
        (agent < agents).then_some(Part {
            offset: agent,
            step: agents,
            slots: portion(slots, agent, u64::from(of.agents)),
        })
    }
}

/// The part of an agent in an open load: arrivals `offset`, `offset + step`, ... of the sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Index of its first arrival.
    pub offset: u64,
    /// Difference between the indices of its arrivals, at least 1.
    pub step: u64,
    /// Number of its slots, at least 1.
    pub slots: u64,
}

/// The populations of a run, in the order of its workloads.
pub fn populations(spec: &RunSpec) -> Vec<Arc<Population>> {
    let (mut first_tester, mut first_operation, mut first_endpoint) = (0, 0, 0);
    let mut all = Vec::new();
    for (index, workload) in (0..).zip(&spec.workloads) {
        let population = Population {
            first_tester,
            first_operation,
            first_endpoint,
            ..compile(index, workload, &workload.load)
        };
        first_tester += population.closed() + population.slots();
        first_operation += workload.operations.len() as u16;
        first_endpoint += workload.endpoints.len() as u16;
        all.push(Arc::new(population));
    }
    all
}

fn compile(index: u16, workload: &Workload, load: &LoadSpec) -> Population {
    let weights: Vec<f64> = workload
        .operations
        .iter()
        .map(|operation| operation.weight)
        .collect();
    let mut population = Population {
        workload: index,
        name: workload.name.clone(),
        first_tester: 0,
        first_operation: 0,
        first_endpoint: 0,
        endpoints: workload.endpoints.clone(),
        choose: workload.choose,
        order: workload.order,
        timeout_ns: workload.timeout_ns,
        on_error: workload.on_error,
        first: (0..)
            .zip(&workload.operations)
            .filter(|(_, operation)| operation.first > 0)
            .map(|(index, operation)| (index, operation.first))
            .collect(),
        mix: Mix::new(&weights),
        values: Values::new(&workload.values),
        presence: Presence::of(load),
        every: None,
        think: Dist::ZERO,
        session: workload.session.clone(),
        curve: RateCurve::of(load),
        arrivals: Arrivals::Even,
        in_flight: 0,
        when_full: WhenFull::Wait,
    };
    match load {
        LoadSpec::Closed { think, .. } => population.think = *think,
        LoadSpec::Ramp { think, slots, .. } => {
            population.think = *think;
            population.every = slots.map(|slots| (slots.every_ns, slots.late));
        }
        LoadSpec::Every { every_ns, late, .. } => population.every = Some((*every_ns, *late)),
        // The recording contains the times. `Even` uses the number of an arrival as its position.
        LoadSpec::Recorded {
            in_flight, when_full, ..
        } => (population.in_flight, population.when_full) = (*in_flight, *when_full),
        LoadSpec::Open {
            arrivals,
            in_flight,
            when_full,
            ..
        } => {
            (population.arrivals, population.in_flight, population.when_full) =
                (*arrivals, *in_flight, *when_full);
        }
        LoadSpec::Stages {
            think,
            arrivals,
            in_flight,
            when_full,
            slots,
            ..
        } => {
            population.think = *think;
            population.every = slots.map(|slots| (slots.every_ns, slots.late));
            (population.arrivals, population.in_flight, population.when_full) =
                (*arrivals, *in_flight, *when_full);
        }
    }
    population
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use super::*;

    pub(crate) fn open(rate: f64, arrivals: Arrivals, in_flight: u32) -> Population {
        of_load(&LoadSpec::Open {
            rate,
            arrivals,
            in_flight,
            when_full: WhenFull::Wait,
        })
    }

    pub(crate) fn of_load(load: &LoadSpec) -> Population {
        let workload = Workload {
            name: "main".into(),
            driver: "null".into(),
            settings: serde_json::Value::Null,
            endpoints: vec![],
            choose: Choose::PerRequest,
            order: Order::RoundRobin,
            timeout_ns: 1,
            on_error: OnError::Continue,
            operations: vec![],
            values: BTreeMap::new(),
            session: None,
            agents: Vec::new(),
            load: load.clone(),
        };
        compile(0, &workload, load)
    }

    #[test]
    fn every_tester_and_every_arrival_has_one_owner() {
        for agents in 1..=4_u16 {
            for lanes in 1..=3_usize {
                for slots in [1, 2, 3, 5, 8, 100] {
                    let population = open(10.0, Arrivals::Even, slots);
                    let mut members = Vec::new();
                    let mut owners = vec![0_u32; 240];
                    for agent in 0..agents {
                        let of = AgentPortion { agent, agents };
                        let mine: Vec<u32> = (0..lanes)
                            .flat_map(|lane| Population::members(slots, of, lane, lanes))
                            .collect();
                        let part = population.arrivals_of(of);
                        assert_eq!(part.map_or(0, |part| part.slots), mine.len() as u64);
                        if let Some(Part { offset, step, .. }) = part {
                            for k in (offset..240).step_by(step as usize) {
                                owners[k as usize] += 1;
                            }
                        }
                        members.extend(mine);
                    }
                    members.sort_unstable();
                    assert_eq!(members, (0..slots).collect::<Vec<_>>());
                    assert!(
                        owners.iter().all(|&n| n == 1),
                        "{agents} agents, {lanes} lanes, {slots} slots"
                    );
                }
            }
        }
    }
}
