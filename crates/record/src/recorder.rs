//! The thread between testers and files.
//!
//! Lanes hand over full batches by a bounded queue and get empty ones back; what finds no room is
//! counted by the lane and never waited for. When writing fails the recorder says so once and goes
//! on discarding: the load must not notice.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_model::{Codes, Keep, MetricRow, Transaction, format};

use crate::segment::{Create, Origin, ROTATE_BYTES, SegmentWriter};
use crate::tables::MetricWriter;
use crate::{Columns, Names, RecordError};

/// Rows of one Arrow batch: large enough that its header does not matter, small enough for the
/// second-level cache.
pub const BATCH_ROWS: usize = 16 * 1024;
/// A batch that is not full is written after this long: with the second that a lane may keep its
/// transactions, this is what a killed agent loses at most. An Arrow batch costs a few kB, so that
/// writing five a second is nothing.
const FLUSH_AFTER: Duration = Duration::from_millis(200);
/// How long [`Recorder::finish`] waits for a disk that does not answer.
const TIMEOUT: Duration = Duration::from_secs(120);
/// How often it looks whether the queue has room again for the word that ends the thread.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

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
    /// Transactions that were taken from the lanes and could not be written, or of which nobody
    /// knows: the disk does not answer.
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
    pending: Pending,
    troubles: Receiver<String>,
}

/// Transactions taken from the lanes of which nothing is known yet: neither written nor discarded.
/// Counted by the batch.
type Pending = Arc<AtomicU64>;

/// A lane's end of the recorder.
pub struct LaneSink {
    lane: usize,
    queue: SyncSender<Message>,
    empty: Receiver<Vec<Transaction>>,
    pending: Pending,
}

impl LaneSink {
    /// Takes a full batch and leaves an empty one in its place; gives the number of transactions it
    /// had no room for. Never waits.
    pub fn deliver(&mut self, batch: &mut Vec<Transaction>) -> usize {
        if batch.is_empty() {
            return 0;
        }
        let fresh = self
            .empty
            .try_recv()
            .unwrap_or_else(|_| Vec::with_capacity(batch.capacity()));
        let full = std::mem::replace(batch, fresh);
        let count = full.len();
        // Before it is sent: the thread may be done with it in the same moment.
        self.pending.fetch_add(count as u64, Ordering::Relaxed);
        match self.queue.try_send(Message::Transactions {
            lane: self.lane,
            batch: full,
        }) {
            Ok(()) => 0,
            Err(TrySendError::Full(message) | TrySendError::Disconnected(message)) => {
                self.pending.fetch_sub(count as u64, Ordering::Relaxed);
                let Message::Transactions { batch: mut full, .. } = message else {
                    return 0;
                };
                full.clear();
                *batch = full;
                count
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
        let segments = Writing::segments(&config);
        Self::start_with(config, segments)
    }

    /// The same with transactions going into files made by `create`.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with_files(
        config: RecorderConfig,
        create: Create,
    ) -> Result<(Self, Vec<LaneSink>), RecordError> {
        let segments = Writing::segments(&config).with_files(create);
        Self::start_with(config, segments)
    }

    fn start_with(
        config: RecorderConfig,
        segments: SegmentWriter,
    ) -> Result<(Self, Vec<LaneSink>), RecordError> {
        let (queue, inbox) = mpsc::sync_channel(config.queue.max(1));
        let (done, books) = mpsc::sync_channel(1);
        let (trouble, troubles) = mpsc::channel(); // each of the two kinds of files fails once
        let pending = Pending::default();
        let mut recycle = Vec::new();
        let mut sinks = Vec::new();
        for lane in 0..config.lanes {
            let (back, empty) = mpsc::sync_channel(config.queue.max(1));
            recycle.push(back);
            sinks.push(LaneSink {
                lane,
                queue: queue.clone(),
                empty,
                pending: Arc::clone(&pending),
            });
        }
        let directory = config.directory.clone();
        let counting = Arc::clone(&pending);
        let thread = std::thread::Builder::new()
            .name("recorder".into())
            .spawn(move || {
                let _ = done.send(Writing::new(config, segments, counting, trouble).run(&inbox, &recycle));
            })
            .map_err(|error| RecordError::io("starting the recorder of", &directory, error))?;
        let recorder = Self {
            queue,
            books,
            thread,
            pending,
            troubles,
        };
        Ok((recorder, sinks))
    }

    /// What has gone wrong since this was last asked, so that it can be told while the run goes on;
    /// the books have it too.
    pub fn trouble(&self) -> Option<String> {
        self.troubles.try_recv().ok()
    }

    /// Writes what is left, closes the files and ends the thread. Sinks that still exist are told
    /// "no room" afterwards.
    pub fn finish(self) -> RecordingBooks {
        self.finish_within(TIMEOUT)
    }

    /// The same with another bound than two minutes for a disk that does not answer.
    pub fn finish_within(self, patience: Duration) -> RecordingBooks {
        let since = Instant::now();
        // Not `send`: behind a disk that hangs the queue is full, and stays so.
        while matches!(self.queue.try_send(Message::End), Err(TrySendError::Full(_)))
            && since.elapsed() < patience
        {
            std::thread::sleep(LOOK_AGAIN);
        }
        let why = match self.books.recv_timeout(patience.saturating_sub(since.elapsed())) {
            Ok(books) => {
                let _ = self.thread.join();
                return books;
            }
            // A disk that hangs cannot be joined; the thread ends with the process.
            Err(RecvTimeoutError::Timeout) => format!(
                "the recorder did not finish within {} s: the disk does not answer",
                patience.as_secs_f64()
            ),
            Err(RecvTimeoutError::Disconnected) => {
                "the recorder's thread broke off: please report this".to_owned()
            }
        };
        let discarded = self.pending.load(Ordering::Relaxed);
        RecordingBooks {
            damage: vec![format!(
                "{why}; {discarded} transactions may not have been written"
            )],
            discarded,
            ..RecordingBooks::default()
        }
    }
}

/// The thread's own state.
struct Writing {
    keep: Keep,
    columns: Columns,
    segments: Option<SegmentWriter>,
    metrics: Option<MetricWriter>,
    books: RecordingBooks,
    pending: Pending,
    trouble: Sender<String>,
}

impl Writing {
    fn segments(config: &RecorderConfig) -> SegmentWriter {
        SegmentWriter::transactions(&config.directory, config.origin(), ROTATE_BYTES)
    }

