//! The slots of testers that start at fixed intervals (`every`): of a constant load, of a ramp and
//! of stages.

use plimsoll_model::Late;

use crate::closed::Presence;

/// The slots of one tester, one every `every_ns`, in the periods in which it is active.
///
/// In a constant load the first slots of the testers are spread evenly over the first interval. In
/// a ramp or in stages the testers that are active change, so that each tester has an offset within
/// the interval with which the slots of any first testers are spread ([`offset`]). A tester of a
/// ramp has its first slot when it joins, and the next ones from one interval later on at its
/// offset: without offsets, testers that join at a multiple of the interval would all start at the
/// same instants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slots {
    late: Late,
    runs: Vec<SlotRun>,
}

/// The slots of a period: the first, and from the second on one every `every_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SlotRun {
    from_ns: u64,
    to_ns: u64,
    stage: u16,
    first_ns: u64,
    second_ns: u64,
    every_ns: u64,
    /// Number of the first slot.
    base: u64,
}

/// A slot in which a tester starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextSlot {
    /// Number of the slot, from 0.
    pub slot: u64,
    /// Scheduled start: the time of the slot, or under [`Late::Skip`] the end of the previous
    /// transaction if that is later.
    pub scheduled_ns: u64,
    /// Index of the stage; 0 for a load without stages.
    pub stage: u16,
    /// Slots that passed during the previous transaction and are not used. Number of slots =
    /// started + missed.
    pub missed: u64,
}

impl Slots {
    /// The slots of `tester`, one every `every_ns` (at least 1), while it is present.
    pub fn new(presence: &Presence, tester: u32, every_ns: u64, late: Late) -> Self {
        let every_ns = every_ns.max(1);
        let offset_ns = if presence.is_constant() {
            let numerator = u128::from(every_ns) * u128::from(tester);
            (numerator / u128::from(presence.testers().max(1))) as u64
        } else {
            offset(tester, every_ns)
        };
        let on_grid = |earliest: u64| match earliest.checked_sub(offset_ns) {
            None => offset_ns,
            Some(after) => offset_ns.saturating_add(after.div_ceil(every_ns).saturating_mul(every_ns)),
        };
        let mut base = 0;
        let mut runs = Vec::new();
        for period in presence.periods(tester) {
            let (first_ns, second_ns) = if presence.is_ramp() {
                (period.from_ns, on_grid(period.from_ns.saturating_add(every_ns)))
            } else {
                let first = on_grid(period.from_ns);
                (first, first.saturating_add(every_ns))
            };
            let run = SlotRun {
                from_ns: period.from_ns,
                to_ns: period.to_ns,
                stage: period.stage,
                first_ns,
                second_ns,
                every_ns,
                base,
            };
            base = base.saturating_add(run.before(period.to_ns));
            runs.push(run);
        }
        Self { late, runs }
    }

    /// The first slot; none if the tester has no slot.
    pub fn first(&self) -> Option<NextSlot> {
        self.at(0, 0)
    }

    /// Slot number `slot` after `missed` slots that are not used; none if the tester has fewer
    /// slots.
    pub fn at(&self, slot: u64, missed: u64) -> Option<NextSlot> {
        let run = self.runs.iter().rev().find(|run| run.base <= slot)?;
        let scheduled_ns = run.time(slot - run.base);
        (scheduled_ns < run.to_ns).then_some(NextSlot {
            slot,
            scheduled_ns,
            stage: run.stage,
            missed,
        })
    }

    /// Number of slots before `t_ns`.
    pub fn before(&self, t_ns: u64) -> u64 {
        self.runs.iter().map(|run| run.before(t_ns)).sum()
    }

    /// The slot that follows `slot`, whose transaction ended at `end_ns`; none if the tester has no
    /// slot any more.
    pub fn after(&self, slot: u64, end_ns: u64) -> Option<NextSlot> {
        let next = slot + 1;
        let passed = self.before(end_ns.saturating_add(1));
        if passed <= next {
            return self.at(next, 0);
        }
        let active = self
            .runs
            .iter()
            .find(|run| (run.from_ns..run.to_ns).contains(&end_ns));
        let Some(run) = active else {
            return self.at(passed, passed - next); // the tester has left, or pauses for a stage
        };
        if self.late == Late::CatchUp {
            return self.at(next, 0).map(|slot| NextSlot {
                stage: run.stage,
                ..slot
            });
        }
        // The last slot that has passed starts now; those before it are missed.
        Some(NextSlot {
            slot: passed - 1,
            scheduled_ns: end_ns,
            stage: run.stage,
            missed: passed - 1 - next,
        })
    }
}

