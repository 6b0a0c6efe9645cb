//! Random programs: their calls are written as strace would write them, and read back.

use std::collections::BTreeMap;
use std::fmt::Write;

use plimsoll_trace::event::Outcome;
use plimsoll_trace::follow::{Follower, Observation, Trouble};
use plimsoll_trace::kernel::Kernel;
use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng;

/// A call, and the values that must be read for it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    thread: u32,
    name: &'static str,
    start_us: i64,
    duration_us: i64,
    outcome: Outcome,
    /// The path of its file.
    file: Option<Vec<u8>>,
    offset: Option<i64>,
    length: Option<u64>,
}

/// An open file of the program.
#[derive(Debug, Clone, Copy)]
struct OpenFile {
    file: usize,
    offset: i64,
    appends: bool,
}

/// Generates calls and computes their effects.
struct Program {
    dice: Pcg32,
    names: Vec<Vec<u8>>,
    sizes: Vec<i64>,
    /// Index of the open file, by descriptor. All threads share the table.
    descriptors: BTreeMap<i32, usize>,
    opens: Vec<OpenFile>,
    now_us: i64,
}

const THREADS: [u32; 3] = [100, 101, 102];
/// Parts of paths that have misled parsers.
const ODD: [&[u8]; 12] = [
    b"plain",
    b"a, b",
    b"x) = 3 <0.1>",
    b"<unfinished ...>",
    b"<... read resumed>",
    b"\"",
    b"\\",
    b"\n",
    b"\t",
    b"\xc5\xbe",
    b"\xff",
    b"7",
];

impl Program {
    fn new(seed: u64) -> Self {
        let mut dice = Pcg32::new(seed, 1);
        let names: Vec<Vec<u8>> = (0..8)
            .map(|number| {
                let mut name = format!("/w/{number}").into_bytes();
                for _ in 0..dice.next_u32() % 4 {
                    name.extend_from_slice(ODD[dice.next_u32() as usize % ODD.len()]);
                }
                name
            })
            .collect();
        let sizes = vec![0; names.len()];
        Self {
            dice,
            names,
            sizes,
            descriptors: BTreeMap::new(),
            opens: Vec::new(),
            now_us: 0,
        }
    }

    fn below(&mut self, most: u32) -> u32 {
        self.dice.next_u32() % most
    }

    /// The next call, and its text between the name and the result.
    fn call(&mut self) -> (Call, String) {
        self.now_us += 1 + i64::from(self.below(500));
        let thread = THREADS[self.below(3) as usize];
        let mut call = Call {
            thread,
            name: "",
            start_us: self.now_us,
            duration_us: i64::from(self.below(300)),
            outcome: Outcome::Returned(0),
            file: None,
            offset: None,
            length: None,
        };
        self.now_us += call.duration_us;
        let text = match self.below(10) {
            0..=2 => self.open(&mut call),
            3 => self.dup(&mut call),
            4 => self.close(&mut call),
            5 => self.seek(&mut call),
            6 => self.pread(&mut call),
            7 => self.write(&mut call),
            8 => Self::fail(&mut call),
            _ => self.read(&mut call),
        };
        (call, text)
    }

    fn free(&self) -> i32 {
        (3..1_000)
            .find(|number| !self.descriptors.contains_key(number))
            .unwrap_or(3)
    }

    fn open(&mut self, call: &mut Call) -> String {
        // Each file is truncated when it is first opened, because a log does not contain its
        // previous size.
        let opened = self.opens.len();
        let is_first = opened < self.names.len();
        let file = if is_first { opened } else { self.below(8) as usize };
        let appends = self.below(4) == 0;
        let flags = if is_first || self.below(3) == 0 {
            self.sizes[file] = 0;
            "O_RDWR|O_CREAT|O_TRUNC"
        } else {
            "O_RDWR|O_CREAT"
        };
        let number = self.free();
        self.descriptors.insert(number, self.opens.len());
        self.opens.push(OpenFile {
            file,
            offset: 0,
            appends,
        });
        call.name = "openat";
        call.outcome = Outcome::Returned(number.into());
        call.file = Some(self.names[file].clone());
        let appends = if appends { "|O_APPEND" } else { "" };
        format!("AT_FDCWD, {}, {flags}{appends}, 0644", quoted(&self.names[file]))
    }

