//! After a run: the segments of all agents become one Parquet file per table, on the run's own
//! clock.
//!
//! The order of steps makes it safe to be killed anywhere and run again: Parquet under a temporary
//! name, sync, rename; the caller writes its summary; only then segments go ([`Merged::clean_up`]).
//! A Parquet file names the segments that it holds, so that a second conversion neither loses nor
//! doubles rows, and segments that arrive later are added.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use plimsoll_model::format;
use serde::{Deserialize, Serialize};

use crate::read::{Head, Segment};
use crate::rest::ParquetFile;
use crate::timeline::{Clocks, Timeline};
use crate::{RecordError, START_FILE, Start, Tally};

/// One kind of table: format of its rows, name of its Parquet file, column on the agent's raw
/// clock.
const TABLES: [(&str, &str, &str); 5] = [
    (format::TRANSACTIONS, "transactions.parquet", "start"),
    (format::METRICS, "metrics.parquet", "start"),
    (format::SAMPLES, "samples.parquet", "t"),
    (format::CLOCK, "clock.parquet", "t"),
    (format::PROBES, "probes.parquet", "t"),
];

/// What was found in one segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentSummary {
    /// Name of the file.
    pub name: String,
    /// Name of its agent.
    pub agent: String,
    /// Its number within agent and table.
    pub sequence: u32,
    /// Rows that could be read.
    pub rows: u64,
    /// Its size.
    pub bytes: u64,
    /// Whether its checksum was there and true.
    pub sealed: bool,
}

/// One Parquet file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableWritten {
    /// Name of the file in the run's directory.
    pub file: String,
    /// Its rows.
    pub rows: u64,
    /// Its size.
    pub bytes: u64,
}

/// What a conversion has done.
#[derive(Debug, Default)]
pub struct Merged {
    /// The Parquet files.
    pub tables: Vec<TableWritten>,
    /// All segments that they hold.
    pub segments: Vec<SegmentSummary>,
    /// What the rows of transactions add up to, by agent.
    pub tallies: BTreeMap<String, Tally>,
    /// Every agent's clock against the run's.
    pub clocks: Clocks,
    /// What was lost or looked wrong.
    pub damage: Vec<String>,
    remove: Vec<PathBuf>,
    directory: PathBuf,
}

impl Merged {
    /// Sum over the agents.
    pub fn tally(&self) -> Tally {
        self.tallies.values().fold(Tally::default(), |mut sum, tally| {
            sum.merge(tally);
            sum
        })
    }

    /// Removes the segments that Parquet holds now, and their directory when nothing else is in it.
    /// To be called when everything that is computed from the segments is on disk. What cannot be
    /// removed does no harm. While more are `outstanding`, what is needed to convert them stays.
    pub fn clean_up(&self, outstanding: bool) {
        for path in &self.remove {
            let _ = fs::remove_file(path);
            let _ = fs::remove_file(path.with_extension("json"));
        }
        if outstanding {
            return;
        }
        let left = || fs::read_dir(&self.directory).into_iter().flatten().flatten();
        for path in left().map(|entry| entry.path()).filter(|path| is_remnant(path)) {
            let _ = fs::remove_file(path);
        }
        if left().all(|entry| entry.file_name() == START_FILE) {
            let _ = fs::remove_file(self.directory.join(START_FILE));
            let _ = fs::remove_dir(&self.directory);
        }
    }
}

/// What a kill leaves that holds no measurement: a file under its temporary name, the seal of a
/// segment that is gone.
fn is_remnant(path: &Path) -> bool {
    let is = |extension: &str| path.extension().is_some_and(|own| own == extension);
    let is_start = path.file_name().is_some_and(|name| name == START_FILE);
    is("part") || is("json") && !is_start && !path.with_extension("arrow").exists()
}

/// What a Parquet file says of itself under the key `plimsoll`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct About {
    #[serde(flatten)]
    start: Start,
    segments: Vec<SegmentSummary>,
    tallies: BTreeMap<String, Tally>,
}

