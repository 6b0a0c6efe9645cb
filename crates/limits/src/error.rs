//! Why a limit cannot be set, or does not hold.

use std::io;
use std::path::PathBuf;

/// Why a control group cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    /// No hierarchy has the controller.
    #[error("the control group controller {0} is not available to this process")]
    NoController(&'static str),
    /// The kernel has the controller, but not the file for this limit.
    #[error("the kernel cannot limit this: {} does not exist", .0.display())]
    NoFile(PathBuf),
    /// This process may not create groups.
    #[error(
        "no control group can be created in {}: {source}. Limits need root, or a group that is delegated to this user \
         (version 2: `systemd-run --user --scope -p Delegate=yes COMMAND`)", .path.display()
    )]
    Create {
        /// The group in which it was tried.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A limit was refused.
    #[error("{} cannot be set to {value}: {source}", .path.display())]
    Set {
        /// The file of the limit.
        path: PathBuf,
        /// Its value.
        value: String,
        /// The reason.
        source: io::Error,
    },
    /// The groups of this process cannot be determined, or a program of the self-test cannot run.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The reason.
        source: io::Error,
    },
}

impl LimitError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
