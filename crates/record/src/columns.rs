//! Rows to columns: the only module that defines how a [`Transaction`] is stored.
//!
//! In segments `start` is the agent's raw clock, and the other stamps are relative to it. In
//! Parquet `start` is relative to the start of the run. `scheduled` is at most 0 and always
//! present. In `connected`, `first_byte` and `end`, -1 means that the event did not happen (no
//! stamp is before `start`, so -1 is unambiguous).

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::{ArrowDictionaryKeyType, UInt8Type, UInt16Type};
use arrow_array::{
    ArrayRef, DictionaryArray, Int64Array, PrimitiveArray, RecordBatch, StringArray, UInt16Array,
    UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use plimsoll_model::{Cache, Codes, NOT_HAPPENED, Outcome, Phase, Transaction};

/// Rows are transposed in blocks that fit in the first-level cache: 22 passes over a whole batch
/// would read memory 22 times.
const BLOCK: usize = 128;

/// Texts for the numbers of a [`Transaction`].
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// Names of the agents of the run, by index.
    pub agents: Vec<String>,
    /// Names of the workloads of the run, by index.
    pub workloads: Vec<String>,
    /// Names of the operations of all workloads, in the order of the workloads.
    pub operations: Vec<String>,
    /// Names of the endpoints of all workloads, in the order of the workloads.
    pub endpoints: Vec<String>,
}

/// The schema of transactions. The `metadata` distinguish a segment from Parquet.
pub(crate) fn schema(metadata: HashMap<String, String>) -> SchemaRef {
    let wide = || DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8));
    let narrow = || DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8));
    let fields = [
        ("agent", wide()),
        ("tester", DataType::UInt32),
        ("session", DataType::UInt32),
        ("workload", wide()),
        ("stage", DataType::UInt16),
        ("operation", wide()),
        ("endpoint", wide()),
        ("scheduled", DataType::Int64),
        ("start", DataType::Int64),
        ("connected", DataType::Int64),
        ("first_byte", DataType::Int64),
        ("end", DataType::Int64),
        ("outcome", narrow()),
        ("code", wide()),
        ("attempt", DataType::UInt16),
        ("items", DataType::UInt64),
        ("payload", DataType::UInt64),
        ("cache", narrow()),
        ("sent", DataType::UInt64),
        ("received", DataType::UInt64),
        ("phase", narrow()),
    ];
    let fields: Vec<Field> = fields
        .into_iter()
        .map(|(name, kind)| Field::new(name, kind, false))
        .collect();
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

/// Transactions of one agent as columns, until they are written to a segment.
#[derive(Debug)]
pub struct Columns {
    dictionaries: Dictionaries,
    schema: SchemaRef,
    rows: Rows,
    capacity: usize,
}

#[derive(Debug, Default)]
struct Rows {
    agent: Vec<u16>,
    tester: Vec<u32>,
    session: Vec<u32>,
    workload: Vec<u16>,
    stage: Vec<u16>,
    operation: Vec<u16>,
    endpoint: Vec<u16>,
    scheduled: Vec<i64>,
    start: Vec<i64>,
    connected: Vec<i64>,
    first_byte: Vec<i64>,
    end: Vec<i64>,
    outcome: Vec<u8>,
    code: Vec<u16>,
    attempt: Vec<u16>,
    items: Vec<u64>,
    payload: Vec<u64>,
    cache: Vec<u8>,
    sent: Vec<u64>,
    received: Vec<u64>,
    phase: Vec<u8>,
}

#[derive(Debug)]
struct Dictionaries {
    agents: Arc<StringArray>,
    workloads: Arc<StringArray>,
    operations: Arc<StringArray>,
    endpoints: Arc<StringArray>,
    outcomes: Arc<StringArray>,
    caches: Arc<StringArray>,
    phases: Arc<StringArray>,
    codes: Arc<StringArray>,
    /// The source of the codes; the dictionary grows during a run.
    source: Codes,
}

fn texts<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> Arc<StringArray> {
    Arc::new(StringArray::from_iter_values(items))
}

impl Columns {
    /// Empty columns with memory for `capacity` rows.
    pub fn new(names: &Names, codes: Codes, metadata: HashMap<String, String>, capacity: usize) -> Self {
        let dictionaries = Dictionaries {
            agents: texts(&names.agents),
            workloads: texts(&names.workloads),
            operations: texts(&names.operations),
            endpoints: texts(&names.endpoints),
            outcomes: texts(Outcome::ALL.map(Outcome::word)),
            caches: texts(Cache::ALL.map(Cache::word)),
            phases: texts(Phase::ALL.map(Phase::word)),
            codes: texts(codes.texts()),
            source: codes,
        };
        Self {
            dictionaries,
            schema: schema(metadata),
            rows: Rows::with_capacity(capacity),
            capacity,
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.start.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.start.is_empty()
    }

    /// The schema of the batches that [`Columns::take`] returns.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Appends the transactions of `batch`.
    pub fn extend(&mut self, batch: &[Transaction]) {
        for block in batch.chunks(BLOCK) {
            self.rows.extend(block);
        }
    }

    /// Returns all rows as one batch and empties the columns, also on failure.
    ///
    /// # Errors
    /// [`ArrowError`]: a transaction contains a number that has no name.
    pub fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let rows = std::mem::replace(&mut self.rows, Rows::with_capacity(self.capacity));
        self.dictionaries.update_codes(&rows.code);
        rows.into_batch(&self.dictionaries, self.schema.clone())
    }
}

