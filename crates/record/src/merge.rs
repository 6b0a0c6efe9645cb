//! The conversion after a run: the segments of all agents become one Parquet file per table, with
//! times of the run.
//!
//! The conversion can be killed at any time and repeated, because of the order of its steps. It
//! writes Parquet under a temporary name, syncs it and renames it. The caller then writes the
//! summary. Only after that are segments removed ([`Conversion::clean_up`]). A Parquet file lists
//! the segments that it contains. So a second conversion neither loses nor duplicates rows, and
//! segments that arrive later are added.

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

use crate::parquet_file::ParquetFile;
use crate::read::{Head, Segment};
use crate::timeline::{Clocks, Timeline};
use crate::{RecordError, START_FILE, Start, Tally};

/// The tables: format of the rows, name of the Parquet file, column with times of the agent's raw
/// clock.
const TABLES: [(&str, &str, &str); 5] = [
    (format::TRANSACTIONS, "transactions.parquet", "start"),
    (format::METRICS, "metrics.parquet", "start"),
    (format::SAMPLES, "samples.parquet", "t"),
    (format::CLOCK, "clock.parquet", "t"),
    (format::PROBES, "probes.parquet", "t"),
];

/// Contents of one segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentSummary {
    /// Name of the segment file.
    pub name: String,
    /// Name of the agent that wrote it.
    pub agent: String,
    /// Number of the segment within agent and table, from 0.
    pub sequence: u32,
    /// Number of rows that were read.
    pub rows: u64,
    /// Size of the segment, bytes.
    pub bytes: u64,
    /// Whether the segment has a seal and its checksum is correct.
    pub sealed: bool,
}

/// One Parquet file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSummary {
    /// Name of the file in the run's directory.
    pub file: String,
    /// Number of rows.
    pub rows: u64,
    /// Size of the file, bytes.
    pub bytes: u64,
}

/// Result of a conversion.
#[derive(Debug, Default)]
pub struct Conversion {
    /// The Parquet files of the run.
    pub tables: Vec<TableSummary>,
    /// All segments that the Parquet files contain.
    pub segments: Vec<SegmentSummary>,
    /// Sums over the rows of transactions, by agent.
    pub tallies: BTreeMap<String, Tally>,
    /// The clock of every agent, relative to that of the run.
    pub clocks: Clocks,
    /// Faults of segments: data that were lost or look wrong.
    pub damage: Vec<String>,
    remove: Vec<PathBuf>,
    directory: PathBuf,
}

impl Conversion {
    /// Sum of the tallies of all agents.
    pub fn tally(&self) -> Tally {
        self.tallies.values().fold(Tally::default(), |mut sum, tally| {
            sum.merge(tally);
            sum
        })
    }

    /// Removes the segments that are in Parquet, and their directory if it is then empty. The
    /// caller first writes everything that it computes from the segments. A file that cannot be
    /// removed does no harm. While more segments are `outstanding`, the files that are needed to
    /// convert them are kept.
    pub fn clean_up(&self, outstanding: bool) {
        for path in &self.remove {
            let _ = fs::remove_file(path);
            let _ = fs::remove_file(path.with_extension("json"));
        }
        if outstanding {
            return;
        }
        let remaining = || fs::read_dir(&self.directory).into_iter().flatten().flatten();
        for path in remaining()
            .map(|entry| entry.path())
            .filter(|path| is_remnant(path))
        {
            let _ = fs::remove_file(path);
        }
        if remaining().all(|entry| entry.file_name() == START_FILE) {
            let _ = fs::remove_file(self.directory.join(START_FILE));
            let _ = fs::remove_dir(&self.directory);
        }
    }
}

/// Whether a kill left this file and it contains no measurement: it has a temporary name, or it is
/// the seal of a segment that no longer exists.
fn is_remnant(path: &Path) -> bool {
    let is = |extension: &str| path.extension().is_some_and(|own| own == extension);
    let is_start = path.file_name().is_some_and(|name| name == START_FILE);
    is("part") || is("json") && !is_start && !path.with_extension("arrow").exists()
}

/// The metadata of a Parquet file under the key `plimsoll`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct About {
    #[serde(flatten)]
    start: Start,
    segments: Vec<SegmentSummary>,
    tallies: BTreeMap<String, Tally>,
}

/// Converts the segments in `run/segments` into Parquet files in `run`.
///
/// # Errors
/// [`RecordError`] if the start of the run is unknown or a Parquet file cannot be written. All
/// segments are then unchanged. A damaged segment is not an error: it is read up to its last
/// complete batch, and `damage` reports it.
pub fn convert(run: &Path, start: &Start) -> Result<Conversion, RecordError> {
    let directory = run.join("segments");
    let mut conversion = Conversion {
        directory: directory.clone(),
        ..Conversion::default()
    };
    let heads = heads(&directory, &mut conversion)?;
    // Before any row is converted with it: if the conversion is killed and repeated, the repetition
    // converts the other rows with the same map.
    conversion.clocks = Clocks::find(run, start, &heads);
    conversion.clocks.write(run)?;
    for (own, file, clock) in TABLES {
        let known = |found_format: &str| format::readable(own, found_format);
        let mut table_heads: Vec<&Head> = heads.iter().filter(|head| known(&head.format)).collect();
        table_heads.sort_by(|a, b| (&a.agent, a.sequence).cmp(&(&b.agent, b.sequence)));
        table(&run.join(file), own, clock, &table_heads, start, &mut conversion)?;
    }
    for head in heads
        .iter()
        .filter(|head| !TABLES.iter().any(|(own, ..)| format::readable(own, &head.format)))
    {
        conversion.damage.push(format!(
            "{}: not converted: this engine does not know its format \"{}\"",
            head.name, head.format
        ));
    }
    Ok(conversion)
}

