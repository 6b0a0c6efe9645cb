//! One call after the other.

use crate::event::Outcome;
use crate::preload::Bytes;
use crate::syscalls::Syscall;

/// Instead of a call: how many records before it were lost.
const LOST: usize = u16::MAX as usize;
/// A word that has no number for what is not known.
const UNKNOWN: i64 = i64::MIN;

/// What else a record has.
mod extra {
    pub const PROCESSOR: u8 = 1;
    pub const FIRST_TEXT: u8 = 2;
    pub const SECOND_TEXT: u8 = 4;
    pub const STATUS: u8 = 8;
    pub const PAIR: u8 = 16;
    pub const OTHER_THREAD: u8 = 32;
    pub const UNFINISHED: u8 = 64;
    pub const INFERRED: u8 = 128;
}

/// A call of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// What it is.
    pub call: &'static Syscall,
    /// When it began: `CLOCK_MONOTONIC`, ns.
    pub start_ns: u64,
    /// How long it took, ns. None where it did not return: execve that succeeded, an exit, or a
    /// kill.
    pub duration_ns: Option<u64>,
    /// Processor time that the thread has used since the call before, ns; told only where more than
    /// 20 us have passed.
    pub cpu_ns: Option<u64>,
    /// How it ended. Unknown, with a duration, where libc keeps the value to itself (readdir).
    pub outcome: Outcome,
    /// In the order of the system call, as [`Syscall::arguments`] names them. Of a list of buffers:
    /// how long they are together. Of a pointer to an offset: the offset. None for other pointers,
    /// and for what was not given.
    pub arguments: [Option<i64>; 6],
    /// Names, in the order of the arguments; of getcwd what it has found.
    pub texts: [Option<&'a [u8]>; 2],
    /// The two descriptors that it has made.
    pub pair: Option<[i32; 2]>,
    /// What stat and its like have found.
    pub status: Option<Status>,
    /// The thread, where it is not that of the log: a child of vfork, which has its parent's memory
    /// until it executes a program.
    pub other_thread: Option<u32>,
    /// libc has made the call inside a function of stdio, or of directories: the recorder has seen
    /// what came of it. Several calls of one kind within a function are one, and reads that find
    /// the end of the file are none.
    pub is_inferred: bool,
}

/// Of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Type and permissions: `st_mode`.
    pub mode: u32,
    /// Bytes.
    pub size: u64,
}

/// The records of a log, in the order of their ends; calls that may not return stand where they
/// began.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    calls: Vec<Option<&'static Syscall>>,
    rest: &'a [u8],
    lost: u64,
    unknown: u64,
    cut: Option<u64>,
}

/// What stands in the place of a record.
enum Other {
    Lost(u64),
    UnknownCall,
    Damaged,
}

impl<'a> Records<'a> {
    pub(super) fn new(calls: Vec<Option<&'static Syscall>>, rest: &'a [u8]) -> Self {
        Self {
            calls,
            rest,
            lost: 0,
            unknown: 0,
            cut: None,
        }
    }

    /// Records that the recorder could not write, as far as has been read: the disk was full, or a
    /// signal came while another one was written.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Calls that nobody knew when this was written, as far as has been read: left out.
    pub fn unknown_calls(&self) -> u64 {
        self.unknown
    }

    /// Bytes behind a record that is none: what follows it cannot be read.
    pub fn cut_bytes(&self) -> Option<u64> {
        self.cut
    }

