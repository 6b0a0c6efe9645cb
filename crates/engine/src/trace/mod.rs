//! `trace`: records and reads the calls of applications on their files.

mod export;
mod import;
mod profile;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use plimsoll_capture::{RecordRequest, Recording};

/// The arguments of `trace spin`, without its numbers.
const SPIN: [&str; 2] = ["trace", "spin"];

/// The recorder of `trace record`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Source {
    /// All calls, at about 35 us each
    Strace,
    /// Calls through libc, at a fraction of a microsecond each
    Preload,
}

impl From<Source> for plimsoll_capture::Source {
    fn from(source: Source) -> Self {
        match source {
            Source::Strace => Self::Strace,
            Source::Preload => Self::Preload,
        }
    }
}

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
        #[arg(long, value_enum, default_value_t = Source::Strace)]
        source: Source,
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
        } => {
            let request = RecordRequest {
                source: source.into(),
                output,
                force,
                pids: pid,
                seconds,
                calibrated: !uncalibrated,
                one_core,
                command,
                spin: &SPIN,
            };
            record(&request, report.as_deref())
        }
        Trace::Profile(arguments) => profile::profile(arguments),
        Trace::Points(arguments) => profile::points(arguments),
        Trace::Export {
            trace,
            to,
            output,
            root,
        } => export::run(&trace, to, &output, root.as_deref()),
        Trace::Spin { rounds, calls } => spin(rounds, calls),
    }
}

/// Records, and writes the summary to the file `report`, or to stdout.
fn record(request: &RecordRequest, report: Option<&Path>) -> anyhow::Result<ExitCode> {
    let recording = Recording::new(request)?;
    for remark in recording.remarks() {
        eprintln!("{remark}");
    }
    let footer = recording.run(crate::signals::listen)?;
    import::report(&request.output, &footer, report)?;
    Ok(footer.status.map_or(ExitCode::SUCCESS, exit_code))
}

/// The exit code of the program; after a signal, the code that a shell returns.
fn exit_code(status: i32) -> ExitCode {
    let code = if status < 0 { 128 - status } else { status };
    ExitCode::from(code.clamp(0, 255) as u8)
}

/// Prints the duration of each round, ns.
fn spin(rounds: usize, calls: usize) -> anyhow::Result<ExitCode> {
    let durations = plimsoll_capture::spin(rounds, calls)?;
    let durations: Vec<String> = durations
        .iter()
        .map(|duration| duration.as_nanos().to_string())
        .collect();
    writeln!(std::io::stdout(), "{}", durations.join(" "))?;
    Ok(ExitCode::SUCCESS)
}
