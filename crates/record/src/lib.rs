//! Storage of transactions: batches -> Arrow segments during a run -> Parquet after it.
//!
//! Segments are Arrow IPC *stream* files: after a kill, a stream is readable up to its last
//! complete batch. A Parquet file is not, because its index is at the end. Parquet is the permanent
//! form: it has a fifth of the size, and every table tool reads it. There is one file per step:
//! [`columns`] (batch to columns), [`segment`] (columns to files), [`recorder`] (the thread between
//! testers and files), [`read`] (files back to columns), [`merge`] (all agents to Parquet).
#![forbid(unsafe_code)]

mod clock_events;
mod columns;
mod error;
mod files;
pub mod histogram;
pub mod merge;
mod parquet_file;
pub mod read;
pub mod recorder;
mod row_group;
mod seconds;
pub mod segment;
mod start;
pub mod synthetic;
pub mod tables;
mod tally;
mod timeline;

pub use clock_events::ClockEvent;
pub use columns::{Columns, Names};
pub use error::RecordError;
pub use files::{sync_directory, write_json, write_json_soon};
pub use histogram::Times;
pub use merge::{Conversion, convert};
pub use recorder::{LaneSink, Recorder, RecorderConfig, RecordingTotals};
pub use seconds::SecondMerger;
pub use segment::is_segment_of;
pub use start::{AgentStart, START_FILE, Start};
pub use tables::{ClockReading, MetricWriter, Sample, SideWriter};
pub use tally::Tally;
pub use timeline::{AgentClock, CLOCK_FILE, Clocks};
