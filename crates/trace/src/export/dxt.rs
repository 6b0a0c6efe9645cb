//! Text in the format of `darshan-dxt-parser`: reads and writes of each file and process (Darshan's
//! extended traces).
//!
//! The layout is that of `darshan-util/darshan-dxt-parser.c` and `darshan-dxt-logutils.c` of
//! Darshan 3.4. The writes of a file and process precede its reads, after a header with both
//! counts. So rows are sorted; if there are many, in a scratch file.

use std::collections::HashMap;
use std::io::{Read, Seek, Write};

use super::access::{Access, accesses};
use super::escape::escape;
use super::sort::{Record, Sorter};
use super::{Export, ExportError, Tally};
use crate::event::{Event, FileId, ThreadId};
use crate::header::Header;
use crate::names::{Names, ThreadEntry};

/// Version of the format, which is in the metadata of the output.
pub const FORMAT: &str = "plimsoll.trace.dxt/1";

/// The version of Darshan's logs whose text has this format.
const DARSHAN_VERSION: &str = "3.41";

/// Writes the text.
pub struct Dxt<'a, W: Write, S> {
    out: W,
    names: &'a Names,
    header: &'a Header,
    ranks: Vec<u64>,
    rows: Sorter<S>,
    /// Number of writes and reads, by file and process.
    counts: HashMap<(u64, u64), [u64; 2]>,
    /// First start and last end, ns.
    range: Option<(i64, i64)>,
    tally: Tally,
}

impl<'a, W: Write, S: Read + Write + Seek> Dxt<'a, W, S> {
    /// `scratch` is an empty file. It needs 48 bytes per row, or nothing for less than a million
    /// rows. All output is written at the end.
    pub fn new(out: W, names: &'a Names, header: &'a Header, scratch: S) -> Self {
        Self {
            out,
            names,
            header,
            ranks: ranks(names.threads()),
            rows: Sorter::new(scratch),
            counts: HashMap::new(),
            range: None,
            tally: Tally::default(),
        }
    }

    fn row(
        &mut self,
        thread: ThreadId,
        access: Access,
        start_ns: i64,
        end_ns: i64,
    ) -> Result<(), ExportError> {
        let rank = self.ranks.get(thread.index()).copied().unwrap_or(0);
        let file = access.file.index() as u64;
        let counts = self.counts.entry((file, rank)).or_default();
        counts[usize::from(!access.is_write)] += 1;
        self.tally.written += 1;
        self.rows.push(Record {
            key: (file, rank << 1 | u64::from(!access.is_write)),
            values: [access.offset, access.length, start_ns as u64, end_ns as u64],
        })?;
        Ok(())
    }
}

