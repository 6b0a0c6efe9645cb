//! What the ids of events stand for, as entries that are appended to the tables, or replace one of
//! them.
//!
//! An entry names only what stands before it, so a reader can check it when it comes.

use std::io::{self, Write};

use zstd::bulk::{Compressor, Decompressor};

use super::block::compress;
use super::bytes::{Bytes, put};
use super::frame::{self, Frames};
use super::walk::{Next, Rule, Wrong};
use super::{FileError, MAX_NAME};
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
/// How much smaller than its entries a frame may be. A few bytes could stand for a whole memory of
/// entries otherwise.
const MAX_PACKED: usize = 64;
/// zstd's. 6 saves 1 to 3 % of most trace files, 8 % of one that is little but names, and is a
/// third of all work of the thread that writes where many names are met.
const LEVEL: i32 = 3;

/// Entries of the tables of paths, files and threads.
pub(super) type Lengths = [usize; 3];

/// How long the tables are.
pub(super) fn lengths(names: &Names) -> Lengths {
    [names.paths().len(), names.files().len(), names.threads().len()]
}

/// Whether events that name so much find it in the tables.
pub(super) fn hold([paths, files, threads]: Lengths, next: Next) -> Result<(), FileError> {
    for (next, entries) in [(next.path, paths), (next.file, files), (next.thread, threads)] {
        if next > entries as u64 {
            let (id, entries) = (next - 1, entries as u64);
            return Err(FileError::Stray { id, entries });
        }
    }
    Ok(())
}

/// Entries on their way into the file.
#[derive(Debug, Default)]
pub(super) struct Entries {
    bytes: Vec<u8>,
    /// Where frames of them end; the last one ends with them.
    ends: Vec<usize>,
}

impl Entries {
    /// An entry is whole.
    fn ended(&mut self) {
        if self.bytes.len() - self.ends.last().copied().unwrap_or(0) >= FULL {
            self.ends.push(self.bytes.len());
        }
    }
}

/// Puts entries into frames.
pub(super) struct Packer {
    compressor: Compressor<'static>,
}

impl Packer {
    pub fn new() -> io::Result<Self> {
        let compressor = Compressor::new(LEVEL)?;
        Ok(Self { compressor })
    }

    /// Writes the entries, and forgets them. `body` is for the frames.
    pub fn put(
        &mut self,
        entries: &mut Entries,
        out: &mut Frames<impl Write>,
        body: &mut Vec<u8>,
    ) -> Result<(), FileError> {
        let all = entries.bytes.len();
        let mut from = 0;
        for to in entries.ends.drain(..).chain([all]) {
            if from < to {
                self.frame(&entries.bytes[from..to], out, body)?;
            }
            from = to;
        }
        entries.bytes.clear();
        Ok(())
    }

    fn frame(
        &mut self,
        entries: &[u8],
        out: &mut Frames<impl Write>,
        body: &mut Vec<u8>,
    ) -> Result<(), FileError> {
        frame::begin(body);
        put(body, entries.len() as u64);
        let begin = body.len();
        compress(&mut self.compressor, entries, body)?;
        let packed = body.len() - begin;
        if packed >= entries.len() || packed * MAX_PACKED < entries.len() {
            body.truncate(begin);
            body.extend_from_slice(entries);
        }
        out.write(frame::kind::NAMES, body)
    }
}

/// What of the tables was put into entries already.
#[derive(Default)]
pub(super) struct Writer {
    told: Lengths,
    calls: usize,
    /// By the places of calls among all.
    numbers: Vec<Option<usize>>,
    known: Vec<&'static Syscall>,
}

impl Writer {
    /// The number of a call.
    pub fn number(&mut self, call: &'static Syscall) -> u32 {
        let index = call.index();
        let is_it = |number: &usize| std::ptr::eq(self.known[*number], call);
        if let Some(number) = self.numbers.get(index).copied().flatten().filter(is_it) {
            return number as u32;
        }
        // One that is not of this build's table has a place of its own, too.
        let found = (0..self.known.len()).find(is_it);
        let number = found.unwrap_or_else(|| {
            self.known.push(call);
            self.known.len() - 1
        });
        self.numbers.resize(self.numbers.len().max(index + 1), None);
        self.numbers[index] = Some(number);
        number as u32
    }

