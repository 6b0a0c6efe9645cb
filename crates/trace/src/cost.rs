//! What tracing added to the time of each call.
//!
//! It is calibrated on the traced host before and after a recording. In between it drifts: strace
//! and the program wake each other twice a call, and where they are on two cores, such a wake-up
//! takes from 1 us to more than 50, as the cores happen to sleep; in a virtual machine a traced
//! call was seen to cost 16 us in one minute and 230 in the next. The trace itself tells how much,
//! as calls that do next to nothing (a seek, a read of some bytes) are recorded with a duration,
//! and that is the cost of one of the two wake-ups: [`Drift`] follows it.

use crate::event::{Event, Outcome};
use crate::header::{Calibration, Header, Recorder};
use crate::syscalls::Effect;

/// One of three guesses at what tracing cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guess {
    /// The best estimate.
    Middle,
    /// The low end: recorded times are least too long.
    Low,
    /// The high end.
    High,
}

impl Guess {
    /// All of them, in the order of [`Calibration`].
    pub const ALL: [Self; 3] = [Self::Middle, Self::Low, Self::High];
}

/// What tracing cost a call when it was calibrated, by each [`Guess`]: ns.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    /// Outside of the recorded duration.
    gap_ns: [f64; 3],
    /// Within it.
    duration_ns: [f64; 3],
}

impl Cost {
    /// As it was measured; nothing where it was not, or where it is no number.
    pub fn of(calibration: Option<&Calibration>) -> Self {
        let mut cost = Self::default();
        let Some(found) = calibration else { return cost };
        for (place, (call, duration)) in found.call_ns.into_iter().zip(found.duration_ns).enumerate() {
            cost.duration_ns[place] = duration.max(0.0);
            cost.gap_ns[place] = (call - duration).max(0.0);
        }
        cost
    }

    /// What a call's duration is too long by, ns, not negative, where tracing was so much slower
    /// than calibrated.
    pub fn duration(&self, slower: Slower, guess: Guess) -> f64 {
        (self.duration_ns[guess as usize] + slower.ns(guess)).max(0.0)
    }

    /// What the time before a call is too long by, ns: its other wake-up is as slow.
    pub fn gap(&self, slower: Slower, guess: Guess) -> f64 {
        (self.gap_ns[guess as usize] + slower.ns(guess)).max(0.0)
    }

    /// Both.
    pub fn call(&self, slower: Slower, guess: Guess) -> f64 {
        self.gap(slower, guess) + self.duration(slower, guess)
    }
}

/// By how much each of the two wake-ups of a call took longer than when it was calibrated, by each
/// [`Guess`]; negative where less. Small, as every action of a replay has one: in units of
/// [`UNIT_NS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slower([i16; 3]);

/// A fiftieth of what strace's times resolve; the longest that can be told is 0.65 ms.
const UNIT_NS: f64 = 20.0;

impl Slower {
    fn new(ns: [f64; 3]) -> Self {
        Self(ns.map(|ns| (ns / UNIT_NS).round() as i16))
    }

    fn ns(self, guess: Guess) -> f64 {
        f64::from(self.0[guess as usize]) * UNIT_NS
    }
}

/// What is still to be taken off the times of a thread, ns: what is known is the mean cost of a
/// call, so that some calls cost more than they took together with the gap before them, and others
/// less. Without it, long calls would keep what short ones have too much.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Debt(f64);

impl Debt {
    /// Of a time of so many ns, takes off what tracing has cost, and what could not be taken off
    /// before. What was taken, at most `time_ns`. What cannot be taken is kept, up to the cost of
    /// [`RECENT`] such times: more is no scatter, but cost that was not there.
    pub fn take(&mut self, cost_ns: f64, time_ns: f64) -> f64 {
        let wanted = self.0 + cost_ns;
        let taken = wanted.min(time_ns);
        self.0 = (wanted - taken).min(RECENT * cost_ns);
        taken
    }
}

/// Calls over which a mean is taken: some milliseconds of a program that does nothing but call.
const RECENT: f64 = 32.0;
/// What the calibration counts for at first, in calls.
const FIRST: f64 = 4.0;
/// What is longer was kept waiting by something else than tracing, ns.
const MAX_NS: f64 = 2_000_000.0;
/// Bytes of a read or write that takes no longer than strace's times resolve.
const FEW_BYTES: u64 = 4096;
/// The two wake-ups need not have waited alike: what one of them tells is the cost of a call within
/// so much, as a share.
const WITHIN: f64 = 0.2;
/// Calls that have to tell before what was calibrated is left for what they tell.
const ENOUGH: f64 = 16.0;

/// Means over recent calls, ns.
#[derive(Debug, Clone, Copy)]
struct Recent {
    duration: f64,
    gap: f64,
    calls: f64,
}

impl Recent {
    fn add(&mut self, duration: f64, gap: f64) {
        self.calls = (self.calls + 1.0).min(RECENT);
        self.duration += (duration.min(MAX_NS) - self.duration) / self.calls;
        self.gap += (gap.min(MAX_NS) - self.gap) / self.calls;
    }
}