impl<W: Write, S: Read + Write + Seek> Export for Dxt<'_, W, S> {
    fn event(&mut self, event: &Event) -> Result<(), ExportError> {
        self.tally.events += 1;
        let (start, end) = (event.start_ns, event.end_ns());
        let (first, last) = self.range.unwrap_or((start, end));
        self.range = Some((first.min(start), last.max(end)));
        let mut kept = [None; 2];
        let mut count = 0;
        let keep = |access| {
            kept[count] = Some(access);
            count += 1;
        };
        accesses(event, self.names, keep, |reason| self.tally.leave_out(reason));
        for access in kept.into_iter().flatten() {
            self.row(event.thread, access, start, end)?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Tally, ExportError> {
        let Self {
            mut out,
            names,
            header,
            ranks,
            rows,
            counts,
            range,
            tally,
        } = *self;
        head(&mut out, header, &ranks, range.unwrap_or((0, 0)))?;
        let host = header.host.first().map_or("UNKNOWN", String::as_str);
        let mut group = None;
        let mut key = None;
        let mut segment = 0;
        rows.finish(|row| {
            let (file, side) = row.key;
            let rank = side >> 1;
            if group != Some((file, rank)) {
                group = Some((file, rank));
                let count = counts.get(&(file, rank)).copied().unwrap_or_default();
                group_head(&mut out, names, file, rank, host, count)?;
            }
            if key != Some(row.key) {
                (key, segment) = (Some(row.key), 0);
            }
            let word = if side & 1 == 0 { "write" } else { "read" };
            let [offset, length, start, end] = row.values;
            let [start, end] = [start, end].map(|ns| ns as i64 as f64 / 1e9);
            writeln!(
                out,
                "{:>8}{rank:>8}{word:>7}{segment:>9}{offset:>16}{length:>16} {start:>11.6} {end:>11.6}",
                "X_POSIX"
            )?;
            segment += 1;
            Ok::<_, ExportError>(())
        })?;
        Ok(tally)
    }
}

/// Writes the header. Times of the job are whole seconds since the Unix epoch; if the trace has no
/// date, since its zero.
fn head(out: &mut impl Write, header: &Header, ranks: &[u64], range: (i64, i64)) -> Result<(), ExportError> {
    let mut command = String::new();
    for (number, word) in header.command.iter().enumerate() {
        if number > 0 {
            command.push(' ');
        }
        escape(word.as_bytes(), &mut command);
    }
    let seconds = |ns: i64| {
        let zero = header.zero_unix_ns.unwrap_or(0);
        zero.saturating_add(ns).div_euclid(1_000_000_000)
    };
    let (start, end) = (seconds(range.0), seconds(range.1));
    let processes = ranks.iter().max().map_or(0, |&rank| rank + 1);
    writeln!(out, "# darshan log version: {DARSHAN_VERSION}")?;
    writeln!(out, "# compression method: NONE")?;
    writeln!(out, "# exe: {command}")?;
    writeln!(out, "# uid: 0")?;
    writeln!(out, "# jobid: 0")?;
    writeln!(out, "# start_time: {start}")?;
    writeln!(out, "# end_time: {end}")?;
    writeln!(out, "# nprocs: {processes}")?;
    writeln!(out, "# run time: {}", end - start + 1)?;
    writeln!(out, "# metadata: lib_ver = {FORMAT}")?;
    writeln!(out)?;
    writeln!(out, "# ***************************************************")?;
    writeln!(out, "# DXT_POSIX module data")?;
    writeln!(out, "# ***************************************************")?;
    Ok(())
}

fn group_head(
    out: &mut impl Write,
    names: &Names,
    file: u64,
    rank: u64,
    host: &str,
    [writes, reads]: [u64; 2],
) -> Result<(), ExportError> {
    let mut name = String::new();
    let entry = usize::try_from(file).ok().and_then(FileId::new);
    if let Some(entry) = entry.and_then(|id| names.files().get(id.index())) {
        escape(names.path(entry.path), &mut name);
    }
    writeln!(out, "\n# DXT, file_id: {file}, file_name: {name}")?;
    writeln!(out, "# DXT, rank: {rank}, hostname: {host}")?;
    writeln!(out, "# DXT, write_count: {writes}, read_count: {reads}")?;
    writeln!(out, "# DXT, mnt_pt: UNKNOWN, fs_type: UNKNOWN")?;
    writeln!(
        out,
        "# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)"
    )?;
    Ok(())
}

/// The number of the process of each thread, from 0 in the order of the table. Process ids are
/// reused: a thread whose id is that of its process starts a new process if there was such a thread
/// before.
fn ranks(threads: &[ThreadEntry]) -> Vec<u64> {
    let mut known: HashMap<u32, (u64, bool)> = HashMap::new();
    let mut next = 0;
    let mut ranks = Vec::with_capacity(threads.len());
    for thread in threads {
        let is_leader = thread.tid == thread.pid;
        let rank = match known.get(&thread.pid) {
            Some(&(rank, has_leader)) if !(is_leader && has_leader) => {
                known.insert(thread.pid, (rank, has_leader || is_leader));
                rank
            }
            _ => {
                next += 1;
                known.insert(thread.pid, (next - 1, is_leader));
                next - 1
            }
        };
        ranks.push(rank);
    }
    ranks
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::super::sample::{self, at, event, of};
    use super::*;
    use crate::event::Outcome;

    fn text(events: &[Event]) -> (String, Tally) {
        let (names, header) = (sample::names(), sample::header());
        let mut out = Vec::new();
        let tally = sample::export(events, &mut out, |out| {
            Box::new(Dxt::new(out, &names, &header, Cursor::new(Vec::new())))
        });
        (String::from_utf8(out).unwrap(), tally)
    }

    #[test]
    fn writes_of_a_file_and_process_precede_its_reads() {
        let moved = |thread, call, start, offset| {
            at(
                offset,
                4096,
                of(0, 0, event(thread, call, start, Outcome::Returned(100))),
            )
        };
        let events = [
            moved(0, "read", 10, 0),
            moved(2, "read", 20, 5),
            moved(1, "write", 30, 7),
            moved(0, "read", 1_500_000, 100),
        ];
        let (text, tally) = text(&events);
        let (head, body) = text.split_once("\n\n# *").unwrap();
        let expected = [
            "# darshan log version: 3.41",
            "# compression method: NONE",
            "# exe: ./job in.root",
            "# uid: 0",
            "# jobid: 0",
            "# start_time: 1700000000",
            "# end_time: 1700000002",
            "# nprocs: 2",
            "# run time: 3",
            "# metadata: lib_ver = plimsoll.trace.dxt/1",
        ];
        assert_eq!(head.lines().collect::<Vec<_>>(), expected);
        let body = body.split_once("**\n\n").unwrap().1;
        assert_eq!(
            body,
            "\
# DXT, file_id: 0, file_name: /data/in.root
# DXT, rank: 0, hostname: node7
# DXT, write_count: 1, read_count: 2
# DXT, mnt_pt: UNKNOWN, fs_type: UNKNOWN
# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)
 X_POSIX       0  write        0               7             100    0.000030    0.000040
 X_POSIX       0   read        0               0             100    0.000010    0.000020
 X_POSIX       0   read        1             100             100    1.500000    1.500010

# DXT, file_id: 0, file_name: /data/in.root
# DXT, rank: 1, hostname: node7
# DXT, write_count: 0, read_count: 1
# DXT, mnt_pt: UNKNOWN, fs_type: UNKNOWN
# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)
 X_POSIX       1   read        0               5             100    0.000020    0.000030
"
        );
        assert_eq!((tally.events, tally.written), (4, 4));
    }

    #[test]
    fn other_events_are_counted_and_paths_are_one_line() {
        let (text, tally) = text(&sample::events());
        assert!(
            text.contains("file_name: /data/out, \"new\"\\x0a\\xff\n"),
            "{text}"
        );
        assert_eq!((tally.events, tally.written), (10, 3));
        let expected = [("other_call", 6), ("no_data", 1), ("unfinished", 1)];
        assert_eq!(tally.left_out, expected.into());
    }

    #[test]
    fn a_reused_process_id_is_another_process() {
        let thread = |tid, pid| ThreadEntry {
            tid,
            pid,
            parent: None,
        };
        // The first thread precedes the main thread of its process. The id 5 is reused.
        let threads = [
            thread(6, 5),
            thread(5, 5),
            thread(9, 9),
            thread(5, 5),
            thread(7, 5),
            thread(8, 9),
        ];
        assert_eq!(ranks(&threads), [0, 0, 1, 2, 2, 1]);
    }
}
