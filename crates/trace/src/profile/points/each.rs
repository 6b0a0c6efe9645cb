//! Charts of all files in one pass: single requests of a file with few, bins of a file with many.

use serde::{Deserialize, Serialize};

use super::{Density, Grid, Point, Query, RequestFilter};
use crate::event::{Event, FileId, PathId};
use crate::names::Names;
use crate::profile::json::Selection;
use crate::profile::shown::shown;

/// Version of the charts.
pub const PICTURES: &str = "plimsoll.pictures/1";
/// Maximum number of files that are binned as finely as the query states; the others are binned
/// more coarsely. A bin in use takes about 60 bytes.
const MAX_FINE_GRIDS: usize = 12;
/// The factor of the coarser bins, in each direction.
const COARSE_FACTOR: u32 = 8;

/// The charts of all selected files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pictures {
    /// [`PICTURES`].
    pub format: String,
    /// The selected files and times.
    pub chosen: Selection,
    /// Number of successful reads and writes in the charts.
    pub requests: u64,
    /// Number of requests with an unknown offset, which are in no chart.
    pub unknown_offsets: u64,
    /// The charts, in the order of the first requests.
    pub files: Vec<FilePicture>,
}

/// The chart of a file: `points` or `density`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FilePicture {
    /// The path, as in the profile: files that had it one after another are one chart.
    pub path: String,
    /// Number of requests.
    pub requests: u64,
    /// All requests, in the order of the trace; empty if there is a density. Their `file` is 0.
    pub points: Vec<Point>,
    /// All requests in bins, if there are too many.
    pub density: Option<Density>,
}

/// Collects the charts. The limit of the query applies to the points of all files together. When it
/// is reached, the files with most points are binned until a quarter of the limit is free.
#[derive(Debug)]
pub struct EachGatherer {
    filter: RequestFilter,
    files: FilePointSets,
}

#[derive(Debug, Default)]
struct FilePointSets {
    all: Vec<FilePoints>,
    /// Index in `all`, by [`PathId`].
    indices: Vec<Option<usize>>,
    /// Number of points that are stored.
    kept: usize,
    grids: usize,
}

#[derive(Debug)]
struct FilePoints {
    path: PathId,
    requests: u64,
    points: Vec<Point>,
    grid: Option<Grid>,
}

impl EachGatherer {
    /// A gatherer before the first event of a trace.
    pub fn new(query: Query) -> Self {
        Self {
            filter: RequestFilter::new(query),
            files: FilePointSets::default(),
        }
    }

    /// Reads the next events. `names` are those of the whole trace.
    pub fn take(&mut self, names: &Names, events: &[Event]) {
        let query = self.filter.query.clone();
        let files = &mut self.files;
        self.filter.for_each(names, events, &mut |file, point| {
            files.add(&query, names, file, point);
        });
    }

    /// The charts of all events.
    pub fn finish(self, names: &Names) -> Pictures {
        let files = self.files.all.into_iter().map(|points| FilePicture {
            path: shown(names.path(points.path)),
            requests: points.requests,
            points: points.points,
            density: points.grid.map(|grid| grid.density()),
        });
        Pictures {
            format: PICTURES.to_owned(),
            chosen: self.filter.query.choice.to_json(),
            requests: self.filter.requests,
            unknown_offsets: self.filter.unknown_offsets,
            files: files.collect(),
        }
    }
}

impl FilePointSets {
    fn add(&mut self, query: &Query, names: &Names, file: FileId, point: Point) {
        let Some(entry) = names.files().get(file.index()) else {
            return;
        };
        let file_names = query.choice.file_names.as_ref();
        let name = file_names.and_then(|file_names| file_names.name(names, file));
        let points = self.of(name.unwrap_or(entry.path));
        points.requests += 1;
        if let Some(grid) = &mut points.grid {
            grid.add(&point);
            return;
        }
        points.points.push(point);
        self.kept += 1;
        if self.kept > query.limit {
            self.bin(query);
        }
    }

    fn of(&mut self, path: PathId) -> &mut FilePoints {
        let index = path.index();
        if index >= self.indices.len() {
            self.indices.resize(index + 1, None);
        }
        let all = &mut self.all;
        let position = *self.indices[index].get_or_insert_with(|| {
            all.push(FilePoints {
                path,
                requests: 0,
                points: Vec::new(),
                grid: None,
            });
            all.len() - 1
        });
        &mut self.all[position]
    }

    /// Bins the files with most points. It frees a quarter at once; otherwise each further point
    /// would require another search for the greatest file.
    fn bin(&mut self, query: &Query) {
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        order.sort_by_key(|&position| std::cmp::Reverse(self.all[position].points.len()));
        for position in order {
            if self.kept <= query.limit / 4 * 3 {
                break;
            }
            let coarser = if self.grids < MAX_FINE_GRIDS {
                1
            } else {
                COARSE_FACTOR
            };
            let mut grid = Grid::new(&Query {
                columns: query.columns / coarser,
                rows: query.rows / coarser,
                ..query.clone()
            });
            let file = &mut self.all[position];
            let points = std::mem::take(&mut file.points);
            self.kept -= points.len();
            self.grids += 1;
            for point in &points {
                grid.add(point);
            }
            file.grid = Some(grid);
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
    fn a_file_with_many_requests_is_binned_and_every_request_is_counted() {
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
        let pictures = gatherer.finish(&names);
        assert_eq!(pictures.requests, 135);
        let by_name = |name: &str| pictures.files.iter().find(|file| file.path == name).unwrap();
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
