//! The tracing cost: the time that tracing added to each call.
//!
//! The cost is calibrated on the traced host before and after a recording. It drifts in between.
//! strace and the program wake each other twice per call. If they run on two cores, such a wake-up
//! takes from 1 us to more than 50 us, depending on whether the cores sleep. In a virtual machine a
//! traced call took 16 us in one minute and 230 us in the next. The trace itself shows the cost:
//! calls that do almost nothing (a seek, a read of a few bytes) have a recorded duration, which is
//! the cost of one of the two wake-ups. [`Drift`] follows it.

use crate::event::{Event, Outcome};
use crate::header::{Calibration, Header, Recorder};
use crate::syscalls::Effect;

/// One of three estimates of the tracing cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guess {
    /// The best estimate.
    Middle,
    /// The low end of the range: the smallest cost.
    Low,
    /// The high end of the range.
    High,
}

impl Guess {
    /// All estimates, in the order of the numbers in [`Calibration`].
    pub const ALL: [Self; 3] = [Self::Middle, Self::Low, Self::High];
}

/// The calibrated tracing cost of a call, for each [`Guess`]: ns.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    /// Outside the recorded duration.
    gap_ns: [f64; 3],
    /// Within the recorded duration.
    duration_ns: [f64; 3],
}

impl Cost {
    /// The calibrated cost; 0 without a calibration, or for a number that is NaN.
    pub fn of(calibration: Option<&Calibration>) -> Self {
        let mut cost = Self::default();
        let Some(calibration) = calibration else {
            return cost;
        };
        for (guess, (call, duration)) in calibration
            .call_ns
            .into_iter()
            .zip(calibration.duration_ns)
            .enumerate()
        {
            cost.duration_ns[guess] = duration.max(0.0);
            cost.gap_ns[guess] = (call - duration).max(0.0);
        }
        cost
    }

    /// The cost within the duration of a call, ns, not negative, if each wake-up was longer than
    /// calibrated by `slower`.
    pub fn duration(&self, slower: Slower, guess: Guess) -> f64 {
        (self.duration_ns[guess as usize] + slower.ns(guess)).max(0.0)
    }

    /// The cost in the time before a call, ns, not negative: the other wake-up is longer by the
    /// same amount.
    pub fn gap(&self, slower: Slower, guess: Guess) -> f64 {
        (self.gap_ns[guess as usize] + slower.ns(guess)).max(0.0)
    }

    /// The total cost of a call, ns.
    pub fn call(&self, slower: Slower, guess: Guess) -> f64 {
        self.gap(slower, guess) + self.duration(slower, guess)
    }
}

/// The time by which each of the two wake-ups of a call was longer than calibrated, for each
/// [`Guess`]; negative if shorter. Each action of a replay contains one, so it is stored in 16-bit
/// units of [`UNIT_NS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slower([i16; 3]);

/// 1/50 of the resolution of strace. The maximum is then 0.65 ms.
const UNIT_NS: f64 = 20.0;

impl Slower {
    fn new(ns: [f64; 3]) -> Self {
        Self(ns.map(|ns| (ns / UNIT_NS).round() as i16))
    }

    fn ns(self, guess: Guess) -> f64 {
        f64::from(self.0[guess as usize]) * UNIT_NS
    }
}

/// Tracing cost that is still to be subtracted from the times of a thread, ns. Only the mean cost
/// of a call is known. Some calls cost more than they and the gap before them took together, others
/// less. Without the debt, the excess of short calls would remain in the times of long ones.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Debt(f64);

impl Debt {
    /// Subtracts the tracing cost and the remaining debt from a time of `time_ns`. Returns the
    /// subtracted time, at most `time_ns`. The rest is kept, up to the cost of [`RECENT`] calls: a
    /// larger debt would not be scatter, but cost that did not occur.
    pub fn take(&mut self, cost_ns: f64, time_ns: f64) -> f64 {
        let due = self.0 + cost_ns;
        let taken = due.min(time_ns);
        self.0 = (due - taken).min(RECENT * cost_ns);
        taken
    }
}

