//! Reads events from a file.

use std::io::Read;

use super::block::Decoder;
use super::bytes::Bytes;
use super::frame::{self, NextFrame, Source};
use super::{FileError, tables};
use crate::event::Event;
use crate::header::{FORMAT, Footer, Header};
use crate::names::Names;

/// The first bytes of every version. The number and a line feed follow.
const BEGIN: &str = "plimsoll.trace/";

/// Reads a trace file in order. It holds one block and the tables. `input` needs no buffer.
pub struct Reader<R: Read> {
    source: Source<R>,
    header: Header,
    tables: tables::Reader,
    decoder: Decoder,
    events: Vec<Event>,
    body: Vec<u8>,
    /// Number of events that were read, including those that were left out.
    read: u64,
    unknown: u64,
    end: Option<End>,
}

enum End {
    Whole(Footer),
    Cut,
    Damaged,
}

impl<R: Read> Reader<R> {
    /// Reads the header. Another version than [`FORMAT`] is refused.
    pub fn new(mut input: R) -> Result<Self, FileError> {
        let mut body = Vec::new();
        let begin = first_line(&mut input, &mut body)?;
        let mut source = Source::new(input, begin);
        let header = match source.read(&mut body)? {
            NextFrame::Frame(frame::kind::HEADER) => {
                serde_json::from_slice(&body).map_err(|_| FileError::Damaged {
                    at: begin,
                    why: "the header cannot be parsed",
                })?
            }
            NextFrame::Frame(_) => {
                return Err(FileError::Damaged {
                    at: begin,
                    why: "the first frame is not a header",
                });
            }
            NextFrame::Cut => return Err(FileError::NoHeader),
        };
        Ok(Self {
            source,
            header,
            tables: tables::Reader::new()?,
            decoder: Decoder::new()?,
            events: Vec::new(),
            body,
            read: 0,
            unknown: 0,
            end: None,
        })
    }

    /// The header of the trace.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The tables of the events so far. They contain all ids of these events and of the tables
    /// themselves.
    pub fn names(&self) -> &Names {
        &self.tables.names
    }

    /// The tables, after the last event was read.
    pub fn into_names(self) -> Names {
        self.tables.names
    }

    /// The next events in the order of writing, at most [`super::BLOCK`]. None at the end of the
    /// trace ([`Self::footer`]), at the end of a cut file ([`Self::cut_at`]), and after an error.
    #[allow(
        clippy::should_implement_trait,
        reason = "the result borrows from the reader, and reading may fail"
    )]
    pub fn next(&mut self) -> Result<Option<&[Event]>, FileError> {
        while self.end.is_none() {
            let at = self.source.at;
            let has_events = self.step().map_err(|error| {
                self.end = Some(End::Damaged);
                match error {
                    Fault::Known(error) => error,
                    Fault::Damaged(why) => FileError::Damaged { at, why },
                }
            })?;
            if has_events {
                return Ok(Some(&self.events));
            }
        }
        Ok(None)
    }

    /// The events that [`Self::next`] returned last, for a caller that also needs the tables.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The footer. None before it was read, and if the file has none.
    pub fn footer(&self) -> Option<&Footer> {
        match &self.end {
            Some(End::Whole(footer)) => Some(footer),
            _ => None,
        }
    }

    /// For a file without its end (its writer was killed, or the file was cut): the number of bytes
    /// that are complete. All their events were returned. None before the end, and for a complete
    /// file.
    pub fn cut_at(&self) -> Option<u64> {
        matches!(self.end, Some(End::Cut)).then_some(self.source.at)
    }

    /// Number of events so far that were left out because this build does not know their calls.
    pub fn unknown_calls(&self) -> u64 {
        self.unknown
    }

    /// Reads a frame. Returns true if it contained events.
    fn step(&mut self) -> Result<bool, Fault> {
        let has_events = match self.source.read(&mut self.body)? {
            NextFrame::Cut => {
                self.end = Some(End::Cut);
                return Ok(false);
            }
            NextFrame::Frame(frame::kind::NAMES) => {
                self.tables.take(&self.body)?;
                false
            }
            NextFrame::Frame(frame::kind::EVENTS) => self.read_events()?,
            NextFrame::Frame(frame::kind::FOOTER) => {
                self.read_footer()?;
                false
            }
            NextFrame::Frame(frame::kind::HEADER) => return Err(Fault::Damaged("there is a second header")),
            NextFrame::Frame(_) => false,
        };
        Ok(has_events)
    }

    fn read_events(&mut self) -> Result<bool, Fault> {
        let body = Bytes(&self.body);
        let (unknown, needed) = self.decoder.read(body, &self.tables.calls, &mut self.events)?;
        if tables::check_lengths(tables::lengths(&self.tables.names), needed).is_err() {
            return Err(Fault::Damaged(
                "an event refers to an entry that its table does not contain",
            ));
        }
        self.unknown += unknown as u64;
        self.read += (unknown + self.events.len()) as u64;
        Ok(!self.events.is_empty())
    }

    fn read_footer(&mut self) -> Result<(), Fault> {
        let footer: Footer =
            serde_json::from_slice(&self.body).map_err(|_| Fault::Damaged("the footer cannot be parsed"))?;
        if footer.events != self.read {
            return Err(Fault::Damaged(
                "the number of events in the footer differs from that in the file",
            ));
        }
        if !self.source.check_end()? {
            return Err(Fault::Damaged("data follow the footer"));
        }
        self.end = Some(End::Whole(footer));
        Ok(())
    }
}

/// The reason why a frame was not read.
enum Fault {
    Known(FileError),
    Damaged(&'static str),
}

impl<E: Into<FileError>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Known(error.into())
    }
}

impl From<&'static str> for Fault {
    fn from(why: &'static str) -> Self {
        Self::Damaged(why)
    }
}

/// Reads the version and returns its length in bytes.
pub(super) fn first_line(input: &mut impl Read, line: &mut Vec<u8>) -> Result<u64, FileError> {
    if !frame::fill(input, BEGIN.len(), line)? || line != BEGIN.as_bytes() {
        let is_begin = !line.is_empty() && BEGIN.as_bytes().starts_with(line);
        return Err(if is_begin {
            FileError::NoHeader
        } else {
            FileError::NotATrace
        });
    }
    let mut number = String::new();
    let mut byte = Vec::new();
    while number.len() < 10 {
        if !frame::fill(input, 1, &mut byte)? {
            return Err(FileError::NoHeader);
        }
        match byte[0] {
            b'\n' if format!("{BEGIN}{number}") == FORMAT => return Ok(FORMAT.len() as u64 + 1),
            b'\n' if !number.is_empty() => {
                return Err(FileError::Version {
                    found: format!("{BEGIN}{number}"),
                });
            }
            digit @ b'0'..=b'9' => number.push(char::from(digit)),
            _ => break,
        }
    }
    Err(FileError::NotATrace)
}
