//! The profile of a trace as JSON: what `plimsoll trace show --json` prints and what the page is
//! made of.
//!
//! Times are seconds since the zero of the trace, or lengths in seconds, where they end in `_s`;
//! bytes are results of calls, not what was asked for. Names of files are written as
//! [`super::shown::shown`] does. A field that is not known is null, never 0.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::header::{Calibration, Recorder};

/// Version of the profile.
pub const FORMAT: &str = "plimsoll.profile/1";

/// What an application did to its files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// [`FORMAT`].
    pub format: String,
    /// Where the trace comes from.
    pub source: Source,
    /// What was left out because nobody asked for it.
    pub chosen: Chosen,
    /// How long the run took, and how much of that was tracing.
    pub time: RunTime,
    /// All files together.
    pub totals: Totals,
    /// One for a name: the files that bore it one after another are put together. Those that took
    /// most time come first, then those with most bytes.
    pub files: Vec<FileProfile>,
    /// Processes, by the order of their making.
    pub processes: Vec<Process>,
    /// Calls by their names, those that took most time first.
    pub calls: Vec<CallKind>,
    /// Names most often looked for in vain, at most [`super::MISSING`] of them.
    pub missing: Vec<Missing>,
    /// What happened when.
    pub timeline: Timeline,
    /// When most of it happened.
    pub bursts: Vec<Burst>,
    /// What of the trace could not be understood.
    pub unparsed: Unparsed,
    /// What the trace cannot tell.
    pub blind_spots: Vec<BlindSpot>,
    /// What is worth a look, in words.
    pub findings: Vec<Finding>,
}

/// Where a trace comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// By what it was recorded.
    pub recorder: Recorder,
    /// Its version; empty where that is not known.
    pub recorder_version: String,
    /// The options that it was given.
    pub options: Vec<String>,
    /// The program and its arguments; empty where that is not known.
    pub command: Vec<String>,
    /// Recording began when the processes ran already.
    pub attached: bool,
    /// `uname -n`, `-r`, `-m`.
    pub host: Vec<String>,
    /// The zero of the trace: ns since the Unix epoch.
    pub zero_unix_ns: Option<i64>,
    /// The finest difference of times.
    pub resolution_s: f64,
    /// The trace tells how long a call took. Without, all times in calls are null.
    pub has_durations: bool,
    /// What tracing a call costs; without it nothing is corrected.
    pub calibration: Option<Calibration>,
    /// How the program ended: exit status, or the number of the signal, negative.
    pub status: Option<i32>,
    /// How long it took, as its parent saw it.
    pub elapsed_s: Option<f64>,
}

/// What was asked for. Events that do not fit are counted nowhere but in the process tree.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Chosen {
    /// The expression that names of files match.
    pub file: Option<String>,
    /// Calls that began at this time or later.
    pub from_s: Option<f64>,
    /// Calls that began before this time.
    pub to_s: Option<f64>,
}

/// A total of times. Tracing costs: what was recorded is too long. Where the cost is known,
/// `corrected_s` is the best estimate without it, and the truth is likely between `low_s` and
/// `high_s`, as long as a call cost what it did when that was measured: on a busier machine it
/// costs more, and even `low_s` is too long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// As recorded.
    pub recorded_s: f64,
    /// With the greatest likely cost taken off.
    pub low_s: Option<f64>,
    /// With the median cost taken off.
    pub corrected_s: Option<f64>,
    /// With the smallest likely cost taken off.
    pub high_s: Option<f64>,
}

impl Times {
    /// The best estimate there is: corrected, else as recorded. Seconds.
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

/// How long the run took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RunTime {
    /// When the first call began.
    pub start_s: f64,
    /// When the last one ended.
    pub end_s: f64,
    /// From the one to the other.
    pub wall: Times,
    /// In calls, summed over all threads; waiting is in it.
    pub calls: Option<Times>,
    /// In calls that wait for something else than a file: futex, poll, wait4, sleep, reads of pipes
    /// and sockets.
    pub waiting: Option<Times>,
    /// Estimated share of tracing in `wall`, 0..=1.
    pub tracing_share: Option<f64>,
    /// What tracing cost a call of this run in the mean, s: best estimate, low and high end. It is
    /// calibrated, and with strace follows what short calls of the trace say.
    pub traced_call_s: Option<[f64; 3]>,
    /// Tracing was most of the run: say `low_s` to `high_s` wherever a time is told, not one
    /// number.
    pub interval_only: bool,
}

