//! One row group of a Parquet file, with its columns encoded on several cores. Encoding is nearly
//! all of the work between a segment and Parquet, and after a run the cores are idle.

use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use arrow_array::RecordBatch;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

/// Maximum number of threads. More are of little use: each column is encoded by one thread, and a
/// few columns are most of the work.
const MAX_THREADS: usize = 4;
/// Number of batches that may wait for a thread.
const WAITING: usize = 2;

/// A row group that is being written. Its columns are flat.
pub(crate) struct RowGroup {
    encoders: Vec<Encoder>,
    rows: usize,
}

/// A thread that encodes some of the columns.
struct Encoder {
    batches: SyncSender<RecordBatch>,
    thread: JoinHandle<Result<Vec<EncodedColumn>, ParquetError>>,
}

/// An encoded column of the group, with its index in the schema.
struct EncodedColumn {
    column: usize,
    chunk: ArrowColumnChunk,
}

impl RowGroup {
    /// Begins row group `number` of the file to which `columns` belongs.
    pub(crate) fn begin(columns: &ArrowRowGroupWriterFactory, number: usize) -> Result<Self, ParquetError> {
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(MAX_THREADS));
        // Round robin: neighbours in the schema are similar and cost about the same.
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

    /// Number of rows so far.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Appends the rows of `batch`. Errors are reported by [`Self::finish`].
    pub(crate) fn write(&mut self, batch: &RecordBatch) {
        for encoder in &self.encoders {
            // A thread that failed no longer receives. `finish` returns its error.
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
            let died = |_| ParquetError::General("a thread that encodes columns has panicked".into());
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
) -> Result<Vec<EncodedColumn>, ParquetError> {
    for batch in batches {
        let schema = batch.schema();
        for (column, writer) in &mut columns {
            for leaf in compute_leaves(schema.field(*column), batch.column(*column))? {
                writer.write(&leaf)?;
            }
        }
    }
    let close = |(column, writer): (usize, ArrowColumnWriter)| {
        writer.close().map(|chunk| EncodedColumn { column, chunk })
    };
    columns.into_iter().map(close).collect()
}
