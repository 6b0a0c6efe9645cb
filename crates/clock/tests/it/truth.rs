//! The true time is inside the bound at every time.

use plimsoll_clock::{Assumptions, Begin, ClockEstimate, Probe, estimate};

use crate::simulate::{Conditions, Route, SECOND, World, mixed};

fn estimated(world: &World) -> ClockEstimate {
    estimate(&world.probes, &Assumptions::default()).expect("there are probes")
}

#[test]
fn the_truth_is_inside_the_bound_in_a_thousand_mixed_runs() {
    let (mut outside, mut drifts_outside, mut pieces) = (Vec::new(), Vec::new(), 0);
    for seed in 0..1_000 {
        let world = World::new(mixed(seed), seed);
        let result = estimated(&world);
        let (error, share) = world.judge(&result.map);
        if share > 1.0 {
            outside.push((seed, error, share));
        }
        for piece in result
            .pieces
            .iter()
            .filter(|piece| piece.to_ns - piece.from_ns > SECOND)
        {
            pieces += 1;
            let (from, to) = (world.when_it_continues(piece.from_ns), world.when(piece.to_ns));
            let agent = (piece.to_ns - piece.from_ns) as f64;
            let drift = ((to - from) as f64 - agent) / agent * 1e6;
            // Both ends of the truth are precise to 1 ns.
            let grain = 2e6 / agent;
            let inside = piece.drift_low_ppm - grain..=piece.drift_high_ppm + grain;
            if !inside.contains(&drift) || !inside.contains(&piece.drift_ppm) {
                drifts_outside.push((seed, drift, *piece));
            }
        }
        // An answer during which the machine stood still has a time that the agent's clock did not
        // count.
        assert!(
            result.rejected <= usize::from(world.conditions.jump.is_some()),
            "seed {seed}"
        );
    }
    assert!(pieces > 2_000, "{pieces} pieces were looked at");
    assert!(outside.is_empty(), "{} runs: {outside:?}", outside.len());
    assert!(drifts_outside.is_empty(), "{drifts_outside:?}");
}

#[test]
fn a_jump_of_100_ms_is_found_within_ten_probes() {
    for (trip, noise) in [(200.0, 10.0), (60_000.0, 500.0), (315_000.0, 2_000.0)] {
        for by in [100_000_000, -100_000_000] {
            for seed in 0..20 {
                let mut of = Conditions::new(200, trip / 2.0, trip / 2.0, noise);
                of.jump = Some((100, by));
                let world = World::new(of, seed);
                let (jump_ns, _) = world.both(100 * SECOND);
                let before = world
                    .probes
                    .iter()
                    .filter(|probe| probe.received < jump_ns.min(jump_ns - by));
                let before = before.count();
                let result = estimate(&world.probes[..before + 10], &Assumptions::default()).expect("probes");
                // A jump below the round trip is found, but not proved.
                let expected = if trip < 100_000.0 {
                    Begin::Jump
                } else {
                    Begin::Shift
                };
                let jumps: Vec<_> = result
                    .pieces
                    .iter()
                    .filter(|piece| piece.begins == expected)
                    .collect();
                assert_eq!(
                    jumps.len(),
                    1,
                    "{trip} us, {by} ns, seed {seed}: {:?}",
                    result.pieces
                );
                let error = (jumps[0].offset_ns - result.pieces[0].offset_ns + by).abs();
                // 100 s of drift, and the uncertainty of a level from ten probes with this noise.
                assert!(
                    error < 2_500_000 + 2_000 * noise as i64,
                    "{trip} us, {by} ns, seed {seed}: {error}"
                );
                assert!(jumps[0].from_ns - jump_ns < 10 * SECOND);
            }
        }
    }
}

