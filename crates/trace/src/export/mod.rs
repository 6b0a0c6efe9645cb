//! Writes a trace in the formats of other programs. `docs/traces-export.md` states what each format
//! contains and loses.
//!
//! An [`Export`] reads the events of a trace one by one and writes immediately. Its memory depends
//! on the tables of the trace and on the number of files that are open at the same time, not on the
//! length of the trace. It gets the tables as they are at the *end* of the trace, because facts
//! that are known late (the path of a file, the process of a thread) must be in the first rows,
//! too. So a trace is read twice.

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

/// The error of an export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// Writing failed.
    #[error("cannot write the export: {0}")]
    Io(#[from] std::io::Error),
    /// The Parquet file could not be built.
    #[error("cannot write the Parquet file: {0}")]
    Parquet(#[from] ::parquet::errors::ParquetError),
    /// The columns are inconsistent: a fault of this program.
    #[error("cannot build the columns of the Parquet file, which is a fault of this program: {0}")]
    Columns(#[from] arrow_schema::ArrowError),
    /// The header of the trace cannot be represented in JSON.
    #[error("cannot write the header of the trace: {0}")]
    Json(#[from] serde_json::Error),
    /// The root directory contains white space, at which fio splits its lines.
    #[error(
        "--root: fio cannot read paths with white space, got {0:?}. Choose a directory without white space"
    )]
    Root(String),
}

/// The numbers of written, omitted and changed events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Number of events.
    pub events: u64,
    /// Number of rows, or of lines with accesses.
    pub written: u64,
    /// Number of events, or of sides of transfers between files, that the format cannot represent,
    /// by reason. The keys are documented in `docs/traces-export.md`.
    pub left_out: BTreeMap<&'static str, u64>,
    /// Number of events that were written with a changed value, by kind of change.
    pub changed: BTreeMap<&'static str, u64>,
}

impl Tally {
    fn leave_out(&mut self, reason: &'static str) {
        *self.left_out.entry(reason).or_default() += 1;
    }

    fn change(&mut self, kind: &'static str) {
        *self.changed.entry(kind).or_default() += 1;
    }
}

/// Writes events in a format.
pub trait Export {
    /// Writes the next event, in the order of the trace.
    ///
    /// # Errors
    /// [`ExportError`]. Nothing more can be written after it.
    fn event(&mut self, event: &Event) -> Result<(), ExportError>;

    /// Writes the remaining data. Buffers of the output itself are not flushed.
    ///
    /// # Errors
    /// [`ExportError`].
    fn finish(self: Box<Self>) -> Result<Tally, ExportError>;
}
