//! What is in a file that is made for a replay.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What files are filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Nothing: a hole, which takes no space and which a file system reads without its disk. Not
    /// for measuring reads.
    Sparse,
    /// Data, the same for the same seed and path.
    Data {
        /// How much of it a compressor saves, percent: 0 to 100.
        compressibility: u8,
        /// Of the random numbers.
        seed: u64,
    },
}

/// Zeros and random bytes alternate within each of these, so that file systems that compress by
/// small blocks find the same.
const BLOCK: usize = 4096;

/// Written at once.
const PIECE: usize = 1 << 20;

/// Fills files, with a buffer of its own.
#[derive(Debug)]
pub(super) struct Filler {
    fill: Fill,
    piece: Vec<u8>,
}

impl Filler {
    pub(super) fn new(fill: Fill) -> Self {
        Self {
            fill,
            piece: Vec::new(),
        }
    }

    /// Makes a file `to` bytes large; what it has, `from` bytes, stays.
    pub(super) fn grow(&mut self, file: &File, path: &[u8], from: u64, to: u64) -> io::Result<()> {
        let Fill::Data {
            compressibility,
            seed,
        } = self.fill
        else {
            return file.set_len(to);
        };
        let zeros = BLOCK * usize::from(compressibility.min(100)) / 100;
        let mut random = Random::new(seed, path);
        self.piece.resize(PIECE, 0);
        let mut at = from;
        while at < to {
            let length = usize::try_from(to - at).map_or(PIECE, |left| left.min(PIECE));
            for block in self.piece[..length].chunks_mut(BLOCK) {
                let end = zeros.min(block.len());
                block[..end].fill(0);
                random.fill(&mut block[end..]);
            }
            file.write_all_at(&self.piece[..length], at)?;
            at += length as u64;
        }
        Ok(())
    }
}

/// xoshiro256++ (D. Blackman, S. Vigna, <https://doi.org/10.1145/3460772>), seeded by splitmix64 as
/// they advise: one that is not for secrets, and faster than a file system.
#[derive(Debug)]
struct Random([u64; 4]);

impl Random {
    fn new(seed: u64, path: &[u8]) -> Self {
        // FNV-1a: two files of one size are not to be one file for what removes duplicates.
        let hash = path.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut state = seed ^ hash;
        Self(std::array::from_fn(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        }))
    }

    fn next(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(8) {
            let random = self.next().to_le_bytes();
            word.copy_from_slice(&random[..word.len()]);
        }
    }
}
