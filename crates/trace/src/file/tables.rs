//! The tables to which the ids of events refer, as entries that are appended or that replace an
//! earlier entry.
//!
//! An entry refers only to earlier entries, so a reader can check it immediately.

use std::io::{self, Write};

use zstd::bulk::{Compressor, Decompressor};

use super::block::compress;
use super::bytes::{Bytes, put};
use super::frame::{self, Frames};
use super::walk::{Fault, Next, Rule};
use super::{FileError, MAX_NAME};
use crate::event::{FileId, PathId, ThreadId};
use crate::names::{FileEntry, Kind, Names, ThreadEntry};
use crate::syscalls::{self, Syscall};

/// The first byte of an entry: its kind.
mod entry {
    pub const PATH: u8 = 0;
    pub const FILE: u8 = 1;
    pub const THREAD: u8 = 2;
    pub const CALL: u8 = 3;
    pub const FILE_CHANGED: u8 = 4;
    pub const THREAD_CHANGED: u8 = 5;
}

/// A frame of entries is written when it reaches this length, bytes.
const FRAME_BYTES: usize = 1 << 18;
/// Maximum compression ratio of a frame of entries. Without a limit a few bytes could expand to all
/// memory.
const MAX_RATIO: usize = 64;
/// Level of zstd. Level 6 saves 1 to 3 % of most trace files, and 8 % of one that consists mainly
/// of paths. It takes a third of the work of the writing thread if there are many paths.
const LEVEL: i32 = 3;

/// Number of entries in the tables of paths, files and threads.
pub(super) type Lengths = [usize; 3];

/// The lengths of the tables.
pub(super) fn lengths(names: &Names) -> Lengths {
    [names.paths().len(), names.files().len(), names.threads().len()]
}

/// Checks that the tables contain all entries to which events refer.
pub(super) fn check_lengths([paths, files, threads]: Lengths, next: Next) -> Result<(), FileError> {
    for (next, entries) in [(next.path, paths), (next.file, files), (next.thread, threads)] {
        if next > entries as u64 {
            let (id, entries) = (next - 1, entries as u64);
            return Err(FileError::Stray { id, entries });
        }
    }
    Ok(())
}

/// Encoded entries that are to be written.
#[derive(Debug, Default)]
pub(super) struct Entries {
    bytes: Vec<u8>,
    /// The offsets at which frames end. The last frame ends with the bytes.
    ends: Vec<usize>,
}

impl Entries {
    /// Ends an entry, and a frame if it is long enough.
    fn end_entry(&mut self) {
        if self.bytes.len() - self.ends.last().copied().unwrap_or(0) >= FRAME_BYTES {
            self.ends.push(self.bytes.len());
        }
    }
}

/// Writes entries in frames.
pub(super) struct Packer {
    compressor: Compressor<'static>,
}

impl Packer {
    pub fn new() -> io::Result<Self> {
        let compressor = Compressor::new(LEVEL)?;
        Ok(Self { compressor })
    }

    /// Writes the entries and removes them. `body` is a buffer for the frames.
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
        if packed >= entries.len() || packed * MAX_RATIO < entries.len() {
            body.truncate(begin);
            body.extend_from_slice(entries);
        }
        out.write(frame::kind::NAMES, body)
    }
}

/// Encodes new and changed entries of the tables.
#[derive(Default)]
pub(super) struct Writer {
    written: Lengths,
    calls: usize,
    /// The number of each call, by its index among all calls.
    numbers: Vec<Option<usize>>,
    known: Vec<&'static Syscall>,
}

impl Writer {
    /// The number of a call in this file.
    pub fn number(&mut self, call: &'static Syscall) -> u32 {
        let index = call.index();
        let is_same = |number: &usize| std::ptr::eq(self.known[*number], call);
        if let Some(number) = self.numbers.get(index).copied().flatten().filter(is_same) {
            return number as u32;
        }
        // A call that is not in the table of this build has an index of another call; it is found
        // by its address.
        let number = (0..self.known.len()).find(is_same);
        let number = number.unwrap_or_else(|| {
            self.known.push(call);
            self.known.len() - 1
        });
        self.numbers.resize(self.numbers.len().max(index + 1), None);
        self.numbers[index] = Some(number);
        number as u32
    }

    /// The number of calls that have a number.
    pub fn calls(&self) -> usize {
        self.known.len()
    }

