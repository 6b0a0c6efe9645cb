//! The core type: a call as the trace file stores it, independent of the recorder.
//!
//! Paths are joined with the working directory, descriptors are resolved to open files and files,
//! and offsets are known where possible. So a reader needs no table of descriptors and no working
//! directory.

use std::num::NonZeroU32;

use crate::constants::FUTEX_COMMAND;
use crate::syscalls::Syscall;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(NonZeroU32);

        impl $name {
            /// The id of an index in its table, from 0. None if the index exceeds the maximum, 2³²
            /// − 2.
            pub fn new(index: usize) -> Option<Self> {
                let number = u32::try_from(index).ok()?.checked_add(1)?;
                NonZeroU32::new(number).map(Self)
            }

            /// The index in its table, from 0.
            pub fn index(self) -> usize {
                self.0.get() as usize - 1
            }
        }
    )*};
}

ids! {
    /// A thread of a trace: its index in [`crate::names::Names::threads`]. The kernel reuses
    /// process ids; these ids are unique in a trace.
    ThreadId;
    /// A path: its index in [`crate::names::Names::paths`].
    PathId;
    /// A file (an inode), which may have several paths: its index in
    /// [`crate::names::Names::files`].
    FileId;
    /// An open file (open(2): "open file description"). Descriptors that are made from one another
    /// by dup, fork and execve share it. The ids count from 0 in the order of opening and are not
    /// reused.
    OpenId;
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The call returned this value.
    Returned(i64),
    /// The call failed with this error: errno of Linux, 1 to 4095.
    Failed(u16),
    /// A signal interrupted the call. The kernel makes it again, which is another event.
    Restarted,
    /// The call did not return, or its result was not recorded.
    Unknown,
}

impl Outcome {
    /// The return value of a successful call.
    pub fn value(self) -> Option<i64> {
        match self {
            Self::Returned(value) => Some(value),
            _ => None,
        }
    }
}

/// The effect of a futex(2) on threads that sleep at its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Futex {
    /// The calling thread sleeps: `FUTEX_WAIT`, `FUTEX_LOCK_PI` and their variants.
    Sleeps,
    /// Threads are woken: `FUTEX_WAKE`, and commands that also move other sleepers to another
    /// address.
    Wakes,
}

/// A call, complete or not. A field is None if the call does not have it or if it is unknown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// The thread that made the call.
    pub thread: ThreadId,
    /// The system call.
    pub call: &'static Syscall,
    /// Start: ns since the zero of the trace.
    pub start_ns: i64,
    /// Duration as recorded, ns. It includes the tracing cost.
    pub duration_ns: Option<u64>,
    /// Processor time of the thread since its previous event, ns. The preload recorder measures it
    /// if that interval was long. In a trace of strace on one core it is inferred if other threads
    /// may have used the core; it then includes the tracing cost.
    pub cpu_ns: Option<u64>,
    /// The outcome of the call.
    pub outcome: Outcome,
    /// The open file of the first descriptor, or the one that the call opened. For a transfer from
    /// file to file: the source.
    pub open: Option<OpenId>,
    /// The target of a transfer (sendfile, `copy_file_range`, splice); the second end of a pipe.
    pub open2: Option<OpenId>,
    /// The file of `open`, or the one to which `path` referred when the call ended.
    pub file: Option<FileId>,
    /// The file of `open2` or `path2`.
    pub file2: Option<FileId>,
    /// The first path.
    pub path: Option<PathId>,
    /// The second path of link and rename; the target of symlink as it was written; the target that
    /// readlink returned, if the recorder reports it; the name of an extended attribute.
    pub path2: Option<PathId>,
    /// The offset in the file at which the data begin: that of the call, or the position of the
    /// open file. For lseek: the requested offset. For mmap: the start of the range. For futex: the
    /// address.
    pub offset: Option<i64>,
    /// The offset in the file of `open2`.
    pub offset2: Option<i64>,
    /// The requested number of bytes. For truncate: the new size. For stat and its variants: the
    /// size that they returned. For close: the number of descriptors that the open file still has.
    /// For `io_submit`: the number of requests, which follow as events of their own.
    pub length: Option<u64>,
    /// The flags of the call, as on x86-64: `O_*`, `AT_*`, `RENAME_*`, `FALLOC_*`, `MAP_*`,
    /// `RWF_*`; whence of lseek; the advice of fadvise; the command of fcntl, ioctl, flock and
    /// futex.
    pub flags: Option<u64>,
    /// The requested permissions. For stat and its variants: the type and permissions that they
    /// returned. For mmap: the protection.
    pub mode: Option<u32>,
    /// The thread that the call created or waited for.
    pub other: Option<ThreadId>,
}

impl Event {
    /// An event without optional fields.
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

    /// The effect of a futex(2). None for other calls, for a command without such an effect, and if
    /// the recorder does not report the command.
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

    /// End as recorded: ns since the zero of the trace. If the duration is unknown, the start.
    pub fn end_ns(&self) -> i64 {
        let duration = self.duration_ns.unwrap_or(0);
        self.start_ns
            .saturating_add(i64::try_from(duration).unwrap_or(i64::MAX))
    }
}
