//! Random programs of file calls, which are run, recorded, and run again in another directory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, OFlag, RenameFlags, open, renameat2};
use nix::sys::stat::Mode;
use nix::unistd::{AccessFlags, access};
use plimsoll_trace::event::{Event, OpenId, Outcome, PathId, ThreadId};
use plimsoll_trace::names::Names;
use plimsoll_trace::syscalls;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::common::Scratch;

/// One call, with paths relative to its directory.
#[derive(Debug, Clone)]
pub enum Call {
    Open { path: String, flags: i32, id: usize },
    Close(usize),
    Read { id: usize, offset: u64, length: usize },
    Write { id: usize, offset: u64, length: usize },
    SeekEnd(usize),
    SetLength { id: usize, length: u64 },
    Stat(String),
    Lstat(String),
    Fstat(usize),
    Access(String),
    Readlink(String),
    List(usize),
    Mkdir(String),
    Rmdir(String),
    Unlink(String),
    Rename { from: String, to: String, flags: u32 },
    Link(String, String),
    Symlink { target: String, path: String },
}

pub struct Program {
    pub events: Vec<Event>,
    pub names: Names,
    calls: Vec<(Call, Result<u64, i32>)>,
}

/// A process that makes calls in a directory.
struct Machine<'a> {
    base: &'a Path,
    files: BTreeMap<usize, File>,
}

impl Machine<'_> {
    fn at(&self, path: &str) -> PathBuf {
        if path.is_empty() {
            self.base.into()
        } else {
            self.base.join(path)
        }
    }

    fn perform(&mut self, call: &Call) -> Result<u64, i32> {
        let done = |result: io::Result<()>| result.map(|()| 0);
        let result = match call {
            Call::Open { path, flags, id } => {
                let mode = Mode::from_bits_truncate(0o644);
                let flags = OFlag::from_bits_retain(*flags);
                let file = open(&self.at(path), flags, mode).map_err(io::Error::from);
                file.map(|file| self.files.insert(*id, file.into())).map(|_| 0)
            }
            Call::Close(id) => {
                self.files.remove(id);
                Ok(0)
            }
            Call::Read { id, offset, length } => {
                let read = self.files[id].read_at(&mut vec![0; *length], *offset);
                read.map(|bytes| bytes as u64)
            }
            Call::Write { id, offset, length } => {
                let written = self.files[id].write_at(&vec![7; *length], *offset);
                written.map(|bytes| bytes as u64)
            }
            Call::SeekEnd(id) => {
                use std::io::Seek;
                self.files[id].try_clone().unwrap().seek(io::SeekFrom::End(0))
            }
            Call::SetLength { id, length } => done(self.files[id].set_len(*length)),
            Call::Stat(path) => fs::metadata(self.at(path)).map(|_| 0),
            Call::Lstat(path) => fs::symlink_metadata(self.at(path)).map(|_| 0),
            Call::Fstat(id) => self.files[id].metadata().map(|_| 0),
            Call::Access(path) => done(access(&self.at(path), AccessFlags::F_OK).map_err(Into::into)),
            Call::Readlink(path) => {
                fs::read_link(self.at(path)).map(|target| target.as_os_str().len() as u64)
            }
            // The number of entries is not part of a check.
            Call::List(id) => {
                let name = format!(
                    "/proc/self/fd/{}",
                    std::os::fd::AsRawFd::as_raw_fd(&self.files[id])
                );
                fs::read_dir(name).map(|_| 0)
            }
            Call::Mkdir(path) => done(fs::create_dir(self.at(path))),
            Call::Rmdir(path) => done(fs::remove_dir(self.at(path))),
            Call::Unlink(path) => done(fs::remove_file(self.at(path))),
            Call::Rename { from, to, flags } => {
                let flags = RenameFlags::from_bits_retain(*flags);
                let renamed = renameat2(AT_FDCWD, &self.at(from), AT_FDCWD, &self.at(to), flags);
                done(renamed.map_err(Into::into))
            }
            Call::Link(from, to) => done(fs::hard_link(self.at(from), self.at(to))),
            Call::Symlink { target, path } => done(symlink(target, self.at(path))),
        };
        result.map_err(|error| error.raw_os_error().unwrap())
    }
}

