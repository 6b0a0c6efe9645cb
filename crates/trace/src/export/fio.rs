//! A log that fio replays (`read_iolog`), version 3: fio's HOWTO, "Trace file format v3".
//!
//! The behaviour of fio was determined with fio 3.33. A file is added and opened with its first
//! access, and not again while it is open (fio aborts). A read without data is left out, and
//! lengths are those that were transferred (a read at the end of a file ends the job, "full
//! resid"). Times are in microseconds, begin at 1, because 0 means none in fio, and never decrease.
//! Trims are left out, because fio supports them on devices only.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::Write;

use super::access::{accesses, is_regular, reason};
use super::{Export, ExportError, Tally};
use crate::event::{Event, FileId, OpenId, Outcome, PathId};
use crate::names::Names;
use crate::syscalls::Effect;

/// The first line of a log.
pub const FORMAT: &str = "fio version 3 iolog";

/// Maximum length of a path that fio reads, bytes.
const MAX_NAME: usize = 256;
/// Maximum length of an access, bytes: fio parses it as an `unsigned int`.
const MAX_ACCESS_BYTES: u64 = u32::MAX as u64;

/// A path that fio cannot read.
const BAD_NAME: &str = "name";
/// The open file is unknown.
const NO_OPEN: &str = "no_open_file";
/// An open or a close of an open file without reads and writes.
const IDLE: &str = "no_access";
/// The start was moved to a later time, because fio requires the order of threads.
const MOVED_LATER: &str = "start_moved_later";

/// Writes a log for fio.
pub struct Fio<'a, W: Write> {
    out: W,
    names: &'a Names,
    root: Option<Vec<u8>>,
    /// Paths that were added to the log, and the number of their open files. fio opens each once.
    files: HashMap<PathId, u32>,
    /// Open files without reads and writes so far. They are not in the log: many are directories
    /// whose kind only their reader knows, and fio ends the job if it cannot open a file.
    idle: HashSet<OpenId>,
    /// Open files that count in `files`, with their paths.
    opens: HashMap<OpenId, PathId>,
    /// The last start, us.
    last_us: u64,
    tally: Tally,
}

impl<'a, W: Write> Fio<'a, W> {
    /// Writes the first line. With `root`, all paths are rewritten to be beneath that directory,
    /// even if they contain `..`.
    ///
    /// # Errors
    /// [`ExportError::Io`]; [`ExportError::Root`] if `root` is empty or contains white space.
    pub fn new(mut out: W, names: &'a Names, root: Option<&[u8]>) -> Result<Self, ExportError> {
        if let Some(root) = root.filter(|root| root.is_empty() || root.iter().any(|&byte| is_space(byte))) {
            return Err(ExportError::Root(String::from_utf8_lossy(root).into_owned()));
        }
        writeln!(out, "{FORMAT}")?;
        Ok(Self {
            out,
            names,
            root: root.map(<[u8]>::to_vec),
            files: HashMap::new(),
            idle: HashSet::new(),
            opens: HashMap::new(),
            last_us: 1,
            tally: Tally::default(),
        })
    }

    /// Writes a line. The time of an event that began before the previous one is moved.
    fn line(&mut self, at_us: u64, path: PathId, words: std::fmt::Arguments<'_>) -> Result<(), ExportError> {
        if at_us < self.last_us {
            self.tally.change(MOVED_LATER);
        }
        self.last_us = self.last_us.max(at_us);
        write!(self.out, "{} ", self.last_us)?;
        self.out.write_all(&self.output_path(path))?;
        writeln!(self.out, " {words}")?;
        Ok(())
    }

