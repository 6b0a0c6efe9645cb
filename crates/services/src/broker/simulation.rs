//! A whole broker in simulated time: the quality of its decisions has the properties that follow
//! from its design.

use std::sync::Arc;

use plimsoll_wire::broker::JobRequest;

use super::config::{BrokerConfig, GridConfig};
use super::grid::{Grid, Totals};
use super::point::{PeerState, Point};
use super::select::Selector;

const MS: u64 = 1_000_000;

/// 100 jobs/s of 8 CPUs for 5 s, for 40 s, on points in turn. `exchange_ms`: 0 without exchange.
fn simulate(points: usize, exchange_ms: u64, selector: Selector) -> Totals {
    let grid = GridConfig {
        sites: 100,
        organisations: 10,
        groups: 2,
        cpus: [20, 200],
        queue: 10_000,
        ..GridConfig::default()
    };
    let mut truth = Grid::new(&grid, Arc::new(grid.sites().unwrap()));
    let mut points: Vec<Point> = (1..=points as u64)
        .map(|id| {
            let config = BrokerConfig {
                grid: grid.clone(),
                selector,
                seed: id,
                ..BrokerConfig::default()
            };
            Point::new(&config, id).unwrap()
        })
        .collect();
    let mut peers = vec![vec![PeerState::default(); points.len()]; points.len()];
    for number in 0..4_000_u64 {
        let now = 10 * number * MS;
        let job = JobRequest {
            vo: (number % 10) as u16,
            group: (number / 10 % 2) as u16,
            cpus: 8,
            runtime_ms: 5_000,
        };
        let index = number as usize % points.len();
        let site = points[index].decide(now, &job);
        truth.submit(now, site, &job).unwrap();
        if exchange_ms > 0 && (10 * number).is_multiple_of(exchange_ms) {
            for (later, states) in peers.iter_mut().enumerate().skip(1) {
                let (earlier, rest) = points.split_at_mut(later);
                for (index, peer) in earlier.iter_mut().enumerate() {
                    let state = &mut states[index];
                    let request = rest[0].request(now, state);
                    let response = peer.answer(now, &request).unwrap();
                    rest[0].accept(now, &request, &response, state);
                }
            }
        }
    }
    truth.totals()
}

fn accuracy(totals: &Totals) -> f64 {
    totals.accuracy / totals.decisions as f64
}

#[test]
fn the_quality_falls_with_the_interval_of_the_exchange() {
    let single = simulate(1, 0, Selector::Policy);
    let often = simulate(5, 10, Selector::Policy);
    let seldom = simulate(5, 2_000, Selector::Policy);
    let never = simulate(5, 0, Selector::Policy);
    for totals in [&single, &often] {
        assert!(accuracy(totals) > 1.0 - 1e-9, "{totals:?}");
        assert_eq!((totals.misplaced, totals.jobs_refused_wrongly), (0, 0));
    }
    assert!(
        accuracy(&seldom) < 0.99 && accuracy(&never) < accuracy(&seldom),
        "{seldom:?} {never:?}"
    );
    assert!(never.misplaced > seldom.misplaced, "{seldom:?} {never:?}");
}

#[test]
fn a_selector_that_ignores_policies_has_a_lower_accuracy_also_with_an_exact_view() {
    let random = simulate(1, 0, Selector::Random);
    let least_used = simulate(1, 0, Selector::LeastUsed);
    assert!(
        accuracy(&random) < 0.9 && accuracy(&least_used) < 0.9,
        "{random:?} {least_used:?}"
    );
    assert_eq!((random.misplaced, least_used.misplaced), (0, 0));
}