    /// How many calls have one.
    pub fn calls(&self) -> usize {
        self.known.len()
    }

    /// Puts what was added or changed since the last time into entries.
    pub fn tell(&mut self, names: &mut Names, entries: &mut Entries) -> Result<(), FileError> {
        // Tables only grow: shorter ones are others.
        let now = lengths(names);
        for (told, length) in self.told.into_iter().zip(now) {
            if let Some(last) = told.checked_sub(1) {
                stray(last, length)?;
            }
        }
        let [paths, files, _] = self.told;
        let (changed_files, changed_threads) = names.take_changed();
        for path in &names.paths()[paths..] {
            if path.len() > MAX_NAME {
                return Err(FileError::LongName(path.len()));
            }
            entries.bytes.push(entry::PATH);
            put(&mut entries.bytes, path.len() as u64);
            entries.bytes.extend_from_slice(path);
            entries.ended();
        }
        for file in &names.files()[files..] {
            entries.bytes.push(entry::FILE);
            put_file(entries, *file, names)?;
        }
        for id in changed_files.into_iter().filter(|id| id.index() < files) {
            entries.bytes.push(entry::FILE_CHANGED);
            put(&mut entries.bytes, id.index() as u64);
            put_file(entries, names.files()[id.index()], names)?;
        }
        self.tell_threads(names, changed_threads.into_iter(), entries)?;
        for call in &self.known[self.calls..] {
            entries.bytes.extend([entry::CALL, Rule::of(call.effect) as u8]);
            put(&mut entries.bytes, call.name.len() as u64);
            entries.bytes.extend_from_slice(call.name.as_bytes());
            entries.ended();
        }
        self.told = now;
        self.calls = self.known.len();
        Ok(())
    }

    fn tell_threads(
        &mut self,
        names: &Names,
        changed: impl Iterator<Item = ThreadId>,
        entries: &mut Entries,
    ) -> Result<(), FileError> {
        let [_, _, told] = self.told;
        let mut later: Vec<ThreadId> = changed.filter(|id| id.index() < told).collect();
        for (number, thread) in names.threads().iter().enumerate().skip(told) {
            let mut thread = *thread;
            if thread.parent.is_some_and(|parent| parent.index() >= number) {
                thread.parent = None;
                later.extend(ThreadId::new(number));
            }
            entries.bytes.push(entry::THREAD);
            put_thread(entries, &thread);
        }
        for id in later {
            let thread = &names.threads()[id.index()];
            if let Some(parent) = thread.parent {
                stray(parent.index(), names.threads().len())?;
            }
            entries.bytes.push(entry::THREAD_CHANGED);
            put(&mut entries.bytes, id.index() as u64);
            put_thread(entries, thread);
        }
        Ok(())
    }
}

fn put_file(entries: &mut Entries, file: FileEntry, names: &Names) -> Result<(), FileError> {
    stray(file.path.index(), names.paths().len())?;
    entries.bytes.push(kind_number(file.kind));
    put(&mut entries.bytes, file.path.index() as u64);
    entries.ended();
    Ok(())
}

fn put_thread(entries: &mut Entries, thread: &ThreadEntry) {
    let parent = thread.parent.map_or(0, |parent| parent.index() as u64 + 1);
    for number in [u64::from(thread.tid), u64::from(thread.pid), parent] {
        put(&mut entries.bytes, number);
    }
    entries.ended();
}

fn stray(index: usize, entries: usize) -> Result<(), FileError> {
    let (id, entries) = (index as u64, entries as u64);
    if id < entries {
        Ok(())
    } else {
        Err(FileError::Stray { id, entries })
    }
}

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
        if length > packed.0.len().saturating_mul(MAX_PACKED) || length > FULL + MAX_NAME + 64 {
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
    let number = entries.byte()?;
    let kind = Kind::ALL.into_iter().find(|&kind| kind_number(kind) == number)?;
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
