//! Reads any bytes as a log of the preload recorder.

use plimsoll_trace::preload::{Log, Merge, follow};

/// The minimum length of a record, bytes.
const RECORD: usize = 32;

/// Reads a log, then follows two copies of it as the logs of two threads.
pub fn run(data: &[u8]) {
    let Ok(log) = Log::parse(data) else { return };
    let max_records = data.len() / RECORD;
    assert!(Merge::new(vec![log]).count() <= 2 * max_records + 1);
    let twice = [data, data].map(Log::parse).into_iter().flatten().collect();
    let (_, unused) = follow(twice, 0, &mut |_, _| {});
    assert!(unused.records - unused.lost.min(unused.records) <= 2 * max_records as u64);
}
