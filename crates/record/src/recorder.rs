//! The thread between testers and files.
//!
//! Lanes hand over full batches by a bounded queue and get empty ones back; what finds no room is counted by the lane
//! and never waited for. When writing fails the recorder says so once and goes on discarding: the load must not notice.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_model::{Codes, Keep, MetricRow, Transaction, format};

use crate::segment::{Origin, ROTATE_BYTES, SegmentWriter};
use crate::tables::MetricWriter;
use crate::{Columns, Names, RecordError};

/// Rows of one Arrow batch: large enough that its header does not matter, small enough for the second-level cache.
pub const BATCH_ROWS: usize = 16 * 1024;
/// A batch that is not full is written after this long: with the second that a lane may keep its transactions, this is
/// what a killed agent loses at most. An Arrow batch costs a few kB, so that writing five a second is nothing.
const FLUSH_AFTER: Duration = Duration::from_millis(200);
/// How long [`Recorder::finish`] waits for a disk that does not answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where and what to record.
#[derive(Debug, Clone)]
pub struct RecorderConfig {
    /// Directory of the segments; it exists.
    pub directory: PathBuf,
    /// Name of this agent.
    pub agent: String,
    /// Name of the run.
    pub run: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Texts behind the numbers.
    pub names: Names,
    /// The agent's dictionary of codes.
    pub codes: Codes,
    /// With [`Keep::Summaries`] transactions are taken and thrown away.
    pub keep: Keep,
    /// Number of lanes, and so of sinks.
    pub lanes: usize,
    /// Batches that may wait.
    pub queue: usize,
}

impl RecorderConfig {
    /// Where the rows come from.
    pub fn origin(&self) -> Origin {
        Origin {
            format: format::TRANSACTIONS,
            agent: self.agent.clone(),
            run: self.run.clone(),
            experiment: self.experiment.clone(),
        }
    }
}

/// What was recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordingBooks {
    /// Names of the files, in order.
    pub segments: Vec<String>,
    /// Transactions that were taken from the lanes and could not be written.
    pub discarded: u64,
    /// What went wrong; empty when nothing did.
    pub damage: Vec<String>,
}

enum Message {
    Transactions { lane: usize, batch: Vec<Transaction> },
    Metrics(Vec<MetricRow>),
    End,
}

/// Owner of the recording thread.
pub struct Recorder {
    queue: SyncSender<Message>,
    books: Receiver<RecordingBooks>,
    thread: JoinHandle<()>,
}

/// A lane's end of the recorder.
pub struct LaneSink {
    lane: usize,
    queue: SyncSender<Message>,
    empty: Receiver<Vec<Transaction>>,
}

impl LaneSink {
    /// Takes a full batch and leaves an empty one in its place; gives the number of transactions it had no room for.
    /// Never waits.
    pub fn deliver(&mut self, batch: &mut Vec<Transaction>) -> usize {
        if batch.is_empty() {
            return 0;
        }
        let fresh = self
            .empty
            .try_recv()
            .unwrap_or_else(|_| Vec::with_capacity(batch.capacity()));
        let full = std::mem::replace(batch, fresh);
        match self.queue.try_send(Message::Transactions {
            lane: self.lane,
            batch: full,
        }) {
            Ok(()) => 0,
            Err(TrySendError::Full(message) | TrySendError::Disconnected(message)) => {
                let Message::Transactions { batch: mut full, .. } = message else {
                    return 0;
                };
                let lost = full.len();
                full.clear();
                *batch = full;
                lost
            }
        }
    }

    /// Likewise for named metrics.
    pub fn metrics(&mut self, rows: &mut Vec<MetricRow>) -> usize {
        if rows.is_empty() {
            return 0;
        }
        let count = rows.len();
        match self.queue.try_send(Message::Metrics(std::mem::take(rows))) {
            Ok(()) => 0,
            Err(_) => count,
        }
    }
}

impl Recorder {
    /// Starts the thread; gives one sink per lane.
    ///
    /// # Errors
    /// [`RecordError::Io`] when no thread can be started.
    pub fn start(config: RecorderConfig) -> Result<(Self, Vec<LaneSink>), RecordError> {
        let (queue, inbox) = mpsc::sync_channel(config.queue.max(1));
        let (done, books) = mpsc::sync_channel(1);
        let mut recycle = Vec::new();
        let mut sinks = Vec::new();
        for lane in 0..config.lanes {
            let (back, empty) = mpsc::sync_channel(config.queue.max(1));
            recycle.push(back);
            sinks.push(LaneSink {
                lane,
                queue: queue.clone(),
                empty,
            });
        }
        let directory = config.directory.clone();
        let thread = std::thread::Builder::new()
            .name("recorder".into())
            .spawn(move || {
                let _ = done.send(Writing::new(config).run(&inbox, &recycle));
            })
            .map_err(|error| RecordError::io("starting the recorder of", &directory, error))?;
        Ok((Self { queue, books, thread }, sinks))
    }

