//! strace's text into a trace file: one log that all threads share, or a log for each (`-ff`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{BufRead, Read, Write};
use std::sync::mpsc::{self, Receiver, SyncSender};

use crate::event::Event;
use crate::file::{FileError, Writer};
use crate::follow::{Follower, Seen};
use crate::header::{Footer, Header};
use crate::kernel::Kernel;
use crate::text::spans::Told;
use crate::text::{Stamp, line};

/// Bytes at the beginning of a log that tell with which options it was made.
pub const ENOUGH: usize = 64 * 1024;

/// What the first lines of a log tell of all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Manner {
    /// The first stamp.
    pub first: Option<Stamp>,
    /// The finest difference of times, ns: 1000 for microseconds; 0 where there are none.
    pub resolution_ns: u64,
    /// Calls have durations.
    pub has_durations: bool,
    /// Lines that strace may have written.
    pub lines: u64,
    /// Other lines.
    pub odd: u64,
}

impl Manner {
    /// Of the first bytes of a log: its last line may be cut.
    pub fn of(start: &[u8]) -> Self {
        let whole = memchr::memrchr(b'\n', start).map_or(start, |end| &start[..end]);
        let mut found = Self::default();
        let mut parts = 0;
        for text in whole.split(|&byte| byte == b'\n') {
            let Some(line) = line::parse(text) else {
                found.odd += 1;
                continue;
            };
            found.lines += u64::from(!matches!(line.what, line::What::Note));
            found.first = found.first.or(line.stamp);
            if let Some(Stamp::Wall(ns) | Stamp::Day(ns) | Stamp::Since(ns)) = line.stamp {
                parts = gcd(parts, ns.unsigned_abs());
            }
            let ended = match line.what {
                line::What::Call { ended, .. } | line::What::Resumed { ended, .. } => Some(ended),
                _ => None,
            };
            found.has_durations |= ended.is_some_and(|ended| ended.duration_ns.is_some());
        }
        // What all times are multiples of by chance, as they are few, is no finer than what strace writes.
        let finest = [1_000_000_000, 1_000, 1];
        found.resolution_ns = match found.first {
            Some(_) => finest.into_iter().find(|unit| parts % unit == 0).unwrap_or(1),
            None => 0,
        };
        found
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// One log.
pub struct Log {
    /// The thread, where its lines do not tell: the end of the name of a file that `-ff` made.
    pub pid: u32,
    /// Its text.
    pub text: Box<dyn BufRead + Send>,
}

/// Reads what a symbolic link holds on the host where the log was made; None where there is none.
pub type ReadLink = fn(&[u8]) -> Option<Vec<u8>>;

/// Takes lines in and writes a trace file.
pub struct Importer<W: Write> {
    follower: Follower,
    read_link: Option<ReadLink>,
    writer: Writer<W>,
    events: u64,
    failed: Option<FileError>,
}

impl<W: Write> Importer<W> {
    /// Begins the file.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn new(out: W, header: &Header) -> Result<Self, FileError> {
        Ok(Self {
            follower: Follower::new(),
            read_link: None,
            writer: Writer::new(out, header)?,
            events: 0,
            failed: None,
        })
    }

    /// For what is known beside the log: directories and descriptors of its first processes.
    pub fn kernel(&mut self) -> &mut Kernel {
        self.follower.kernel()
    }

    /// Where the log is taken in while it is written, on the same host: what readlink(2) has found, and the log does not tell, is looked
    /// up.
    pub fn look_up(&mut self, read_link: ReadLink) {
        self.read_link = Some(read_link);
    }

    /// Takes in a line, without its end.
    ///
    /// # Errors
    /// [`FileError`]: the file cannot be written any more.
    pub fn line(&mut self, text: &[u8], pid: u32) -> Result<(), FileError> {
        self.told(text, line::parse(text), pid)
    }

    fn told(&mut self, text: &[u8], line: Option<line::Line<'_>>, pid: u32) -> Result<(), FileError> {
        let Self {
            follower,
            writer,
            events,
            failed,
            read_link,
        } = self;
        follower.told(text, line, pid, &mut |kernel: &mut Kernel, seen: &Seen<'_>| {
            *events += 1;
            let mut event = seen.event;
            if let Some(read_link) = read_link {
                kernel.complete_link(&mut event, *read_link);
            }
            write(writer, failed, kernel, &event);
        });
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Writes out what is held back for a full block, so that a kill does not lose it.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn flush(&mut self) -> Result<(), FileError> {
        self.writer.flush(self.follower.kernel().names_mut())
    }

    /// The line that was taken in last had no end, and there is no more of its log.
    pub fn was_cut(&mut self) {
        self.follower.was_cut();
    }

    /// Takes in whole logs, by the time of their lines.
    ///
    /// # Errors
    /// [`FileError`]; what was read until then is in the file.
    pub fn logs(&mut self, logs: Vec<Log>) -> Result<(), FileError> {
        if logs.len() == 1 {
            return logs.into_iter().try_for_each(|log| self.alone(log));
        }
        self.together(logs)
    }

    /// One log: one thread reads and tells its lines apart, this one follows them.
    fn alone(&mut self, log: Log) -> Result<(), FileError> {
        let pid = log.pid;
        let (full, coming) = mpsc::sync_channel(PIECES);
        let (empty, used) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || pieces(log.text, &full, &used));
            let mut is_cut = false;
            for piece in coming {
                let piece: Piece = piece?;
                for told in &piece.lines {
                    self.told(told.text(&piece.text), told.line(&piece.text), pid)?;
                }
                is_cut = !piece.text.ends_with(b"\n");
                // The other one may have ended: then nobody needs it.
                let _ = empty.send(piece);
            }
            if is_cut {
                self.was_cut();
            }
            Ok(())
        })
    }

    /// Several logs: always the line that was written first.
    fn together(&mut self, logs: Vec<Log>) -> Result<(), FileError> {
        let mut all: Vec<Pending> = logs.into_iter().map(Pending::new).collect();
        let mut next = BinaryHeap::new();
        for (place, pending) in all.iter_mut().enumerate() {
            if pending.advance()? {
                next.push(Reverse((pending.at_ns, place)));
            }
        }
        while let Some(Reverse((_, place))) = next.pop() {
            let pending = &mut all[place];
            let text = std::mem::take(&mut pending.line);
            self.line(text.strip_suffix(b"\n").unwrap_or(&text), pending.log.pid)?;
            if !text.ends_with(b"\n") {
                self.was_cut();
            }
            pending.line = text;
            if pending.advance()? {
                next.push(Reverse((pending.at_ns, place)));
            }
        }
        Ok(())
    }

    /// The log has ended. Gives what was written to, and what the file says of itself at its end.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn finish(mut self, status: Option<i32>, elapsed_ns: Option<u64>) -> Result<(W, Footer), FileError> {
        let Self {
            follower,
            writer,
            events,
            failed,
            ..
        } = &mut self;
        follower.end(&mut |kernel: &mut Kernel, seen: &Seen<'_>| {
            *events += 1;
            write(writer, failed, kernel, &seen.event);
        });
        if let Some(error) = self.failed {
            return Err(error);
        }
        let trouble = self.follower.trouble();
        let footer = Footer {
            events: self.events,
            odd_lines: trouble.odd_lines,
            cut_lines: trouble.cut_lines,
            examples: trouble.examples.clone(),
            unknown_calls: trouble.unknown_calls,
            halves: trouble.halves,
            endless: self.follower.endless(),
            lines: self.follower.lines(),
            status,
            elapsed_ns,
        };
        let names = self.follower.kernel().names_mut();
        Ok((self.writer.finish(names, &footer)?, footer))
    }
}

