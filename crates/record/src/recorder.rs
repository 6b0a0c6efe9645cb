//! The thread between testers and files.
//!
//! Lanes pass full batches through a bounded queue and receive empty ones back. A lane counts the
//! transactions for which the queue has no capacity, and never waits. If writing fails, the
//! recorder reports it once and discards all later transactions: the load is not affected.

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
/// A batch that is not full is written after this time. A killed agent loses at most this much and
/// the second for which a lane may keep its transactions. An Arrow batch costs a few kB, so five
/// per second cost little.
const FLUSH_AFTER: Duration = Duration::from_millis(200);
/// Maximum time for which [`Recorder::finish`] waits for a disk that does not respond.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Interval at which [`Recorder::finish`] tries to send the last message to a full queue.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Settings of a recorder.
#[derive(Debug, Clone)]
pub struct RecorderConfig {
    /// Directory of the segments. It must exist.
    pub directory: PathBuf,
    /// Name of this agent.
    pub agent: String,
    /// Name of the run.
    pub run: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Texts for the numbers in the transactions.
    pub names: Names,
    /// The agent's dictionary of codes.
    pub codes: Codes,
    /// With [`Keep::Summaries`] transactions are accepted and dropped.
    pub keep: Keep,
    /// Number of lanes; the recorder has one sink per lane.
    pub lanes: usize,
    /// Capacity of the queue, batches; at least 1.
    pub queue: usize,
}

impl RecorderConfig {
    /// The origin of the rows of transactions.
    pub fn origin(&self) -> Origin {
        Origin {
            format: format::TRANSACTIONS,
            agent: self.agent.clone(),
            run: self.run.clone(),
            experiment: self.experiment.clone(),
        }
    }
}

/// Totals of a recorder at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordingTotals {
    /// Names of the segment files, in order.
    pub segments: Vec<String>,
    /// Number of transactions that the recorder accepted and could not write, or whose state is
    /// unknown because the disk does not respond.
    pub discarded: u64,
    /// Messages about failures; empty if there was none.
    pub damage: Vec<String>,
}

enum Message {
    Transactions { lane: usize, batch: Vec<Transaction> },
    Metrics(Vec<MetricRow>),
    End,
}

/// The recording thread, as its owner sees it.
pub struct Recorder {
    queue: SyncSender<Message>,
    totals: Receiver<RecordingTotals>,
    thread: JoinHandle<()>,
    pending: Pending,
    troubles: Receiver<String>,
}

/// Number of transactions that were accepted from the lanes and are neither written nor discarded
/// yet. Updated once per batch.
type Pending = Arc<AtomicU64>;

/// The sender of a lane to the recorder.
pub struct LaneSink {
    lane: usize,
    queue: SyncSender<Message>,
    empty: Receiver<Vec<Transaction>>,
    pending: Pending,
}

impl LaneSink {
    /// Passes a full batch to the recorder and replaces it by an empty one. Returns the number of
    /// transactions that were lost because the queue is full. Never waits.
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
        // Before the batch is sent: the thread may process it at once.
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

    /// As [`Self::deliver`], for named metrics.
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
    /// Starts the thread. Returns one sink per lane.
    ///
    /// # Errors
    /// [`RecordError::Io`] if the thread cannot be started.
    pub fn start(config: RecorderConfig) -> Result<(Self, Vec<LaneSink>), RecordError> {
        let segments = WriterState::segments(&config);
        Self::start_with(config, segments)
    }

