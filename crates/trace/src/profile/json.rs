//! The profile of a trace as JSON, which `plimsoll trace show --json` prints and from which the
//! HTML page is made.
//!
//! Fields that end in `_s` are seconds: times since the zero of the trace, or durations. Bytes are
//! those that calls returned, not those requested. Paths are written as by [`super::shown::shown`].
//! An unknown value is null, never 0.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::header::{Calibration, Recorder};

/// Version of the profile.
pub const FORMAT: &str = "plimsoll.profile/1";

/// The profile of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// [`FORMAT`].
    pub format: String,
    /// The origin of the trace.
    pub source: Source,
    /// The selection of files and times; the rest is left out.
    pub chosen: Selection,
    /// The duration of the run, and the share of tracing in it.
    pub time: RunTime,
    /// The totals of all files.
    pub totals: Totals,
    /// One entry for each path: files that had it one after another are combined. Files with most
    /// time come first, then those with most bytes.
    pub files: Vec<FileProfile>,
    /// Processes, in the order of their creation.
    pub processes: Vec<Process>,
    /// Calls by name, those with most time first.
    pub calls: Vec<CallKind>,
    /// The paths with most failed lookups, at most [`super::MAX_MISSING`].
    pub missing: Vec<Missing>,
    /// Reads, writes and other calls over time.
    pub timeline: Timeline,
    /// Times with a high rate.
    pub bursts: Vec<Burst>,
    /// The input that could not be interpreted.
    pub unparsed: UnparsedInput,
    /// Accesses that are not in the trace.
    pub blind_spots: Vec<BlindSpot>,
    /// Noteworthy properties, as text.
    pub findings: Vec<Finding>,
}

/// The origin of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// The recorder.
    pub recorder: Recorder,
    /// The version of the recorder; empty if unknown.
    pub recorder_version: String,
    /// The options of the recorder.
    pub options: Vec<String>,
    /// The program and its arguments; empty if unknown.
    pub command: Vec<String>,
    /// Whether the recorder attached to running processes.
    pub attached: bool,
    /// `uname -n`, `-r`, `-m`.
    pub host: Vec<String>,
    /// The zero of the trace: ns since the Unix epoch.
    pub zero_unix_ns: Option<i64>,
    /// The resolution of times.
    pub resolution_s: f64,
    /// Whether the trace contains the durations of calls. Without them, all times in calls are
    /// null.
    pub has_durations: bool,
    /// The tracing cost of a call; without it no time is corrected.
    pub calibration: Option<Calibration>,
    /// The end of the program: the exit status, or the negative number of the signal.
    pub status: Option<i32>,
    /// Elapsed time of the program, as measured by its parent.
    pub elapsed_s: Option<f64>,
}

/// The selection of files and times. Events that are not selected count only in the process tree.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Selection {
    /// The regular expression that paths of files match.
    pub file: Option<String>,
    /// Calls that began at this time or later.
    pub from_s: Option<f64>,
    /// Calls that began before this time.
    pub to_s: Option<f64>,
}

/// A sum of times. Recorded times are too long, because they include the tracing cost. If the cost
/// is known, `corrected_s` is the best estimate without it, and the true value is probably between
/// `low_s` and `high_s`. This holds only if the cost during the recording was that of the
/// calibration: on a busier machine it is higher, and even `low_s` is too long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// The recorded time.
    pub recorded_s: f64,
    /// The recorded time minus the greatest likely cost.
    pub low_s: Option<f64>,
    /// The recorded time minus the median cost.
    pub corrected_s: Option<f64>,
    /// The recorded time minus the smallest likely cost.
    pub high_s: Option<f64>,
}

impl Times {
    /// The best estimate, seconds: the corrected time, otherwise the recorded one.
    pub fn best_s(&self) -> f64 {
        self.corrected_s.unwrap_or(self.recorded_s)
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let sum = |mine: Option<f64>, theirs: Option<f64>| Some(mine? + theirs?);
        Self {
            recorded_s: self.recorded_s + other.recorded_s,
            low_s: sum(self.low_s, other.low_s),
            corrected_s: sum(self.corrected_s, other.corrected_s),
            high_s: sum(self.high_s, other.high_s),
        }
    }
}

