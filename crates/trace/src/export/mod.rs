//! A trace in other programs' formats: `docs/traces-export.md` tells what each keeps and loses.
//!
//! An [`Export`] takes the events of a trace one by one and writes as it goes: what it holds
//! depends on the tables of the trace and on what is open at one time, not on its length. It is
//! given the tables as they are at the trace's *end*, since what is learnt late of a file or a
//! thread (a name, a process) is to stand in the first rows, too: a trace is read twice.

mod access;
pub mod csv;
pub mod dxt;
mod escape;
pub mod fio;
pub mod parquet;
mod row;
#[cfg(test)]
mod sample;
mod sort;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::event::Event;

pub use csv::Csv;
pub use dxt::Dxt;
pub use fio::Fio;
pub use parquet::Parquet;

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The operating system refused.
    #[error("the export cannot be written: {0}")]
    Io(#[from] std::io::Error),
    /// The Parquet file could not be built.
    #[error("the Parquet file cannot be written: {0}")]
    Parquet(#[from] ::parquet::errors::ParquetError),
    /// Its columns do not fit together: a mistake of ours.
    #[error("building columns: {0}")]
    Columns(#[from] arrow_schema::ArrowError),
    /// Something of the trace has no JSON.
    #[error("the header of the trace cannot be written: {0}")]
    Json(#[from] serde_json::Error),
    /// fio splits its lines at white space.
    #[error(
        "fio reads no names with white space, and this is to stand before all: {0:?}. Choose another directory"
    )]
    Root(String),
}

/// What became of the events of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Events that were taken.
    pub events: u64,
    /// Rows, or lines of accesses, that were written.
    pub written: u64,
    /// Events, or halves of them where data went from file to file, that the format has no place
    /// for: by the reason. The keys are those of `docs/traces-export.md`.
    pub left_out: BTreeMap<&'static str, u64>,
    /// What was written otherwise than it was recorded: by what was changed.
    pub changed: BTreeMap<&'static str, u64>,
}

impl Tally {
    fn leave_out(&mut self, reason: &'static str) {
        *self.left_out.entry(reason).or_default() += 1;
    }

    fn change(&mut self, what: &'static str) {
        *self.changed.entry(what).or_default() += 1;
    }
}

/// Writes events in a format.
pub trait Export {
    /// Takes the next event, in the order of the trace.
    ///
    /// # Errors
    /// [`ExportError`]; nothing more can be written then.
    fn event(&mut self, event: &Event) -> Result<(), ExportError>;

    /// Writes what is still to be written. What lies in the buffers of the output itself stays
    /// there.
    ///
    /// # Errors
    /// [`ExportError`].
    fn finish(self: Box<Self>) -> Result<Tally, ExportError>;
}
