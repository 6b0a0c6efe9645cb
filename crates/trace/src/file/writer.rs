//! Events into a file: [`Front`] collects them, [`Back`] puts full blocks into columns, compresses
//! and writes them. The second one may run on a thread of its own.

use std::io::Write;

use super::block::Encoder;
use super::frame::{self, Frames};
use super::tables::{self, Entries, Lengths};
use super::walk::Rule;
use super::{BLOCK, FileError};
use crate::event::Event;
use crate::header::{FORMAT, Footer, Header};
use crate::names::Names;

/// A block on its way into the file, and what the tables have that those before it had not.
#[derive(Default)]
pub struct Batch {
    entries: Entries,
    /// Of the tables as they were when it was full.
    lengths: Lengths,
    /// Numbers of calls that are given out.
    calls: usize,
    /// Each event with its call's number and rule.
    events: Vec<(Event, u32, Rule)>,
}

/// Collects events.
#[derive(Default)]
pub struct Front {
    tables: tables::Writer,
    batch: Batch,
}

impl Front {
    /// Adds an event. A batch that is full is given to `give`, which is to leave an empty one: with
    /// what was added to `names` or changed in them since the last one.
    ///
    /// # Errors
    /// [`FileError`]: the tables are those of another trace, or those of `give`.
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

    /// Gives away the batch that is begun, however small.
    ///
    /// # Errors
    /// Those of [`Self::add`].
    pub fn cut(
        &mut self,
        names: &mut Names,
        give: &mut impl FnMut(&mut Batch) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        self.tables.tell(names, &mut self.batch.entries)?;
        self.batch.lengths = tables::lengths(names);
        self.batch.calls = self.tables.calls();
        give(&mut self.batch)
    }
}

/// Writes batches, in their order.
pub struct Back<W: Write> {
    out: Frames<W>,
    resolution: u64,
    packer: tables::Packer,
    encoder: Encoder,
    /// Events that are written.
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
        // A number that is none is written as null, which is no number when it is read.
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
    /// [`FileError`]: the file ends there.
    pub fn put(&mut self, batch: &mut Batch) -> Result<(), FileError> {
        let (unit, needed) = self.encoder.take(&batch.events, batch.calls, self.resolution);
        tables::hold(batch.lengths, needed)?;
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

    /// Hands everything to the operating system.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn flush(&mut self) -> Result<(), FileError> {
        self.out.out.flush()?;
        Ok(())
    }

    /// Writes the footer, whose `events` is set to what was written, and flushes.
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

/// Writes a trace file, from front to back. After an error the file ends there: nothing more is to
/// be written to it.
///
/// Dropped without [`Self::finish`], it leaves a file without its end, and without the events that
/// no block was made of yet.
pub struct Writer<W: Write> {
    front: Front,
    back: Back<W>,
}

impl<W: Write> Writer<W> {
    /// Writes the header. Its `format` is set to [`FORMAT`]. Each block is one call of `write_all`,
    /// some 50 kB: `out` needs no buffer.
    pub fn new(out: W, header: &Header) -> Result<Self, FileError> {
        Ok(Self {
            front: Front::default(),
            back: Back::new(out, header)?,
        })
    }

    /// Adds an event. When a block is full it goes out, with what was added to `names` or changed
    /// in them since the last one.
    pub fn write(&mut self, names: &mut Names, event: &Event) -> Result<(), FileError> {
        let Self { front, back } = self;
        front.add(names, event, &mut |batch| back.put(batch))
    }

    /// Writes the block that is begun, however small, and flushes: what was given so far survives a
    /// kill. Small blocks cost more bytes.
    pub fn flush(&mut self, names: &mut Names) -> Result<(), FileError> {
        self.cut(names)?;
        self.back.flush()
    }

    /// Writes what is left, then the footer, whose `events` is set to what was written, and
    /// flushes.
    pub fn finish(mut self, names: &mut Names, footer: &Footer) -> Result<W, FileError> {
        self.cut(names)?;
        self.back.finish(footer)
    }

    fn cut(&mut self, names: &mut Names) -> Result<(), FileError> {
        let Self { front, back } = self;
        front.cut(names, &mut |batch| back.put(batch))
    }

    /// Both parts, for who runs the second one on another thread.
    pub fn parts(&mut self) -> (&mut Front, &mut Back<W>) {
        (&mut self.front, &mut self.back)
    }
}