    fn new(
        config: RecorderConfig,
        segments: SegmentWriter,
        pending: Pending,
        trouble: Sender<String>,
    ) -> Self {
        let origin = config.origin();
        let columns = Columns::new(&config.names, config.codes.clone(), origin.metadata(), BATCH_ROWS);
        let metrics = MetricWriter::new(&config.directory, &origin, config.codes);
        Self {
            keep: config.keep,
            columns,
            segments: Some(segments),
            metrics: Some(metrics),
            books: RecordingBooks::default(),
            pending,
            trouble,
        }
    }

    /// The fate of so many transactions is known.
    fn settle(&self, count: u64) {
        self.pending.fetch_sub(count, Ordering::Relaxed);
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
            self.settle(batch.len() as u64);
            return;
        }
        if self.segments.is_none() {
            self.books.discarded += batch.len() as u64;
            self.settle(batch.len() as u64);
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
                self.settle(rows);
                return;
            }
            (Err(error), _) => Err(error.into()),
        };
        self.settle(rows);
        if let Err(error) = written {
            self.books.discarded += rows;
            self.give_up(&error);
        }
    }

    /// Closes what was written well; everything that comes is discarded from now on.
    fn give_up(&mut self, error: &RecordError) {
        self.damaged(error);
        if let Some(segments) = self.segments.take() {
            self.books.segments.extend(segments.finish().0);
        }
    }

    fn damaged(&mut self, error: &RecordError) {
        self.books.damage.push(error.to_string());
        let _ = self.trouble.send(error.to_string());
    }

    fn take_metrics(&mut self, rows: &[MetricRow]) {
        let Some(metrics) = &mut self.metrics else { return };
        if let Err(error) = metrics.write(rows) {
            self.damaged(&error);
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
