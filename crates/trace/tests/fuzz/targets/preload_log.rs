//! Any bytes as a log of the preload recorder.

use plimsoll_trace::preload::{Log, Merge, follow};

/// The fewest bytes of a record.
const RECORD: usize = 32;

/// A log by itself, and two of the same, as those of two threads, followed.
pub fn run(data: &[u8]) {
    let Ok(log) = Log::parse(data) else { return };
    let most = data.len() / RECORD;
    assert!(Merge::new(vec![log]).count() <= 2 * most + 1);
    let twice = [data, data].map(Log::parse).into_iter().flatten().collect();
    let (_, lost) = follow(twice, 0, &mut |_, _| {});
    assert!(lost.records - lost.lost.min(lost.records) <= 2 * most as u64);
}