/// Converts what lies in `run/segments` into Parquet files in `run`.
///
/// # Errors
/// [`RecordError`] when the run's start is unknown or a Parquet file cannot be written; all
/// segments are then still there. A segment that is damaged is no error: it is read to its last
/// whole batch, and `damage` says so.
pub fn convert(run: &Path, start: &Start) -> Result<Merged, RecordError> {
    let directory = run.join("segments");
    let mut merged = Merged {
        directory: directory.clone(),
        ..Merged::default()
    };
    let heads = heads(&directory, &mut merged)?;
    // Before any row is placed by it: a conversion that is killed and repeated places the rest
    // alike.
    merged.clocks = Clocks::find(run, start, &heads);
    merged.clocks.write(run)?;
    for (own, file, clock) in TABLES {
        let known = |found: &str| format::readable(own, found);
        let mut mine: Vec<&Head> = heads.iter().filter(|head| known(&head.format)).collect();
        mine.sort_by(|a, b| (&a.agent, a.sequence).cmp(&(&b.agent, b.sequence)));
        table(&run.join(file), own, clock, &mine, start, &mut merged)?;
    }
    for head in heads
        .iter()
        .filter(|head| !TABLES.iter().any(|(own, ..)| format::readable(own, &head.format)))
    {
        merged.damage.push(format!(
            "{}: left alone, its format \"{}\" is unknown here",
            head.name, head.format
        ));
    }
    Ok(merged)
}

/// The heads of all segments that have one.
fn heads(directory: &Path, merged: &mut Merged) -> Result<Vec<Head>, RecordError> {
    let entries = fs::read_dir(directory).map_err(|error| RecordError::io("reading", directory, error))?;
    let mut heads = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_none_or(|extension| extension != "arrow") {
            continue;
        }
        if fs::metadata(&path).is_ok_and(|about| about.len() == 0) {
            merged.remove.push(path); // begun in the moment of the kill: nothing was in it
            continue;
        }
        match Head::read(&path) {
            Ok(head) => heads.push(head),
            Err(error) => merged.damage.push(error.to_string()),
        }
    }
    Ok(heads)
}

fn table(
    path: &Path,
    own: &'static str,
    clock: &str,
    heads: &[&Head],
    start: &Start,
    merged: &mut Merged,
) -> Result<(), RecordError> {
    let old = if path.exists() {
        Some(about(path, own)?)
    } else {
        None
    };
    let mut about = old.clone().unwrap_or_else(|| About {
        start: start.clone(),
        segments: Vec::new(),
        tallies: BTreeMap::new(),
    });
    let covered: BTreeSet<String> = about.segments.iter().map(|found| found.name.clone()).collect();
    let (held, new): (Vec<&Head>, Vec<&Head>) = heads
        .iter()
        .copied()
        .partition(|head| covered.contains(&head.name));
    merged.remove.extend(held.iter().map(|head| head.path.clone()));
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if new.is_empty() {
        if old.is_some() {
            let bytes = fs::metadata(path)
                .map_err(|error| RecordError::io("reading", path, error))?
                .len();
            let rows = about.segments.iter().map(|found| found.rows).sum();
            merged.tables.push(TableWritten {
                file: name,
                rows,
                bytes,
            });
        }
        merged.take(about);
        return Ok(());
    }
    let mut file = None;
    for head in new {
        let Some(timeline) = merged.clocks.timeline(start, &head.agent) else {
            merged.damage.push(format!(
                "{}: left alone, the run has no agent \"{}\"",
                head.name, head.agent
            ));
            continue;
        };
        let segment = Segment::open(&head.path)?;
        let file = match &mut file {
            Some(file) => file,
            None => file.insert(begin(path, own, &segment, old.is_some())?),
        };
        let tally =
            (own == format::TRANSACTIONS).then(|| about.tallies.entry(head.agent.clone()).or_default());
        let (found, damage) = append(file, segment, clock, &timeline, tally)?;
        merged.damage.extend(damage);
        merged.remove.push(head.path.clone());
        about.segments.push(found);
    }
    let Some(file) = file else { return Ok(()) };
    gaps(&about.segments, &mut merged.damage);
    let rows = file.rows();
    let text = serde_json::to_string(&about).map_err(|error| RecordError::broken(path, error))?;
    let bytes = file.place(vec![("plimsoll", text)])?;
    merged.tables.push(TableWritten {
        file: name,
        rows,
        bytes,
    });
    merged.take(about);
    Ok(())
}

