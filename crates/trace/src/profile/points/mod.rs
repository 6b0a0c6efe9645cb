//! Single requests for a chart of a file: the offset and the time of its reads and writes. If there
//! are more than a chart can show, their density.

mod each;
mod grid;

pub use each::{EachGatherer, FilePicture, PICTURES, Pictures};

use serde::{Deserialize, Serialize};

use super::choice::{Chooser, Subject};
use super::json::Selection;
use super::shown::shown;
use super::{Choice, of_files};
use crate::event::{Event, FileId};
use crate::names::Names;
use crate::syscalls::Effect;
use grid::Grid;

/// Version of the points.
pub const FORMAT: &str = "plimsoll.points/1";

/// The contents of a chart.
#[derive(Debug, Clone)]
pub struct Query {
    /// The selected files and times.
    pub choice: Choice,
    /// Selects requests that end after this offset, bytes.
    pub from_byte: u64,
    /// Selects requests that begin before this offset, bytes.
    pub to_byte: u64,
    /// Maximum number of single requests. If there are more, all are binned.
    pub limit: usize,
    /// Maximum number of bins in time, at least 1. Between half of them and all are used.
    pub columns: u32,
    /// Maximum number of bins in the file, at least 1. Between half of them and all are used.
    pub rows: u32,
}

impl Default for Query {
    /// All requests of all files, at the resolution of an ordinary screen.
    fn default() -> Self {
        Self {
            choice: Choice::default(),
            from_byte: 0,
            to_byte: u64::MAX,
            limit: 20_000,
            columns: 1024,
            rows: 512,
        }
    }
}

/// The selected requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Points {
    /// [`FORMAT`].
    pub format: String,
    /// The selected files and times.
    pub chosen: Selection,
    /// Number of successful reads and writes in the chart.
    pub requests: u64,
    /// Number of requests with an unknown offset, which are in no chart.
    pub unknown_offsets: u64,
    /// Whether there were too many requests. Then they are in `density`, otherwise in `points`.
    pub binned: bool,
    /// Paths of the files of the points.
    pub files: Vec<String>,
    /// Names of the columns of `points`.
    pub columns: Vec<String>,
    /// The requests, in the order of the trace.
    pub points: Vec<Point>,
    /// All requests in bins, if there are too many.
    pub density: Option<Density>,
}

/// Names of the numbers of a [`Point`], in their order.
pub const COLUMNS: [&str; 8] = [
    "start_ns",
    "duration_ns",
    "offset",
    "length",
    "write",
    "thread",
    "result",
    "file",
];

/// A request; in JSON a row of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Row", into = "Row")]
pub struct Point {
    /// Start: ns since the zero of the trace.
    pub start_ns: i64,
    /// Duration as recorded, ns.
    pub duration_ns: Option<u64>,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Requested number of bytes.
    pub length: Option<u64>,
    /// Whether it is a write. 0 or 1 in JSON.
    pub is_write: bool,
    /// The index of its thread in the table of the trace: `id` of [`super::json::Thread`].
    pub thread: usize,
    /// Returned number of bytes.
    pub result: u64,
    /// The index of its file in `files`.
    pub file: usize,
}

type Row = (i64, Option<u64>, u64, Option<u64>, u8, usize, u64, usize);

impl From<Row> for Point {
    fn from(row: Row) -> Self {
        let (start_ns, duration_ns, offset, length, write, thread, result, file) = row;
        Self {
            start_ns,
            duration_ns,
            offset,
            length,
            is_write: write != 0,
            thread,
            result,
            file,
        }
    }
}

impl From<Point> for Row {
    fn from(point: Point) -> Self {
        let Point {
            start_ns,
            duration_ns,
            offset,
            length,
            is_write,
            thread,
            result,
            file,
        } = point;
        (
            start_ns,
            duration_ns,
            offset,
            length,
            u8::from(is_write),
            thread,
            result,
            file,
        )
    }
}

/// Requests by time and offset. A request counts in the bin in which it began; its bytes count in
/// all bins that it covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Density {
    /// Start of the first column: ns since the zero of the trace.
    pub start_ns: i64,
    /// Width of a column, ns.
    pub column_ns: u64,
    /// Number of columns in use.
    pub columns: u32,
    /// Start of the first row in the file, bytes.
    pub start_byte: u64,
    /// Height of a row, bytes.
    pub row_bytes: u64,
    /// Number of rows in use.
    pub rows: u32,
    /// Bins with reads: column, row, requests, bytes.
    pub reads: Vec<[u64; 4]>,
    /// Bins with writes: column, row, requests, bytes.
    pub writes: Vec<[u64; 4]>,
}

/// Selects the requests of a query.
#[derive(Debug)]
struct RequestFilter {
    query: Query,
    chooser: Chooser,
    requests: u64,
    unknown_offsets: u64,
}