    /// Encodes the entries that were added or changed since the previous call.
    pub fn add_entries(&mut self, names: &mut Names, entries: &mut Entries) -> Result<(), FileError> {
        // Tables only grow, so shorter ones belong to another trace.
        let now = lengths(names);
        for (written, length) in self.written.into_iter().zip(now) {
            if let Some(last) = written.checked_sub(1) {
                check_entry(last, length)?;
            }
        }
        let [paths, files, _] = self.written;
        let (changed_files, changed_threads) = names.take_changed();
        for path in &names.paths()[paths..] {
            if path.len() > MAX_NAME {
                return Err(FileError::LongName(path.len()));
            }
            entries.bytes.push(entry::PATH);
            put(&mut entries.bytes, path.len() as u64);
            entries.bytes.extend_from_slice(path);
            entries.end_entry();
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
        self.add_thread_entries(names, changed_threads.into_iter(), entries)?;
        for call in &self.known[self.calls..] {
            entries.bytes.extend([entry::CALL, Rule::of(call.effect) as u8]);
            put(&mut entries.bytes, call.name.len() as u64);
            entries.bytes.extend_from_slice(call.name.as_bytes());
            entries.end_entry();
        }
        self.written = now;
        self.calls = self.known.len();
        Ok(())
    }

    fn add_thread_entries(
        &mut self,
        names: &Names,
        changed: impl Iterator<Item = ThreadId>,
        entries: &mut Entries,
    ) -> Result<(), FileError> {
        let [_, _, written] = self.written;
        let mut later: Vec<ThreadId> = changed.filter(|id| id.index() < written).collect();
        for (number, thread) in names.threads().iter().enumerate().skip(written) {
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
                check_entry(parent.index(), names.threads().len())?;
            }
            entries.bytes.push(entry::THREAD_CHANGED);
            put(&mut entries.bytes, id.index() as u64);
            put_thread(entries, thread);
        }
        Ok(())
    }
}

fn put_file(entries: &mut Entries, file: FileEntry, names: &Names) -> Result<(), FileError> {
    check_entry(file.path.index(), names.paths().len())?;
    entries.bytes.push(kind_number(file.kind));
    put(&mut entries.bytes, file.path.index() as u64);
    entries.end_entry();
    Ok(())
}

fn put_thread(entries: &mut Entries, thread: &ThreadEntry) {
    let parent = thread.parent.map_or(0, |parent| parent.index() as u64 + 1);
    for number in [u64::from(thread.tid), u64::from(thread.pid), parent] {
        put(&mut entries.bytes, number);
    }
    entries.end_entry();
}

fn check_entry(index: usize, entries: usize) -> Result<(), FileError> {
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

/// A call in the table of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub rule: Rule,
    /// None if this build does not know the call.
    pub call: Option<&'static Syscall>,
}

/// The tables of a file, as read so far.
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

    /// Reads the body of a frame of names.
    pub fn take(&mut self, body: &[u8]) -> Result<(), Fault> {
        let mut packed = Bytes(body);
        let length = packed.size().ok_or("a frame of names ends within its head")?;
        if packed.0.len() == length {
            return add(&mut self.names, &mut self.calls, packed);
        }
        if length > packed.0.len().saturating_mul(MAX_RATIO) || length > FRAME_BYTES + MAX_NAME + 64 {
            return Err("a frame of names exceeds the maximum compression ratio or length");
        }
        self.raw.resize(length, 0);
        let written = self
            .decompressor
            .decompress_to_buffer(packed.0, self.raw.as_mut_slice());
        if !written.is_ok_and(|written| written == length) {
            return Err("a frame of names cannot be decompressed");
        }
        add(&mut self.names, &mut self.calls, Bytes(&self.raw))
    }
}

fn add(names: &mut Names, calls: &mut Vec<Call>, mut entries: Bytes<'_>) -> Result<(), Fault> {
    while !entries.is_empty() {
        read_entry(names, calls, &mut entries).ok_or("an entry of a table is malformed")?;
    }
    // A reader needs no list of changes.
    names.take_changed();
    Ok(())
}

/// Reads an entry. None if it is incomplete or refers to a missing entry.
fn read_entry(names: &mut Names, calls: &mut Vec<Call>, entries: &mut Bytes<'_>) -> Option<()> {
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
