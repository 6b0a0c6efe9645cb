//! Metrics that a server reports in the header of its responses.

use plimsoll_model::{Code, Codes};

use super::error::HttpError;
use super::is_token_byte;

/// Maximum number of metrics.
const MAX_METRICS: usize = 16;
/// Maximum number of fields of a head. The parser of the connection accepts no more.
const MAX_FIELDS: usize = 128;

/// Names of metrics, with the fields of the header from which they are read.
pub(super) struct HeaderMetrics(Vec<(Code, String)>);

impl HeaderMetrics {
    pub(super) fn new(metrics: &[(String, String)], codes: &Codes) -> Result<Self, HttpError> {
        if metrics.len() > MAX_METRICS {
            return Err(HttpError::TooManyMetrics(metrics.len()));
        }
        let metrics = metrics.iter().map(|(name, field)| {
            if field.is_empty() || !field.bytes().all(is_token_byte) {
                return Err(HttpError::MetricField(field.clone()));
            }
            Ok((codes.number(name), field.clone()))
        });
        metrics.collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends the values in a head. A field that is absent or no finite number has no value.
    pub(super) fn read(&self, head: &[u8], values: &mut Vec<(Code, f64)>) {
        if self.0.is_empty() {
            return;
        }
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        if response.parse(head).is_err() {
            return;
        }
        for (name, field) in &self.0 {
            let found = response
                .headers
                .iter()
                .find(|header| header.name.eq_ignore_ascii_case(field));
            let value = found
                .and_then(|header| std::str::from_utf8(header.value).ok())
                .and_then(|text| text.trim().parse::<f64>().ok())
                .filter(|value| value.is_finite());
            values.extend(value.map(|value| (*name, value)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_in_named_fields_are_metrics() {
        let named = |fields: &[&str]| -> Vec<(String, String)> {
            let metric = |field: &&str| (format!("of {field}"), (*field).to_owned());
            fields.iter().map(metric).collect()
        };
        let codes = Codes::default();
        let metrics = HeaderMetrics::new(&named(&["X-A", "x-b", "X-C", "X-D", "X-E"]), &codes).unwrap();
        let mut values = Vec::new();
        metrics.read(
            b"HTTP/1.1 200 OK\r\nx-a: 0.5 \r\nX-B: -3\r\nX-C: fast\r\nX-D: inf\r\nX-F: 1\r\n\r\n",
            &mut values,
        );
        assert_eq!(
            values,
            [(codes.number("of X-A"), 0.5), (codes.number("of x-b"), -3.0)]
        );
        metrics.read(b"", &mut values);
        metrics.read(b"not HTTP", &mut values);
        assert_eq!(values.len(), 2);
        for fields in [vec!["a b"], vec![""], vec!["a"; 17]] {
            assert!(HeaderMetrics::new(&named(&fields), &codes).is_err(), "{fields:?}");
        }
    }
}
