//! The ceilings, rules that stop a run: a reading is above its limit for a number of consecutive
//! seconds.

use plimsoll_model::{Ceiling, Counters, Reading, grouped};
use plimsoll_record::Times;

/// Checks all ceilings of a run.
#[derive(Debug)]
pub(crate) struct CeilingWatch {
    rules: Vec<(Ceiling, u32)>,
}

impl CeilingWatch {
    pub(crate) fn new(rules: &[Ceiling]) -> Self {
        Self {
            rules: rules.iter().map(|rule| (rule.clone(), 0)).collect(),
        }
    }

    /// Adds one second of all agents. Returns the reason to stop, if there is one. A second without
    /// a value of the reading (no transaction ended, none succeeded) ends the sequence of seconds.
    pub(crate) fn second(&mut self, counters: &Counters, times: &Times) -> Option<String> {
        let mut reason = None;
        for (rule, held) in &mut self.rules {
            match reading(rule.reading, counters, times) {
                Some(value) if value > rule.above => {
                    *held += 1;
                    if *held >= rule.for_seconds.max(1) && reason.is_none() {
                        let seconds = if *held == 1 {
                            "1 second".into()
                        } else {
                            format!("{held} seconds")
                        };
                        reason = Some(format!(
                            "{} held for {seconds}: {} is above {}",
                            rule.text,
                            shown(value),
                            rule.above
                        ));
                    }
                }
                _ => *held = 0,
            }
        }
        reason
    }
}

/// A value of a reading with four decimals, or with separators from 1,000 on.
fn shown(value: f64) -> String {
    if value < 1000.0 {
        format!("{value:.4}")
    } else {
        grouped(value.round() as u64)
    }
}

fn reading(reading: Reading, counters: &Counters, times: &Times) -> Option<f64> {
    let quantile = |q: f64| times.quantile_ns(q).map(|ns| ns as f64 / 1e9);
    let ended = counters.succeeded + counters.failed;
    match reading {
        Reading::ErrorRate => (ended > 0).then(|| counters.failed as f64 / ended as f64),
        Reading::ResponseP50 => quantile(0.50),
        Reading::ResponseP95 => quantile(0.95),
        Reading::ResponseP99 => quantile(0.99),
        Reading::Throughput => Some(counters.succeeded as f64),
        // The monitor of the service's host checks these.
        Reading::Memory | Reading::OwnMemory => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(reading: Reading, above: f64, for_seconds: u32) -> CeilingWatch {
        CeilingWatch::new(&[Ceiling {
            reading,
            component: None,
            above,
            for_seconds,
            text: "errors: rate>10%".into(),
        }])
    }

    fn counters(succeeded: u64, failed: u64) -> Counters {
        Counters {
            succeeded,
            failed,
            ..Counters::default()
        }
    }

    #[test]
    fn a_rule_holds_after_consecutive_seconds() {
        let mut watch = watch(Reading::ErrorRate, 0.1, 3);
        let none = Times::default();
        let rows = [(8, 2), (8, 2), (10, 0), (8, 2), (8, 2), (0, 0), (0, 9), (5, 5)];
        for (succeeded, failed) in rows {
            assert_eq!(watch.second(&counters(succeeded, failed), &none), None);
        }
        let reason = watch.second(&counters(1, 1), &none).unwrap();
        assert!(
            reason.contains("rate>10%") && reason.contains("3 seconds"),
            "{reason}"
        );
    }

    #[test]
    fn limits_of_times_are_in_seconds() {
        let mut times = Times::default();
        (0..100).for_each(|_| times.record(2_000_000_000));
        assert!(
            watch(Reading::ResponseP99, 1.9, 1)
                .second(&counters(100, 0), &times)
                .is_some()
        );
        assert!(
            watch(Reading::ResponseP99, 2.1, 1)
                .second(&counters(100, 0), &times)
                .is_none()
        );
        assert!(
            watch(Reading::ResponseP50, 0.0, 1)
                .second(&counters(0, 0), &Times::default())
                .is_none()
        );
        assert!(
            watch(Reading::Throughput, 99.0, 1)
                .second(&counters(100, 0), &times)
                .is_some()
        );
    }
}
