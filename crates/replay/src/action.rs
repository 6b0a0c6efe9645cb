//! One action of a worker: a call, in 104 bytes.

use plimsoll_trace::cost::Slower;
use plimsoll_trace::event::{OpenId, PathId};

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident $text:literal;)*) => {
        /// A call that is performed, or an action that replaces a call.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Operation {
            $($(#[$doc])* $name,)*
        }

        impl Operation {
            /// All operations. The index of each is its number.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Name in results: the name of the call on x86-64, or a word for an operation that is
            /// not a call.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

operations! {
    /// open(2) and similar calls, by openat2(2).
    Open "open";
    /// `memfd_create(2)`.
    Memory "memfd_create";
    /// close(2).
    Close "close";
    /// The last descriptor of an open file was closed without close(2): by execve, exit or dup2.
    Release "released";
    /// dup(2) and similar calls.
    Dup "dup";
    /// read(2).
    Read "read";
    /// readv(2).
    Readv "readv";
    /// pread(2).
    Pread "pread64";
    /// preadv(2).
    Preadv "preadv";
    /// preadv2(2).
    Preadv2 "preadv2";
    /// write(2).
    Write "write";
    /// writev(2).
    Writev "writev";
    /// pwrite(2).
    Pwrite "pwrite64";
    /// pwritev(2).
    Pwritev "pwritev";
    /// pwritev2(2).
    Pwritev2 "pwritev2";
    /// sendfile(2) from file to file.
    Sendfile "sendfile";
    /// `copy_file_range(2)`.
    CopyRange "copy_file_range";
    /// ioctl(2) with `FICLONE` or `FICLONERANGE`.
    Clone "ioctl (FICLONE)";
    /// `copy_file_range(2)` instead of a clone, on a file system that cannot share storage.
    CloneByCopy "copy_file_range (for FICLONE)";
    /// A read of data that sendfile or splice copies to a socket or pipe.
    SendOut "sendfile (out)";
    /// A write of data that splice takes from a pipe.
    TakeIn "splice (in)";
    /// getdents64(2).
    List "getdents64";
    /// lseek(2).
    Seek "lseek";
    /// truncate(2) and ftruncate(2).
    Truncate "truncate";
    /// fallocate(2).
    Allocate "fallocate";
    /// fsync(2).
    Fsync "fsync";
    /// fdatasync(2).
    Fdatasync "fdatasync";
    /// syncfs(2), and sync(2), of the root's file system.
    Syncfs "syncfs";
    /// `sync_file_range(2)`.
    SyncRange "sync_file_range";
    /// `posix_fadvise(2)`.
    Advise "fadvise64";
    /// readahead(2).
    Readahead "readahead";
    /// mmap(2), replayed as reads of its pages if the user requests it.
    Map "mmap";
    /// stat(2) and similar calls.
    Stat "stat";
    /// statfs(2).
    Statfs "statfs";
    /// access(2).
    Access "access";
    /// readlink(2).
    Readlink "readlink";
    /// getxattr(2).
    Getxattr "getxattr";
    /// listxattr(2).
    Listxattr "listxattr";
    /// chdir(2), replayed as a lookup of the directory.
    Enter "chdir";
    /// mkdir(2).
    Mkdir "mkdir";
    /// mknod(2) of a pipe.
    Mkfifo "mkfifo";
    /// link(2).
    Link "link";
    /// symlink(2).
    Symlink "symlink";
    /// unlink(2).
    Unlink "unlink";
    /// rmdir(2).
    Rmdir "rmdir";
    /// rename(2).
    Rename "rename";
    /// chmod(2).
    Chmod "chmod";
    /// utimensat(2), to the present time.
    Touch "utimensat";
    /// setxattr(2).
    Setxattr "setxattr";
    /// removexattr(2).
    Removexattr "removexattr";
    /// fcntl(2) with `F_SETFL`.
    SetFlags "fcntl";
    /// The time of a call that is not made, spent computing.
    Compute "computing";
    /// The time of a call that waits, spent sleeping unless another worker is waited for.
    Wait "waiting";
    /// The start of another thread.
    Fork "fork";
    /// A call that the sandbox never makes: devices, ownership, mounts.
    Refuse "refused";
}

impl Operation {
    /// Whether it returns a number of bytes that were read or written.
    pub fn moves_data(self) -> bool {
        self.reads() || self.writes()
    }

    /// Whether it reads data. A copy by the kernel both reads and writes.
    pub fn reads(self) -> bool {
        use Operation as O;
        matches!(
            self,
            O::Read
                | O::Readv
                | O::Pread
                | O::Preadv
                | O::Preadv2
                | O::SendOut
                | O::Sendfile
                | O::CopyRange
                | O::CloneByCopy
                | O::Map
        )
    }

    /// Whether it writes data.
    pub fn writes(self) -> bool {
        use Operation as O;
        matches!(
            self,
            O::Write
                | O::Writev
                | O::Pwrite
                | O::Pwritev
                | O::Pwritev2
                | O::TakeIn
                | O::Sendfile
                | O::CopyRange
                | O::CloneByCopy
        )
    }
}

/// The recorded result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedResult(i64);

impl RecordedResult {
    const UNKNOWN: i64 = i64::MIN;

    /// A successful call that returned `value`. A negative value, which a call that returns an
    /// address may have, counts as unknown.
    pub fn returned(value: i64) -> Self {
        Self(if value < 0 { Self::UNKNOWN } else { value })
    }

    /// A call that failed with `errno`.
    pub fn failed(errno: u16) -> Self {
        Self(-i64::from(errno))
    }

    /// A call whose result is unknown.
    pub fn unknown() -> Self {
        Self(Self::UNKNOWN)
    }

    /// The value or errno. None if the result is unknown.
    pub fn result(self) -> Option<Result<i64, i32>> {
        match self.0 {
            Self::UNKNOWN => None,
            errno if errno < 0 => Some(Err(-errno as i32)),
            value => Some(Ok(value)),
        }
    }
}

/// Flags of an action.
pub mod mark {
    /// A link at the end of the name is not followed.
    pub const STAY: u16 = 1;
    /// The call has no offset argument: it uses and moves the offset of the open file.
    pub const MOVES: u16 = 2;
    /// As [`MOVES`], of the destination.
    pub const MOVES2: u16 = 4;
    /// The offset of the open file differs from the recorded one: an lseek comes first.
    pub const RESEEK: u16 = 8;
    /// The call closes the last descriptor of the open file.
    pub const LAST: u16 = 16;
    /// Another worker ends this wait: the replay does not sleep.
    pub const CAUSED: u16 = 32;
    /// The opened file is a pipe: it is only located.
    pub const PIPE: u16 = 64;
    /// The call was submitted (`io_submit`): the number of bytes that it moved was not recorded. Of
    /// a wait: it waited for such requests, which are complete in the replay, so the replay does
    /// not sleep.
    pub const HANDED: u16 = 128;
    /// The call is an lseek in a directory. Its result depends on the file system and is not
    /// compared.
    pub const OPAQUE: u16 = 256;
    /// As [`RESEEK`], of the destination.
    pub const RESEEK2: u16 = 512;
}

/// One action of a worker.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Action {
    /// Recorded start, ns since the zero of the trace.
    pub start_ns: i64,
    /// Recorded duration, ns; 0 if it is unknown.
    pub duration_ns: u64,
    /// Recorded processor time between the end of the previous action and the start of this one,
    /// ns. It includes calls between them that are not replayed.
    pub computing_ns: u64,
    /// The rest of that interval, ns.
    pub waiting_ns: u64,
    /// Offset in the file, bytes; -1 if it is unknown.
    pub offset: i64,
    /// Offset in the destination, bytes; -1 if it is unknown.
    pub offset2: i64,
    /// Requested number of bytes, or the new size.
    pub length: u64,
    /// Recorded result.
    pub recorded: RecordedResult,
    /// The open file; none if the call has none.
    pub open: Option<OpenId>,
    /// The open file of the destination; none if the call has none.
    pub open2: Option<OpenId>,
    /// The path; none if the call has none.
    pub path: Option<PathId>,
    /// The second path: target of a link or name of an attribute. Of a fork: the index of the
    /// thread of the worker that begins.
    pub path2: Option<PathId>,
    /// Flags of the call, as on x86-64.
    pub flags: u32,
    /// Permissions of a new file, or the mode of access(2).
    pub mode: u32,
    /// Number of calls between the previous action and this one that are not replayed.
    pub folded: u32,
    /// Additional cost of tracing compared with the calibration.
    pub slower: Slower,
    /// The operation.
    pub operation: Operation,
    /// Bits of [`mark`].
    pub marks: u16,
}

impl Action {
    /// An action without optional values.
    pub fn new(operation: Operation, recorded: RecordedResult) -> Self {
        Self {
            start_ns: 0,
            duration_ns: 0,
            computing_ns: 0,
            waiting_ns: 0,
            offset: -1,
            offset2: -1,
            length: 0,
            recorded,
            open: None,
            open2: None,
            path: None,
            path2: None,
            flags: 0,
            mode: 0,
            folded: 0,
            slower: Slower::default(),
            operation,
            marks: 0,
        }
    }

    /// Whether the action has any bit of `mark`.
    pub fn has(&self, mark: u16) -> bool {
        self.marks & mark != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_has_104_bytes_and_an_operation_its_index_as_number() {
        assert_eq!(size_of::<Action>(), 104);
        for (index, operation) in Operation::ALL.iter().enumerate() {
            assert_eq!(*operation as usize, index);
        }
    }

    #[test]
    fn recorded_results_are_returned_unchanged() {
        assert_eq!(RecordedResult::returned(0).result(), Some(Ok(0)));
        assert_eq!(RecordedResult::failed(2).result(), Some(Err(2)));
        assert_eq!(RecordedResult::unknown().result(), None);
        assert_eq!(RecordedResult::returned(-4096).result(), None);
    }
}
