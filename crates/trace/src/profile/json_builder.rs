//! Builds the JSON of files.

use super::Axis;
use super::call::Calls;
use super::counts::{Counts, Direction};
use super::file::File;
use super::json::{FailedCalls, FileProfile, Io, Requests, Times};
use super::process::Tree;
use super::shown::shown;
use super::time::TracedTime;
use super::{MAX_OTHER_NAMES, MAX_PROCESSES};
use crate::constants::error_name;
use crate::event::PathId;
use crate::names::{Kind, Names};

/// The data that all parts of a profile need.
#[derive(Clone, Copy)]
pub(super) struct JsonBuilder<'a> {
    pub(super) names: &'a Names,
    pub(super) calls: &'a Calls,
    pub(super) has_durations: bool,
    pub(super) is_corrected: bool,
    pub(super) wall: Times,
}

/// The files that had a path one after another.
#[derive(Default)]
pub(super) struct FileGroup {
    pub(super) kind: Option<Kind>,
    pub(super) incarnations: u64,
    pub(super) file: File,
    pub(super) totals: Counts,
    pub(super) open_ns: u64,
    /// Other paths.
    names: Vec<PathId>,
}

impl FileGroup {
    /// Adds the other paths of a file.
    pub(super) fn add_names(&mut self, name: PathId, all: &[PathId]) {
        for &other in all.iter().filter(|&&other| other != name) {
            if self.names.len() < MAX_OTHER_NAMES && !self.names.contains(&other) {
                self.names.push(other);
            }
        }
    }

    /// Adds a file.
    pub(super) fn add(&mut self, mut file: File, axis: &Axis) {
        self.totals.merge(&file.totals());
        if let Some((first, last)) = file.used {
            let ends = self.file.used.unwrap_or((first, last));
            self.file.used = Some((ends.0.min(first), ends.1.max(last)));
        }
        self.file.line.merge(axis, &file.line);
        self.file.threads.append(&mut file.threads);
        self.file.size = self.file.size.max(file.size);
        self.file.is_executable |= file.is_executable;
    }
}

impl JsonBuilder<'_> {
    fn times(&self, spent: &TracedTime) -> Option<Times> {
        self.has_durations.then(|| spent.times(self.is_corrected))
    }

    pub(super) fn io(&self, counts: &Counts) -> Io {
        let none = Direction::default();
        let (read, write) = (
            counts.read.as_deref().unwrap_or(&none),
            counts.write.as_deref().unwrap_or(&none),
        );
        let share = |part: u64, all: u64| (all > 0).then(|| part as f64 / all as f64);
        let [read_time, write_time, sync_time, metadata_time] = [
            &counts.time.read,
            &counts.time.write,
            &counts.time.sync,
            &counts.time.metadata,
        ]
        .map(|spent| self.times(spent));
        let metadata = counts
            .metadata
            .iter()
            .map(|&(kind, count)| (self.calls.name(kind).to_owned(), count));
        let mut io = Io {
            opens: counts.opens,
            reads: read.count,
            read_bytes: read.bytes,
            unique_read_bytes: read.unique,
            reread_bytes: read.placed_bytes.saturating_sub(read.unique),
            short_reads: read.short,
            end_reads: read.empty,
            writes: write.count,
            write_bytes: write.bytes,
            unique_write_bytes: write.unique,
            overwritten_bytes: write.placed_bytes.saturating_sub(write.unique),
            approximate: counts.approximate,
            seeks: counts.seeks,
            useless_seeks: counts.useless_seeks,
            still_seeks: counts.still_seeks,
            sequential_share: share(counts.sequential, counts.judged),
            consecutive_share: share(counts.consecutive, counts.placed),
            descending_share: share(counts.descending, counts.judged),
            unknown_offsets: counts.unknown_offsets,
            modify_writes: counts.modify_writes,
            direct: counts.direct,
            unaligned_direct: counts.unaligned_direct,
            syncs: counts.syncs,
            read_s: read_time.map(|time| time.best_s()),
            write_s: write_time.map(|time| time.best_s()),
            read_time,
            write_time,
            sync_time,
            metadata_time,
            run_share: None,
            read: self.requests(read),
            write: self.requests(write),
            metadata: metadata.collect(),
            failed: self.failed(counts),
            maps: counts.maps,
            mapped_bytes: counts.mapped,
        };
        let run = self.wall.best_s();
        io.run_share = io.calls_s().filter(|_| run > 0.0).map(|calls| calls / run);
        io
    }

    fn requests(&self, side: &Direction) -> Option<Requests> {
        Some(Requests {
            size: side.size.spread(1.0)?,
            duration_s: side.duration.spread(1e9),
            speed: side.speed.spread(1.0),
            small: side.small,
            small_s: self.has_durations.then_some(side.small_ns as f64 / 1e9),
        })
    }

    fn failed(&self, counts: &Counts) -> Vec<FailedCalls> {
        let mut failed: Vec<_> = counts
            .failed
            .iter()
            .map(|&((kind, errno), count)| FailedCalls {
                call: self.calls.name(kind).to_owned(),
                error: error_name(errno),
                count,
            })
            .collect();
        failed.sort_by(|a, b| {
            b.count
                .cmp(&a.count)
                .then_with(|| (&a.call, &a.error).cmp(&(&b.call, &b.error)))
        });
        failed
    }

    pub(super) fn file(&self, path: PathId, group: &mut FileGroup, tree: &Tree, axis: &Axis) -> FileProfile {
        let (first_ns, last_ns) = group.file.used.unwrap_or_default();
        let threads = &mut group.file.threads;
        threads.sort_unstable();
        threads.dedup();
        let mut processes: Vec<usize> = threads
            .iter()
            .filter_map(|thread| *tree.of_thread.get(thread.index())?)
            .collect();
        processes.sort_unstable();
        processes.dedup();
        let process_count = processes.len() as u64;
        processes.truncate(MAX_PROCESSES);
        let cells = group.file.line.cells(axis);
        FileProfile {
            path: shown(self.names.path(path)),
            other_names: group
                .names
                .iter()
                .map(|&name| shown(self.names.path(name)))
                .collect(),
            kind: kind_name(group.kind).to_owned(),
            incarnations: group.incarnations,
            io: self.io(&group.totals),
            size: group.file.size,
            open_s: group.open_ns as f64 / 1e9,
            first_s: first_ns as f64 / 1e9,
            last_s: last_ns as f64 / 1e9,
            threads: group.file.threads.len() as u64,
            process_count,
            processes,
            executable: group.file.is_executable,
            timeline: cells
                .iter()
                .map(|&(index, [calls, read, written])| [u64::from(index), calls, read, written])
                .collect(),
        }
    }
}

fn kind_name(kind: Option<Kind>) -> &'static str {
    match kind {
        Some(Kind::File) => "file",
        Some(Kind::Directory) => "directory",
        Some(Kind::Link) => "link",
        Some(Kind::Device) => "device",
        Some(Kind::Memory) => "memory",
        Some(Kind::Pipe) => "pipe",
        Some(Kind::Socket) => "socket",
        Some(Kind::Other) => "other",
        None => "name",
    }
}
