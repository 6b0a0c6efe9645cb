//! Segments back to batches, up to the last whole one.

use std::fs::{self, File};
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::{ArrowError, Schema, SchemaRef};

use crate::RecordError;
use crate::segment::Seal;

/// A segment is written at most a little larger than 64 MiB. What claims to be more would be one
/// damaged message.
const MAX_MESSAGE_BYTES: u64 = 1 << 30;
/// What is read at a time: a controller holds a batch of a segment, not all of it.
const PIECE: usize = 1 << 20;

/// Longest head of a segment: the schema and its metadata.
const MAX_HEAD: u64 = 256 * 1024;

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
            .and_then(|file| file.take(MAX_HEAD).read_to_end(&mut bytes))
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
    /// Bytes read so far; at its end, its size.
    pub bytes: u64,
    /// Whether its seal is there and true; known at its end.
    pub sealed: bool,
    /// Rows read so far.
    pub rows: u64,
    /// Why it ends before its end; none when it is whole.
    pub damage: Option<String>,
    path: PathBuf,
    file: File,
    crc: crc32fast::Hasher,
    piece: Buffer,
    decoder: StreamDecoder,
    first: Option<RecordBatch>,
    schema: SchemaRef,
}

impl Segment {
    /// Reads its head.
    ///
    /// # Errors
    /// [`RecordError::Io`]; [`RecordError::Broken`] when not even its head can be understood.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let wrong = |error| RecordError::io("reading", path, error);
        let file = File::open(path).map_err(wrong)?;
        let size = file.metadata().map_err(wrong)?.len();
        if size > MAX_MESSAGE_BYTES {
            return Err(RecordError::broken(
                path,
                format!("{size} bytes are more than a segment ever has"),
            ));
        }
        let mut segment = Self {
            name: String::new(),
            agent: String::new(),
            sequence: 0,
            bytes: 0,
            sealed: false,
            rows: 0,
            damage: None,
            path: path.to_owned(),
            file,
            crc: crc32fast::Hasher::new(),
            piece: Buffer::from_vec(Vec::<u8>::new()),
            decoder: StreamDecoder::new(),
            first: None,
            schema: SchemaRef::new(Schema::empty()),
        };
        let first = segment.decode()?;
        let Some(schema) = segment.decoder.schema() else {
            return Err(headless(path, first.err()));
        };
        let head = Head::of(path, &schema);
        (segment.name, segment.agent, segment.sequence) = (head.name, head.agent, head.sequence);
        segment.schema = schema;
        match first {
            Ok(first) => segment.first = first,
            Err(error) => segment.damage = Some(error.to_string()),
        }
        Ok(segment)
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
    ///
    /// # Errors
    /// [`RecordError::Io`]: the disk does not give what is in it.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, RecordError> {
        let found = match self.first.take() {
            Some(batch) => Ok(Some(batch)),
            None if self.damage.is_some() => Ok(None),
            None => self.decode()?,
        };
        match found {
            Ok(Some(batch)) => {
                self.rows += batch.num_rows() as u64;
                return Ok(Some(batch));
            }
            Ok(None) => {}
            Err(error) => {
                self.damage.get_or_insert(error.to_string());
            }
        }
        self.finish()?;
        Ok(None)
    }

    /// The outer error is the disk's, the inner that of what is on it.
    fn decode(&mut self) -> Result<Result<Option<RecordBatch>, ArrowError>, RecordError> {
        loop {
            match guarded(&mut self.decoder, &mut self.piece) {
                Ok(None) if self.piece.is_empty() && self.read()? => {}
                found => return Ok(found),
            }
        }
    }

    /// Reads the next piece; false at the end of the file.
    fn read(&mut self) -> Result<bool, RecordError> {
        let mut bytes = Vec::with_capacity(PIECE);
        let read = self.file.by_ref().take(PIECE as u64).read_to_end(&mut bytes);
        read.map_err(|error| RecordError::io("reading", &self.path, error))?;
        self.crc.update(&bytes);
        self.bytes += bytes.len() as u64;
        self.piece = Buffer::from_vec(bytes);
        Ok(!self.piece.is_empty())
    }

    /// Holds against its seal what was read, and what could not be understood.
    fn finish(&mut self) -> Result<(), RecordError> {
        while self.read()? {}
        if self.decoder.finish().is_err() {
            self.damage
                .get_or_insert_with(|| "it breaks off within a batch".to_owned());
        }
        if let Some(seal) = seal_of(&self.path) {
            self.sealed = seal.bytes == self.bytes && seal.crc32 == self.crc.clone().finalize();
            if !self.sealed {
                self.damage.get_or_insert_with(|| {
                    "its seal does not fit: it was changed after it was closed".to_owned()
                });
            }
        }
        Ok(())
    }
}

fn seal_of(path: &Path) -> Option<Seal> {
    serde_json::from_slice(&fs::read(path.with_extension("json")).ok()?).ok()
}

/// One step of the decoder. The bytes may be rubbish after a crash, and the library's own checks
/// are not ours to vouch for: a panic in there is an answer like another.
fn guarded(decoder: &mut StreamDecoder, rest: &mut Buffer) -> Result<Option<RecordBatch>, ArrowError> {
    catch_unwind(AssertUnwindSafe(|| decoder.decode(rest)))
        .unwrap_or_else(|_| Err(ArrowError::IpcError("unreadable bytes".into())))
}
