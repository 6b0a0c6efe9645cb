//! Measures the memory of a function.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    /// The current and the greatest number of bytes of this thread. Each test runs in a thread of
    /// its own.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn count(bytes: isize) {
    // A thread that ends frees memory after its thread-local variables are destroyed.
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        let now = now.saturating_add(bytes);
        held.set((now, most.max(now)));
    });
}

fn signed(bytes: usize) -> isize {
    isize::try_from(bytes).unwrap_or(isize::MAX)
}

// SAFETY: all calls are passed to the system allocator. Counting allocates nothing, because its
// cell is a constant without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller guarantees it.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller guarantees it.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        count(-signed(layout.size()));
        // SAFETY: the caller guarantees it.
        unsafe { System.dealloc(address, layout) }
    }

    // Counted as a copy: both blocks exist at the same time.
    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(signed(size));
        count(-signed(layout.size()));
        // SAFETY: the caller guarantees it.
        unsafe { System.realloc(address, layout, size) }
    }
}

/// The greatest number of bytes of this thread during the work, minus the number before it. Memory
/// of C libraries is not counted.
pub fn peak_during(work: impl FnOnce()) -> usize {
    let before = HELD.with(|held| {
        let (now, _) = held.get();
        held.set((now, now));
        now
    });
    work();
    let (_, most) = HELD.with(Cell::get);
    usize::try_from(most - before).unwrap_or(0)
}

#[test]
fn the_peak_of_the_memory_of_a_thread_is_measured() {
    let most = peak_during(|| {
        drop(vec![1_u8; 1 << 20]);
        let mut grown = vec![0_u8; 1 << 20];
        grown.resize(2 << 20, 1);
        drop(grown);
    });
    assert_eq!(most, 3 << 20, "the old and the new block during the copy");
    let other = std::thread::spawn(|| drop(vec![1_u8; 4 << 20]));
    assert!(
        peak_during(|| other.join().unwrap()) < 1 << 20,
        "the memory of another thread"
    );
}