impl Merged {
    fn take(&mut self, about: About) {
        self.segments.extend(about.segments);
        self.tallies.extend(about.tallies);
    }
}

/// A new file with the schema of `segment`, and with the rows of the old one if there is one.
fn begin(path: &Path, own: &'static str, segment: &Segment, old: bool) -> Result<ParquetFile, RecordError> {
    let mut file = ParquetFile::create(path, segment.schema(), &[("format", own.to_owned())])?;
    if old {
        let source = File::open(path).map_err(|error| RecordError::io("reading", path, error))?;
        let rows =
            ParquetRecordBatchReaderBuilder::try_new(source).and_then(ParquetRecordBatchReaderBuilder::build);
        for batch in rows.map_err(|error| RecordError::broken(path, error))? {
            file.write(&batch?)?;
        }
    }
    Ok(file)
}

fn append(
    file: &mut ParquetFile,
    mut segment: Segment,
    clock: &str,
    timeline: &Timeline,
    mut tally: Option<&mut Tally>,
) -> Result<(SegmentSummary, Vec<String>), RecordError> {
    let mut damage = Vec::new();
    while let Some(batch) = segment.next_batch()? {
        let batch = rebase(&batch, clock, timeline).ok_or_else(|| {
            RecordError::broken(
                segment.path(),
                format!("it has no column \"{clock}\" of whole numbers"),
            )
        })?;
        if let Some(tally) = tally.as_deref_mut() {
            tally
                .add(&batch)
                .ok_or_else(|| RecordError::broken(segment.path(), "it lacks columns of transactions"))?;
        }
        file.write(&batch)?;
    }
    if let Some(why) = &segment.damage {
        damage.push(format!(
            "{}: {why}; its first {} rows are kept",
            segment.name, segment.rows
        ));
    }
    let found = SegmentSummary {
        name: segment.name.clone(),
        agent: segment.agent.clone(),
        sequence: segment.sequence,
        rows: segment.rows,
        bytes: segment.bytes,
        sealed: segment.sealed,
    };
    Ok((found, damage))
}

/// The batch with its clock column on the time of the run.
fn rebase(batch: &RecordBatch, clock: &str, timeline: &Timeline) -> Option<RecordBatch> {
    let index = batch.schema().index_of(clock).ok()?;
    let raw = batch.column(index).as_primitive_opt::<Int64Type>()?;
    let mut columns = batch.columns().to_vec();
    columns[index] = Arc::new(Int64Array::from_iter_values(
        raw.values().iter().map(|&raw| timeline.at(raw)),
    ));
    RecordBatch::try_new(batch.schema(), columns).ok()
}

fn gaps(segments: &[SegmentSummary], damage: &mut Vec<String>) {
    let mut next: BTreeMap<&str, u32> = BTreeMap::new();
    let mut sorted: Vec<&SegmentSummary> = segments.iter().collect();
    sorted.sort_by(|a, b| (&a.agent, a.sequence).cmp(&(&b.agent, b.sequence)));
    for found in sorted {
        let expected = next.entry(&found.agent).or_default();
        if found.sequence > *expected {
            damage.push(format!(
                "segments {} to {} before {} are missing",
                expected,
                found.sequence - 1,
                found.name
            ));
        }
        *expected = found.sequence + 1;
    }
}

/// What an existing Parquet file says of itself.
fn about(path: &Path, own: &'static str) -> Result<About, RecordError> {
    let file = File::open(path).map_err(|error| RecordError::io("reading", path, error))?;
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| RecordError::broken(path, error))?;
    let text = |wanted: &str| {
        let pairs = reader.metadata().file_metadata().key_value_metadata()?;
        pairs.iter().find(|pair| pair.key == wanted)?.value.clone()
    };
    let found = text("format").unwrap_or_default();
    if !format::readable(own, &found) {
        return Err(RecordError::Version {
            path: path.to_owned(),
            found,
            own,
        });
    }
    let about =
        text("plimsoll").ok_or_else(|| RecordError::broken(path, "its metadata lacks \"plimsoll\""))?;
    serde_json::from_str(&about).map_err(|error| RecordError::broken(path, error))
}
