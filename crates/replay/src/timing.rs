//! The times of actions: think times, and the share of recorded times that is the cost of tracing.
//!
//! Pure, except `pace`, which reads the clocks.

pub mod pace;

use plimsoll_trace::cost::{Cost, Debt, Guess};
use serde::{Deserialize, Serialize};

use crate::action::Action;

/// Timing of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timing {
    /// As fast as possible, without think times and sleeps.
    Afap,
    /// Every call as close as possible to its recorded start.
    Exact,
    /// With the recorded think times. Calls take their own time.
    Diff {
        /// Factor for computing times, at least 0: 0.5 for a processor that is twice as fast.
        scale: f64,
    },
}

/// Time that was subtracted from recorded times, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SubtractedTime {
    /// Sum over all threads, ns.
    pub subtracted_ns: f64,
    /// Time that could not be subtracted because the recorded time was shorter, ns.
    pub clipped_ns: f64,
}

/// Think time of a worker before an action, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Think {
    /// Processor time to consume.
    pub computing_ns: u64,
    /// Time to sleep after that, minus the time for which computing waited for a processor.
    pub waiting_ns: u64,
}

impl Think {
    /// The time before the next action of a worker, without the cost of tracing. `debt` is the debt
    /// of the worker.
    pub fn before(action: &Action, cost: &Cost, guess: Guess, debt: &mut Debt) -> Self {
        let taken = debt.take(of_gap(action, cost, guess), action.computing_ns as f64);
        Self {
            computing_ns: subtract(action.computing_ns, taken),
            waiting_ns: action.waiting_ns,
        }
    }
}

/// Recorded duration of the call without the cost of tracing, ns.
pub fn duration(action: &Action, cost: &Cost, guess: Guess) -> u64 {
    subtract(action.duration_ns, cost.duration(action.slower, guess))
}

/// The time that is subtracted from the times of a worker's actions, and the time that cannot be.
pub fn subtracted(actions: &[Action], cost: &Cost, guess: Guess) -> SubtractedTime {
    let (mut sum, mut debt) = (SubtractedTime::default(), Debt::default());
    for action in actions {
        let of_gap = of_gap(action, cost, guess);
        let of_duration = cost.duration(action.slower, guess);
        let taken =
            debt.take(of_gap, action.computing_ns as f64) + debt.take(of_duration, action.duration_ns as f64);
        sum.subtracted_ns += taken;
        sum.clipped_ns += of_gap + of_duration - taken;
    }
    sum
}

/// The cost of tracing in the gap before an action. Every call adds to the cost of its gap. Calls
/// that are folded into the gap also add the cost of their durations. They were made shortly
/// before, when tracing was equally slow.
fn of_gap(action: &Action, cost: &Cost, guess: Guess) -> f64 {
    f64::from(action.folded) * cost.call(action.slower, guess) + cost.gap(action.slower, guess)
}

fn subtract(time: u64, cost: f64) -> u64 {
    (time as f64 - cost).max(0.0) as u64
}

/// Processor time multiplied by the scale of the timing, ns.
pub fn scaled(computing_ns: u64, scale: f64) -> u64 {
    (computing_ns as f64 * scale).max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use plimsoll_trace::header::Calibration;

    use super::*;
    use crate::action::{Operation, RecordedResult};

    fn action(computing_ns: u64, duration_ns: u64, folded: u32) -> Action {
        Action {
            computing_ns,
            duration_ns,
            folded,
            waiting_ns: 7,
            ..Action::new(Operation::Read, RecordedResult::unknown())
        }
    }

    fn cost() -> Cost {
        Cost::of(Some(&Calibration {
            call_ns: [30_000.0, 25_000.0, 40_000.0],
            duration_ns: [10_000.0, 9_000.0, 12_000.0],
            calls: 1000,
        }))
    }

    #[test]
    fn the_cost_of_tracing_is_subtracted_down_to_zero() {
        let action = action(100_000, 15_000, 0);
        let think = |guess| Think::before(&action, &cost(), guess, &mut Debt::default()).computing_ns;
        assert_eq!(Guess::ALL.map(think), [80_000, 84_000, 72_000]);
        assert_eq!(duration(&action, &cost(), Guess::Middle), 5_000);
        assert_eq!(
            Think::before(&action, &cost(), Guess::Middle, &mut Debt::default()).waiting_ns,
            7
        );
        let short = self::action(12_000, 4_000, 0);
        assert_eq!(
            Think::before(&short, &cost(), Guess::Middle, &mut Debt::default()).computing_ns,
            0
        );
        let subtracted_time = subtracted(&[short], &cost(), Guess::Middle);
        assert_eq!(
            (subtracted_time.subtracted_ns, subtracted_time.clipped_ns),
            (16_000.0, 14_000.0)
        );
    }

    #[test]
    fn folded_calls_add_their_whole_cost_to_the_gap() {
        let action = action(200_000, 0, 3);
        let think = Think::before(&action, &cost(), Guess::Middle, &mut Debt::default());
        assert_eq!(think.computing_ns, 200_000 - 4 * 20_000 - 3 * 10_000);
    }

    #[test]
    fn without_calibration_nothing_is_subtracted() {
        let action = action(5, 6, 7);
        let cost = Cost::of(None);
        assert_eq!(
            Think::before(&action, &cost, Guess::High, &mut Debt::default()).computing_ns,
            5
        );
        assert_eq!(duration(&action, &cost, Guess::High), 6);
        assert_eq!(scaled(10, 0.4), 4);
    }
}