impl Program {
    /// Runs a random program in a directory that other programs have used before, and records its
    /// calls.
    ///
    /// `dots`: no other program has used it before, and some names have `..` after a directory that
    /// may be missing. The previous contents cannot always be determined then: any component may
    /// have been a file.
    pub fn record(seed: u64, length: usize, dots: bool, scratch: &Scratch) -> Self {
        // Moved links may lead out of the directory, but at most to this one.
        let base = scratch.make("recorded").join("x/y/z");
        fs::create_dir_all(&base).unwrap();
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut machine = Machine {
            base: &base,
            files: BTreeMap::new(),
        };
        let mut before = Vec::new();
        for _ in 0..if dots { 0 } else { 30 } {
            before.push(choose(&mut random, &machine, before.len()));
            machine.perform(before.last().unwrap()).ok();
        }
        machine.files.clear();
        separate_links(&base);
        let mut program = Self {
            events: Vec::new(),
            names: Names::default(),
            calls: Vec::new(),
        };
        let mut ids = BTreeMap::new();
        // Without a call on a link, the trace does not show which of its names are one file.
        let mut first = links_in(&base);
        for at in 0..length {
            let call = match first.pop() {
                Some(link) => Call::Readlink(link),
                None if dots => with_dots(choose(&mut random, &machine, at), &mut random),
                None => choose(&mut random, &machine, at),
            };
            let mut event = program.event(&call, &machine, &mut ids);
            let result = machine.perform(&call);
            program.add_results(&call, &machine, result, &mut event, &mut ids);
            program.events.push(event);
            program.calls.push((call, result));
        }
        program
    }

    /// Runs the program again in another directory and asserts that all results are the same.
    pub fn repeat(&self, base: &Path, context: &str) {
        let mut machine = Machine {
            base,
            files: BTreeMap::new(),
        };
        for (at, (call, recorded)) in self.calls.iter().enumerate() {
            let result = machine.perform(call);
            let is_same = match (result, *recorded) {
                (Ok(first), Ok(second)) => first == second || self.is_of_link_out(at, call),
                (Err(first), Err(second)) => first == second || is_unresolved(first) && is_unresolved(second),
                _ => false,
            };
            assert!(is_same, "{context}: call {at}: {result:?}\n{}", self.listing());
        }
    }

    /// Whether a call reads a link that leads out of the directory. Its target differs in another
    /// directory, because files outside are mapped differently.
    fn is_of_link_out(&self, at: usize, call: &Call) -> bool {
        let (Call::Readlink(path), Some(target)) = (call, self.events[at].path2) else {
            return false;
        };
        let parts = self.names.path(target).split(|&byte| byte == b'/');
        parts.take_while(|part| *part == b"..").count() > path.matches('/').count()
    }

    /// The calls and their results, for messages of failed tests.
    pub fn listing(&self) -> String {
        let calls = self.calls.iter().enumerate();
        let lines = calls.map(|(at, (call, result))| format!("{at}: {call:?} = {result:?}"));
        lines.collect::<Vec<String>>().join("\n")
    }

