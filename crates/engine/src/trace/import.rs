//! `trace import`: logs that others have made.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use plimsoll_trace::file::with_header;
use plimsoll_trace::header::{Calibration, Footer, Header, Recorder};
use plimsoll_trace::import::{ENOUGH, Importer, Log, Manner};
use plimsoll_trace::text::Stamp;

use super::left;
use super::output::{check, write};

/// Bytes that are read at once.
const PIECE: usize = 256 * 1024;

pub(crate) fn run(output: &Path, directory: Option<&Path>, logs: &[PathBuf]) -> anyhow::Result<ExitCode> {
    check(output, logs.iter().map(PathBuf::as_path))?;
    if let Some(logs) = left::logs(logs)? {
        if directory.is_some() {
            bail!(
                "--directory is for logs of strace: those of the preload recorder tell where their programs were started"
            );
        }
        return left::import(output, &logs);
    }
    let mut opened = Vec::new();
    let mut manner = Manner::default();
    let faults = Faults::default();
    for path in logs {
        let (log, own) = open(path, &faults)?;
        opened.push(log);
        manner = together(manner, own);
    }
    if manner.lines == 0 {
        bail!(
            "{}: not one line of {} is what strace writes: is it a log of strace?",
            logs[0].display(),
            if manner.odd == 0 { "it" } else { "its first ones" }
        );
    }
    let header = Header {
        zero_unix_ns: zero(manner.first),
        has_durations: manner.has_durations,
        ..Header::new(Recorder::Strace, manner.resolution_ns)
    };
    let first = opened[0].pid;
    let footer = write(output, |file| {
        let mut importer = Importer::new(file, &header)?;
        if let Some(directory) = directory {
            importer
                .kernel()
                .set_directory(first, directory.as_os_str().as_bytes());
        }
        importer.logs(opened)?;
        Ok(importer.finish(None, None)?)
    })?;
    for fault in faults.all() {
        writeln!(
            std::io::stderr(),
            "plimsoll-engine: {fault}: it was cut there, or changed. The part before it is in the trace"
        )?;
    }
    report(output, &footer, None)?;
    Ok(ExitCode::SUCCESS)
}

/// Compressed logs that could not be read to their ends.
#[derive(Clone, Default)]
struct Faults(Arc<Mutex<Vec<String>>>);

impl Faults {
    fn add(&self, fault: String) {
        self.lock().push(fault);
    }

    fn all(&self) -> Vec<String> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        // A list is whole after every line that changes it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A compressed log, which ends where it cannot be read any further: who was killed while
/// compressing leaves one that is cut.
struct UntilFault {
    text: Box<dyn Read + Send>,
    path: PathBuf,
    faults: Faults,
}

impl Read for UntilFault {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.text.read(into);
        match read {
            Err(why) if why.kind() != ErrorKind::Interrupted => {
                self.faults.add(format!("reading {}: {why}", self.path.display()));
                self.text = Box::new(std::io::empty());
                Ok(0)
            }
            read => read,
        }
    }
}

/// Writes down what recording cost after it, beside what it cost before.
pub(super) fn calibrate_again(output: &Path, after: Option<Calibration>) -> anyhow::Result<()> {
    let Some(after) = after else { return Ok(()) };
    let before = File::open(output).with_context(|| format!("reading {}", output.display()))?;
    write(output, |file| {
        let file = with_header(before, file, |header| Header {
            calibration: Some(header.calibration.map_or(after, |before| before.and(after))),
            ..header
        })?;
        Ok((file, ()))
    })
}

/// Tells the lab what is in the file: in a file, or on stdout.
pub(super) fn report(output: &Path, footer: &Footer, place: Option<&Path>) -> anyhow::Result<()> {
    let bytes = fs::metadata(output).map_or(0, |about| about.len());
    let mut value = serde_json::to_value(footer)?;
    value["bytes"] = bytes.into();
    match place {
        Some(place) => {
            fs::write(place, format!("{value}\n")).with_context(|| format!("writing {}", place.display()))
        }
        None => Ok(writeln!(std::io::stdout(), "{value}")?),
    }
}

fn zero(first: Option<Stamp>) -> Option<i64> {
    match first {
        Some(Stamp::Wall(ns)) => Some(ns),
        _ => None,
    }
}

/// Of all logs: the earliest stamp, the finest times.
fn together(one: Manner, other: Manner) -> Manner {
    let first = match (one.first, other.first) {
        (Some(Stamp::Wall(a)), Some(Stamp::Wall(b))) => Some(Stamp::Wall(a.min(b))),
        (first, second) => first.or(second),
    };
    let finest = [one, other]
        .iter()
        .filter(|manner| manner.first.is_some())
        .map(|manner| manner.resolution_ns)
        .min();
    Manner {
        first,
        resolution_ns: finest.unwrap_or(0),
        has_durations: one.has_durations || other.has_durations,
        lines: one.lines + other.lines,
        odd: one.odd + other.odd,
    }
}

fn open(path: &Path, faults: &Faults) -> anyhow::Result<(Log, Manner)> {
    let reading = || format!("reading {}", path.display());
    let file = File::open(path).with_context(reading)?;
    if file.metadata().with_context(reading)?.is_dir() {
        bail!("{} is a directory: give the logs in it", path.display());
    }
    let mut raw = BufReader::with_capacity(PIECE, file);
    let unpacked = |text| UntilFault {
        text,
        path: path.to_owned(),
        faults: faults.clone(),
    };
    let text: Box<dyn Read + Send> = match raw.fill_buf().with_context(reading)? {
        [0x1f, 0x8b, ..] => Box::new(unpacked(Box::new(flate2::bufread::MultiGzDecoder::new(raw)))),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let decoder = zstd::Decoder::with_buffer(raw).with_context(reading)?;
            Box::new(unpacked(Box::new(decoder)))
        }
        _ => Box::new(raw),
    };
    let mut text = BufReader::with_capacity(PIECE, text);
    let start = text.fill_buf().with_context(reading)?;
    let manner = Manner::of(&start[..start.len().min(ENOUGH)]);
    let log = Log {
        pid: suffix(path).unwrap_or(1),
        text: Box::new(text),
    };
    Ok((log, manner))
}

/// The thread of a file that `strace -ff` made: `job.log.4711`, also `job.log.4711.gz`.
fn suffix(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?;
    let name = name
        .strip_suffix(".gz")
        .or(name.strip_suffix(".zst"))
        .unwrap_or(name);
    name.rsplit('.').next()?.parse().ok()
}
