//! Builds events by hand: paths, open files and offsets are followed as by a recorder.

use std::collections::HashMap;
use std::sync::Arc;

use plimsoll_trace::event::{Event, FileId, OpenId, Outcome, PathId, ThreadId};
use plimsoll_trace::header::{Calibration, Footer, Header, Recorder};
use plimsoll_trace::names::{FileEntry, Kind, Names, ThreadEntry};
use plimsoll_trace::profile::json::FileProfile;
use plimsoll_trace::profile::{Choice, FileNames, Profile, Profiler};
use plimsoll_trace::syscalls;
use regex::Regex;

pub(crate) const MS: i64 = 1_000_000;

/// A trace that is being built.
pub(crate) struct Scene {
    pub(crate) header: Header,
    pub(crate) names: Names,
    pub(crate) events: Vec<Event>,
    paths: HashMap<Vec<u8>, PathId>,
    opens: usize,
    /// Start of the next call, ns.
    pub(crate) now: i64,
    /// Duration of each call, ns, if it is known.
    pub(crate) duration: Option<u64>,
}

impl Scene {
    /// A scene with the thread 100, which is a process.
    pub(crate) fn new() -> Self {
        let mut scene = Self {
            header: Header {
                recorder_version: "6.1".to_owned(),
                ..Header::new(Recorder::Strace, 1000)
            },
            names: Names::default(),
            events: Vec::new(),
            paths: HashMap::new(),
            opens: 0,
            now: 0,
            duration: Some(10_000),
        };
        scene.thread(100, 100, None);
        scene
    }

    pub(crate) fn calibrated(mut self, call_ns: f64, duration_ns: f64) -> Self {
        let around = |ns: f64| [ns, ns / 2.0, ns * 2.0];
        self.header.calibration = Some(Calibration {
            call_ns: around(call_ns),
            duration_ns: around(duration_ns),
            calls: 100,
        });
        self
    }

    pub(crate) fn thread(&mut self, tid: u32, pid: u32, parent: Option<usize>) -> ThreadId {
        let parent = parent.map(|index| ThreadId::new(index).unwrap());
        self.names.add_thread(ThreadEntry { tid, pid, parent }).unwrap()
    }

    pub(crate) fn path(&mut self, path: impl AsRef<[u8]>) -> PathId {
        let path = path.as_ref();
        if let Some(&id) = self.paths.get(path) {
            return id;
        }
        let id = self.names.add_path(path).unwrap();
        self.paths.insert(path.to_vec(), id);
        id
    }

    pub(crate) fn file(&mut self, path: &str, kind: Kind) -> FileId {
        let path = self.path(path);
        self.names.add_file(FileEntry { kind, path }).unwrap()
    }

    /// Adds a call of the thread with index `thread`, now. The next call begins when it has ended.
    pub(crate) fn call(&mut self, thread: usize, name: &str, outcome: Outcome) -> &mut Event {
        let thread = ThreadId::new(thread).unwrap();
        let mut event = Event::new(
            thread,
            syscalls::find(name.as_bytes()).unwrap(),
            self.now,
            outcome,
        );
        event.duration_ns = self.duration;
        self.now = event.end_ns();
        self.events.push(event);
        self.events.last_mut().unwrap()
    }

    pub(crate) fn open(&mut self, file: FileId) -> Handle {
        let open = OpenId::new(self.opens).unwrap();
        self.opens += 1;
        let path = self.names.files()[file.index()].path;
        let event = self.call(0, "openat", Outcome::Returned(3));
        (event.open, event.file, event.path) = (Some(open), Some(file), Some(path));
        Handle {
            open,
            file,
            thread: 0,
            offset: 0,
        }
    }

    pub(crate) fn of(&mut self, handle: &Handle, name: &str, outcome: Outcome) -> &mut Event {
        let event = self.call(handle.thread, name, outcome);
        (event.open, event.file) = (Some(handle.open), Some(handle.file));
        event
    }

    /// Adds a read or write at the offset, which transfers `returned` of `requested` bytes.
    pub(crate) fn data(&mut self, handle: &mut Handle, name: &str, requested: u64, returned: u64) {
        let offset = handle.offset;
        handle.offset += returned;
        self.data_at(handle, name, offset, requested, returned);
    }

    /// Adds a pread64 or pwrite64.
    pub(crate) fn data_at(
        &mut self,
        handle: &Handle,
        name: &str,
        offset: u64,
        requested: u64,
        returned: u64,
    ) {
        let event = self.of(handle, name, Outcome::Returned(returned as i64));
        (event.offset, event.length) = (Some(offset as i64), Some(requested));
    }

    pub(crate) fn seek(&mut self, handle: &mut Handle, to: u64) {
        handle.offset = to;
        let event = self.of(handle, "lseek", Outcome::Returned(to as i64));
        (event.offset, event.flags) = (Some(to as i64), Some(0));
    }

    pub(crate) fn close(&mut self, handle: &Handle) {
        self.of(handle, "close", Outcome::Returned(0)).length = Some(0);
    }

    pub(crate) fn fail(&mut self, name: &str, path: &str, errno: u16) {
        let path = self.path(path);
        self.call(0, name, Outcome::Failed(errno)).path = Some(path);
    }

    pub(crate) fn profile_of(&self, choice: Choice) -> Profile {
        let mut profiler = Profiler::new(&self.header, choice);
        for block in self.events.chunks(7) {
            profiler.take(&self.names, block);
        }
        profiler.finish(&self.names, Some(&Footer::default()))
    }

    /// The profile as of `trace show --file`, which knows all paths of files beforehand.
    pub(crate) fn of_files(&self, regex: &str) -> Profile {
        let mut file_names = FileNames::default();
        file_names.take(&self.names, &self.events);
        self.profile_of(Choice {
            file: Some(Regex::new(regex).unwrap()),
            file_names: Some(Arc::new(file_names)),
            ..Choice::default()
        })
    }

    pub(crate) fn profile(&self) -> Profile {
        self.profile_of(Choice::default())
    }
}

/// An open file.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    pub(crate) open: OpenId,
    pub(crate) file: FileId,
    /// Index of the thread that uses it.
    pub(crate) thread: usize,
    pub(crate) offset: u64,
}

pub(crate) fn file<'a>(profile: &'a Profile, path: &str) -> &'a FileProfile {
    let file = profile.files.iter().find(|file| file.path == path);
    file.unwrap_or_else(|| {
        panic!(
            "no {path} in {:?}",
            profile.files.iter().map(|file| &file.path).collect::<Vec<_>>()
        )
    })
}

pub(crate) fn assert_close(found: f64, expected: f64) {
    assert!(
        (found - expected).abs() <= 1e-9 * expected.abs().max(1.0),
        "expected {expected}, got {found}"
    );
}
