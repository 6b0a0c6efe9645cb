//! strace's text into a trace file: one log that all threads share, or a log for each (`-ff`).

mod manner;
mod pieces;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{BufRead, Write};
use std::sync::mpsc;

pub use manner::{ENOUGH, Manner};

use crate::file::{Batch, FileError, Front, Writer};
use crate::follow::{Follower, Observation};
use crate::header::{Footer, Header};
use crate::import::pieces::{Coming, Piece};
use crate::kernel::Kernel;
use crate::text::{Stamp, line};

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
    taker: Taker,
    writer: Writer<W>,
}

/// Follows lines and has events of them.
struct Taker {
    follower: Follower,
    read_link: Option<ReadLink>,
    events: u64,
}

impl<W: Write> Importer<W> {
    /// Begins the file.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn new(out: W, header: &Header) -> Result<Self, FileError> {
        let mut follower = Follower::new();
        if header.is_on_one_core() {
            follower.on_one_core();
        }
        let taker = Taker {
            follower,
            read_link: None,
            events: 0,
        };
        Ok(Self {
            taker,
            writer: Writer::new(out, header)?,
        })
    }

    /// For what is known beside the log: directories and descriptors of its first processes.
    pub fn kernel(&mut self) -> &mut Kernel {
        self.taker.follower.kernel()
    }

    /// Where the log is taken in while it is written, on the same host: what readlink(2) has found,
    /// and the log does not tell, is looked up.
    pub fn look_up(&mut self, read_link: ReadLink) {
        self.taker.read_link = Some(read_link);
    }

    /// Takes in a line, without its end.
    ///
    /// # Errors
    /// [`FileError`]: the file cannot be written any more.
    pub fn line(&mut self, text: &[u8], pid: u32) -> Result<(), FileError> {
        let (front, back) = self.writer.parts();
        let line = line::parse(text);
        self.taker
            .take(text, line.as_ref(), pid, front, &mut |batch| back.put(batch))
    }

    /// Writes out what is held back for a full block, so that a kill does not lose it.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn flush(&mut self) -> Result<(), FileError> {
        self.writer.flush(self.taker.follower.kernel().names_mut())
    }

    /// What is recorded goes on, and the recording has ended then: ns since 1970.
    pub fn ended_at(&mut self, unix_ns: i64) {
        self.taker.follower.ended_at(unix_ns);
    }

    /// The line that was taken in last had no end, and there is no more of its log.
    pub fn mark_cut(&mut self) {
        self.taker.follower.mark_cut();
    }

    /// Takes in whole logs, by the time of their lines.
    ///
    /// # Errors
    /// [`FileError`]; what was read until then is in the file.
    pub fn logs(&mut self, logs: Vec<Log>) -> Result<(), FileError>
    where
        W: Send,
    {
        if logs.len() == 1 {
            return logs.into_iter().try_for_each(|log| self.alone(log));
        }
        self.together(logs)
    }

    /// One log: one thread reads and tells its lines apart, this one follows them, another one
    /// writes.
    fn alone(&mut self, log: Log) -> Result<(), FileError>
    where
        W: Send,
    {
        let Self { taker, writer } = self;
        let (front, back) = writer.parts();
        let (reading, coming) = pieces::channel();
        let (full, batches) = mpsc::sync_channel::<Batch>(BATCHES);
        let (empty, used) = mpsc::channel();
        let mut give = move |batch: &mut Batch| {
            let next = used.try_recv().unwrap_or_default();
            // A writer that does not listen any more tells why when it is joined.
            let _ = full.send(std::mem::replace(batch, next));
            Ok(())
        };
        std::thread::scope(|scope| {
            scope.spawn(move || reading.all(log.text));
            let writing = scope.spawn(move || -> Result<(), FileError> {
                for mut batch in batches {
                    back.put(&mut batch)?;
                    // The other side may have ended: then nobody needs it.
                    let _ = empty.send(batch);
                }
                Ok(())
            });
            let mut taken = Ok(false);
            while let Some(piece) = coming.next().filter(|_| !writing.is_finished()) {
                taken = piece
                    .map_err(FileError::from)
                    .and_then(|piece| taker.piece(piece, &coming, log.pid, front, &mut give));
                if taken.is_err() {
                    break;
                }
            }
            if let Ok(true) = taken {
                taker.follower.mark_cut();
            }
            drop((coming, give));
            let written = writing
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            written.and(taken.map(|_| ()))
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
                self.mark_cut();
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
        let Taker { follower, events, .. } = &mut self.taker;
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

impl Taker {
    /// Takes in a line that was told apart; batches of events that are full go to `give`.
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
        follower.told(text, line, pid, &mut hear);
        given
    }

    /// Takes in a piece of a log. Gives whether it ends within a line.
    fn piece(
        &mut self,
        piece: Piece,
        coming: &Coming,
        pid: u32,
        front: &mut Front,
        give: &mut impl FnMut(&mut Batch) -> Result<(), FileError>,
    ) -> Result<bool, FileError> {
        for (text, line) in piece.lines() {
            self.take(text, line.as_ref(), pid, front, give)?;
        }
        let is_cut = piece.is_cut();
        coming.give_back(piece);
        Ok(is_cut)
    }
}

/// Batches of events that may be on their way to the thread that writes.
const BATCHES: usize = 2;

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

    /// Reads the next line. A line without a time stands where the one before it does. False at the
    /// end.
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

    /// Each log tells its odd lines and those that were cut.
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
