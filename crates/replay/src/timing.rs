//! When an action is done: think times, and what of recorded times is the cost of tracing.
//!
//! Pure; `pace` has the clocks.

pub mod pace;

use plimsoll_trace::header::Calibration;
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

/// One of three guesses at what tracing cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guess {
    /// The median.
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

/// What tracing cost a call, by each [`Guess`]: ns.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    /// Outside of the recorded duration.
    gap_ns: [f64; 3],
    /// Within it.
    duration_ns: [f64; 3],
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
    /// Time to sleep after that, as far as it has not passed while computing waited for a processor.
    pub waiting_ns: u64,
}

impl Cost {
    /// As it was measured; nothing where it was not.
    pub fn of(calibration: Option<&Calibration>) -> Self {
        let Some(found) = calibration else {
            return Self::default();
        };
        let mut cost = Self::default();
        for (place, (call, duration)) in found.call_ns.into_iter().zip(found.duration_ns).enumerate() {
            cost.duration_ns[place] = duration.max(0.0);
            cost.gap_ns[place] = (call - duration).max(0.0);
        }
        cost
    }

    /// The time before an action, without the cost of tracing.
    pub fn think(&self, action: &Action, guess: Guess) -> Think {
        Think {
            computing_ns: less(action.computing_ns, self.of_gap(action, guess)),
            waiting_ns: action.waiting_ns,
        }
    }

    /// How long the call took, without the cost of tracing, ns.
    pub fn duration(&self, action: &Action, guess: Guess) -> u64 {
        less(action.duration_ns, self.duration_ns[guess as usize])
    }

    /// What is subtracted from this action's times, and what cannot be.
    pub fn subtracted(&self, action: &Action, guess: Guess) -> Subtracted {
        let of_duration = self.duration_ns[guess as usize];
        let pairs = [
            (action.computing_ns, self.of_gap(action, guess)),
            (action.duration_ns, of_duration),
        ];
        let mut sum = Subtracted::default();
        for (time, cost) in pairs {
            let possible = cost.min(time as f64);
            sum.subtracted_ns += possible;
            sum.clipped_ns += cost - possible;
        }
        sum
    }

    /// Every call costs its gap something; those that are folded into the gap cost it their durations' share, too.
    fn of_gap(&self, action: &Action, guess: Guess) -> f64 {
        let folded = f64::from(action.folded);
        let at = guess as usize;
        self.gap_ns[at] * (folded + 1.0) + self.duration_ns[at] * folded
    }
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
        let think = |guess| cost().think(&action, guess).computing_ns;
        assert_eq!(Guess::ALL.map(think), [80_000, 84_000, 72_000]);
        assert_eq!(cost().duration(&action, Guess::Middle), 5_000);
        assert_eq!(cost().think(&action, Guess::Middle).waiting_ns, 7);
        let short = self::action(12_000, 4_000, 0);
        assert_eq!(cost().think(&short, Guess::Middle).computing_ns, 0);
        let found = cost().subtracted(&short, Guess::Middle);
        assert_eq!((found.subtracted_ns, found.clipped_ns), (16_000.0, 14_000.0));
    }

    #[test]
    fn calls_that_are_folded_cost_all_of_theirs() {
        let action = action(200_000, 0, 3);
        let think = cost().think(&action, Guess::Middle);
        assert_eq!(think.computing_ns, 200_000 - 4 * 20_000 - 3 * 10_000);
    }

    #[test]
    fn without_calibration_nothing_is_subtracted() {
        let action = action(5, 6, 7);
        let cost = Cost::of(None);
        assert_eq!(cost.think(&action, Guess::High).computing_ns, 5);
        assert_eq!(cost.duration(&action, Guess::High), 6);
        assert_eq!(scaled(10, 0.4), 4);
    }
}