    fn event(&mut self, call: &Call, machine: &Machine<'_>, ids: &mut BTreeMap<String, PathId>) -> Event {
        let name = match call {
            Call::Open { .. } => "open",
            Call::Close(_) => "close",
            Call::Read { .. } => "pread64",
            Call::Write { .. } => "pwrite64",
            Call::SeekEnd(_) => "lseek",
            Call::SetLength { .. } => "ftruncate",
            Call::Stat(_) => "stat",
            Call::Lstat(_) => "lstat",
            Call::Fstat(_) => "fstat",
            Call::Access(_) => "access",
            Call::Readlink(_) => "readlink",
            Call::List(_) => "getdents64",
            Call::Mkdir(_) => "mkdir",
            Call::Rmdir(_) => "rmdir",
            Call::Unlink(_) => "unlink",
            Call::Rename { .. } => "renameat2",
            Call::Link(..) => "link",
            Call::Symlink { .. } => "symlink",
        };
        let call_of_linux = syscalls::find(name.as_bytes()).unwrap();
        let mut event = Event::new(ThreadId::new(0).unwrap(), call_of_linux, 0, Outcome::Unknown);
        let open = |id: &usize| OpenId::new(*id);
        let mut path = |path: &str| {
            let whole = if path.is_empty() {
                "/rec".into()
            } else {
                format!("/rec/{path}")
            };
            Some(self.name(&whole, ids))
        };
        match call {
            Call::Open {
                path: name, flags, ..
            } => {
                event.path = path(name);
                event.flags = u64::try_from(*flags).ok();
            }
            Call::Stat(name)
            | Call::Lstat(name)
            | Call::Readlink(name)
            | Call::Mkdir(name)
            | Call::Rmdir(name)
            | Call::Unlink(name) => event.path = path(name),
            Call::Access(name) => {
                event.path = path(name);
                event.mode = Some(0);
            }
            Call::Rename { from, to, flags } => {
                event.path = path(from);
                event.path2 = path(to);
                event.flags = Some(u64::from(*flags));
            }
            Call::Link(from, to) => {
                event.path = path(from);
                event.path2 = path(to);
            }
            Call::Symlink { target, path: name } => {
                event.path = path(name);
                event.path2 = Some(self.name(target, ids));
            }
            Call::Close(id) | Call::Fstat(id) | Call::List(id) => event.open = open(id),
            Call::Read { id, offset, length } => {
                event.open = open(id);
                event.offset = i64::try_from(*offset).ok();
                event.length = Some(*length as u64);
            }
            Call::Write { id, offset, length } => {
                let size = machine.files[id].metadata().unwrap().size();
                let appends = nix::fcntl::fcntl(&machine.files[id], nix::fcntl::FcntlArg::F_GETFL).unwrap();
                let appends = appends & OFlag::O_APPEND.bits() != 0;
                event.open = open(id);
                event.offset = i64::try_from(if appends { size } else { *offset }).ok();
                event.length = Some(*length as u64);
            }
            Call::SeekEnd(id) => {
                event.open = open(id);
                event.offset = Some(0);
                event.flags = Some(2);
            }
            Call::SetLength { id, length } => {
                event.open = open(id);
                event.length = Some(*length);
            }
        }
        event
    }

    /// Adds the values that are known only after the call.
    fn add_results(
        &mut self,
        call: &Call,
        machine: &Machine<'_>,
        result: Result<u64, i32>,
        event: &mut Event,
        ids: &mut BTreeMap<String, PathId>,
    ) {
        event.outcome = match result {
            Ok(value) => Outcome::Returned(i64::try_from(value).unwrap()),
            Err(error) => Outcome::Failed(u16::try_from(error).unwrap()),
        };
        if result.is_err() {
            return;
        }
        let metadata = match call {
            Call::Stat(path) => Some(fs::metadata(machine.at(path)).unwrap()),
            Call::Lstat(path) => Some(fs::symlink_metadata(machine.at(path)).unwrap()),
            Call::Fstat(id) => Some(machine.files[id].metadata().unwrap()),
            _ => None,
        };
        if let Some(metadata) = metadata {
            event.mode = Some(metadata.mode());
            event.length = Some(metadata.size());
        }
        match call {
            Call::Open { id, .. } => event.open = OpenId::new(*id),
            Call::Readlink(path) => {
                let target = fs::read_link(machine.at(path)).unwrap();
                event.path2 = Some(self.name(target.to_str().unwrap(), ids));
            }
            _ => {}
        }
    }

    fn name(&mut self, name: &str, ids: &mut BTreeMap<String, PathId>) -> PathId {
        let names = &mut self.names;
        *ids.entry(name.into())
            .or_insert_with(|| names.add_path(name.as_bytes()).unwrap())
    }
}

/// Whether a path cannot be resolved. The three errors are treated as equal: the calls do not show
/// which component is the cause.
fn is_unresolved(error: i32) -> bool {
    use nix::libc::{ELOOP, ENOENT, ENOTDIR};
    [ENOENT, ENOTDIR, ELOOP].contains(&error)
}

/// The symbolic links beneath a directory.
fn links_in(base: &Path) -> Vec<String> {
    let links = files_in(base).into_iter().filter(|path| path.is_symlink());
    links
        .map(|path| path.strip_prefix(base).unwrap().to_str().unwrap().into())
        .collect()
}

