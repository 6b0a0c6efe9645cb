//! Times without what tracing has added to them.

use super::json::Times;
use crate::cost::{Cost, Debt, Guess, Slower};
use crate::event::Event;

/// A time, or a sum of times: as recorded, and with the greatest, the median and the smallest
/// likely cost taken off. ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Spent {
    pub(super) recorded: u64,
    pub(super) low: u64,
    pub(super) corrected: u64,
    pub(super) high: u64,
}

impl Spent {
    /// A recorded duration with the cost of one call taken off; never below 0.
    pub(super) fn new(recorded_ns: u64, cost: &Cost, slower: Slower) -> Self {
        let without = |guess| recorded_ns.saturating_sub(cost.duration(slower, guess) as u64);
        Self {
            recorded: recorded_ns,
            low: without(Guess::High),
            corrected: without(Guess::Middle),
            high: without(Guess::Low),
        }
    }

    /// Adds another.
    pub(super) fn add(&mut self, other: &Self) {
        self.recorded = self.recorded.saturating_add(other.recorded);
        self.low = self.low.saturating_add(other.low);
        self.corrected = self.corrected.saturating_add(other.corrected);
        self.high = self.high.saturating_add(other.high);
    }

    /// In seconds; without corrected values where there was nothing to correct them by.
    pub(super) fn times(&self, is_corrected: bool) -> Times {
        let seconds = |ns: u64| is_corrected.then_some(ns as f64 / 1e9);
        Times {
            recorded_s: self.recorded as f64 / 1e9,
            low_s: seconds(self.low),
            corrected_s: seconds(self.corrected),
            high_s: seconds(self.high),
        }
    }
}

/// What tracing cost is summed up over such a time, ns. It is short, for processes that wait for
/// each other take turns in longer times. It is long enough for some hundred calls under strace.
const BESIDE_NS: i64 = 10_000_000;

/// How long a run took, and would have taken without tracing.
///
/// Tracing stops the thread that makes a call. Threads that run beside each other lose that time
/// together, those that take turns one after the other. So the run is cut into pieces of
/// [`BESIDE_NS`], by the ends of calls. In each the run was delayed by what all threads lost over
/// how many of them ran at a time, those that waited left out, but no less than by what the thread
/// lost that lost most; the sum over the pieces is what the run lost. The upper end of the interval
/// has that thread only, the lower one all calls at the high guess: a recorder that serves one
/// thread after the other, as strace does, delays the run by them in the worst case. Calls have not
/// cost more than passed meanwhile (see [`Debt`]).
#[derive(Debug, Clone, Default)]
pub(super) struct Wall {
    first_ns: Option<i64>,
    last_ns: i64,
    piece: i64,
    /// When the last call of the piece before ended; none of the first one.
    piece_before_ns: Option<i64>,
    most_in_piece: [f64; 3],
    /// Of all threads, at the middle guess.
    sum_in_piece: f64,
    /// How long threads have run in it, not waited; of all of them, ns.
    ran_in_piece: i64,
    /// Sum over the pieces before, ns, by [`Guess`].
    critical: [f64; 3],
    /// Sum over all calls, ns, by [`Guess`].
    all: [f64; 3],
    calls: u64,
}

/// What tracing has cost a thread in the piece of the run that goes on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InPiece {
    piece: i64,
    /// ns, by [`Guess`].
    cost: [f64; 3],
    debts: [Debt; 3],
    /// When its last call ended.
    end: Option<i64>,
}

impl Wall {
    /// A call has ended, which has waited for something all the time if it `waits`. `thread` is
    /// kept by its thread.
    pub(super) fn add(
        &mut self,
        event: &Event,
        waits: bool,
        thread: &mut InPiece,
        cost_of: &Cost,
        slower: Slower,
    ) {
        let end = event.end_ns();
        // Calls are told when they have ended; one that is told late belongs to where the run is.
        let piece = end.div_euclid(BESIDE_NS);
        if piece > self.piece {
            self.end_piece();
            self.piece = piece;
        }
        self.last_ns = self.first_ns.map_or(end, |_| self.last_ns.max(end));
        let first = self.first_ns.get_or_insert(event.start_ns);
        *first = event.start_ns.min(*first);
        if thread.piece != self.piece {
            thread.piece = self.piece;
            thread.cost = [0.0; 3];
        }
        let before = thread.end.unwrap_or(event.start_ns);
        let passed = end.saturating_sub(before).max(0);
        let run = if waits { event.start_ns } else { end };
        let ran = run.saturating_sub(before.max(self.piece_begun_ns())).max(0);
        self.ran_in_piece = self.ran_in_piece.saturating_add(ran);
        thread.end = Some(end.max(before));
        for (place, guess) in Guess::ALL.into_iter().enumerate() {
            let cost = thread.debts[place].take(cost_of.call(slower, guess), passed as f64);
            thread.cost[place] += cost;
            self.most_in_piece[place] = self.most_in_piece[place].max(thread.cost[place]);
            self.all[place] += cost;
            if guess == Guess::Middle {
                // While one waits, what its own tracing costs passes as well.
                let hidden = if waits {
                    cost_of.duration(slower, guess)
                } else {
                    0.0
                };
                self.sum_in_piece += (cost - hidden).max(0.0);
            }
        }
        self.calls += 1;
    }

