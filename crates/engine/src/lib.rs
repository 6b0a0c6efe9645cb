//! `plimsoll-engine`: one program for all that runs on a tester's host or is performance-critical.
//! This crate parses the arguments and calls the other crates. Users use the lab, and the lab
//! starts the engine.
//!
//! It is a library with a binary of a few lines, because two binaries are built from it: the static
//! one for all hosts and the one of `cargo test`. Their common code is compiled once.

mod bench;
mod guard;
mod host_session;
mod limits;
mod replay;
mod serve;
mod signals;
mod testbed;
mod trace;

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};
use plimsoll_agent::{AgentDirectory, AgentError, Source};
use plimsoll_controller::AgentCommand;
use plimsoll_link::LinkError;
use plimsoll_link::dial::Dialer;
use plimsoll_link::token::Token;
use plimsoll_services::data;

/// Version of the engine. Lab, controller and agents must have the same version.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Maximum size of a configuration, bytes.
const MAX_CONFIG: u64 = 16 * 1024 * 1024;

#[derive(Parser)]
#[command(
    name = "plimsoll-engine",
    version,
    about = "The engine of Plimsoll. It is started by the lab (`plimsoll`)."
)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Execute runs: commands as JSON lines on stdin, events on stdout
    Control,
    /// Run an agent, with an inherited socket or with its own directory
    Agent {
        /// Descriptor of the inherited socket
        #[arg(long, required_unless_present = "directory")]
        fd: Option<RawFd>,
        /// Directory of the agent
        #[arg(long, conflicts_with = "fd")]
        directory: Option<PathBuf>,
        /// Dial the controller with the token in this file (- for stdin) instead of listening
        #[arg(long, requires = "directory", requires = "name", value_name = "TOKEN")]
        join: Option<PathBuf>,
        /// Name of the agent: letters, digits, . _ -
        #[arg(long)]
        name: Option<String>,
    },
    /// Copy bytes between the agent of a directory and stdin and stdout; starts the agent if there
    /// is none
    Attach {
        /// Directory of the agent
        #[arg(long)]
        directory: PathBuf,
    },
    /// Run a reference service
    Serve(serve::Arguments),
    /// Write the tables that services serve; the configuration is JSON
    Data {
        /// File with the configuration, or - for stdin
        #[arg(long)]
        config: PathBuf,
    },
    /// Convert the segments of an interrupted run to Parquet
    Convert {
        /// Directory of the run
        directory: PathBuf,
    },
    /// Start a testbed of emulated hosts and links, or run a command on one of its hosts
    #[command(subcommand)]
    Testbed(testbed::Testbed),
    /// Record and read the file accesses of applications
    #[command(subcommand)]
    Trace(trace::Trace),
    /// Replay a trace in a file system; prints the results as one JSON object
    Replay(replay::Replay),
    /// Measure the engine itself
    #[command(hide = true, subcommand)]
    Bench(bench::Bench),
    /// Run a command, and end it with all its descendants when stdin closes
    Guard {
        /// The first line of stdin becomes the command's whole stdin
        #[arg(long)]
        input: bool,
        /// Time between SIGTERM and SIGKILL
        #[arg(long, default_value_t = 4000, value_name = "MILLISECONDS")]
        grace_ms: u64,
        /// Cores of the command, separated by commas
        #[arg(long, value_delimiter = ',', value_name = "CORES")]
        cpus: Vec<usize>,
        /// Working directory of the command
        #[arg(long)]
        directory: Option<PathBuf>,
        /// Directory to remove at the end if stdin closes without the line `leave`
        #[arg(long, value_name = "DIRECTORY")]
        remove: Option<PathBuf>,
        /// A text by which other programs find this process
        #[arg(long)]
        label: Option<OsString>,
        /// Limits of the command, as JSON: memory, cpu, `disk_read`, `disk_write`
        #[arg(long, value_parser = limits::parse, default_value = "{}", value_name = "JSON")]
        limits: plimsoll_limits::Limits,
        /// Program and arguments
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Test whether limits of programs hold on this host, or remove control groups that are left
    #[command(subcommand)]
    Limits(limits::LimitsVerb),
    /// Perform the lab's requests on this host: files, and processes below guards
    Host(host_session::Arguments),
    /// Print what each driver states about itself, as JSON
    Drivers,
    /// Print the version
    Version,
}

