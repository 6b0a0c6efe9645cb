//! Errors of reading and writing files.

use std::path::{Path, PathBuf};

/// An error of reading or writing a file. An error of the recorder never changes the run: it is
/// reported as a text in `damage`.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The operating system reported an error.
    #[error("{doing} {path}: {source}{}", advice(.source))]
    Io {
        /// The operation: "writing", "reading", "creating", ...
        doing: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The contents of the file are invalid.
    #[error("{path}: {what}")]
    Broken {
        /// Path of the file.
        path: PathBuf,
        /// Description of the fault.
        what: String,
    },
    /// Columns that do not fit together: a fault of Plimsoll, reported instead of a panic.
    #[error("building a batch of rows: {0} (this is a fault of Plimsoll: please report it)")]
    Columns(#[from] arrow_schema::ArrowError),
    /// The file was written by a newer version.
    #[error(
        "{path} has format \"{found}\", this engine reads \"{own}\": use the version that wrote it, or \
         a newer one"
    )]
    Version {
        /// Path of the file.
        path: PathBuf,
        /// Format that the file contains.
        found: String,
        /// Format that this engine reads.
        own: &'static str,
    },
}

impl RecordError {
    /// An [`RecordError::Io`] of the operation `doing` on `path`.
    pub fn io(doing: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io {
            doing,
            path: path.to_owned(),
            source,
        }
    }

    /// A [`RecordError::Broken`] of `path`.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "callers pass temporary errors and texts"
    )]
    pub fn broken(path: &Path, what: impl ToString) -> Self {
        Self::Broken {
            path: path.to_owned(),
            what: what.to_string(),
        }
    }
}

fn advice(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::StorageFull => {
            " (free some space on this file system, or choose another: `--out` for results, `directory` \
             of other hosts)"
        }
        std::io::ErrorKind::PermissionDenied => " (give the user who runs the engine access to it)",
        _ => "",
    }
}
