//! `plimsoll-engine limits`: the self-test of limits, and the removal of control groups that are
//! left.

use std::path::PathBuf;

use anyhow::{Context, Result};
use plimsoll_limits::{Limits, Resource};

/// The verbs of `limits`.
#[derive(clap::Subcommand)]
pub(crate) enum LimitsVerb {
    /// Test whether limits hold; prints the results as JSON
    Test {
        /// Directory in which the disks are tested
        #[arg(long)]
        directory: PathBuf,
        /// memory, cpu, `disk_read`, `disk_write`
        #[arg(required = true, value_parser = resource)]
        resources: Vec<Resource>,
    },
    /// Remove the control groups of guards that have ended, and end the processes in them
    Clean,
    /// A program of the self-test
    #[command(hide = true)]
    Load { kind: String, file: Option<PathBuf> },
}

/// Parses limits as JSON.
pub(crate) fn parse(text: &str) -> Result<Limits, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn resource(name: &str) -> Result<Resource, String> {
    Resource::parse(name).ok_or_else(|| "expected memory, cpu, disk_read or disk_write".to_owned())
}

pub(crate) fn carry_out(verb: &LimitsVerb) -> Result<()> {
    match verb {
        LimitsVerb::Test { directory, resources } => {
            plimsoll_limits::sweep();
            let own = std::env::current_exe().context("cannot find this program")?;
            let program = [own, "limits".into(), "load".into()];
            let proofs = plimsoll_limits::self_test(&program, resources, directory);
            crate::say(&serde_json::json!({ "proofs": proofs }))
        }
        LimitsVerb::Clean => {
            let (removed, left) = plimsoll_limits::sweep();
            crate::say(&serde_json::json!({ "removed": removed, "left": left }))
        }
        LimitsVerb::Load { kind, file } => {
            let seconds = plimsoll_limits::load(kind, file.as_deref())?;
            crate::say(&serde_json::json!(seconds))
        }
    }
}
