//! Arrays as PL/pgSQL receives and returns them: text in the form `{1,2}` or `{"a","b"}`.

use std::fmt::Write as _;

use plimsoll_wire::catalogue::Status;

/// An array that is being written.
pub(super) struct Array(String);

impl Array {
    pub(super) fn new() -> Self {
        Self("{".into())
    }

    fn begin_element(&mut self) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
    }

    pub(super) fn push_int(&mut self, number: i64) {
        self.begin_element();
        // Writing to a String cannot fail.
        let _ = write!(self.0, "{number}");
    }

    pub(super) fn push_text(&mut self, text: &str) {
        self.begin_element();
        self.0.push('"');
        for character in text.chars() {
            if matches!(character, '"' | '\\') {
                self.0.push('\\');
            }
            self.0.push(character);
        }
        self.0.push('"');
    }

    pub(super) fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// The statuses in an array of numbers. None: it is not such an array, or NULL.
pub(super) fn statuses(array: &str) -> Option<Vec<Status>> {
    let elements = array.strip_prefix('{')?.strip_suffix('}')?;
    if elements.is_empty() {
        return Some(Vec::new());
    }
    let status = |number: &str| number.parse().ok().map(Status);
    elements.split(',').map(status).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted() {
        let mut texts = Array::new();
        for text in ["a", "", "{\"b\\,", "NULL"] {
            texts.push_text(text);
        }
        assert_eq!(texts.end(), r#"{"a","","{\"b\\,","NULL"}"#);
        let mut numbers = Array::new();
        assert_eq!(Array::new().end(), "{}");
        numbers.push_int(-5);
        numbers.push_int(7);
        assert_eq!(numbers.end(), "{-5,7}");
    }

    #[test]
    fn null_has_no_statuses() {
        assert_eq!(statuses("{0,17}"), Some(vec![Status::OK, Status::EXISTS]));
        assert_eq!(statuses("{}"), Some(Vec::new()));
        assert_eq!((statuses(""), statuses("{-1}")), (None, None));
    }
}
