//! Accuracy of the clock map. With `--nocapture` these tests print the table of `docs/clocks.md`.

#![allow(clippy::print_stdout, reason = "the table is for a reader")]

use plimsoll_clock::{Assumptions, ClockMap, estimate};

use crate::simulate::{Conditions, SECOND, World};

const SEEDS: u64 = 100;

#[derive(Debug, Default)]
struct Accuracy {
    /// Maximum over all runs: error, ns; drift error, ppm; bound, ns; error / bound.
    error: f64,
    drift: f64,
    bound: i64,
    share: f64,
    /// Median over the runs of the maximum error of each.
    typical: f64,
}

fn accuracy(name: &str, of: &Conditions, max_rate_error_ppm: f64) -> Accuracy {
    let assumptions = Assumptions {
        max_rate_error_ppm,
        ..Assumptions::default()
    };
    let mut all = Accuracy::default();
    let mut errors = Vec::new();
    for seed in 0..SEEDS {
        let mut of = of.clone();
        of.drift_ppm = (seed as f64 - 50.0) * 2.0;
        let world = World::new(of, seed);
        let result = estimate(&world.probes, &assumptions).expect("probes");
        let (error, share) = world.judge(&result.map);
        errors.push(error);
        all.error = all.error.max(error);
        all.share = all.share.max(share);
        all.bound = all.bound.max(result.map.worst_bound_ns());
        all.drift = all
            .drift
            .max((mean_drift(&result.map) - true_drift(&world, &result.map)).abs());
    }
    errors.sort_by(f64::total_cmp);
    all.typical = errors[errors.len() / 2];
    println!(
        "{name:44} error {:9.2} us (typically {:9.2}) drift {:8.4} ppm, bound {:9.0} us, used {:.2}",
        all.error * 1e-3,
        all.typical * 1e-3,
        all.drift,
        all.bound as f64 * 1e-3,
        all.share
    );
    all
}

/// Mean drift of the map over the whole run, ppm.
fn mean_drift(map: &ClockMap) -> f64 {
    let (from, to) = map.span_ns().expect("not the same clock");
    let controller_span = (map.at(to).controller_ns - map.at(from).controller_ns) as f64;
    (controller_span / (to - from) as f64 - 1.0) * 1e6
}

fn true_drift(world: &World, map: &ClockMap) -> f64 {
    let (from, to) = map.span_ns().expect("not the same clock");
    ((world.when(to) - world.when(from)) as f64 / (to - from) as f64 - 1.0) * 1e6
}

#[test]
fn on_a_lan_the_error_is_below_20_us_plus_half_the_asymmetry() {
    for (name, asymmetry, wander, declared) in [
        ("0.2 ms", 0.0, 0.0, 500.0),
        ("0.2 ms, rate error of 120 ppm declared", 0.0, 0.0, 120.0),
        ("0.2 ms, 40 us asymmetric", 40.0, 0.0, 500.0),
        ("0.2 ms, rate wanders 0.01 ppm/sqrt(s)", 0.0, 0.01, 500.0),
        ("0.2 ms, rate wanders 0.05 ppm/sqrt(s)", 0.0, 0.05, 500.0),
    ] {
        let mut of = Conditions::new(600, 100.0 + asymmetry / 2.0, 100.0 - asymmetry / 2.0, 10.0);
        of.wander_ppm = wander;
        let got = accuracy(name, &of, declared);
        assert!(got.error < 20_000.0 + 500.0 * asymmetry, "{name}: {got:?}");
        assert!(got.share <= 1.0, "{name}: {got:?}");
        assert!(wander > 0.0 || got.drift < 0.1, "{name}: {got:?}");
    }
}

#[test]
fn on_long_links_the_error_is_half_the_asymmetry_and_the_drift_error_is_below_0_1_ppm() {
    for (name, there, back, noise) in [
        ("60 ms", 30_000.0, 30_000.0, 500.0),
        ("315 ms", 157_500.0, 157_500.0, 2_000.0),
        ("315 ms, 35 ms asymmetric", 175_000.0, 140_000.0, 2_000.0),
    ] {
        let got = accuracy(name, &Conditions::new(600, there, back, noise), 500.0);
        let floor = 0.5 * f64::abs(there - back) * 1e3;
        // With 600 probes, less than a third of the mean queueing delay remains.
        assert!(got.error < floor + 300.0 * noise, "{name}: {got:?}");
        assert!(got.drift < 0.1, "{name}: {got:?}");
        assert!(got.share <= 1.0, "{name}: {got:?}");
    }
}

#[test]
fn eleven_probes_in_an_hour_suffice_for_10_ms() {
    let of = Conditions::new(3_600, 157_500.0, 157_500.0, 2_000.0);
    for seed in 0..20 {
        let world = World::new(of.clone(), seed);
        let few: Vec<_> = world.probes.iter().step_by(330).copied().collect();
        let result = estimate(&few, &Assumptions::default()).expect("probes");
        let (error, share) = world.judge(&result.map);
        assert!(error < 10e6, "seed {seed}: {error} ns from {} probes", few.len());
        assert!(share <= 1.0);
    }
}

#[test]
fn the_map_follows_six_hours_of_wander() {
    let mut of = Conditions::new(6 * 3_600, 100.0, 100.0, 10.0);
    of.wander_ppm = 0.01;
    let world = World::new(of, 1);
    let result = estimate(&world.probes, &Assumptions::default()).expect("probes");
    let (error, share) = world.judge(&result.map);
    println!("six hours: {error} ns, {} pieces", result.pieces.len());
    assert!(error < 20_000.0 && share <= 1.0, "{error} ns, {share}");
    assert!(
        result
            .pieces
            .iter()
            .all(|piece| piece.to_ns - piece.from_ns <= 1_201 * SECOND)
    );
}
