//! A fast hash for keys that are internal numbers or thread ids. An input cannot choose enough of
//! them to cause collisions.

use std::hash::{BuildHasherDefault, Hasher};

/// The hasher of maps whose keys are numbers.
pub(crate) type BuildMixer = BuildHasherDefault<Mixer>;

/// Mixes the bits of a number.
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

/// Mixes a key: each bit changes low and high bits of the result.
#[inline]
pub(crate) fn spread(key: u64) -> u64 {
    let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}
