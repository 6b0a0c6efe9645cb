//! The state of a file, updated event by event.

use super::SMALL_REQUEST;
use super::axis::Line;
use super::counts::{Counts, Direction};
use super::open::{OpenFile, Seek};
use super::ranges::Ranges;
use super::time::TracedTime;
use crate::event::ThreadId;

/// Alignment of `O_DIRECT` requests, bytes: the sector of disks. Many disks require more, none
/// less.
const SECTOR: u64 = 512;

/// The state of a file.
#[derive(Debug, Clone, Default)]
pub(super) struct File {
    pub(super) counts: Counts,
    read: Ranges,
    written: Ranges,
    mapped: Ranges,
    /// End of the last request of any thread, bytes.
    last_end: u64,
    /// The greatest size that stat returned or a request reached, bytes.
    pub(super) size: Option<u64>,
    pub(super) is_executable: bool,
    /// Start of the first call and end of the last one, ns.
    pub(super) used: Option<(i64, i64)>,
    openings: Openings,
    /// The threads that used it, in their order.
    pub(super) threads: Vec<ThreadId>,
    /// Calls, bytes read and bytes written, over time.
    pub(super) line: Line<3>,
}

/// The time for which the file was open.
#[derive(Debug, Clone, Copy, Default)]
struct Openings {
    count: u64,
    since_ns: i64,
    open_ns: u64,
}

/// A successful read or write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) is_write: bool,
    /// Offset in the file, bytes.
    pub(super) offset: Option<u64>,
    /// Requested number of bytes.
    pub(super) requested: Option<u64>,
    /// Returned number of bytes.
    pub(super) returned: u64,
    /// The time of the request; None if its duration is unknown.
    pub(super) spent: Option<TracedTime>,
}

impl File {
    /// Notes a use by a thread.
    pub(super) fn add_use(&mut self, thread: ThreadId, start_ns: i64, end_ns: i64) {
        let (first, last) = self.used.unwrap_or((start_ns, end_ns));
        self.used = Some((first.min(start_ns), last.max(end_ns)));
        if self.threads.last() != Some(&thread)
            && let Err(index) = self.threads.binary_search(&thread)
        {
            self.threads.insert(index, thread);
        }
    }

    /// Notes that the file has at least this size, bytes.
    pub(super) fn grow_to(&mut self, size: u64) {
        self.size = Some(self.size.map_or(size, |known| known.max(size)));
    }

    /// Adds an open file.
    pub(super) fn add_open(&mut self, at_ns: i64) {
        if self.openings.count == 0 {
            self.openings.since_ns = at_ns;
        }
        self.openings.count += 1;
    }

    /// Removes an open file.
    pub(super) fn remove_open(&mut self, at_ns: i64) {
        let openings = &mut self.openings;
        openings.count = openings.count.saturating_sub(1);
        if openings.count == 0 {
            openings.open_ns = openings.open_until(at_ns);
        }
    }

    /// The time for which the file was open if the trace ends at `end_ns`, ns.
    pub(super) fn open_ns(&self, end_ns: i64) -> u64 {
        match self.openings.count {
            0 => self.openings.open_ns,
            _ => self.openings.open_until(end_ns),
        }
    }

    /// Adds a mapping of a range.
    pub(super) fn add_mapping(&mut self, offset: u64, length: u64, is_executable: bool) {
        self.counts.maps += 1;
        self.mapped.add(offset, offset.saturating_add(length));
        self.is_executable |= is_executable;
    }

    /// Adds a seek of an open file to `to`.
    pub(super) fn seek(&mut self, open: &mut OpenFile, to: u64) {
        self.counts.seeks += 1;
        match open.seek(to) {
            Seek::Moved => {}
            Seek::AfterUseless => self.counts.useless_seeks += 1,
            Seek::Still => {
                self.counts.still_seeks += 1;
                self.counts.useless_seeks += 1;
            }
        }
    }

    /// Adds a read or write through an open file.
    pub(super) fn request(&mut self, open: Option<&mut OpenFile>, request: &Request) {
        self.direction(request.is_write).add(request);
        let Some(offset) = request.offset else {
            self.counts.unknown_offsets += 1;
            return;
        };
        let end = offset.saturating_add(request.returned);
        let side = self.direction(request.is_write);
        side.placed_bytes = side.placed_bytes.saturating_add(request.returned);
        let ranges = if request.is_write {
            &mut self.written
        } else {
            &mut self.read
        };
        ranges.add(offset, end);
        self.grow_to(end);

        self.counts.placed += 1;
        self.counts.consecutive += u64::from(offset == self.last_end);
        self.last_end = end;
        if let Some(open) = open {
            self.judge(open, request, offset, end);
        }
    }

    /// The counts so far.
    pub(super) fn totals(&self) -> Counts {
        let mut counts = self.counts.clone();
        if let Some(read) = &mut counts.read {
            read.unique = self.read.covered();
        }
        if let Some(write) = &mut counts.write {
            write.unique = self.written.covered();
        }
        counts.mapped = self.mapped.covered();
        counts.approximate = self.read.is_approximate() || self.written.is_approximate();
        counts
    }

    fn direction(&mut self, is_write: bool) -> &mut Direction {
        let side = if is_write {
            &mut self.counts.write
        } else {
            &mut self.counts.read
        };
        side.get_or_insert_default()
    }

    /// Compares a request with the previous one of the same open file.
    fn judge(&mut self, open: &mut OpenFile, request: &Request, offset: u64, end: u64) {
        let counts = &mut self.counts;
        if let Some((last_start, last_end)) = open.last.replace((offset, end)) {
            counts.judged += 1;
            counts.sequential += u64::from(offset == last_end);
            counts.descending += u64::from(offset < last_start);
        }
        if request.is_write {
            let was_read = open.last_read.take();
            let over = was_read.is_some_and(|(from, to)| from <= offset && offset < to);
            counts.modify_writes += u64::from(over);
        } else {
            open.last_read = Some((offset, end));
        }
        if open.is_direct {
            let requested = request.requested.unwrap_or(request.returned);
            counts.direct += 1;
            counts.unaligned_direct += u64::from(!(offset | requested).is_multiple_of(SECTOR));
        }
    }
}

impl Openings {
    fn open_until(&self, at_ns: i64) -> u64 {
        let since = u64::try_from(at_ns.saturating_sub(self.since_ns)).unwrap_or(0);
        self.open_ns.saturating_add(since)
    }
}

impl Direction {
    fn add(&mut self, request: &Request) {
        let requested = request.requested.unwrap_or(request.returned);
        self.count += 1;
        self.bytes = self.bytes.saturating_add(request.returned);
        self.short += u64::from(0 < request.returned && request.returned < requested);
        self.empty += u64::from(request.returned == 0 && request.requested != Some(0));
        self.size.add(requested);
        self.small += u64::from(requested < SMALL_REQUEST);
        let Some(spent) = request.spent else {
            return;
        };
        self.duration.add(spent.corrected);
        if requested < SMALL_REQUEST {
            self.small_ns = self.small_ns.saturating_add(spent.corrected);
        }
        if spent.corrected > 0 && request.returned > 0 {
            let speed = u128::from(request.returned) * 1_000_000_000 / u128::from(spent.corrected);
            self.speed.add(u64::try_from(speed).unwrap_or(u64::MAX));
        }
    }
}
