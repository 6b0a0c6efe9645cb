//! Random traces from seeds.

use plimsoll_trace::event::{Event, FileId, OpenId, Outcome, PathId, ThreadId};
use plimsoll_trace::file::Writer;
use plimsoll_trace::header::{Calibration, Footer, Header, Recorder};
use plimsoll_trace::names::{FileEntry, Kind, Names, ThreadEntry};
use plimsoll_trace::syscalls::{self, Syscall};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};

pub struct Trace {
    pub events: Vec<Event>,
    /// The final tables, which contain all ids of the events.
    pub names: Names,
    seed: u64,
}

pub fn header() -> Header {
    Header {
        format: "to be set by the writer".to_owned(),
        recorder: Recorder::Strace,
        recorder_version: "strace -- version 6.8".to_owned(),
        options: vec!["-f".to_owned(), "-ttt".to_owned()],
        command: vec!["cat".to_owned(), "a \"name\"".to_owned()],
        attached: false,
        host: vec!["host".to_owned()],
        zero_unix_ns: Some(1_790_000_000_123_456_000),
        resolution_ns: 1000,
        has_durations: true,
        calibration: Some(Calibration {
            call_ns: [35_000.5, 30_000.0, 41_000.25],
            duration_ns: [12_000.0, 11_000.0, 13_000.0],
            calls: 20_000,
        }),
    }
}

impl Trace {
    /// Events with all fields, known and unknown, and with values at the limits of their ranges.
    pub fn new(seed: u64, events: usize) -> Self {
        let mut random = Random(Pcg64::seed_from_u64(seed));
        let mut calls: Vec<&'static Syscall> = syscalls::all().collect();
        calls.sort_by_key(|call| call.name);
        calls.truncate(1 + random.below(calls.len()));
        let names = random.names();
        let micros = random.below(3) > 0;
        let events = (0..events)
            .map(|_| random.event(&names, &calls, micros))
            .collect();
        Self { events, names, seed }
    }

    /// Threads that open, read and close files, one event after the other.
    pub fn ordinary(events: usize) -> Self {
        let mut random = Random(Pcg64::seed_from_u64(1));
        let mut names = Names::default();
        let threads = [0_u32; 8].map(|_| {
            names
                .add_thread(ThreadEntry {
                    tid: 7,
                    pid: 7,
                    parent: None,
                })
                .unwrap()
        });
        let calls = ["openat", "read", "close"].map(|name| syscalls::find(name.as_bytes()).unwrap());
        let mut all = Vec::new();
        let (mut clock, mut opens) = ([0_i64; 8], 0);
        let mut state: [Option<(OpenId, FileId, i64)>; 8] = [None; 8];
        while all.len() < events {
            let turn = random.below(8);
            let begin = clock[turn] + random.scatter(15);
            let duration = 30 + random.scatter(8);
            clock[turn] = begin + duration;
            let mut event = Event::new(threads[turn], calls[1], begin * 1000, Outcome::Returned(65_536));
            event.duration_ns = Some(duration as u64 * 1000);
            match state[turn] {
                None => {
                    let path = names.add_path(format!("/data/file-{opens}").as_bytes()).unwrap();
                    let file = names
                        .add_file(FileEntry {
                            kind: Kind::File,
                            path,
                        })
                        .unwrap();
                    let open = OpenId::new(opens).unwrap();
                    opens += 1;
                    (event.call, event.outcome) = (calls[0], Outcome::Returned(3));
                    (event.path, event.file, event.open) = (Some(path), Some(file), Some(open));
                    event.flags = Some(0);
                    state[turn] = Some((open, file, 0));
                }
                Some((open, file, offset)) => {
                    (event.open, event.file) = (Some(open), Some(file));
                    state[turn] = Some((open, file, offset + 65_536));
                    if offset > 3_000_000 {
                        (event.call, event.outcome) = (calls[2], Outcome::Returned(0));
                        state[turn] = None;
                    } else {
                        (event.offset, event.length) = (Some(offset), Some(65_536));
                    }
                }
            }
            all.push(event);
        }
        Self {
            events: all,
            names,
            seed: 1,
        }
    }

