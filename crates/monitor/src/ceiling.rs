//! Ceilings of memory: rules that stop a run when a service needs more memory than permitted,
//! before its host has none left. The monitor checks them, because it has the values.

use plimsoll_model::{Ceiling, Reading};
use plimsoll_record::Sample;

/// Checks the ceilings of memory of a run.
pub(crate) struct MemoryCeilings(Vec<Rule>);

struct Rule {
    ceiling: Ceiling,
    /// Component and metric of the samples.
    component: String,
    metric: &'static str,
    /// The last value. The memory in which each page counts once is not read every second.
    last: Option<f64>,
    /// Number of seconds in a row in which the value was above the limit.
    held: u32,
}

impl MemoryCeilings {
    /// The rules on memory among all `ceilings`.
    pub(crate) fn new(ceilings: &[Ceiling]) -> Self {
        let rule = |ceiling: &Ceiling| {
            let metric = match ceiling.reading {
                Reading::Memory => "memory.rss",
                Reading::OwnMemory => "memory.own",
                _ => return None,
            };
            Some(Rule {
                component: format!("service:{}", ceiling.component.as_deref()?),
                ceiling: ceiling.clone(),
                metric,
                last: None,
                held: 0,
            })
        };
        Self(ceilings.iter().filter_map(rule).collect())
    }

    /// Adds the readings of one second. Returns the reason to stop, if there is one: once per rule.
    pub(crate) fn add(&mut self, samples: &[Sample]) -> Option<String> {
        let mut reason = None;
        for rule in &mut self.0 {
            let mut own = samples.iter().filter(|row| *row.component == *rule.component);
            let is_running = own.clone().next().is_some();
            rule.last = own
                .find(|row| row.metric == rule.metric)
                .map(|row| row.value)
                .or(rule.last.filter(|_| is_running));
            let Some(value) = rule.last.filter(|&value| value > rule.ceiling.above) else {
                rule.held = 0;
                continue;
            };
            rule.held = rule.held.saturating_add(1);
            if rule.held == rule.ceiling.for_seconds.max(1) && reason.is_none() {
                let seconds = if rule.held == 1 { "second" } else { "seconds" };
                reason = Some(format!(
                    "{} held for {} {seconds}: {} is above {}",
                    rule.ceiling.text,
                    rule.held,
                    size(value),
                    size(rule.ceiling.above)
                ));
            }
        }
        reason
    }
}

/// A number of bytes in the unit that fits.
fn size(bytes: f64) -> String {
    match bytes {
        _ if bytes >= 1e9 => format!("{:.3} GB", bytes / 1e9),
        _ if bytes >= 1e6 => format!("{:.1} MB", bytes / 1e6),
        _ => format!("{:.1} kB", bytes / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ceilings(reading: Reading, for_seconds: u32) -> MemoryCeilings {
        MemoryCeilings::new(&[Ceiling {
            reading,
            component: Some("store".into()),
            above: 2e9,
            for_seconds,
            text: "memory.store: avg>2GB".into(),
        }])
    }

    fn second(component: &str, rows: &[(&'static str, f64)]) -> Vec<Sample> {
        rows.iter()
            .map(|&(metric, value)| Sample {
                t_ns: 0,
                component: component.into(),
                metric,
                part: "".into(),
                value,
            })
            .collect()
    }

    #[test]
    fn a_service_above_its_ceiling_is_reported_once() {
        let mut rules = ceilings(Reading::Memory, 2);
        let above = second("service:store", &[("processes", 5.0), ("memory.rss", 2.0312e9)]);
        let below = second("service:store", &[("processes", 5.0), ("memory.rss", 2e9)]);
        for (rows, is_reason) in [
            (&above, false),
            (&below, false),
            (&above, false),
            (&above, true),
            (&above, false),
        ] {
            let reason = rules.add(rows);
            assert_eq!(reason.is_some(), is_reason);
            if let Some(text) = reason {
                let expected = "memory.store: avg>2GB held for 2 seconds: 2.031 GB is above 2.000 GB";
                assert_eq!(text, expected);
            }
        }
        assert_eq!(rules.add(&second("service:other", &[("memory.rss", 9e9)])), None);
    }

    #[test]
    fn memory_that_is_not_read_every_second_keeps_its_value() {
        let mut rules = ceilings(Reading::OwnMemory, 3);
        let running = second("service:store", &[("memory.rss", 9e9)]);
        assert_eq!(rules.add(&second("service:store", &[("memory.own", 3e9)])), None);
        assert_eq!(rules.add(&running), None);
        assert!(rules.add(&running).is_some());
        // The service has ended.
        assert_eq!(rules.add(&[]), None);
        assert!(rules.0[0].last.is_none() && rules.0[0].held == 0);
    }

    #[test]
    fn other_ceilings_are_left_to_the_controller() {
        assert!(ceilings(Reading::Throughput, 1).0.is_empty());
    }
}
