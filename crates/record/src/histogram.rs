//! Response times in an `HdrHistogram`. Histograms are merged by buckets, never by percentiles.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

/// Error of decoding a histogram, with the reason.
#[derive(Debug, thiserror::Error)]
#[error("not a V2 histogram in base64: {0}")]
pub struct NotAHistogram(String);

/// A histogram of durations in ns, precise to three significant digits.
#[derive(Debug, Clone)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        // Three digits is a valid precision (0 to 5), so the constructor cannot fail; an empty
        // default needs no panic path.
        Self(Histogram::new(3).unwrap_or_else(|_| unreachable!("3 significant digits are allowed")))
    }
}

impl Times {
    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Adds one duration, ns. A negative duration counts as 0.
    pub fn record(&mut self, ns: i64) {
        // The histogram resizes itself, so recording fails only above u64::MAX, which an i64 never
        // is.
        let _ = self.0.record(ns.max(0) as u64);
    }

    /// Adds a histogram in V2 encoding and base64. An empty text adds nothing.
    ///
    /// # Errors
    /// [`NotAHistogram`]: the text is invalid, and nothing was added.
    pub fn add_text(&mut self, text: &str) -> Result<(), NotAHistogram> {
        if text.is_empty() {
            return Ok(());
        }
        let bytes = STANDARD
            .decode(text)
            .map_err(|error| NotAHistogram(error.to_string()))?;
        let other: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| NotAHistogram(error.to_string()))?;
        self.0
            .add(other)
            .map_err(|error| NotAHistogram(error.to_string()))
    }

    /// The V2 encoding in base64; empty if there are no durations.
    pub fn to_text(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let mut bytes = Vec::new();
        match V2Serializer::new().serialize(&self.0, &mut bytes) {
            Ok(_) => STANDARD.encode(bytes),
            Err(_) => String::new(), // writing into a Vec does not fail
        }
    }

    /// The smallest recorded duration, ns, that at least a share `q` (0 to 1) of all durations does
    /// not exceed. None if the histogram is empty.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(q))
    }

    /// Removes all durations. The memory is kept.
    pub fn clear(&mut self) {
        self.0.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_texts_equal_one_histogram_of_all_durations() {
        let (mut all, mut left, mut right) = (Times::default(), Times::default(), Times::default());
        for n in 0..100_000_i64 {
            all.record(n * n);
            if n % 3 == 0 {
                left.record(n * n);
            } else {
                right.record(n * n);
            }
        }
        let mut merged = Times::default();
        merged.add_text(&left.to_text()).unwrap();
        merged.add_text(&right.to_text()).unwrap();
        merged.add_text("").unwrap();
        assert_eq!(merged.count(), 100_000);
        for q in [0.0, 0.5, 0.95, 0.999, 1.0] {
            assert_eq!(merged.quantile_ns(q), all.quantile_ns(q));
        }
        let p95 = all.quantile_ns(0.95).unwrap() as f64;
        assert!((p95 / (95_000.0_f64 * 95_000.0) - 1.0).abs() < 0.001, "{p95}");
    }

    #[test]
    fn an_invalid_text_is_an_error_and_adds_nothing() {
        let mut times = Times::default();
        for text in [
            "?",
            "AAAA",
            "HISTFAAAAAAA",
            &STANDARD.encode([0x1c, 0x84, 0x93, 0x13, 0xff, 0xff, 0xff, 0xff]),
        ] {
            assert!(times.add_text(text).is_err(), "{text}");
        }
        assert_eq!(times.count(), 0);
        assert_eq!(times.quantile_ns(0.5), None);
        assert_eq!(times.to_text(), "");
    }
}