/// The times of the run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RunTime {
    /// Start of the first call.
    pub start_s: f64,
    /// End of the last call.
    pub end_s: f64,
    /// From the start of the first call to the end of the last one.
    pub wall: Times,
    /// Time in calls, including waiting, summed over all threads.
    pub calls: Option<Times>,
    /// Time in calls that wait for something other than a file: futex, poll, wait4, sleep, reads of
    /// pipes and sockets.
    pub waiting: Option<Times>,
    /// Estimated share of tracing in `wall`, 0 to 1.
    pub tracing_share: Option<f64>,
    /// Mean tracing cost of a call of this run, s: best estimate, low and high end. It is
    /// calibrated; for strace it also follows the durations of short calls.
    pub traced_call_s: Option<[f64; 3]>,
    /// Whether tracing took most of the run. Then a report states the range from `low_s` to
    /// `high_s` instead of a single number.
    pub interval_only: bool,
}

/// The totals of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Number of events that were counted.
    pub calls: u64,
    /// Number of failed calls.
    pub failed_calls: u64,
    /// Number of paths with at least one call.
    pub files: u64,
    /// Number of processes.
    pub processes: u64,
    /// Number of threads.
    pub threads: u64,
    /// Calls on files.
    #[serde(flatten)]
    pub io: Io,
    /// Data of pipes, sockets and other objects that are not files. No other count of reads and
    /// writes contains them.
    pub elsewhere: Elsewhere,
}

/// Data of objects that are not files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elsewhere {
    /// Number of calls that read or receive.
    pub reads: u64,
    /// Bytes that they returned.
    pub read_bytes: u64,
    /// Number of calls that write or send.
    pub writes: u64,
    /// Bytes that they wrote.
    pub write_bytes: u64,
}

/// Calls on a file, or on all files.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Io {
    /// Number of opens.
    pub opens: u64,
    /// Number of successful reads, including those that returned 0 bytes.
    pub reads: u64,
    /// Bytes that they returned.
    pub read_bytes: u64,
    /// Distinct bytes that were read.
    pub unique_read_bytes: u64,
    /// The part of `read_bytes` that had been read before.
    pub reread_bytes: u64,
    /// Number of reads that returned less than requested, but more than 0.
    pub short_reads: u64,
    /// Number of reads that returned 0 bytes although more was requested: at the end of the file.
    pub end_reads: u64,
    /// Number of successful writes.
    pub writes: u64,
    /// Bytes that they wrote.
    pub write_bytes: u64,
    /// Distinct bytes that were written.
    pub unique_write_bytes: u64,
    /// The part of `write_bytes` that had been written before.
    pub overwritten_bytes: u64,
    /// Whether the file was accessed in more ranges than are stored. Then the two counts of
    /// distinct bytes may be too small.
    pub approximate: bool,
    /// Number of calls that set or query the offset.
    pub seeks: u64,
    /// Number of useless seeks: no read or write at the offset followed on the same open file
    /// before the next seek or the close. It includes `still_seeks`.
    pub useless_seeks: u64,
    /// Number of seeks that did not move the offset. They do not end the use of the previous seek.
    pub still_seeks: u64,
    /// Share of requests (reads and writes) that began where the previous one of the same open file
    /// ended, 0 to 1. The first one of an open file counts if it began at 0.
    pub sequential_share: Option<f64>,
    /// Share of requests that began where the previous one of the file ended, by any thread or
    /// process, 0 to 1.
    pub consecutive_share: Option<f64>,
    /// Share of requests that began before the start of the previous one of the same open file, 0
    /// to 1.
    pub descending_share: Option<f64>,
    /// Number of requests with an unknown offset. They are in no share and in no count of distinct
    /// bytes.
    pub unknown_offsets: u64,
    /// Number of writes that overwrite bytes of the last read of the same open file.
    pub modify_writes: u64,
    /// Number of requests that bypass the page cache (`O_DIRECT`).
    pub direct: u64,
    /// Number of these requests whose offset or length is not a multiple of 512.
    pub unaligned_direct: u64,
    /// Number of calls that wait for the disk: fsync and similar calls.
    pub syncs: u64,
    /// Best estimate of the time in reads. See `read_time`, and `interval_only` before it is
    /// printed.
    pub read_s: Option<f64>,
    /// Best estimate of the time in writes.
    pub write_s: Option<f64>,
    /// Time in reads.
    pub read_time: Option<Times>,
    /// Time in writes.
    pub write_time: Option<Times>,
    /// Time in syncs.
    pub sync_time: Option<Times>,
    /// Time in all other calls.
    pub metadata_time: Option<Times>,
    /// Time in all calls divided by the duration of the run, both as best estimates. More than 1 if
    /// threads overlap.
    pub run_share: Option<f64>,
    /// Distributions of the reads.
    pub read: Option<Requests>,
    /// Distributions of the writes.
    pub write: Option<Requests>,
    /// Number of calls that are neither reads nor writes nor seeks, by name.
    pub metadata: BTreeMap<String, u64>,
    /// Failed calls.
    pub failed: Vec<FailedCalls>,
    /// Number of mappings.
    pub maps: u64,
    /// Distinct bytes that were mapped. Accesses to mapped memory are not recorded.
    pub mapped_bytes: u64,
}

