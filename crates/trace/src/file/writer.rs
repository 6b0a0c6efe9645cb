//! Events into a file.

use std::io::Write;

use super::block::Encoder;
use super::frame::{self, Frames};
use super::walk::Rule;
use super::{BLOCK, FileError, tables};
use crate::event::Event;
use crate::header::{FORMAT, Footer, Header};
use crate::names::Names;

/// Writes a trace file, from front to back. After an error the file ends there: nothing more is to be written to it.
///
/// Dropped without [`Self::finish`], it leaves a file without its end, and without the events that no block was made of yet.
pub struct Writer<W: Write> {
    out: Frames<W>,
    resolution: u64,
    tables: tables::Writer,
    encoder: Encoder,
    /// Of the block that is begun: each event with its call's number and rule.
    block: Vec<(Event, u32, Rule)>,
    /// Events that are written.
    written: u64,
    frame: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Writes the header. Its `format` is set to [`FORMAT`]. Each block is one call of `write_all`, some 50 kB: `out` needs no buffer.
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
            tables: tables::Writer::new()?,
            encoder: Encoder::new()?,
            block: Vec::with_capacity(BLOCK),
            written: 0,
            frame,
        })
    }

    /// Adds an event. When a block is full it goes out, with what was added to `names` or changed in them since the last one.
    pub fn write(&mut self, names: &mut Names, event: &Event) -> Result<(), FileError> {
        let call = self.tables.number(event.call);
        self.block.push((*event, call, Rule::of(event.call.effect)));
        if self.block.len() == BLOCK {
            self.send(names)?;
        }
        Ok(())
    }

    /// Writes the block that is begun, however small, and flushes: what was given so far survives a kill. Small blocks cost more bytes.
    pub fn flush(&mut self, names: &mut Names) -> Result<(), FileError> {
        self.send(names)?;
        self.out.out.flush()?;
        Ok(())
    }

    /// Writes what is left, then the footer, whose `events` is set to what was written, and flushes.
    pub fn finish(mut self, names: &mut Names, footer: &Footer) -> Result<W, FileError> {
        self.send(names)?;
        let footer = Footer {
            events: self.written,
            ..footer.clone()
        };
        frame::begin(&mut self.frame);
        serde_json::to_writer(&mut self.frame, &footer)?;
        self.out.write(frame::kind::FOOTER, &mut self.frame)?;
        self.out.out.flush()?;
        Ok(self.out.out)
    }

    fn send(&mut self, names: &mut Names) -> Result<(), FileError> {
        let (unit, needed) = self
            .encoder
            .take(&self.block, self.tables.calls(), self.resolution);
        tables::hold(names, needed)?;
        self.tables.write(names, &mut self.out, &mut self.frame)?;
        let events = self.block.len();
        if events > 0 {
            frame::begin(&mut self.frame);
            self.encoder.put(events, unit, &mut self.frame)?;
            self.out.write(frame::kind::EVENTS, &mut self.frame)?;
        }
        self.written += events as u64;
        self.block.clear();
        Ok(())
    }
}
