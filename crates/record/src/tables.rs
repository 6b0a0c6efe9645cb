//! The narrow tables in addition to the transactions: named metrics, samples of the monitors,
//! readings of the clocks, probes.

use std::path::Path;
use std::sync::Arc;

use arrow_array::types::UInt16Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt16Array, UInt32Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use plimsoll_clock::{Probe, Via};
use plimsoll_model::{Codes, MetricRow, format};

use crate::RecordError;
use crate::segment::{Origin, ROTATE_BYTES, SegmentWriter};

/// One value that a monitor measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// End of the interval that the value describes, raw clock of the agent, ns.
    pub t_ns: i64,
    /// What was measured: `host`, `service:NAME`, `testers` or `monitor`.
    pub component: Arc<str>,
    /// Name of the metric, such as `cpu.busy` or `memory.rss`. The crate `monitor` has the list.
    pub metric: &'static str,
    /// Core, device, interface or thread; empty for the whole component.
    pub part: Arc<str>,
    /// Value, in the unit of the metric.
    pub value: f64,
}

/// The three clocks of an agent, read one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// `CLOCK_MONOTONIC_RAW`, ns.
    pub raw_ns: i64,
    /// `CLOCK_MONOTONIC`, ns.
    pub monotonic_ns: i64,
    /// `CLOCK_REALTIME`, ns since the Unix epoch.
    pub realtime_ns: i64,
}

fn word() -> DataType {
    DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8))
}

fn schema(origin: &Origin, fields: &[(&str, DataType)]) -> SchemaRef {
    let fields: Vec<Field> = fields
        .iter()
        .map(|(name, kind)| Field::new(*name, kind.clone(), false))
        .collect();
    Arc::new(Schema::new_with_metadata(fields, origin.metadata()))
}

fn words<'a>(texts: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(texts.collect::<DictionaryArray<UInt16Type>>())
}

fn repeated(text: &str, count: usize) -> ArrayRef {
    words(std::iter::repeat_n(text, count))
}

/// Writer of one of the narrow tables, with rows of type `R`.
pub struct SideWriter<R> {
    agent: String,
    schema: SchemaRef,
    segments: SegmentWriter,
    rows: std::marker::PhantomData<fn(R)>,
}

/// A type of rows of a [`SideWriter`].
pub trait SideRow: Sized {
    /// Format of the table.
    const FORMAT: &'static str;
    /// Names and types of the columns.
    fn fields() -> Vec<(&'static str, DataType)>;
    /// The columns of `rows`, in the order of the fields.
    fn columns(agent: &str, rows: &[Self]) -> Vec<ArrayRef>;
}

impl<R: SideRow> SideWriter<R> {
    /// A writer into `directory`, which must exist. The type of the rows determines the format;
    /// `origin.format` is ignored.
    pub fn new(directory: &Path, origin: &Origin) -> Self {
        let origin = Origin {
            format: R::FORMAT,
            ..origin.clone()
        };
        let schema = schema(&origin, &R::fields());
        let agent = origin.agent.clone();
        let segments = SegmentWriter::new(directory, origin, schema.clone(), ROTATE_BYTES);
        Self {
            agent,
            schema,
            segments,
            rows: std::marker::PhantomData,
        }
    }

    /// Appends `rows` as one batch.
    ///
    /// # Errors
    /// [`RecordError`] if the segment cannot be written.
    pub fn write(&mut self, rows: &[R]) -> Result<(), RecordError> {
        if rows.is_empty() {
            return Ok(());
        }
        let batch = RecordBatch::try_new(self.schema.clone(), R::columns(&self.agent, rows))?;
        self.segments.write(&batch)
    }

    /// Closes the file. Returns the names of all files written, in order.
    pub fn finish(self) -> (Vec<String>, Result<(), RecordError>) {
        self.segments.finish()
    }
}

impl SideRow for Sample {
    const FORMAT: &'static str = format::SAMPLES;

    fn fields() -> Vec<(&'static str, DataType)> {
        vec![
            ("t", DataType::Int64),
            ("agent", word()),
            ("component", word()),
            ("metric", word()),
            ("part", word()),
            ("value", DataType::Float64),
        ]
    }

    fn columns(agent: &str, rows: &[Self]) -> Vec<ArrayRef> {
        vec![
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.t_ns))),
            repeated(agent, rows.len()),
            words(rows.iter().map(|row| &*row.component)),
            words(rows.iter().map(|row| row.metric)),
            words(rows.iter().map(|row| &*row.part)),
            Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.value))),
        ]
    }
}

