//! The fields of an event in their order, and the expected value of each. An expected value is not
//! stored.
//!
//! [`walk`] serves both directions: a [`Channel`] that writes compares each field with the expected
//! value, one that reads sets it. So writing and reading cannot differ. The expectations do not
//! depend on the calls that this build knows, only on the rule of a call in the file ([`Rule`]),
//! because another build has another table.
//!
//! Recent values are kept in tables of fixed size; each slot contains the last of the ids that
//! share it. So memory is bounded. If an id loses its slot, its expectation is wrong, which only
//! costs bytes.

use super::bytes::{unzigzag, zigzag};
use crate::event::{Event, FileId, OpenId, Outcome, PathId, ThreadId};
use crate::syscalls::Effect;

/// The fields. The number of a field is that of its bit in a shape and of its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Duration,
    Cpu,
    Open,
    Open2,
    Path,
    Path2,
    File,
    File2,
    Offset,
    Offset2,
    Length,
    Flags,
    Mode,
    Other,
    Thread,
    /// The return value or the error.
    Value,
}

/// The number of fields.
pub(super) const FIELDS: usize = 16;

/// The form of a value in its column if it is not the expected one.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    /// The value itself.
    Plain,
    /// The difference from this base, zigzag-encoded.
    From(u64),
}

impl Form {
    #[inline]
    pub fn put(self, value: u64) -> u64 {
        match self {
            Self::Plain => value,
            Self::From(base) => zigzag(value.wrapping_sub(base) as i64),
        }
    }

    #[inline]
    pub fn take(self, stored: u64) -> u64 {
        match self {
            Self::Plain => stored,
            Self::From(base) => base.wrapping_add(unzigzag(stored) as u64),
        }
    }
}

/// A value that can be stored in a column.
pub(super) trait Word: Copy + PartialEq {
    fn word(self) -> u64;
    /// None if the word is out of range.
    fn from_word(word: u64) -> Option<Self>;
}

macro_rules! words {
    ($($type:ty: $to:expr, $from:expr;)*) => {$(
        impl Word for $type {
            #[inline]
            fn word(self) -> u64 { $to(self) }
            #[inline]
            fn from_word(word: u64) -> Option<Self> { $from(word) }
        }
    )*};
}

words! {
    u64: |value| value, Some;
    i64: |value| value as u64, |word| Some(word as i64);
    u32: u64::from, |word| u32::try_from(word).ok();
    ThreadId: |id: Self| id.index() as u64, |word| Self::new(usize::try_from(word).ok()?);
    PathId: |id: Self| id.index() as u64, |word| Self::new(usize::try_from(word).ok()?);
    FileId: |id: Self| id.index() as u64, |word| Self::new(usize::try_from(word).ok()?);
    OpenId: |id: Self| id.index() as u64, |word| Self::new(usize::try_from(word).ok()?);
}

/// A fault in the data that were read.
pub(super) type Fault = &'static str;

/// Writes fields to columns or reads them.
pub(super) trait Channel {
    fn field<T: Word>(
        &mut self,
        field: Field,
        value: &mut Option<T>,
        expected: Option<T>,
        form: Form,
    ) -> Result<(), Fault>;

    /// The start, which every event has, as the difference from the expected start.
    fn start(&mut self, value: &mut i64, expected: i64) -> Result<(), Fault>;
}

/// The rule of a call in the file, which determines its expectations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// The call does not affect offsets.
    Other = 0,
    /// The call transfers data, usually as many bytes as requested. The next access begins after
    /// them.
    Data = 1,
    /// The call returns the offset of the next access.
    Seek = 2,
}

impl Rule {
    pub fn of(effect: Effect) -> Self {
        match effect {
            Effect::Read | Effect::Write | Effect::Transfer | Effect::Receive | Effect::Send => Self::Data,
            Effect::Seek => Self::Seek,
            _ => Self::Other,
        }
    }

    pub fn from_byte(byte: u8) -> Option<Self> {
        [Self::Other, Self::Data, Self::Seek]
            .get(usize::from(byte))
            .copied()
    }
}

/// Recent values of a thread.
#[derive(Debug, Clone, Copy, Default)]
struct ThreadSlot {
    id: Option<ThreadId>,
    open: Option<OpenId>,
    open2: Option<OpenId>,
    path: Option<PathId>,
    path2: Option<PathId>,
    /// End of its last event.
    end: i64,
}

/// Recent values of an open file.
#[derive(Debug, Clone, Copy, Default)]
struct OpenSlot {
    id: Option<OpenId>,
    file: Option<FileId>,
    /// The offset of the next access if it follows the last one.
    next: i64,
}

/// The file of a path.
#[derive(Debug, Clone, Copy, Default)]
struct PathSlot {
    id: Option<PathId>,
    file: Option<FileId>,
}

/// Recent values of a call, or of a call on one file.
#[derive(Debug, Clone, Copy, Default)]
struct CallSlot {
    call: u32,
    mode: u32,
    subject: u64,
    length: u64,
    flags: u64,
    value: i64,
    error: i64,
}

