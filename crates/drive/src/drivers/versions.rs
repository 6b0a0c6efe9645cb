//! Versions of the objects that requests write and read, from which the age of what readers receive
//! is computed: metrics `object` and `version`.
//!
//! `object` is the number that the template for it produces. `version` is, for a request that
//! reads, the greatest integer in a column of a correct response; for a request that writes, the
//! number in its query, even if the transaction failed, because it may have been committed. A
//! metric is a float of 64 bits: if one of the two is not an integer below 2^53, which a float
//! represents exactly, both are omitted.

use plimsoll_model::Code;
use plimsoll_schedule::{Fill, Template};
use serde::Deserialize;

use crate::driver::{Attempt, Setup};
use crate::setup_error::SetupError;

/// A float of 64 bits represents every integer below this exactly.
const EXACT: u64 = 1 << 53;

/// The setting `version` of a request: exactly one of `column` and `written` is set.
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

/// Codes of the names of metrics.
struct Names {
    object: Code,
    version: Code,
}

impl Versions {
    /// The versions of operation `index`; none if its request has no such setting.
    pub(super) fn new(
        setup: &Setup<'_>,
        index: usize,
        settings: Option<&VersionSettings>,
    ) -> Result<Option<Self>, SetupError> {
        let Some(settings) = settings else {
            return Ok(None);
        };
        let source = match (&settings.column, &settings.written) {
            (Some(column), None) => Source::Column(column.clone()),
            (None, Some(text)) => Source::Written(setup.template(index, text)),
            _ => return Err(SetupError::VersionSource { operation: index }),
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

    /// The column of the versions, for a request that reads.
    pub(super) fn column(&self) -> Option<&str> {
        match &self.source {
            Source::Column(name) => Some(name),
            Source::Written(_) => None,
        }
    }

    /// Adds the metrics of a request that writes, before its start.
    pub(super) fn note_written(&self, fill: &Fill<'_>, attempt: &mut Attempt) {
        if let Source::Written(template) = &self.source {
            let version = number(template, fill);
            self.add_metrics(fill, version, attempt);
        }
    }

    /// Adds the metrics of a request that reads, after a correct response. `newest`: the newest
    /// version that was read.
    pub(super) fn note_read(&self, fill: &Fill<'_>, newest: Option<i64>, attempt: &mut Attempt) {
        self.add_metrics(fill, newest, attempt);
    }

    fn add_metrics(&self, fill: &Fill<'_>, version: Option<i64>, attempt: &mut Attempt) {
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
    integer(&text)
}

fn integer(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn exact(number: i64) -> Option<f64> {
    (number.unsigned_abs() < EXACT).then_some(number as f64)
}

/// Finds the greatest integer of a column while the rows of a result are read.
pub(super) struct Newest<'a> {
    column: &'a str,
    index: Option<usize>,
    version: Option<i64>,
}

impl<'a> Newest<'a> {
    pub(super) fn of(column: &'a str) -> Self {
        Self {
            column,
            index: None,
            version: None,
        }
    }

    /// Sets the names of the columns of a result that begins.
    pub(super) fn set_columns<'b>(&mut self, mut names: impl Iterator<Item = &'b str>) {
        self.index = names.position(|name| name.eq_ignore_ascii_case(self.column));
    }

    /// Index of the column in each row; none if the result does not have the column.
    pub(super) fn index(&self) -> Option<usize> {
        self.index
    }

    /// Adds a value of the column as text. A text that is not an integer is ignored.
    pub(super) fn add_text(&mut self, text: &[u8]) {
        self.version = self.version.max(integer(text));
    }

    /// Adds a value of the column.
    pub(super) fn add_number(&mut self, number: i64) {
        self.version = self.version.max(Some(number));
    }

    /// The greatest integer so far; none if there was none.
    pub(super) fn version(&self) -> Option<i64> {
        self.version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_the_greatest_integer_of_its_column() {
        let mut newest = Newest::of("version");
        newest.set_columns(["id", "VERSION", "version"].into_iter());
        assert_eq!((newest.index(), newest.version()), (Some(1), None));
        for text in ["x", "", "7", "-9", "007", "1.5"] {
            newest.add_text(text.as_bytes());
        }
        assert_eq!(newest.version(), Some(7));
        newest.add_number(8);
        newest.set_columns(["id"].into_iter());
        assert_eq!((newest.index(), newest.version()), (None, Some(8)));
    }

    #[test]
    fn numbers_that_a_float_does_not_represent_exactly_are_omitted() {
        let greatest = EXACT as i64 - 1;
        assert_eq!(exact(greatest).map(|float| float as i64), Some(greatest));
        assert_eq!(exact(-greatest).map(|float| float as i64), Some(-greatest));
        assert_eq!((exact(greatest + 1), exact(i64::MIN)), (None, None));
    }
}
