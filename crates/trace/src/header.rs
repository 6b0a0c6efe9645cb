//! What a trace says of itself: where it comes from, what tracing cost, what could not be
//! understood.

use serde::{Deserialize, Serialize};

/// Version of the trace file.
pub const FORMAT: &str = "plimsoll.trace/1";

/// By what a trace was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recorder {
    /// strace's text.
    Strace,
    /// The library that is loaded before libc.
    Preload,
}

/// The head of a trace file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// By what it was recorded.
    pub recorder: Recorder,
    /// Its version, as it names itself; empty where that is not known.
    #[serde(default)]
    pub recorder_version: String,
    /// The options that it was given.
    #[serde(default)]
    pub options: Vec<String>,
    /// The program and its arguments; empty where it was attached to, or is not known.
    #[serde(default)]
    pub command: Vec<String>,
    /// The recording attached to processes that ran already.
    #[serde(default)]
    pub attached: bool,
    /// The host, as it names itself: `uname -n`, `-r`, `-m`.
    #[serde(default)]
    pub host: Vec<String>,
    /// The zero of the trace: ns since the Unix epoch. None where the source has no date.
    #[serde(default)]
    pub zero_unix_ns: Option<i64>,
    /// The finest difference of times that the source tells, ns: 1000 for strace's microseconds.
    pub resolution_ns: u64,
    /// The source tells how long a call took.
    pub has_durations: bool,
    /// What tracing costs on the host; none where nobody has measured it.
    #[serde(default)]
    pub calibration: Option<Calibration>,
}

impl Header {
    /// Of a recording of which nothing is known but by what it was made and how fine its times are,
    /// ns; it has durations.
    #[must_use]
    pub fn new(recorder: Recorder, resolution_ns: u64) -> Self {
        Self {
            format: FORMAT.to_owned(),
            recorder,
            recorder_version: String::new(),
            options: Vec::new(),
            command: Vec::new(),
            attached: false,
            host: Vec::new(),
            zero_unix_ns: None,
            resolution_ns,
            has_durations: true,
            calibration: None,
        }
    }

    /// Whether the recorder and all that it traced had one core together, and it tells how long
    /// calls took: then who computes is known.
    pub fn is_on_one_core(&self) -> bool {
        self.recorder == Recorder::Strace
            && self.has_durations
            && self.options.iter().any(|option| option == ONE_CORE)
    }
}

/// In the options of a recording, where strace and all that it traced had one core together.
pub const ONE_CORE: &str = "--one-core";

/// What tracing a call costs on a host: measured there, by the same recorder with the same options.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Elapsed time that a traced call takes more than one that is not, ns: median, and the range
    /// in which nine of ten measurements lie.
    pub call_ns: [f64; 3],
    /// How much of it lies within the recorded duration of the call, ns: the same.
    pub duration_ns: [f64; 3],
    /// Calls that were measured.
    pub calls: u64,
}

impl Calibration {
    /// Of two measurements, before and after a recording: the middle of their medians, and a range
    /// that holds both, as the host may have been busier at one time than at the other.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let both = |[middle, low, high]: [f64; 3], [other, lower, higher]: [f64; 3]| {
            [f64::midpoint(middle, other), low.min(lower), high.max(higher)]
        };
        Self {
            call_ns: both(self.call_ns, other.call_ns),
            duration_ns: both(self.duration_ns, other.duration_ns),
            calls: self.calls + other.calls,
        }
    }
}

/// The end of a trace file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Footer {
    /// Events in the file.
    pub events: u64,
    /// Lines that are nothing the recorder writes, or were cut elsewhere than at the end.
    #[serde(default)]
    pub odd_lines: u64,
    /// Last lines of logs that were cut.
    #[serde(default)]
    pub cut_lines: u64,
    /// The first of them, each to its 200th byte.
    #[serde(default)]
    pub examples: Vec<String>,
    /// Calls that nobody knew when this was written: not in the file.
    #[serde(default)]
    pub unknown_calls: u64,
    /// Ends of calls whose beginning is missing: not in the file.
    #[serde(default)]
    pub halves: u64,
    /// Calls whose end is missing although their thread went on.
    #[serde(default)]
    pub endless: u64,
    /// Lines, or records, in all.
    #[serde(default)]
    pub lines: u64,
    /// How the traced program ended, where the recorder saw it: exit status, or the number of the
    /// signal, negative.
    #[serde(default)]
    pub status: Option<i32>,
    /// Elapsed time of the program from its start to its end as its parent saw it, ns.
    #[serde(default)]
    pub elapsed_ns: Option<u64>,
}