    /// An event that refers to a file which is not in the tables.
    pub fn event_of_another_trace(&self) -> Event {
        let mut event = Event::new(
            ThreadId::new(0).unwrap(),
            self.events[0].call,
            0,
            Outcome::Unknown,
        );
        event.file = FileId::new(self.names.files().len());
        event
    }

    /// The trace file, with a block at least every `flush` events, and its tables. Entries are
    /// changed between events.
    pub fn written(&self, flush: usize, footer: &Footer) -> (Vec<u8>, Names) {
        let mut random = Random(Pcg64::seed_from_u64(!self.seed));
        let mut names = self.names.clone();
        let mut writer = Writer::new(Vec::new(), &header()).unwrap();
        for (number, event) in self.events.iter().enumerate() {
            writer.write(&mut names, event).unwrap();
            if random.below(50) == 0 {
                random.change(&mut names);
            }
            if number % flush == flush - 1 {
                writer.flush(&mut names).unwrap();
            }
        }
        random.change(&mut names);
        (writer.finish(&mut names, footer).unwrap(), names)
    }
}

/// Two threads copy a file. Each field of an event is set at least once.
pub fn small() -> (Vec<Event>, Names) {
    let mut names = Names::default();
    let paths = ["/in", "/out", "/out.new"].map(|path| names.add_path(path.as_bytes()).unwrap());
    let files = [0, 1].map(|at| {
        names
            .add_file(FileEntry {
                kind: Kind::File,
                path: paths[at],
            })
            .unwrap()
    });
    let first = names
        .add_thread(ThreadEntry {
            tid: 70,
            pid: 70,
            parent: None,
        })
        .unwrap();
    let second = names
        .add_thread(ThreadEntry {
            tid: 71,
            pid: 70,
            parent: Some(first),
        })
        .unwrap();
    let opens = [0, 1].map(|open| OpenId::new(open).unwrap());
    let call = |name: &str| syscalls::find(name.as_bytes()).unwrap();
    let mut events = Vec::new();
    let mut add = |thread, name, event: &dyn Fn(&mut Event)| {
        let start_ns = 1000 * (events.len() as i64 * 50 - 1);
        let mut added = Event::new(thread, call(name), start_ns, Outcome::Returned(0));
        added.duration_ns = Some(12_000);
        event(&mut added);
        events.push(added);
    };
    for at in [0, 1] {
        add(first, "openat", &|event| {
            (event.open, event.file, event.path) = (Some(opens[at]), Some(files[at]), Some(paths[at]));
            (event.flags, event.mode, event.outcome) =
                (Some(0o1101), Some(0o644), Outcome::Returned(3 + at as i64));
        });
    }
    add(first, "clone3", &|event| {
        (event.other, event.outcome) = (Some(second), Outcome::Returned(71));
    });
    for turn in 0..2000 {
        let part = (turn / 2 * 4096, if turn < 1998 { 4096 } else { 17 });
        let at = (turn % 2) as usize;
        add([first, second][at], ["read", "write"][at], &|event| {
            (event.open, event.file) = (Some(opens[at]), Some(files[at]));
            (event.offset, event.length, event.outcome) =
                (Some(part.0), Some(4096), Outcome::Returned(part.1));
        });
    }
    add(second, "lseek", &|event| {
        (event.open, event.file, event.offset, event.flags) =
            (Some(opens[0]), Some(files[0]), Some(-5), Some(1));
        (event.outcome, event.cpu_ns) = (Outcome::Failed(22), Some(1_234_567));
    });
    add(first, "copy_file_range", &|event| {
        (event.open, event.file, event.offset) = (Some(opens[0]), Some(files[0]), Some(0));
        (event.open2, event.file2, event.offset2) = (Some(opens[1]), Some(files[1]), Some(1 << 40));
        (event.length, event.outcome) = (Some(1 << 20), Outcome::Restarted);
    });
    add(second, "rename", &|event| {
        (event.path, event.path2, event.file, event.file2) =
            (Some(paths[1]), Some(paths[2]), Some(files[1]), Some(files[1]));
    });
    add(first, "exit_group", &|event| {
        (event.duration_ns, event.outcome) = (None, Outcome::Unknown);
    });
    (events, names)
}

