//! Runs a program with the recorder loaded before its libc, and reads the logs when it has ended.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use plimsoll_trace::event::Event;
use plimsoll_trace::file::{FileError, Writer};
use plimsoll_trace::header::{Calibration, FORMAT, Footer, Header, Recorder};
use plimsoll_trace::kernel::Kernel;
use plimsoll_trace::preload::{Head, Log, follow};

use crate::error::{CaptureError, system};
use crate::host::{exit_status, read_link};
use crate::recorder_directory::RecorderDirectory;
use crate::request::RecordRequest;
use crate::{calibrate, output};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Records a program. `output` is the absolute path of the output.
pub(crate) fn record(
    request: &RecordRequest,
    output: &Path,
    listen: impl FnOnce() -> io::Result<Receiver<i32>>,
) -> Result<Footer, CaptureError> {
    let directory = RecorderDirectory::create_beside(output)?;
    let calibration = if request.calibrated {
        let measured = calibrate::preloaded(&directory);
        Some(measured.map_err(|error| CaptureError::Calibration(Box::new(error)))?)
    } else {
        None
    };
    let signals = listen().map_err(system("cannot listen to signals"))?;
    let since = Instant::now();
    let mut command = Command::new(&request.command[0]);
    directory.arm(command.args(&request.command[1..]));
    let name = request.command[0].to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|source| CaptureError::Start {
        program: name.clone(),
        source,
    })?;
    let status = child.wait().map_err(system("waiting for the program"))?;
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
            return Err(CaptureError::NothingPreloaded(name));
        }
        convert(parsed, file, request.words(), calibration, |footer| Footer {
            odd_lines: footer.odd_lines + invalid,
            status: Some(exit_status(status)),
            elapsed_ns: Some(elapsed),
            ..footer
        })
    })?;
    if request.calibrated {
        calibrate::calibrate_again(&request.output, calibrate::preloaded(&directory).ok())?;
    }
    Ok(footer)
}

/// Writes the trace of a program; `command` is the program with its arguments.
pub(crate) fn convert(
    logs: Vec<Log<'_>>,
    file: File,
    command: Vec<String>,
    calibration: Option<Calibration>,
    complete: impl FnOnce(Footer) -> Footer,
) -> Result<(File, Footer), CaptureError> {
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
pub(crate) fn words(words: &[&[u8]]) -> Vec<String> {
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
