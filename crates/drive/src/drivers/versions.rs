//! Versions of what is written and read, so that the age of what readers get can be told: metrics
//! `object` and `version`.
//!
//! `object` is the number that the request's text for it gives. `version` is, of a request that
//! reads, the greatest whole number in a column of a good answer; of one that writes, the very
//! number in its query, also where the transaction failed: it may have been committed. A metric is
//! a float of 64 bits: where one of the two is no whole number below 2^53, which it holds exactly,
//! both are left out.

use plimsoll_model::Code;
use plimsoll_schedule::{Fill, Template};
use serde::Deserialize;

use crate::driver::{Attempt, Setup};

/// Below this, a float of 64 bits holds every whole number.
const EXACT: u64 = 1 << 53;

/// Of a request: exactly one of `column` and `written`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VersionSettings {
    object: String,
    column: Option<String>,
    written: Option<String>,
}

/// The versions of an operation.
pub(super) struct Versions {
    object: Template,
    source: Source,
    names: Names,
}

enum Source {
    Column(String),
    Written(Template),
}

/// Names of metrics.
struct Names {
    object: Code,
    version: Code,
}

impl Versions {
    /// Of operation `index`; none where its request has none.
    pub(super) fn new(
        setup: &Setup<'_>,
        index: usize,
        settings: Option<&VersionSettings>,
    ) -> Result<Option<Self>, String> {
        let Some(settings) = settings else {
            return Ok(None);
        };
        let source = match (&settings.column, &settings.written) {
            (Some(column), None) => Source::Column(column.clone()),
            (None, Some(text)) => Source::Written(setup.template(index, text)),
            _ => {
                let why = "exactly one of column (of a request that reads) and written (of one that writes)";
                return Err(format!("version of operation {index}: give {why}"));
            }
        };
        Ok(Some(Self {
            object: setup.template(index, &settings.object),
            source,
            names: Names {
                object: setup.codes.number("object"),
                version: setup.codes.number("version"),
            },
        }))
    }

    /// The column that holds them, of a request that reads.
    pub(super) fn column(&self) -> Option<&str> {
        match &self.source {
            Source::Column(name) => Some(name),
            Source::Written(_) => None,
        }
    }

    /// Before the start: notes what a request writes.
    pub(super) fn note_written(&self, fill: &Fill<'_>, attempt: &mut Attempt) {
        if let Source::Written(template) = &self.source {
            let version = number(template, fill);
            self.note(fill, version, attempt);
        }
    }

    /// After a good answer: notes the newest version that was read.
    pub(super) fn note_read(&self, fill: &Fill<'_>, newest: Option<i64>, attempt: &mut Attempt) {
        self.note(fill, newest, attempt);
    }

    fn note(&self, fill: &Fill<'_>, version: Option<i64>, attempt: &mut Attempt) {
        let object = number(&self.object, fill).and_then(exact);
        if let (Some(object), Some(version)) = (object, version.and_then(exact)) {
            attempt.metrics.push((self.names.object, object));
            attempt.metrics.push((self.names.version, version));
        }
    }
}

fn number(template: &Template, fill: &Fill<'_>) -> Option<i64> {
    let mut text = Vec::new();
    template.fill(fill, &mut text);
    whole(&text)
}

fn whole(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn exact(number: i64) -> Option<f64> {
    (number.unsigned_abs() < EXACT).then_some(number as f64)
}

/// Finds the greatest whole number of a column while the rows of a result go by.
pub(super) struct Newest<'a> {
    column: &'a str,
    at: Option<usize>,
    found: Option<i64>,
}

impl<'a> Newest<'a> {
    pub(super) fn of(column: &'a str) -> Self {
        Self {
            column,
            at: None,
            found: None,
        }
    }

    /// A result begins: the place of its column.
    pub(super) fn columns<'b>(&mut self, mut names: impl Iterator<Item = &'b str>) {
        self.at = names.position(|name| name.eq_ignore_ascii_case(self.column));
    }

    /// Where its column stands in each row, if it is there.
    pub(super) fn at(&self) -> Option<usize> {
        self.at
    }

    /// Takes a value of its column as text.
    pub(super) fn text(&mut self, text: &[u8]) {
        self.found = self.found.max(whole(text));
    }

    /// Takes a value of its column.
    pub(super) fn number(&mut self, number: i64) {
        self.found = self.found.max(Some(number));
    }

    pub(super) fn found(&self) -> Option<i64> {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_the_greatest_whole_number_of_its_column() {
        let mut newest = Newest::of("version");
        newest.columns(["id", "VERSION", "version"].into_iter());
        assert_eq!((newest.at(), newest.found()), (Some(1), None));
        for text in ["x", "", "7", "-9", "007", "1.5"] {
            newest.text(text.as_bytes());
        }
        assert_eq!(newest.found(), Some(7));
        newest.number(8);
        newest.columns(["id"].into_iter());
        assert_eq!((newest.at(), newest.found()), (None, Some(8)));
    }

    #[test]
    fn what_a_float_does_not_hold_is_left_out() {
        let greatest = EXACT as i64 - 1;
        assert_eq!(exact(greatest).map(|float| float as i64), Some(greatest));
        assert_eq!(exact(-greatest).map(|float| float as i64), Some(-greatest));
        assert_eq!((exact(greatest + 1), exact(i64::MIN)), (None, None));
    }
}