impl Dictionaries {
    /// Reads the dictionary of codes again if a number is beyond its end.
    fn update_codes(&mut self, codes: &[u16]) {
        let max_code = codes.iter().copied().max().unwrap_or(0);
        if usize::from(max_code) >= arrow_array::Array::len(self.codes.as_ref()) {
            self.codes = texts(self.source.texts());
        }
    }
}

/// Distance from `start`, or [`NOT_HAPPENED`] if the event did not happen.
fn relative(stamp: i64, start: i64) -> i64 {
    if stamp == NOT_HAPPENED {
        NOT_HAPPENED
    } else {
        stamp - start
    }
}

impl Rows {
    fn with_capacity(rows: usize) -> Self {
        Self {
            agent: Vec::with_capacity(rows),
            tester: Vec::with_capacity(rows),
            session: Vec::with_capacity(rows),
            workload: Vec::with_capacity(rows),
            stage: Vec::with_capacity(rows),
            operation: Vec::with_capacity(rows),
            endpoint: Vec::with_capacity(rows),
            scheduled: Vec::with_capacity(rows),
            start: Vec::with_capacity(rows),
            connected: Vec::with_capacity(rows),
            first_byte: Vec::with_capacity(rows),
            end: Vec::with_capacity(rows),
            outcome: Vec::with_capacity(rows),
            code: Vec::with_capacity(rows),
            attempt: Vec::with_capacity(rows),
            items: Vec::with_capacity(rows),
            payload: Vec::with_capacity(rows),
            cache: Vec::with_capacity(rows),
            sent: Vec::with_capacity(rows),
            received: Vec::with_capacity(rows),
            phase: Vec::with_capacity(rows),
        }
    }

    fn extend(&mut self, block: &[Transaction]) {
        self.agent.extend(block.iter().map(|t| t.agent));
        self.tester.extend(block.iter().map(|t| t.tester));
        self.session.extend(block.iter().map(|t| t.session));
        self.workload.extend(block.iter().map(|t| t.workload));
        self.stage.extend(block.iter().map(|t| t.stage));
        self.operation.extend(block.iter().map(|t| t.operation));
        self.endpoint.extend(block.iter().map(|t| t.endpoint));
        self.scheduled.extend(block.iter().map(|t| t.scheduled - t.start));
        self.start.extend(block.iter().map(|t| t.start));
        self.connected
            .extend(block.iter().map(|t| relative(t.connected, t.start)));
        self.first_byte
            .extend(block.iter().map(|t| relative(t.first_byte, t.start)));
        self.end.extend(block.iter().map(|t| relative(t.end, t.start)));
        self.outcome.extend(block.iter().map(|t| t.outcome as u8));
        self.code.extend(block.iter().map(|t| t.code.0));
        self.attempt.extend(block.iter().map(|t| t.attempt));
        self.items.extend(block.iter().map(|t| t.items));
        self.payload.extend(block.iter().map(|t| t.payload));
        self.cache.extend(block.iter().map(|t| t.cache as u8));
        self.sent.extend(block.iter().map(|t| t.sent));
        self.received.extend(block.iter().map(|t| t.received));
        self.phase.extend(block.iter().map(|t| t.phase as u8));
    }

    fn into_batch(self, names: &Dictionaries, schema: SchemaRef) -> Result<RecordBatch, ArrowError> {
        let columns: Vec<ArrayRef> = vec![
            dictionary::<UInt16Type>(self.agent, &names.agents)?,
            Arc::new(UInt32Array::from(self.tester)),
            Arc::new(UInt32Array::from(self.session)),
            dictionary::<UInt16Type>(self.workload, &names.workloads)?,
            Arc::new(UInt16Array::from(self.stage)),
            dictionary::<UInt16Type>(self.operation, &names.operations)?,
            dictionary::<UInt16Type>(self.endpoint, &names.endpoints)?,
            Arc::new(Int64Array::from(self.scheduled)),
            Arc::new(Int64Array::from(self.start)),
            Arc::new(Int64Array::from(self.connected)),
            Arc::new(Int64Array::from(self.first_byte)),
            Arc::new(Int64Array::from(self.end)),
            dictionary::<UInt8Type>(self.outcome, &names.outcomes)?,
            dictionary::<UInt16Type>(self.code, &names.codes)?,
            Arc::new(UInt16Array::from(self.attempt)),
            Arc::new(UInt64Array::from(self.items)),
            Arc::new(UInt64Array::from(self.payload)),
            dictionary::<UInt8Type>(self.cache, &names.caches)?,
            Arc::new(UInt64Array::from(self.sent)),
            Arc::new(UInt64Array::from(self.received)),
            dictionary::<UInt8Type>(self.phase, &names.phases)?,
        ];
        RecordBatch::try_new(schema, columns)
    }
}

fn dictionary<K: ArrowDictionaryKeyType>(
    keys: Vec<K::Native>,
    values: &Arc<StringArray>,
) -> Result<ArrayRef, ArrowError>
where
    PrimitiveArray<K>: From<Vec<K::Native>>,
{
    let values: ArrayRef = values.clone();
    Ok(Arc::new(DictionaryArray::<K>::try_new(
        PrimitiveArray::<K>::from(keys),
        values,
    )?))
}
