//! What can go wrong between memory and disk.

use std::path::{Path, PathBuf};

/// Why something could not be written or read. A failing recorder never changes the run: these
/// become damage texts.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The operating system refused.
    #[error("{doing} {path}: {source}{}", advice(.source))]
    Io {
        /// "writing", "reading", "creating", ...
        doing: &'static str,
        /// Which file.
        path: PathBuf,
        /// Its answer.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{path}: {what}")]
    Broken {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Columns that do not fit together: a mistake of ours, reported instead of a panic.
    #[error("building a batch: {0}")]
    Columns(#[from] arrow_schema::ArrowError),
    /// The file was written by another version.
    #[error(
        "{path} has format \"{found}\", this engine reads \"{own}\": use the version that wrote it, or a newer one"
    )]
    Version {
        /// Which file.
        path: PathBuf,
        /// What stands in it.
        found: String,
        /// What we read.
        own: &'static str,
    },
}

impl RecordError {
    /// An I/O error with the place where it happened.
    pub fn io(doing: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io {
            doing,
            path: path.to_owned(),
            source,
        }
    }

    /// A file that is not what it should be.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "errors and texts are handed over where they arise"
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
            " (free some space on this file system, or have it written elsewhere: `--out` for results, `directory` of other hosts)"
        }
        std::io::ErrorKind::PermissionDenied => " (the user who runs the engine needs write access there)",
        _ => "",
    }
}
