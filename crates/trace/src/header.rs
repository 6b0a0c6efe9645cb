//! The metadata of a trace: its origin, the tracing cost, and the input that could not be
//! interpreted.

use serde::{Deserialize, Serialize};

/// Version of the trace file.
pub const FORMAT: &str = "plimsoll.trace/1";

/// The recorder of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recorder {
    /// strace; its text was imported.
    Strace,
    /// The recorder that is loaded before libc.
    Preload,
}

/// The head of a trace file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// The recorder.
    pub recorder: Recorder,
    /// The version that the recorder reports; empty if unknown.
    #[serde(default)]
    pub recorder_version: String,
    /// The options of the recorder.
    #[serde(default)]
    pub options: Vec<String>,
    /// The program and its arguments; empty if the recorder attached to a running process, or if
    /// they are unknown.
    #[serde(default)]
    pub command: Vec<String>,
    /// Whether the recorder attached to running processes.
    #[serde(default)]
    pub attached: bool,
    /// The host: `uname -n`, `-r`, `-m`.
    #[serde(default)]
    pub host: Vec<String>,
    /// The zero of the trace: ns since the Unix epoch. None if the source contains no date.
    #[serde(default)]
    pub zero_unix_ns: Option<i64>,
    /// The resolution of the times, ns: 1,000 for the microseconds of strace.
    pub resolution_ns: u64,
    /// Whether the source contains the durations of calls.
    pub has_durations: bool,
    /// The tracing cost on the host; None if it was not measured.
    #[serde(default)]
    pub calibration: Option<Calibration>,
}

impl Header {
    /// A header with a recorder, the resolution of the times in ns, and durations. All other fields
    /// are empty.
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

    /// Whether the recorder and the traced threads shared one core and the trace contains
    /// durations. Then it can be inferred which thread computed.
    pub fn is_on_one_core(&self) -> bool {
        self.recorder == Recorder::Strace
            && self.has_durations
            && self.options.iter().any(|option| option == ONE_CORE)
    }
}

/// The option of a recording in which strace and the traced threads shared one core.
pub const ONE_CORE: &str = "--one-core";

/// The tracing cost of a call, measured on the same host with the same recorder and options.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Elapsed time of a traced call minus that of an untraced one, ns: the median, and the range
    /// that contains 90 % of the measurements.
    pub call_ns: [f64; 3],
    /// The part of `call_ns` within the recorded duration of the call, ns: median and range.
    pub duration_ns: [f64; 3],
    /// Number of measured calls.
    pub calls: u64,
}

impl Calibration {
    /// Combines two measurements, before and after a recording: the mean of the medians, and a
    /// range that contains both ranges, because the load of the host may have changed.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let combine = |[middle, low, high]: [f64; 3], [other, lower, higher]: [f64; 3]| {
            [f64::midpoint(middle, other), low.min(lower), high.max(higher)]
        };
        Self {
            call_ns: combine(self.call_ns, other.call_ns),
            duration_ns: combine(self.duration_ns, other.duration_ns),
            calls: self.calls + other.calls,
        }
    }
}

/// The end of a trace file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Footer {
    /// Number of events in the file.
    pub events: u64,
    /// Number of lines that the recorder does not write, or that are cut although they are not the
    /// last line.
    #[serde(default)]
    pub odd_lines: u64,
    /// Number of logs whose last line is cut.
    #[serde(default)]
    pub cut_lines: u64,
    /// The first of these lines, at most 200 bytes of each.
    #[serde(default)]
    pub examples: Vec<String>,
    /// Number of calls that this version does not know. They are not in the file.
    #[serde(default)]
    pub unknown_calls: u64,
    /// Number of ends of calls whose start is missing. They are not in the file.
    #[serde(default)]
    pub halves: u64,
    /// Number of calls whose end is missing although their thread made further calls.
    #[serde(default)]
    pub endless: u64,
    /// Number of all lines or records.
    #[serde(default)]
    pub lines: u64,
    /// The end of the traced program, if it was recorded: the exit status, or the negative number
    /// of the signal.
    #[serde(default)]
    pub status: Option<i32>,
    /// Elapsed time from the start of the program to its end, as measured by its parent, ns.
    #[serde(default)]
    pub elapsed_ns: Option<u64>,
}
