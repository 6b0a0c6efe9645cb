//! Generates slightly malformed inputs.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};

/// Changes valid inputs; the same in each run.
pub struct Changes<'a> {
    random: Pcg64Mcg,
    whole: &'a [Vec<u8>],
    /// Bytes with a special meaning.
    special: &'a [u8],
}

impl<'a> Changes<'a> {
    /// `whole` and `special` must not be empty.
    pub fn new(whole: &'a [Vec<u8>], special: &'a [u8]) -> Self {
        Self {
            random: Pcg64Mcg::seed_from_u64(7),
            whole,
            special,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.next_u64() as usize % bound.max(1)
    }

    /// A valid input with one to eight changes; sometimes random bytes.
    pub fn next(&mut self) -> Vec<u8> {
        if self.below(50) == 0 {
            let length = self.below(300);
            return (0..length).map(|_| self.random.next_u32() as u8).collect();
        }
        let mut bytes = self.random_input();
        for _ in 0..=self.below(8) {
            self.change(&mut bytes);
        }
        bytes
    }

    fn random_input(&mut self) -> Vec<u8> {
        let which = self.below(self.whole.len());
        self.whole[which].clone()
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len());
        let end = (at + 1 + self.below(40)).min(bytes.len());
        let special = self.special[self.below(self.special.len())];
        match self.below(9) {
            _ if bytes.is_empty() => bytes.push(special),
            0 => bytes[at] = self.random.next_u32() as u8,
            1 => bytes[at] ^= 1 << self.below(8),
            2 => bytes[at] = special,
            3 => bytes.insert(at, special),
            4 => drop(bytes.drain(at..end)),
            5 => bytes.truncate(at),
            6 => bytes[at..end].fill(special),
            7 => {
                let copy = bytes[at..end].to_vec();
                let to = self.below(bytes.len());
                bytes.splice(to..to, copy);
            }
            // The start of this input and the end of another one.
            _ => {
                let other = self.random_input();
                let from = self.below(other.len());
                bytes.splice(at.., other[from..].iter().copied());
            }
        }
    }
}
