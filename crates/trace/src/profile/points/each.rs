//! A picture of every file, in one pass: one by one where a file has few requests, in bins where it
//! has many.

use serde::{Deserialize, Serialize};

use super::{Density, Grid, Point, Query, Sight};
use crate::event::{Event, FileId, PathId};
use crate::names::Names;
use crate::profile::json::Chosen;
use crate::profile::shown::shown;

/// Version of the pictures.
pub const PICTURES: &str = "plimsoll.pictures/1";
/// So many files are binned as finely as the query says, the others more coarsely: a bin in use
/// takes some 60 bytes.
const FINE: usize = 12;
/// How much coarser, each way.
const COARSER: u32 = 8;

/// Pictures of all files that were asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pictures {
    /// [`PICTURES`].
    pub format: String,
    /// Of which files, and when.
    pub chosen: Chosen,
    /// Reads and writes there that succeeded.
    pub requests: u64,
    /// Others, of which nobody knows where in the file they were: in no picture.
    pub unknown_offsets: u64,
    /// By the order of their first requests.
    pub files: Vec<FilePicture>,
}

/// A file's picture: `points` or `density`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FilePicture {
    /// The name, as in the profile: files that bore it one after another are one picture.
    pub path: String,
    /// Requests in it.
    pub requests: u64,
    /// Every request, in the order of the trace; empty where there is a density. The place of the
    /// file is 0.
    pub points: Vec<Point>,
    /// All requests in bins.
    pub density: Option<Density>,
}

/// Gathers the pictures. Memory: the limit is of the points of all files together; once it is
/// reached, the files with most points are binned until a quarter of it is free again.
#[derive(Debug)]
pub struct EachGatherer {
    sight: Sight,
    sheets: Sheets,
}

#[derive(Debug, Default)]
struct Sheets {
    all: Vec<Sheet>,
    /// By [`PathId`]: place in `all`.
    places: Vec<Option<usize>>,
    /// Points that are kept one by one.
    kept: usize,
    grids: usize,
}

#[derive(Debug)]
struct Sheet {
    path: PathId,
    requests: u64,
    points: Vec<Point>,
    grid: Option<Grid>,
}

impl EachGatherer {
    /// Of a trace that nothing of has been read yet.
    pub fn new(query: Query) -> Self {
        Self {
            sight: Sight::new(query),
            sheets: Sheets::default(),
        }
    }

    /// Takes the next events. `names` are those of the whole trace.
    pub fn take(&mut self, names: &Names, events: &[Event]) {
        let query = self.sight.query.clone();
        let sheets = &mut self.sheets;
        self.sight.see(names, events, &mut |file, point| {
            sheets.add(&query, names, file, point);
        });
    }

    /// All that was gathered.
    pub fn finish(self, names: &Names) -> Pictures {
        let files = self.sheets.all.into_iter().map(|sheet| FilePicture {
            path: shown(names.path(sheet.path)),
            requests: sheet.requests,
            points: sheet.points,
            density: sheet.grid.map(|grid| grid.density()),
        });
        Pictures {
            format: PICTURES.to_owned(),
            chosen: self.sight.query.choice.told(),
            requests: self.sight.requests,
            unknown_offsets: self.sight.unknown_offsets,
            files: files.collect(),
        }
    }
}

impl Sheets {
    fn add(&mut self, query: &Query, names: &Names, file: FileId, point: Point) {
        let Some(entry) = names.files().get(file.index()) else {
            return;
        };
        let called = query.choice.called.as_ref();
        let name = called.and_then(|called| called.name(names, file));
        let sheet = self.of(name.unwrap_or(entry.path));
        sheet.requests += 1;
        if let Some(grid) = &mut sheet.grid {
            grid.add(&point);
            return;
        }
        sheet.points.push(point);
        self.kept += 1;
        if self.kept > query.limit {
            self.bin(query);
        }
    }

    fn of(&mut self, path: PathId) -> &mut Sheet {
        let index = path.index();
        if index >= self.places.len() {
            self.places.resize(index + 1, None);
        }
        let all = &mut self.all;
        let place = *self.places[index].get_or_insert_with(|| {
            all.push(Sheet {
                path,
                requests: 0,
                points: Vec::new(),
                grid: None,
            });
            all.len() - 1
        });
        &mut self.all[place]
    }

    /// Bins the files with most points. A quarter at once: otherwise each further point would look
    /// for the greatest anew.
    fn bin(&mut self, query: &Query) {
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        order.sort_by_key(|&place| std::cmp::Reverse(self.all[place].points.len()));
        for place in order {
            if self.kept <= query.limit / 4 * 3 {
                break;
            }
            let coarser = if self.grids < FINE { 1 } else { COARSER };
            let mut grid = Grid::new(&Query {
                columns: query.columns / coarser,
                rows: query.rows / coarser,
                ..query.clone()
            });
            let sheet = &mut self.all[place];
            let points = std::mem::take(&mut sheet.points);
            self.kept -= points.len();
            self.grids += 1;
            for point in &points {
                grid.add(point);
            }
            sheet.grid = Some(grid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Outcome, ThreadId};
    use crate::names::{FileEntry, Kind};
    use crate::syscalls;

    fn read(file: FileId, start_ns: i64, offset: i64) -> Event {
        let thread = ThreadId::new(0).unwrap();
        let call = syscalls::find(b"pread64").unwrap();
        Event {
            file: Some(file),
            offset: Some(offset),
            length: Some(10),
            duration_ns: Some(5),
            ..Event::new(thread, call, start_ns, Outcome::Returned(10))
        }
    }

    #[test]
    fn files_with_many_requests_are_binned_and_every_request_is_counted() {
        let mut names = Names::default();
        let mut ids = Vec::new();
        for name in ["/few", "/many", "/some"] {
            let path = names.add_path(name.as_bytes()).unwrap();
            let entry = FileEntry {
                path,
                kind: Kind::File,
            };
            ids.push(names.add_file(entry).unwrap());
        }
        let mut events = Vec::new();
        for at in 0..100 {
            events.push(read(ids[1], at * 10, at * 10));
            if at % 10 == 0 {
                events.push(read(ids[0], at * 10 + 1, 0));
            }
            if at % 4 == 0 {
                events.push(read(ids[2], at * 10 + 2, at));
            }
        }
        let mut gatherer = EachGatherer::new(Query {
            limit: 60,
            columns: 16,
            rows: 8,
            ..Query::default()
        });
        for event in &events {
            gatherer.take(&names, std::slice::from_ref(event));
        }
        let found = gatherer.finish(&names);
        assert_eq!(found.requests, 135);
        let by_name = |name: &str| found.files.iter().find(|file| file.path == name).unwrap();
        for (name, requests) in [("/few", 10), ("/some", 25)] {
            assert_eq!(by_name(name).points.len(), requests);
            assert_eq!(by_name(name).density, None);
        }
        let many = by_name("/many");
        assert!(many.points.is_empty());
        let density = many.density.as_ref().unwrap();
        assert_eq!(density.reads.iter().map(|cell| cell[2]).sum::<u64>(), 100);
        assert_eq!(density.reads.iter().map(|cell| cell[3]).sum::<u64>(), 1000);
        assert!(density.columns <= 16 && density.rows <= 8);
    }
}