const THREADS: usize = 256;
const SLOTS: usize = 1024;

/// Recent values in the block.
#[derive(Debug)]
pub(super) struct State {
    thread: Option<ThreadId>,
    start: i64,
    threads: Vec<ThreadSlot>,
    opens: Vec<OpenSlot>,
    paths: Vec<PathSlot>,
    subjects: Vec<CallSlot>,
    calls: Vec<CallSlot>,
    /// The highest numbers so far, plus 1, of threads, open files, paths and files.
    pub next: Next,
}

/// Numbers one above the highest ones, see [`State::next`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Next {
    pub thread: u64,
    pub open: u64,
    pub path: u64,
    pub file: u64,
}

impl State {
    pub fn new() -> Self {
        Self {
            thread: None,
            start: 0,
            threads: vec![ThreadSlot::default(); THREADS],
            opens: vec![OpenSlot::default(); SLOTS],
            paths: vec![PathSlot::default(); SLOTS],
            subjects: vec![CallSlot::default(); SLOTS],
            calls: Vec::new(),
            next: Next::default(),
        }
    }

    /// Resets the state for a new block, because each block can be read without the previous ones.
    pub fn clear(&mut self, calls: usize) {
        self.thread = None;
        self.start = 0;
        self.threads.fill(ThreadSlot::default());
        self.opens.fill(OpenSlot::default());
        self.paths.fill(PathSlot::default());
        self.subjects.fill(CallSlot::default());
        self.calls.clear();
        self.calls.resize(calls, CallSlot::default());
        self.next = Next::default();
    }

    #[inline]
    fn of_thread(&self, id: Option<ThreadId>) -> ThreadSlot {
        let slot = self.threads[slot_index(id, THREADS)];
        if slot.id == id {
            return slot;
        }
        ThreadSlot {
            id,
            end: self.start,
            ..ThreadSlot::default()
        }
    }

    #[inline]
    fn of_open(&self, id: Option<OpenId>) -> OpenSlot {
        let slot = self.opens[slot_index(id, SLOTS)];
        if slot.id == id {
            return slot;
        }
        OpenSlot {
            id,
            ..OpenSlot::default()
        }
    }

    #[inline]
    fn file_of(&self, path: Option<PathId>) -> Option<FileId> {
        let slot = self.paths[slot_index(path, SLOTS)];
        slot.file.filter(|_| path.is_some() && slot.id == path)
    }

    #[inline]
    fn of_call(&self, call: u32, subject: u64) -> CallSlot {
        let slot = self.subjects[subject_slot(call, subject)];
        if (slot.call, slot.subject) == (call, subject) {
            return slot;
        }
        CallSlot {
            call,
            subject,
            ..self.calls[call as usize]
        }
    }
}

#[inline]
fn slot_index<T: Word>(id: Option<T>, slots: usize) -> usize {
    id.map_or(0, |id| id.word() as usize) % slots
}

