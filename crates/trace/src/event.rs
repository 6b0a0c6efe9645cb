//! The core type: a call as the trace file holds it, whatever source it was recorded by.
//!
//! Names are joined, descriptors are resolved to open files and files, and offsets are known where
//! they can be: who reads a trace needs no table of descriptors and no working directory.

use std::num::NonZeroU32;

use crate::constants::FUTEX_COMMAND;
use crate::syscalls::Syscall;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(NonZeroU32);

        impl $name {
            /// By its place in its table, from 0. None past the most that there can be.
            pub fn new(index: usize) -> Option<Self> {
                let number = u32::try_from(index).ok()?.checked_add(1)?;
                NonZeroU32::new(number).map(Self)
            }

            /// Its place in its table.
            pub fn index(self) -> usize {
                self.0.get() as usize - 1
            }
        }
    )*};
}

ids! {
    /// A thread of a trace: its place in [`crate::names::Names::threads`]. Process ids are given
    /// out again, these are not.
    ThreadId;
    /// A name of a file: its place in [`crate::names::Names::paths`].
    PathId;
    /// A file, whatever its names (an inode): its place in [`crate::names::Names::files`].
    FileId;
    /// An open file (open(2): "open file description"), shared by the descriptors that dup, fork
    /// and execve make of one. Counted from 0 in the order of their opening; none is given out
    /// again.
    OpenId;
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// With this value.
    Returned(i64),
    /// With this error: errno of Linux, 1..=4095.
    Failed(u16),
    /// A signal came; the kernel makes the same call again, which is an event of its own.
    Restarted,
    /// It did not return, or nobody saw it.
    Unknown,
}

impl Outcome {
    /// What the call returned, where it succeeded.
    pub fn value(self) -> Option<i64> {
        match self {
            Self::Returned(value) => Some(value),
            _ => None,
        }
    }
}

/// What a futex(2) does to those who sleep at its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Futex {
    /// One more sleeps: `FUTEX_WAIT`, `FUTEX_LOCK_PI` and the like.
    Sleeps,
    /// Some are woken: `FUTEX_WAKE`, and what wakes some and lets others sleep elsewhere.
    Wakes,
}

/// A call that has ended, or never did. Fields that a call does not have, or that are not known,
/// are None.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// Who made it.
    pub thread: ThreadId,
    /// What it is.
    pub call: &'static Syscall,
    /// When it began: ns since the zero of the trace.
    pub start_ns: i64,
    /// How long it took, as recorded: the cost of tracing is in it.
    pub duration_ns: Option<u64>,
    /// Processor time that the thread has used since the event before it: ns. The preload recorder
    /// measures it where that was long; of strace on one core it is inferred where others may have
    /// had the core, and the cost of tracing is in it.
    pub cpu_ns: Option<u64>,
    /// How it ended.
    pub outcome: Outcome,
    /// The open file of its first descriptor, or the one that it has made. Of data that go from
    /// file to file: where from.
    pub open: Option<OpenId>,
    /// Where data go to (sendfile, `copy_file_range`, splice); the second end of a pipe.
    pub open2: Option<OpenId>,
    /// The file of `open`, or what `path` stood for when the call ended.
    pub file: Option<FileId>,
    /// The same of `open2` and `path2`.
    pub file2: Option<FileId>,
    /// Its first name.
    pub path: Option<PathId>,
    /// Its second one: of link and rename; the target of symlink as it was written; that which
    /// readlink has found, where the source tells it; the name of an extended attribute.
    pub path2: Option<PathId>,
    /// Where in the file data begin, given or as the open file stood. Of lseek: what was asked. Of
    /// mmap: where the range begins. Of futex: the address.
    pub offset: Option<i64>,
    /// The same of `open2`.
    pub offset2: Option<i64>,
    /// How many bytes were asked for. Of truncate: the new size. Of stat and its like: the size
    /// that they have found. Of close: descriptors that the open file still has. Of `io_submit`:
    /// requests that are told behind it.
    pub length: Option<u64>,
    /// The number that the call takes as flags on x86-64: `O_*`, `AT_*`, `RENAME_*`, `FALLOC_*`,
    /// `MAP_*`, RWF_*; whence of lseek; the advice of fadvise; the command of fcntl, ioctl, flock,
    /// futex.
    pub flags: Option<u64>,
    /// Permissions that are asked for. Of stat and its like: type and permissions that they have
    /// found. Of mmap: protection.
    pub mode: Option<u32>,
    /// The thread that it has made, or waited for.
    pub other: Option<ThreadId>,
}

impl Event {
    /// Without anything that a call need not have.
    pub fn new(thread: ThreadId, call: &'static Syscall, start_ns: i64, outcome: Outcome) -> Self {
        Self {
            thread,
            call,
            start_ns,
            outcome,
            duration_ns: None,
            cpu_ns: None,
            open: None,
            open2: None,
            file: None,
            file2: None,
            path: None,
            path2: None,
            offset: None,
            offset2: None,
            length: None,
            flags: None,
            mode: None,
            other: None,
        }
    }

    /// What it does where it is a futex(2); none of other calls, where the source does not tell,
    /// and of what does neither.
    pub fn futex(&self) -> Option<Futex> {
        if !matches!(self.call.name, "futex" | "futex_time64") {
            return None;
        }
        match self.flags? & FUTEX_COMMAND {
            0 | 6 | 9 | 11 | 13 => Some(Futex::Sleeps),
            1 | 3 | 4 | 5 | 10 | 12 => Some(Futex::Wakes),
            _ => None,
        }
    }

    /// When it ended, as recorded: ns since the zero of the trace. Its start where it is not known
    /// how long it took.
    pub fn end_ns(&self) -> i64 {
        let duration = self.duration_ns.unwrap_or(0);
        self.start_ns
            .saturating_add(i64::try_from(duration).unwrap_or(i64::MAX))
    }
}
