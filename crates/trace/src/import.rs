//! Imports the text of strace into a trace file: one log for all threads, or one log for each
//! thread (`-ff`).

mod log_format;
mod pieces;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{BufRead, Write};
use std::sync::mpsc;

pub use log_format::{LogFormat, SNIFFED_BYTES};

use crate::file::{Batch, FileError, Front, Writer};
use crate::follow::{Follower, Observation};
use crate::header::{Footer, Header};
use crate::import::pieces::{Piece, PieceReceiver};
use crate::kernel::Kernel;
use crate::text::{Stamp, line};

/// A log of strace.
pub struct Log {
    /// The thread if the lines do not contain it: the suffix of the name of a file of `-ff`.
    pub pid: u32,
    /// The text of the log.
    pub text: Box<dyn BufRead + Send>,
}

/// Reads the target of a symbolic link on the host where the log was made. None if there is none.
pub type ReadLink = fn(&[u8]) -> Option<Vec<u8>>;

/// Reads lines and writes a trace file.
pub struct Importer<W: Write> {
    reader: LineReader,
    writer: Writer<W>,
}

/// Follows lines and produces their events.
struct LineReader {
    follower: Follower,
    read_link: Option<ReadLink>,
    events: u64,
}

impl<W: Write> Importer<W> {
    /// Starts the trace file with its header.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn new(out: W, header: &Header) -> Result<Self, FileError> {
        let mut follower = Follower::new();
        if header.is_on_one_core() {
            follower.on_one_core();
        }
        let reader = LineReader {
            follower,
            read_link: None,
            events: 0,
        };
        Ok(Self {
            reader,
            writer: Writer::new(out, header)?,
        })
    }

    /// The state of the kernel, to which knowledge that is not in the log is added: directories and
    /// descriptors of its first processes.
    pub fn kernel(&mut self) -> &mut Kernel {
        self.reader.follower.kernel()
    }

    /// Sets the function that looks up the targets of readlink(2), which the log does not contain.
    /// It is for a log that is imported while it is written, on the same host.
    pub fn look_up(&mut self, read_link: ReadLink) {
        self.reader.read_link = Some(read_link);
    }

    /// Reads a line, without its line feed.
    ///
    /// # Errors
    /// [`FileError`] if the trace file cannot be written.
    pub fn line(&mut self, text: &[u8], pid: u32) -> Result<(), FileError> {
        let (front, back) = self.writer.parts();
        let line = line::parse(text);
        self.reader
            .take(text, line.as_ref(), pid, front, &mut |batch| back.put(batch))
    }

    /// Writes the current block although it is not full, so that its events survive a kill.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn flush(&mut self) -> Result<(), FileError> {
        self.writer.flush(self.reader.follower.kernel().names_mut())
    }

    /// Sets the end of a recording whose program continues, ns since the Unix epoch.
    pub fn ended_at(&mut self, unix_ns: i64) {
        self.reader.follower.ended_at(unix_ns);
    }

    /// States that the last line had no line feed and was the last of its log.
    pub fn mark_cut(&mut self) {
        self.reader.follower.mark_cut();
    }

    /// Reads whole logs, in the order of the times of their lines.
    ///
    /// # Errors
    /// [`FileError`]. The events before the error are in the file.
    pub fn logs(&mut self, logs: Vec<Log>) -> Result<(), FileError>
    where
        W: Send,
    {
        if logs.len() == 1 {
            return logs.into_iter().try_for_each(|log| self.import_one(log));
        }
        self.import_merged(logs)
    }

    /// Imports one log with three threads: one reads and parses the lines, this one follows them,
    /// and one writes.
    fn import_one(&mut self, log: Log) -> Result<(), FileError>
    where
        W: Send,
    {
        let Self { reader, writer } = self;
        let (front, back) = writer.parts();
        let (sender, pieces) = pieces::channel();
        let (full, batches) = mpsc::sync_channel::<Batch>(BATCHES);
        let (empty, used) = mpsc::channel();
        let mut give = move |batch: &mut Batch| {
            let next = used.try_recv().unwrap_or_default();
            // If the writer has ended, its error is reported when it is joined.
            let _ = full.send(std::mem::replace(batch, next));
            Ok(())
        };
        std::thread::scope(|scope| {
            scope.spawn(move || sender.all(log.text));
            let writing = scope.spawn(move || -> Result<(), FileError> {
                for mut batch in batches {
                    back.put(&mut batch)?;
                    // The receiver may have ended; then the batch is not needed.
                    let _ = empty.send(batch);
                }
                Ok(())
            });
            let mut taken = Ok(false);
            while let Some(piece) = pieces.next().filter(|_| !writing.is_finished()) {
                taken = piece
                    .map_err(FileError::from)
                    .and_then(|piece| reader.piece(piece, &pieces, log.pid, front, &mut give));
                if taken.is_err() {
                    break;
                }
            }
            if let Ok(true) = taken {
                reader.follower.mark_cut();
            }
            drop((pieces, give));
            let written = writing
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            written.and(taken.map(|_| ()))
        })
    }

    /// Imports several logs: the next line is always the earliest one.
    fn import_merged(&mut self, logs: Vec<Log>) -> Result<(), FileError> {
        let mut all: Vec<Pending> = logs.into_iter().map(Pending::new).collect();
        let mut next = BinaryHeap::new();
        for (index, pending) in all.iter_mut().enumerate() {
            if pending.advance()? {
                next.push(Reverse((pending.at_ns, index)));
            }
        }
        while let Some(Reverse((_, index))) = next.pop() {
            let pending = &mut all[index];
            let text = std::mem::take(&mut pending.line);
            self.line(text.strip_suffix(b"\n").unwrap_or(&text), pending.log.pid)?;
            if !text.ends_with(b"\n") {
                self.mark_cut();
            }
            pending.line = text;
            if pending.advance()? {
                next.push(Reverse((pending.at_ns, index)));
            }
        }
        Ok(())
    }

    /// Ends the log. Returns the output and the footer.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn finish(mut self, status: Option<i32>, elapsed_ns: Option<u64>) -> Result<(W, Footer), FileError> {
        let LineReader { follower, events, .. } = &mut self.reader;
        let mut written = Ok(());
        let writer = &mut self.writer;
        follower.end(&mut |kernel: &mut Kernel, seen: &Observation<'_>| {
            *events += 1;
            if written.is_ok() {
                written = writer.write(kernel.names_mut(), seen.event);
            }
        });
        written?;
        let trouble = follower.trouble();
        let footer = Footer {
            events: *events,
            odd_lines: trouble.odd_lines,
            cut_lines: trouble.cut_lines,
            examples: trouble.examples.clone(),
            unknown_calls: trouble.unknown_calls,
            halves: trouble.halves,
            endless: follower.endless(),
            lines: follower.lines(),
            status,
            elapsed_ns,
        };
        let names = follower.kernel().names_mut();
        Ok((self.writer.finish(names, &footer)?, footer))
    }
}

