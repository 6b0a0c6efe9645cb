//! `trace profile` and `trace points`: what an application did to its files, as JSON for the lab.

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
use plimsoll_trace::profile::{Called, Choice, Profiler};
use regex::Regex;
use serde::Serialize;

/// What of a trace is asked for.
#[derive(Args)]
pub(crate) struct Chosen {
    /// The trace file
    trace: PathBuf,
    /// Only files whose name, as it is shown, matches
    #[arg(long, value_name = "REGEX")]
    file: Option<Regex>,
    /// Only calls that began so many seconds after the beginning of the trace, or later
    #[arg(long, value_name = "SECONDS", value_parser = nanoseconds, allow_negative_numbers = true)]
    from: Option<i64>,
    /// Only calls that began before so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = nanoseconds, allow_negative_numbers = true)]
    to: Option<i64>,
}

/// What a picture is to show.
#[derive(Args)]
pub(crate) struct Picture {
    #[command(flatten)]
    chosen: Chosen,
    /// Only requests that end behind this byte of the file
    #[arg(long, default_value_t = 0)]
    from_byte: u64,
    /// Only requests that begin before this byte
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true)]
    to_byte: u64,
    /// More requests than so many are binned
    #[arg(long, default_value_t = Query::default().limit)]
    limit: usize,
    /// Bins in time, at most
    #[arg(long, default_value_t = Query::default().columns, value_parser = clap::value_parser!(u32).range(1..=8192))]
    columns: u32,
    /// Bins in the file, at most
    #[arg(long, default_value_t = Query::default().rows, value_parser = clap::value_parser!(u32).range(1..=8192))]
    rows: u32,
    /// A picture of every file by itself: the limit is of all together, and those with most
    /// requests are binned
    #[arg(long)]
    each: bool,
}

fn nanoseconds(text: &str) -> Result<i64, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "a number of seconds is expected: 1.5".to_owned())?;
    // Further than any trace, and exact enough: 2^63 ns are 292 years.
    if seconds.abs() < 9e9 {
        Ok((seconds * 1e9).round() as i64)
    } else {
        Err("a number of seconds below 9000000000 is expected".to_owned())
    }
}

pub(crate) fn profile(chosen: Chosen) -> anyhow::Result<ExitCode> {
    let path = chosen.trace.clone();
    let mut choice = choice(chosen)?;
    let names = all_names(&path, &mut choice)?;
    let mut reader = open(&path)?;
    let mut profiler = Profiler::new(reader.header(), choice);
    while advance(&mut reader, &path)? {
        profiler.take(names.as_ref().unwrap_or(reader.names()), reader.events());
    }
    let unknown = reader.unknown_calls();
    let footer = reader.footer().map(|footer| Footer {
        // Those that were not known when the trace was written, and those that this build does not
        // know.
        unknown_calls: footer.unknown_calls + unknown,
        ..footer.clone()
    });
    print(&profiler.finish(reader.names(), footer.as_ref()))
}

pub(crate) fn points(picture: Picture) -> anyhow::Result<ExitCode> {
    let path = picture.chosen.trace.clone();
    let choice = choice(picture.chosen)?;
    let mut query = Query {
        choice,
        from_byte: picture.from_byte,
        to_byte: picture.to_byte,
        limit: picture.limit,
        columns: picture.columns,
        rows: picture.rows,
    };
    if picture.each {
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
    // Files are put together by their names, which must be known from the first request on.
    let (names, called) = names(path)?;
    query.choice.called = Some(Arc::new(called));
    let mut reader = open(path)?;
    let mut gatherer = EachGatherer::new(query);
    while advance(&mut reader, path)? {
        gatherer.take(&names, reader.events());
    }
    print(&gatherer.finish(&names))
}

fn choice(chosen: Chosen) -> anyhow::Result<Choice> {
    if let (Some(from), Some(to)) = (chosen.from, chosen.to)
        && from >= to
    {
        bail!("--from is not before --to: nothing would be left");
    }
    Ok(Choice {
        file: chosen.file,
        called: None,
        from_ns: chosen.from,
        to_ns: chosen.to,
    })
}

/// All tables of a trace, where files are chosen by their names: one that was open before the trace
/// began has got its name later, and one that was renamed has had several.
fn all_names(path: &Path, choice: &mut Choice) -> anyhow::Result<Option<Names>> {
    if choice.file.is_none() {
        return Ok(None);
    }
    let (names, called) = names(path)?;
    choice.called = Some(Arc::new(called));
    Ok(Some(names))
}

fn names(path: &Path) -> anyhow::Result<(Names, Called)> {
    let mut reader = open(path)?;
    let mut called = Called::default();
    while advance(&mut reader, path)? {
        called.take(reader.names(), reader.events());
    }
    Ok((reader.into_names(), called))
}

fn open(path: &Path) -> anyhow::Result<Reader<File>> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    Reader::new(file).with_context(|| format!("reading {}", path.display()))
}

/// Whether there were more events; they are in the reader.
fn advance(reader: &mut Reader<File>, path: &Path) -> anyhow::Result<bool> {
    let next = reader
        .next()
        .with_context(|| format!("reading {}", path.display()))?;
    Ok(next.is_some())
}

fn print(what: &impl Serialize) -> anyhow::Result<ExitCode> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    serde_json::to_writer(&mut out, what)?;
    writeln!(out)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
