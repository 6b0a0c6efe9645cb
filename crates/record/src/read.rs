//! Segments back to batches, up to the last whole one.

use std::fs::{self, File};
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::{ArrowError, SchemaRef};

use crate::RecordError;
use crate::segment::Seal;

/// A segment is read into memory at once; it is written at most a little larger than 64 MiB.
const LARGEST: u64 = 1 << 30;

/// Longest head of a segment: the schema and its metadata.
const LONGEST_HEAD: u64 = 256 * 1024;

/// What the head of a segment says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Where it lies.
    pub path: PathBuf,
    /// Name of the file.
    pub name: String,
    /// Format of its rows.
    pub format: String,
    /// Name of the agent that wrote it.
    pub agent: String,
    /// Its number within agent and format.
    pub sequence: u32,
}

impl Head {
    /// Reads no more than the head.
    ///
    /// # Errors
    /// [`RecordError::Io`]; [`RecordError::Broken`] when it cannot be understood.
    pub fn read(path: &Path) -> Result<Self, RecordError> {
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(LONGEST_HEAD).read_to_end(&mut bytes))
            .map_err(|error| RecordError::io("reading", path, error))?;
        let mut decoder = StreamDecoder::new();
        let outcome = guarded(&mut decoder, &mut Buffer::from_vec(bytes));
        match decoder.schema() {
            Some(schema) => Ok(Self::of(path, &schema)),
            None => Err(headless(path, outcome.err())),
        }
    }

    fn of(path: &Path, schema: &SchemaRef) -> Self {
        let text = |key: &str| schema.metadata().get(key).cloned().unwrap_or_default();
        Self {
            path: path.to_owned(),
            name: path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            format: text("format"),
            agent: text("agent"),
            sequence: text("sequence").parse().unwrap_or(0),
        }
    }
}

fn headless(path: &Path, error: Option<ArrowError>) -> RecordError {
    RecordError::broken(
        path,
        error.map_or_else(|| "it ends within its head".to_owned(), |error| error.to_string()),
    )
}

/// One segment being read.
pub struct Segment {
    /// Name of the file.
    pub name: String,
    /// Name of the agent that wrote it.
    pub agent: String,
    /// Its number within agent and format.
    pub sequence: u32,
    /// Its size.
    pub bytes: u64,
    /// Whether its seal is there and true.
    pub sealed: bool,
    /// Rows read so far.
    pub rows: u64,
    /// Why it ends before its end; none when it is whole.
    pub damage: Option<String>,
    path: PathBuf,
    rest: Buffer,
    decoder: StreamDecoder,
    first: Option<RecordBatch>,
    schema: SchemaRef,
}

impl Segment {
    /// Reads the file and its seal.
    ///
    /// # Errors
    /// [`RecordError::Io`]; [`RecordError::Broken`] when not even its head can be understood.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let size = fs::metadata(path)
            .map_err(|error| RecordError::io("reading", path, error))?
            .len();
        if size > LARGEST {
            return Err(RecordError::broken(
                path,
                format!("{size} bytes are more than a segment ever has"),
            ));
        }
        let bytes = fs::read(path).map_err(|error| RecordError::io("reading", path, error))?;
        let sealed = seal_of(path).map(|seal| seal.bytes == size && seal.crc32 == crc32fast::hash(&bytes));
        let mut rest = Buffer::from_vec(bytes);
        let mut decoder = StreamDecoder::new();
        let first = guarded(&mut decoder, &mut rest);
        let Some(schema) = decoder.schema() else {
            return Err(headless(path, first.err()));
        };
        let (first, broken) = match first {
            Ok(first) => (first, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let head = Head::of(path, &schema);
        let wrong_seal = (sealed == Some(false))
            .then(|| "its seal does not fit: it was changed after it was closed".to_owned());
        Ok(Self {
            name: head.name,
            agent: head.agent,
            sequence: head.sequence,
            bytes: size,
            sealed: sealed == Some(true),
            rows: 0,
            damage: broken.or(wrong_seal),
            path: path.to_owned(),
            rest,
            decoder,
            first,
            schema,
        })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Schema of its rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next batch; none at its end, or where it breaks off (then `damage` says why).
    pub fn next_batch(&mut self) -> Option<RecordBatch> {
        let batch = match self.first.take() {
            Some(batch) => Some(batch),
            None => match guarded(&mut self.decoder, &mut self.rest) {
                Ok(batch) => batch,
                Err(error) => {
                    self.rest = Buffer::from_vec(Vec::<u8>::new());
                    self.damage.get_or_insert(error.to_string());
                    None
                }
            },
        };
        match &batch {
            Some(batch) => self.rows += batch.num_rows() as u64,
            None if self.decoder.finish().is_err() => {
                self.damage
                    .get_or_insert_with(|| "it breaks off within a batch".to_owned());
            }
            None => {}
        }
        batch
    }
}

fn seal_of(path: &Path) -> Option<Seal> {
    serde_json::from_slice(&fs::read(path.with_extension("json")).ok()?).ok()
}

/// One step of the decoder. The bytes may be rubbish after a crash, and the library's own checks are not ours to
/// vouch for: a panic in there is an answer like another.
fn guarded(decoder: &mut StreamDecoder, rest: &mut Buffer) -> Result<Option<RecordBatch>, ArrowError> {
    catch_unwind(AssertUnwindSafe(|| decoder.decode(rest)))
        .unwrap_or_else(|_| Err(ArrowError::IpcError("unreadable bytes".into())))
}
