//! The populations of a run, compiled from its document.

use std::sync::Arc;

use plimsoll_model::{
    Arrivals, Choose, Dist, Endpoint, Late, LoadSpec, OnError, Order, RunSpec, WhenFull, Workload,
};
use plimsoll_schedule::{Mix, Presence, RateCurve, Values, share};

use crate::api::Share;

/// One workload, compiled. Testers are numbered over all workloads: first the closed testers of
/// this one, then its slots.
#[derive(Debug)]
pub struct Population {
    /// Index in the run.
    pub workload: u16,
    /// Its name.
    pub name: String,
    /// Number of its first tester.
    pub first_tester: u32,
    /// Index of its first operation in the run's list.
    pub first_operation: u16,
    /// Likewise of its first endpoint.
    pub first_endpoint: u16,
    /// Where requests go.
    pub endpoints: Vec<Endpoint>,
    /// When one is chosen.
    pub choose: Choose,
    /// And how.
    pub order: Order,
    /// Longest transaction.
    pub timeout_ns: u64,
    /// What follows a failure.
    pub on_error: OnError,
    /// Operations that each tester begins with, in order, and how often each.
    pub first: Vec<(usize, u64)>,
    /// Which operation is next, after those.
    pub mix: Mix,
    /// Generators.
    pub values: Values,
    /// Closed testers, if any.
    pub presence: Option<Presence>,
    /// Their slots in time, if they have them.
    pub every: Option<(u64, Late)>,
    /// Their think time.
    pub think: Dist,
    /// Open arrivals, if any.
    pub curve: Option<RateCurve>,
    /// Their law.
    pub arrivals: Arrivals,
    /// Slots for them.
    pub in_flight: u32,
    /// What happens without a free one.
    pub when_full: WhenFull,
}

impl Population {
    /// Number of closed testers over all agents.
    pub fn closed(&self) -> u32 {
        self.presence.as_ref().map_or(0, Presence::testers)
    }

    /// Number of slots over all agents.
    pub fn slots(&self) -> u32 {
        if self.curve.is_some() { self.in_flight } else { 0 }
    }

    /// Those of `total` testers (or slots) that agent and lane carry: dealt out in turn, first to
    /// agents and then to their lanes, so that those who join early are spread as well.
    pub fn members(total: u32, of: Share, lane: usize, lanes: usize) -> impl Iterator<Item = u32> {
        let step = u32::from(of.agents) * lanes as u32;
        let first = u32::from(of.agent) + u32::from(of.agents) * lane as u32;
        (first..total).step_by(step as usize)
    }

    /// What an agent takes from the global sequence of arrivals; none if it has no slot, so that no
    /// arrival is lost.
    pub fn arrivals_of(&self, of: Share) -> Option<Part> {
        let (agent, slots) = (u64::from(of.agent), u64::from(self.slots()));
        let agents = u64::from(of.agents).min(slots);
        (agent < agents).then_some(Part {
            offset: agent,
            step: agents,
            slots: share(slots, agent, u64::from(of.agents)),
        })
    }
}

/// The part of an agent in an open load: arrivals `offset`, `offset + step`, ... with so many slots
/// for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its first arrival.
    pub offset: u64,
    /// From one to the next.
    pub step: u64,
    /// At least 1.
    pub slots: u64,
}

/// All populations of a run.
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
        curve: RateCurve::of(load),
        arrivals: Arrivals::Even,
        in_flight: 0,
        when_full: WhenFull::Wait,
    };
    match load {
        LoadSpec::Closed { think, .. } | LoadSpec::Ramp { think, .. } => population.think = *think,
        LoadSpec::Every { every_ns, late, .. } => population.every = Some((*every_ns, *late)),
        // The times of the recording take the place of a law; `Even` takes the arrivals by their
        // number.
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
            ..
        } => {
            population.think = *think;
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
                        let of = Share { agent, agents };
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