    /// A path as written in the log.
    fn output_path(&self, path: PathId) -> Cow<'a, [u8]> {
        let name = self.names.path(path);
        match &self.root {
            Some(root) => Cow::Owned(beneath(root, name)),
            None => Cow::Borrowed(name),
        }
    }

    /// The path of a file. None, and counted, if fio cannot read it.
    fn path(&mut self, file: FileId) -> Option<PathId> {
        let path = self.names.files().get(file.index())?.path;
        let name = self.output_path(path);
        let fits = !name.is_empty() && name.len() <= MAX_NAME;
        if fits && !name.iter().any(|&byte| is_space(byte)) {
            return Some(path);
        }
        self.tally.leave_out(BAD_NAME);
        None
    }

    /// Ensures that the file is open in the log.
    fn ensure_open(&mut self, at_us: u64, open: OpenId, path: PathId) -> Result<(), ExportError> {
        if self.opens.contains_key(&open) {
            return Ok(());
        }
        self.opens.insert(open, path);
        self.tally.written += u64::from(self.idle.remove(&open));
        let is_new = !self.files.contains_key(&path);
        let count = self.files.entry(path).or_default();
        *count += 1;
        let is_first = *count == 1;
        if is_new {
            self.line(at_us, path, format_args!("add"))?;
        }
        if is_first {
            self.line(at_us, path, format_args!("open"))?;
        }
        Ok(())
    }

    fn remove_open(&mut self, at_us: u64, open: OpenId) -> Result<(), ExportError> {
        let Some(path) = self.opens.remove(&open) else {
            return Ok(());
        };
        let count = self.files.entry(path).or_default();
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.line(at_us, path, format_args!("close"))?;
        }
        Ok(())
    }

    fn add_open(&mut self, event: &Event) {
        let Outcome::Returned(_) = event.outcome else {
            return self.leave_out(event.outcome);
        };
        match (event.open, event.file) {
            (Some(open), Some(file)) if is_regular(self.names, file) => {
                self.idle.insert(open);
            }
            _ => self.tally.leave_out(reason::NO_FILE),
        }
    }

    /// Handles a close, or an event that closed the last descriptor in another way.
    fn close(&mut self, at_us: u64, event: &Event) -> Result<(), ExportError> {
        // The length of a close is the number of remaining descriptors.
        let is_last = event.call.effect == Effect::Released || event.length == Some(0);
        let Some(open) = event.open.filter(|_| is_last) else {
            self.tally.leave_out(reason::OTHER);
            return Ok(());
        };
        if self.idle.remove(&open) {
            self.tally.leave_out(IDLE);
            self.tally.leave_out(IDLE);
        } else if self.opens.contains_key(&open) {
            self.tally.written += 1;
            self.remove_open(at_us, open)?;
        } else {
            self.tally.leave_out(reason::OTHER);
        }
        Ok(())
    }

    fn sync(&mut self, at_us: u64, event: &Event) -> Result<(), ExportError> {
        let word = match event.call.name {
            "fsync" => "sync",
            "fdatasync" => "datasync",
            _ => {
                self.tally.leave_out(reason::OTHER);
                return Ok(());
            }
        };
        let Outcome::Returned(_) = event.outcome else {
            self.leave_out(event.outcome);
            return Ok(());
        };
        let (Some(open), Some(file)) = (
            event.open,
            event.file.filter(|&file| is_regular(self.names, file)),
        ) else {
            self.tally.leave_out(reason::NO_FILE);
            return Ok(());
        };
        let Some(path) = self.path(file) else {
            return Ok(());
        };
        self.ensure_open(at_us, open, path)?;
        self.tally.written += 1;
        self.line(at_us, path, format_args!("{word} 0 0"))
    }

    fn leave_out(&mut self, outcome: Outcome) {
        self.tally.leave_out(match outcome {
            Outcome::Failed(_) => reason::FAILED,
            _ => reason::UNFINISHED,
        });
    }

    fn data(&mut self, at_us: u64, event: &Event) -> Result<(), ExportError> {
        let mut kept = [None; 2];
        let (mut count, names) = (0, self.names);
        let keep = |access| {
            kept[count] = Some(access);
            count += 1;
        };
        accesses(event, names, keep, |reason| self.tally.leave_out(reason));
        for access in kept.into_iter().flatten() {
            let Some(open) = access.open else {
                self.tally.leave_out(NO_OPEN);
                continue;
            };
            let Some(path) = self.path(access.file) else {
                continue;
            };
            self.ensure_open(at_us, open, path)?;
            self.tally.written += 1;
            let word = if access.is_write { "write" } else { "read" };
            let (mut offset, mut left) = (access.offset, access.length);
            while left > 0 {
                let length = left.min(MAX_ACCESS_BYTES);
                self.line(at_us, path, format_args!("{word} {offset} {length}"))?;
                offset += length;
                left -= length;
            }
        }
        Ok(())
    }
}