impl LineReader {
    /// Reads a parsed line. Full batches of events are passed to `give`.
    fn take(
        &mut self,
        text: &[u8],
        line: Option<&line::Line<'_>>,
        pid: u32,
        front: &mut Front,
        give: &mut impl FnMut(&mut Batch) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        let Self {
            follower,
            read_link,
            events,
        } = self;
        let mut given = Ok(());
        let mut hear = |kernel: &mut Kernel, seen: &Observation<'_>| {
            *events += 1;
            if given.is_err() {
                return;
            }
            given = match read_link {
                None => front.add(kernel.names_mut(), seen.event, give),
                Some(read_link) => {
                    let mut event = *seen.event;
                    kernel.complete_link(&mut event, *read_link);
                    front.add(kernel.names_mut(), &event, give)
                }
            };
        };
        follower.parsed_line(text, line, pid, &mut hear);
        given
    }

    /// Reads a piece of a log. Returns whether it ends within a line.
    fn piece(
        &mut self,
        piece: Piece,
        pieces: &PieceReceiver,
        pid: u32,
        front: &mut Front,
        give: &mut impl FnMut(&mut Batch) -> Result<(), FileError>,
    ) -> Result<bool, FileError> {
        for (text, line) in piece.lines() {
            self.take(text, line.as_ref(), pid, front, give)?;
        }
        let is_cut = piece.is_cut();
        pieces.give_back(piece);
        Ok(is_cut)
    }
}

/// Maximum number of batches that wait for the writing thread.
const BATCHES: usize = 2;

/// Passes each line of a text to `take`, without its line feed.
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

/// A log and its next line.
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

    /// Reads the next line. A line without a time has the time of the line before it. Returns false
    /// at the end.
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
    use crate::header::Recorder;

    /// Malformed and cut lines are counted for each log.
    #[test]
    fn a_last_line_without_an_end_was_cut() {
        let of = |texts: &[&'static str]| {
            let logs = texts.iter().map(|text| Log {
                pid: 1,
                text: Box::new(text.as_bytes()),
            });
            let mut importer = Importer::new(Vec::new(), &Header::new(Recorder::Strace, 0)).unwrap();
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
}
