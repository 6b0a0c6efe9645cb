//! Strings of a given compressibility: random bytes, then a filler.
//!
//! zlib saves at least about 18 % of printable text, because its 95 characters have 6.6 bits per
//! byte. Below 20 %, strings without a configured type are therefore random bytes of all values
//! except 0; from 20 % on they are printable. Such bytes are also text if the database accepts any
//! byte except 0 as a character, as does `PostgreSQL` with the encoding LATIN1.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Length of the sample for the calibration in bytes: eight windows of zlib.
const SAMPLE: usize = 256 * 1024;
/// Compressibility in percent below which strings are not printable.
const PRINTABLE_FROM: f64 = 20.0;

/// Generates strings: `random` random bytes on average, then the filler.
#[derive(Debug, Clone)]
pub(super) struct Strings {
    random: f64,
    letters: Letters,
    /// Whether the strings are text for the database.
    pub(super) text: bool,
    /// Share of the sample that zlib saves, in percent.
    pub(super) saved_percent: f64,
}

/// Values of the random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letters {
    Printable,
    AllButNul,
    All,
}

/// Required properties of strings.
#[derive(Debug, Clone, Copy)]
pub(super) struct StringSpec {
    /// Number of rows.
    pub(super) rows: u64,
    /// Length of a string, in bytes.
    pub(super) length: usize,
    /// Share of the concatenated strings that zlib level 5 saves, in percent.
    pub(super) compressibility: f64,
    /// Text (true) or bytes (false). None: depends on the compressibility.
    pub(super) text: Option<bool>,
    /// Whether the database accepts any bytes except 0 as text.
    pub(super) any_text: bool,
    pub(super) seed: u64,
}

impl Strings {
    pub(super) fn fill(&self, rng: &mut Pcg64, string: &mut [u8]) {
        // A fraction of a byte becomes one byte in that fraction of the rows.
        let extra = rng.random::<f64>() < self.random.fract();
        let random = (self.random as usize + usize::from(extra)).min(string.len());
        let (head, filler) = string.split_at_mut(random);
        match self.letters {
            Letters::Printable => head.fill_with(|| rng.random_range(b' '..=b'~')),
            Letters::AllButNul => head.fill_with(|| rng.random_range(1..=u8::MAX)),
            Letters::All => rng.fill(head),
        }
        filler.fill(b'x');
    }

    /// Determines by bisection how many bytes of a string must be random.
    pub(super) fn calibrated(spec: StringSpec) -> Self {
        let (letters, text) = match spec.text {
            Some(true) => (Letters::Printable, true),
            Some(false) => (Letters::All, false),
            None if spec.compressibility >= PRINTABLE_FROM => (Letters::Printable, true),
            None => (Letters::AllButNul, spec.any_text),
        };
        let max_rows = usize::try_from(spec.rows).unwrap_or(usize::MAX).max(1);
        let rows = (SAMPLE / spec.length).clamp(1, max_rows);
        let mut sample = vec![0; rows * spec.length];
        let mut try_random = |random: f64| {
            let mut strings = Self {
                random,
                letters,
                text,
                saved_percent: 0.0,
            };
            let mut rng = Pcg64::seed_from_u64(spec.seed);
            sample
                .chunks_exact_mut(spec.length)
                .for_each(|string| strings.fill(&mut rng, string));
            strings.saved_percent = saved_percent(&sample);
            strings
        };
        let (mut low, mut high) = (0.0, spec.length as f64);
        let mut best = try_random(high);
        let error = |strings: &Self| (strings.saved_percent - spec.compressibility).abs();
        // After 16 halvings the error is 0.002 bytes for a row of 100 bytes, and far below one
        // percentage point for a row of megabytes.
        for _ in 0..16 {
            let middle = f64::midpoint(low, high);
            let strings = try_random(middle);
            let saves_too_much = strings.saved_percent > spec.compressibility;
            if error(&strings) < error(&best) {
                best = strings;
            }
            if error(&best) < 0.2 {
                break;
            }
            if saves_too_much {
                low = middle;
            } else {
                high = middle;
            }
        }
        best
    }

    /// Name of the type in reports.
    pub(super) fn kind(&self) -> &'static str {
        if self.text { "text" } else { "blob" }
    }
}

/// Share of the bytes that zlib level 5 saves, in percent. Negative if the result is longer.
fn saved_percent(bytes: &[u8]) -> f64 {
    let mut zlib = ZlibEncoder::new(Vec::with_capacity(bytes.len()), Compression::new(5));
    // Writing to a Vec cannot fail.
    let packed = zlib
        .write_all(bytes)
        .and_then(|()| zlib.finish())
        .unwrap_or_default();
    100.0 * (1.0 - packed.len() as f64 / bytes.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compressibility_is_within_three_percentage_points() {
        for length in [10, 100, 1000, 300_000] {
            for percent in [0.0, 5.0, 10.0, 19.0, 20.0, 30.0, 50.0, 70.0, 90.0, 95.0] {
                let strings = Strings::calibrated(StringSpec {
                    rows: 1 << 20,
                    length,
                    compressibility: percent,
                    text: None,
                    any_text: percent < 10.0,
                    seed: 1,
                });
                let mut rows = vec![0; (1 << 20) / length * length];
                let mut rng = Pcg64::seed_from_u64(99); // other rows than those of the calibration
                rows.chunks_exact_mut(length)
                    .for_each(|string| strings.fill(&mut rng, string));
                let saved = saved_percent(&rows);
                assert!(
                    (saved - percent).abs() < 3.0,
                    "row of {length} bytes: {percent} % required, {saved} % saved"
                );
                assert_eq!(strings.text, !(10.0..20.0).contains(&percent));
                let printable = rows.iter().all(|b| (b' '..=b'~').contains(b));
                assert_eq!(printable, percent >= 20.0);
                assert!(!rows.contains(&0), "text does not contain NUL");
            }
        }
    }
}