/// All files together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Events of the trace that were counted.
    pub calls: u64,
    /// Those that failed.
    pub failed_calls: u64,
    /// Files that anything was done to, by their names.
    pub files: u64,
    /// Processes.
    pub processes: u64,
    /// Threads.
    pub threads: u64,
    /// To files.
    #[serde(flatten)]
    pub io: Io,
    /// To pipes, sockets and the like, which are in no other number of reads and writes.
    pub elsewhere: Elsewhere,
}

/// Data to and from what is no file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elsewhere {
    /// Calls that read or receive.
    pub reads: u64,
    /// What they gave.
    pub read_bytes: u64,
    /// Calls that write or send.
    pub writes: u64,
    /// What they took.
    pub write_bytes: u64,
}

/// What was done to a file, or to all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Io {
    /// Calls that opened it.
    pub opens: u64,
    /// Reads that succeeded, also where they gave nothing.
    pub reads: u64,
    /// What they gave.
    pub read_bytes: u64,
    /// Bytes of the file that were read at least once.
    pub unique_read_bytes: u64,
    /// `read_bytes` of which the file had given the same before.
    pub reread_bytes: u64,
    /// Reads that gave less than was asked for, but something.
    pub short_reads: u64,
    /// Reads that gave nothing although something was asked for: at the end of the file.
    pub end_reads: u64,
    /// Writes that succeeded.
    pub writes: u64,
    /// What they took.
    pub write_bytes: u64,
    /// Bytes of the file that were written at least once.
    pub unique_write_bytes: u64,
    /// `write_bytes` that were written before.
    pub overwritten_bytes: u64,
    /// The file was accessed in more pieces than are kept apart: the two unique numbers may be too
    /// small.
    pub approximate: bool,
    /// Calls that set the offset, or asked for it.
    pub seeks: u64,
    /// Seeks without use: no call that reads or writes at the offset followed on the same open file
    /// before the next seek or the close; and `still_seeks`.
    pub useless_seeks: u64,
    /// Seeks that did not move the offset. They do not end the use of the seek before them.
    pub still_seeks: u64,
    /// Share of requests (reads and writes) that began where the last one of the same open file
    /// ended, 0..=1; the first one of an open file where it began at 0.
    pub sequential_share: Option<f64>,
    /// Share that began where the last one of the file ended, whoever made it.
    pub consecutive_share: Option<f64>,
    /// Share that began before the beginning of the last one of the same open file.
    pub descending_share: Option<f64>,
    /// Requests of which nobody knows where in the file they were; they are in no share, and in no
    /// unique number.
    pub unknown_offsets: u64,
    /// Writes over what the last read of the same open file has given.
    pub modify_writes: u64,
    /// Requests past the cache of the kernel (`O_DIRECT`).
    pub direct: u64,
    /// Those whose offset or length is no multiple of 512.
    pub unaligned_direct: u64,
    /// Calls that wait for the disk: fsync and the like.
    pub syncs: u64,
    /// Best estimate of the time in reads; see `read_time`, and `interval_only` before you print
    /// it.
    pub read_s: Option<f64>,
    /// The same of writes.
    pub write_s: Option<f64>,
    /// Time in reads.
    pub read_time: Option<Times>,
    /// Time in writes.
    pub write_time: Option<Times>,
    /// Time in syncs.
    pub sync_time: Option<Times>,
    /// Time in all other calls.
    pub metadata_time: Option<Times>,
    /// Time in all calls over the time of the run, both at their best estimates. More than 1 where
    /// threads overlap.
    pub run_share: Option<f64>,
    /// Reads, each by itself.
    pub read: Option<Requests>,
    /// Writes, each by itself.
    pub write: Option<Requests>,
    /// Calls that are neither reads nor writes nor seeks, by their names.
    pub metadata: BTreeMap<String, u64>,
    /// Calls that failed.
    pub failed: Vec<Failed>,
    /// Times that it was mapped into memory.
    pub maps: u64,
    /// Bytes of the file that were mapped at least once. What is read and written there is not
    /// seen.
    pub mapped_bytes: u64,
}

