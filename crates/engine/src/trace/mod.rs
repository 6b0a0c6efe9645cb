//! `trace`: recording and reading what applications do to their files.

mod attached;
mod calibrate;
mod export;
mod fifo;
mod import;
mod left;
mod mapped;
mod output;
mod preload;
mod profile;
mod record;
mod strace;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Trace {
    /// Turn logs of strace, or those of a preload recorder that was killed, into a trace file
    Import {
        /// The trace file
        #[arg(short, long)]
        output: PathBuf,
        /// The directory in which the program was started, where the log does not tell
        #[arg(long)]
        directory: Option<PathBuf>,
        /// Logs; several are the files of one program (strace -ff); also .gz and .zst. Or the
        /// directory that a preload recorder has left
        #[arg(required = true)]
        logs: Vec<PathBuf>,
    },
    /// Run a program, or attach to one, and record what it does
    Record {
        /// The trace file
        #[arg(short, long)]
        output: PathBuf,
        /// Write over a file that is there
        #[arg(long)]
        force: bool,
        /// By what is recorded
        #[arg(long, value_enum, default_value_t = record::Source::Strace)]
        source: record::Source,
        /// Attach to this process and all its threads instead of running a program
        #[arg(short, long = "pid")]
        pid: Vec<u32>,
        /// Stop after so many seconds
        #[arg(long = "for", value_name = "SECONDS")]
        seconds: Option<f64>,
        /// Do not measure what tracing costs here
        #[arg(long)]
        uncalibrated: bool,
        /// Keep strace and the program on one core
        #[arg(long)]
        one_core: bool,
        /// Write what was recorded there, as JSON, and nothing to stdout: that is the program's
        #[arg(long, value_name = "FILE")]
        report: Option<PathBuf>,
        /// Program and arguments
        #[arg(last = true)]
        command: Vec<OsString>,
    },
    /// Print what the application did to its files, as JSON
    Profile(profile::Chosen),
    /// Print single reads and writes for a picture, or their density where they are too many, as
    /// JSON
    Points(profile::Picture),
    /// Write a trace in another program's format
    Export {
        /// The trace file
        trace: PathBuf,
        /// fio: a log that fio replays. dxt: text as darshan-dxt-parser prints it. csv, parquet:
        /// all fields of all events
        #[arg(long)]
        to: export::Format,
        /// Where it is written
        #[arg(short, long)]
        output: PathBuf,
        /// fio only: the directory that all names are rewritten to be beneath
        #[arg(long)]
        root: Option<PathBuf>,
    },
    /// Make calls whose cost is known; prints how long they took. For the calibration
    #[command(hide = true)]
    Spin {
        /// Rounds of calls
        rounds: usize,
        /// Calls of a round
        calls: usize,
    },
}

/// Carries out one. What people are told goes to stderr, what the lab reads, as one line of JSON,
/// to stdout.
pub(crate) fn run(verb: Trace) -> anyhow::Result<ExitCode> {
    match verb {
        Trace::Import {
            output,
            directory,
            logs,
        } => import::run(&output, directory.as_deref(), &logs),
        Trace::Record {
            output,
            force,
            source,
            pid,
            seconds,
            uncalibrated,
            one_core,
            report,
            command,
        } => record::run(&record::RecordRequest {
            source,
            output,
            force,
            report,
            pids: pid,
            seconds,
            calibrated: !uncalibrated,
            one_core,
            command,
        }),
        Trace::Profile(chosen) => profile::profile(chosen),
        Trace::Points(picture) => profile::points(picture),
        Trace::Export {
            trace,
            to,
            output,
            root,
        } => export::run(&trace, to, &output, root.as_deref()),
        Trace::Spin { rounds, calls } => calibrate::spin(rounds, calls),
    }
}