/// Follows how much slower tracing was than calibrated, through the events of a trace in their
/// order.
///
/// Evidence are recorded durations of calls that take no time themselves, and the gaps before them,
/// which cannot be shorter than their share of the cost: what was longer than calibrated in both
/// halves may be tracing. Of seeks it is, and of all calls that took less than calibrated. A small
/// read may have waited for a disk, and the program may have computed before it; where both halves
/// are about as much longer, tracing is the best guess, elsewhere what was calibrated is. The range
/// then goes from what was calibrated to the mean of what all calls took that do not wait for
/// others.
#[derive(Debug)]
pub struct Drift {
    cost: Cost,
    /// strace, calibrated, with durations: nothing else drifts, or tells.
    is_told: bool,
    quick: Recent,
    any: Recent,
    /// Share of calls that never wait among the quick ones.
    surest: f64,
    /// By thread: when its last call ended, ns.
    ends: Vec<Option<i64>>,
}

/// What an event says of the cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Evidence {
    /// Its duration is the cost.
    Sure,
    /// Its duration is the cost, unless it had to wait for a disk.
    Likely,
    /// Its duration is not less than the cost.
    Bound,
    /// Nothing.
    None,
}

impl Drift {
    /// Of a trace that nothing of has been read yet.
    pub fn new(header: &Header) -> Self {
        let cost = Cost::of(header.calibration.as_ref());
        let calibrated = Recent {
            duration: cost.duration_ns[0],
            gap: cost.gap_ns[0],
            calls: FIRST,
        };
        Self {
            cost,
            is_told: header.calibration.is_some()
                && header.recorder == Recorder::Strace
                && header.has_durations,
            quick: calibrated,
            any: calibrated,
            surest: 0.0,
            ends: Vec::new(),
        }
    }

    /// Takes the next event. By how much tracing it was slower than calibrated, as far as is known
    /// by then.
    pub fn take(&mut self, event: &Event) -> Slower {
        if !self.is_told {
            return Slower::default();
        }
        let place = event.thread.index();
        if place >= self.ends.len() {
            self.ends.resize(place + 1, None);
        }
        let before = self.ends[place].replace(event.end_ns());
        let (Some(before), Some(duration)) = (before, event.duration_ns) else {
            return self.slower();
        };
        let gap = event.start_ns.saturating_sub(before).max(0) as f64;
        let evidence = evidence(event);
        if evidence != Evidence::None {
            self.any.add(duration as f64, gap);
        }
        if matches!(evidence, Evidence::Sure | Evidence::Likely) {
            self.quick.add(duration as f64, gap);
            let is_sure = f64::from(u8::from(evidence == Evidence::Sure));
            self.surest += (is_sure - self.surest) / self.quick.calls;
        }
        self.slower()
    }

    fn slower(&self) -> Slower {
        let calibrated = |guess| self.cost.call(Slower::default(), guess);
        let (duration, gap) = self.longer(&self.quick);
        let both = duration.min(gap.max(0.0));
        let is_sure = both < 0.0 || self.surest > 0.5;
        let is_alike = duration * 0.5 < gap && gap < duration * 1.5;
        let middle = if is_sure || is_alike { both } else { 0.0 };

        let call = (calibrated(Guess::Middle) + 2.0 * middle).max(0.0);
        let (mut low, mut high) = (call * (1.0 - WITHIN), call * (1.0 + WITHIN));
        if is_alike {
            // Nothing says that it was not all of the time from one call to the next.
            high = high.max(self.quick.duration + self.quick.gap);
        }
        if !is_sure || self.quick.calls < ENOUGH {
            let (any, any_gap) = self.longer(&self.any);
            let most = any.min(any_gap.max(0.0)).max(both);
            let bound = calibrated(Guess::Middle) + 2.0 * most;
            low = low.min(calibrated(Guess::Low));
            high = high.max(bound * (1.0 + WITHIN)).max(calibrated(Guess::High));
        }
        let half = |call, guess| (call - calibrated(guess)) / 2.0;
        Slower::new([middle, half(low, Guess::Low), half(high, Guess::High)])
    }

    /// Than calibrated: duration and gap, ns.
    fn longer(&self, recent: &Recent) -> (f64, f64) {
        (
            recent.duration - self.cost.duration_ns[0],
            recent.gap - self.cost.gap_ns[0],
        )
    }
}

