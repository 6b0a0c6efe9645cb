//! Why a trace cannot be replayed, or its directories cannot be prepared.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use plimsoll_replay::check::{CheckError, Finding, PrepareError};
use plimsoll_replay::names::RuleError;
use plimsoll_replay::plan::PlanError;
use plimsoll_replay::root::RootError;
use plimsoll_trace::file::FileError;

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The engine runs as root, and the settings do not allow it.
    #[error(
        "allow_root: the engine runs as root, so that permissions do not protect files below the \
         directory: run it as another user, or set `allow_root: true`"
    )]
    IsRoot,
    /// The trace cannot be read.
    #[error("trace: {file}: {source}")]
    Trace {
        /// Path of the trace.
        file: PathBuf,
        /// Error of the reader.
        source: FileError,
    },
    /// The trace has no plan.
    #[error("trace: {file}: {source}")]
    Plan {
        /// Path of the trace.
        file: PathBuf,
        /// Reason.
        source: PlanError,
    },
    /// All calls of the trace are ignored.
    #[error(
        "trace: {file}: there are no calls to replay: {ignored} of its {calls} calls are on names that are \
         ignored"
    )]
    NoCalls {
        /// Path of the trace.
        file: PathBuf,
        /// Number of calls on ignored names.
        ignored: u64,
        /// Number of all calls.
        calls: u64,
    },
    /// A rule for names is invalid.
    #[error("{key}: {source}")]
    Rule {
        /// Key of the rule: `map`, `ignore` or `copies`.
        key: &'static str,
        /// Error of the parser.
        source: RuleError,
    },
    /// The path of the job directories does not have the required form.
    #[error("root: expected {expected}, got \"{found}\"")]
    RootForm {
        /// The required form.
        expected: &'static str,
        /// The path.
        found: PathBuf,
    },
    /// The directory above a new directory does not exist.
    #[error(
        "root: cannot create {0}, because its parent directory does not exist: create it, or mount the file \
         system"
    )]
    NoParent(PathBuf),
    /// A directory cannot be created.
    #[error("root: cannot create {directory}: {source}")]
    Create {
        /// Path of the directory.
        directory: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A directory cannot be opened for its preparation.
    #[error("root: {directory}: {source}")]
    Open {
        /// Path of the directory.
        directory: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A directory cannot be opened for the replay.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The files of a directory cannot be checked.
    #[error("{directory}: {source}")]
    Check {
        /// Path of the directory.
        directory: PathBuf,
        /// Reason.
        source: CheckError,
    },
    /// The files of a directory cannot be made or reset.
    #[error("{directory}: {source}")]
    Prepare {
        /// Path of the directory.
        directory: PathBuf,
        /// Reason.
        source: PrepareError,
    },
    /// The prepared files cannot be written to disk.
    #[error("{directory}: {source}")]
    Sync {
        /// Path of the directory.
        directory: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Jobs would change a file that they share.
    #[error("copies: {0}: add it to `private`, or set `write_shared: true`")]
    SharedIsWritten(Box<Finding>),
    /// The files that all jobs share cannot be prepared. Every tester receives the same error.
    #[error(transparent)]
    Shared(#[from] Arc<ReplayError>),
}