    /// A random descriptor and its open file. None if no file is open.
    fn random_descriptor(&mut self) -> Option<(i32, usize)> {
        let at = self.below(self.descriptors.len().max(1) as u32) as usize;
        self.descriptors
            .iter()
            .nth(at)
            .map(|(&number, &open)| (number, open))
    }

    fn on(&mut self, call: &mut Call, name: &'static str) -> Option<(i32, usize)> {
        let (number, open) = self.random_descriptor()?;
        call.name = name;
        call.file = Some(self.names[self.opens[open].file].clone());
        Some((number, open))
    }

    fn dup(&mut self, call: &mut Call) -> String {
        let Some((from, open)) = self.on(call, "dup") else {
            return self.open(call);
        };
        let number = self.free();
        self.descriptors.insert(number, open);
        call.outcome = Outcome::Returned(number.into());
        from.to_string()
    }

    fn close(&mut self, call: &mut Call) -> String {
        let Some((number, open)) = self.on(call, "close") else {
            return self.open(call);
        };
        self.descriptors.remove(&number);
        let left = self.descriptors.values().filter(|&&other| other == open).count();
        call.length = Some(left as u64);
        number.to_string()
    }

    fn seek(&mut self, call: &mut Call) -> String {
        let Some((number, open)) = self.on(call, "lseek") else {
            return self.open(call);
        };
        let to = i64::from(self.below(5_000));
        self.opens[open].offset = to;
        call.offset = Some(to);
        call.outcome = Outcome::Returned(to);
        format!("{number}, {to}, SEEK_SET")
    }

    fn transferred(&mut self, file: usize, from: i64, requested: u32) -> i64 {
        (self.sizes[file] - from).clamp(0, requested.into())
    }

    fn read(&mut self, call: &mut Call) -> String {
        let Some((number, open)) = self.on(call, "read") else {
            return self.open(call);
        };
        let OpenFile { file, offset, .. } = self.opens[open];
        let requested = 1 + self.below(4_000);
        let count = self.transferred(file, offset, requested);
        self.opens[open].offset += count;
        (call.offset, call.length) = (Some(offset), Some(requested.into()));
        call.outcome = Outcome::Returned(count);
        format!("{number}, \"\"..., {requested}")
    }

    fn pread(&mut self, call: &mut Call) -> String {
        let Some((number, open)) = self.on(call, "pread64") else {
            return self.open(call);
        };
        let (requested, from) = (1 + self.below(4_000), i64::from(self.below(9_000)));
        let count = self.transferred(self.opens[open].file, from, requested);
        (call.offset, call.length) = (Some(from), Some(requested.into()));
        call.outcome = Outcome::Returned(count);
        format!("{number}, \"ab\\\"c\"..., {requested}, {from}")
    }

    fn write(&mut self, call: &mut Call) -> String {
        let Some((number, open)) = self.on(call, "writev") else {
            return self.open(call);
        };
        let OpenFile {
            file,
            offset,
            appends,
        } = self.opens[open];
        let count = i64::from(1 + self.below(2_000));
        let from = if appends { self.sizes[file] } else { offset };
        self.opens[open].offset = from + count;
        self.sizes[file] = self.sizes[file].max(from + count);
        (call.offset, call.length) = (Some(from), Some(count as u64));
        call.outcome = Outcome::Returned(count);
        let (first, second) = (count / 3, count - count / 3);
        format!(
            "{number}, [{{iov_base=\"\"..., iov_len={first}}}, {{iov_base=\"], \"..., iov_len={second}}}], 2"
        )
    }

    fn fail(call: &mut Call) -> String {
        call.name = "access";
        call.outcome = Outcome::Failed(2);
        format!("{}, R_OK", quoted(b"/none/of, \"these\""))
    }
}

