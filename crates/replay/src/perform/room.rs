//! Memory that is read into or written from.

use std::num::NonZeroUsize;
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Calls that move more are made in pieces of this.
pub(crate) const MAX_CHUNK_BYTES: usize = 16 << 20;
const PAGE: usize = 4096;

/// Pages of a worker's own, or of all: `O_DIRECT` asks for whole ones.
pub(crate) struct Room {
    start: NonNull<u8>,
    size: NonZeroUsize,
}

// SAFETY: it is memory that nobody else has; what is shared of it is read by the kernel only.
unsafe impl Send for Room {}
// SAFETY: as above; through a shared reference nothing is written.
unsafe impl Sync for Room {}

impl Room {
    /// For calls of this length, in pieces of at most [`MAX_CHUNK_BYTES`] bytes.
    pub(crate) fn new(longest: u64) -> Result<Self, Errno> {
        let longest = usize::try_from(longest)
            .unwrap_or(MAX_CHUNK_BYTES)
            .clamp(PAGE, MAX_CHUNK_BYTES);
        // Clamped from below, so it is not zero.
        let size = NonZeroUsize::new(longest.next_multiple_of(PAGE)).ok_or(Errno::EINVAL)?;
        let (may, how) = (
            ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
            MapFlags::MAP_PRIVATE,
        );
        // SAFETY: new pages, at a place that the kernel chooses.
        let start = unsafe { mmap_anonymous(None, size, may, how) }?;
        Ok(Self {
            start: start.cast(),
            size,
        })
    }

    /// The same, filled: of every page the share `compressible` (0..=1) is zeros, the rest random
    /// by `seed`.
    pub(crate) fn filled(longest: u64, compressible: f64, seed: u64) -> Result<Self, Errno> {
        let mut room = Self::new(longest)?;
        let random = ((1.0 - compressible.clamp(0.0, 1.0)) * PAGE as f64) as usize;
        let mut state = seed | 1;
        for page in room.bytes_mut().chunks_mut(PAGE) {
            for word in page[..random].chunks_mut(8) {
                // xorshift64*, S. Vigna, ACM TOMS 42 (2016) 30: fast, and nothing that compresses.
                state ^= state >> 12;
                state ^= state << 25;
                state ^= state >> 27;
                let bytes = state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes();
                word.copy_from_slice(&bytes[..word.len()]);
            }
        }
        Ok(room)
    }

    pub(crate) fn size(&self) -> usize {
        self.size.get()
    }

    pub(crate) fn start(&self) -> *const u8 {
        self.start.as_ptr()
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the pages are there as long as we are, and nobody else has them.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.size.get()) }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: the pages are ours, and nobody uses them any more. That it fails cannot be.
        let _ = unsafe { munmap(self.start.cast(), self.size.get()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_zeros_is_what_was_asked_for() {
        let mut room = Room::filled(100_000, 0.25, 7).unwrap();
        assert_eq!(room.size(), 25 * PAGE);
        let pages = room.bytes_mut().chunks(PAGE);
        let zeros: usize = pages
            .map(|page| page.iter().rev().take_while(|byte| **byte == 0).count())
            .sum();
        let share = zeros as f64 / room.size() as f64;
        assert!((share - 0.25).abs() < 0.01, "{share}");
        assert_eq!(Room::new(u64::MAX).unwrap().size(), MAX_CHUNK_BYTES);
    }
}
