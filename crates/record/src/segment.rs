//! Batches into a numbered row of Arrow stream files.

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

/// Size at which a segment is closed and the next one begun.
pub const ROTATE_BYTES: u64 = 64 * 1024 * 1024;

/// How a segment's file is made; it must not be there yet. Tests give one that stands for a disk
/// that does not answer.
pub type Create = fn(&Path) -> io::Result<File>;

fn create_new(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).open(path)
}

/// What stands beside a closed segment, in `NAME.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// [`format::SEGMENT`].
    pub format: String,
    /// Its number, from 0, within its agent and kind.
    pub sequence: u32,
    /// Rows in it.
    pub rows: u64,
    /// Its size.
    pub bytes: u64,
    /// CRC-32 (IEEE) of the whole file.
    pub crc32: u32,
}

/// Where the rows come from; it stands in the metadata of each file.
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

    /// Start of the names of its files.
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

/// What stands in the names of files between the agent and the number, by format; nothing:
/// transactions.
const TABLES: [(&str, &str); 4] = [
    (format::METRICS, "-metrics"),
    (format::SAMPLES, "-samples"),
    (format::CLOCK, "-clock"),
    (format::PROBES, "-probes"),
];

/// Whether an agent gives this name to a segment or its seal. An agent that sends any other file
/// wants to write over those of another one.
pub fn is_segment_of(name: &str, agent: &str) -> bool {
    let Some(rest) = name.strip_prefix(agent) else {
        return false;
    };
    let rest = TABLES
        .iter()
        .find_map(|(_, table)| rest.strip_prefix(table))
        .unwrap_or(rest);
    let number = rest
        .strip_prefix('-')
        .and_then(|rest| rest.strip_suffix(".arrow").or_else(|| rest.strip_suffix(".json")));
    number.is_some_and(|digits| digits.len() >= 3 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Writes batches of one kind, beginning a new file whenever the current one is large enough.
pub struct SegmentWriter {
    directory: PathBuf,
    origin: Origin,
    schema: SchemaRef,
    rotate_bytes: u64,
    create: Create,
    sequence: u32,
    open: Option<Open>,
    written: Vec<String>,
}

struct Open {
    path: PathBuf,
    stream: StreamWriter<BufWriter<Counting>>,
    rows: u64,
    /// Length of the file after its last whole batch.
    whole: u64,
}

/// Counts and sums what passes.
struct Counting {
    file: File,
    bytes: u64,
    crc: crc32fast::Hasher,
}

impl Write for Counting {
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
    /// A writer into `directory` (which exists); no file is made before the first batch.
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

    /// The same writer with files made by `create`.
    #[must_use]
    pub fn with_files(self, create: Create) -> Self {
        Self { create, ..self }
    }

    /// A writer of transactions; the batches come from [`crate::Columns`] made with the same
    /// origin.
    pub fn transactions(directory: &Path, origin: Origin, rotate_bytes: u64) -> Self {
        let schema = columns::schema(origin.metadata());
        Self::new(directory, origin, schema, rotate_bytes)
    }

    /// Appends one batch and hands it to the operating system: what was written survives the end of
    /// this process.
    ///
    /// # Errors
    /// [`RecordError`]; the current file is then cut back to its last whole batch and closed.
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
                // Only whole batches stay, so that whoever reads the file meets no half one.
                let _ = open.stream.get_ref().get_ref().file.set_len(open.whole);
                Err(error)
            }
        }
    }

    /// Closes the current file. Gives the names of all files written, in order.
    ///
    /// # Errors
    /// [`RecordError`]; all whole batches are in the files nevertheless.
    pub fn finish(mut self) -> (Vec<String>, Result<(), RecordError>) {
        let sealed = self.seal();
        (self.written, sealed)
    }

    fn begin(&mut self) -> Result<Open, RecordError> {
        let name = format!("{}-{:03}.arrow", self.origin.stem(), self.sequence);
        let path = self.directory.join(&name);
        let file = (self.create)(&path).map_err(|error| RecordError::io("creating", &path, error))?;
        self.written.push(name);
        let mut metadata = self.schema.metadata().clone();
        metadata.insert("sequence", self.sequence.to_string());
        let schema = Schema::new_with_metadata(self.schema.fields().clone(), metadata);
        let sink = BufWriter::with_capacity(
            128 * 1024,
            Counting {
                file,
                bytes: 0,
                crc: crc32fast::Hasher::new(),
            },
        );
        let stream = StreamWriter::try_new(sink, &schema).map_err(|error| wrong(&path, error))?;
        self.sequence += 1;
        Ok(Open {
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
            .map_err(|error| wrong(&path, error))?;
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

impl Open {
    fn append(&mut self, batch: &RecordBatch) -> Result<(), RecordError> {
        self.stream
            .write(batch)
            .and_then(|()| self.stream.flush())
            .map_err(|error| wrong(&self.path, error))?;
        self.rows += batch.num_rows() as u64;
        self.whole = self.stream.get_ref().get_ref().bytes;
        Ok(())
    }
}

/// The writer's errors, with the operating system's own kept where there is one ("no space left"
/// must stay visible).
fn wrong(path: &Path, error: ArrowError) -> RecordError {
    match error {
        ArrowError::IoError(_, source) => RecordError::io("writing", path, source),
        other => RecordError::broken(path, other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_has_files_of_its_own_names_only() {
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
    fn the_names_that_are_written_are_own_names() {
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