impl SlotRun {
    fn time(&self, index: u64) -> u64 {
        match index.checked_sub(1) {
            None => self.first_ns,
            Some(later) => self.second_ns.saturating_add(later.saturating_mul(self.every_ns)),
        }
    }

    /// Number of its slots before `t_ns`.
    fn before(&self, t_ns: u64) -> u64 {
        let until = t_ns.min(self.to_ns);
        if until <= self.first_ns {
            return 0;
        }
        1 + until.saturating_sub(self.second_ns).div_ceil(self.every_ns)
    }
}

/// The offset of a tester within the interval: the fractional parts of the multiples of the golden
/// ratio. For any number of testers, the gaps between their offsets have at most three lengths
/// (Steinhaus; Sós 1957, Świerczkowski 1958), and the greatest is at most 2.62 times the least.
fn offset(tester: u32, every_ns: u64) -> u64 {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15; // 2^64 / golden ratio
    let fraction = u64::from(tester).wrapping_mul(GOLDEN);
    ((u128::from(fraction) * u128::from(every_ns)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use plimsoll_model::{Arrivals, Dist, LoadSpec, SlotSpec, StageSpec, WhenFull};

    use super::*;

    fn constant(tester: u32, testers: u32, every_ns: u64, late: Late) -> Slots {
        let load = LoadSpec::Every {
            testers,
            every_ns,
            late,
        };
        Slots::new(&Presence::of(&load).unwrap(), tester, every_ns, late)
    }

    fn spec(every_ns: u64) -> SlotSpec {
        SlotSpec {
            every_ns,
            late: Late::Skip,
        }
    }

    fn ramp(testers: u32, every_ns: u64, life_ns: Option<u64>, slot_ns: u64) -> Presence {
        let load = LoadSpec::Ramp {
            testers,
            every_ns,
            life_ns,
            think: Dist::ZERO,
            slots: Some(spec(slot_ns)),
        };
        Presence::of(&load).unwrap()
    }

    fn stages(testers: &[Option<u32>], life_ns: Option<u64>) -> Presence {
        let load = LoadSpec::Stages {
            stages: testers
                .iter()
                .map(|&testers| StageSpec {
                    name: String::new(),
                    for_ns: 100,
                    testers,
                    rate: testers.is_none().then_some((1.0, 1.0)),
                })
                .collect(),
            think: Dist::ZERO,
            arrivals: Arrivals::Even,
            in_flight: 1,
            when_full: WhenFull::Wait,
            slots: Some(spec(30)),
            life_ns,
        };
        Presence::of(&load).unwrap()
    }

    /// The starts of transactions of no duration.
    fn starts(slots: &Slots) -> Vec<u64> {
        let mut times = Vec::new();
        let mut next = slots.first();
        while let Some(slot) = next {
            times.push(slot.scheduled_ns);
            next = slots.after(slot.slot, slot.scheduled_ns);
        }
        times
    }

    #[test]
    fn before_counts_the_slots_that_are_earlier_than_a_time() {
        let slots = constant(1, 2, 20, Late::Skip); // at 10, 30, 50, ...
        for (t_ns, due) in [(0, 0), (10, 0), (11, 1), (30, 1), (31, 2), (50, 2), (51, 3)] {
            assert_eq!(slots.before(t_ns), due, "before {t_ns}");
        }
        assert_eq!(constant(0, 1, 20, Late::Skip).before(0), 0);
        assert_eq!(constant(0, 1, 20, Late::Skip).before(1), 1);
    }

    #[test]
    fn slots_that_pass_are_missed_or_start_late() {
        let next = |slot, scheduled_ns, missed| {
            Some(NextSlot {
                slot,
                scheduled_ns,
                stage: 0,
                missed,
            })
        };
        let skip = constant(1, 4, 100, Late::Skip);
        assert_eq!(skip.first(), next(0, 25, 0));
        // previous slot, its end, next slot, scheduled, missed
        for (slot, end, after, scheduled, missed) in [
            (0, 60, 1, 125, 0),
            (0, 124, 1, 125, 0),
            (0, 125, 1, 125, 0),
            (0, 130, 1, 130, 0),
            (0, 230, 2, 230, 1),
            (0, 560, 5, 560, 4),
            (5, 561, 6, 625, 0),
        ] {
            assert_eq!(
                skip.after(slot, end),
                next(after, scheduled, missed),
                "slot {slot} to {end}"
            );
        }
        let catch_up = constant(1, 4, 100, Late::CatchUp);
        assert_eq!(catch_up.after(0, 560), next(1, 125, 0));
    }

    #[test]
    fn every_slot_is_started_or_missed() {
        let slots = constant(0, 1, 10, Late::Skip);
        let (mut started, mut missed, mut now) = (0, 0, 0);
        let mut next = slots.first().unwrap();
        for duration in [3, 25, 1, 47, 10, 9, 11].into_iter().cycle().take(700) {
            now = next.scheduled_ns.max(now) + duration;
            started += 1;
            next = slots.after(next.slot, now).unwrap();
            missed += next.missed;
            assert_eq!(next.slot, started + missed);
        }
    }

    #[test]
    fn a_tester_of_a_ramp_starts_when_it_joins_and_keeps_its_interval_for_its_life() {
        let presence = ramp(5, 250, Some(1_000), 100);
        for tester in 0..5 {
            let times = starts(&Slots::new(&presence, tester, 100, Late::Skip));
            let joined = u64::from(tester) * 250;
            assert_eq!(times[0], joined);
            assert!((100..200).contains(&(times[1] - times[0])), "{times:?}");
            assert!(times[1..].windows(2).all(|pair| pair[1] - pair[0] == 100));
            let last = *times.last().unwrap();
            assert!(last < joined + 1_000 && last + 100 >= joined + 1_000, "{times:?}");
        }
    }

    #[test]
    fn slots_of_a_ramp_are_spread_although_the_joins_are_multiples_of_the_interval() {
        let every_ns = 1_000_000;
        let presence = ramp(89, 25 * every_ns, None, every_ns);
        for active in [2_u32, 10, 50, 89] {
            let mut offsets: Vec<u64> = (0..active)
                .map(|tester| {
                    let slots = Slots::new(&presence, tester, every_ns, Late::Skip);
                    slots.at(1, 0).unwrap().scheduled_ns % every_ns
                })
                .collect();
            offsets.sort_unstable();
            let least = offsets.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap();
            let even = every_ns / u64::from(active);
            assert!(least * 2 > even * 7 / 10, "{active}: {least} of {even}");
        }
    }

    #[test]
    fn a_transaction_that_ends_after_the_life_is_the_last() {
        for late in [Late::Skip, Late::CatchUp] {
            let slots = Slots::new(&ramp(1, 1, Some(100), 20), 0, 20, late); // 0, 20, ..., 80
            assert_eq!(slots.after(1, 100), None);
            assert_eq!(slots.before(u64::MAX), 5); // 40, 60 and 80 are missed
            let next = slots.after(1, 99).map(|slot| (slot.slot, slot.missed));
            let expected = if late == Late::Skip { (4, 2) } else { (2, 0) };
            assert_eq!(next, Some(expected));
        }
    }

    #[test]
    fn slots_of_stages_are_on_one_grid_and_absent_testers_have_none() {
        // The offset of tester 0 is 0, that of tester 1 is 18.
        let presence = stages(&[Some(1), Some(2), None, Some(2)], None);
        let of = |tester| Slots::new(&presence, tester, 30, Late::Skip);
        assert_eq!(starts(&of(0)), [0, 30, 60, 90, 120, 150, 180, 300, 330, 360, 390]);
        assert_eq!(starts(&of(1)), [108, 138, 168, 198, 318, 348, 378]);
        assert_eq!(
            of(0).first().map(|slot| slot.stage),
            Some(0),
            "the stage of a slot is that of its time"
        );
        assert_eq!(of(1).at(4, 0).map(|slot| slot.stage), Some(3));
        // From the second stage to the middle of the third, and to that of the last one.
        let next = |end| of(0).after(6, end).map(|slot| (slot.slot, slot.scheduled_ns));
        assert_eq!(
            [next(250), next(335)],
            [Some((7, 300)), Some((8, 335))],
            "no start in the stage without testers"
        );
    }

    #[test]
    fn the_life_of_a_tester_of_stages_begins_with_its_first_stage() {
        let presence = stages(&[Some(1), Some(2), Some(2)], Some(150));
        let of = |tester| starts(&Slots::new(&presence, tester, 30, Late::Skip));
        assert_eq!(of(0), [0, 30, 60, 90, 120]);
        assert_eq!(of(1), [108, 138, 168, 198, 228]);
        assert_eq!(presence.next(0, 150), None);
        assert_eq!(presence.next(1, 249), Some((249, 2)));
    }
}
