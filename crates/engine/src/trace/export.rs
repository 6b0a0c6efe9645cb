//! `trace export`: a trace in another program's format.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use plimsoll_trace::event::Event;
use plimsoll_trace::export::{Csv, Dxt, Export, Fio, Parquet, Tally};
use plimsoll_trace::file::{FileError, Reader};
use plimsoll_trace::header::Header;
use plimsoll_trace::names::Names;
use serde::Serialize;

/// Bytes that are written at once.
const PIECE: usize = 256 * 1024;

/// What a trace is turned into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Format {
    Fio,
    Parquet,
    Csv,
    Dxt,
}

/// The line for the lab.
#[derive(Serialize)]
struct ExportSummary<'a> {
    format: &'static str,
    to: Format,
    #[serde(flatten)]
    tally: &'a Tally,
    /// Events that this build does not know the calls of.
    unknown_calls: u64,
    /// Why not all of the trace is in it; none where all is.
    incomplete: Option<&'a str>,
}

/// How far a trace could be read.
struct Extent {
    unknown_calls: u64,
    incomplete: Option<String>,
}

pub(crate) fn run(trace: &Path, to: Format, output: &Path, root: Option<&Path>) -> anyhow::Result<ExitCode> {
    if root.is_some() && to != Format::Fio {
        bail!("--root goes with `--to fio` only: the other formats keep names as they were recorded");
    }
    super::output::check(output, [trace])?;
    // What is learnt of names late in a trace is to stand in the first rows, too: it is read once
    // for them alone.
    let mut reader = open(trace)?;
    let extent = read(&mut reader, |_| Ok(()))?;
    let source = Source {
        trace,
        header: reader.header().clone(),
        names: reader.into_names(),
    };
    let tally = super::output::write(output, |file| {
        let mut out = BufWriter::with_capacity(PIECE, file);
        let tally = match to {
            Format::Csv => source.give(Csv::new(&mut out, &source.names)?)?,
            Format::Parquet => source.give(Parquet::new(&mut out, &source.names, &source.header)?)?,
            Format::Fio => {
                let root = root.map(|root| root.as_os_str().as_bytes());
                source.give(Fio::new(&mut out, &source.names, root)?)?
            }
            Format::Dxt => {
                let scratch = scratch(output)?;
                source.give(Dxt::new(&mut out, &source.names, &source.header, scratch))?
            }
        };
        Ok((out.into_inner()?, tally))
    })?;
    let told = ExportSummary {
        format: "plimsoll.trace.export/1",
        to,
        tally: &tally,
        unknown_calls: extent.unknown_calls,
        incomplete: extent.incomplete.as_deref(),
    };
    writeln!(std::io::stderr(), "{}", serde_json::to_string(&told)?)?;
    let is_whole = extent.incomplete.is_none();
    Ok(if is_whole {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A trace whose tables are known.
struct Source<'a> {
    trace: &'a Path,
    header: Header,
    names: Names,
}

impl Source<'_> {
    /// Reads the events again, for an export.
    fn give(&self, mut export: impl Export) -> anyhow::Result<Tally> {
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
        bail!("{} is no regular file: a trace is read twice", trace.display());
    }
    Reader::new(file).with_context(reading)
}

/// Reads as far as a trace is whole.
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
                    .map(|at| format!("the trace file ends at byte {at}, without its end: its writer was stopped, or it was not copied whole"));
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

/// A file beside `output` that has no name, and goes when it is closed.
fn scratch(output: &Path) -> anyhow::Result<File> {
    let mut name = output.as_os_str().to_owned();
    name.push(".sort");
    let path = PathBuf::from(name);
    let making = || format!("creating {}", path.display());
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    let file = options.open(&path).with_context(making)?;
    fs::remove_file(&path).with_context(making)?;
    Ok(file)
}
