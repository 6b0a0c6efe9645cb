//! The counts of a file and of all files. They are sums, so they can be added.

use super::tally::Tally;
use super::time::TracedTime;

/// Requests of one direction.
#[derive(Debug, Clone, Default)]
pub(super) struct Direction {
    pub(super) count: u64,
    pub(super) bytes: u64,
    /// Bytes of requests with a known offset.
    pub(super) placed_bytes: u64,
    /// Number of requests that transferred less than requested, but more than 0.
    pub(super) short: u64,
    /// Number of requests that transferred nothing although more was requested.
    pub(super) empty: u64,
    pub(super) size: Tally,
    pub(super) duration: Tally,
    pub(super) speed: Tally,
    pub(super) small: u64,
    pub(super) small_ns: u64,
    /// Distinct bytes. For a single file they are in its ranges; they are set here only to be added
    /// up.
    pub(super) unique: u64,
}

impl Direction {
    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.placed_bytes = self.placed_bytes.saturating_add(other.placed_bytes);
        self.short += other.short;
        self.empty += other.empty;
        self.size.merge(&other.size);
        self.duration.merge(&other.duration);
        self.speed.merge(&other.speed);
        self.small += other.small;
        self.small_ns = self.small_ns.saturating_add(other.small_ns);
        self.unique = self.unique.saturating_add(other.unique);
    }
}

/// Times in calls, by purpose.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CallTimes {
    pub(super) read: TracedTime,
    pub(super) write: TracedTime,
    pub(super) sync: TracedTime,
    pub(super) metadata: TracedTime,
}

/// A call, as its index in the list of calls. It is small, because each file has several.
pub(super) type Kind = u16;

/// All counts of a file that can be added up.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    pub(super) opens: u64,
    pub(super) syncs: u64,
    pub(super) seeks: u64,
    pub(super) useless_seeks: u64,
    pub(super) still_seeks: u64,
    /// None for files that are never read, or never written, which is common.
    pub(super) read: Option<Box<Direction>>,
    pub(super) write: Option<Box<Direction>>,
    /// Number of requests with a known offset.
    pub(super) placed: u64,
    /// Number of these requests for which the last request of the same open file is known.
    pub(super) judged: u64,
    pub(super) sequential: u64,
    pub(super) consecutive: u64,
    pub(super) descending: u64,
    pub(super) unknown_offsets: u64,
    pub(super) modify_writes: u64,
    pub(super) direct: u64,
    pub(super) unaligned_direct: u64,
    pub(super) time: CallTimes,
    /// Number of calls that are neither reads nor writes nor seeks, by call.
    pub(super) metadata: Vec<(Kind, u64)>,
    /// Number of failed calls, by call and errno.
    pub(super) failed: Vec<((Kind, u16), u64)>,
    pub(super) maps: u64,
    pub(super) mapped: u64,
    pub(super) approximate: bool,
}

impl Counts {
    /// Adds the counts of another file.
    pub(super) fn merge(&mut self, other: &Self) {
        for (own, other) in [(&mut self.read, &other.read), (&mut self.write, &other.write)] {
            if let Some(other) = other {
                own.get_or_insert_default().merge(other);
            }
        }
        let sums = [
            (&mut self.opens, other.opens),
            (&mut self.syncs, other.syncs),
            (&mut self.seeks, other.seeks),
            (&mut self.useless_seeks, other.useless_seeks),
            (&mut self.still_seeks, other.still_seeks),
            (&mut self.placed, other.placed),
            (&mut self.judged, other.judged),
            (&mut self.sequential, other.sequential),
            (&mut self.consecutive, other.consecutive),
            (&mut self.descending, other.descending),
            (&mut self.unknown_offsets, other.unknown_offsets),
            (&mut self.modify_writes, other.modify_writes),
            (&mut self.direct, other.direct),
            (&mut self.unaligned_direct, other.unaligned_direct),
            (&mut self.maps, other.maps),
            (&mut self.mapped, other.mapped),
        ];
        for (sum, amount) in sums {
            *sum = sum.saturating_add(amount);
        }
        self.time.read.add(&other.time.read);
        self.time.write.add(&other.time.write);
        self.time.sync.add(&other.time.sync);
        self.time.metadata.add(&other.time.metadata);
        for &(kind, count) in &other.metadata {
            count_of(&mut self.metadata, kind, count);
        }
        for &(failure, count) in &other.failed {
            count_of(&mut self.failed, failure, count);
        }
        self.approximate |= other.approximate;
    }
}

/// Adds to the count of a key in a short list. A file has few different keys.
pub(super) fn count_of<K: Copy + PartialEq>(list: &mut Vec<(K, u64)>, key: K, count: u64) {
    match list.iter_mut().find(|entry| entry.0 == key) {
        Some(entry) => entry.1 += count,
        None => list.push((key, count)),
    }
}
