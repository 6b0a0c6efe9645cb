//! `plimsoll-engine testbed`: emulated hosts and links, for `plimsoll testbed`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Subcommand;
use plimsoll_wan::{control, owner};

/// The commands for testbeds.
#[derive(Subcommand)]
pub(crate) enum Testbed {
    /// Start a testbed in the background and return when it is ready; the configuration is JSON
    Up {
        /// File with the configuration, or - for stdin
        #[arg(long)]
        config: PathBuf,
    },
    /// Run a command on a host of the testbed, in place of this process
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

/// Executes a command. Both need a process with a single thread.
///
/// # Errors
/// The testbed or the command could not be started.
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
