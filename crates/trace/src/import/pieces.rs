//! Splits a log into pieces of whole lines, which a thread of its own reads and parses.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};

use self_cell::self_cell;

use crate::text::line::{self, Line};

/// Maximum number of pieces that wait for the receiver.
const MAX_PIECES: usize = 4;
/// Length of a piece, bytes. With its parsed lines it fits into the cache of a core.
const PIECE_BYTES: usize = 1 << 17;
/// Maximum length of a line, bytes. A longer line counts as several.
const MAX_LINE: usize = 64 * 1024 * 1024;

/// Lines without line feeds, each with its parsed form; None if strace does not write such a line.
type Lines<'a> = Vec<(&'a [u8], Option<Line<'a>>)>;

self_cell!(
    /// Whole lines of a log, parsed.
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
                let line = &text[from..to];
                lines.push((line, line::parse(line)));
                from = to + 1;
            }
            lines
        })
    }

    /// Whether the last line has no line feed.
    pub(super) fn is_cut(&self) -> bool {
        self.borrow_owner().last() != Some(&b'\n')
    }

    /// The lines in their order.
    pub(super) fn lines(&self) -> &Lines<'_> {
        self.borrow_dependent()
    }
}

/// The end of the channel in the reading thread. It sends pieces and receives their memory for
/// reuse.
pub(super) struct PieceSender {
    full: SyncSender<io::Result<Piece>>,
    used: Receiver<Vec<u8>>,
}

/// The end of the channel that receives pieces. If it is dropped, the reading thread ends.
pub(super) struct PieceReceiver {
    full: Receiver<io::Result<Piece>>,
    used: Sender<Vec<u8>>,
}

/// Both ends of a channel.
pub(super) fn channel() -> (PieceSender, PieceReceiver) {
    let (full, receiver) = mpsc::sync_channel(MAX_PIECES);
    let (empty, used) = mpsc::channel();
    let receiver = PieceReceiver {
        full: receiver,
        used: empty,
    };
    (PieceSender { full, used }, receiver)
}

impl PieceReceiver {
    /// The next piece; None at the end of the log.
    pub(super) fn next(&self) -> Option<io::Result<Piece>> {
        self.full.recv().ok()
    }

    /// Returns the memory of a piece for reuse.
    pub(super) fn give_back(&self, piece: Piece) {
        // The sender may have ended; then the memory is not needed.
        let _ = self.used.send(piece.into_owner());
    }
}

impl PieceSender {
    /// Sends a log in pieces until it ends or the receiver is dropped. If reading fails, the lines
    /// before the error are sent first.
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
                // The receiver may have been dropped.
                let _ = self.full.send(Err(error));
                return;
            }
            if is_over {
                return;
            }
        }
    }
}

/// Reads whole lines into `text`. `cut` contains the start of the line in which the previous piece
/// ended.
fn fill(log: &mut impl BufRead, text: &mut Vec<u8>, cut: &mut Vec<u8>) -> io::Result<()> {
    text.clear();
    text.append(cut);
    loop {
        let read = log.by_ref().take(PIECE_BYTES as u64).read_to_end(text);
        let end = memchr::memrchr(b'\n', text);
        match (end, read) {
            (Some(end), read) => {
                cut.extend_from_slice(&text[end + 1..]);
                text.truncate(end + 1);
                return read.map(|_| ());
            }
            (None, Err(error)) => return Err(error),
            (None, Ok(0)) => return Ok(()),
            // Without this limit a line without end would use all memory. strace writes no such
            // line; its remainder counts as malformed.
            (None, Ok(_)) if text.len() >= MAX_LINE => return Ok(()),
            (None, Ok(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(log: impl BufRead + Send) -> (Vec<Vec<u8>>, Option<io::Error>) {
        let (sender, receiver) = channel();
        let mut lines = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(move || sender.all(log));
            while let Some(piece) = receiver.next() {
                match piece {
                    Ok(piece) => {
                        lines.extend(piece.lines().iter().map(|(text, _)| text.to_vec()));
                        receiver.give_back(piece);
                    }
                    Err(error) => return (lines, Some(error)),
                }
            }
            (lines, None)
        })
    }

    #[test]
    fn lines_are_whole_for_every_read_size() {
        let text = b"one\ntwo\n\n7 close(3) = 0\nlast";
        let whole = [b"one".as_slice(), b"two", b"", b"7 close(3) = 0", b"last"];
        for size in 1..=text.len() {
            let (lines, error) = of(io::BufReader::with_capacity(size, text.as_slice()));
            assert_eq!(lines, whole);
            assert!(error.is_none());
        }
        assert!(of(io::empty()).0.is_empty());
        assert_eq!(of(b"\n".as_slice()).0, [b""]);
        let many = b"7 close(3) = 0\n".repeat(3 * PIECE_BYTES / 15);
        assert_eq!(of(many.as_slice()).0.len(), 3 * PIECE_BYTES / 15);
    }

    /// A log whose decompression fails.
    struct BrokenReader<'a>(&'a [u8]);

    impl Read for BrokenReader<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            match self.0.read(into)? {
                0 => Err(io::Error::other("broken")),
                read => Ok(read),
            }
        }
    }

    #[test]
    fn lines_before_a_read_error_are_returned() {
        let (lines, error) = of(io::BufReader::new(BrokenReader(b"one\ntwo\nthr")));
        assert_eq!(lines, [b"one".as_slice(), b"two"]);
        assert_eq!(error.map(|error| error.to_string()).as_deref(), Some("broken"));
    }
}
