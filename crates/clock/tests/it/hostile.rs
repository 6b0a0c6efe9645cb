//! Stamps that no pair of working clocks produces.

use plimsoll_clock::{Assumptions, Begin, EstimateError, Live, Probe, PushResult, Via, estimate};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::simulate::{Conditions, SECOND, World};

fn probe(sent: i64, offset: i64, there: i64, back: i64) -> Probe {
    Probe {
        sent,
        heard: sent + offset + there,
        answered: sent + offset + there + 1_000,
        received: sent + there + 1_000 + back,
        via: Via::Udp,
    }
}

#[test]
fn without_usable_probes_the_error_states_their_number() {
    let none = estimate(&[], &Assumptions::default());
    assert_eq!(none, Err(EstimateError::NoProbes { probes: 0 }));
    let broken = Probe {
        heard: 10,
        answered: 9,
        ..probe(0, 0, 1, 1)
    };
    let error = estimate(&[broken; 3], &Assumptions::default()).expect_err("none is usable");
    assert!(
        error.to_string().contains("none of 3 probes is usable"),
        "{error}"
    );
}

#[test]
fn one_probe_suffices_for_a_map() {
    let estimated = estimate(
        &[probe(5 * SECOND, 1_000_000, 30_000, 70_000)],
        &Assumptions::default(),
    )
    .expect("one probe");
    let mapped = estimated.map.at(5 * SECOND);
    assert!((mapped.controller_ns - 5 * SECOND - 1_000_000).abs() <= mapped.bound_ns);
    assert!(
        (50_000..51_000).contains(&mapped.bound_ns),
        "half the round trip: {mapped:?}"
    );
    let later = estimated.map.at(7 * SECOND);
    assert!(
        (later.bound_ns - mapped.bound_ns - 1_000_000).abs() < 1_000,
        "500 ppm for two seconds: {later:?}"
    );
    assert_eq!(
        (
            estimated.pieces.len(),
            estimated.pieces[0].probes,
            estimated.rejected
        ),
        (1, 1, 0)
    );
}

#[test]
fn impossible_probes_are_counted_and_change_nothing() {
    let world = World::new(Conditions::new(120, 100.0, 100.0, 10.0), 3);
    let clean = estimate(&world.probes, &Assumptions::default()).expect("probes");
    let mut dirty = world.probes.clone();
    for k in [3, 40, 77] {
        let mut bad = dirty[k];
        bad.answered = bad.heard - 1;
        dirty.insert(k, bad);
        bad = dirty[k + 5];
        bad.received = i64::MIN;
        dirty.push(bad);
    }
    let result = estimate(&dirty, &Assumptions::default()).expect("probes");
    assert_eq!(result.rejected, 6);
    assert_eq!((result.map, result.pieces), (clean.map, clean.pieces));
    let mut live = Live::new(Assumptions::default());
    let rejected = dirty
        .iter()
        .filter(|probe| live.push(probe) == PushResult::Rejected)
        .count();
    assert_eq!((rejected, live.rejected()), (6, 6));
}

#[test]
fn random_stamps_result_in_a_map_or_an_error() {
    let mut rng = Pcg64::seed_from_u64(9);
    let (mut maps, mut refused) = (0, 0);
    for case in 0..3_000 {
        let bits = rng.random_range(1..63);
        let any = |rng: &mut Pcg64| rng.random_range(-(1_i64 << bits)..1_i64 << bits);
        let probes: Vec<Probe> = (0..=case % 40)
            .map(|_| {
                let mut stamps = [any(&mut rng), any(&mut rng), any(&mut rng), any(&mut rng)];
                if rng.random_bool(0.7) {
                    stamps[..2].sort_unstable();
                    stamps[2..].sort_unstable();
                }
                Probe {
                    sent: stamps[0],
                    received: stamps[1],
                    heard: stamps[2],
                    answered: stamps[3],
                    via: if rng.random_bool(0.5) { Via::Udp } else { Via::Link },
                }
            })
            .collect();
        let assumptions = Assumptions {
            max_rate_error_ppm: [500.0, 0.0, -1.0, f64::NAN, f64::INFINITY][case % 5],
            physical_min_rtt_ns: any(&mut rng),
            granularity_ns: any(&mut rng),
        };
        let mut live = Live::new(assumptions);
        for probe in &probes {
            live.push(probe);
            let _ = (live.at(probe.sent), live.inverse(probe.heard));
        }
        match estimate(&probes, &assumptions) {
            Ok(result) => {
                maps += 1;
                let mut times: Vec<i64> = probes
                    .iter()
                    .flat_map(|probe| [probe.sent, probe.received])
                    .collect();
                times.sort_unstable();
                let mapped: Vec<_> = times.iter().map(|t| result.map.at(*t)).collect();
                assert!(mapped.is_sorted_by_key(|time| time.controller_ns), "case {case}");
                assert!(mapped.iter().all(|time| time.bound_ns >= 0), "case {case}");
                assert_eq!(result.rejected + used(&probes, &assumptions), probes.len());
            }
            Err(_) => refused += 1,
        }
    }
    assert!(maps > 500 && refused > 500, "{maps} {refused}: both happen");
}

fn used(probes: &[Probe], assumptions: &Assumptions) -> usize {
    probes
        .iter()
        .filter(|probe| probe.round_trip_ns(assumptions).is_some())
        .count()
}

/// The work for the probes of a broken peer is proportional to their number.
#[test]
fn a_clock_that_jumps_all_day_is_mapped_or_rejected() {
    let jumping = |every: i64| -> Vec<Probe> {
        let offset = |k: i64| k / every % 2 * SECOND;
        (0..86_400)
            .map(|k| probe(k * SECOND, offset(k), 100_000, 100_000))
            .collect()
    };
    let result = estimate(&jumping(4), &Assumptions::default()).expect("each section has some probes");
    assert_eq!(result.pieces.len(), 86_400 / 4);
    assert!(result.pieces[1..].iter().all(|piece| piece.begins == Begin::Jump));
    let error = estimate(&jumping(1), &Assumptions::default()).expect_err("no two probes agree");
    assert!(error.to_string().contains("contradict each other"), "{error}");
}

#[test]
fn a_map_over_18_years_is_less_than_10_mb() {
    let apart = [probe(0, 0, 1_000, 1_000), probe(1 << 59, 0, 1_000, 1_000)];
    let result = estimate(&apart, &Assumptions::default()).expect("two probes");
    let text = serde_json::to_string(&result.map).expect("plain data");
    assert!(
        text.len() < 10_000_000,
        "18 years between two probes: {} bytes",
        text.len()
    );
}

#[test]
fn probes_over_the_link_among_datagrams_are_not_a_change_of_route() {
    let world = World::new(Conditions::new(300, 100.0, 100.0, 10.0), 8);
    let mut probes = world.probes.clone();
    for probe in probes.iter_mut().skip(100).step_by(7) {
        // 2 ms slower each way.
        probe.via = Via::Link;
        probe.sent -= 2_000_000;
        probe.received += 2_000_000;
    }
    let result = estimate(&probes, &Assumptions::default()).expect("probes");
    assert_eq!(result.pieces.len(), 1, "{:?}", result.pieces);
    let (error, share) = world.judge(&result.map);
    assert!(error < 20_000.0 && share <= 1.0);
    let mut live = Live::new(Assumptions::default());
    assert!(probes.iter().all(|probe| live.push(probe) == PushResult::Kept));
}
