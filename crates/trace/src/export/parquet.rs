//! Parquet: one row per event, with all fields and their types.

use std::io::Write;
use std::sync::Arc;

use arrow_array::types::{ArrowDictionaryKeyType, UInt8Type, UInt16Type, UInt32Type};
use arrow_array::{
    ArrayRef, DictionaryArray, Int64Array, LargeStringArray, PrimitiveArray, RecordBatch, UInt16Array,
    UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

use super::escape::escape;
use super::row::{COLUMNS, File, KINDS, OUTCOMES, Row, Thread, kind, outcome};
use super::{Export, ExportError, Tally};
use crate::event::{Event, PathId};
use crate::header::Header;
use crate::names::Names;
use crate::syscalls;

/// Version of the format. It is in the metadata of the file under the key `plimsoll.format`.
pub const FORMAT: &str = "plimsoll.trace.parquet/1";
/// The column with the number of the event, from 0.
const NUMBER: &str = "event";

/// Number of rows that are converted to columns together.
const BATCH: usize = 8192;
/// Maximum number of rows and bytes of a row group. The writer holds one group, and a reader at
/// least one.
const GROUP_ROWS: usize = 1 << 20;
const GROUP_BYTES: usize = 128 << 20;
/// Maximum size of a dictionary of paths, bytes. Beyond it, the rest of a row group has no
/// dictionary.
const MAX_DICTIONARY_BYTES: usize = 8 << 20;

/// Writes Parquet.
pub struct Parquet<'a, W: Write + Send> {
    file: ArrowWriter<W>,
    schema: SchemaRef,
    names: &'a Names,
    texts: Texts,
    rows: Vec<Event>,
    tally: Tally,
}

/// The values of the dictionaries.
struct Texts {
    paths: Arc<LargeStringArray>,
    calls: Arc<LargeStringArray>,
    /// The names, in the order of `calls`.
    call_names: Vec<&'static str>,
    outcomes: Arc<LargeStringArray>,
    kinds: Arc<LargeStringArray>,
}

impl<'a, W: Write + Send> Parquet<'a, W> {
    /// Starts the file. `header` is stored in its metadata as JSON, under the key `plimsoll`.
    ///
    /// # Errors
    /// [`ExportError`].
    pub fn new(out: W, names: &'a Names, header: &Header) -> Result<Self, ExportError> {
        let metadata = [
            ("plimsoll.format", FORMAT.to_owned()),
            ("plimsoll", serde_json::to_string(header)?),
        ];
        let schema = schema();
        Ok(Self {
            file: ArrowWriter::try_new(out, schema.clone(), Some(properties(metadata)))?,
            schema,
            names,
            texts: Texts::new(names),
            rows: Vec::with_capacity(BATCH),
            tally: Tally::default(),
        })
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        let rows: Vec<Row> = self
            .rows
            .iter()
            .map(|event| Row::new(event, self.names))
            .collect();
        let columns = columns(&rows, self.tally.written, &self.texts)?;
        self.file
            .write(&RecordBatch::try_new(self.schema.clone(), columns)?)?;
        self.tally.written += rows.len() as u64;
        self.rows.clear();
        Ok(())
    }
}