struct Random(Pcg64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound.max(1) as u64) as usize
    }

    /// An exponentially distributed number with this mean.
    fn scatter(&mut self, mean: i64) -> i64 {
        let uniform = (f64::from(self.0.next_u32()) + 1.0) / 4_294_967_297.0;
        (-uniform.ln() * mean as f64) as i64
    }

    fn number(&mut self) -> u64 {
        match self.below(8) {
            0 => 0,
            1 => u64::MAX,
            2 => i64::MAX as u64,
            3 => i64::MIN as u64,
            4 => self.0.next_u64(),
            5 => 4096,
            _ => self.0.next_u64() % 300,
        }
    }

    /// Calls `make` in half of all cases.
    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        (self.below(2) == 0).then(|| make(self)).flatten()
    }

    fn names(&mut self) -> Names {
        let mut names = Names::default();
        for number in 0..=self.below(40) {
            let length = self.below(60);
            let mut path: Vec<u8> = (0..length).map(|_| self.0.next_u32() as u8).collect();
            path.extend_from_slice(number.to_string().as_bytes());
            names.add_path(&path).unwrap();
        }
        for _ in 0..=self.below(40) {
            let file = self.file(&names);
            names.add_file(file).unwrap();
        }
        let threads = 1 + self.below(40);
        for _ in 0..threads {
            // Also a parent that comes later, or is its own.
            let thread = self.thread(threads);
            names.add_thread(thread).unwrap();
        }
        names
    }

    fn file(&mut self, names: &Names) -> FileEntry {
        FileEntry {
            kind: Kind::ALL[self.below(8)],
            path: PathId::new(self.below(names.paths().len())).unwrap(),
        }
    }

    fn thread(&mut self, threads: usize) -> ThreadEntry {
        ThreadEntry {
            tid: self.number() as u32,
            pid: self.number() as u32,
            parent: self.maybe(|random| ThreadId::new(random.below(threads))),
        }
    }

    /// Adds entries, and changes such as are there.
    fn change(&mut self, names: &mut Names) {
        names
            .add_path(format!("later {}", names.paths().len()).as_bytes())
            .unwrap();
        let file = self.file(names);
        names.set_file(FileId::new(self.below(names.files().len())).unwrap(), file);
        names.add_file(file).unwrap();
        let thread = self.thread(names.threads().len() + 1);
        names.add_thread(thread).unwrap();
        let thread = self.thread(names.threads().len());
        names.set_thread(ThreadId::new(self.below(names.threads().len())).unwrap(), thread);
    }

    fn event(&mut self, names: &Names, calls: &[&'static Syscall], micros: bool) -> Event {
        let (paths, files, threads) = (names.paths().len(), names.files().len(), names.threads().len());
        let outcome = match self.below(6) {
            0 => Outcome::Failed(self.number() as u16),
            1 => Outcome::Restarted,
            2 => Outcome::Unknown,
            _ => Outcome::Returned(self.number() as i64),
        };
        let start = if micros {
            (i64::from(self.0.next_u32()) - 99_999) * 1000
        } else {
            self.number() as i64
        };
        let thread = ThreadId::new(self.below(threads)).unwrap();
        let mut event = Event::new(thread, calls[self.below(calls.len())], start, outcome);
        event.duration_ns = self.maybe(|random| {
            Some(if micros {
                random.number() % 1_000_000 * 1000
            } else {
                random.number()
            })
        });
        event.cpu_ns = self.maybe(|random| Some(random.number()));
        let open = |random: &mut Self| {
            OpenId::new(if random.below(9) == 0 {
                random.number() as u32 as usize
            } else {
                random.below(20)
            })
        };
        event.open = self.maybe(open);
        event.open2 = self.maybe(open);
        event.file = self.maybe(|random| FileId::new(random.below(files)));
        event.file2 = self.maybe(|random| FileId::new(random.below(files)));
        event.path = self.maybe(|random| PathId::new(random.below(paths)));
        event.path2 = self.maybe(|random| PathId::new(random.below(paths)));
        event.offset = self.maybe(|random| Some(random.number() as i64));
        event.offset2 = self.maybe(|random| Some(random.number() as i64));
        event.length = self.maybe(|random| Some(random.number()));
        event.flags = self.maybe(|random| Some(random.number()));
        event.mode = self.maybe(|random| Some(random.number() as u32));
        event.other = self.maybe(|random| ThreadId::new(random.below(threads)));
        event
    }
}