impl SideRow for ClockReading {
    const FORMAT: &'static str = format::CLOCK;

    fn fields() -> Vec<(&'static str, DataType)> {
        let number = DataType::Int64;
        vec![
            ("t", number.clone()),
            ("agent", word()),
            ("raw", number.clone()),
            ("monotonic", number.clone()),
            ("realtime", number),
        ]
    }

    fn columns(agent: &str, rows: &[Self]) -> Vec<ArrayRef> {
        let column = |value: fn(&Self) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(rows.iter().map(value)))
        };
        vec![
            column(|row| row.raw_ns),
            repeated(agent, rows.len()),
            column(|row| row.raw_ns),
            column(|row| row.monotonic_ns),
            column(|row| row.realtime_ns),
        ]
    }
}

/// `t` is the time at which the answer was received.
impl SideRow for Probe {
    const FORMAT: &'static str = format::PROBES;

    fn fields() -> Vec<(&'static str, DataType)> {
        let number = DataType::Int64;
        vec![
            ("t", number.clone()),
            ("agent", word()),
            ("sent", number.clone()),
            ("heard", number.clone()),
            ("answered", number.clone()),
            ("received", number),
            ("via", word()),
        ]
    }

    fn columns(agent: &str, rows: &[Self]) -> Vec<ArrayRef> {
        let column = |value: fn(&Self) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(rows.iter().map(value)))
        };
        vec![
            column(|row| row.received),
            repeated(agent, rows.len()),
            column(|row| row.sent),
            column(|row| row.heard),
            column(|row| row.answered),
            column(|row| row.received),
            words(rows.iter().map(|row| match row.via {
                Via::Udp => "udp",
                Via::Link => "link",
            })),
        ]
    }
}

/// Writer of named metrics. Its rows contain numbers of the agent's dictionary, which grows during
/// the run.
pub struct MetricWriter {
    schema: SchemaRef,
    segments: SegmentWriter,
    agent: String,
    codes: Codes,
    names: Arc<StringArray>,
}

impl MetricWriter {
    /// A writer into `directory`, which must exist. `origin.format` is ignored.
    pub fn new(directory: &Path, origin: &Origin, codes: Codes) -> Self {
        let origin = Origin {
            format: format::METRICS,
            ..origin.clone()
        };
        let fields = [
            ("agent", word()),
            ("tester", DataType::UInt32),
            ("start", DataType::Int64),
            ("metric", word()),
            ("value", DataType::Float64),
        ];
        let schema = schema(&origin, &fields);
        let agent = origin.agent.clone();
        let segments = SegmentWriter::new(directory, origin, schema.clone(), ROTATE_BYTES);
        Self {
            schema,
            segments,
            agent,
            names: Arc::new(StringArray::from_iter_values(codes.texts())),
            codes,
        }
    }

    /// Appends `rows` as one batch.
    ///
    /// # Errors
    /// [`RecordError`] if the segment cannot be written.
    pub fn write(&mut self, rows: &[MetricRow]) -> Result<(), RecordError> {
        if rows.is_empty() {
            return Ok(());
        }
        let batch = self.batch(rows)?;
        self.segments.write(&batch)
    }

    fn batch(&mut self, rows: &[MetricRow]) -> Result<RecordBatch, ArrowError> {
        let max_code = rows.iter().map(|row| row.metric.0).max().unwrap_or(0);
        if usize::from(max_code) >= arrow_array::Array::len(self.names.as_ref()) {
            self.names = Arc::new(StringArray::from_iter_values(self.codes.texts()));
        }
        let names: ArrayRef = self.names.clone();
        let keys = UInt16Array::from_iter_values(rows.iter().map(|row| row.metric.0));
        let columns: Vec<ArrayRef> = vec![
            repeated(&self.agent, rows.len()),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.tester))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.start))),
            Arc::new(DictionaryArray::<UInt16Type>::try_new(keys, names)?),
            Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.value))),
        ];
        RecordBatch::try_new(self.schema.clone(), columns)
    }

    /// Closes the file. Returns the names of all files written, in order.
    pub fn finish(self) -> (Vec<String>, Result<(), RecordError>) {
        self.segments.finish()
    }
}