fn write<W: Write>(
    writer: &mut Writer<W>,
    failed: &mut Option<FileError>,
    kernel: &mut Kernel,
    event: &Event,
) {
    if failed.is_none() {
        *failed = writer.write(kernel.names_mut(), event).err();
    }
}

/// Pieces of a log that may be on their way.
const PIECES: usize = 4;
/// Bytes that are read for one.
const PIECE: usize = 1 << 20;

/// Whole lines of a log, told apart.
#[derive(Debug, Default)]
struct Piece {
    text: Vec<u8>,
    lines: Vec<Told>,
}

/// Gives a log in pieces until it ends, or nobody takes them.
fn pieces(
    mut text: Box<dyn BufRead + Send>,
    full: &SyncSender<std::io::Result<Piece>>,
    used: &Receiver<Piece>,
) {
    let mut cut = Vec::new();
    loop {
        let mut piece = used.try_recv().unwrap_or_default();
        let read = fill(&mut text, &mut piece, &mut cut);
        let is_over = piece.text.is_empty();
        let given = match read {
            Ok(()) if is_over => return,
            Ok(()) => full.send(Ok(piece)).is_ok(),
            Err(error) => {
                let _ = full.send(Err(error));
                return;
            }
        };
        if !given {
            return;
        }
    }
}

/// Reads whole lines; `cut` is the beginning of the line that the last piece ended in.
fn fill(text: &mut impl BufRead, piece: &mut Piece, cut: &mut Vec<u8>) -> std::io::Result<()> {
    piece.text.clear();
    piece.lines.clear();
    piece.text.append(cut);
    loop {
        let read = text.by_ref().take(PIECE as u64).read_to_end(&mut piece.text)?;
        let end = memchr::memrchr(b'\n', &piece.text);
        match end {
            Some(end) => {
                cut.extend_from_slice(&piece.text[end + 1..]);
                piece.text.truncate(end + 1);
                break;
            }
            None if read == 0 => break,
            // A line without an end would take all memory; strace writes none so long. The rest of it is odd.
            None if piece.text.len() >= LONGEST_LINE => break,
            None => {}
        }
    }
    let whole = piece.text.strip_suffix(b"\n").unwrap_or(&piece.text);
    if piece.text.is_empty() {
        return Ok(());
    }
    for text in whole.split(|&byte| byte == b'\n') {
        let line = line::parse(text);
        piece.lines.push(Told::new(text, line.as_ref(), &piece.text));
    }
    Ok(())
}

