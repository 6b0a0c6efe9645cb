//! Reads segments into batches, up to the last complete batch.

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

/// Maximum size of a segment that is read. A segment is written up to little more than 64 MiB; a
/// larger file is damaged.
const MAX_MESSAGE_BYTES: u64 = 1 << 30;
/// Bytes that are read at a time: a controller holds a batch of a segment in memory, not the whole
/// segment.
const PIECE: usize = 1 << 20;

/// Maximum length of the head of a segment, which is the schema and its metadata.
const MAX_HEAD: u64 = 256 * 1024;

/// The head of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Path of the file.
    pub path: PathBuf,
    /// Name of the file.
    pub name: String,
    /// Format of the rows.
    pub format: String,
    /// Name of the agent that wrote it.
    pub agent: String,
    /// Number of the segment within agent and format, from 0.
    pub sequence: u32,
}

impl Head {
    /// Reads only the head of the segment at `path`.
    ///
    /// # Errors
    /// [`RecordError::Io`]; [`RecordError::Broken`] if the head is invalid.
    pub fn read(path: &Path) -> Result<Self, RecordError> {
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MAX_HEAD).read_to_end(&mut bytes))
            .map_err(|error| RecordError::io("reading", path, error))?;
        let mut decoder = StreamDecoder::new();
        let outcome = guarded(&mut decoder, &mut Buffer::from_vec(bytes));
        match decoder.schema() {
            Some(schema) => Ok(Self::of(path, &schema)),
            None => Err(head_error(path, outcome.err())),
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

fn head_error(path: &Path, error: Option<ArrowError>) -> RecordError {
    RecordError::broken(
        path,
        error.map_or_else(
            || "the segment ends within its head".to_owned(),
            |error| error.to_string(),
        ),
    )
}

/// A reader of one segment.
pub struct Segment {
    /// Name of the file.
    pub name: String,
    /// Name of the agent that wrote it.
    pub agent: String,
    /// Number of the segment within agent and format, from 0.
    pub sequence: u32,
    /// Bytes read so far; at the end, the size of the segment.
    pub bytes: u64,
    /// Whether the segment has a correct seal; known at the end.
    pub sealed: bool,
    /// Rows read so far.
    pub rows: u64,
    /// Reason why the segment ends early; none if it is complete.
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
    /// Opens the segment at `path` and reads its head.
    ///
    /// # Errors
    /// [`RecordError::Io`]; [`RecordError::Broken`] if the head is invalid.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let io_error = |error| RecordError::io("reading", path, error);
        let file = File::open(path).map_err(io_error)?;
        let size = file.metadata().map_err(io_error)?.len();
        if size > MAX_MESSAGE_BYTES {
            return Err(RecordError::broken(
                path,
                format!("it has {size} bytes, a segment has at most {MAX_MESSAGE_BYTES}"),
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
            return Err(head_error(path, first.err()));
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

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Schema of the rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next batch. None at the end of the segment or at the first damage; `damage` then
    /// contains the reason.
    ///
    /// # Errors
    /// [`RecordError::Io`] if the file cannot be read.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, RecordError> {
        let result = match self.first.take() {
            Some(batch) => Ok(Some(batch)),
            None if self.damage.is_some() => Ok(None),
            None => self.decode()?,
        };
        match result {
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

    /// The outer error is that of the disk, the inner that of the contents.
    fn decode(&mut self) -> Result<Result<Option<RecordBatch>, ArrowError>, RecordError> {
        loop {
            match guarded(&mut self.decoder, &mut self.piece) {
                Ok(None) if self.piece.is_empty() && self.read()? => {}
                result => return Ok(result),
            }
        }
    }

    /// Reads the next piece. False at the end of the file.
    fn read(&mut self) -> Result<bool, RecordError> {
        let mut bytes = Vec::with_capacity(PIECE);
        let read = self.file.by_ref().take(PIECE as u64).read_to_end(&mut bytes);
        read.map_err(|error| RecordError::io("reading", &self.path, error))?;
        self.crc.update(&bytes);
        self.bytes += bytes.len() as u64;
        self.piece = Buffer::from_vec(bytes);
        Ok(!self.piece.is_empty())
    }

    /// Compares the whole file with its seal, including bytes that were not decoded.
    fn finish(&mut self) -> Result<(), RecordError> {
        while self.read()? {}
        if self.decoder.finish().is_err() {
            self.damage
                .get_or_insert_with(|| "the segment ends within a batch".to_owned());
        }
        if let Some(seal) = read_seal(&self.path) {
            self.sealed = seal.bytes == self.bytes && seal.crc32 == self.crc.clone().finalize();
            if !self.sealed {
                self.damage.get_or_insert_with(|| {
                    "the segment differs from its seal: it was changed after it was closed".to_owned()
                });
            }
        }
        Ok(())
    }
}

fn read_seal(path: &Path) -> Option<Seal> {
    serde_json::from_slice(&fs::read(path.with_extension("json")).ok()?).ok()
}

/// One step of the decoder. After a crash the bytes may be invalid, and this crate does not
/// guarantee the checks of the library: a panic in it is reported as an error.
fn guarded(decoder: &mut StreamDecoder, bytes: &mut Buffer) -> Result<Option<RecordBatch>, ArrowError> {
    catch_unwind(AssertUnwindSafe(|| decoder.decode(bytes)))
        .unwrap_or_else(|_| Err(ArrowError::IpcError("unreadable bytes".into())))
}
