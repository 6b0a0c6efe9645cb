//! What the ids of events stand for, as entries that are appended to the tables, or replace one of them.
//!
//! An entry names only what stands before it, so a reader can check it when it comes.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::io::{self, Write};

use zstd::bulk::{Compressor, Decompressor};

use super::block::{Mixer, compress};
use super::bytes::{Bytes, put};
use super::frame::{self, Frames};
use super::walk::{Next, Rule, Wrong};
use super::{FileError, LONGEST_NAME};
use crate::event::{FileId, PathId, ThreadId};
use crate::names::{FileEntry, Kind, Names, ThreadEntry};
use crate::syscalls::{self, Syscall};

/// First bytes of entries.
mod entry {
    pub const PATH: u8 = 0;
    pub const FILE: u8 = 1;
    pub const THREAD: u8 = 2;
    pub const CALL: u8 = 3;
    pub const FILE_CHANGED: u8 = 4;
    pub const THREAD_CHANGED: u8 = 5;
}

/// A frame of entries goes out when it has so many bytes.
const FULL: usize = 1 << 18;
/// How much smaller than its entries a frame may be. A few bytes could stand for a whole memory of entries otherwise.
const MOST_PACKED: usize = 64;
const LEVEL: i32 = 6;

/// Whether events that name so much find it in the tables.
pub(super) fn hold(names: &Names, next: Next) -> Result<(), FileError> {
    for (next, entries) in [
        (next.path, names.paths().len()),
        (next.file, names.files().len()),
        (next.thread, names.threads().len()),
    ] {
        if next > entries as u64 {
            let (id, entries) = (next - 1, entries as u64);
            return Err(FileError::Stray { id, entries });
        }
    }
    Ok(())
}

/// What of the tables is in the file already.
pub(super) struct Writer {
    paths: usize,
    files: usize,
    threads: usize,
    calls: usize,
    numbers: HashMap<usize, u32, BuildHasherDefault<Mixer>>,
    known: Vec<&'static Syscall>,
    entries: Vec<u8>,
    compressor: Compressor<'static>,
}

impl Writer {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            paths: 0,
            files: 0,
            threads: 0,
            calls: 0,
            numbers: HashMap::default(),
            known: Vec::new(),
            entries: Vec::new(),
            compressor: Compressor::new(LEVEL)?,
        })
    }

    /// The number of a call.
    pub fn number(&mut self, call: &'static Syscall) -> u32 {
        // There is one of each: its place in memory tells it from others sooner than its name.
        *self
            .numbers
            .entry(std::ptr::from_ref(call).addr())
            .or_insert_with(|| {
                self.known.push(call);
                self.known.len() as u32 - 1
            })
    }

    /// How many calls have one.
    pub fn calls(&self) -> usize {
        self.known.len()
    }

    /// Writes what was added or changed since the last time. `body` is for the frames.
    pub fn write(
        &mut self,
        names: &mut Names,
        out: &mut Frames<impl Write>,
        body: &mut Vec<u8>,
    ) -> Result<(), FileError> {
        // Tables only grow: shorter ones are others.
        let now = [names.paths().len(), names.files().len(), names.threads().len()];
        for (written, entries) in [self.paths, self.files, self.threads].into_iter().zip(now) {
            if let Some(last) = written.checked_sub(1) {
                stray(last, entries)?;
            }
        }
        let (changed_files, changed_threads) = names.take_changed();
        for path in &names.paths()[self.paths..] {
            if path.len() > LONGEST_NAME {
                return Err(FileError::LongName(path.len()));
            }
            self.entries.push(entry::PATH);
            put(&mut self.entries, path.len() as u64);
            self.entries.extend_from_slice(path);
            self.send(FULL, out, body)?;
        }
        for file in &names.files()[self.files..] {
            self.entries.push(entry::FILE);
            self.file(*file, names)?;
            self.send(FULL, out, body)?;
        }
        let files = self.files;
        for id in changed_files.into_iter().filter(|id| id.index() < files) {
            self.entries.push(entry::FILE_CHANGED);
            put(&mut self.entries, id.index() as u64);
            self.file(names.files()[id.index()], names)?;
            self.send(FULL, out, body)?;
        }
        self.put_threads(names, changed_threads.into_iter(), out, body)?;
        for call in &self.known[self.calls..] {
            self.entries.extend([entry::CALL, Rule::of(call.effect) as u8]);
            put(&mut self.entries, call.name.len() as u64);
            self.entries.extend_from_slice(call.name.as_bytes());
        }
        self.send(1, out, body)?;
        [self.paths, self.files, self.threads] = now;
        self.calls = self.known.len();
        Ok(())
    }

    fn put_threads(
        &mut self,
        names: &Names,
        changed: impl Iterator<Item = ThreadId>,
        out: &mut Frames<impl Write>,
        body: &mut Vec<u8>,
    ) -> Result<(), FileError> {
        let mut later: Vec<ThreadId> = changed.filter(|id| id.index() < self.threads).collect();
        for (number, thread) in names.threads().iter().enumerate().skip(self.threads) {
            let mut thread = *thread;
            if thread.parent.is_some_and(|parent| parent.index() >= number) {
                thread.parent = None;
                later.extend(ThreadId::new(number));
            }
            self.entries.push(entry::THREAD);
            self.thread(&thread);
            self.send(FULL, out, body)?;
        }
        for id in later {
            let thread = &names.threads()[id.index()];
            if let Some(parent) = thread.parent {
                stray(parent.index(), names.threads().len())?;
            }
            self.entries.push(entry::THREAD_CHANGED);
            put(&mut self.entries, id.index() as u64);
            self.thread(thread);
            self.send(FULL, out, body)?;
        }
        Ok(())
    }

    fn file(&mut self, file: FileEntry, names: &Names) -> Result<(), FileError> {
        stray(file.path.index(), names.paths().len())?;
        self.entries.push(kind_number(file.kind));
        put(&mut self.entries, file.path.index() as u64);
        Ok(())
    }

    fn thread(&mut self, thread: &ThreadEntry) {
        let parent = thread.parent.map_or(0, |parent| parent.index() as u64 + 1);
        for number in [u64::from(thread.tid), u64::from(thread.pid), parent] {
            put(&mut self.entries, number);
        }
    }

    /// Writes the entries as a frame if they are so many bytes.
    fn send(
        &mut self,
        least: usize,
        out: &mut Frames<impl Write>,
        body: &mut Vec<u8>,
    ) -> Result<(), FileError> {
        if self.entries.len() < least {
            return Ok(());
        }
        frame::begin(body);
        put(body, self.entries.len() as u64);
        let begin = body.len();
        compress(&mut self.compressor, &self.entries, body)?;
        let packed = body.len() - begin;
        if packed >= self.entries.len() || packed * MOST_PACKED < self.entries.len() {
            body.truncate(begin);
            body.extend_from_slice(&self.entries);
        }
        self.entries.clear();
        out.write(frame::kind::NAMES, body)
    }
}

