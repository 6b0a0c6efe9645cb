//! Times without the tracing cost.

use super::json::Times;
use crate::cost::{Cost, Debt, Guess, Slower};
use crate::event::Event;

/// A time or a sum of times, ns: as recorded, and minus the greatest, the median and the smallest
/// likely tracing cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TracedTime {
    pub(super) recorded: u64,
    pub(super) low: u64,
    pub(super) corrected: u64,
    pub(super) high: u64,
}

impl TracedTime {
    /// A recorded duration minus the cost of one call, at least 0.
    pub(super) fn new(recorded_ns: u64, cost: &Cost, slower: Slower) -> Self {
        let without = |guess| recorded_ns.saturating_sub(cost.duration(slower, guess) as u64);
        Self {
            recorded: recorded_ns,
            low: without(Guess::High),
            corrected: without(Guess::Middle),
            high: without(Guess::Low),
        }
    }

    /// Adds another time.
    pub(super) fn add(&mut self, other: &Self) {
        self.recorded = self.recorded.saturating_add(other.recorded);
        self.low = self.low.saturating_add(other.low);
        self.corrected = self.corrected.saturating_add(other.corrected);
        self.high = self.high.saturating_add(other.high);
    }

    /// The times in seconds; without corrected values if there is no calibration.
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

/// Length of a piece in which the tracing cost is summed up, ns. It is short, because processes
/// that wait for each other take turns in longer times. It is long enough for a few hundred calls
/// under strace.
const PIECE_NS: i64 = 10_000_000;

/// The duration of a run, with and without tracing.
///
/// Tracing stops the thread that makes a call. Threads that run in parallel lose that time
/// together, threads that take turns lose it one after the other. So the run is divided into pieces
/// of [`PIECE_NS`], by the ends of calls. In each piece, the delay of the run is the cost of all
/// threads divided by the mean number of threads that ran at the same time, without waiting ones,
/// but at least the cost of the thread with the greatest cost. The delay of the run is the sum over
/// the pieces. The upper end of the range uses only the thread with the greatest cost. The lower
/// end uses the high estimate of all calls: a recorder that serves one thread after the other, as
/// strace does, delays the run by all of them in the worst case. The cost of a call does not exceed
/// the elapsed time (see [`Debt`]).
#[derive(Debug, Clone, Default)]
pub(super) struct Wall {
    first_ns: Option<i64>,
    last_ns: i64,
    piece: i64,
    /// End of the last call of the previous piece; None in the first piece.
    piece_before_ns: Option<i64>,
    most_in_piece: [f64; 3],
    /// Sum over all threads, best estimate, ns.
    sum_in_piece: f64,
    /// Time for which threads ran in the piece and did not wait, summed over all threads, ns.
    ran_in_piece: i64,
    /// Sum over the previous pieces, ns, by [`Guess`].
    critical: [f64; 3],
    /// Sum over all calls, ns, by [`Guess`].
    all: [f64; 3],
    calls: u64,
}

/// The tracing cost of a thread in the current piece.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ThreadPiece {
    piece: i64,
    /// ns, by [`Guess`].
    cost: [f64; 3],
    debts: [Debt; 3],
    /// End of its last call.
    end: Option<i64>,
}

impl Wall {
    /// Adds a call that has ended. If `is_waiting`, it waited all the time. `thread` is the state
    /// of its thread.
    pub(super) fn add(
        &mut self,
        event: &Event,
        is_waiting: bool,
        thread: &mut ThreadPiece,
        cost_of: &Cost,
        slower: Slower,
    ) {
        let end = event.end_ns();
        // Calls are added in the order of their ends; a late one counts in the current piece.
        let piece = end.div_euclid(PIECE_NS);
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
        let run = if is_waiting { event.start_ns } else { end };
        let ran = run.saturating_sub(before.max(self.piece_start_ns())).max(0);
        self.ran_in_piece = self.ran_in_piece.saturating_add(ran);
        thread.end = Some(end.max(before));
        for (index, guess) in Guess::ALL.into_iter().enumerate() {
            let cost = thread.debts[index].take(cost_of.call(slower, guess), passed as f64);
            thread.cost[index] += cost;
            self.most_in_piece[index] = self.most_in_piece[index].max(thread.cost[index]);
            self.all[index] += cost;
            if guess == Guess::Middle {
                // During a wait, the tracing cost of the call itself passes, too.
                let hidden = if is_waiting {
                    cost_of.duration(slower, guess)
                } else {
                    0.0
                };
                self.sum_in_piece += (cost - hidden).max(0.0);
            }
        }
        self.calls += 1;
    }

