//! `trace record --source preload`: a program with the recorder loaded before its libc. What it has
//! written is read when it has ended.

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

/// The library; empty where the engine was built without (see build.rs).
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The library on disk, and a place for its logs; both go with it.
pub(super) struct Place {
    directory: PathBuf,
}

impl Place {
    /// Beside `output`, as logs can be large.
    pub(super) fn beside(output: &Path) -> anyhow::Result<Self> {
        ensure!(
            !LIBRARY.is_empty(),
            "this engine was built without the preload recorder: build it with `make engine`, or use --source strace"
        );
        let output = std::path::absolute(output)?;
        for place in left::beside(&output) {
            let place = place.display();
            eprintln!(
                "a recording that was killed has left its logs in {place}: make a trace of them with plimsoll trace import {place}, or remove them"
            );
        }
        let mut name = OsString::from(".");
        name.push(output.file_name().context("the trace file needs a name")?);
        name.push(format!(".{}", std::process::id()));
        let directory = output.with_file_name(name);
        let made = fs::DirBuilder::new().mode(0o700).create(&directory);
        made.with_context(|| format!("creating {}", directory.display()))?;
        let place = Self { directory };
        fs::create_dir(place.logs())?;
        fs::write(place.recorder(), LIBRARY)
            .with_context(|| format!("writing {}", place.recorder().display()))?;
        Ok(place)
    }

    fn recorder(&self) -> PathBuf {
        self.directory.join("libplimsoll_preload.so")
    }

    fn logs(&self) -> PathBuf {
        self.directory.join("logs")
    }

    /// Has a program recorded.
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

    /// All logs that are there.
    pub(super) fn read(&self) -> anyhow::Result<Vec<Mapped>> {
        let entries = fs::read_dir(self.logs()).context("reading the recorder's logs")?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        paths
            .iter()
            .map(|path| Mapped::open(path).with_context(|| format!("reading {}", path.display())))
            .collect()
    }

    /// Forgets what was recorded until now.
    pub(super) fn clear(&self) -> anyhow::Result<()> {
        fs::remove_dir_all(self.logs())?;
        fs::create_dir(self.logs())?;
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

pub(super) fn run(wanted: &RecordRequest) -> anyhow::Result<ExitCode> {
    if !wanted.pids.is_empty() {
        bail!("the preload recorder is loaded when a program starts: attach with --source strace");
    }
    if wanted.seconds.is_some() {
        bail!("--for is for --source strace: the preload recorder records until the program ends");
    }
    let place = Place::beside(&wanted.output)?;
    let calibration = if wanted.calibrated {
        let measured = calibrate::preloaded(&place);
        Some(measured.context("measuring what recording costs (--uncalibrated records without)")?)
    } else {
        None
    };
    let signals = crate::signals::listen().context("cannot listen to signals")?;
    let since = Instant::now();
    let mut command = Command::new(&wanted.command[0]);
    place.arm(command.args(&wanted.command[1..]));
    let name = wanted.command[0].to_string_lossy().into_owned();
    let mut child = command.spawn().with_context(|| format!("starting {name}"))?;
    let status = child.wait().context("waiting for the program")?;
    let elapsed = since.elapsed().as_nanos() as u64;
    drop(signals);
    let logs = place.read()?;
    let footer = output::write(&wanted.output, |file| {
        let parsed: Vec<Log<'_>> = logs
            .iter()
            .filter_map(|log| Log::parse(log.bytes()).ok())
            .collect();
        let strange = (logs.len() - parsed.len()) as u64;
        if parsed.is_empty() {
            bail!(
                "nothing was recorded: {name} is linked statically, or may not be preloaded (setuid), or did not start; --source strace sees it"
            );
        }
        convert(parsed, file, wanted.words(), calibration, |footer| Footer {
            odd_lines: footer.odd_lines + strange,
            status: Some(number(status)),
            elapsed_ns: Some(elapsed),
            ..footer
        })
    })?;
    if wanted.calibrated {
        import::calibrate_again(&wanted.output, calibrate::preloaded(&place).ok())?;
    }
    import::report(&wanted.output, &footer, wanted.report.as_deref())?;
    Ok(exit_code(number(status)))
}

/// Writes the trace of a program; `command` is what was run.
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
    let (mut kernel, lost) = follow(logs, zero_ns, &mut |kernel: &mut Kernel, event: &Event| {
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
        lines: lost.records,
        unknown_calls: lost.unknown_calls,
        odd_lines: lost.cut,
        halves: lost.lost,
        ..Footer::default()
    });
    Ok((writer.finish(kernel.names_mut(), &footer)?, footer))
}

/// As far as they are text.
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

/// A program that makes calls whose cost is known: `dd`, 512 bytes a call.
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
