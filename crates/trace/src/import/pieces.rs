//! A log in pieces of whole lines, which a thread of its own reads and tells apart.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};

use self_cell::self_cell;

use crate::text::line::{self, Line};

/// Pieces that may be on their way.
const PIECES: usize = 4;
/// Bytes that are read for one: with what its lines are, it stays in the cache of a core.
const PIECE: usize = 1 << 17;
/// A longer line is taken for several.
const MAX_LINE: usize = 64 * 1024 * 1024;

/// Lines without their ends, each with what it was found to be; none where it is nothing that
/// strace writes.
type Lines<'a> = Vec<(&'a [u8], Option<Line<'a>>)>;

self_cell!(
    /// Whole lines of a log, told apart.
    pub(super) struct Piece {
        owner: Vec<u8>,
        #[covariant]
        dependent: Lines,
    }
);

impl Piece {
    fn of(text: Vec<u8>) -> Self {
        Self::new(text, |text| {
            let mut lines = Vec::with_capacity(text.len() / 64 + 1);
            let mut from = 0;
            let ends = memchr::memchr_iter(b'\n', text);
            let cut = (text.last() != Some(&b'\n')).then_some(text.len());
            for to in ends.chain(cut.filter(|&end| end > 0)) {
                let one = &text[from..to];
                lines.push((one, line::parse(one)));
                from = to + 1;
            }
            lines
        })
    }

    /// Whether its last line has no end.
    pub(super) fn is_cut(&self) -> bool {
        self.borrow_owner().last() != Some(&b'\n')
    }

    /// Its lines, in their order.
    pub(super) fn lines(&self) -> &Lines<'_> {
        self.borrow_dependent()
    }
}

/// Where the reading thread gives pieces, and gets their memory back.
pub(super) struct Reading {
    full: SyncSender<io::Result<Piece>>,
    used: Receiver<Vec<u8>>,
}

/// Where pieces come out. Dropped, it ends the reading.
pub(super) struct Coming {
    full: Receiver<io::Result<Piece>>,
    used: Sender<Vec<u8>>,
}

/// Both ends.
pub(super) fn channel() -> (Reading, Coming) {
    let (full, coming) = mpsc::sync_channel(PIECES);
    let (empty, used) = mpsc::channel();
    let coming = Coming {
        full: coming,
        used: empty,
    };
    (Reading { full, used }, coming)
}

impl Coming {
    /// The next piece; none at the end of the log.
    pub(super) fn next(&self) -> Option<io::Result<Piece>> {
        self.full.recv().ok()
    }

    /// A piece was used.
    pub(super) fn give_back(&self, piece: Piece) {
        // The other side may have ended: then nobody needs it.
        let _ = self.used.send(piece.into_owner());
    }
}

impl Reading {
    /// Gives a log in pieces until it ends, or nobody takes them. Where reading fails, what was
    /// read before comes first.
    pub(super) fn all(self, mut log: impl BufRead) {
        let mut cut = Vec::new();
        loop {
            let mut text = self.used.try_recv().unwrap_or_default();
            let read = fill(&mut log, &mut text, &mut cut);
            let is_over = text.is_empty();
            if !is_over && self.full.send(Ok(Piece::of(text))).is_err() {
                return;
            }
            if let Err(error) = read {
                // Nobody may listen any more.
                let _ = self.full.send(Err(error));
                return;
            }
            if is_over {
                return;
            }
        }
    }
}

/// Reads whole lines into `text`; `cut` is the beginning of the line that the last piece ended in.
fn fill(log: &mut impl BufRead, text: &mut Vec<u8>, cut: &mut Vec<u8>) -> io::Result<()> {
    text.clear();
    text.append(cut);
    loop {
        let read = log.by_ref().take(PIECE as u64).read_to_end(text);
        let end = memchr::memrchr(b'\n', text);
        match (end, read) {
            (Some(end), read) => {
                cut.extend_from_slice(&text[end + 1..]);
                text.truncate(end + 1);
                return read.map(|_| ());
            }
            (None, Err(error)) => return Err(error),
            (None, Ok(0)) => return Ok(()),
            // A line without an end would take all memory; strace writes none so long. The rest of
            // it is odd.
            (None, Ok(_)) if text.len() >= MAX_LINE => return Ok(()),
            (None, Ok(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(log: impl BufRead + Send) -> (Vec<Vec<u8>>, Option<io::Error>) {
        let (reading, coming) = channel();
        let mut lines = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(move || reading.all(log));
            while let Some(piece) = coming.next() {
                match piece {
                    Ok(piece) => {
                        lines.extend(piece.lines().iter().map(|(text, _)| text.to_vec()));
                        coming.give_back(piece);
                    }
                    Err(error) => return (lines, Some(error)),
                }
            }
            (lines, None)
        })
    }

    #[test]
    fn lines_come_whole_however_they_are_read() {
        let text = b"one\ntwo\n\n7 close(3) = 0\nlast";
        let whole = [b"one".as_slice(), b"two", b"", b"7 close(3) = 0", b"last"];
        for size in 1..=text.len() {
            let (lines, error) = of(io::BufReader::with_capacity(size, text.as_slice()));
            assert_eq!(lines, whole);
            assert!(error.is_none());
        }
        assert!(of(io::empty()).0.is_empty());
        assert_eq!(of(b"\n".as_slice()).0, [b""]);
        let many = b"7 close(3) = 0\n".repeat(3 * PIECE / 15);
        assert_eq!(of(many.as_slice()).0.len(), 3 * PIECE / 15);
    }

    /// A log whose compression breaks off.
    struct Broken<'a>(&'a [u8]);

    impl Read for Broken<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            match self.0.read(into)? {
                0 => Err(io::Error::other("broken")),
                read => Ok(read),
            }
        }
    }

    #[test]
    fn what_stands_before_a_fault_is_read() {
        let (lines, error) = of(io::BufReader::new(Broken(b"one\ntwo\nthr")));
        assert_eq!(lines, [b"one".as_slice(), b"two"]);
        assert_eq!(error.map(|error| error.to_string()).as_deref(), Some("broken"));
    }
}
