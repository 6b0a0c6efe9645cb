//! `trace import`: imports existing logs.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use plimsoll_capture::left;
use plimsoll_capture::output::{check, write};
use plimsoll_trace::header::{Footer, Header, Recorder};
use plimsoll_trace::import::{Importer, Log, LogFormat, SNIFFED_BYTES};
use plimsoll_trace::text::Stamp;

/// Size of the input buffer, bytes.
const BUFFER_BYTES: usize = 256 * 1024;

pub(crate) fn run(output: &Path, directory: Option<&Path>, logs: &[PathBuf]) -> anyhow::Result<ExitCode> {
    check(output, logs.iter().map(PathBuf::as_path))?;
    if let Some(logs) = left::logs(logs)? {
        if directory.is_some() {
            bail!(
                "--directory is valid only for logs of strace: logs of the preload recorder contain the directories of their programs"
            );
        }
        let summary = left::import(output, &logs)?;
        for remark in summary.remarks {
            eprintln!("{remark}");
        }
        report(output, &summary.footer, None)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut opened = Vec::new();
    let mut format = LogFormat::default();
    let faults = Faults::default();
    for path in logs {
        let (log, own) = open(path, &faults)?;
        opened.push(log);
        format = combine(format, own);
    }
    if format.lines == 0 {
        bail!(
            "{} is not a log of strace: none of its {} could be parsed. Pass a file that strace -o wrote, or the directory of a preload recording",
            logs[0].display(),
            if format.odd == 0 { "lines" } else { "first lines" }
        );
    }
    let header = Header {
        zero_unix_ns: zero(format.first),
        has_durations: format.has_durations,
        ..Header::new(Recorder::Strace, format.resolution_ns)
    };
    let first = opened[0].pid;
    let footer = write(output, |file| -> anyhow::Result<_> {
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
            "plimsoll-engine: {fault}: the file is cut or damaged. The trace contains the part before this point"
        )?;
    }
    report(output, &footer, None)?;
    Ok(ExitCode::SUCCESS)
}

/// Errors of compressed logs that could not be read to their ends.
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
        // The list is consistent after each line that changes it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A compressed log that ends at the first error: the log of a killed compressor is cut.
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

/// Reports the contents of the trace file to the lab: in a file, or on stdout.
pub(super) fn report(output: &Path, footer: &Footer, file: Option<&Path>) -> anyhow::Result<()> {
    let bytes = fs::metadata(output).map_or(0, |metadata| metadata.len());
    let mut value = serde_json::to_value(footer)?;
    value["bytes"] = bytes.into();
    match file {
        Some(file) => {
            fs::write(file, format!("{value}\n")).with_context(|| format!("writing {}", file.display()))
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

/// Combines the formats of two logs: the earliest stamp, the finest times.
fn combine(first_log: LogFormat, second_log: LogFormat) -> LogFormat {
    let first = match (first_log.first, second_log.first) {
        (Some(Stamp::Wall(a)), Some(Stamp::Wall(b))) => Some(Stamp::Wall(a.min(b))),
        (first, second) => first.or(second),
    };
    let finest = [first_log, second_log]
        .iter()
        .filter(|format| format.first.is_some())
        .map(|format| format.resolution_ns)
        .min();
    LogFormat {
        first,
        resolution_ns: finest.unwrap_or(0),
        has_durations: first_log.has_durations || second_log.has_durations,
        lines: first_log.lines + second_log.lines,
        odd: first_log.odd + second_log.odd,
    }
}

fn open(path: &Path, faults: &Faults) -> anyhow::Result<(Log, LogFormat)> {
    let reading = || format!("reading {}", path.display());
    let file = File::open(path).with_context(reading)?;
    if file.metadata().with_context(reading)?.is_dir() {
        bail!("{} is a directory: pass the log files in it", path.display());
    }
    let mut raw = BufReader::with_capacity(BUFFER_BYTES, file);
    let until_fault = |text| UntilFault {
        text,
        path: path.to_owned(),
        faults: faults.clone(),
    };
    let text: Box<dyn Read + Send> = match raw.fill_buf().with_context(reading)? {
        [0x1f, 0x8b, ..] => Box::new(until_fault(Box::new(flate2::bufread::MultiGzDecoder::new(raw)))),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let decoder = zstd::Decoder::with_buffer(raw).with_context(reading)?;
            Box::new(until_fault(Box::new(decoder)))
        }
        _ => Box::new(raw),
    };
    let mut text = BufReader::with_capacity(BUFFER_BYTES, text);
    let start = text.fill_buf().with_context(reading)?;
    let format = LogFormat::of(&start[..start.len().min(SNIFFED_BYTES)]);
    let log = Log {
        pid: suffix(path).unwrap_or(1),
        text: Box::new(text),
    };
    Ok((log, format))
}

/// The thread of a file of `strace -ff`: `job.log.4711`, also `job.log.4711.gz`.
fn suffix(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?;
    let name = name
        .strip_suffix(".gz")
        .or(name.strip_suffix(".zst"))
        .unwrap_or(name);
    name.rsplit('.').next()?.parse().ok()
}