    /// As [`Self::start`], with transactions written to files that `create` creates.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with_files(
        config: RecorderConfig,
        create: Create,
    ) -> Result<(Self, Vec<LaneSink>), RecordError> {
        let segments = WriterState::segments(&config).with_files(create);
        Self::start_with(config, segments)
    }

    fn start_with(
        config: RecorderConfig,
        segments: SegmentWriter,
    ) -> Result<(Self, Vec<LaneSink>), RecordError> {
        let (queue, inbox) = mpsc::sync_channel(config.queue.max(1));
        let (done, totals) = mpsc::sync_channel(1);
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
                let _ =
                    done.send(WriterState::new(config, segments, counting, trouble).run(&inbox, &recycle));
            })
            .map_err(|error| RecordError::io("starting the recorder of", &directory, error))?;
        let recorder = Self {
            queue,
            totals,
            thread,
            pending,
            troubles,
        };
        Ok((recorder, sinks))
    }

    /// The next failure since the last call, so that it can be reported during the run. The totals
    /// of [`Self::finish`] contain it as well.
    pub fn trouble(&self) -> Option<String> {
        self.troubles.try_recv().ok()
    }

    /// Writes the remaining rows, closes the files and ends the thread. Sinks that still exist then
    /// lose their transactions. Waits at most two minutes for the disk.
    pub fn finish(self) -> RecordingTotals {
        self.finish_within(TIMEOUT)
    }

    /// As [`Self::finish`]; waits at most `timeout` for a disk that does not respond.
    pub fn finish_within(self, timeout: Duration) -> RecordingTotals {
        let since = Instant::now();
        // Not `send`: if the disk hangs, the queue remains full.
        while matches!(self.queue.try_send(Message::End), Err(TrySendError::Full(_)))
            && since.elapsed() < timeout
        {
            std::thread::sleep(RETRY_INTERVAL);
        }
        let why = match self.totals.recv_timeout(timeout.saturating_sub(since.elapsed())) {
            Ok(totals) => {
                let _ = self.thread.join();
                return totals;
            }
            // A thread that waits for a hanging disk cannot be joined. It ends with the process.
            Err(RecvTimeoutError::Timeout) => format!(
                "the recorder did not finish within {} s because the disk does not respond",
                timeout.as_secs_f64()
            ),
            Err(RecvTimeoutError::Disconnected) => {
                "the thread of the recorder panicked: please report this fault".to_owned()
            }
        };
        let discarded = self.pending.load(Ordering::Relaxed);
        RecordingTotals {
            damage: vec![format!("{why}; {discarded} transactions may not be written")],
            discarded,
            ..RecordingTotals::default()
        }
    }
}

/// The state of the recording thread.
struct WriterState {
    keep: Keep,
    columns: Columns,
    segments: Option<SegmentWriter>,
    metrics: Option<MetricWriter>,
    totals: RecordingTotals,
    pending: Pending,
    trouble: Sender<String>,
}

impl WriterState {
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
            totals: RecordingTotals::default(),
            pending,
            trouble,
        }
    }

    /// Subtracts `count` transactions that were written or discarded.
    fn settle(&self, count: u64) {
        self.pending.fetch_sub(count, Ordering::Relaxed);
    }

    fn run(mut self, inbox: &Receiver<Message>, recycle: &[SyncSender<Vec<Transaction>>]) -> RecordingTotals {
        let mut oldest: Option<Instant> = None;
        loop {
            let timeout = oldest.map_or(FLUSH_AFTER, |since| FLUSH_AFTER.saturating_sub(since.elapsed()));
            match inbox.recv_timeout(timeout) {
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
            self.totals.discarded += batch.len() as u64;
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
                self.totals.discarded += rows;
                self.settle(rows);
                return;
            }
            (Err(error), _) => Err(error.into()),
        };
        self.settle(rows);
        if let Err(error) = written {
            self.totals.discarded += rows;
            self.give_up(&error);
        }
    }

    /// Closes the segments that were written. All later transactions are discarded.
    fn give_up(&mut self, error: &RecordError) {
        self.report_damage(error);
        if let Some(segments) = self.segments.take() {
            self.totals.segments.extend(segments.finish().0);
        }
    }

    fn report_damage(&mut self, error: &RecordError) {
        self.totals.damage.push(error.to_string());
        let _ = self.trouble.send(error.to_string());
    }

    fn take_metrics(&mut self, rows: &[MetricRow]) {
        let Some(metrics) = &mut self.metrics else { return };
        if let Err(error) = metrics.write(rows) {
            self.report_damage(&error);
            if let Some(metrics) = self.metrics.take() {
                self.totals.segments.extend(metrics.finish().0);
            }
        }
    }

    fn close(mut self) -> RecordingTotals {
        let mut record_end = |(names, sealed): (Vec<String>, Result<(), RecordError>)| {
            self.totals.segments.extend(names);
            if let Err(error) = sealed {
                self.totals.damage.push(error.to_string());
            }
        };
        if let Some(segments) = self.segments.take() {
            record_end(segments.finish());
        }
        if let Some(metrics) = self.metrics.take() {
            record_end(metrics.finish());
        }
        if self.totals.discarded > 0 {
            self.totals.damage.push(format!(
                "{} transactions could not be written",
                self.totals.discarded
            ));
        }
        self.totals
    }
}
