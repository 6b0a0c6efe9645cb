//! How much memory a piece of work holds.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    /// Bytes that this thread holds, and the most that it has held. Tests run beside each other,
    /// each in a thread.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn count(bytes: isize) {
    // A thread that ends frees what it has when its own variables are gone.
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        let now = now.saturating_add(bytes);
        held.set((now, most.max(now)));
    });
}

fn signed(bytes: usize) -> isize {
    isize::try_from(bytes).unwrap_or(isize::MAX)
}

// SAFETY: all is left to the system's allocator; counting allocates nothing, as its cell is a
// constant without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-signed(layout.size()));
        // SAFETY: the caller's.
        unsafe { System.dealloc(place, layout) }
    }

    // As a copy: both are held at one time.
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(signed(size));
        count(-signed(layout.size()));
        // SAFETY: the caller's.
        unsafe { System.realloc(place, layout, size) }
    }
}

/// The most bytes that this thread has held during the work, beyond those before it. What C
/// libraries take is not seen.
pub fn most_during(work: impl FnOnce()) -> usize {
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
fn what_is_held_at_one_time_is_counted() {
    let most = most_during(|| {
        drop(vec![1_u8; 1 << 20]);
        let mut grown = vec![0_u8; 1 << 20];
        grown.resize(2 << 20, 1);
        drop(grown);
    });
    assert_eq!(most, 3 << 20, "while it is copied");
    let other = std::thread::spawn(|| drop(vec![1_u8; 4 << 20]));
    assert!(
        most_during(|| other.join().unwrap()) < 1 << 20,
        "that of another thread"
    );
}
