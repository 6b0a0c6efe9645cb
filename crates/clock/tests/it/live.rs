//! The current time and the near future, while probes arrive.

use std::ops::Range;

use plimsoll_clock::{Assumptions, Begin, Live, PushResult};

use crate::simulate::{Conditions, SECOND, World, mixed};

/// Maximum number of probes until a jump is detected.
const FOUND_WITHIN: usize = 10;

#[test]
fn the_truth_is_inside_the_live_bound_now_and_soon() {
    assert_truth_is_inside(0..60);
}

#[test]
#[ignore = "long: 20 s of computing, the same in more worlds"]
fn long_the_truth_is_inside_the_live_bound_now_and_soon() {
    assert_truth_is_inside(60..300);
}

fn assert_truth_is_inside(seeds: Range<u64>) {
    for seed in seeds {
        let world = World::new(mixed(seed), seed);
        let mut live = Live::new(Assumptions::default());
        assert_eq!(live.at(0), None);
        let jump_ns = world.conditions.jump.map(|(at, _)| world.both(at * SECOND - 1).0);
        let mut after_jump = 0;
        for probe in &world.probes {
            live.push(probe);
            // Predictions across a jump are not checked. A jump below the round trip is detected
            // some probes later.
            if jump_ns.is_some_and(|jump| probe.received >= jump - 6 * SECOND) && after_jump < FOUND_WITHIN {
                after_jump += usize::from(jump_ns.is_some_and(|jump| probe.sent > jump));
                continue;
            }
            let now = world.when(probe.received);
            for soon in [0, SECOND / 3, 5 * SECOND] {
                let (agent, controller) = world.both(now + soon);
                let mapped = live.at(agent).expect("a probe was pushed");
                let error = (mapped.controller_ns - controller).abs();
                assert!(
                    error <= mapped.bound_ns,
                    "seed {seed} at {now} + {soon}: {error} {mapped:?}"
                );
                let back = live.inverse(controller).expect("a probe was pushed");
                assert!(
                    (back.agent_ns - agent).abs() <= back.bound_ns + 1,
                    "seed {seed} at {now} + {soon}"
                );
            }
        }
        assert!(
            live.rejected() <= usize::from(jump_ns.is_some()),
            "only one that was under way"
        );
    }
}

#[test]
fn on_a_lan_the_error_of_a_common_start_is_below_20_us() {
    let mut worst = 0;
    for seed in 0..100 {
        let mut of = Conditions::new(60, 100.0, 100.0, 10.0);
        of.drift_ppm = seed as f64 * 2.0 - 100.0;
        let world = World::new(of, seed);
        let mut live = Live::new(Assumptions::default());
        for probe in world
            .probes
            .iter()
            .filter(|probe| world.when(probe.received) < 30 * SECOND)
        {
            assert_eq!(live.push(probe), PushResult::Kept, "seed {seed}");
        }
        let (agent, controller) = world.both(33 * SECOND);
        worst = worst.max((live.inverse(controller).expect("probes").agent_ns - agent).abs());
        assert!((live.drift_ppm().expect("probes") - world.conditions.drift_ppm).abs() < 3.0);
    }
    assert!(worst < 20_000, "{worst} ns");
}

#[test]
fn a_greater_declared_rate_error_widens_the_bound() {
    let world = World::new(Conditions::new(20, 100.0, 100.0, 10.0), 1);
    let mut live = Live::new(Assumptions::default());
    for probe in &world.probes {
        live.push(probe);
    }
    let later = world.probes.last().expect("probes").received + 10 * SECOND;
    let before = live.at(later).expect("probes").bound_ns;
    live.assume(Assumptions {
        max_rate_error_ppm: 2_000.0,
        ..Assumptions::default()
    });
    let after = live.at(later).expect("probes").bound_ns;
    // 1,500 ppm more over 10 s is 15 ms.
    assert!(
        (14_900_000..=15_100_000).contains(&(after - before)),
        "{before} {after}"
    );
}

#[test]
fn a_jump_empties_the_window_within_ten_probes() {
    for (trip, noise) in [(200.0, 10.0), (60_000.0, 500.0), (315_000.0, 2_000.0)] {
        for by in [100_000_000, -100_000_000] {
            for seed in 0..20 {
                let mut of = Conditions::new(200, trip / 2.0, trip / 2.0, noise);
                of.jump = Some((100, by));
                let world = World::new(of, seed);
                let (jump_ns, _) = world.both(100 * SECOND - 1);
                let mut live = Live::new(Assumptions::default());
                let mut after = 0;
                for probe in &world.probes {
                    let pushed = live.push(probe);
                    if probe.received <= jump_ns {
                        assert_eq!(pushed, PushResult::Kept);
                        continue;
                    }
                    after += 1;
                    if pushed == PushResult::Changed(Begin::Jump) {
                        break;
                    }
                }
                assert!(
                    after <= FOUND_WITHIN,
                    "{trip} us, {by} ns, seed {seed}: {after} probes"
                );
                assert!(live.probes() <= FOUND_WITHIN);
            }
        }
    }
}
