//! Writes batches to a numbered series of Arrow stream files.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use plimsoll_model::format;
use serde::{Deserialize, Serialize};

use crate::files::write_json_soon;
use crate::{RecordError, columns};

/// Size at which a segment is closed and the next one begins.
pub const ROTATE_BYTES: u64 = 64 * 1024 * 1024;

/// Function that creates the file of a segment. The file must not exist. Tests pass a function
/// whose files behave like those of a disk that does not respond.
pub type Create = fn(&Path) -> io::Result<File>;

fn create_new(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).open(path)
}

/// Description of a closed segment, in the file `NAME.json` next to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// [`format::SEGMENT`].
    pub format: String,
    /// Number of the segment, from 0, within its agent and kind.
    pub sequence: u32,
    /// Number of rows.
    pub rows: u64,
    /// Size of the segment, bytes.
    pub bytes: u64,
    /// CRC-32 (IEEE) of the whole file.
    pub crc32: u32,
}

/// Origin of the rows; part of the metadata of each file.
#[derive(Debug, Clone)]
pub struct Origin {
    /// Format of the rows: [`format::TRANSACTIONS`], [`format::SAMPLES`], ...
    pub format: &'static str,
    /// Name of the agent: letters, digits, `.`, `_`, `-`.
    pub agent: String,
    /// Name of the run.
    pub run: String,
    /// Name of the experiment.
    pub experiment: String,
}

