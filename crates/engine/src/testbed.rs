//! `plimsoll-engine testbed`: emulated hosts and links, for `plimsoll testbed`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Subcommand;
use plimsoll_wan::{control, owner};

/// What can be done with a testbed.
#[derive(Subcommand)]
pub(crate) enum Testbed {
    /// Bring one up in the background; the configuration is JSON. Returns when it stands
    Up {
        /// File, or - for stdin
        #[arg(long)]
        config: PathBuf,
    },
    /// Become a command on one of its hosts
    Enter {
        /// Directory of the testbed
        directory: PathBuf,
        /// Name of the host
        host: String,
        /// Program and arguments
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

/// Does it. Both verbs need a process of one thread.
///
/// # Errors
/// Why the testbed does not stand, or the command could not be started.
pub(crate) fn carry_out(verb: Testbed) -> anyhow::Result<()> {
    match verb {
        Testbed::Up { config } => Ok(owner::up(crate::configuration(&config)?)?),
        Testbed::Enter {
            directory,
            host,
            command,
        } => Err(control::enter(&directory, &host, &command).into()),
    }
}