#[test]
fn a_jump_below_the_round_trip_keeps_the_truth_inside_the_bound() {
    for by in [30_000, 60_000, 100_000, 150_000, 200_000, 300_000, 600_000] {
        for (seed, sign) in (0..40).zip([1, -1].into_iter().cycle()) {
            let mut of = Conditions::new(300, 60.0 + 2.0 * seed as f64, 140.0 - 2.0 * seed as f64, 10.0);
            of.jump = Some((20 + 6 * seed as i64, sign * by));
            let world = World::new(of, seed);
            let (error, share) = world.judge(&estimated(&world).map);
            assert!(share <= 1.0, "{by} ns, seed {seed}: {error} ns");
        }
    }
}

#[test]
fn a_run_without_changes_is_one_piece() {
    for (seed, (trip, noise)) in [(200.0, 10.0), (60_000.0, 500.0), (315_000.0, 2_000.0)]
        .iter()
        .enumerate()
    {
        for k in 0..100 {
            let of = Conditions::new(600, trip / 2.0, trip / 2.0, *noise);
            let result = estimated(&World::new(of, seed as u64 * 1_000 + k));
            assert_eq!(result.pieces.len(), 1, "{trip} us, {k}: {:?}", result.pieces);
            assert_eq!(result.pieces[0].begins, Begin::Start);
        }
    }
}

#[test]
fn a_new_route_begins_a_piece_and_the_better_route_determines_the_level() {
    for seed in 0..100 {
        // A round trip of 20 ms with 8 ms of asymmetry, then one of 4 ms without.
        let mut of = Conditions::new(600, 14_000.0, 6_000.0, 100.0);
        of.new_route = Some((
            300,
            Route {
                there: 2_000.0,
                back: 2_000.0,
            },
        ));
        let world = World::new(of, seed);
        let result = estimated(&world);
        let begins: Vec<Begin> = result.pieces.iter().map(|piece| piece.begins).collect();
        assert_eq!(begins, [Begin::Start, Begin::RouteChange], "seed {seed}");
        let (error, share) = world.judge(&result.map);
        assert!(
            error < 200_000.0,
            "seed {seed}: {error} ns, where the first route alone would be 4 ms off"
        );
        assert!(share <= 1.0);
        for piece in &result.pieces {
            assert!((piece.drift_ppm - 25.0).abs() < 0.5, "no tilt: {piece:?}");
        }
    }
}

#[test]
fn the_map_is_continuous_and_never_runs_backwards() {
    for seed in 0..60 {
        let world = World::new(mixed(seed), seed);
        let map = estimated(&world).map;
        let (from, to) = map.span_ns().expect("not the same clock");
        let (mut last, step) = (map.at(from - SECOND).controller_ns, 3_000_017);
        for t in (from - SECOND + step..to + SECOND).step_by(step as usize) {
            let now = map.at(t).controller_ns;
            assert!(now >= last, "seed {seed}: backwards at {t}");
            last = now;
        }
        // Continuous: a step of 1 ns changes the result by little more than 1 ns, also at the
        // probes, where the knots are.
        for probe in &world.probes {
            for t in [probe.sent, probe.received] {
                let (a, b, c) = (map.at(t - 1), map.at(t), map.at(t + 1));
                let max_slope = world.conditions.jump.map_or(1, |(_, by)| by.abs() / 100_000);
                assert!(
                    b.controller_ns - a.controller_ns <= 2 + max_slope,
                    "seed {seed} at {t}"
                );
                assert!(
                    c.controller_ns - b.controller_ns <= 2 + max_slope,
                    "seed {seed} at {t}"
                );
            }
        }
    }
}

#[test]
fn the_order_of_the_probes_does_not_matter() {
    let world = World::new(mixed(5), 5);
    let mut probes: Vec<Probe> = world.probes.clone();
    let sorted = estimated(&world);
    probes.reverse();
    assert_eq!(
        estimate(&probes, &Assumptions::default()).expect("probes"),
        sorted
    );
    let text = serde_json::to_string(&sorted).expect("plain data");
    assert!(text.len() < 20_000, "{} bytes for ten minutes", text.len());
    let read: ClockEstimate = serde_json::from_str(&text).expect("as written");
    for probe in &probes {
        assert_eq!(read.map.at(probe.sent), sorted.map.at(probe.sent));
    }
    assert_eq!(read.pieces.len(), sorted.pieces.len());
}
