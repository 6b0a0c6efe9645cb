//! A hash for keys that are numbers of our own, or of threads: nobody outside has so many to choose
//! from that they could be made to collide.

use std::hash::{BuildHasherDefault, Hasher};

/// For maps whose keys are numbers.
pub(crate) type Mixed = BuildHasherDefault<Mixer>;

/// Spreads a number over all bits.
#[derive(Debug, Default)]
pub(crate) struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u32(&mut self, key: u32) {
        self.write_u64(u64::from(key));
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = spread(self.0 ^ key);
    }

    fn write_usize(&mut self, key: usize) {
        self.write_u64(key as u64);
    }
}

/// Each bit of the key changes low ones and high ones.
#[inline]
pub(crate) fn spread(key: u64) -> u64 {
    let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}