/// Gives each line of a text, without its end.
///
/// # Errors
/// Those of `take`.
pub fn each_line(text: &[u8], mut take: impl FnMut(&[u8]) -> Result<(), FileError>) -> Result<(), FileError> {
    let whole = text.strip_suffix(b"\n").unwrap_or(text);
    if text.is_empty() {
        return Ok(());
    }
    whole.split(|&byte| byte == b'\n').try_for_each(&mut take)
}

/// A longer line is taken for several.
const LONGEST_LINE: usize = 64 * 1024 * 1024;

/// A log, and the line of it that is next.
struct Pending {
    log: Log,
    line: Vec<u8>,
    at_ns: i64,
}

impl Pending {
    fn new(log: Log) -> Self {
        Self {
            log,
            line: Vec::new(),
            at_ns: i64::MIN,
        }
    }

    /// Reads the next line. A line without a time stands where the one before it does. False at the end.
    fn advance(&mut self) -> std::io::Result<bool> {
        self.line.clear();
        if self.log.text.read_until(b'\n', &mut self.line)? == 0 {
            return Ok(false);
        }
        let text = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let stamp = line::parse(text).and_then(|line| line.stamp);
        if let Some(Stamp::Wall(ns) | Stamp::Day(ns)) = stamp {
            self.at_ns = ns;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manner_of_a_log_is_told_by_its_first_lines() {
        let of = |text: &str| {
            let found = Manner::of(text.as_bytes());
            (found.resolution_ns, found.has_durations, found.lines, found.odd)
        };
        assert_eq!(
            of("7 1700000000.123456 close(3) = 0 <0.000010>\n7 17000"),
            (1_000, true, 1, 0)
        );
        assert_eq!(of("7 12:30:59 close(3) = 0\n"), (1_000_000_000, false, 1, 0));
        assert_eq!(of("7 1700000000.123456789 close(3) = 0\n"), (1, false, 1, 0));
        assert_eq!(of("close(3) = 0\nthis is no log\n"), (0, false, 1, 1));
        assert_eq!(of(""), (0, false, 0, 0));
    }

    /// Each log tells its odd lines and those that were cut.
    #[test]
    fn a_last_line_without_an_end_was_cut() {
        let of = |texts: &[&'static str]| {
            let logs = texts.iter().map(|text| Log {
                pid: 1,
                text: Box::new(text.as_bytes()),
            });
            let mut importer = Importer::new(Vec::new(), &header()).unwrap();
            importer.logs(logs.collect()).unwrap();
            let (_, footer) = importer.finish(None, None).unwrap();
            (footer.odd_lines, footer.cut_lines, footer.lines, footer.examples)
        };
        let cut = "7 close(3) = 0\n7 openat(AT_FDCWD, \"/etc/pas";
        let shown = vec!["7 openat(AT_FDCWD, \"/etc/pas".to_owned()];
        assert_eq!(of(&[cut]), (0, 1, 2, shown.clone()));
        assert_eq!(of(&[cut, "8 close(3) = 0\n"]), (0, 1, 3, shown));
        assert_eq!(of(&["7 close(3) = 0"]), (0, 0, 1, vec![]));
        let odd = "7 opena\n7 close(3) = 0";
        assert_eq!(of(&[odd]), (1, 0, 2, vec!["7 opena".to_owned()]));
        assert_eq!(of(&["odd\n"]), (1, 0, 1, vec!["odd".to_owned()]));
    }

    fn header() -> Header {
        Header {
            format: crate::header::FORMAT.to_owned(),
            recorder: crate::header::Recorder::Strace,
            recorder_version: String::new(),
            options: Vec::new(),
            command: Vec::new(),
            attached: false,
            host: Vec::new(),
            zero_unix_ns: None,
            resolution_ns: 0,
            has_durations: false,
            calibration: None,
        }
    }

    #[test]
    fn lines_come_whole_however_they_are_read() {
        let text = b"one\ntwo\n\n7 close(3) = 0\nlast";
        for size in 1..=text.len() {
            let reader = std::io::BufReader::with_capacity(size, text.as_slice());
            let (full, coming) = mpsc::sync_channel(PIECES);
            let (_empty, used) = mpsc::channel();
            pieces(Box::new(reader), &full, &used);
            drop(full);
            let mut lines = Vec::new();
            for piece in coming {
                let piece = piece.unwrap();
                lines.extend(piece.lines.iter().map(|told| told.text(&piece.text).to_vec()));
            }
            assert_eq!(
                lines,
                [b"one".as_slice(), b"two", b"", b"7 close(3) = 0", b"last"]
            );
        }
        let (full, coming) = mpsc::sync_channel(PIECES);
        let (_empty, used) = mpsc::channel();
        pieces(Box::new(std::io::empty()), &full, &used);
        drop(full);
        assert_eq!(coming.iter().count(), 0);
    }
}