/// Number of calls over which a mean is taken: a few milliseconds of a program that only makes
/// calls.
const RECENT: f64 = 32.0;
/// The initial weight of the calibration, in calls.
const CALIBRATION_CALLS: f64 = 4.0;
/// A longer time is cut to this: it was caused by something other than tracing. ns.
const MAX_NS: f64 = 2_000_000.0;
/// Maximum length of a read or write that takes less than the resolution of strace, bytes.
const MAX_QUICK_BYTES: u64 = 4096;
/// The two wake-ups may differ. The cost of a call is derived from one of them, with this relative
/// uncertainty.
const UNCERTAINTY: f64 = 0.2;
/// Number of calls after which their cost replaces the calibrated one.
const MIN_CALLS: f64 = 16.0;

/// Means over recent calls, ns.
#[derive(Debug, Clone, Copy)]
struct RecentMeans {
    duration: f64,
    gap: f64,
    calls: f64,
}

impl RecentMeans {
    fn add(&mut self, duration: f64, gap: f64) {
        self.calls = (self.calls + 1.0).min(RECENT);
        self.duration += (duration.min(MAX_NS) - self.duration) / self.calls;
        self.gap += (gap.min(MAX_NS) - self.gap) / self.calls;
    }
}

/// Follows by how much tracing was slower than calibrated, through the events of a trace in their
/// order.
///
/// The evidence is the recorded duration of calls that take almost no time themselves, and the gap
/// before them, which cannot be shorter than its part of the cost. If both were longer than
/// calibrated, tracing may be the cause. It is the cause for seeks, and for all calls that took
/// less than calibrated. A small read may have waited for a disk, and the program may have computed
/// before it. If both parts are longer by about the same amount, the estimate attributes that to
/// tracing; otherwise the calibrated cost remains the estimate. The range then extends from the
/// calibrated cost to the mean time of all calls that do not wait for other threads.
#[derive(Debug)]
pub struct Drift {
    cost: Cost,
    /// Whether the cost drifts and the trace shows it: a calibrated trace of strace with durations.
    is_observable: bool,
    quick: RecentMeans,
    any: RecentMeans,
    /// Share of calls that never wait, among the quick ones.
    sure_share: f64,
    /// End of the last call, ns, by thread.
    ends: Vec<Option<i64>>,
}

/// The relation of an event's duration to the tracing cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Evidence {
    /// The duration equals the cost.
    Sure,
    /// The duration equals the cost, unless the call waited for a disk.
    Likely,
    /// The duration is an upper bound of the cost.
    Bound,
    /// No relation.
    None,
}

impl Drift {
    /// The drift before the first event of a trace.
    pub fn new(header: &Header) -> Self {
        let cost = Cost::of(header.calibration.as_ref());
        let calibrated = RecentMeans {
            duration: cost.duration_ns[0],
            gap: cost.gap_ns[0],
            calls: CALIBRATION_CALLS,
        };
        Self {
            cost,
            is_observable: header.calibration.is_some()
                && header.recorder == Recorder::Strace
                && header.has_durations,
            quick: calibrated,
            any: calibrated,
            sure_share: 0.0,
            ends: Vec::new(),
        }
    }