/// A path as strace writes it.
fn quoted(name: &[u8]) -> String {
    let mut text = String::from("\"");
    for (index, &byte) in name.iter().enumerate() {
        let next_is_digit = name.get(index + 1).is_some_and(u8::is_ascii_digit);
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\t' => text.push_str("\\t"),
            32..=126 => text.push(byte.into()),
            _ if next_is_digit => write!(text, "\\{byte:03o}").expect("writing to a String does not fail"),
            _ => write!(text, "\\{byte:o}").expect("writing to a String does not fail"),
        }
    }
    text.push('"');
    text
}

fn stamp(us: i64) -> String {
    format!("17000000{:02}.{:06}", us / 1_000_000, us % 1_000_000)
}

fn result(call: &Call) -> String {
    let duration = format!("<0.{:06}>", call.duration_us);
    match call.outcome {
        Outcome::Returned(value) => format!(") = {value} {duration}"),
        _ => format!(") = -1 ENOENT (No such file or directory) {duration}"),
    }
}

/// The log. A call may be written on two lines, with a signal line of another thread in between.
fn printed(program: &mut Program, calls: usize) -> (Vec<Call>, String) {
    let mut log = String::new();
    let (first, shares) = (THREADS[0], "CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD");
    for thread in &THREADS[1..] {
        writeln!(
            log,
            "{first} {} clone3({{flags={shares}}} => {{parent_tid=[{thread}]}}, 88) = {thread} <0.000001>",
            stamp(0)
        )
        .expect("writing to a String does not fail");
    }
    let mut all = Vec::new();
    for _ in 0..calls {
        let (call, text) = program.call();
        let start = format!("{} {} {}({text}", call.thread, stamp(call.start_us), call.name);
        if program.below(4) == 0 {
            let other = THREADS
                .iter()
                .find(|&&thread| thread != call.thread)
                .unwrap_or(&first);
            writeln!(log, "{start} <unfinished ...>").expect("writing to a String does not fail");
            writeln!(
                log,
                "{other} {} --- SIGCHLD {{si_signo=SIGCHLD}} ---",
                stamp(call.start_us)
            )
            .expect("writing to a String does not fail");
            let (thread, name) = (call.thread, call.name);
            let end = stamp(call.start_us + call.duration_us);
            writeln!(log, "{thread} {end} <... {name} resumed>{}", result(&call))
                .expect("writing to a String does not fail");
        } else {
            writeln!(log, "{start}{}", result(&call)).expect("writing to a String does not fail");
        }
        all.push(call);
    }
    (all, log)
}

fn read_back(log: &str) -> (Vec<Call>, Trouble, u64) {
    let mut follower = Follower::new();
    let mut found = Vec::new();
    let mut hear = |kernel: &mut Kernel, seen: &Observation<'_>| {
        let event = &seen.event;
        if event.call.name.starts_with('+') || event.call.name == "clone3" {
            return;
        }
        let names = kernel.names();
        let thread = names.threads()[event.thread.index()].tid;
        let file = event
            .file
            .map(|file| names.path(names.files()[file.index()].path).to_vec());
        found.push(Call {
            thread,
            name: event.call.name,
            start_us: event.start_ns / 1000,
            duration_us: event.duration_ns.map_or(-1, |ns| ns as i64 / 1000),
            outcome: event.outcome,
            file,
            offset: event.offset,
            length: event.length,
        });
    };
    for line in log.lines() {
        follower.line(line.as_bytes(), 1, &mut hear);
    }
    follower.end(&mut hear);
    (found, follower.trouble().clone(), follower.endless())
}

#[test]
fn calls_of_random_programs_are_read_back() {
    for seed in 0..200 {
        let (made, log) = printed(&mut Program::new(seed), 150);
        let (found, trouble, endless) = read_back(&log);
        assert_eq!((trouble, endless), (Trouble::default(), 0), "seed {seed}");
        assert_eq!(found.len(), made.len(), "seed {seed}");
        for (index, (found, made)) in found.iter().zip(&made).enumerate() {
            assert_eq!(
                found,
                made,
                "seed {seed}, call {index}: {}",
                log.lines().nth(index).unwrap_or_default()
            );
        }
    }
}
