//! How long a run would have taken without tracing, for whoever needs no profile: the same
//! estimate.

use super::chosen::{Choice, Chooser};
use super::json::Times;
use super::time::{InPiece, Wall};
use super::waits;
use crate::cost::{Cost, Slower};
use crate::event::Event;
use crate::header::Header;
use crate::names::Names;

/// Takes the events of a trace in their order.
#[derive(Debug)]
pub struct Untraced {
    cost: Cost,
    is_corrected: bool,
    chooser: Chooser,
    wall: Wall,
    /// By thread.
    pieces: Vec<InPiece>,
}

impl Untraced {
    /// Of a trace that nothing of has been read yet.
    pub fn new(header: &Header) -> Self {
        Self {
            cost: Cost::of(header.calibration.as_ref()),
            is_corrected: header.calibration.is_some(),
            chooser: Chooser::new(Choice::default()),
            wall: Wall::default(),
            pieces: Vec::new(),
        }
    }

    /// Takes the next event; `slower` is what [`crate::cost::Drift`] says of it.
    pub fn take(&mut self, names: &Names, event: &Event, slower: Slower) {
        if !event.call.is_made() {
            return;
        }
        let place = event.thread.index();
        if place >= self.pieces.len() {
            self.pieces.resize(place + 1, InPiece::default());
        }
        let subject = self.chooser.subject(names, event.file, event.path);
        let piece = &mut self.pieces[place];
        self.wall
            .add(event, waits(event, subject), piece, &self.cost, slower);
    }

    /// The times of the run, as a profile has them.
    pub fn finish(mut self) -> Times {
        self.wall.times(self.is_corrected)
    }
}