    /// Writes what is left, closes the files and ends the thread. Sinks that still exist are told "no room" afterwards.
    pub fn finish(self) -> RecordingBooks {
        let _ = self.queue.send(Message::End);
        match self.books.recv_timeout(PATIENCE) {
            Ok(books) => {
                let _ = self.thread.join();
                books
            }
            // A disk that hangs cannot be joined; the thread ends with the process.
            Err(RecvTimeoutError::Timeout) => damaged(format!(
                "the recorder did not finish within {} s: the disk does not answer",
                PATIENCE.as_secs()
            )),
            Err(RecvTimeoutError::Disconnected) => {
                damaged("the recorder's thread broke off: please report this".into())
            }
        }
    }
}

fn damaged(text: String) -> RecordingBooks {
    RecordingBooks {
        damage: vec![text],
        ..RecordingBooks::default()
    }
}

/// The thread's own state.
struct Writing {
    keep: Keep,
    columns: Columns,
    segments: Option<SegmentWriter>,
    metrics: Option<MetricWriter>,
    books: RecordingBooks,
}

impl Writing {
    fn new(config: RecorderConfig) -> Self {
        let origin = config.origin();
        let columns = Columns::new(&config.names, config.codes.clone(), origin.metadata(), BATCH_ROWS);
        let segments = SegmentWriter::transactions(&config.directory, origin.clone(), ROTATE_BYTES);
        let metrics = MetricWriter::new(&config.directory, &origin, config.codes);
        Self {
            keep: config.keep,
            columns,
            segments: Some(segments),
            metrics: Some(metrics),
            books: RecordingBooks::default(),
        }
    }

    fn run(mut self, inbox: &Receiver<Message>, recycle: &[SyncSender<Vec<Transaction>>]) -> RecordingBooks {
        let mut oldest: Option<Instant> = None;
        loop {
            let patience = oldest.map_or(FLUSH_AFTER, |since| FLUSH_AFTER.saturating_sub(since.elapsed()));
            match inbox.recv_timeout(patience) {
                Ok(Message::Transactions { lane, mut batch }) => {
                    self.take(&batch);
                    batch.clear();
                    if let Some(back) = recycle.get(lane) {
                        let _ = back.try_send(batch);
                    }
                    oldest = if self.columns.is_empty() {
                        None
                    } else {
                        oldest.or_else(|| Some(Instant::now()))
                    };
                }
                Ok(Message::Metrics(rows)) => self.take_metrics(&rows),
                Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    self.flush();
                    oldest = None;
                }
            }
        }
        self.flush();
        self.close()
    }

    fn take(&mut self, batch: &[Transaction]) {
        if self.keep == Keep::Summaries {
            return;
        }
        if self.segments.is_none() {
            self.books.discarded += batch.len() as u64;
            return;
        }
        for part in batch.chunks(BATCH_ROWS) {
            if self.columns.len() + part.len() > BATCH_ROWS {
                self.flush();
            }
            self.columns.extend(part);
        }
    }

    fn flush(&mut self) {
        let rows = self.columns.len() as u64;
        if rows == 0 {
            return;
        }
        let written = match (self.columns.take(), &mut self.segments) {
            (Ok(batch), Some(segments)) => segments.write(&batch),
            (Ok(_), None) => {
                self.books.discarded += rows;
                return;
            }
            (Err(error), _) => Err(error.into()),
        };
        if let Err(error) = written {
            self.books.discarded += rows;
            self.give_up(&error);
        }
    }

    /// Closes what was written well; everything that comes is discarded from now on.
    fn give_up(&mut self, error: &RecordError) {
        self.books.damage.push(error.to_string());
        if let Some(segments) = self.segments.take() {
            self.books.segments.extend(segments.finish().0);
        }
    }

    fn take_metrics(&mut self, rows: &[MetricRow]) {
        let Some(metrics) = &mut self.metrics else { return };
        if let Err(error) = metrics.write(rows) {
            self.books.damage.push(error.to_string());
            if let Some(metrics) = self.metrics.take() {
                self.books.segments.extend(metrics.finish().0);
            }
        }
    }

    fn close(mut self) -> RecordingBooks {
        let mut end = |(names, sealed): (Vec<String>, Result<(), RecordError>)| {
            self.books.segments.extend(names);
            if let Err(error) = sealed {
                self.books.damage.push(error.to_string());
            }
        };
        if let Some(segments) = self.segments.take() {
            end(segments.finish());
        }
        if let Some(metrics) = self.metrics.take() {
            end(metrics.finish());
        }
        if self.books.discarded > 0 {
            self.books.damage.push(format!(
                "{} transactions could not be written",
                self.books.discarded
            ));
        }
        self.books
    }
}