impl<W: Write + Send> Export for Parquet<'_, W> {
    fn event(&mut self, event: &Event) -> Result<(), ExportError> {
        self.tally.events += 1;
        self.rows.push(*event);
        if self.rows.len() == BATCH {
            self.flush()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Tally, ExportError> {
        self.flush()?;
        self.file.close()?;
        Ok(self.tally)
    }
}

impl Texts {
    fn new(names: &Names) -> Self {
        let mut text = String::new();
        let paths = names.paths().iter().map(|path| {
            text.clear();
            escape(path, &mut text);
            text.clone()
        });
        let paths = Arc::new(LargeStringArray::from_iter_values(paths));
        let mut call_names: Vec<&str> = syscalls::all().map(|call| call.name).collect();
        call_names.sort_unstable();
        Self {
            paths,
            calls: Arc::new(LargeStringArray::from_iter_values(&call_names)),
            call_names,
            outcomes: Arc::new(LargeStringArray::from_iter_values(OUTCOMES)),
            kinds: Arc::new(LargeStringArray::from_iter_values(KINDS)),
        }
    }

    fn call(&self, name: &str) -> Option<u16> {
        let index = self.call_names.binary_search(&name).ok()?;
        u16::try_from(index).ok()
    }

    /// The index of a path. None if it is not in the table.
    fn path(&self, path: PathId) -> Option<u32> {
        let index = path.index();
        (index < arrow_array::Array::len(self.paths.as_ref())).then_some(index as u32)
    }
}

fn schema() -> SchemaRef {
    let dictionary = |keys| DataType::Dictionary(Box::new(keys), Box::new(DataType::LargeUtf8));
    let kind = |name: &str| match name {
        "call" => dictionary(DataType::UInt16),
        "outcome" | "file_kind" | "file2_kind" => dictionary(DataType::UInt8),
        "file_name" | "file2_name" | "path" | "path2" => dictionary(DataType::UInt32),
        "start_ns" | "value" | "offset" | "offset2" => DataType::Int64,
        "duration_ns" | "cpu_ns" | "length" | "flags" => DataType::UInt64,
        "errno" => DataType::UInt16,
        _ => DataType::UInt32,
    };
    let mut fields = vec![Field::new(NUMBER, DataType::UInt64, false)];
    fields.extend(COLUMNS.map(|name| {
        let always = matches!(name, "call" | "start_ns" | "outcome");
        Field::new(name, kind(name), !always)
    }));
    Arc::new(Schema::new(fields))
}

fn properties(metadata: [(&str, String); 2]) -> WriterProperties {
    let metadata = metadata.map(|(key, value)| KeyValue::new(key.to_owned(), value));
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_max_row_group_bytes(Some(GROUP_BYTES))
        .set_key_value_metadata(Some(metadata.into()));
    for growing in [NUMBER, "start_ns"] {
        properties = properties
            .set_column_encoding(ColumnPath::from(growing), Encoding::DELTA_BINARY_PACKED)
            .set_column_dictionary_enabled(ColumnPath::from(growing), false);
    }
    for names in ["file_name", "file2_name", "path", "path2"] {
        properties =
            properties.set_column_dictionary_page_size_limit(ColumnPath::from(names), MAX_DICTIONARY_BYTES);
    }
    properties.build()
}

/// The columns of rows: the number, which begins with `first`, then those of [`COLUMNS`] in their
/// order.
fn columns(rows: &[Row<'_>], first: u64, texts: &Texts) -> Result<Vec<ArrayRef>, ArrowError> {
    let numbers = UInt64Array::from_iter_values(first..first + rows.len() as u64);
    let mut columns: Vec<ArrayRef> = vec![Arc::new(numbers)];
    columns.extend(threads(rows, |row| row.thread));
    columns.push(dictionary::<UInt16Type>(rows, &texts.calls, |row| {
        texts.call(row.event.call.name)
    })?);
    columns.push(int64(rows, |row| Some(row.event.start_ns)));
    columns.push(uint64(rows, |row| row.event.duration_ns));
    columns.push(uint64(rows, |row| row.event.cpu_ns));
    columns.push(dictionary::<UInt8Type>(rows, &texts.outcomes, |row| {
        Some(outcome(row.event.outcome))
    })?);
    columns.push(int64(rows, |row| row.value));
    let errors: UInt16Array = rows.iter().map(|row| row.errno).collect();
    columns.push(Arc::new(errors));
    columns.push(uint32(rows, |row| Some(row.event.open?.index() as u32)));
    columns.push(uint32(rows, |row| Some(row.event.open2?.index() as u32)));
    columns.extend(files(rows, texts, |row| row.file)?);
    columns.extend(files(rows, texts, |row| row.file2)?);
    for path in [|row: &Row<'_>| row.event.path, |row: &Row<'_>| row.event.path2] {
        columns.push(dictionary::<UInt32Type>(rows, &texts.paths, |row| {
            texts.path(path(row)?)
        })?);
    }
    columns.push(int64(rows, |row| row.event.offset));
    columns.push(int64(rows, |row| row.event.offset2));
    columns.push(uint64(rows, |row| row.event.length));
    columns.push(uint64(rows, |row| row.event.flags));
    columns.push(uint32(rows, |row| row.event.mode));
    columns.extend(threads(rows, |row| row.other));
    Ok(columns)
}

fn threads(rows: &[Row<'_>], thread: impl Fn(&Row<'_>) -> Option<Thread>) -> [ArrayRef; 3] {
    [
        uint32(rows, |row| Some(thread(row)?.id.index() as u32)),
        uint32(rows, |row| Some(thread(row)?.tid)),
        uint32(rows, |row| Some(thread(row)?.pid)),
    ]
}

fn files(
    rows: &[Row<'_>],
    texts: &Texts,
    file: impl Fn(&Row<'_>) -> Option<File>,
) -> Result<[ArrayRef; 3], ArrowError> {
    Ok([
        uint32(rows, |row| Some(file(row)?.id.index() as u32)),
        dictionary::<UInt8Type>(rows, &texts.kinds, |row| Some(kind(file(row)?.kind)))?,
        dictionary::<UInt32Type>(rows, &texts.paths, |row| texts.path(file(row)?.name))?,
    ])
}

fn uint32(rows: &[Row<'_>], value: impl Fn(&Row<'_>) -> Option<u32>) -> ArrayRef {
    Arc::new(rows.iter().map(value).collect::<UInt32Array>())
}

fn uint64(rows: &[Row<'_>], value: impl Fn(&Row<'_>) -> Option<u64>) -> ArrayRef {
    Arc::new(rows.iter().map(value).collect::<UInt64Array>())
}

fn int64(rows: &[Row<'_>], value: impl Fn(&Row<'_>) -> Option<i64>) -> ArrayRef {
    Arc::new(rows.iter().map(value).collect::<Int64Array>())
}

fn dictionary<K: ArrowDictionaryKeyType>(
    rows: &[Row<'_>],
    values: &Arc<LargeStringArray>,
    key: impl Fn(&Row<'_>) -> Option<K::Native>,
) -> Result<ArrayRef, ArrowError>
where
    PrimitiveArray<K>: FromIterator<Option<K::Native>>,
{
    let keys = rows.iter().map(key).collect::<PrimitiveArray<K>>();
    Ok(Arc::new(DictionaryArray::<K>::try_new(keys, values.clone())?))
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int64Type, UInt64Type};
    use bytes::Bytes;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::super::{Csv, sample};
    use super::*;

    /// A cell as in CSV.
    fn cell(column: &ArrayRef, row: usize) -> Option<String> {
        if column.is_null(row) {
            return None;
        }
        Some(match column.data_type() {
            DataType::UInt16 => column.as_primitive::<UInt16Type>().value(row).to_string(),
            DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row).to_string(),
            DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).to_string(),
            DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
            DataType::Dictionary(..) => {
                let dictionary = column.as_any_dictionary();
                let values = dictionary.values().as_string::<i64>();
                values.value(dictionary.normalized_keys()[row]).to_owned()
            }
            other => panic!("a column of {other}"),
        })
    }

    #[test]
    fn rows_are_those_of_csv_and_the_header_is_in_the_metadata() {
        let (names, header) = (sample::names(), sample::header());
        // More than one batch.
        let events: Vec<Event> = sample::events().into_iter().cycle().take(BATCH + 5).collect();
        let (mut out, mut csv) = (Vec::new(), Vec::new());
        let tally = sample::export(&events, &mut out, |out| {
            Box::new(Parquet::new(out, &names, &header).unwrap())
        });
        assert_eq!(
            (tally.events, tally.written),
            (events.len() as u64, events.len() as u64)
        );
        sample::export(&events, &mut csv, |out| Box::new(Csv::new(out, &names).unwrap()));
        let mut expected = sample::fields(std::str::from_utf8(&csv).unwrap()).into_iter();

        let file = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(out)).unwrap();
        let metadata = file.metadata().file_metadata().key_value_metadata().unwrap();
        let text = |key: &str| metadata.iter().find(|pair| pair.key == key)?.value.clone();
        assert_eq!(text("plimsoll.format").unwrap(), FORMAT);
        assert_eq!(
            serde_json::from_str::<Header>(&text("plimsoll").unwrap()).unwrap(),
            header
        );
        let columns: Vec<String> = file
            .schema()
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect();
        assert_eq!(columns[0], NUMBER);
        let head: Vec<String> = expected.next().unwrap().into_iter().flatten().collect();
        assert_eq!(columns[1..], head[1..]);

        let mut rows = 0;
        for batch in file.build().unwrap() {
            let batch = batch.unwrap();
            for row in 0..batch.num_rows() {
                let found: Vec<Option<String>> =
                    batch.columns().iter().map(|column| cell(column, row)).collect();
                assert_eq!(found, expected.next().unwrap());
                rows += 1;
            }
        }
        assert_eq!(rows, events.len());
    }
}