    /// Reads the next event. Returns by how much tracing was slower than calibrated, from the
    /// events so far.
    pub fn take(&mut self, event: &Event) -> Slower {
        if !self.is_observable {
            return Slower::default();
        }
        let index = event.thread.index();
        if index >= self.ends.len() {
            self.ends.resize(index + 1, None);
        }
        let before = self.ends[index].replace(event.end_ns());
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
            self.sure_share += (is_sure - self.sure_share) / self.quick.calls;
        }
        self.slower()
    }

    fn slower(&self) -> Slower {
        let calibrated = |guess| self.cost.call(Slower::default(), guess);
        let (duration, gap) = self.longer(&self.quick);
        let both = duration.min(gap.max(0.0));
        let is_sure = both < 0.0 || self.sure_share > 0.5;
        let is_alike = duration * 0.5 < gap && gap < duration * 1.5;
        let middle = if is_sure || is_alike { both } else { 0.0 };

        let call = (calibrated(Guess::Middle) + 2.0 * middle).max(0.0);
        let (mut low, mut high) = (call * (1.0 - UNCERTAINTY), call * (1.0 + UNCERTAINTY));
        if is_alike {
            // Tracing may have taken all of the time from one call to the next.
            high = high.max(self.quick.duration + self.quick.gap);
        }
        if !is_sure || self.quick.calls < MIN_CALLS {
            let (any, any_gap) = self.longer(&self.any);
            let most = any.min(any_gap.max(0.0)).max(both);
            let bound = calibrated(Guess::Middle) + 2.0 * most;
            low = low.min(calibrated(Guess::Low));
            high = high.max(bound * (1.0 + UNCERTAINTY)).max(calibrated(Guess::High));
        }
        let half = |call, guess| (call - calibrated(guess)) / 2.0;
        Slower::new([middle, half(low, Guess::Low), half(high, Guess::High)])
    }

    /// Duration and gap minus the calibrated ones, ns.
    fn longer(&self, recent: &RecentMeans) -> (f64, f64) {
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
        Effect::Read | Effect::Write if moved <= MAX_QUICK_BYTES => Evidence::Likely,
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

    /// 20 us per call, 5 us of them within its duration.
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

        /// `times` calls of one thread, each `gap` us after the end of the previous one, and
        /// `duration` us long.
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

        /// The current cost of a call, us: the best estimate, the low and the high end.
        fn cost(&self) -> [i64; 3] {
            let cost = Cost::of(Some(&CALIBRATION));
            Guess::ALL.map(|guess| (cost.call(self.slower, guess) / 1000.0).round() as i64)
        }
    }

    #[test]
    fn calls_at_the_calibrated_cost_keep_it() {
        let run = Run::new(Recorder::Strace).calls(100, "lseek", 15, 5);
        assert_eq!(run.cost(), [20, 16, 24]);
        // Few calls so far.
        let run = Run::new(Recorder::Strace).calls(3, "lseek", 15, 5);
        assert_eq!(run.cost(), [20, 16, 24]);
    }

    /// Figures of `dd` in a virtual machine: cycles of 234 us with durations of 107 us, where 20 us
    /// and 5 us were calibrated.
    #[test]
    fn a_slower_wake_up_counts_twice_per_call() {
        let run = Run::new(Recorder::Strace).calls(200, "read", 127, 107);
        let [middle, low, high] = run.cost();
        assert!((221..=227).contains(&middle), "{middle}");
        assert_eq!(low, 18);
        assert!((260..280).contains(&high), "{high}");
        // A longer gap may be tracing or computing.
        let [_, _, high] = Run::new(Recorder::Strace).calls(200, "read", 160, 107).cost();
        assert!(high >= 267, "{high}");
    }

    #[test]
    fn faster_wake_ups_lower_the_cost() {
        let [middle, low, high] = Run::new(Recorder::Strace).calls(200, "lseek", 11, 2).cost();
        assert!(5 < low && low < middle && middle < high && middle < 15);
    }

    /// Long calls without gaps between them: a slow disk, not tracing.
    #[test]
    fn long_calls_with_short_gaps_do_not_raise_the_cost() {
        let run = Run::new(Recorder::Strace).calls(200, "read", 15, 105);
        assert_eq!(run.cost(), [20, 16, 24]);
    }

    /// Computing between long reads: the cause is unknown, so the low end stays as calibrated.
    #[test]
    fn reads_that_may_wait_for_a_disk_only_raise_the_high_end() {
        let [middle, low, high] = Run::new(Recorder::Strace).calls(200, "read", 400, 105).cost();
        assert_eq!([middle, low], [20, 16]);
        assert!(high > 200);
        // A seek waits for no disk.
        let [_, low, _] = Run::new(Recorder::Strace).calls(200, "lseek", 400, 105).cost();
        assert!(low > 150, "{low}");
    }

    /// Such calls limit the range and do not change the best estimate.
    #[test]
    fn expensive_calls_only_raise_the_high_end() {
        let run = Run::new(Recorder::Strace).calls(200, "openat", 60, 50);
        let [middle, low, high] = run.cost();
        assert_eq!([middle, low], [20, 16]);
        assert!(high > 100, "{high}");
    }

    #[test]
    fn cost_beyond_a_short_call_is_subtracted_from_the_next_long_one() {
        let mut debt = Debt::default();
        let taken = [5.0, 30.0, 10.0, 100.0].map(|time| debt.take(20.0, time) as u64);
        assert_eq!(taken, [5, 30, 10, 35]);
        // Such a cost did not occur: it is not subtracted from later computing.
        for _ in 0..10_000 {
            debt.take(20.0, 1.0);
        }
        assert!(debt.take(20.0, 1e9) <= 20.0 * 33.0);
    }

    #[test]
    fn the_cost_of_another_recorder_does_not_drift() {
        let run = Run::new(Recorder::Preload).calls(200, "lseek", 400, 105);
        assert_eq!(run.slower, Slower::default());
    }
}