impl Io {
    /// Time in all calls: best estimate, seconds. None without durations.
    pub fn calls_s(&self) -> Option<f64> {
        let times = [
            self.read_time,
            self.write_time,
            self.sync_time,
            self.metadata_time,
        ];
        times.iter().flatten().map(Times::best_s).reduce(|a, b| a + b)
    }
}

/// The requests of one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Requests {
    /// Requested bytes; the returned bytes if the request is unknown.
    pub size: Spread,
    /// Durations minus the median tracing cost, seconds.
    pub duration_s: Option<Spread>,
    /// Bytes per second of the requests that returned data and whose duration exceeds the tracing
    /// cost.
    pub speed: Option<Spread>,
    /// Number of requests for less than [`super::SMALL_REQUEST`] bytes.
    pub small: u64,
    /// Time in small requests: best estimate.
    pub small_s: Option<f64>,
}

/// The distribution of values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Number of values.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the sample (n - 1); null for one value.
    pub sd: Option<f64>,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// Number of values in each range that is not empty. The bounds are powers of two of the unit
    /// of the value (1 byte, 1 ns, 1 byte/s); the first range begins at 0.
    pub histogram: Vec<Bin>,
}

/// A range of a histogram, from `from` to below `to`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Lower bound, included.
    pub from: f64,
    /// Upper bound, excluded.
    pub to: f64,
    /// Number of values in the range.
    pub count: u64,
}

/// Calls with the same error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedCalls {
    /// The name of the call.
    pub call: String,
    /// The name of the error, as in errno(3).
    pub error: String,
    /// Number of such calls.
    pub count: u64,
}

/// The profile of a path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileProfile {
    /// The last path of the file.
    pub path: String,
    /// Other paths of the file, at most [`super::MAX_OTHER_NAMES`].
    pub other_names: Vec<String>,
    /// The kind: `file`, `directory`, `link`, `device`, `memory`; `name` for a path at which no
    /// file was found.
    pub kind: String,
    /// Number of files that had the path one after another (created, removed, created again); 0 if
    /// there was none.
    pub incarnations: u64,
    /// The calls on it.
    #[serde(flatten)]
    pub io: Io,
    /// The greatest known size, bytes: returned by stat, or reached by reading and writing.
    pub size: Option<u64>,
    /// Time for which it was open: the union of all opens.
    pub open_s: f64,
    /// Start of its first call.
    pub first_s: f64,
    /// End of its last call.
    pub last_s: f64,
    /// Number of threads that used it.
    pub threads: u64,
    /// Number of processes that used it.
    pub process_count: u64,
    /// Indices in `processes` of the first [`super::MAX_PROCESSES`] of them.
    pub processes: Vec<usize>,
    /// Whether it was mapped as executable: a program or a library.
    pub executable: bool,
    /// Its use over time, as rows: index of the bin of `timeline`, calls, bytes read, bytes
    /// written. Empty bins are left out.
    pub timeline: Vec<[u64; 4]>,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// The id on the traced host. The kernel reuses ids, so two processes may have the same.
    pub pid: u32,
    /// Index in `processes` of the process that created it.
    pub parent: Option<usize>,
    /// The last program that it executed, otherwise that of its parent.
    pub program: Option<String>,
    /// Number of programs that it executed.
    pub executes: u64,
    /// Start of its first call.
    pub start_s: f64,
    /// End of its last call.
    pub end_s: f64,
    /// The work of all its threads.
    #[serde(flatten)]
    pub work: Work,
    /// Its threads, in the order of their creation.
    pub threads: Vec<Thread>,
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// Index in the table of threads of the trace.
    pub id: usize,
    /// The id on the traced host.
    pub tid: u32,
    /// Start of its first call.
    pub start_s: f64,
    /// End of its last call.
    pub end_s: f64,
    /// The work of the thread.
    #[serde(flatten)]
    pub work: Work,
}