    /// Start of the current piece, ns.
    fn piece_start_ns(&self) -> i64 {
        self.piece_before_ns.or(self.first_ns).unwrap_or(0)
    }

    fn end_piece(&mut self) {
        let mut lost = std::mem::take(&mut self.most_in_piece);
        let lasted = self.last_ns.saturating_sub(self.piece_start_ns()).max(1) as f64;
        self.piece_before_ns = self.first_ns.and(Some(self.last_ns));
        let at_a_time = (std::mem::take(&mut self.ran_in_piece) as f64 / lasted).max(1.0);
        let middle = &mut lost[Guess::Middle as usize];
        *middle = middle.max(std::mem::take(&mut self.sum_in_piece) / at_a_time);
        for (sum, lost) in self.critical.iter_mut().zip(lost) {
            *sum += lost;
        }
    }

    /// Start of the first call and end of the last one, ns; None without calls.
    pub(super) fn ends_ns(&self) -> Option<(i64, i64)> {
        self.first_ns.map(|first| (first, self.last_ns))
    }

    /// Mean tracing cost of a call, s, by [`Guess`]. None without calls.
    pub(super) fn cost_of_a_call(&self) -> Option<[f64; 3]> {
        (self.calls > 0).then(|| self.all.map(|ns| ns * 1e-9 / self.calls as f64))
    }

    /// The time from the start of the first call to the end of the last one.
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

    /// `calls` are thread, start and end in us; calls of at least 400 us wait.
    fn wall(calls: &[(usize, i64, i64)]) -> Times {
        let (mut wall, mut threads) = (Wall::default(), vec![ThreadPiece::default(); 8]);
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
        for (found, expected) in found.iter().zip([recorded, low, corrected, high]) {
            assert!((found - expected).abs() < 1e-9, "{times:?}");
        }
    }

    #[test]
    fn a_corrected_duration_is_not_negative() {
        let spent = TracedTime::new(7_000, &Cost::of(Some(&CALIBRATION)), Slower::default());
        assert_eq!(
            (spent.recorded, spent.low, spent.corrected, spent.high),
            (7_000, 0, 1_000, 2_000)
        );
        assert_eq!(spent.times(false).corrected_s, None);
    }

    #[test]
    fn the_delay_of_one_thread_is_the_cost_of_all_its_calls() {
        let calls: Vec<_> = (0..100).map(|n| (0, n * 1000, n * 1000 + 10)).collect();
        close(wall(&calls), [0.09901, 0.09501, 0.09601, 0.09701]);
    }

    /// Threads in parallel lose the time together, if strace allows it; threads that take turns
    /// lose it one after the other.
    #[test]
    fn parallel_threads_share_the_delay_and_alternating_ones_do_not() {
        let beside: Vec<_> = (0..100)
            .flat_map(|n| [(0, n * 1000, n * 1000 + 10), (1, n * 1000, n * 1000 + 10)])
            .collect();
        close(wall(&beside), [0.09901, 0.09101, 0.09601, 0.09701]);
        let turns: Vec<_> = (0..200)
            .map(|n| (n as usize / 20 % 2, n * 1000, n * 1000 + 10))
            .collect();
        close(wall(&turns), [0.19901, 0.19101, 0.19301, 0.19501]);
    }

    /// As with the lock of Python: one thread computes for 0.5 ms while the other one waits for it.
    /// The upper end assumes that it does not wait.
    #[test]
    fn delays_of_threads_that_alternate_within_a_piece_add_up() {
        let turns: Vec<_> = (0..200)
            .map(|n| (n as usize % 2, n * 500, n * 500 + 500))
            .collect();
        // Of 30 us per call, 6 us pass while its thread waits, except for the last call, which is
        // alone in its piece.
        close(wall(&turns), [0.1, 0.092, 0.095_194, 0.09798]);
    }
}
