//! Findings: noteworthy properties of a profile, as text.
//!
//! Each rule has a kind, which identifies it for programs, and thresholds, whose reasons are
//! documented at the rule. A rule about files reports at most [`PER_KIND`] of them, those with the
//! greatest weight.

mod of_files;
mod of_run;
mod words;

pub(super) use of_files::mapped_text;
pub(super) use words::grouped;

use std::collections::BTreeMap;

use super::json::{FileProfile, Finding, Profile};

/// Maximum number of files that a rule reports. The list of files contains the others.
pub const PER_KIND: usize = 3;

/// All findings: first those about the run, then those about files, in the order of the rules.
pub fn findings(profile: &Profile) -> Vec<Finding> {
    let mut findings: Vec<Finding> = of_run::RULES.iter().filter_map(|rule| rule(profile)).collect();
    for rule in of_files::RULES {
        let mut of_rule: Vec<WeightedFinding> = profile
            .files
            .iter()
            .filter_map(|file| rule(file, profile))
            .collect();
        of_rule.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        findings.extend(
            of_rule
                .into_iter()
                .take(PER_KIND)
                .map(|weighted| weighted.finding),
        );
    }
    findings
}

/// A finding with its weight among those of the same rule.
struct WeightedFinding {
    weight: f64,
    finding: Finding,
}

impl WeightedFinding {
    fn about(file: &FileProfile, kind: &str, weight: f64, numbers: &[(&str, f64)], text: String) -> Self {
        let finding = Finding {
            file: Some(file.path.clone()),
            ..finding(kind, numbers, text)
        };
        Self { weight, finding }
    }
}

fn finding(kind: &str, numbers: &[(&str, f64)], text: String) -> Finding {
    let numbers = numbers.iter().map(|&(name, number)| (name.to_owned(), number));
    Finding {
        kind: kind.to_owned(),
        file: None,
        numbers: numbers.collect::<BTreeMap<_, _>>(),
        text,
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}