impl Io {
    /// Time in all its calls: best estimate, seconds. None without durations.
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

/// Requests of one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Requests {
    /// Bytes asked for; bytes given where the trace does not tell what was asked.
    pub size: Spread,
    /// Seconds, with the median cost of tracing taken off.
    pub duration_s: Option<Spread>,
    /// Bytes per second of those requests that gave any and of whose duration something is left
    /// without the cost of tracing.
    pub speed: Option<Spread>,
    /// Those that asked for less than [`super::SMALL_REQUEST`] bytes.
    pub small: u64,
    /// Time in them: best estimate.
    pub small_s: Option<f64>,
}

/// How values are spread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation (of the sample: n - 1); null of one value.
    pub sd: Option<f64>,
    /// The smallest.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// How many lie in each range that holds any; a range ends where its double begins, the first
    /// one, from 0, below the unit of the value (1 byte, 1 ns, 1 byte/s).
    pub histogram: Vec<Bin>,
}

/// A range of a histogram, from `from` to below `to`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Where it begins.
    pub from: f64,
    /// Before what it ends.
    pub to: f64,
    /// Values in it.
    pub count: u64,
}

/// Calls that failed in the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The call.
    pub call: String,
    /// The error, by its name in errno(3).
    pub error: String,
    /// How often.
    pub count: u64,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileProfile {
    /// The last name that it had.
    pub path: String,
    /// Other names that it had at any time, at most [`super::OTHER_NAMES`].
    pub other_names: Vec<String>,
    /// What it is: `file`, `directory`, `link`, `device`, `memory`; `name` where it was only asked
    /// for, in vain.
    pub kind: String,
    /// Files that bore the name one after another (made, removed, made again); 0 where there was
    /// none.
    pub incarnations: u64,
    /// What was done to it.
    #[serde(flatten)]
    pub io: Io,
    /// The greatest size of which the trace tells: found by stat, or reached by reading and
    /// writing.
    pub size: Option<u64>,
    /// How long it was open: the union of all its opens.
    pub open_s: f64,
    /// When its first call began.
    pub first_s: f64,
    /// When its last one ended.
    pub last_s: f64,
    /// Threads that used it.
    pub threads: u64,
    /// Processes that did.
    pub process_count: u64,
    /// The first [`super::USERS`] of them: places in `processes`.
    pub processes: Vec<usize>,
    /// It was mapped to be executed: a program or a library.
    pub executable: bool,
    /// When it was used: rows of place in the bins of `timeline`, calls, bytes read, bytes written.
    /// Bins without are left out.
    pub timeline: Vec<[u64; 4]>,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Its id on the traced host. Ids are given out again: two processes may have the same.
    pub pid: u32,
    /// Who made it: its place in `processes`.
    pub parent: Option<usize>,
    /// The last program that it executed, else that of its parent.
    pub program: Option<String>,
    /// How often it became another program.
    pub executes: u64,
    /// When its first call began.
    pub start_s: f64,
    /// When its last one ended.
    pub end_s: f64,
    /// What its threads did, together.
    #[serde(flatten)]
    pub work: Work,
    /// Its threads, by the order of their making.
    pub threads: Vec<Thread>,
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// Its place in the trace's table.
    pub id: usize,
    /// Its id on the traced host.
    pub tid: u32,
    /// When its first call began.
    pub start_s: f64,
    /// When its last one ended.
    pub end_s: f64,
    /// What it did.
    #[serde(flatten)]
    pub work: Work,
}

