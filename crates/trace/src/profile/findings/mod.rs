//! What of a profile is worth a look, in words.
//!
//! Each rule has a kind, which is what a program goes by, and thresholds, which stand with their
//! reasons at the rule. A rule about files tells of at most [`PER_KIND`] of them, those where it
//! weighs most.

mod of_files;
mod of_run;
mod words;

pub(super) use of_files::mapped_text;
pub(super) use words::grouped;

use std::collections::BTreeMap;

use super::json::{FileProfile, Finding, Profile};

/// Files that are told of by one rule; the list of files has the others.
pub const PER_KIND: usize = 3;

/// All findings: those about the run first, then those about files, by the rules in their order.
pub fn findings(profile: &Profile) -> Vec<Finding> {
    let mut found: Vec<Finding> = of_run::RULES.iter().filter_map(|rule| rule(profile)).collect();
    for rule in of_files::RULES {
        let mut of_rule: Vec<Weighed> = profile
            .files
            .iter()
            .filter_map(|file| rule(file, profile))
            .collect();
        of_rule.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        found.extend(of_rule.into_iter().take(PER_KIND).map(|weighed| weighed.finding));
    }
    found
}

/// How much a finding is in comparison with others of its kind.
struct Weighed {
    weight: f64,
    finding: Finding,
}

impl Weighed {
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
