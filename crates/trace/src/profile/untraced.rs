//! Estimates the duration of a run without tracing, as in a profile, for callers that need no
//! profile.

use super::choice::{Choice, Chooser};
use super::is_waiting;
use super::json::Times;
use super::time::{ThreadPiece, Wall};
use crate::cost::{Cost, Slower};
use crate::event::Event;
use crate::header::Header;
use crate::names::Names;

/// Reads the events of a trace in their order.
#[derive(Debug)]
pub struct UntracedTime {
    cost: Cost,
    is_corrected: bool,
    chooser: Chooser,
    wall: Wall,
    /// By thread.
    pieces: Vec<ThreadPiece>,
}

impl UntracedTime {
    /// An estimate before the first event of a trace.
    pub fn new(header: &Header) -> Self {
        Self {
            cost: Cost::of(header.calibration.as_ref()),
            is_corrected: header.calibration.is_some(),
            chooser: Chooser::new(Choice::default()),
            wall: Wall::default(),
            pieces: Vec::new(),
        }
    }

    /// Reads the next event. `slower` is the result of [`crate::cost::Drift`] for it.
    pub fn take(&mut self, names: &Names, event: &Event, slower: Slower) {
        if !event.call.is_made() {
            return;
        }
        let thread = event.thread.index();
        if thread >= self.pieces.len() {
            self.pieces.resize(thread + 1, ThreadPiece::default());
        }
        let subject = self.chooser.subject(names, event.file, event.path);
        let piece = &mut self.pieces[thread];
        self.wall
            .add(event, is_waiting(event, subject), piece, &self.cost, slower);
    }

    /// The times of the run, as in a profile.
    pub fn finish(mut self) -> Times {
        self.wall.times(self.is_corrected)
    }
}
