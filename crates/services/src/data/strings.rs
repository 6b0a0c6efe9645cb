//! Strings that zlib can shorten by as much as is asked for: random bytes, then a filler.
//!
//! Printable text cannot save less than about 18 %: its 95 characters hold 6.6 bits in each byte.
//! Below 20 %, strings whose kind is left open are therefore random bytes of all values but 0; from
//! 20 % on they are printable. The bytes are a text too where the database takes any byte but 0 for
//! a character, as `PostgreSQL` with the encoding LATIN1.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Bytes that the calibration looks at: eight windows of zlib.
const SAMPLE: usize = 256 * 1024;
/// Below this many percent, strings are not printable.
const PRINTABLE_FROM: f64 = 20.0;

/// Makes strings: `random` bytes on average, then filler.
#[derive(Debug, Clone)]
pub(super) struct Strings {
    random: f64,
    letters: Letters,
    /// Whether the database takes them for text.
    pub(super) text: bool,
    /// Percent that zlib saved on the sample.
    pub(super) saved_percent: f64,
}

/// Which bytes are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letters {
    Printable,
    AllButNul,
    All,
}

/// What strings shall be like.
#[derive(Debug, Clone, Copy)]
pub(super) struct StringSpec {
    /// Strings in a row of the table, rows, and bytes of each.
    pub(super) rows: u64,
    pub(super) length: usize,
    /// Percent that zlib level 5 saves on the strings put one after the other.
    pub(super) compressibility: f64,
    /// Text or bytes; what fits the percentage where left open.
    pub(super) text: Option<bool>,
    /// Whether the database takes any bytes but 0 for text.
    pub(super) any_text: bool,
    pub(super) seed: u64,
}

impl Strings {
    pub(super) fn fill(&self, rng: &mut Pcg64, string: &mut [u8]) {
        // A fraction of a byte is a byte in that fraction of the rows.
        let more = rng.random::<f64>() < self.random.fract();
        let random = (self.random as usize + usize::from(more)).min(string.len());
        let (head, filler) = string.split_at_mut(random);
        match self.letters {
            Letters::Printable => head.fill_with(|| rng.random_range(b' '..=b'~')),
            Letters::AllButNul => head.fill_with(|| rng.random_range(1..=u8::MAX)),
            Letters::All => rng.fill(head),
        }
        filler.fill(b'x');
    }

    /// Finds, by bisection, how many bytes of a string must be random.
    pub(super) fn calibrated(wanted: StringSpec) -> Self {
        let (letters, text) = match wanted.text {
            Some(true) => (Letters::Printable, true),
            Some(false) => (Letters::All, false),
            None if wanted.compressibility >= PRINTABLE_FROM => (Letters::Printable, true),
            None => (Letters::AllButNul, wanted.any_text),
        };
        let most = usize::try_from(wanted.rows).unwrap_or(usize::MAX).max(1);
        let rows = (SAMPLE / wanted.length).clamp(1, most);
        let mut sample = vec![0; rows * wanted.length];
        let mut tried = |random: f64| {
            let mut strings = Self {
                random,
                letters,
                text,
                saved_percent: 0.0,
            };
            let mut rng = Pcg64::seed_from_u64(wanted.seed);
            sample
                .chunks_exact_mut(wanted.length)
                .for_each(|string| strings.fill(&mut rng, string));
            strings.saved_percent = saved_percent(&sample);
            strings
        };
        let (mut low, mut high) = (0.0, wanted.length as f64);
        let mut best = tried(high);
        let miss = |strings: &Self| (strings.saved_percent - wanted.compressibility).abs();
        // 16 halvings settle a row of 100 bytes to 0.002 of a byte; a row of megabytes to well
        // below a point.
        for _ in 0..16 {
            let middle = f64::midpoint(low, high);
            let found = tried(middle);
            let too_much = found.saved_percent > wanted.compressibility;
            if miss(&found) < miss(&best) {
                best = found;
            }
            if miss(&best) < 0.2 {
                break;
            }
            if too_much {
                low = middle;
            } else {
                high = middle;
            }
        }
        best
    }

    /// How reports call it.
    pub(super) fn kind(&self) -> &'static str {
        if self.text { "text" } else { "blob" }
    }
}

/// Percent of the bytes that zlib level 5 saves; negative where it adds some.
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
    fn every_compressibility_is_hit_within_three_points() {
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
                let mut rng = Pcg64::seed_from_u64(99); // other rows than the calibration saw
                rows.chunks_exact_mut(length)
                    .for_each(|string| strings.fill(&mut rng, string));
                let saved = saved_percent(&rows);
                assert!(
                    (saved - percent).abs() < 3.0,
                    "row {length}: {percent} asked, {saved} saved"
                );
                assert_eq!(strings.text, !(10.0..20.0).contains(&percent));
                let printable = rows.iter().all(|b| (b' '..=b'~').contains(b));
                assert_eq!(printable, percent >= 20.0);
                assert!(!rows.contains(&0), "no text has a NUL");
            }
        }
    }
}
