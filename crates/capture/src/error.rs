//! Errors of a recording. The source of an error states the details, so a message for users
//! contains the whole chain of sources.

use std::io;
use std::num::ParseFloatError;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use nix::errno::Errno;
use plimsoll_trace::file::FileError;
use plimsoll_trace::preload::LogError;

use crate::output::OutputError;

/// The reason why a request to record is refused before anything is started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Neither a program nor a process is named, or both are.
    #[error("pass either a program (after --) or a process to attach to (-p)")]
    ProgramOrProcess,
    /// The program does not exist.
    #[error("there is no program {0}")]
    NoProgram(PathBuf),
    /// The process does not exist. Contains its id.
    #[error("-p: there is no process {0}")]
    NoProcess(u32),
    /// The preload recorder shares no core with the program.
    #[error("--one-core is valid only with --source strace")]
    OneCoreSource,
    /// A running process keeps its cores.
    #[error("--one-core is valid only for a program that is started: a running process keeps its cores")]
    OneCoreAttached,
    /// The preload recorder is loaded when a program starts.
    #[error("-p: the preload recorder cannot attach to a running process. Use --source strace")]
    PreloadAttached,
    /// The preload recorder cannot be stopped before the program ends.
    #[error("--for is valid only with --source strace: the preload recorder records until the program ends")]
    PreloadDuration,
}

/// The reason why a recording, or the import of logs, failed.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The request is refused.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The output is refused, or cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The trace cannot be written or read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A call to the system failed, whose error is the whole message.
    #[error(transparent)]
    Io(io::Error),
    /// A call to the system failed.
    #[error("{operation}")]
    System {
        /// The operation, such as "waiting for strace".
        operation: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// An operation on a file or directory failed.
    #[error("{operation} {path}")]
    Path {
        /// The operation, such as "reading".
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The cores of this process cannot be read or set.
    #[error("{operation}")]
    Cores {
        /// The operation, such as "moving to one core".
        operation: &'static str,
        /// The error of the system.
        source: Errno,
    },
    /// The set of the cores of this process is empty.
    #[error("this process has no core")]
    NoCore,
    /// strace is not installed, or cannot be executed.
    #[error(
        "cannot start strace: install it (Debian, Ubuntu: apt-get install strace; Fedora, RHEL: dnf install strace)"
    )]
    NoStrace(#[source] io::Error),
    /// strace is too old. Contains its version, such as `strace -- version 4.8`.
    #[error("strace 4.26 or later is required, found \"{0}\"")]
    OldStrace(String),
    /// The library of the preload recorder is not embedded (see build.rs).
    #[error(
        "this engine was built without the preload recorder: build it with `make engine`, or use --source strace"
    )]
    NoRecorder,
    /// The path of the output ends in `..`.
    #[error("the path of the trace file has no file name")]
    NoFileName,
    /// The program cannot be started.
    #[error("starting {program}")]
    Start {
        /// The program.
        program: String,
        /// The error of the system.
        source: io::Error,
    },
    /// strace wrote no call. Contains how it ended.
    #[error(
        "nothing was recorded: strace ended with {0}. It needs permission to trace: the same user, and a value of kernel.yama.ptrace_scope that allows it"
    )]
    NothingTraced(ExitStatus),
    /// The preload recorder wrote no log. Contains the program.
    #[error(
        "nothing was recorded: {0} is linked statically, does not permit preloading (setuid), or did not start. Use --source strace"
    )]
    NothingPreloaded(String),
    /// A file is not a log of the preload recorder of this version.
    #[error("{path}")]
    Log {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: LogError,
    },
    /// The calibration before the recording failed.
    #[error("measuring the tracing cost (--uncalibrated records without it)")]
    Calibration(#[source] Box<CaptureError>),
    /// A calibration did not measure what it should.
    #[error(transparent)]
    Measurement(#[from] CalibrationError),
}

/// The reason why a calibration did not measure the tracing cost.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// The program that makes calls printed no durations.
    #[error(transparent)]
    Duration(#[from] ParseFloatError),
    /// The program that makes calls ended early.
    #[error("the calibration program ended early: {found} of {expected} rounds")]
    Rounds {
        /// Number of rounds whose durations it printed.
        found: usize,
        /// Number of rounds that it was started for.
        expected: usize,
    },
    /// strace ended before the program that it traced.
    #[error("strace cannot trace processes here")]
    NotTraced(#[source] Box<CalibrationError>),
    /// strace did not end within this time.
    #[error("strace did not end within {} s. Record with --uncalibrated to omit the calibration", .0.as_secs())]
    Timeout(Duration),
    /// strace recorded less than half of the calls. Contains their number.
    #[error("strace recorded only {0} calls of the calibration")]
    StraceCalls(usize),
    /// `dd` failed. Contains how it ended.
    #[error("dd ended with {0}")]
    Dd(ExitStatus),
    /// The preload recorder recorded less than half of the calls.
    #[error("the recorder has recorded only {found} of {expected} calls of dd")]
    PreloadCalls {
        /// Number of calls that it recorded.
        found: u64,
        /// Number of calls that `dd` made.
        expected: usize,
    },
}

/// Converts an error of the system; `operation` is the operation that failed.
pub(crate) fn system(operation: &'static str) -> impl FnOnce(io::Error) -> CaptureError {
    move |source| CaptureError::System { operation, source }
}

/// Converts an error of an operation on a file or directory.
pub(crate) fn at(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CaptureError {
    let path = path.to_owned();
    move |source| CaptureError::Path {
        operation,
        path,
        source,
    }
}
