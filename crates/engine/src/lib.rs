//! `plimsoll-engine`: everything that runs on a tester's host or on a hot path, behind one binary.
//! Arguments and wiring only; people use the lab, the lab uses this.
//!
//! A library with a binary of a few lines, because two binaries are built from it: the static one
//! for every host and the one of `cargo test`. What both contain is compiled once.

mod bench;
mod guard;
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

/// Version of the engine; lab, controller and agents must all have the same.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Longest configuration read from stdin or a file.
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
    /// Carry out runs: commands as JSON lines on stdin, events on stdout
    Control,
    /// Be an agent: behind an inherited socket, or listening in a directory of its own
    Agent {
        /// Descriptor of the socket
        #[arg(long, required_unless_present = "directory")]
        fd: Option<RawFd>,
        /// Directory of its own
        #[arg(long, conflicts_with = "fd")]
        directory: Option<PathBuf>,
        /// Dial the controller with the token in this file (- for stdin) instead of listening
        #[arg(long, requires = "directory", requires = "name", value_name = "TOKEN")]
        join: Option<PathBuf>,
        /// How the agent calls itself: letters, digits, . _ -
        #[arg(long)]
        name: Option<String>,
    },
    /// Carry bytes between the agent of a directory and stdin and stdout; starts it if there is
    /// none
    Attach {
        /// Directory of the agent
        #[arg(long)]
        directory: PathBuf,
    },
    /// Be a reference service: null, echo, delay or frontier
    Serve(serve::Arguments),
    /// Write the tables that services serve; the configuration is JSON
    Data {
        /// File, or - for stdin
        #[arg(long)]
        config: PathBuf,
    },
    /// Turn what an interrupted run has left into Parquet
    Convert {
        /// Directory of the run
        directory: PathBuf,
    },
    /// Be a testbed of emulated hosts and links, or enter one
    #[command(subcommand)]
    Testbed(testbed::Testbed),
    /// Record and read what applications do to their files
    #[command(subcommand)]
    Trace(trace::Trace),
    /// Do to a file system what a trace tells; what came of it is one JSON object on stdout
    Replay(replay::Replay),
    /// Measure the engine itself
    #[command(hide = true, subcommand)]
    Bench(bench::Bench),
    /// Run a command, and end it with all its descendants when stdin closes
    Guard {
        /// The first line of stdin becomes the command's whole stdin
        #[arg(long)]
        input: bool,
        /// Between the polite signal and the other one
        #[arg(long, default_value_t = 4000, value_name = "MILLISECONDS")]
        grace_ms: u64,
        /// Program and arguments
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Print what each driver states about itself, as JSON
    Drivers,
    /// Print the version
    Version,
}

/// Carries out the command line; an error is printed and becomes the exit code.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.verb {
        Verb::Guard {
            input,
            grace_ms,
            command,
        } => guard::run(&command, input, Duration::from_millis(grace_ms)),
        Verb::Trace(trace) => trace::run(trace),
        Verb::Replay(replay) => replay::run(&replay),
        other => carry_out(other).map(|()| ExitCode::SUCCESS),
    };
    match done {
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
            unreachable!("it has an exit status of its own, see main")
        }
        Verb::Drivers => say(&serde_json::json!({
            "drivers": plimsoll_drive::drivers().collect::<Vec<_>>(),
        })),
        Verb::Version => say(&serde_json::json!({ "version": VERSION })),
    }
}

/// One heap of the C library for all threads. With one for each, what the threads of every group of
/// rows have freed stays with them, and a controller grows with the length of its runs; its threads
/// ask for memory too seldom to wait for each other. Agents and services keep theirs.
fn few_heaps() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a number of the allocator, before there is any other thread.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

fn dialer(token: &Path) -> anyhow::Result<Dialer> {
    let token = Token::read(&token.into())?;
    Ok(Dialer::new(&token, VERSION)?)
}

/// An agent that outlives the connections to it. It leaves its directory as it found it, but for
/// what nobody collected.
fn resident_agent(directory: &Path, join: Option<&Path>, name: Option<String>) -> anyhow::Result<()> {
    let dialer = join.map(dialer).transpose()?;
    let (agent_directory, listener) = AgentDirectory::claim(directory)?;
    let source = match dialer {
        Some(dialer) => Source::Dial(Box::new(dialer)),
        None => Source::Listen(listener),
    };
    let here = std::env::current_dir().context("cannot find the directory again")?;
    plimsoll_agent::adopt_orphans();
    let signals = signals::listen().context("cannot listen to signals")?;
    let ended = plimsoll_agent::run_agent(source, Some(&here), name, VERSION, signals);
    let kept = match &ended {
        Ok(ended) => ended.kept,
        // It never took part, and what it says stands wherever its messages go.
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

/// One JSON line on stdout.
fn say(value: &serde_json::Value) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{value}")
        .and_then(|()| out.flush())
        .context("cannot write to stdout")
}

/// A configuration from a file or, for `-`, from stdin. It may hold secrets: errors name places,
/// never values.
fn configuration<T: serde::de::DeserializeOwned>(path: &std::path::Path) -> anyhow::Result<T> {
    let mut text = String::new();
    if path.as_os_str() == "-" {
        std::io::stdin()
            .take(MAX_CONFIG)
            .read_to_string(&mut text)
            .context("cannot read stdin")?;
    } else {
        let file = std::fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        file.take(MAX_CONFIG)
            .read_to_string(&mut text)
            .with_context(|| format!("cannot read {}", path.display()))?;
    }
    serde_json::from_str(&text).with_context(|| {
        format!(
            "the configuration {} is not what this service takes",
            path.display()
        )
    })
}

/// The socket that our parent left open for us. Our own children must not have it.
fn inherited(fd: RawFd) -> anyhow::Result<UnixStream> {
    // SAFETY: stat is plain data, for which zero is a valid value.
    let mut about: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `about` is valid; fstat reports a descriptor that is not open by an error.
    let is_socket = fd > 2
        && unsafe { libc::fstat(fd, &raw mut about) } == 0
        && about.st_mode & libc::S_IFMT == libc::S_IFSOCK;
    if !is_socket {
        bail!("descriptor {fd} is no inherited socket: agents are started by `plimsoll-engine control`");
    }
    // SAFETY: a plain flag on a descriptor that is open.
    unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    // SAFETY: the descriptor is open, a socket, and nobody else in this process knows of it.
    Ok(unsafe { UnixStream::from_raw_fd(fd) })
}
