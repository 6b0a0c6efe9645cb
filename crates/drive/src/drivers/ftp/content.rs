//! The content of uploaded files: the same pseudo-random bytes again and again, so that no memory
//! is needed for a file of any size.

use std::ops::Range;
use std::sync::Arc;

use plimsoll_wire::ftp::{Checksum, ChecksumKind};

/// Length of the bytes that are repeated. It is longer than the window of gzip, so that a file
/// cannot be compressed by it.
const PERIOD: usize = 256 * 1024;

/// Bytes that follow from a seed.
#[derive(Clone)]
pub(super) struct Content(Arc<[u8]>);

impl Content {
    pub(super) fn new(seed: u64) -> Self {
        let mut state = seed;
        let words = std::iter::repeat_with(|| split_mix(&mut state)).take(PERIOD / 8);
        Self(words.flat_map(u64::to_le_bytes).collect())
    }

    /// At least one byte of a file, and at most `max`, which is greater than 0.
    pub(super) fn at(&self, offset: u64, max: u64) -> &[u8] {
        let begin = (offset % PERIOD as u64) as usize;
        let count = max.min((PERIOD - begin) as u64) as usize;
        &self.0[begin..begin + count]
    }

    /// The checksum of the bytes at these offsets.
    pub(super) fn checksum(&self, kind: ChecksumKind, bytes: Range<u64>) -> String {
        let mut checksum = Checksum::new(kind);
        let mut offset = bytes.start;
        while offset < bytes.end {
            let part = self.at(offset, bytes.end - offset);
            checksum.add(offset - bytes.start, part);
            offset += part.len() as u64;
        }
        checksum.text()
    }
}

/// The next number of the generator `SplitMix64` (Steele, Lea and Flood 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_has_its_published_values() {
        let mut state = 1_234_567;
        let numbers = [(); 3].map(|()| split_mix(&mut state));
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn a_file_repeats_its_period() {
        let content = Content::new(7);
        let size = PERIOD as u64 + 10;
        assert_eq!(content.at(0, size).len(), PERIOD);
        assert_eq!(content.at(PERIOD as u64, 10), content.at(0, 10));
        let whole = [content.at(0, u64::MAX), content.at(0, 10)].concat();
        for kind in [ChecksumKind::Adler32, ChecksumKind::Md5] {
            let mut checksum = Checksum::new(kind);
            checksum.add(0, &whole);
            assert_eq!(content.checksum(kind, 0..size), checksum.text());
        }
        let mut rest = Checksum::new(ChecksumKind::Adler32);
        rest.add(0, content.at(7, 10));
        assert_eq!(content.checksum(ChecksumKind::Adler32, 7..17), rest.text());
        assert_ne!(Content::new(8).at(0, 10), content.at(0, 10));
    }
}
