//! Contents of files that are made for a replay.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Contents of files that are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// A hole, which uses no space, and which a file system reads without access to its disk. Not
    /// suitable for measurements of reads.
    Sparse,
    /// Data that depend only on seed and path.
    Data {
        /// Share that a compressor saves, percent: 0 to 100.
        compressibility: u8,
        /// Seed of the random numbers.
        seed: u64,
    },
}

/// Zeros and random bytes alternate within each block of this size, so that file systems that
/// compress small blocks find the same share.
const BLOCK: usize = 4096;

/// Size of one write, bytes.
const PIECE: usize = 1 << 20;

/// Fills files; it has its own buffer.
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

    /// Enlarges a file to `to` bytes. Its first `from` bytes are unchanged.
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
        let mut offset = from;
        while offset < to {
            let length = usize::try_from(to - offset).map_or(PIECE, |left| left.min(PIECE));
            for block in self.piece[..length].chunks_mut(BLOCK) {
                let end = zeros.min(block.len());
                block[..end].fill(0);
                random.fill(&mut block[end..]);
            }
            file.write_all_at(&self.piece[..length], offset)?;
            offset += length as u64;
        }
        Ok(())
    }
}

/// xoshiro256++ (D. Blackman, S. Vigna, <https://doi.org/10.1145/3460772>), seeded by splitmix64 as
/// the authors advise. It is not suitable for secrets, and faster than a file system.
#[derive(Debug)]
struct Random([u64; 4]);

impl Random {
    fn new(seed: u64, path: &[u8]) -> Self {
        // FNV-1a of the path: two files of the same size must differ, or a file system could
        // deduplicate them.
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
