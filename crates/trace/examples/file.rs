//! Measures the size of events in a trace file, and the speed of writing and reading: `cargo run
//! --release --example file [MILLIONS]`
//!
//! The events are synthetic but typical: eight threads that look up files, open them, read them in
//! order, and close them. Times are in microseconds and scatter like real ones.
#![allow(clippy::print_stdout, reason = "a command-line program")]

use std::error::Error;
use std::time::{Duration, Instant};

use plimsoll_trace::event::{Event, FileId, OpenId, Outcome, PathId, ThreadId};
use plimsoll_trace::file::{Reader, Writer};
use plimsoll_trace::header::{Footer, Header, Recorder};
use plimsoll_trace::names::{FileEntry, Kind, Names, ThreadEntry};
use plimsoll_trace::syscalls::{self, Syscall};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};

const THREADS: usize = 8;
const FILES: usize = 20_000;

/// A thread and the file that it reads.
struct Worker {
    id: ThreadId,
    clock_us: i64,
    file: usize,
    open: Option<OpenId>,
    size: u64,
    offset: u64,
    chunk: u64,
}

struct Maker {
    names: Names,
    workers: Vec<Worker>,
    random: Pcg64,
    opens: usize,
}

fn call(name: &str) -> Result<&'static Syscall, String> {
    syscalls::find(name.as_bytes()).ok_or_else(|| format!("the table of calls does not contain {name}"))
}

impl Maker {
    fn new() -> Option<Self> {
        let mut names = Names::default();
        for number in 0..FILES {
            let path =
                names.add_path(format!("/data/run{:03}/events-{number:06}.root", number / 100).as_bytes())?;
            names.add_file(FileEntry {
                kind: Kind::File,
                path,
            })?;
        }
        let mut workers = Vec::new();
        for number in 0..THREADS {
            let tid = 4000 + number as u32;
            let id = names.add_thread(ThreadEntry {
                tid,
                pid: 4000,
                parent: None,
            })?;
            workers.push(Worker {
                id,
                clock_us: number as i64 * 7,
                file: 0,
                open: None,
                size: 0,
                offset: 0,
                chunk: 0,
            });
        }
        Some(Self {
            names,
            workers,
            random: Pcg64::seed_from_u64(5),
            opens: 0,
        })
    }

    /// An exponentially distributed number with this mean.
    fn about(&mut self, mean: f64) -> i64 {
        let uniform = (f64::from(self.random.next_u32()) + 1.0) / 4_294_967_297.0;
        (-uniform.ln() * mean) as i64
    }

    /// The next call of the thread with the earliest clock, as strace would write it.
    fn event(&mut self) -> Option<Event> {
        let turn = (0..THREADS).min_by_key(|&turn| self.workers[turn].clock_us)?;
        let (gap, duration) = (self.about(15.0), 30 + self.about(8.0));
        let chance = self.random.next_u32() % 100;
        let fresh = self.random.next_u32() as usize % FILES;
        let length = u64::from(self.random.next_u32()) % 3_000_000;
        let worker = &mut self.workers[turn];
        let start_ns = (worker.clock_us + gap) * 1000;
        worker.clock_us += gap + duration;
        let mut event = Event::new(worker.id, call("read").ok()?, start_ns, Outcome::Returned(0));
        event.duration_ns = Some(duration as u64 * 1000);
        match worker.open {
            None if chance < 50 => {
                event.call = call("newfstatat").ok()?;
                event.path = PathId::new(fresh);
                event.flags = Some(0);
                if chance < 20 {
                    event.outcome = Outcome::Failed(2);
                } else {
                    event.file = FileId::new(fresh);
                    event.length = Some(fresh as u64 * 997);
                    event.mode = Some(0o100_644);
                    worker.file = fresh;
                }
            }
            None => {
                event.call = call("openat").ok()?;
                event.path = PathId::new(worker.file);
                event.file = FileId::new(worker.file);
                event.flags = Some(0o2_000_000);
                event.outcome = Outcome::Returned(3 + turn as i64);
                worker.open = OpenId::new(self.opens);
                event.open = worker.open;
                self.opens += 1;
                (worker.size, worker.offset) = (length, 0);
                worker.chunk = [4096, 32_768, 131_072][fresh % 3];
            }
            Some(_) => {
                (event.open, event.file) = (worker.open, FileId::new(worker.file));
                let left = worker.size - worker.offset;
                if left == 0 && chance < 60 {
                    event.call = call("close").ok()?;
                    worker.open = None;
                } else if chance < 5 {
                    event.call = call("lseek").ok()?;
                    worker.offset = length % (worker.size + 1);
                    (event.offset, event.flags) = (Some(worker.offset as i64), Some(0));
                    event.outcome = Outcome::Returned(worker.offset as i64);
                } else {
                    let read = worker.chunk.min(left);
                    (event.offset, event.length) = (Some(worker.offset as i64), Some(worker.chunk));
                    event.outcome = Outcome::Returned(read as i64);
                    worker.offset += read;
                }
            }
        }
        Some(event)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let millions: usize = std::env::args().nth(1).map_or(Ok(4), |word| word.parse())?;
    let mut maker = Maker::new().ok_or("the tables are full")?;
    let mut writer = Writer::new(Vec::new(), &Header::new(Recorder::Strace, 1000))?;
    let mut writing = Duration::ZERO;
    let mut sum = 0_i64;
    for _ in 0..millions * 1000 {
        let events: Vec<Event> = std::iter::from_fn(|| maker.event()).take(1000).collect();
        let since = Instant::now();
        for event in &events {
            writer.write(&mut maker.names, event)?;
        }
        writing += since.elapsed();
        sum = events
            .iter()
            .fold(sum, |sum, event| sum.wrapping_add(event.end_ns()));
    }
    let since = Instant::now();
    let file = writer.finish(&mut maker.names, &Footer::default())?;
    writing += since.elapsed();
    let calls = millions as f64 * 1e6;
    println!(
        "{millions} million calls in {} bytes: {:.2} bytes per call",
        file.len(),
        file.len() as f64 / calls
    );
    println!(
        "written: {:.1} million calls per second",
        calls / writing.as_secs_f64() / 1e6
    );
    for _ in 0..3 {
        let since = Instant::now();
        let mut reader = Reader::new(file.as_slice())?;
        let mut read_sum = 0_i64;
        while let Some(events) = reader.next()? {
            read_sum = events
                .iter()
                .fold(read_sum, |sum, event| sum.wrapping_add(event.end_ns()));
        }
        if read_sum != sum {
            return Err("the events that were read differ from those that were written".into());
        }
        println!(
            "read: {:.1} million calls per second",
            calls / since.elapsed().as_secs_f64() / 1e6
        );
    }
    Ok(())
}
