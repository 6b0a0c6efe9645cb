//! Runs programs with the recorder, and reads what it recorded.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test uses a part, and a failed unwrap fails the test"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use plimsoll_trace::event::Outcome;
use plimsoll_trace::preload::{Image, Log, Merge, MomentKind, Record};
use plimsoll_trace::syscalls::Effect;

/// A directory that is removed when the test ends.
pub struct TestDirectory(pub PathBuf);

impl TestDirectory {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("plimsoll-preload-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("logs")).unwrap();
        // A child of another user writes there, too.
        fs::set_permissions(path.join("logs"), fs::Permissions::from_mode(0o777)).unwrap();
        Self(path.canonicalize().unwrap())
    }

    pub fn logs(&self) -> PathBuf {
        self.0.join("logs")
    }

    /// Creates a file whose bytes differ from their neighbours.
    pub fn file(&self, name: &str, length: usize) -> PathBuf {
        let path = self.0.join(name);
        let bytes: Vec<u8> = (0..length).map(|offset| (offset % 251) as u8).collect();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Compiles a C program of `tests/programs`.
    pub fn compile(&self, name: &str) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/programs")
            .join(name);
        let program = self.0.join(name).with_extension("");
        let compiled = Command::new("cc")
            .args(["-O2", "-pthread", "-o"])
            .args([&program, &source])
            .output()
            .unwrap();
        assert!(
            compiled.status.success(),
            "{}",
            String::from_utf8_lossy(&compiled.stderr)
        );
        program
    }

    /// Runs a command with the recorder, in this directory.
    pub fn record(&self, command: &mut Command) -> Output {
        command
            .current_dir(&self.0)
            .env("LD_PRELOAD", library())
            .env("PLIMSOLL_TRACE_DIR", self.logs())
            .output()
            .unwrap()
    }

    /// Reads the logs.
    pub fn recording(&self) -> Recording {
        let mut files: Vec<PathBuf> = fs::read_dir(self.logs())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        Recording(files.iter().map(|file| fs::read(file).unwrap()).collect())
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The recorder, built as for use, or the library whose absolute path the variable contains.
pub fn library() -> &'static Path {
    static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
        if let Some(path) = std::env::var_os("PLIMSOLL_PRELOAD") {
            return path.into();
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let built = Command::new(root.join("scripts/preload-library"))
            .output()
            .unwrap();
        assert!(built.status.success(), "{}", text(&built.stderr));
        root.join(text(&built.stdout).trim())
    });
    &LIBRARY
}

/// The bytes of all logs.
pub struct Recording(pub Vec<Vec<u8>>);

impl Recording {
    pub fn logs(&self) -> Vec<Log<'_>> {
        self.0.iter().map(|bytes| Log::parse(bytes).unwrap()).collect()
    }

    /// The records of a complete recording, log by log. Asserts that none is lost or cut.
    pub fn records(&self) -> Vec<Record<'_>> {
        let mut all = Vec::new();
        for mut log in self.logs() {
            all.extend(log.records.by_ref());
            assert_eq!(
                (
                    log.records.lost(),
                    log.records.unknown_calls(),
                    log.records.cut_bytes()
                ),
                (0, 0, None)
            );
        }
        all
    }

    pub fn named(&self, name: &str) -> Vec<Record<'_>> {
        self.records()
            .into_iter()
            .filter(|record| record.call.name == name)
            .collect()
    }

    /// The activity on each file below a directory.
    pub fn done_to_files(&self, below: &Path) -> BTreeMap<String, FileActivity> {
        let heads: Vec<_> = self.logs().into_iter().map(|log| log.head).collect();
        let mut processes: BTreeMap<u32, Process> = BTreeMap::new();
        let mut done = BTreeMap::new();
        for moment in Merge::new(self.logs()) {
            let head = &heads[moment.log];
            let (pid, parent) = match moment.kind {
                MomentKind::Log => (head.pid, head.parent),
                MomentKind::Begin(record) | MomentKind::End(record) => {
                    (record.other_thread.unwrap_or(head.pid), head.pid)
                }
            };
            if !processes.contains_key(&pid) {
                let inherited = processes.get(&parent).cloned().unwrap_or_default();
                processes.insert(pid, inherited);
            }
            let process = processes.get_mut(&pid).unwrap();
            match moment.kind {
                MomentKind::Log => {
                    if let Some(image) = &head.image {
                        *process = Process::executed(image);
                    }
                }
                MomentKind::Begin(record) => process.begin_call(&record, below, &mut done),
                MomentKind::End(record) => process.end_call(&record),
            }
        }
        done
    }
}

/// The open files of a process by descriptor, and its current directory.
#[derive(Debug, Clone, Default)]
struct Process {
    open: BTreeMap<i64, PathBuf>,
    directory: PathBuf,
}

impl Process {
    fn executed(image: &Image<'_>) -> Self {
        let open = image
            .open
            .iter()
            .map(|descriptor| (i64::from(descriptor.number), text(descriptor.name).into()));
        Self {
            open: open.collect(),
            directory: text(image.directory).into(),
        }
    }

