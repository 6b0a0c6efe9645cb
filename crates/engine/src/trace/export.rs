//! `trace export`: writes a trace in the format of another program.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use plimsoll_capture::output::{check, write};
use plimsoll_trace::event::Event;
use plimsoll_trace::export::{Csv, Dxt, Export, Fio, Parquet, Tally};
use plimsoll_trace::file::{FileError, Reader};
use plimsoll_trace::header::Header;
use plimsoll_trace::names::Names;
use serde::Serialize;

/// Size of the output buffer, bytes.
const BUFFER_BYTES: usize = 256 * 1024;

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Format {
    Fio,
    Parquet,
    Csv,
    Dxt,
}

/// The summary for the lab, one line of JSON on stderr.
#[derive(Serialize)]
struct ExportSummary<'a> {
    format: &'static str,
    to: Format,
    #[serde(flatten)]
    tally: &'a Tally,
    /// Number of events whose calls this build does not know.
    unknown_calls: u64,
    /// The reason why the export is incomplete; None if it is complete.
    incomplete: Option<&'a str>,
}

/// The readable part of a trace.
struct Extent {
    unknown_calls: u64,
    incomplete: Option<String>,
}

pub(crate) fn run(trace: &Path, to: Format, output: &Path, root: Option<&Path>) -> anyhow::Result<ExitCode> {
    if root.is_some() && to != Format::Fio {
        bail!("--root is valid only with --to fio: the other formats contain the recorded paths");
    }
    check(output, [trace])?;
    // Facts that are known late in a trace must be in the first rows, too. So the trace is read
    // once for its tables alone.
    let mut reader = open(trace)?;
    let extent = read(&mut reader, |_| Ok(()))?;
    let source = Source {
        trace,
        header: reader.header().clone(),
        names: reader.into_names(),
    };
    let tally = write(output, |file| -> anyhow::Result<_> {
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
        let tally = match to {
            Format::Csv => source.write(Csv::new(&mut out, &source.names)?)?,
            Format::Parquet => source.write(Parquet::new(&mut out, &source.names, &source.header)?)?,
            Format::Fio => {
                let root = root.map(|root| root.as_os_str().as_bytes());
                source.write(Fio::new(&mut out, &source.names, root)?)?
            }
            Format::Dxt => {
                let scratch = scratch(output)?;
                source.write(Dxt::new(&mut out, &source.names, &source.header, scratch))?
            }
        };
        Ok((out.into_inner()?, tally))
    })?;
    let summary = ExportSummary {
        format: "plimsoll.trace.export/1",
        to,
        tally: &tally,
        unknown_calls: extent.unknown_calls,
        incomplete: extent.incomplete.as_deref(),
    };
    writeln!(std::io::stderr(), "{}", serde_json::to_string(&summary)?)?;
    let is_whole = extent.incomplete.is_none();
    Ok(if is_whole {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A trace with all its tables.
struct Source<'a> {
    trace: &'a Path,
    header: Header,
    names: Names,
}

impl Source<'_> {
    /// Reads the events again and passes them to an export.
    fn write(&self, mut export: impl Export) -> anyhow::Result<Tally> {
        let mut reader = open(self.trace)?;
        read(&mut reader, |events| {
            for event in events {
                export.event(event)?;
            }
            Ok(())
        })?;
        Ok(Box::new(export).finish()?)
    }
}

fn open(trace: &Path) -> anyhow::Result<Reader<File>> {
    let reading = || format!("reading {}", trace.display());
    let file = File::open(trace).with_context(reading)?;
    if !file.metadata().with_context(reading)?.is_file() {
        bail!(
            "{} is not a regular file, which is required because a trace is read twice",
            trace.display()
        );
    }
    Reader::new(file).with_context(reading)
}

/// Reads a trace up to its end, or up to a cut or damaged point.
fn read(
    reader: &mut Reader<File>,
    mut take: impl FnMut(&[Event]) -> anyhow::Result<()>,
) -> anyhow::Result<Extent> {
    let incomplete = loop {
        match reader.next() {
            Ok(Some(events)) => take(events)?,
            Ok(None) => {
                break reader
                    .cut_at()
                    .map(|at| format!("the trace file is cut at byte {at}, without its end: its writer was stopped, or the copy is incomplete"));
            }
            Err(error @ FileError::Damaged { .. }) => break Some(error.to_string()),
            Err(error) => return Err(error.into()),
        }
    };
    Ok(Extent {
        unknown_calls: reader.unknown_calls(),
        incomplete,
    })
}

/// A file in the directory of `output` without a name, which is removed when it is closed.
fn scratch(output: &Path) -> anyhow::Result<File> {
    let mut name = output.as_os_str().to_owned();
    name.push(".sort");
    let path = PathBuf::from(name);
    let creating = || format!("creating {}", path.display());
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    let file = options.open(&path).with_context(creating)?;
    fs::remove_file(&path).with_context(creating)?;
    Ok(file)
}
