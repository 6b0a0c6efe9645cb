//! Single requests for a picture of a file: where in it data were read and written, and when. Where
//! there are more than a picture can draw, how dense they were, and that it is so.

mod each;
mod grid;

pub use each::{EachGatherer, FilePicture, PICTURES, Pictures};

use serde::{Deserialize, Serialize};

use super::chosen::{Chooser, Subject};
use super::json::Chosen;
use super::shown::shown;
use super::{Choice, of_files};
use crate::event::{Event, FileId};
use crate::names::Names;
use crate::syscalls::Effect;
use grid::Grid;

/// Version of the points.
pub const FORMAT: &str = "plimsoll.points/1";

/// What a picture is to show.
#[derive(Debug, Clone)]
pub struct Query {
    /// Of which files, and when.
    pub choice: Choice,
    /// Requests that end behind this place in the file; bytes.
    pub from_byte: u64,
    /// Requests that begin before this place.
    pub to_byte: u64,
    /// Requests that are told one by one, at most; where there are more, all are binned.
    pub limit: usize,
    /// Bins in time, at least 1; between half of them and all are used.
    pub columns: u32,
    /// Bins in the file, at least 1; between half of them and all are used.
    pub rows: u32,
}

impl Default for Query {
    /// All of all files, as an ordinary screen can show it.
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

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Points {
    /// [`FORMAT`].
    pub format: String,
    /// Of which files, and when.
    pub chosen: Chosen,
    /// Reads and writes there that succeeded.
    pub requests: u64,
    /// Others, of which nobody knows where in the file they were: in no picture.
    pub unknown_offsets: u64,
    /// There were too many: see `density`; else `points`.
    pub binned: bool,
    /// Names of the files of the points.
    pub files: Vec<String>,
    /// What the columns of `points` are.
    pub columns: Vec<String>,
    /// The requests, in the order of the trace.
    pub points: Vec<Point>,
    /// All requests in bins.
    pub density: Option<Density>,
}

/// What the numbers of a [`Point`] are, in their order.
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

/// A request; a row of numbers in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Row", into = "Row")]
pub struct Point {
    /// When it began: ns since the zero of the trace.
    pub start_ns: i64,
    /// How long it took, as recorded: ns.
    pub duration_ns: Option<u64>,
    /// Where in the file.
    pub offset: u64,
    /// Bytes asked for.
    pub length: Option<u64>,
    /// It wrote. 0 or 1 in JSON.
    pub is_write: bool,
    /// The place of its thread in the trace's table: `id` of [`super::json::Thread`].
    pub thread: usize,
    /// Bytes given.
    pub result: u64,
    /// Its file: place in `files`.
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

/// Requests by time and place. A request counts in the bin that it began in; its bytes are in all
/// bins that it covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Density {
    /// Where the first column begins: ns since the zero of the trace.
    pub start_ns: i64,
    /// Width of a column, ns.
    pub column_ns: u64,
    /// Columns in use.
    pub columns: u32,
    /// Where the first row begins in the file.
    pub start_byte: u64,
    /// Height of a row, bytes.
    pub row_bytes: u64,
    /// Rows in use.
    pub rows: u32,
    /// Bins in which anything was read: column, row, requests, bytes.
    pub reads: Vec<[u64; 4]>,
    /// The same of writes.
    pub writes: Vec<[u64; 4]>,
}

/// Finds the requests that a query asks for.
#[derive(Debug)]
struct Sight {
    query: Query,
    chooser: Chooser,
    requests: u64,
    unknown_offsets: u64,
}

impl Sight {
    fn new(query: Query) -> Self {
        Self {
            chooser: Chooser::new(query.choice.clone()),
            query,
            requests: 0,
            unknown_offsets: 0,
        }
    }

    /// Gives each request of these events and its file; `file` of a point is yet to be set.
    fn see(&mut self, names: &Names, events: &[Event], found: &mut impl FnMut(FileId, Point)) {
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
                found(file, point);
            }
            let (file, offset) = if reads {
                (event.file2, event.offset2)
            } else {
                (event.file, event.offset)
            };
            let at_end = reads && of_files::given(event) == Some(0);
            if writes
                && !at_end
                && let Some((file, point)) = self.side(names, event, file, offset, true)
            {
                found(file, point);
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
        let result = of_files::given(event)?;
        let Subject::File(file) = self.chooser.subject(names, file, None) else {
            return None;
        };
        let Some(offset) = offset.and_then(|offset| u64::try_from(offset).ok()) else {
            self.unknown_offsets += 1;
            return None;
        };
        let end = offset.saturating_add(result);
        // A read at the end of the file gives nothing and is at its place all the same.
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

/// Gathers the points, event by event. Memory is that of the limit or of the grid, and of the
/// tables.
#[derive(Debug)]
pub struct Gatherer {
    sight: Sight,
    sheet: Sheet,
}

#[derive(Debug, Default)]
struct Sheet {
    points: Vec<Point>,
    /// Once there are too many.
    grid: Option<Grid>,
    /// Files of points, each with its place in the list.
    files: Vec<FileId>,
    places: Vec<Option<usize>>,
}

impl Gatherer {
    /// Of a trace that nothing of has been read yet.
    pub fn new(query: Query) -> Self {
        Self {
            sight: Sight::new(query),
            sheet: Sheet::default(),
        }
    }

    /// Takes the next events. Their ids are those of `names`; see [`super::Profiler::take`].
    pub fn take(&mut self, names: &Names, events: &[Event]) {
        let query = self.sight.query.clone();
        let sheet = &mut self.sheet;
        self.sight
            .see(names, events, &mut |file, point| sheet.add(&query, file, point));
    }

    /// All that was gathered.
    pub fn finish(self, names: &Names) -> Points {
        let Self { sight, sheet } = self;
        Points {
            format: FORMAT.to_owned(),
            chosen: sight.query.choice.told(),
            requests: sight.requests,
            unknown_offsets: sight.unknown_offsets,
            binned: sheet.grid.is_some(),
            files: sheet.files.iter().map(|&file| name(names, file)).collect(),
            columns: COLUMNS.map(str::to_owned).to_vec(),
            points: sheet.points,
            density: sheet.grid.map(|grid| grid.density()),
        }
    }
}

/// The first name of a file, as it is shown.
fn name(names: &Names, file: FileId) -> String {
    let entry = names.files().get(file.index());
    shown(entry.map_or(&b""[..], |entry| names.path(entry.path)))
}

impl Sheet {
    fn add(&mut self, query: &Query, file: FileId, point: Point) {
        let point = Point {
            file: self.place(file),
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

    fn place(&mut self, file: FileId) -> usize {
        let index = file.index();
        if index >= self.places.len() {
            self.places.resize(index + 1, None);
        }
        *self.places[index].get_or_insert_with(|| {
            self.files.push(file);
            self.files.len() - 1
        })
    }
}