    /// The next record's bytes, at least four words. None at the end, also one that makes no sense.
    fn whole(&mut self) -> Option<&'a [u8]> {
        let Some(first) = Bytes(self.rest).u64() else {
            self.stop();
            return None;
        };
        if first == 0 {
            // What follows was reserved, and never written.
            self.rest = &[];
            return None;
        }
        let length = (first & 0xffff) as usize * 8;
        let Some((record, rest)) = self.rest.split_at_checked(length).filter(|_| length >= 32) else {
            self.stop();
            return None;
        };
        self.rest = rest;
        Some(record)
    }

    fn stop(&mut self) {
        if !self.rest.is_empty() {
            self.cut = Some(self.rest.len() as u64);
            self.rest = &[];
        }
    }

    fn read(&self, record: &'a [u8]) -> Result<Record<'a>, Other> {
        let mut words = Bytes(record);
        let [_, _, low, high, errno_low, errno_high, given, extras] = words.array().ok_or(Other::Damaged)?;
        let number = usize::from(u16::from_le_bytes([low, high]));
        let errno = u16::from_le_bytes([errno_low, errno_high]);
        let mut times = || Some((words.u64()?, words.u64()?, words.i64()?));
        let (start_ns, duration_ns, value) = times().ok_or(Other::Damaged)?;
        if number == LOST {
            return Err(Other::Lost(value.cast_unsigned()));
        }
        let call = *self.calls.get(number).ok_or(Other::Damaged)?;
        let call = call.ok_or(Other::UnknownCall)?;
        let has = |bit: u8| extras & bit != 0;
        let outcome = match (has(extra::UNFINISHED), errno, value) {
            (true, ..) | (_, 0, UNKNOWN) => Outcome::Unknown,
            (_, 0, _) => Outcome::Returned(value),
            _ => Outcome::Failed(errno),
        };
        let mut found = Record {
            call,
            start_ns,
            duration_ns: (!has(extra::UNFINISHED)).then_some(duration_ns),
            cpu_ns: None,
            outcome,
            arguments: [None; 6],
            texts: [None; 2],
            pair: None,
            status: None,
            other_thread: None,
            is_inferred: has(extra::INFERRED),
        };
        // Times that no clock shows would overflow sums.
        let end_ns = start_ns.checked_add(duration_ns).map(i64::try_from);
        let is_whole = found.fill(&mut words, given, extras).is_some();
        match end_ns {
            Some(Ok(_)) if is_whole => Ok(found),
            _ => Err(Other::Damaged),
        }
    }
}

impl<'a> Record<'a> {
    /// When it ended, ns; its start where it did not.
    pub fn end_ns(&self) -> u64 {
        self.start_ns + self.duration_ns.unwrap_or(0)
    }

    fn fill(&mut self, words: &mut Bytes<'a>, given: u8, extras: u8) -> Option<()> {
        let has = |bit: u8| extras & bit != 0;
        if has(extra::PROCESSOR) {
            self.cpu_ns = Some(words.u64()?);
        }
        if has(extra::OTHER_THREAD) {
            self.other_thread = Some(words.u64()?.try_into().ok()?);
        }
        for (place, argument) in self.arguments.iter_mut().enumerate() {
            if given & 1 << place != 0 {
                *argument = Some(words.i64()?);
            }
        }
        if has(extra::STATUS) {
            let mode = words.u64()?.try_into().ok()?;
            self.status = Some(Status {
                mode,
                size: words.u64()?,
            });
        }
        if has(extra::PAIR) {
            self.pair = Some([words.u32()?.cast_signed(), words.u32()?.cast_signed()]);
        }
        for (place, bit) in [extra::FIRST_TEXT, extra::SECOND_TEXT].into_iter().enumerate() {
            if has(bit) {
                let length = words.u64()?.try_into().ok()?;
                self.texts[place] = Some(words.padded(length)?);
            }
        }
        // Words that nothing has told of: it is damaged.
        words.0.is_empty().then_some(())
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        loop {
            let before = self.rest;
            let record = self.whole()?;
            match self.read(record) {
                Ok(record) => return Some(record),
                Err(Other::Lost(count)) => self.lost = self.lost.saturating_add(count),
                Err(Other::UnknownCall) => self.unknown += 1,
                Err(Other::Damaged) => {
                    self.rest = before;
                    self.stop();
                    return None;
                }
            }
        }
    }
}