    /// When the piece begins that goes on.
    fn piece_begun_ns(&self) -> i64 {
        self.piece_before_ns.or(self.first_ns).unwrap_or(0)
    }

    fn end_piece(&mut self) {
        let mut lost = std::mem::take(&mut self.most_in_piece);
        let lasted = self.last_ns.saturating_sub(self.piece_begun_ns()).max(1) as f64;
        self.piece_before_ns = self.first_ns.and(Some(self.last_ns));
        let at_a_time = (std::mem::take(&mut self.ran_in_piece) as f64 / lasted).max(1.0);
        let middle = &mut lost[Guess::Middle as usize];
        *middle = middle.max(std::mem::take(&mut self.sum_in_piece) / at_a_time);
        for (sum, lost) in self.critical.iter_mut().zip(lost) {
            *sum += lost;
        }
    }

    /// When the first call began, and when the last one ended, ns; none without calls.
    pub(super) fn ends_ns(&self) -> Option<(i64, i64)> {
        self.first_ns.map(|first| (first, self.last_ns))
    }

    /// What tracing cost a call, s: the mean over all calls, by [`Guess`]. None without calls.
    pub(super) fn cost_of_a_call(&self) -> Option<[f64; 3]> {
        (self.calls > 0).then(|| self.all.map(|ns| ns * 1e-9 / self.calls as f64))
    }

    /// From the first call's beginning to the last one's end.
    pub(super) fn times(&mut self, is_corrected: bool) -> Times {
        self.end_piece();
        let (first, last) = self.ends_ns().unwrap_or_default();
        let recorded_s = last.saturating_sub(first) as f64 / 1e9;
        let without = |cost_ns: f64| is_corrected.then_some((recorded_s - cost_ns * 1e-9).max(0.0));
        let ([middle, low, _], [_, _, most]) = (self.critical, self.all);
        Times {
            recorded_s,
            low_s: without(most),
            corrected_s: without(middle),
            high_s: without(low),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Outcome, ThreadId};
    use crate::header::Calibration;
    use crate::syscalls;

    const CALIBRATION: Calibration = Calibration {
        call_ns: [30_000.0, 20_000.0, 40_000.0],
        duration_ns: [6_000.0, 5_000.0, 9_000.0],
        calls: 1000,
    };

    /// `calls` are thread, start and end in us; those of 400 us and more wait.
    fn wall(calls: &[(usize, i64, i64)]) -> Times {
        let (mut wall, mut threads) = (Wall::default(), vec![InPiece::default(); 8]);
        for &(thread, start, end) in calls {
            let id = ThreadId::new(thread).unwrap();
            let call = syscalls::find(b"read").unwrap();
            let mut event = Event::new(id, call, start * 1000, Outcome::Returned(1));
            event.duration_ns = Some((end - start) as u64 * 1000);
            wall.add(
                &event,
                end - start >= 400,
                &mut threads[thread],
                &Cost::of(Some(&CALIBRATION)),
                Slower::default(),
            );
        }
        wall.times(true)
    }

    fn close(times: Times, [recorded, low, corrected, high]: [f64; 4]) {
        let found = [
            times.recorded_s,
            times.low_s.unwrap(),
            times.corrected_s.unwrap(),
            times.high_s.unwrap(),
        ];
        for (found, wanted) in found.iter().zip([recorded, low, corrected, high]) {
            assert!((found - wanted).abs() < 1e-9, "{times:?}");
        }
    }

    #[test]
    fn a_call_never_takes_less_than_nothing() {
        let spent = Spent::new(7_000, &Cost::of(Some(&CALIBRATION)), Slower::default());
        assert_eq!(
            (spent.recorded, spent.low, spent.corrected, spent.high),
            (7_000, 0, 1_000, 2_000)
        );
        assert_eq!(spent.times(false).corrected_s, None);
    }

    #[test]
    fn one_thread_loses_the_time_of_all_its_calls() {
        let calls: Vec<_> = (0..100).map(|n| (0, n * 1000, n * 1000 + 10)).collect();
        close(wall(&calls), [0.09901, 0.09501, 0.09601, 0.09701]);
    }

    /// Beside each other they lose it together, if strace lets them; taking turns, one after the
    /// other.
    #[test]
    fn threads_beside_each_other_and_in_turns() {
        let beside: Vec<_> = (0..100)
            .flat_map(|n| [(0, n * 1000, n * 1000 + 10), (1, n * 1000, n * 1000 + 10)])
            .collect();
        close(wall(&beside), [0.09901, 0.09101, 0.09601, 0.09701]);
        let turns: Vec<_> = (0..200)
            .map(|n| (n as usize / 20 % 2, n * 1000, n * 1000 + 10))
            .collect();
        close(wall(&turns), [0.19901, 0.19101, 0.19301, 0.19501]);
    }

    /// As with Python's lock: one computes for 0.5 ms while the other one waits for it to end. The
    /// upper end supposes that it does not.
    #[test]
    fn threads_that_take_turns_within_a_piece_lose_one_after_the_other() {
        let turns: Vec<_> = (0..200)
            .map(|n| (n as usize % 2, n * 500, n * 500 + 500))
            .collect();
        // Of 30 us a call, 6 pass while its thread waits, but for the last one, which is alone in
        // its piece.
        close(wall(&turns), [0.1, 0.092, 0.095_194, 0.09798]);
    }
}