/// What a thread or a process did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Calls.
    pub calls: u64,
    /// Those that failed.
    pub failed_calls: u64,
    /// Bytes read from files.
    pub read_bytes: u64,
    /// Bytes written to files.
    pub write_bytes: u64,
    /// Time in calls, waiting as well.
    pub calls_time: Option<Times>,
    /// Time in calls that wait for something else than a file.
    pub waiting_time: Option<Times>,
    /// Processor time between calls, where the recorder knows it.
    pub cpu_s: Option<f64>,
}

/// A call, by its name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallKind {
    /// Its name.
    pub name: String,
    /// What it does, as the table of calls puts it: `read`, `look`, `wait`.
    pub effect: String,
    /// How often.
    pub count: u64,
    /// How often it failed, by error.
    pub errors: BTreeMap<String, u64>,
    /// Bytes that it moved.
    pub bytes: u64,
    /// Time in it.
    pub time: Option<Times>,
    /// Mean duration, with the median cost of tracing taken off.
    pub mean_s: Option<f64>,
    /// The same: the median, to two digits.
    pub p50_s: Option<f64>,
    /// The same: below which 99 % lie, to two digits.
    pub p99_s: Option<f64>,
    /// The same: the longest.
    pub max_s: Option<f64>,
}

/// A name that was looked for in vain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The name.
    pub path: String,
    /// How often.
    pub count: u64,
}

/// What happened when. A call is counted in the bin that it began in. All columns have the same
/// length.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// When the first bin begins.
    pub start_s: f64,
    /// How long each is.
    pub bin_s: f64,
    /// Reads of files.
    pub reads: Vec<u64>,
    /// What they gave.
    pub read_bytes: Vec<u64>,
    /// Writes to files.
    pub writes: Vec<u64>,
    /// What they took.
    pub write_bytes: Vec<u64>,
    /// Other calls about files.
    pub metadata: Vec<u64>,
    /// Calls about no file.
    pub other: Vec<u64>,
}

/// By what a burst stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Bytes read and written.
    Bytes,
    /// Calls about files.
    Calls,
}

/// A time in which much more was done than in the mean.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Burst {
    /// What there was much of.
    pub of: Measure,
    /// When it began.
    pub from_s: f64,
    /// When it ended.
    pub to_s: f64,
    /// How much of it fell there.
    pub amount: u64,
    /// Its share of the whole run, 0..=1.
    pub share: f64,
    /// Its rate over that of the whole run.
    pub times_mean: f64,
}

/// What of a trace could not be understood.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unparsed {
    /// The trace has its end: nothing was cut off.
    pub whole: bool,
    /// Lines, or records, in all.
    pub lines: u64,
    /// Lines that are nothing the recorder writes, or were cut elsewhere than at the end.
    pub odd_lines: u64,
    /// Last lines of logs that were cut.
    #[serde(default)]
    pub cut_lines: u64,
    /// The first of them.
    pub examples: Vec<String>,
    /// Calls that nobody knew.
    pub unknown_calls: u64,
    /// Ends of calls whose beginning is missing.
    pub halves: u64,
    /// Calls whose end is missing although their thread went on.
    pub endless: u64,
}

/// What a trace cannot tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlindSpot {
    /// `mapped`, `io-uring`, `past-libc` (of every preload recording), `silent-program`,
    /// `unknown-offset`.
    pub kind: String,
    /// The file, where it is about one.
    pub file: Option<String>,
    /// How often.
    pub count: u64,
    /// Bytes that it may be about.
    pub bytes: Option<u64>,
    /// In words.
    pub text: String,
}

/// What is worth a look.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What it is: `useless-seeks`, `read-again`, ...; see the module `findings`.
    pub kind: String,
    /// The file, where it is about one.
    pub file: Option<String>,
    /// The numbers of the text, by names that belong to the kind.
    pub numbers: BTreeMap<String, f64>,
    /// In words.
    pub text: String,
}
