//! `trace`: records and reads the calls of applications on their files.

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
    /// Import logs of strace, or of a preload recorder that was killed, into a trace file
    Import {
        /// The trace file
        #[arg(short, long)]
        output: PathBuf,
        /// The directory in which the program was started, if the log does not contain it
        #[arg(long)]
        directory: Option<PathBuf>,
        /// Logs, also compressed (.gz, .zst). Several logs are the files of one program (strace
        /// -ff). Or the directory of a preload recording that was killed
        #[arg(required = true)]
        logs: Vec<PathBuf>,
    },
    /// Run a program or attach to one, and record its calls
    Record {
        /// The trace file
        #[arg(short, long)]
        output: PathBuf,
        /// Overwrite an existing file
        #[arg(long)]
        force: bool,
        /// The recorder
        #[arg(long, value_enum, default_value_t = record::Source::Strace)]
        source: record::Source,
        /// Attach to this process and all its threads instead of running a program
        #[arg(short, long = "pid")]
        pid: Vec<u32>,
        /// Stop after this number of seconds
        #[arg(long = "for", value_name = "SECONDS")]
        seconds: Option<f64>,
        /// Do not measure the tracing cost on this host
        #[arg(long)]
        uncalibrated: bool,
        /// Keep strace and the program on one core
        #[arg(long)]
        one_core: bool,
        /// Write the summary of the recording, as JSON, to this file instead of stdout, which
        /// belongs to the program
        #[arg(long, value_name = "FILE")]
        report: Option<PathBuf>,
        /// Program and arguments
        #[arg(last = true)]
        command: Vec<OsString>,
    },
    /// Print the profile of a trace, as JSON
    Profile(profile::ProfileArguments),
    /// Print single reads and writes for a chart, or their density if there are too many, as JSON
    Points(profile::PointsArguments),
    /// Write a trace in the format of another program
    Export {
        /// The trace file
        trace: PathBuf,
        /// fio: a log that fio replays. dxt: text in the format of darshan-dxt-parser. csv,
        /// parquet: all fields of all events
        #[arg(long)]
        to: export::Format,
        /// The output file
        #[arg(short, long)]
        output: PathBuf,
        /// With fio only: the directory beneath which all paths are moved
        #[arg(long)]
        root: Option<PathBuf>,
    },
    /// Make calls of known cost and print their duration, for the calibration
    #[command(hide = true)]
    Spin {
        /// Number of rounds
        rounds: usize,
        /// Number of calls in a round
        calls: usize,
    },
}

/// Runs a command. Messages for users are written to stderr; the result for the lab is one line of
/// JSON on stdout.
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
        Trace::Profile(arguments) => profile::profile(arguments),
        Trace::Points(arguments) => profile::points(arguments),
        Trace::Export {
            trace,
            to,
            output,
            root,
        } => export::run(&trace, to, &output, root.as_deref()),
        Trace::Spin { rounds, calls } => calibrate::spin(rounds, calls),
    }
}
