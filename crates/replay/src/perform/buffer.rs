//! Buffers for reads and writes.

use std::num::NonZeroUsize;
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Maximum size of one call. Calls that move more are split.
pub(crate) const MAX_CHUNK_BYTES: usize = 16 << 20;
const PAGE: usize = 4096;

/// Whole pages, of one worker or shared by all: `O_DIRECT` requires whole pages.
pub(crate) struct Buffer {
    start: NonNull<u8>,
    size: NonZeroUsize,
}

// SAFETY: the buffer owns its memory. If it is shared, only the kernel reads it.
unsafe impl Send for Buffer {}
// SAFETY: as above; a shared reference does not write.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A buffer for calls of this length, at most [`MAX_CHUNK_BYTES`] bytes.
    pub(crate) fn new(longest: u64) -> Result<Self, Errno> {
        let longest = usize::try_from(longest)
            .unwrap_or(MAX_CHUNK_BYTES)
            .clamp(PAGE, MAX_CHUNK_BYTES);
        // The size has a minimum, so it is not zero.
        let size = NonZeroUsize::new(longest.next_multiple_of(PAGE)).ok_or(Errno::EINVAL)?;
        let (may, how) = (
            ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
            MapFlags::MAP_PRIVATE,
        );
        // SAFETY: new pages, at an address that the kernel chooses.
        let start = unsafe { mmap_anonymous(None, size, may, how) }?;
        Ok(Self {
            start: start.cast(),
            size,
        })
    }

    /// As [`Self::new`], filled with data: the share `compressible` (0..=1) of every page is zeros,
    /// the rest is random with `seed`.
    pub(crate) fn filled(longest: u64, compressible: f64, seed: u64) -> Result<Self, Errno> {
        let mut buffer = Self::new(longest)?;
        let random = ((1.0 - compressible.clamp(0.0, 1.0)) * PAGE as f64) as usize;
        let mut state = seed | 1;
        for page in buffer.bytes_mut().chunks_mut(PAGE) {
            for word in page[..random].chunks_mut(8) {
                // xorshift64*, S. Vigna, ACM TOMS 42 (2016) 30: fast, and not compressible.
                state ^= state >> 12;
                state ^= state << 25;
                state ^= state >> 27;
                let bytes = state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes();
                word.copy_from_slice(&bytes[..word.len()]);
            }
        }
        Ok(buffer)
    }

    pub(crate) fn size(&self) -> usize {
        self.size.get()
    }

    pub(crate) fn start(&self) -> *const u8 {
        self.start.as_ptr()
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the pages exist as long as the buffer, which is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.size.get()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the buffer owns the pages, and no reference to them is left. The call cannot
        // fail.
        let _ = unsafe { munmap(self.start.cast(), self.size.get()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_zeros_is_the_requested_one() {
        let mut buffer = Buffer::filled(100_000, 0.25, 7).unwrap();
        assert_eq!(buffer.size(), 25 * PAGE);
        let pages = buffer.bytes_mut().chunks(PAGE);
        let zeros: usize = pages
            .map(|page| page.iter().rev().take_while(|byte| **byte == 0).count())
            .sum();
        let share = zeros as f64 / buffer.size() as f64;
        assert!((share - 0.25).abs() < 0.01, "{share}");
        assert_eq!(Buffer::new(u64::MAX).unwrap().size(), MAX_CHUNK_BYTES);
    }
}
