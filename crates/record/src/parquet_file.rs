//! Parquet files: the encoding of each column, and a file that is complete or absent.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowRowGroupWriterFactory;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use crate::RecordError;
use crate::files::{sync_directory, temporary};
use crate::row_group::RowGroup;

/// Rows of a row group, the minimum that a reader holds in memory.
const GROUP_ROWS: usize = 1 << 20;
/// Columns with few distinct values. A dictionary is smaller than differences there. If there are
/// many values, the writer falls back to differences.
const REPEATING: [&str; 4] = ["items", "payload", "sent", "received"];
/// Maximum size of a dictionary of numbers, bytes.
const NUMBERS_BYTES: usize = 32 * 1024;

/// A Parquet file that is being written, under a temporary name.
pub(crate) struct ParquetFile {
    path: PathBuf,
    part: PathBuf,
    open: Option<OpenParquetFile>,
    rows: u64,
}

struct OpenParquetFile {
    file: SerializedFileWriter<BufWriter<File>>,
    columns: ArrowRowGroupWriterFactory,
    group: Option<RowGroup>,
}

impl ParquetFile {
    /// A new file that becomes `path` by [`Self::place`]. `metadata` are the key-value metadata of
    /// the file.
    pub(crate) fn create(
        path: &Path,
        schema: &SchemaRef,
        metadata: &[(&str, String)],
    ) -> Result<Self, RecordError> {
        let part = temporary(path);
        let file = File::create(&part).map_err(|error| RecordError::io("creating", &part, error))?;
        // The metadata of the schema describe a segment. Those of the Parquet file are `metadata`.
        let bare = Arc::new(Schema::new_with_metadata(schema.fields().clone(), HashMap::new()));
        let writer = ArrowWriter::try_new(
            BufWriter::with_capacity(1 << 20, file),
            bare,
            Some(properties(schema, metadata)),
        )
        .and_then(ArrowWriter::into_serialized_writer)
        .map_err(|error| to_record_error(&part, error));
        match writer {
            Ok((file, columns)) => Ok(Self {
                path: path.to_owned(),
                part,
                open: Some(OpenParquetFile {
                    file,
                    columns,
                    group: None,
                }),
                rows: 0,
            }),
            Err(error) => {
                let _ = fs::remove_file(&part);
                Err(error)
            }
        }
    }

    /// Appends the rows of `batch`.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), RecordError> {
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        open.write(batch)
            .map_err(|error| to_record_error(&self.part, error))?;
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Number of rows written.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Completes the file, waits until it is on disk, and renames it to its path. Returns its size,
    /// bytes.
    pub(crate) fn place(mut self, extra_metadata: Vec<(&str, String)>) -> Result<u64, RecordError> {
        let Some(mut open) = self.open.take() else {
            return Ok(0);
        };
        for (key, value) in extra_metadata {
            open.file
                .append_key_value_metadata(KeyValue::new(key.to_owned(), value));
        }
        let buffer = open
            .close_group()
            .and_then(|()| open.file.into_inner())
            .map_err(|error| to_record_error(&self.part, error))?;
        let file = buffer
            .into_inner()
            .map_err(|error| RecordError::io("writing", &self.part, error.into_error()))?;
        let size = file
            .sync_all()
            .and_then(|()| file.metadata())
            .map_err(|error| RecordError::io("syncing", &self.part, error))?;
        fs::rename(&self.part, &self.path).map_err(|error| RecordError::io("renaming", &self.part, error))?;
        sync_directory(self.path.parent().unwrap_or(Path::new(".")))?;
        Ok(size.len())
    }
}

impl OpenParquetFile {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ParquetError> {
        let mut from = 0;
        while from < batch.num_rows() {
            let group = if let Some(group) = &mut self.group {
                group
            } else {
                let number = self.file.flushed_row_groups().len();
                self.group.insert(RowGroup::begin(&self.columns, number)?)
            };
            let count = (GROUP_ROWS - group.rows()).min(batch.num_rows() - from);
            group.write(&batch.slice(from, count));
            from += count;
            if group.rows() == GROUP_ROWS {
                self.close_group()?;
            }
        }
        Ok(())
    }

    fn close_group(&mut self) -> Result<(), ParquetError> {
        match self.group.take() {
            Some(group) => group.finish(&mut self.file),
            None => Ok(()),
        }
    }
}

impl Drop for ParquetFile {
    fn drop(&mut self) {
        // After `place` the temporary name no longer exists, and this does nothing.
        let _ = fs::remove_file(&self.part);
    }
}

fn properties(schema: &Schema, metadata: &[(&str, String)]) -> WriterProperties {
    let metadata = metadata
        .iter()
        .map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone()))
        .collect();
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_key_value_metadata(Some(metadata));
    for field in schema.fields() {
        let column = ColumnPath::from(field.name().as_str());
        if field.data_type().is_integer() {
            let repeating = REPEATING.contains(&field.name().as_str());
            properties = properties
                .set_column_encoding(column.clone(), Encoding::DELTA_BINARY_PACKED)
                .set_column_dictionary_enabled(column.clone(), repeating)
                .set_column_dictionary_page_size_limit(column, NUMBERS_BYTES);
        }
    }
    properties.build()
}

fn to_record_error(path: &Path, error: ParquetError) -> RecordError {
    match error {
        ParquetError::External(source) => match source.downcast::<std::io::Error>() {
            Ok(source) => RecordError::io("writing", path, *source),
            Err(other) => RecordError::broken(path, other),
        },
        other => RecordError::broken(path, other),
    }
}
