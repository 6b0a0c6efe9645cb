//! When an action is done: think times, and what of recorded times is the cost of tracing.
//!
//! Pure; `pace` has the clocks.

pub mod pace;

use plimsoll_trace::cost::{Cost, Debt, Guess};
use serde::{Deserialize, Serialize};

use crate::action::Action;

/// How fast a trace is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timing {
    /// As fast as possible: nobody thinks, nobody sleeps.
    Afap,
    /// Every call as close as possible to its recorded start.
    Exact,
    /// Think times are kept, calls take as long as they take here.
    Diff {
        /// What computing is multiplied by: 0.5 for a processor twice as fast. Not negative.
        scale: f64,
    },
}

/// What was subtracted from recorded times, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Subtracted {
    /// In all, of all threads.
    pub subtracted_ns: f64,
    /// What should have been, but the time was shorter than that.
    pub clipped_ns: f64,
}

/// What a worker does before an action, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Think {
    /// Processor time to burn.
    pub computing_ns: u64,
    /// Time to sleep after that, as far as it has not passed while computing waited for a
    /// processor.
    pub waiting_ns: u64,
}

impl Think {
    /// The time before the next action of a worker, without the cost of tracing; `debt` is the
    /// worker's.
    pub fn before(action: &Action, cost: &Cost, guess: Guess, debt: &mut Debt) -> Self {
        let taken = debt.take(of_gap(action, cost, guess), action.computing_ns as f64);
        Self {
            computing_ns: less(action.computing_ns, taken),
            waiting_ns: action.waiting_ns,
        }
    }
}

/// How long the call took, without the cost of tracing, ns.
pub fn duration(action: &Action, cost: &Cost, guess: Guess) -> u64 {
    less(action.duration_ns, cost.duration(action.slower, guess))
}

/// What is subtracted from the times of a worker's actions, and what cannot be.
pub fn subtracted(actions: &[Action], cost: &Cost, guess: Guess) -> Subtracted {
    let (mut sum, mut debt) = (Subtracted::default(), Debt::default());
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

/// Every call costs its gap something; those that are folded into the gap cost it their durations'
/// share, too. They were made shortly before, when tracing was as slow.
fn of_gap(action: &Action, cost: &Cost, guess: Guess) -> f64 {
    f64::from(action.folded) * cost.call(action.slower, guess) + cost.gap(action.slower, guess)
}

fn less(time: u64, cost: f64) -> u64 {
    (time as f64 - cost).max(0.0) as u64
}

/// Processor time times the scale of the timing, ns.
pub fn scaled(computing_ns: u64, scale: f64) -> u64 {
    (computing_ns as f64 * scale).max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use plimsoll_trace::header::Calibration;

    use super::*;
    use crate::action::{Operation, Recorded};

    fn action(computing_ns: u64, duration_ns: u64, folded: u32) -> Action {
        Action {
            computing_ns,
            duration_ns,
            folded,
            waiting_ns: 7,
            ..Action::new(Operation::Read, Recorded::unknown())
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
    fn tracing_is_subtracted_but_never_more_than_there_was() {
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
        let found = subtracted(&[short], &cost(), Guess::Middle);
        assert_eq!((found.subtracted_ns, found.clipped_ns), (16_000.0, 14_000.0));
    }

    #[test]
    fn calls_that_are_folded_cost_all_of_theirs() {
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