#[inline]
fn subject_slot(call: u32, subject: u64) -> usize {
    let mixed = (subject ^ (u64::from(call) << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize % SLOTS
}

/// The subject of a call: its file, otherwise its path, otherwise its open file. Each kind has
/// numbers of its own.
#[inline]
fn subject(event: &Event) -> u64 {
    if let Some(file) = event.file {
        return file.word() << 2 | 1;
    }
    if let Some(path) = event.path {
        return path.word() << 2 | 2;
    }
    event.open.map_or(0, |open| open.word() << 2 | 3)
}

#[inline]
fn raise<T: Word>(next: &mut u64, id: Option<T>) {
    if let Some(id) = id {
        *next = (*next).max(id.word() + 1);
    }
}

/// Writes or reads an event. Its call and the kind of its outcome are set already; its times are in
/// units of the block. `call` is the number of the call, below the number that was passed to
/// [`State::clear`].
pub(super) fn walk<C: Channel>(
    channel: &mut C,
    state: &mut State,
    event: &mut Event,
    call: u32,
    rule: Rule,
) -> Result<(), Fault> {
    use Form::{From, Plain};

    let mut thread = Some(event.thread);
    channel.field(Field::Thread, &mut thread, state.thread, Plain)?;
    event.thread = thread.ok_or("an event has no thread")?;
    let own = state.of_thread(thread);
    channel.start(&mut event.start_ns, own.end)?;
    channel.field(Field::Duration, &mut event.duration_ns, None, Plain)?;
    channel.field(Field::Cpu, &mut event.cpu_ns, None, Plain)?;

    channel.field(Field::Open, &mut event.open, own.open, From(state.next.open))?;
    raise(&mut state.next.open, event.open);
    channel.field(Field::Open2, &mut event.open2, own.open2, From(state.next.open))?;
    raise(&mut state.next.open, event.open2);
    channel.field(Field::Path, &mut event.path, own.path, From(state.next.path))?;
    raise(&mut state.next.path, event.path);
    channel.field(Field::Path2, &mut event.path2, own.path2, From(state.next.path))?;
    raise(&mut state.next.path, event.path2);

    let open = state.of_open(event.open);
    let open2 = state.of_open(event.open2);
    let file = state.file_of(event.path).or(open.file);
    channel.field(Field::File, &mut event.file, file, From(state.next.file))?;
    raise(&mut state.next.file, event.file);
    let file = state.file_of(event.path2).or(open2.file);
    channel.field(Field::File2, &mut event.file2, file, From(state.next.file))?;
    raise(&mut state.next.file, event.file2);

    let from = if rule == Rule::Data { open.next as u64 } else { 0 };
    channel.field(Field::Offset, &mut event.offset, Some(open.next), From(from))?;
    channel.field(
        Field::Offset2,
        &mut event.offset2,
        Some(open2.next),
        From(open2.next as u64),
    )?;

    let recent = state.of_call(call, subject(event));
    channel.field(Field::Length, &mut event.length, Some(recent.length), Plain)?;
    channel.field(Field::Flags, &mut event.flags, Some(recent.flags), Plain)?;
    channel.field(Field::Mode, &mut event.mode, Some(recent.mode), Plain)?;
    raise(&mut state.next.thread, thread);
    channel.field(Field::Other, &mut event.other, None, From(state.next.thread))?;
    raise(&mut state.next.thread, event.other);

    outcome(channel, event, rule, recent, open.next)?;
    update(state, event, call, rule, own, open, open2, recent);
    Ok(())
}

#[inline]
fn outcome<C: Channel>(
    channel: &mut C,
    event: &mut Event,
    rule: Rule,
    recent: CallSlot,
    next: i64,
) -> Result<(), Fault> {
    let (mut value, expected, form) = match event.outcome {
        Outcome::Returned(value) => {
            let expected = match (rule, event.length, event.offset, event.flags) {
                (Rule::Data, Some(length), ..) => length as i64,
                // SEEK_SET, SEEK_CUR
                (Rule::Seek, _, Some(offset), Some(0)) => offset,
                (Rule::Seek, _, Some(offset), Some(1)) => next.wrapping_add(offset),
                _ => recent.value,
            };
            let from = if rule == Rule::Data { 0 } else { expected as u64 };
            (Some(value), expected, Form::From(from))
        }
        Outcome::Failed(error) => (Some(i64::from(error)), recent.error, Form::Plain),
        Outcome::Restarted | Outcome::Unknown => (None, 0, Form::Plain),
    };
    channel.field(Field::Value, &mut value, Some(expected), form)?;
    event.outcome = match (event.outcome, value) {
        (Outcome::Returned(_), Some(value)) => Outcome::Returned(value),
        (Outcome::Failed(_), Some(error)) => {
            Outcome::Failed(u16::try_from(error).map_err(|_| "an error number is out of range")?)
        }
        (outcome @ (Outcome::Restarted | Outcome::Unknown), None) => outcome,
        _ => return Err("an outcome and its value do not match"),
    };
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "the values that walk has looked up")]
#[inline]
fn update(
    state: &mut State,
    event: &Event,
    call: u32,
    rule: Rule,
    own: ThreadSlot,
    mut open: OpenSlot,
    mut open2: OpenSlot,
    mut recent: CallSlot,
) {
    state.thread = Some(event.thread);
    state.start = event.start_ns;
    state.threads[slot_index(own.id, THREADS)] = ThreadSlot {
        id: own.id,
        open: event.open.or(own.open),
        open2: event.open2.or(own.open2),
        path: event.path.or(own.path),
        path2: event.path2.or(own.path2),
        end: event.start_ns.wrapping_add(event.duration_ns.unwrap_or(0) as i64),
    };
    for (path, file) in [(event.path, event.file), (event.path2, event.file2)] {
        if path.is_some() && file.is_some() {
            state.paths[slot_index(path, SLOTS)] = PathSlot { id: path, file };
        }
    }
    let value = event.outcome.value();
    for (slot, file, offset) in [
        (&mut open, event.file, event.offset),
        (&mut open2, event.file2, event.offset2),
    ] {
        if slot.id.is_none() {
            continue;
        }
        // If there is a path, the file may be that of the path.
        if event.path.is_none() || slot.file.is_none() {
            slot.file = file.or(slot.file);
        }
        slot.next = match (rule, offset, value) {
            (Rule::Data, Some(offset), _) => offset.wrapping_add(value.unwrap_or(0).max(0)),
            (Rule::Seek, _, Some(value)) => value,
            _ => slot.next,
        };
        state.opens[slot_index(slot.id, SLOTS)] = *slot;
    }
    recent.length = event.length.unwrap_or(recent.length);
    recent.flags = event.flags.unwrap_or(recent.flags);
    recent.mode = event.mode.unwrap_or(recent.mode);
    match event.outcome {
        Outcome::Returned(value) => recent.value = value,
        Outcome::Failed(error) => recent.error = i64::from(error),
        Outcome::Restarted | Outcome::Unknown => {}
    }
    state.subjects[subject_slot(call, recent.subject)] = recent;
    state.calls[call as usize] = recent;
}
