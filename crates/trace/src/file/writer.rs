//! Writes events to a file. [`Front`] collects them into batches. [`Back`] encodes, compresses and
//! writes the batches, and may run on another thread.

use std::io::Write;

use super::block::Encoder;
use super::frame::{self, Frames};
use super::tables::{self, Entries, Lengths};
use super::walk::Rule;
use super::{BLOCK, FileError};
use crate::event::Event;
use crate::header::{FORMAT, Footer, Header};
use crate::names::Names;

/// A block of events that is to be written, and the entries that were added to the tables since the
/// previous block.
#[derive(Default)]
pub struct Batch {
    entries: Entries,
    /// Lengths of the tables when the batch was full.
    lengths: Lengths,
    /// Number of calls that have a number in the file.
    calls: usize,
    /// Each event with the number and the rule of its call.
    events: Vec<(Event, u32, Rule)>,
}

/// Collects events.
#[derive(Default)]
pub struct Front {
    tables: tables::Writer,
    batch: Batch,
}

impl Front {
    /// Adds an event. A full batch is passed to `give`, which must leave an empty one. It includes
    /// the entries of `names` that were added or changed since the previous batch.
    ///
    /// # Errors
    /// [`FileError`] if the tables are those of another trace, and the errors of `give`.
    pub fn add(
        &mut self,
        names: &mut Names,
        event: &Event,
        give: &mut impl FnMut(&mut Batch) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        let call = self.tables.number(event.call);
        let events = &mut self.batch.events;
        events.push((*event, call, Rule::of(event.call.effect)));
        if events.len() == BLOCK {
            self.cut(names, give)?;
        }
        Ok(())
    }

    /// Passes on the current batch, also if it is not full.
    ///
    /// # Errors
    /// Those of [`Self::add`].
    pub fn cut(
        &mut self,
        names: &mut Names,
        give: &mut impl FnMut(&mut Batch) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        self.tables.add_entries(names, &mut self.batch.entries)?;
        self.batch.lengths = tables::lengths(names);
        self.batch.calls = self.tables.calls();
        give(&mut self.batch)
    }
}

/// Writes batches in their order.
pub struct Back<W: Write> {
    out: Frames<W>,
    resolution: u64,
    packer: tables::Packer,
    encoder: Encoder,
    /// Number of events that were written.
    written: u64,
    frame: Vec<u8>,
}

impl<W: Write> Back<W> {
    /// Writes the header: see [`Writer::new`].
    ///
    /// # Errors
    /// [`FileError`].
    pub fn new(mut out: W, header: &Header) -> Result<Self, FileError> {
        let header = Header {
            format: FORMAT.to_owned(),
            ..header.clone()
        };
        let mut frame = Vec::new();
        frame::begin(&mut frame);
        serde_json::to_writer(&mut frame, &header)?;
        // A number that is not finite is written as null, which cannot be read as a number.
        serde_json::from_slice::<Header>(&frame[frame::HEAD..])?;
        out.write_all(format!("{FORMAT}\n").as_bytes())?;
        let mut out = Frames::new(out);
        out.write(frame::kind::HEADER, &mut frame)?;
        Ok(Self {
            out,
            resolution: header.resolution_ns,
            packer: tables::Packer::new()?,
            encoder: Encoder::new()?,
            written: 0,
            frame,
        })
    }

    /// Writes a batch and empties it.
    ///
    /// # Errors
    /// [`FileError`]. Nothing more may be written after it.
    pub fn put(&mut self, batch: &mut Batch) -> Result<(), FileError> {
        let (unit, needed) = self.encoder.take(&batch.events, batch.calls, self.resolution);
        tables::check_lengths(batch.lengths, needed)?;
        self.packer
            .put(&mut batch.entries, &mut self.out, &mut self.frame)?;
        let events = batch.events.len();
        if events > 0 {
            frame::begin(&mut self.frame);
            self.encoder.put(events, unit, &mut self.frame)?;
            self.out.write(frame::kind::EVENTS, &mut self.frame)?;
        }
        self.written += events as u64;
        batch.events.clear();
        Ok(())
    }

    /// Flushes all data to the operating system.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn flush(&mut self) -> Result<(), FileError> {
        self.out.out.flush()?;
        Ok(())
    }

    /// Writes the footer and flushes. Its `events` is set to the number of written events.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn finish(mut self, footer: &Footer) -> Result<W, FileError> {
        let footer = Footer {
            events: self.written,
            ..footer.clone()
        };
        frame::begin(&mut self.frame);
        serde_json::to_writer(&mut self.frame, &footer)?;
        self.out.write(frame::kind::FOOTER, &mut self.frame)?;
        self.flush()?;
        Ok(self.out.out)
    }
}

/// Writes a trace file in order. After an error the file ends there, and nothing more may be
/// written to it.
///
/// If it is dropped without [`Self::finish`], the file has no end and lacks the events of the
/// unfinished block.
pub struct Writer<W: Write> {
    front: Front,
    back: Back<W>,
}

impl<W: Write> Writer<W> {
    /// Writes the header. Its `format` is set to [`FORMAT`]. Each block is one call of `write_all`
    /// of about 50 kB, so `out` needs no buffer.
    pub fn new(out: W, header: &Header) -> Result<Self, FileError> {
        Ok(Self {
            front: Front::default(),
            back: Back::new(out, header)?,
        })
    }

    /// Adds an event. A full block is written, with the entries of `names` that were added or
    /// changed since the previous one.
    pub fn write(&mut self, names: &mut Names, event: &Event) -> Result<(), FileError> {
        let Self { front, back } = self;
        front.add(names, event, &mut |batch| back.put(batch))
    }

    /// Writes the current block, also if it is not full, and flushes, so that the events so far
    /// survive a kill. Small blocks need more bytes per event.
    pub fn flush(&mut self, names: &mut Names) -> Result<(), FileError> {
        self.cut(names)?;
        self.back.flush()
    }

    /// Writes the current block and the footer, and flushes. The footer's `events` is set to the
    /// number of written events.
    pub fn finish(mut self, names: &mut Names, footer: &Footer) -> Result<W, FileError> {
        self.cut(names)?;
        self.back.finish(footer)
    }

    fn cut(&mut self, names: &mut Names) -> Result<(), FileError> {
        let Self { front, back } = self;
        front.cut(names, &mut |batch| back.put(batch))
    }

    /// Both parts, so that the second one can run on another thread.
    pub fn parts(&mut self) -> (&mut Front, &mut Back<W>) {
        (&mut self.front, &mut self.back)
    }
}
