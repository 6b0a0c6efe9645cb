//! What a worker does: one call, in 96 bytes.

use plimsoll_trace::cost::Slower;
use plimsoll_trace::event::{OpenId, PathId};

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident $text:literal;)*) => {
        /// A call that is performed, or what stands for one that is not.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Operation {
            $($(#[$doc])* $name,)*
        }

        impl Operation {
            /// All of them, each at the place of its number.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// As results call it: the call's own name on x86-64, or a word for what is no call.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

operations! {
    /// open(2) and its kind, by openat2(2).
    Open "open";
    /// `memfd_create(2)`.
    Memory "memfd_create";
    /// close(2).
    Close "close";
    /// The last descriptor is gone without a close: execve, exit, dup2.
    Release "released";
    /// dup(2) and its kind.
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
    /// The same by `copy_file_range(2)`, where the file system cannot share storage.
    CloneByCopy "copy_file_range (for FICLONE)";
    /// Data that leave the files: sendfile or splice to a socket or pipe. A read.
    SendOut "sendfile (out)";
    /// Data that come from a pipe: splice. A write.
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
    /// mmap(2), as reads of its pages where that is asked for.
    Map "mmap";
    /// stat(2) and its kind.
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
    /// chdir(2): looks the directory up.
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
    /// utimensat(2), to the present.
    Touch "utimensat";
    /// setxattr(2).
    Setxattr "setxattr";
    /// removexattr(2).
    Removexattr "removexattr";
    /// fcntl(2) with `F_SETFL`.
    SetFlags "fcntl";
    /// No call, but the time of one: it is computed as long.
    Compute "computing";
    /// No call, but the time of one that waits: slept, unless another worker is waited for.
    Wait "waiting";
    /// Another thread begins.
    Fork "fork";
    /// What the sandbox never does: devices, ownership, mounts.
    Refuse "refused";
}

impl Operation {
    /// Whether what it returns is a number of bytes that were read or written.
    pub fn moves_data(self) -> bool {
        self.reads() || self.writes()
    }

    /// Whether it reads data. What the kernel copies is read and written.
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

/// How a recorded call has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded(i64);

impl Recorded {
    const UNKNOWN: i64 = i64::MIN;

    /// With a value. Those of calls that give addresses may look negative, and count as not known.
    pub fn returned(value: i64) -> Self {
        Self(if value < 0 { Self::UNKNOWN } else { value })
    }

    /// With an error.
    pub fn failed(errno: u16) -> Self {
        Self(-i64::from(errno))
    }

    /// Nobody knows.
    pub fn unknown() -> Self {
        Self(Self::UNKNOWN)
    }

    /// The value, or errno; None where nobody knows.
    pub fn said(self) -> Option<Result<i64, i32>> {
        match self.0 {
            Self::UNKNOWN => None,
            errno if errno < 0 => Some(Err(-errno as i32)),
            value => Some(Ok(value)),
        }
    }
}

/// Something small that an action says of itself.
pub mod mark {
    /// Links are not followed at the end of the name.
    pub const STAY: u16 = 1;
    /// It has no given offset: it goes on where the open file stands.
    pub const MOVES: u16 = 2;
    /// The same of where data go to.
    pub const MOVES2: u16 = 4;
    /// The open file stands elsewhere than it did: an lseek comes first.
    pub const RESEEK: u16 = 8;
    /// The last descriptor of the open file.
    pub const LAST: u16 = 16;
    /// Another worker has ended this wait: nothing is slept.
    pub const CAUSED: u16 = 32;
    /// What is opened is a pipe: it is located, and no more.
    pub const PIPE: u16 = 64;
    /// It was handed over (`io_submit`): how much it moved was not recorded. Of a wait: it was for
    /// such requests, which are done by then, so that nothing is slept.
    pub const HANDED: u16 = 128;
    /// Of a directory: where its lseek leads is the file system's own measure, and means nothing
    /// here.
    pub const OPAQUE: u16 = 256;
    /// As [`RESEEK`], of where data go to.
    pub const RESEEK2: u16 = 512;
}

/// What a worker does next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Action {
    /// When it began, as recorded: ns since the zero of the trace.
    pub start_ns: i64,
    /// How long it took, as recorded, ns; 0 where that is not known.
    pub duration_ns: u64,
    /// From the end of the action before it to its start, as recorded: what of it was spent
    /// computing, ns. Calls between them that nothing is done for are in it.
    pub computing_ns: u64,
    /// The rest of it, ns.
    pub waiting_ns: u64,
    /// Where in the file; -1 where that is not known.
    pub offset: i64,
    /// The same of where data go to.
    pub offset2: i64,
    /// Bytes asked for, or the new size.
    pub length: u64,
    /// How it ended.
    pub recorded: Recorded,
    /// The open file.
    pub open: Option<OpenId>,
    /// Where data go to.
    pub open2: Option<OpenId>,
    /// The name.
    pub path: Option<PathId>,
    /// The second name; target, attribute. Of a fork: the worker that begins, as the place of a
    /// thread.
    pub path2: Option<PathId>,
    /// As the call takes them on x86-64.
    pub flags: u32,
    /// Permissions.
    pub mode: u32,
    /// Calls between the action before it and this one.
    pub folded: u32,
    /// By how much tracing it was slower than calibrated.
    pub slower: Slower,
    /// What is done.
    pub operation: Operation,
    /// See [`mark`].
    pub marks: u16,
}

impl Action {
    /// Without anything that an action need not have.
    pub fn new(operation: Operation, recorded: Recorded) -> Self {
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

    /// Whether it has this mark.
    pub fn has(&self, mark: u16) -> bool {
        self.marks & mark != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_small_and_its_number_its_place() {
        assert_eq!(size_of::<Action>(), 104);
        for (place, operation) in Operation::ALL.iter().enumerate() {
            assert_eq!(*operation as usize, place);
        }
    }

    #[test]
    fn what_was_recorded_is_told_again() {
        assert_eq!(Recorded::returned(0).said(), Some(Ok(0)));
        assert_eq!(Recorded::failed(2).said(), Some(Err(2)));
        assert_eq!(Recorded::unknown().said(), None);
        assert_eq!(Recorded::returned(-4096).said(), None);
    }
}
