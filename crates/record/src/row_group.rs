//! One row group of a Parquet file, its columns encoded on several cores: encoding is nearly all of
//! the work between a segment and Parquet, and after a run the cores have nothing else to do.

use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use arrow_array::RecordBatch;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

/// More threads gain little: a column is encoded by one, and few columns are most of the work.
const MAX_THREADS: usize = 4;
/// Batches that may wait for a thread.
const WAITING: usize = 2;

/// A row group in the making. Columns are flat.
pub(crate) struct RowGroup {
    encoders: Vec<Encoder>,
    rows: usize,
}

/// A thread that encodes some of the columns.
struct Encoder {
    batches: SyncSender<RecordBatch>,
    thread: JoinHandle<Result<Vec<Encoded>, ParquetError>>,
}

/// A column of the group, by its place in the schema.
struct Encoded {
    column: usize,
    chunk: ArrowColumnChunk,
}

impl RowGroup {
    /// The group of this number of the file that `columns` belongs to.
    pub(crate) fn begin(columns: &ArrowRowGroupWriterFactory, number: usize) -> Result<Self, ParquetError> {
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(MAX_THREADS));
        // In turn: neighbours in the schema are alike, and cost alike.
        let mut shares: Vec<Vec<(usize, ArrowColumnWriter)>> = (0..threads).map(|_| Vec::new()).collect();
        for (column, writer) in columns.create_column_writers(number)?.into_iter().enumerate() {
            shares[column % threads].push((column, writer));
        }
        let encoders = shares
            .into_iter()
            .filter(|share| !share.is_empty())
            .map(Encoder::start)
            .collect::<Result<_, _>>()?;
        Ok(Self { encoders, rows: 0 })
    }

    /// Rows so far.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Appends rows. What is wrong with them is said at the end.
    pub(crate) fn write(&mut self, batch: &RecordBatch) {
        for encoder in &self.encoders {
            // One that has failed takes no more.
            let _ = encoder.batches.send(batch.clone());
        }
        self.rows += batch.num_rows();
    }

    /// Waits for all columns and appends them to `file`.
    pub(crate) fn finish<W: Write + Send>(
        self,
        file: &mut SerializedFileWriter<W>,
    ) -> Result<(), ParquetError> {
        let mut columns = Vec::new();
        for Encoder { batches, thread } in self.encoders {
            drop(batches);
            let died = |_| ParquetError::General("a thread that encodes has panicked".into());
            columns.extend(thread.join().map_err(died)??);
        }
        columns.sort_by_key(|encoded| encoded.column);
        let mut group = file.next_row_group()?;
        for encoded in columns {
            encoded.chunk.append_to_row_group(&mut group)?;
        }
        group.close()?;
        Ok(())
    }
}

impl Encoder {
    fn start(columns: Vec<(usize, ArrowColumnWriter)>) -> Result<Self, ParquetError> {
        let (batches, received) = sync_channel(WAITING);
        let thread = std::thread::Builder::new()
            .name("encode".into())
            .spawn(move || encode(columns, &received))
            .map_err(|error| ParquetError::External(Box::new(error)))?;
        Ok(Self { batches, thread })
    }
}

fn encode(
    mut columns: Vec<(usize, ArrowColumnWriter)>,
    batches: &Receiver<RecordBatch>,
) -> Result<Vec<Encoded>, ParquetError> {
    for batch in batches {
        let schema = batch.schema();
        for (column, writer) in &mut columns {
            for leaf in compute_leaves(schema.field(*column), batch.column(*column))? {
                writer.write(&leaf)?;
            }
        }
    }
    let close =
        |(column, writer): (usize, ArrowColumnWriter)| writer.close().map(|chunk| Encoded { column, chunk });
    columns.into_iter().map(close).collect()
}