/// The heads of all segments that have a readable head.
fn heads(directory: &Path, conversion: &mut Conversion) -> Result<Vec<Head>, RecordError> {
    let entries = fs::read_dir(directory).map_err(|error| RecordError::io("reading", directory, error))?;
    let mut heads = Vec::new();
    for entry in entries {
        let path = match entry {
            Ok(entry) => entry.path(),
            Err(error) => {
                let error = RecordError::io("reading", directory, error);
                conversion
                    .damage
                    .push(format!("{error}: segments may be missing"));
                continue;
            }
        };
        if path.extension().is_none_or(|extension| extension != "arrow") {
            continue;
        }
        if fs::metadata(&path).is_ok_and(|about| about.len() == 0) {
            conversion.remove.push(path); // the agent was killed before it wrote to this segment
            continue;
        }
        match Head::read(&path) {
            Ok(head) => heads.push(head),
            Err(error) => conversion.damage.push(error.to_string()),
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
    conversion: &mut Conversion,
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
    let covered: BTreeSet<String> = about
        .segments
        .iter()
        .map(|segment| segment.name.clone())
        .collect();
    let (converted, new): (Vec<&Head>, Vec<&Head>) = heads
        .iter()
        .copied()
        .partition(|head| covered.contains(&head.name));
    conversion
        .remove
        .extend(converted.iter().map(|head| head.path.clone()));
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
            let rows = about.segments.iter().map(|segment| segment.rows).sum();
            conversion.tables.push(TableSummary {
                file: name,
                rows,
                bytes,
            });
        }
        conversion.take(about);
        return Ok(());
    }
    let mut file = None;
    for head in new {
        let Some(timeline) = conversion.clocks.timeline(start, &head.agent) else {
            conversion.damage.push(format!(
                "{}: not converted: the run has no agent \"{}\"",
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
        let (summary, damage) = append(file, segment, clock, &timeline, tally)?;
        conversion.damage.extend(damage);
        conversion.remove.push(head.path.clone());
        about.segments.push(summary);
    }
    let Some(file) = file else { return Ok(()) };
    gaps(&about.segments, &mut conversion.damage);
    let rows = file.rows();
    let text = serde_json::to_string(&about).map_err(|error| RecordError::broken(path, error))?;
    let bytes = file.place(vec![("plimsoll", text)])?;
    conversion.tables.push(TableSummary {
        file: name,
        rows,
        bytes,
    });
    conversion.take(about);
    Ok(())
}

impl Conversion {
    fn take(&mut self, about: About) {
        self.segments.extend(about.segments);
        self.tallies.extend(about.tallies);
    }
}

/// A new file with the schema of `segment`, and with the rows of the old file if one exists.
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
                format!("the segment has no column \"{clock}\" of integers"),
            )
        })?;
        if let Some(tally) = tally.as_deref_mut() {
            tally.add(&batch).ok_or_else(|| {
                RecordError::broken(segment.path(), "the segment lacks columns of transactions")
            })?;
        }
        file.write(&batch)?;
    }
    if let Some(why) = &segment.damage {
        damage.push(format!(
            "{}: {why}; the first {} rows were kept",
            segment.name, segment.rows
        ));
    }
    let summary = SegmentSummary {
        name: segment.name.clone(),
        agent: segment.agent.clone(),
        sequence: segment.sequence,
        rows: segment.rows,
        bytes: segment.bytes,
        sealed: segment.sealed,
    };
    Ok((summary, damage))
}

/// The batch with its clock column converted to times of the run.
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
    for segment in sorted {
        let expected = next.entry(&segment.agent).or_default();
        if segment.sequence > *expected {
            damage.push(format!(
                "segments {} to {} before {} are missing",
                expected,
                segment.sequence - 1,
                segment.name
            ));
        }
        *expected = segment.sequence + 1;
    }
}

/// The metadata of an existing Parquet file.
fn about(path: &Path, own: &'static str) -> Result<About, RecordError> {
    let file = File::open(path).map_err(|error| RecordError::io("reading", path, error))?;
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| RecordError::broken(path, error))?;
    let text = |key: &str| {
        let pairs = reader.metadata().file_metadata().key_value_metadata()?;
        pairs.iter().find(|pair| pair.key == key)?.value.clone()
    };
    let found = text("format").unwrap_or_default();
    if !format::readable(own, &found) {
        return Err(RecordError::Version {
            path: path.to_owned(),
            found,
            own,
        });
    }
    let about = text("plimsoll")
        .ok_or_else(|| RecordError::broken(path, "the metadata of the file lack the key \"plimsoll\""))?;
    serde_json::from_str(&about).map_err(|error| RecordError::broken(path, error))
}
