//! `trace record --source preload`: runs a program with the recorder loaded before its libc, and
//! reads the logs when it has ended.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use plimsoll_trace::event::Event;
use plimsoll_trace::file::{FileError, Writer};
use plimsoll_trace::header::{Calibration, FORMAT, Footer, Header, Recorder};
use plimsoll_trace::kernel::Kernel;
use plimsoll_trace::preload::{Head, Log, follow};

use super::mapped::Mapped;
use super::record::{RecordRequest, exit_code, number, read_link};
use super::{calibrate, import, left, output};

/// The library; empty if the engine was built without it (see build.rs).
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A directory with the library and its logs, which is removed with this value.
pub(super) struct RecorderDirectory {
    directory: PathBuf,
}

impl RecorderDirectory {
    /// Creates the directory next to `output`, because logs can be large.
    pub(super) fn create_beside(output: &Path) -> anyhow::Result<Self> {
        ensure!(
            !LIBRARY.is_empty(),
            "this engine was built without the preload recorder: build it with `make engine`, or use --source strace"
        );
        let output = std::path::absolute(output)?;
        for directory in left::abandoned(&output) {
            let path = directory.display();
            eprintln!(
                "a recording that was killed has left its logs in {path}: import them with plimsoll trace import {path}, or remove the directory"
            );
        }
        let mut name = OsString::from(".");
        name.push(
            output
                .file_name()
                .context("the path of the trace file has no file name")?,
        );
        name.push(format!(".{}", std::process::id()));
        let directory = output.with_file_name(name);
        let created = fs::DirBuilder::new().mode(0o700).create(&directory);
        created.with_context(|| format!("creating {}", directory.display()))?;
        let created = Self { directory };
        fs::create_dir(created.logs())?;
        fs::write(created.recorder(), LIBRARY)
            .with_context(|| format!("writing {}", created.recorder().display()))?;
        Ok(created)
    }

    fn recorder(&self) -> PathBuf {
        self.directory.join("libplimsoll_preload.so")
    }

    fn logs(&self) -> PathBuf {
        self.directory.join("logs")
    }

    /// Sets the environment of a command so that it is recorded.
    pub(super) fn arm<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let mut preload = self.recorder().into_os_string();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        command
            .env("LD_PRELOAD", preload)
            .env("PLIMSOLL_TRACE_DIR", self.logs())
    }

    /// Reads all logs.
    pub(super) fn read(&self) -> anyhow::Result<Vec<Mapped>> {
        let entries = fs::read_dir(self.logs()).context("reading the logs of the recorder")?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        paths
            .iter()
            .map(|path| Mapped::open(path).with_context(|| format!("reading {}", path.display())))
            .collect()
    }

    /// Removes all logs.
    pub(super) fn clear(&self) -> anyhow::Result<()> {
        fs::remove_dir_all(self.logs())?;
        fs::create_dir(self.logs())?;
        Ok(())
    }
}

impl Drop for RecorderDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

pub(super) fn run(request: &RecordRequest) -> anyhow::Result<ExitCode> {
    if !request.pids.is_empty() {
        bail!("-p: the preload recorder cannot attach to a running process. Use --source strace");
    }
    if request.seconds.is_some() {
        bail!(
            "--for is valid only with --source strace: the preload recorder records until the program ends"
        );
    }
    let directory = RecorderDirectory::create_beside(&request.output)?;
    let calibration = if request.calibrated {
        let measured = calibrate::preloaded(&directory);
        Some(measured.context("measuring the tracing cost (--uncalibrated records without it)")?)
    } else {
        None
    };
    let signals = crate::signals::listen().context("cannot listen to signals")?;
    let since = Instant::now();
    let mut command = Command::new(&request.command[0]);
    directory.arm(command.args(&request.command[1..]));
    let name = request.command[0].to_string_lossy().into_owned();
    let mut child = command.spawn().with_context(|| format!("starting {name}"))?;
    let status = child.wait().context("waiting for the program")?;
    let elapsed = since.elapsed().as_nanos() as u64;
    drop(signals);
    let logs = directory.read()?;
    let footer = output::write(&request.output, |file| {
        let parsed: Vec<Log<'_>> = logs
            .iter()
            .filter_map(|log| Log::parse(log.bytes()).ok())
            .collect();
        let invalid = (logs.len() - parsed.len()) as u64;
        if parsed.is_empty() {
            bail!(
                "nothing was recorded: {name} is linked statically, does not permit preloading (setuid), or did not start. Use --source strace"
            );
        }
        convert(parsed, file, request.words(), calibration, |footer| Footer {
            odd_lines: footer.odd_lines + invalid,
            status: Some(number(status)),
            elapsed_ns: Some(elapsed),
            ..footer
        })
    })?;
    if request.calibrated {
        import::calibrate_again(&request.output, calibrate::preloaded(&directory).ok())?;
    }
    import::report(&request.output, &footer, request.report.as_deref())?;
    Ok(exit_code(number(status)))
}

/// Writes the trace of a program; `command` is the program with its arguments.
pub(super) fn convert(
    logs: Vec<Log<'_>>,
    file: File,
    command: Vec<String>,
    calibration: Option<Calibration>,
    complete: impl FnOnce(Footer) -> Footer,
) -> anyhow::Result<(File, Footer)> {
    let zero_ns = logs.iter().map(|log| log.head.monotonic_ns).min().unwrap_or(0);
    let first = logs
        .iter()
        .map(|log| &log.head)
        .min_by_key(|head| head.monotonic_ns);
    let mut writer = Writer::new(file, &header(command, first, calibration))?;
    let mut events = 0;
    let mut failed: Option<FileError> = None;
    let (mut kernel, unused) = follow(logs, zero_ns, &mut |kernel: &mut Kernel, event: &Event| {
        events += 1;
        let mut event = *event;
        kernel.complete_link(&mut event, read_link);
        if failed.is_none() {
            failed = writer.write(kernel.names_mut(), &event).err();
        }
    });
    if let Some(error) = failed {
        return Err(error.into());
    }
    let footer = complete(Footer {
        events,
        lines: unused.records,
        unknown_calls: unused.unknown_calls,
        odd_lines: unused.cut,
        halves: unused.lost,
        ..Footer::default()
    });
    Ok((writer.finish(kernel.names_mut(), &footer)?, footer))
}

/// Converts bytes to text; invalid UTF-8 is replaced.
pub(super) fn words(words: &[&[u8]]) -> Vec<String> {
    let text = words
        .iter()
        .map(|word| String::from_utf8_lossy(word).into_owned());
    text.collect()
}

fn header(command: Vec<String>, first: Option<&Head<'_>>, calibration: Option<Calibration>) -> Header {
    let image = first.and_then(|head| head.image.as_ref());
    Header {
        format: FORMAT.into(),
        recorder: Recorder::Preload,
        recorder_version: VERSION.into(),
        options: Vec::new(),
        command,
        attached: false,
        host: image.map(|image| words(&image.host)).unwrap_or_default(),
        zero_unix_ns: first.and_then(|head| i64::try_from(head.unix_ns).ok()),
        resolution_ns: 1,
        has_durations: true,
        calibration,
    }
}

/// A program that makes calls of known cost: `dd`, with 512 bytes per call.
pub(super) fn dd(calls: usize) -> Command {
    let mut command = Command::new("dd");
    command
        .args(["if=/dev/zero", "of=/dev/null", "bs=512"])
        .arg(format!("count={}", calls / 2))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}