    fn begin_call(&mut self, record: &Record<'_>, below: &Path, done: &mut BTreeMap<String, FileActivity>) {
        let numbers = &record.arguments;
        if record.call.effect == Effect::Close {
            self.open.remove(&numbers[0].unwrap());
        }
        let Some(bytes) = record.outcome.value() else {
            return;
        };
        let (from, to) = match (record.call.effect, record.call.name) {
            (Effect::Read, _) => (numbers[0], None),
            (Effect::Write, _) => (None, numbers[0]),
            (Effect::Transfer, "sendfile") => (numbers[1], numbers[0]),
            (Effect::Transfer, _) => (numbers[0], numbers[2]),
            _ => return,
        };
        let mut add = |number: Option<i64>, add: fn(&mut FileActivity, i64)| {
            let path = number.and_then(|number| self.open.get(&number));
            if let Some(path) = path.filter(|path| path.starts_with(below)) {
                add(done.entry(path.to_str().unwrap().to_owned()).or_default(), bytes);
            }
        };
        add(from, FileActivity::read);
        add(to, FileActivity::write);
    }

    fn end_call(&mut self, record: &Record<'_>) {
        let Outcome::Returned(value) = record.outcome else {
            return;
        };
        let first = record.arguments[0];
        let opened = |number: Option<i64>| self.open.get(&number?).cloned();
        match (record.call.effect, record.texts[0]) {
            (Effect::Open, Some(name)) => {
                let at = opened(first.filter(|_| record.call.name == "openat"));
                let path = at.as_ref().unwrap_or(&self.directory).join(text(name));
                self.open.insert(value, path);
            }
            (Effect::Enter, Some(name)) => self.directory.push(text(name)),
            (Effect::Dup, _) => {
                let path = opened(first).unwrap_or_default();
                self.open.insert(value, path);
            }
            (Effect::Fcntl, _) if matches!(record.arguments[1], Some(0 | 1030)) => {
                let path = opened(first).unwrap_or_default();
                self.open.insert(value, path);
            }
            _ => {}
        }
    }
}

/// The reads and writes of a file by all processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileActivity {
    pub reads: u64,
    pub read_bytes: i64,
    pub writes: u64,
    pub written_bytes: i64,
}

impl FileActivity {
    pub fn read(&mut self, bytes: i64) {
        self.reads += 1;
        self.read_bytes += bytes;
    }

    pub fn write(&mut self, bytes: i64) {
        self.writes += 1;
        self.written_bytes += bytes;
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The activity according to strace, which runs the same command in the same directory. If strace
/// is missing: None and a message; in CI a failure.
pub fn strace(directory: &TestDirectory, command: &[&str]) -> Option<BTreeMap<String, FileActivity>> {
    // One log for each thread; in a common log an interrupted call takes two lines.
    let logs = directory.0.join("strace");
    let _ = fs::remove_dir_all(&logs);
    fs::create_dir(&logs).unwrap();
    let traced = Command::new("strace")
        .args(["-ff", "-y", "-s", "0", "-e", "trace=desc", "-o"])
        .arg(logs.join("log"))
        .args(command)
        .current_dir(&directory.0)
        .output();
    if !traced.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: strace is missing or is not permitted to trace processes here");
        let ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
        assert!(!ci, "in CI a missing strace is a failure");
        return None;
    }
    let mut done = BTreeMap::new();
    for log in fs::read_dir(&logs).unwrap() {
        for line in fs::read_to_string(log.unwrap().path()).unwrap().lines() {
            add_line(line, &directory.0, &mut done);
        }
    }
    Some(done)
}

/// `read(3</tmp/x>, ""..., 512) = 512`
fn add_line(line: &str, below: &Path, done: &mut BTreeMap<String, FileActivity>) -> Option<()> {
    let (call, arguments_and_value) = line.split_once('(')?;
    let (arguments, value) = arguments_and_value.rsplit_once(" = ")?;
    let bytes: i64 = value
        .split(' ')
        .next()?
        .parse()
        .ok()
        .filter(|&bytes| bytes >= 0)?;
    let mut names = arguments
        .split('<')
        .skip(1)
        .filter_map(|part| part.split_once('>'))
        .map(|(name, _)| name.to_owned());
    let (first, second) = (names.next(), names.next());
    let mut add = |name: Option<String>, add: fn(&mut FileActivity, i64)| {
        if let Some(name) = name.filter(|name| Path::new(name).starts_with(below)) {
            add(done.entry(name).or_default(), bytes);
        }
    };
    match call {
        "read" | "readv" | "pread64" | "preadv" | "preadv2" => add(first, FileActivity::read),
        "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" => add(first, FileActivity::write),
        "copy_file_range" => {
            add(first, FileActivity::read);
            add(second, FileActivity::write);
        }
        "sendfile" => {
            add(first, FileActivity::write);
            add(second, FileActivity::read);
        }
        _ => {}
    }
    Some(())
}
