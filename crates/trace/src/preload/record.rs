//! Reads the records of a log in order.

use plimsoll_preload_log::{ABSENT, LOST, extra};

use crate::event::Outcome;
use crate::preload::Bytes;
use crate::syscalls::Syscall;

/// A call of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// The system call.
    pub call: &'static Syscall,
    /// Start: `CLOCK_MONOTONIC`, ns.
    pub start_ns: u64,
    /// Duration, ns. None if the call did not return: a successful execve, an exit, or a kill.
    pub duration_ns: Option<u64>,
    /// Processor time of the thread since the previous call, ns. It is recorded only if more than
    /// 20 us have passed.
    pub cpu_ns: Option<u64>,
    /// The outcome. It is unknown, with a duration, if only libc knows the value (readdir).
    pub outcome: Outcome,
    /// The arguments in the order of the system call, with the kinds of [`Syscall::arguments`]. For
    /// a list of buffers: their total length. For a pointer to an offset: the offset. None for
    /// other pointers and for absent arguments.
    pub arguments: [Option<i64>; 6],
    /// The texts in the order of the arguments; for getcwd the result.
    pub texts: [Option<&'a [u8]>; 2],
    /// The two descriptors that the call made.
    pub pair: Option<[i32; 2]>,
    /// The result of stat and its variants.
    pub status: Option<Status>,
    /// The thread if it is not that of the log: a child of vfork, which shares the memory of its
    /// parent until it executes a program.
    pub other_thread: Option<u32>,
    /// The call was made by libc inside a function of stdio or of directories, and was inferred
    /// from its effect. Several calls of one kind within a function are one record, and reads that
    /// find the end of the file have none.
    pub is_inferred: bool,
}

/// The attributes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Type and permissions: `st_mode`.
    pub mode: u32,
    /// Size in bytes.
    pub size: u64,
}

/// The records of a log, in the order of their ends. Calls that may not return are at the position
/// of their start.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    calls: Vec<Option<&'static Syscall>>,
    remaining: &'a [u8],
    lost: u64,
    unknown: u64,
    cut: Option<u64>,
}

/// An item of the log that is not a record.
enum NotARecord {
    Lost(u64),
    UnknownCall,
    Damaged,
}

impl<'a> Records<'a> {
    pub(super) fn new(calls: Vec<Option<&'static Syscall>>, remaining: &'a [u8]) -> Self {
        Self {
            calls,
            remaining,
            lost: 0,
            unknown: 0,
            cut: None,
        }
    }

    /// Number of records so far that the recorder could not write, because the disk was full or
    /// because a signal interrupted the writing of another record.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Number of calls so far that were left out because this version does not know them.
    pub fn unknown_calls(&self) -> u64 {
        self.unknown
    }

    /// Number of bytes from the first malformed record on. They cannot be read.
    pub fn cut_bytes(&self) -> Option<u64> {
        self.cut
    }

    /// The bytes of the next record, at least four words. None at the end, and if the length is
    /// malformed.
    fn next_bytes(&mut self) -> Option<&'a [u8]> {
        let Some(first) = Bytes(self.remaining).u64() else {
            self.stop();
            return None;
        };
        if first == 0 {
            // The remaining space was reserved and never written.
            self.remaining = &[];
            return None;
        }
        let length = (first & 0xffff) as usize * 8;
        let Some((record, remaining)) = self.remaining.split_at_checked(length).filter(|_| length >= 32)
        else {
            self.stop();
            return None;
        };
        self.remaining = remaining;
        Some(record)
    }

    fn stop(&mut self) {
        if !self.remaining.is_empty() {
            self.cut = Some(self.remaining.len() as u64);
            self.remaining = &[];
        }
    }

    fn read(&self, record: &'a [u8]) -> Result<Record<'a>, NotARecord> {
        let mut words = Bytes(record);
        let [_, _, low, high, errno_low, errno_high, present, extras] =
            words.array().ok_or(NotARecord::Damaged)?;
        let number = u16::from_le_bytes([low, high]);
        let errno = u16::from_le_bytes([errno_low, errno_high]);
        let mut times = || Some((words.u64()?, words.u64()?, words.i64()?));
        let (start_ns, duration_ns, value) = times().ok_or(NotARecord::Damaged)?;
        if number == LOST {
            return Err(NotARecord::Lost(value.cast_unsigned()));
        }
        let call = *self.calls.get(usize::from(number)).ok_or(NotARecord::Damaged)?;
        let call = call.ok_or(NotARecord::UnknownCall)?;
        let has = |bit: u8| extras & bit != 0;
        let outcome = match (has(extra::UNFINISHED), errno, value) {
            (true, ..) | (_, 0, ABSENT) => Outcome::Unknown,
            (_, 0, _) => Outcome::Returned(value),
            _ => Outcome::Failed(errno),
        };
        let mut result = Record {
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
        // Times out of the range of a clock would overflow sums.
        let end_ns = start_ns.checked_add(duration_ns).map(i64::try_from);
        let is_whole = result.fill(&mut words, present, extras).is_some();
        match end_ns {
            Some(Ok(_)) if is_whole => Ok(result),
            _ => Err(NotARecord::Damaged),
        }
    }
}

impl<'a> Record<'a> {
    /// End, ns; the start if the call did not return.
    pub fn end_ns(&self) -> u64 {
        self.start_ns + self.duration_ns.unwrap_or(0)
    }

    fn fill(&mut self, words: &mut Bytes<'a>, present: u8, extras: u8) -> Option<()> {
        let has = |bit: u8| extras & bit != 0;
        if has(extra::PROCESSOR) {
            self.cpu_ns = Some(words.u64()?);
        }
        if has(extra::OTHER_THREAD) {
            self.other_thread = Some(words.u64()?.try_into().ok()?);
        }
        for (index, argument) in self.arguments.iter_mut().enumerate() {
            if present & 1 << index != 0 {
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
        for (index, bit) in [extra::FIRST_TEXT, extra::SECOND_TEXT].into_iter().enumerate() {
            if has(bit) {
                let length = words.u64()?.try_into().ok()?;
                self.texts[index] = Some(words.padded(length)?);
            }
        }
        // Additional words mean that the record is damaged.
        words.0.is_empty().then_some(())
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        loop {
            let before = self.remaining;
            let record = self.next_bytes()?;
            match self.read(record) {
                Ok(record) => return Some(record),
                Err(NotARecord::Lost(count)) => self.lost = self.lost.saturating_add(count),
                Err(NotARecord::UnknownCall) => self.unknown += 1,
                Err(NotARecord::Damaged) => {
                    self.remaining = before;
                    self.stop();
                    return None;
                }
            }
        }
    }
}