/// Creates a separate file for each name. No call shows that two names were one file before the
/// trace began, so data written through one name and read through the other could not be explained.
fn separate_links(base: &Path) {
    for path in files_in(base) {
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.nlink() == 1 {
            continue;
        }
        let copy = base.join("copy");
        if metadata.is_symlink() {
            symlink(fs::read_link(&path).unwrap(), &copy).unwrap();
        } else {
            fs::copy(&path, &copy).unwrap();
        }
        fs::rename(&copy, &path).unwrap();
    }
}

/// All files beneath a directory that are not directories.
fn files_in(base: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![base.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            } else {
                files.push(entry.path());
            }
        }
    }
    files
}

fn some_path(random: &mut impl Rng) -> String {
    let depth = random.random_range(1..=3);
    let parts: Vec<&str> = (0..depth)
        .map(|_| ["a", "b", "c"][random.random_range(0..3)])
        .collect();
    parts.join("/")
}

/// Adds a directory and `..` to every second path.
fn with_dots(mut call: Call, random: &mut impl Rng) -> Call {
    let paths = match &mut call {
        Call::Open { path, .. }
        | Call::Stat(path)
        | Call::Lstat(path)
        | Call::Access(path)
        | Call::Mkdir(path)
        | Call::Unlink(path) => vec![path],
        Call::Rename { from, to, .. } | Call::Link(from, to) => vec![from, to],
        _ => vec![],
    };
    for path in paths {
        if random.random() {
            let above = ["a", "b", "c"][random.random_range(0..3)];
            *path = format!("{above}/../{path}");
        }
    }
    call
}

/// The next call, depending on the open files.
fn choose(random: &mut impl Rng, machine: &Machine<'_>, at: usize) -> Call {
    let path = some_path(random);
    if !machine.files.is_empty() && random.random_range(0..100) < 40 {
        let index = random.random_range(0..machine.files.len());
        let id = *machine.files.keys().nth(index).unwrap();
        let offset = random.random_range(0..200);
        let length = random.random_range(0..100);
        return match random.random_range(0..12) {
            0..4 => Call::Read { id, offset, length },
            4..7 => Call::Write { id, offset, length },
            7 => Call::SeekEnd(id),
            8 => Call::SetLength { id, length: offset },
            9 => Call::Fstat(id),
            10 => Call::List(id),
            _ => Call::Close(id),
        };
    }
    let two = some_path(random);
    match random.random_range(0..20) {
        0..5 => {
            let mut flags =
                [OFlag::O_RDONLY, OFlag::O_WRONLY, OFlag::O_RDWR, OFlag::O_RDWR][random.random_range(0..4)];
            for (flag, share) in [
                (OFlag::O_CREAT, 50),
                (OFlag::O_EXCL, 15),
                (OFlag::O_TRUNC, 15),
                (OFlag::O_APPEND, 15),
                (OFlag::O_DIRECTORY, 10),
                (OFlag::O_NOFOLLOW, 10),
            ] {
                // Both flags together are an error that depends on no file, and O_EXCL without
                // O_CREAT is undefined.
                let clash = flag == OFlag::O_DIRECTORY && flags.contains(OFlag::O_CREAT)
                    || flag == OFlag::O_EXCL && !flags.contains(OFlag::O_CREAT);
                if random.random_range(0..100) < share && !clash {
                    flags |= flag;
                }
            }
            let flags = flags.bits();
            Call::Open { path, flags, id: at }
        }
        5 | 6 => Call::Stat(path),
        7 => Call::Lstat(path),
        8 => Call::Access(path),
        9 => Call::Readlink(path),
        10..13 => Call::Mkdir(path),
        13 => Call::Rmdir(path),
        14 => Call::Unlink(path),
        15 | 16 => {
            let flags = [0, 0, 0, 1, 2][random.random_range(0..5)];
            Call::Rename {
                from: path,
                to: two,
                flags,
            }
        }
        17 => Call::Link(path, two),
        _ => {
            // The target must not be outside the directory of the program.
            let up = path.contains('/') && random.random();
            let target = if up { format!("../{two}") } else { two };
            Call::Symlink { target, path }
        }
    }
}