impl<W: Write> Export for Fio<'_, W> {
    fn event(&mut self, event: &Event) -> Result<(), ExportError> {
        self.tally.events += 1;
        let at_us = 1 + u64::try_from(event.start_ns).unwrap_or(0) / 1000;
        match event.call.effect {
            Effect::Open => {
                self.add_open(event);
                Ok(())
            }
            Effect::Close | Effect::Released => self.close(at_us, event),
            Effect::Sync => self.sync(at_us, event),
            _ => self.data(at_us, event),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<Tally, ExportError> {
        for _ in 0..self.idle.len() {
            self.tally.leave_out(IDLE);
        }
        Ok(self.tally)
    }
}

/// Whether the byte ends a word for scanf, or a string in C.
fn is_space(byte: u8) -> bool {
    matches!(byte, 0 | b' ' | b'\t'..=b'\r')
}

/// A path beneath `root`. `..` removes the previous part as text, but no part of `root`.
fn beneath(root: &[u8], name: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in name.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let mut whole = root.to_vec();
    while whole.len() > 1 && whole.ends_with(b"/") {
        whole.pop();
    }
    for part in parts {
        if !whole.ends_with(b"/") {
            whole.push(b'/');
        }
        whole.extend_from_slice(part);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::super::sample::{self, at, close, event, of};
    use super::*;

    fn log(events: &[Event], root: Option<&[u8]>) -> (Vec<String>, Tally) {
        let names = sample::names();
        let mut out = Vec::new();
        let tally = sample::export(events, &mut out, |out| {
            Box::new(Fio::new(out, &names, root).unwrap())
        });
        let text = String::from_utf8(out).unwrap();
        let mut lines = text.lines().map(str::to_owned);
        assert_eq!(lines.next().unwrap(), FORMAT);
        (lines.collect(), tally)
    }

    #[test]
    fn accesses_are_between_open_and_close() {
        let sync = |call| of(0, 0, event(0, call, 50, Outcome::Returned(0)));
        let events = [
            of(0, 0, event(0, "openat", 5, Outcome::Returned(3))),
            at(0, 4096, of(0, 0, event(0, "read", 30, Outcome::Returned(1000)))),
            at(8, 3, of(0, 0, event(0, "pwrite64", 40, Outcome::Returned(3)))),
            sync("fsync"),
            sync("fdatasync"),
            sync("syncfs"),
            at(1000, 4096, of(0, 0, event(0, "read", 60, Outcome::Returned(0)))),
            close(0, 0, 70, 0),
        ];
        let (lines, tally) = log(&events, None);
        assert_eq!(
            lines,
            [
                "31 /data/in.root add",
                "31 /data/in.root open",
                "31 /data/in.root read 0 1000",
                "41 /data/in.root write 8 3",
                "51 /data/in.root sync 0 0",
                "51 /data/in.root datasync 0 0",
                "71 /data/in.root close",
            ]
        );
        assert_eq!((tally.events, tally.written), (8, 6));
        assert_eq!(tally.left_out, [("no_data", 1), ("other_call", 1)].into());
    }

    /// fio aborts if a file is opened that is open, or accessed while it is not.
    #[test]
    fn a_file_is_opened_once_while_an_open_file_of_it_is_in_use() {
        let read = |open, start| at(0, 9, of(open, 0, event(0, "read", start, Outcome::Returned(9))));
        let released = of(8, 0, event(0, "+released", 30, Outcome::Returned(0)));
        let events = [
            read(7, 10),
            of(8, 0, event(0, "openat", 11, Outcome::Returned(4))),
            read(8, 12),
            close(7, 0, 12, 1),
            read(7, 13),
            close(7, 0, 14, 0),
            read(8, 15),
            released,
            close(8, 0, 31, 0),
            read(9, 40),
        ];
        let (lines, tally) = log(&events, None);
        let words: Vec<&str> = lines.iter().map(|line| line.split(' ').nth(2).unwrap()).collect();
        let expected = "add open read read read read close open read";
        assert_eq!(words.join(" "), expected);
        assert_eq!(tally.left_out["other_call"], 2);
    }

    #[test]
    fn a_file_without_reads_and_writes_is_not_opened() {
        let open = |open| of(open, 0, event(0, "openat", 5, Outcome::Returned(3)));
        let (lines, tally) = log(&[open(0), open(1), close(0, 0, 6, 0)], None);
        assert!(lines.is_empty(), "{lines:?}");
        assert_eq!((tally.written, tally.left_out), (0, [(IDLE, 3)].into()));
    }

    #[test]
    fn times_do_not_decrease() {
        let read = |start| at(0, 9, of(0, 0, event(0, "read", start, Outcome::Returned(9))));
        let (lines, tally) = log(&[read(0), read(10), read(7), read(12)], None);
        let times: Vec<&str> = lines.iter().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(times, ["1", "1", "1", "11", "11", "13"]);
        assert_eq!(tally.changed, [(MOVED_LATER, 1)].into());
    }

    #[test]
    fn events_that_fio_cannot_represent_are_counted() {
        let read = |file, outcome| of(0, file, event(0, "read", 1, outcome));
        let events = [
            event(0, "rename", 1, Outcome::Returned(0)),
            read(0, Outcome::Failed(5)),
            read(0, Outcome::Unknown),
            read(0, Outcome::Returned(9)),
            at(0, 9, read(2, Outcome::Returned(9))),
            at(0, 9, read(3, Outcome::Returned(9))),
            at(0, 9, read(1, Outcome::Returned(9))),
            Event {
                open: None,
                ..at(0, 9, read(0, Outcome::Returned(9)))
            },
            of(0, 2, event(0, "fsync", 1, Outcome::Returned(0))),
            of(0, 0, event(0, "fsync", 1, Outcome::Failed(5))),
            of(0, 2, event(0, "openat", 1, Outcome::Returned(3))),
        ];
        let (lines, tally) = log(&events, None);
        assert!(lines.is_empty(), "{lines:?}");
        let expected = [
            ("other_call", 1),
            ("failed", 2),
            ("unfinished", 1),
            ("no_offset", 1),
            ("no_regular_file", 3),
            (BAD_NAME, 2),
            (NO_OPEN, 1),
        ];
        assert_eq!(tally.left_out, expected.into());
        assert_eq!(tally.events, 11);
    }

    #[test]
    fn both_sides_of_a_copy_are_accesses_and_large_ones_are_split() {
        let copy = Event {
            open2: OpenId::new(1),
            file2: FileId::new(4),
            offset2: Some(7),
            ..at(
                0,
                1 << 33,
                of(0, 0, event(0, "copy_file_range", 1, Outcome::Returned(1 << 33))),
            )
        };
        let (lines, tally) = log(&[copy], Some(b"/tmp/x/"));
        assert_eq!(
            lines[2..],
            [
                "2 /tmp/x/data/in.root read 0 4294967295",
                "2 /tmp/x/data/in.root read 4294967295 4294967295",
                "2 /tmp/x/data/in.root read 8589934590 2",
                "2 /tmp/x/rel/log add",
                "2 /tmp/x/rel/log open",
                "2 /tmp/x/rel/log write 7 4294967295",
                "2 /tmp/x/rel/log write 4294967302 4294967295",
                "2 /tmp/x/rel/log write 8589934597 2",
            ]
        );
        assert_eq!(tally.written, 2);
    }

    #[test]
    fn every_path_stays_beneath_the_root() {
        for (root, name, whole) in [
            ("/r", "/a/b", "/r/a/b"),
            ("/r//", "/a/../../../b", "/r/b"),
            ("r", "../../b/./c//", "r/b/c"),
            ("/", "/..", "/"),
            ("/r", "..", "/r"),
        ] {
            assert_eq!(beneath(root.as_bytes(), name.as_bytes()), whole.as_bytes());
        }
        let names = sample::names();
        assert!(matches!(
            Fio::new(Vec::new(), &names, Some(b"/my dir")),
            Err(ExportError::Root(_))
        ));
    }
}