impl Origin {
    pub(crate) fn metadata(&self) -> HashMap<String, String> {
        [
            ("format", self.format),
            ("agent", &self.agent),
            ("run", &self.run),
            ("experiment", &self.experiment),
            ("clock", "raw"),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
    }

    /// Start of the names of the files.
    fn stem(&self) -> String {
        TABLES
            .iter()
            .find(|(format, _)| *format == self.format)
            .map_or_else(
                || self.agent.clone(),
                |(_, table)| format!("{}{table}", self.agent),
            )
    }
}

/// Part of a file name between agent and number, by format. Transactions have none.
const TABLES: [(&str, &str); 4] = [
    (format::METRICS, "-metrics"),
    (format::SAMPLES, "-samples"),
    (format::CLOCK, "-clock"),
    (format::PROBES, "-probes"),
];

/// Whether `name` is that of a segment or a seal of `agent`. An agent that sends another file could
/// overwrite files of another agent.
pub fn is_segment_of(name: &str, agent: &str) -> bool {
    let Some(suffix) = name.strip_prefix(agent) else {
        return false;
    };
    let suffix = TABLES
        .iter()
        .find_map(|(_, table)| suffix.strip_prefix(table))
        .unwrap_or(suffix);
    let number = suffix.strip_prefix('-').and_then(|suffix| {
        suffix
            .strip_suffix(".arrow")
            .or_else(|| suffix.strip_suffix(".json"))
    });
    number.is_some_and(|digits| digits.len() >= 3 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Writes batches of one kind. Begins a new file if the current file is large enough.
pub struct SegmentWriter {
    directory: PathBuf,
    origin: Origin,
    schema: SchemaRef,
    rotate_bytes: u64,
    create: Create,
    sequence: u32,
    open: Option<OpenSegment>,
    written: Vec<String>,
}

struct OpenSegment {
    path: PathBuf,
    stream: StreamWriter<BufWriter<CountingWriter>>,
    rows: u64,
    /// Length of the file after its last complete batch, bytes.
    whole: u64,
}

/// A writer that counts the bytes and computes their CRC.
struct CountingWriter {
    file: File,
    bytes: u64,
    crc: crc32fast::Hasher,
}

impl Write for CountingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.bytes += count as u64;
        self.crc.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SegmentWriter {
    /// A writer into `directory`, which must exist. The first batch creates the first file.
    pub fn new(directory: &Path, origin: Origin, schema: SchemaRef, rotate_bytes: u64) -> Self {
        Self {
            directory: directory.to_owned(),
            origin,
            schema,
            rotate_bytes,
            create: create_new,
            sequence: 0,
            open: None,
            written: Vec::new(),
        }
    }

    /// The same writer, with files that `create` creates.
    #[must_use]
    pub fn with_files(self, create: Create) -> Self {
        Self { create, ..self }
    }

    /// A writer of transactions. The batches come from [`crate::Columns`] of the same origin.
    pub fn transactions(directory: &Path, origin: Origin, rotate_bytes: u64) -> Self {
        let schema = columns::schema(origin.metadata());
        Self::new(directory, origin, schema, rotate_bytes)
    }

    /// Appends one batch and passes it to the operating system, so that it survives the end of this
    /// process.
    ///
    /// # Errors
    /// [`RecordError`]; the current file is then truncated to its last complete batch and closed.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), RecordError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.begin()?,
        };
        match open.append(batch) {
            Ok(()) => {
                let full = open.whole >= self.rotate_bytes;
                self.open = Some(open);
                if full { self.seal() } else { Ok(()) }
            }
            Err(error) => {
                // Only complete batches remain, so that no reader meets an incomplete one.
                let _ = open.stream.get_ref().get_ref().file.set_len(open.whole);
                Err(error)
            }
        }
    }

    /// Closes the current file. Returns the names of all files written, in order.
    ///
    /// # Errors
    /// [`RecordError`]; the files contain all complete batches nevertheless.
    pub fn finish(mut self) -> (Vec<String>, Result<(), RecordError>) {
        let sealed = self.seal();
        (self.written, sealed)
    }

    fn begin(&mut self) -> Result<OpenSegment, RecordError> {
        let name = format!("{}-{:03}.arrow", self.origin.stem(), self.sequence);
        let path = self.directory.join(&name);
        let file = (self.create)(&path).map_err(|error| RecordError::io("creating", &path, error))?;
        self.written.push(name);
        let mut metadata = self.schema.metadata().clone();
        metadata.insert("sequence", self.sequence.to_string());
        let schema = Schema::new_with_metadata(self.schema.fields().clone(), metadata);
        let sink = BufWriter::with_capacity(
            128 * 1024,
            CountingWriter {
                file,
                bytes: 0,
                crc: crc32fast::Hasher::new(),
            },
        );
        let stream = StreamWriter::try_new(sink, &schema).map_err(|error| to_record_error(&path, error))?;
        self.sequence += 1;
        Ok(OpenSegment {
            path,
            stream,
            rows: 0,
            whole: 0,
        })
    }

    fn seal(&mut self) -> Result<(), RecordError> {
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        let path = open.path.clone();
        open.stream
            .finish()
            .and_then(|()| open.stream.flush())
            .map_err(|error| to_record_error(&path, error))?;
        let sink = open.stream.get_ref().get_ref();
        let seal = Seal {
            format: format::SEGMENT.to_owned(),
            sequence: self.sequence - 1,
            rows: open.rows,
            bytes: sink.bytes,
            crc32: sink.crc.clone().finalize(),
        };
        write_json_soon(&path.with_extension("json"), &seal)
    }
}

impl OpenSegment {
    fn append(&mut self, batch: &RecordBatch) -> Result<(), RecordError> {
        self.stream
            .write(batch)
            .and_then(|()| self.stream.flush())
            .map_err(|error| to_record_error(&self.path, error))?;
        self.rows += batch.num_rows() as u64;
        self.whole = self.stream.get_ref().get_ref().bytes;
        Ok(())
    }
}

/// An error of the Arrow writer. An error of the operating system is preserved: "no space left"
/// must be visible.
fn to_record_error(path: &Path, error: ArrowError) -> RecordError {
    match error {
        ArrowError::IoError(_, source) => RecordError::io("writing", path, source),
        other => RecordError::broken(path, other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_its_own_segments_belong_to_an_agent() {
        for own in [
            "h1-000.arrow",
            "h1-000.json",
            "h1-1234.arrow",
            "h1-metrics-000.arrow",
            "h1-probes-001.json",
        ] {
            assert!(is_segment_of(own, "h1"), "{own}");
        }
        for other in [
            "h2-000.arrow",
            "h1-2-000.arrow",
            "h10-000.arrow",
            "h1.1-000.arrow",
            "start.json",
            "h1-.arrow",
            "h1-00.arrow",
            "h1-000.arrow.part",
            "h1-000",
            "h1-../x-000.arrow",
            "../h1-000.arrow",
            "",
        ] {
            assert!(!is_segment_of(other, "h1"), "{other}");
        }
    }

    #[test]
    fn names_of_written_segments_belong_to_their_agent() {
        for format in [
            format::TRANSACTIONS,
            format::METRICS,
            format::SAMPLES,
            format::CLOCK,
            format::PROBES,
        ] {
            let origin = Origin {
                format,
                agent: "a-b.1".into(),
                run: String::new(),
                experiment: String::new(),
            };
            assert!(is_segment_of(&format!("{}-000.arrow", origin.stem()), "a-b.1"));
        }
    }
}