/// The work of a thread or a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Number of calls.
    pub calls: u64,
    /// Number of failed calls.
    pub failed_calls: u64,
    /// Bytes read from files.
    pub read_bytes: u64,
    /// Bytes written to files.
    pub write_bytes: u64,
    /// Time in calls, including waiting.
    pub calls_time: Option<Times>,
    /// Time in calls that wait for something other than a file.
    pub waiting_time: Option<Times>,
    /// Processor time between calls, if the recorder measures it.
    pub cpu_s: Option<f64>,
}

/// Calls of one name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallKind {
    /// The name of the call.
    pub name: String,
    /// The effect, as in the table of calls: `read`, `look`, `wait` and others.
    pub effect: String,
    /// Number of calls.
    pub count: u64,
    /// Number of failed calls, by error.
    pub errors: BTreeMap<String, u64>,
    /// Transferred bytes.
    pub bytes: u64,
    /// Time in the calls.
    pub time: Option<Times>,
    /// Mean duration minus the median tracing cost.
    pub mean_s: Option<f64>,
    /// Median duration minus the median tracing cost, to two digits.
    pub p50_s: Option<f64>,
    /// 99 % quantile of the duration minus the median tracing cost, to two digits.
    pub p99_s: Option<f64>,
    /// Maximum duration minus the median tracing cost.
    pub max_s: Option<f64>,
}

/// A path with failed lookups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The path.
    pub path: String,
    /// Number of failed lookups.
    pub count: u64,
}

/// Calls over time. A call counts in the bin in which it began. All columns have the same length.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Start of the first bin.
    pub start_s: f64,
    /// Length of a bin.
    pub bin_s: f64,
    /// Reads of files.
    pub reads: Vec<u64>,
    /// Bytes read.
    pub read_bytes: Vec<u64>,
    /// Writes to files.
    pub writes: Vec<u64>,
    /// Bytes written.
    pub write_bytes: Vec<u64>,
    /// Other calls on files.
    pub metadata: Vec<u64>,
    /// Calls that concern no file.
    pub other: Vec<u64>,
}

/// The measure of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Bytes read and written.
    Bytes,
    /// Calls on files.
    Calls,
}

/// A time with a much higher rate than the mean.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Burst {
    /// The measure.
    pub of: Measure,
    /// Start of the burst.
    pub from_s: f64,
    /// End of the burst.
    pub to_s: f64,
    /// Amount in the burst.
    pub amount: u64,
    /// Share of the amount of the run, 0 to 1.
    pub share: f64,
    /// Rate divided by the mean rate of the run.
    pub times_mean: f64,
}

/// The input of a trace that could not be interpreted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnparsedInput {
    /// Whether the trace has its end; false if it was cut.
    pub whole: bool,
    /// Number of all lines or records.
    pub lines: u64,
    /// Number of lines that the recorder does not write, or that are cut although they are not the
    /// last line.
    pub odd_lines: u64,
    /// Number of logs whose last line is cut.
    #[serde(default)]
    pub cut_lines: u64,
    /// The first of these lines.
    pub examples: Vec<String>,
    /// Number of unknown calls.
    pub unknown_calls: u64,
    /// Number of ends of calls whose start is missing.
    pub halves: u64,
    /// Number of calls whose end is missing although their thread made further calls.
    pub endless: u64,
}

/// Accesses that are not in the trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlindSpot {
    /// `mapped`, `io-uring`, `past-libc` (of every preload recording), `silent-program`,
    /// `unknown-offset`.
    pub kind: String,
    /// The file, if it concerns one.
    pub file: Option<String>,
    /// Number of occurrences.
    pub count: u64,
    /// Number of bytes that it may concern.
    pub bytes: Option<u64>,
    /// The text for users.
    pub text: String,
}

/// A noteworthy property.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The kind: `useless-seeks`, `read-again` and others; see the module `findings`.
    pub kind: String,
    /// The file, if it concerns one.
    pub file: Option<String>,
    /// The numbers of the text. Their names belong to the kind.
    pub numbers: BTreeMap<String, f64>,
    /// The text for users.
    pub text: String,
}
