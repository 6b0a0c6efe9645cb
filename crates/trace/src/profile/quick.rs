//! A fast hash for numbers that this program has assigned; there are one or two lookups per event.
//! The standard hash, which resists keys chosen by an attacker, took as much time as all the
//! counting.

use std::hash::{BuildHasherDefault, Hasher};

/// A map by ids or addresses.
pub(super) type Map<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<Quick>>;

/// Fibonacci hashing: multiplication spreads neighbouring numbers (Knuth, The Art of Computer
/// Programming 3, 6.4).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Quick(u64);

/// 2^64 divided by the golden ratio, as an odd number.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        // The upper bits are mixed best; the map uses the lower ones.
        self.0.rotate_left(32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(GOLDEN);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}