fn stray(index: usize, entries: usize) -> Result<(), FileError> {
    let (id, entries) = (index as u64, entries as u64);
    if id < entries {
        Ok(())
    } else {
        Err(FileError::Stray { id, entries })
    }
}

const KINDS: [Kind; 8] = [
    Kind::File,
    Kind::Directory,
    Kind::Link,
    Kind::Device,
    Kind::Pipe,
    Kind::Socket,
    Kind::Memory,
    Kind::Other,
];

fn kind_number(kind: Kind) -> u8 {
    match kind {
        Kind::File => 0,
        Kind::Directory => 1,
        Kind::Link => 2,
        Kind::Device => 3,
        Kind::Pipe => 4,
        Kind::Socket => 5,
        Kind::Memory => 6,
        Kind::Other => 7,
    }
}

/// A call, as a file names it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub rule: Rule,
    /// None for one that this build does not know.
    pub call: Option<&'static Syscall>,
}

/// The tables as far as they were read.
pub(super) struct Reader {
    pub names: Names,
    pub calls: Vec<Call>,
    raw: Vec<u8>,
    decompressor: Decompressor<'static>,
}

impl Reader {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            names: Names::default(),
            calls: Vec::new(),
            raw: Vec::new(),
            decompressor: Decompressor::new()?,
        })
    }

    /// Takes in what follows the head of a frame of names.
    pub fn take(&mut self, body: &[u8]) -> Result<(), Wrong> {
        let mut packed = Bytes(body);
        let length = packed.size().ok_or("a frame of names ends within its head")?;
        if packed.0.len() == length {
            return add(&mut self.names, &mut self.calls, packed);
        }
        if length > packed.0.len().saturating_mul(MOST_PACKED) || length > FULL + LONGEST_NAME + 64 {
            return Err("names are packed more than they may be");
        }
        self.raw.resize(length, 0);
        let found = self
            .decompressor
            .decompress_to_buffer(packed.0, self.raw.as_mut_slice());
        if !found.is_ok_and(|found| found == length) {
            return Err("names cannot be decompressed");
        }
        add(&mut self.names, &mut self.calls, Bytes(&self.raw))
    }
}

fn add(names: &mut Names, calls: &mut Vec<Call>, mut entries: Bytes<'_>) -> Result<(), Wrong> {
    while !entries.is_empty() {
        one(names, calls, &mut entries).ok_or("an entry of a table makes no sense")?;
    }
    // Nobody asks a reader what has changed.
    names.take_changed();
    Ok(())
}

/// Reads an entry. None where it is cut or names what is not there.
fn one(names: &mut Names, calls: &mut Vec<Call>, entries: &mut Bytes<'_>) -> Option<()> {
    match entries.byte()? {
        entry::PATH => {
            let length = entries.size()?;
            names.add_path(entries.take(length)?)?;
        }
        entry::FILE => {
            let file = file(names, entries)?;
            names.add_file(file)?;
        }
        entry::THREAD => {
            let thread = thread(names, entries)?;
            names.add_thread(thread)?;
        }
        entry::CALL => {
            let rule = Rule::from_byte(entries.byte()?)?;
            let length = entries.size()?;
            let call = syscalls::find(entries.take(length)?);
            calls.push(Call { rule, call });
        }
        entry::FILE_CHANGED => {
            let id = entries.size().filter(|&id| id < names.files().len())?;
            let file = file(names, entries)?;
            names.set_file(FileId::new(id)?, file);
        }
        entry::THREAD_CHANGED => {
            let id = entries.size().filter(|&id| id < names.threads().len())?;
            let thread = thread(names, entries)?;
            names.set_thread(ThreadId::new(id)?, thread);
        }
        _ => return None,
    }
    Some(())
}

fn file(names: &Names, entries: &mut Bytes<'_>) -> Option<FileEntry> {
    let kind = *KINDS.get(usize::from(entries.byte()?))?;
    let path = entries.size().filter(|&path| path < names.paths().len())?;
    let path = PathId::new(path)?;
    Some(FileEntry { kind, path })
}

fn thread(names: &Names, entries: &mut Bytes<'_>) -> Option<ThreadEntry> {
    let tid = u32::try_from(entries.number()?).ok()?;
    let pid = u32::try_from(entries.number()?).ok()?;
    let parent = match entries.size()? {
        0 => None,
        parent if parent <= names.threads().len() => Some(ThreadId::new(parent - 1)?),
        _ => return None,
    };
    Some(ThreadEntry { tid, pid, parent })
}