impl RequestFilter {
    fn new(query: Query) -> Self {
        Self {
            chooser: Chooser::new(query.choice.clone()),
            query,
            requests: 0,
            unknown_offsets: 0,
        }
    }

    /// Passes each selected request of these events, with its file, to `visit`. The field `file` of
    /// the point is not set yet.
    fn for_each(&mut self, names: &Names, events: &[Event], visit: &mut impl FnMut(FileId, Point)) {
        for event in events {
            let (reads, writes) = match event.call.effect {
                Effect::Read => (true, false),
                Effect::Write => (false, true),
                Effect::Transfer => (true, true),
                _ => continue,
            };
            if !self.chooser.is_in_time(event.start_ns) {
                continue;
            }
            if reads && let Some((file, point)) = self.side(names, event, event.file, event.offset, false) {
                visit(file, point);
            }
            let (file, offset) = if reads {
                (event.file2, event.offset2)
            } else {
                (event.file, event.offset)
            };
            let at_end = reads && of_files::returned_count(event) == Some(0);
            if writes
                && !at_end
                && let Some((file, point)) = self.side(names, event, file, offset, true)
            {
                visit(file, point);
            }
        }
    }

    fn side(
        &mut self,
        names: &Names,
        event: &Event,
        file: Option<FileId>,
        offset: Option<i64>,
        is_write: bool,
    ) -> Option<(FileId, Point)> {
        let result = of_files::returned_count(event)?;
        let Subject::File(file) = self.chooser.subject(names, file, None) else {
            return None;
        };
        let Some(offset) = offset.and_then(|offset| u64::try_from(offset).ok()) else {
            self.unknown_offsets += 1;
            return None;
        };
        let end = offset.saturating_add(result);
        // A read at the end of the file returns nothing and has an offset nevertheless.
        if offset >= self.query.to_byte || end < self.query.from_byte.saturating_add(u64::from(result > 0)) {
            return None;
        }
        self.requests += 1;
        let point = Point {
            start_ns: event.start_ns,
            duration_ns: event.duration_ns,
            offset,
            length: event.length,
            is_write,
            thread: event.thread.index(),
            result,
            file: 0,
        };
        Some((file, point))
    }
}

/// Collects the points, event by event. Memory is bounded by the limit or the grid, and by the
/// tables.
#[derive(Debug)]
pub struct Gatherer {
    filter: RequestFilter,
    points: PointSet,
}

#[derive(Debug, Default)]
struct PointSet {
    points: Vec<Point>,
    /// The bins, if there are too many points.
    grid: Option<Grid>,
    /// The files of the points. A point contains the index.
    files: Vec<FileId>,
    indices: Vec<Option<usize>>,
}

impl Gatherer {
    /// A gatherer before the first event of a trace.
    pub fn new(query: Query) -> Self {
        Self {
            filter: RequestFilter::new(query),
            points: PointSet::default(),
        }
    }

    /// Reads the next events. Their ids are those of `names`; see [`super::Profiler::take`].
    pub fn take(&mut self, names: &Names, events: &[Event]) {
        let query = self.filter.query.clone();
        let points = &mut self.points;
        self.filter
            .for_each(names, events, &mut |file, point| points.add(&query, file, point));
    }

    /// The points of all events.
    pub fn finish(self, names: &Names) -> Points {
        let Self { filter, points } = self;
        Points {
            format: FORMAT.to_owned(),
            chosen: filter.query.choice.to_json(),
            requests: filter.requests,
            unknown_offsets: filter.unknown_offsets,
            binned: points.grid.is_some(),
            files: points.files.iter().map(|&file| name(names, file)).collect(),
            columns: COLUMNS.map(str::to_owned).to_vec(),
            points: points.points,
            density: points.grid.map(|grid| grid.density()),
        }
    }
}

/// The first path of a file, as shown.
fn name(names: &Names, file: FileId) -> String {
    let entry = names.files().get(file.index());
    shown(entry.map_or(&b""[..], |entry| names.path(entry.path)))
}

impl PointSet {
    fn add(&mut self, query: &Query, file: FileId, point: Point) {
        let point = Point {
            file: self.file_index(file),
            ..point
        };
        if let Some(grid) = &mut self.grid {
            grid.add(&point);
        } else if self.points.len() < query.limit {
            self.points.push(point);
        } else {
            let mut grid = Grid::new(query);
            for point in self.points.drain(..).chain([point]) {
                grid.add(&point);
            }
            self.grid = Some(grid);
        }
    }

    fn file_index(&mut self, file: FileId) -> usize {
        let index = file.index();
        if index >= self.indices.len() {
            self.indices.resize(index + 1, None);
        }
        *self.indices[index].get_or_insert_with(|| {
            self.files.push(file);
            self.files.len() - 1
        })
    }
}