fn evidence(event: &Event) -> Evidence {
    let moved = match event.outcome {
        Outcome::Returned(moved) => moved.unsigned_abs(),
        _ => return Evidence::None,
    };
    match event.call.effect {
        _ if !event.call.is_made() || event.file.is_none() => Evidence::None,
        Effect::Seek | Effect::Dup => Evidence::Sure,
        Effect::Close => Evidence::Likely,
        Effect::Read | Effect::Write if moved <= FEW_BYTES => Evidence::Likely,
        Effect::Look if event.call.name == "fstat" => Evidence::Likely,
        Effect::Read | Effect::Write | Effect::Look | Effect::Open => Evidence::Bound,
        _ => Evidence::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{FileId, ThreadId};
    use crate::syscalls;

    /// 20 us a call, 5 of them within its duration.
    const CALIBRATION: Calibration = Calibration {
        call_ns: [20_000.0, 18_000.0, 22_000.0],
        duration_ns: [5_000.0, 4_000.0, 6_000.0],
        calls: 1000,
    };

    struct Run {
        drift: Drift,
        now_us: i64,
        slower: Slower,
    }

    impl Run {
        fn new(recorder: Recorder) -> Self {
            let header = Header {
                calibration: Some(CALIBRATION),
                ..Header::new(recorder, 1000)
            };
            Self {
                drift: Drift::new(&header),
                now_us: 0,
                slower: Slower::default(),
            }
        }

        /// `times` calls of one thread, each `gap` us after the one before, and `duration` us long.
        fn calls(mut self, times: usize, name: &str, gap: i64, duration: i64) -> Self {
            for _ in 0..times {
                self.now_us += gap;
                let call = syscalls::find(name.as_bytes()).unwrap();
                let start = self.now_us * 1000;
                let mut event = Event::new(ThreadId::new(0).unwrap(), call, start, Outcome::Returned(1));
                event.duration_ns = Some(duration.unsigned_abs() * 1000);
                event.file = FileId::new(0);
                self.slower = self.drift.take(&event);
                self.now_us += duration;
            }
            self
        }

        /// What a call costs by now, us: the best estimate, the low and the high end.
        fn cost(&self) -> [i64; 3] {
            let cost = Cost::of(Some(&CALIBRATION));
            Guess::ALL.map(|guess| (cost.call(self.slower, guess) / 1000.0).round() as i64)
        }
    }

    #[test]
    fn as_calibrated_it_costs_what_was_calibrated() {
        let run = Run::new(Recorder::Strace).calls(100, "lseek", 15, 5);
        assert_eq!(run.cost(), [20, 16, 24]);
        // Nobody has told anything yet.
        let run = Run::new(Recorder::Strace).calls(3, "lseek", 15, 5);
        assert_eq!(run.cost(), [20, 16, 24]);
    }

    /// Figures of `dd` in a virtual machine: cycles of 234 us with durations of 107, where 20 and 5
    /// were calibrated.
    #[test]
    fn wake_ups_that_are_slower_are_so_twice_a_call() {
        let run = Run::new(Recorder::Strace).calls(200, "read", 127, 107);
        let [middle, low, high] = run.cost();
        assert!((221..=227).contains(&middle), "{middle}");
        assert_eq!(low, 18);
        assert!((260..280).contains(&high), "{high}");
        // A gap that is longer still may be tracing, or computing.
        let [_, _, high] = Run::new(Recorder::Strace).calls(200, "read", 160, 107).cost();
        assert!(high >= 267, "{high}");
    }

    #[test]
    fn wake_ups_that_are_faster_cost_less() {
        let [middle, low, high] = Run::new(Recorder::Strace).calls(200, "lseek", 11, 2).cost();
        assert!(5 < low && low < middle && middle < high && middle < 15);
    }

    /// Calls that take long one after the other: a slow disk, not tracing.
    #[test]
    fn gaps_that_are_short_deny_it() {
        let run = Run::new(Recorder::Strace).calls(200, "read", 15, 105);
        assert_eq!(run.cost(), [20, 16, 24]);
    }

    /// Computing between reads that take long: nobody knows, so that the low end stays where it was
    /// calibrated.
    #[test]
    fn what_may_be_a_disk_is_no_certain_cost() {
        let [middle, low, high] = Run::new(Recorder::Strace).calls(200, "read", 400, 105).cost();
        assert_eq!([middle, low], [20, 16]);
        assert!(high > 200);
        // A seek waits for no disk.
        let [_, low, _] = Run::new(Recorder::Strace).calls(200, "lseek", 400, 105).cost();
        assert!(low > 150, "{low}");
    }

    /// They end the range, and say nothing of its middle.
    #[test]
    fn calls_that_do_much_are_bounds() {
        let run = Run::new(Recorder::Strace).calls(200, "openat", 60, 50);
        let [middle, low, high] = run.cost();
        assert_eq!([middle, low], [20, 16]);
        assert!(high > 100, "{high}");
    }

    #[test]
    fn what_a_short_call_cannot_pay_a_long_one_does() {
        let mut debt = Debt::default();
        let taken = [5.0, 30.0, 10.0, 100.0].map(|time| debt.take(20.0, time) as u64);
        assert_eq!(taken, [5, 30, 10, 35]);
        // There was no such cost: computing that comes later is not eaten up.
        for _ in 0..10_000 {
            debt.take(20.0, 1.0);
        }
        assert!(debt.take(20.0, 1e9) <= 20.0 * 33.0);
    }

    #[test]
    fn another_recorder_does_not_drift() {
        let run = Run::new(Recorder::Preload).calls(200, "lseek", 400, 105);
        assert_eq!(run.slower, Slower::default());
    }
}
