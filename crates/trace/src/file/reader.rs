//! Events from a file.

use std::io::Read;

use super::block::Decoder;
use super::bytes::Bytes;
use super::frame::{self, NextFrame, Source};
use super::{FileError, tables};
use crate::event::Event;
use crate::header::{FORMAT, Footer, Header};
use crate::names::Names;

/// What every version begins with; its number and the end of the line follow.
const BEGIN: &str = "plimsoll.trace/";

/// Reads a trace file, from front to back. It holds a block and the tables; `input` needs no
/// buffer.
pub struct Reader<R: Read> {
    source: Source<R>,
    header: Header,
    tables: tables::Reader,
    decoder: Decoder,
    events: Vec<Event>,
    body: Vec<u8>,
    /// Events that were read, with those that were left out.
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
    /// Reads the header. A greater version is refused.
    pub fn new(mut input: R) -> Result<Self, FileError> {
        let mut body = Vec::new();
        let begin = first_line(&mut input, &mut body)?;
        let mut source = Source::new(input, begin);
        let header = match source.read(&mut body)? {
            NextFrame::Frame(frame::kind::HEADER) => {
                serde_json::from_slice(&body).map_err(|_| FileError::Damaged {
                    at: begin,
                    why: "the header is not one",
                })?
            }
            NextFrame::Frame(_) => {
                return Err(FileError::Damaged {
                    at: begin,
                    why: "there is no header",
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

    /// What the trace says of itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What the ids stand for of the events that were read. All ids of these events, and of these
    /// tables, are in them.
    pub fn names(&self) -> &Names {
        &self.tables.names
    }

    /// The same, when nothing more is to be read.
    pub fn into_names(self) -> Names {
        self.tables.names
    }

    /// The next events in the order they were written, at most [`super::BLOCK`]; None at the end,
    /// be it that of the trace ([`Self::footer`]) or of what there is of it ([`Self::cut_at`]), and
    /// again after an error.
    #[allow(clippy::should_implement_trait, reason = "it lends, and may fail")]
    pub fn next(&mut self) -> Result<Option<&[Event]>, FileError> {
        while self.end.is_none() {
            let at = self.source.at;
            let found = self.step().map_err(|error| {
                self.end = Some(End::Damaged);
                match error {
                    Fault::Known(error) => error,
                    Fault::Wrong(why) => FileError::Damaged { at, why },
                }
            })?;
            if found {
                return Ok(Some(&self.events));
            }
        }
        Ok(None)
    }

    /// What [`Self::next`] has given last, for who needs the tables beside it.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// How the trace ended. None as long as that was not read, and where it never was written.
    pub fn footer(&self) -> Option<&Footer> {
        match &self.end {
            Some(End::Whole(footer)) => Some(footer),
            _ => None,
        }
    }

    /// In a file without its end, because its writer was killed or it was cut, how many of its
    /// bytes are whole. Their events were all given. None while there is more, and in a whole file.
    pub fn cut_at(&self) -> Option<u64> {
        matches!(self.end, Some(End::Cut)).then_some(self.source.at)
    }

    /// Events that were left out so far, as this build does not know their calls.
    pub fn unknown_calls(&self) -> u64 {
        self.unknown
    }

    /// Reads a frame. True where it has brought events.
    fn step(&mut self) -> Result<bool, Fault> {
        let found = match self.source.read(&mut self.body)? {
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
            NextFrame::Frame(frame::kind::HEADER) => return Err(Fault::Wrong("a second header")),
            NextFrame::Frame(_) => false,
        };
        Ok(found)
    }

    fn read_events(&mut self) -> Result<bool, Fault> {
        let body = Bytes(&self.body);
        let (unknown, needed) = self.decoder.read(body, &self.tables.calls, &mut self.events)?;
        if tables::hold(tables::lengths(&self.tables.names), needed).is_err() {
            return Err(Fault::Wrong("an event names what no table has"));
        }
        self.unknown += unknown as u64;
        self.read += (unknown + self.events.len()) as u64;
        Ok(!self.events.is_empty())
    }

    fn read_footer(&mut self) -> Result<(), Fault> {
        let footer: Footer =
            serde_json::from_slice(&self.body).map_err(|_| Fault::Wrong("the footer is not one"))?;
        if footer.events != self.read {
            return Err(Fault::Wrong("the footer counts other events than there are"));
        }
        if !self.source.check_end()? {
            return Err(Fault::Wrong("bytes follow the end"));
        }
        self.end = Some(End::Whole(footer));
        Ok(())
    }
}

/// Why a frame was not read.
enum Fault {
    Known(FileError),
    Wrong(&'static str),
}

impl<E: Into<FileError>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Known(error.into())
    }
}

impl From<&'static str> for Fault {
    fn from(why: &'static str) -> Self {
        Self::Wrong(why)
    }
}

/// Reads the version, and tells how many bytes that were.
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
