//! `trace profile` and `trace points`: the profile of a trace, as JSON for the lab.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use plimsoll_trace::file::Reader;
use plimsoll_trace::header::Footer;
use plimsoll_trace::names::Names;
use plimsoll_trace::profile::points::{EachGatherer, Gatherer, Query};
use plimsoll_trace::profile::{Choice, FileNames, Profiler};
use regex::Regex;
use serde::Serialize;

/// The arguments that select a part of a trace.
#[derive(Args)]
pub(crate) struct ProfileArguments {
    /// The trace file
    trace: PathBuf,
    /// Only files whose path, as shown, matches
    #[arg(long, value_name = "REGEX")]
    file: Option<Regex>,
    /// Only calls that began this number of seconds after the start of the trace, or later
    #[arg(long, value_name = "SECONDS", value_parser = nanoseconds, allow_negative_numbers = true)]
    from: Option<i64>,
    /// Only calls that began before this number of seconds after the start of the trace
    #[arg(long, value_name = "SECONDS", value_parser = nanoseconds, allow_negative_numbers = true)]
    to: Option<i64>,
}

/// The arguments of `trace points`.
#[derive(Args)]
pub(crate) struct PointsArguments {
    #[command(flatten)]
    selection: ProfileArguments,
    /// Only requests that end after this byte of the file
    #[arg(long, default_value_t = 0)]
    from_byte: u64,
    /// Only requests that begin before this byte of the file
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true)]
    to_byte: u64,
    /// If there are more requests than this, they are binned
    #[arg(long, default_value_t = Query::default().limit)]
    limit: usize,
    /// Maximum number of bins in time
    #[arg(long, default_value_t = Query::default().columns, value_parser = clap::value_parser!(u32).range(1..=8192))]
    columns: u32,
    /// Maximum number of bins in the file
    #[arg(long, default_value_t = Query::default().rows, value_parser = clap::value_parser!(u32).range(1..=8192))]
    rows: u32,
    /// A separate chart of each file. The limit applies to all together, and the files with most
    /// requests are binned
    #[arg(long)]
    each: bool,
}

fn nanoseconds(text: &str) -> Result<i64, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "expected a number of seconds such as 1.5".to_owned())?;
    // Longer than any trace, and precise enough: 2^63 ns are 292 years.
    if seconds.abs() < 9e9 {
        Ok((seconds * 1e9).round() as i64)
    } else {
        Err("expected a number of seconds less than 9,000,000,000".to_owned())
    }
}

pub(crate) fn profile(selection: ProfileArguments) -> anyhow::Result<ExitCode> {
    let path = selection.trace.clone();
    let mut choice = choice(selection)?;
    let names = all_names(&path, &mut choice)?;
    let mut reader = open(&path)?;
    let mut profiler = Profiler::new(reader.header(), choice);
    while advance(&mut reader, &path)? {
        profiler.take(names.as_ref().unwrap_or(reader.names()), reader.events());
    }
    let unknown = reader.unknown_calls();
    let footer = reader.footer().map(|footer| Footer {
        // The calls that were unknown when the trace was written, and those that this build does
        // not know.
        unknown_calls: footer.unknown_calls + unknown,
        ..footer.clone()
    });
    print(&profiler.finish(reader.names(), footer.as_ref()))
}

pub(crate) fn points(arguments: PointsArguments) -> anyhow::Result<ExitCode> {
    let path = arguments.selection.trace.clone();
    let choice = choice(arguments.selection)?;
    let mut query = Query {
        choice,
        from_byte: arguments.from_byte,
        to_byte: arguments.to_byte,
        limit: arguments.limit,
        columns: arguments.columns,
        rows: arguments.rows,
    };
    if arguments.each {
        return each(&path, query);
    }
    let names = all_names(&path, &mut query.choice)?;
    let mut reader = open(&path)?;
    let mut gatherer = Gatherer::new(query);
    while advance(&mut reader, &path)? {
        gatherer.take(names.as_ref().unwrap_or(reader.names()), reader.events());
    }
    print(&gatherer.finish(reader.names()))
}

fn each(path: &Path, mut query: Query) -> anyhow::Result<ExitCode> {
    // Files are combined by their paths, which must be known from the first request on.
    let (names, file_names) = names(path)?;
    query.choice.file_names = Some(Arc::new(file_names));
    let mut reader = open(path)?;
    let mut gatherer = EachGatherer::new(query);
    while advance(&mut reader, path)? {
        gatherer.take(&names, reader.events());
    }
    print(&gatherer.finish(&names))
}

fn choice(selection: ProfileArguments) -> anyhow::Result<Choice> {
    if let (Some(from), Some(to)) = (selection.from, selection.to)
        && from >= to
    {
        bail!("--from is not before --to: the selection is empty");
    }
    Ok(Choice {
        file: selection.file,
        file_names: None,
        from_ns: selection.from,
        to_ns: selection.to,
    })
}

/// All tables of a trace, if files are selected by path: the path of a file that was open before
/// the trace began is known later, and a renamed file has several.
fn all_names(path: &Path, choice: &mut Choice) -> anyhow::Result<Option<Names>> {
    if choice.file.is_none() {
        return Ok(None);
    }
    let (names, file_names) = names(path)?;
    choice.file_names = Some(Arc::new(file_names));
    Ok(Some(names))
}

fn names(path: &Path) -> anyhow::Result<(Names, FileNames)> {
    let mut reader = open(path)?;
    let mut file_names = FileNames::default();
    while advance(&mut reader, path)? {
        file_names.take(reader.names(), reader.events());
    }
    Ok((reader.into_names(), file_names))
}

fn open(path: &Path) -> anyhow::Result<Reader<File>> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    Reader::new(file).with_context(|| format!("reading {}", path.display()))
}

/// Reads the next events into the reader. Returns whether there were any.
fn advance(reader: &mut Reader<File>, path: &Path) -> anyhow::Result<bool> {
    let next = reader
        .next()
        .with_context(|| format!("reading {}", path.display()))?;
    Ok(next.is_some())
}

fn print(value: &impl Serialize) -> anyhow::Result<ExitCode> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    serde_json::to_writer(&mut out, value)?;
    writeln!(out)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