/// Executes the command line. An error is printed to stderr; the exit code is then 1.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.verb {
        Verb::Guard {
            input,
            grace_ms,
            cpus,
            directory,
            remove,
            label: _,
            limits,
            command,
        } => guard::run(&guard::Order {
            command: &command,
            input,
            grace: Duration::from_millis(grace_ms),
            cpus: &cpus,
            directory: directory.as_deref(),
            remove: remove.as_deref(),
            limits,
        }),
        Verb::Trace(trace) => trace::run(trace),
        Verb::Replay(replay) => replay::run(&replay),
        other => carry_out(other).map(|()| ExitCode::SUCCESS),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "plimsoll-engine: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn carry_out(verb: Verb) -> anyhow::Result<()> {
    match verb {
        Verb::Control => {
            few_heaps();
            let how = AgentCommand {
                program: OsString::from("/proc/self/exe"),
                arguments: vec![OsString::from("agent")],
                silence: plimsoll_link::SILENCE_TIMEOUT,
            };
            let signals = signals::listen().context("cannot listen to signals")?;
            Ok(plimsoll_controller::control(
                std::io::stdin(),
                std::io::stdout(),
                signals,
                how,
                VERSION,
            )?)
        }
        Verb::Agent { fd: Some(fd), .. } => {
            let source = Source::Once(inherited(fd)?);
            let signals = signals::listen().context("cannot listen to signals")?;
            plimsoll_agent::run_agent(source, None, None, VERSION, signals)?;
            Ok(())
        }
        Verb::Agent {
            fd: None,
            directory,
            join,
            name,
        } => {
            let directory = directory.context("an agent needs --fd or --directory")?;
            resident_agent(&directory, join.as_deref(), name)
        }
        Verb::Attach { directory } => {
            let own = std::env::current_exe().context("cannot find this program")?;
            Ok(plimsoll_agent::attach(&directory, &own)?)
        }
        Verb::Serve(arguments) => serve::serve(&arguments),
        Verb::Data { config } => {
            let config: data::DataConfig = configuration(&config)?;
            let reports = data::write(&config)?;
            say(&serde_json::json!({
                "tables": reports.iter().map(|report| serde_json::json!({
                    "name": report.name,
                    "rows": report.rows,
                    "bytes": report.bytes,
                    "saved_percent": report.saved_percent,
                    "kind": report.kind,
                })).collect::<Vec<_>>(),
            }))
        }
        Verb::Convert { directory } => {
            few_heaps();
            convert(&directory)
        }
        Verb::Testbed(verb) => testbed::carry_out(verb),
        Verb::Bench(bench) => bench::carry_out(&bench),
        Verb::Guard { .. } | Verb::Trace(_) | Verb::Replay(_) => {
            unreachable!("main handles the commands with their own exit status")
        }
        Verb::Limits(verb) => limits::carry_out(&verb),
        Verb::Host(arguments) => host_session::serve(&arguments),
        Verb::Drivers => say(&serde_json::json!({
            "drivers": plimsoll_drive::drivers().collect::<Vec<_>>(),
        })),
        Verb::Version => say(&serde_json::json!({ "version": VERSION })),
    }
}

/// Uses one heap of the C library for all threads.
///
/// With one heap per thread, the memory that the threads of a group of rows free stays in their
/// heaps, and the memory of a controller grows with the length of its runs. Its threads allocate
/// too seldom to wait for each other. Agents and services use the default.
fn few_heaps() {
    #[cfg(target_env = "gnu")]
    // SAFETY: this sets a parameter of the allocator before other threads exist.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

fn dialer(token: &Path) -> anyhow::Result<Dialer> {
    let token = Token::read(&token.into())?;
    Ok(Dialer::new(&token, VERSION)?)
}

/// Runs an agent that outlives its connections. At its end it removes its files and its directory,
/// except segments that were not collected.
fn resident_agent(directory: &Path, join: Option<&Path>, name: Option<String>) -> anyhow::Result<()> {
    let dialer = join.map(dialer).transpose()?;
    let (agent_directory, listener) = AgentDirectory::claim(directory)?;
    let source = match dialer {
        Some(dialer) => Source::Dial(Box::new(dialer)),
        None => Source::Listen(listener),
    };
    let here = std::env::current_dir().context("cannot find the current directory")?;
    plimsoll_agent::adopt_orphans();
    let signals = signals::listen().context("cannot listen to signals")?;
    let ended = plimsoll_agent::run_agent(source, Some(&here), name, VERSION, signals);
    let kept = match &ended {
        Ok(ended) => ended.kept,
        // The agent did not take part, so its log is not needed: the error is printed.
        Err(AgentError::Link(LinkError::Refused)) => false,
        Err(_) => true,
    };
    agent_directory.release(!kept);
    ended?;
    Ok(())
}

fn convert(directory: &std::path::Path) -> anyhow::Result<()> {
    match plimsoll_controller::convert_directory(directory)? {
        None => say(&serde_json::json!({ "converted": false })),
        Some(summary) => say(&serde_json::json!({
            "converted": true,
            "status": summary.status,
            "balanced": summary.balanced,
            "damage": summary.damage,
            "tables": summary.tables,
        })),
    }
}

/// Prints a JSON line on stdout.
fn say(value: &serde_json::Value) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{value}")
        .and_then(|()| out.flush())
        .context("cannot write to stdout")
}

/// Reads a configuration from a file or, for `-`, from stdin. It may contain secrets, so errors
/// contain positions, but no values.
fn configuration<T: serde::de::DeserializeOwned>(path: &std::path::Path) -> anyhow::Result<T> {
    let mut text = String::new();
    if path.as_os_str() == "-" {
        std::io::stdin()
            .take(MAX_CONFIG + 1)
            .read_to_string(&mut text)
            .context("cannot read stdin")?;
    } else {
        let file = std::fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        file.take(MAX_CONFIG + 1)
            .read_to_string(&mut text)
            .with_context(|| format!("cannot read {}", path.display()))?;
    }
    if text.len() as u64 > MAX_CONFIG {
        bail!("the configuration {} has more than 16 MiB", path.display());
    }
    serde_json::from_str(&text)
        .with_context(|| format!("the configuration {} does not match this command", path.display()))
}

/// The inherited socket `fd`. Its close-on-exec flag is set, so that children do not inherit it.
fn inherited(fd: RawFd) -> anyhow::Result<UnixStream> {
    // SAFETY: stat is plain data, for which zero is a valid value.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `status` is valid. For a descriptor that is not open, fstat returns an error.
    let is_socket = fd > 2
        && unsafe { libc::fstat(fd, &raw mut status) } == 0
        && status.st_mode & libc::S_IFMT == libc::S_IFSOCK;
    if !is_socket {
        bail!(
            "descriptor {fd} is not an inherited socket: `plimsoll-engine control` starts agents with --fd"
        );
    }
    // SAFETY: this sets a flag of an open descriptor.
    unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    // SAFETY: the descriptor is an open socket without another owner in this process.
    Ok(unsafe { UnixStream::from_raw_fd(fd) })
}
