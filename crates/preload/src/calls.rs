//! The recorded calls as a table: the name of the system call, and the kind of each argument.

/// The kind of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Not recorded, mostly an address.
    Skip,
    /// A number. For a list of buffers: their total length in bytes. For a pointer to an offset:
    /// the offset.
    Number,
    /// A text that ends with 0, such as a path.
    Text,
    /// A pointer to a `struct stat` that the call fills in.
    Status,
    /// A pointer to a `struct statx` that the call fills in.
    Statx,
    /// A pointer to two descriptors that the call fills in.
    Pair,
}

/// A call and the kinds of its arguments, in the order of the system call.
#[derive(Debug)]
pub struct Row {
    /// The name of the system call as in section 2 of the manual.
    pub name: &'static str,
    /// The kinds of the first arguments. The arguments after them are not recorded.
    pub kinds: &'static [Kind],
}

macro_rules! kind {
    (_) => {
        Kind::Skip
    };
    (n) => {
        Kind::Number
    };
    (t) => {
        Kind::Text
    };
    (status) => {
        Kind::Status
    };
    (statx) => {
        Kind::Statx
    };
    (pair) => {
        Kind::Pair
    };
}

macro_rules! calls {
    ($($call:ident $name:literal ($($kind:tt)*);)*) => {
        /// A call. Its number is the index in [`TABLE`], whose names are in the head of each log.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u16)]
        #[allow(missing_docs, reason = "the names are those of the calls")]
        pub enum Call {
            $($call,)*
        }

        /// The names and arguments of all calls, in the order of [`Call`].
        pub static TABLE: &[Row] = &[$(Row { name: $name, kinds: &[$(kind!($kind)),*] },)*];
    };
}

calls! {
    Open "open" (t n n);
    Openat "openat" (n t n n);
    Creat "creat" (t n);
    MemfdCreate "memfd_create" (t n);
    Close "close" (n);
    CloseRange "close_range" (n n n);
    Dup "dup" (n);
    Dup2 "dup2" (n n);
    Dup3 "dup3" (n n n);
    Fcntl "fcntl" (n n n);
    Ioctl "ioctl" (n n n);

    Socket "socket" (_ n);
    Accept "accept" (n);
    Accept4 "accept4" (n _ _ n);
    Eventfd2 "eventfd2" (_ n);
    Signalfd4 "signalfd4" (n _ _ n);
    TimerfdCreate "timerfd_create" (_ n);
    EpollCreate "epoll_create" (_);
    EpollCreate1 "epoll_create1" (n);
    InotifyInit "inotify_init" ();
    InotifyInit1 "inotify_init1" (n);
    PidfdOpen "pidfd_open" (_ n);
    Pipe "pipe" (pair);
    Pipe2 "pipe2" (pair n);
    Socketpair "socketpair" (_ n _ pair);

    Fork "fork" ();
    Vfork "vfork" ();
    Execve "execve" (t);
    Execveat "execveat" (n t _ _ n);
    ExitGroup "exit_group" (n);
    Wait4 "wait4" (n);
    Waitid "waitid" (n);

    Read "read" (n _ n);
    Readv "readv" (n n);
    Pread64 "pread64" (n _ n n);
    Preadv "preadv" (n n _ n);
    Preadv2 "preadv2" (n n _ n n);
    Write "write" (n _ n);
    Writev "writev" (n n);
    Pwrite64 "pwrite64" (n _ n n);
    Pwritev "pwritev" (n n _ n);
    Pwritev2 "pwritev2" (n n _ n n);
    Sendfile "sendfile" (n n n n);
    CopyFileRange "copy_file_range" (n n n n n n);
    Splice "splice" (n n n n n n);
    Tee "tee" (n n n n);
    Getdents64 "getdents64" (n _ n);
    Lseek "lseek" (n n n);
    IoSubmit "io_submit" (_ _ n);
    IoUringSetup "io_uring_setup" ();
    IoUringRegister "io_uring_register" ();
    IoUringEnter "io_uring_enter" (n);
    Mmap "mmap" (_ n n n n n);
    Munmap "munmap" (n n);
    Mremap "mremap" (n n);
    Msync "msync" (n n n);
    Readahead "readahead" (n n n);
    Fadvise64 "fadvise64" (n n n n);

    Truncate "truncate" (t n);
    Ftruncate "ftruncate" (n n);
    Fallocate "fallocate" (n n n n);
    Fsync "fsync" (n);
    Fdatasync "fdatasync" (n);
    Syncfs "syncfs" (n);
    SyncFileRange "sync_file_range" (n n n n);
    Sync "sync" ();

    Stat "stat" (t status);
    Lstat "lstat" (t status);
    Fstat "fstat" (n status);
    Newfstatat "newfstatat" (n t status n);
    Statx "statx" (n t n _ statx);
    Statfs "statfs" (t);
    Fstatfs "fstatfs" (n);
    Access "access" (t n);
    Faccessat2 "faccessat2" (n t n n);
    Readlink "readlink" (t _ n);
    Readlinkat "readlinkat" (n t _ n);
    Getxattr "getxattr" (t t _ n);
    Lgetxattr "lgetxattr" (t t _ n);
    Fgetxattr "fgetxattr" (n t _ n);
    Listxattr "listxattr" (t _ n);
    Llistxattr "llistxattr" (t _ n);
    Flistxattr "flistxattr" (n _ n);
    Getcwd "getcwd" (t);
    Mkdir "mkdir" (t n);
    Mkdirat "mkdirat" (n t n);
    Mknod "mknod" (t n);
    Mknodat "mknodat" (n t n);
    Link "link" (t t);
    Linkat "linkat" (n t n t n);
    Symlink "symlink" (t t);
    Symlinkat "symlinkat" (t n t);
    Unlink "unlink" (t);
    Unlinkat "unlinkat" (n t n);
    Rmdir "rmdir" (t);
    Rename "rename" (t t);
    Renameat "renameat" (n t n t);
    Renameat2 "renameat2" (n t n t n);
    Chmod "chmod" (t n);
    Fchmod "fchmod" (n n);
    Fchmodat "fchmodat" (n t n n);
    Chown "chown" (t);
    Lchown "lchown" (t);
    Fchown "fchown" (n);
    Fchownat "fchownat" (n t _ _ n);
    Utime "utime" (t);
    Utimes "utimes" (t);
    Futimesat "futimesat" (n t);
    Utimensat "utimensat" (n t _ n);
    Setxattr "setxattr" (t t _ n n);
    Lsetxattr "lsetxattr" (t t _ n n);
    Fsetxattr "fsetxattr" (n t _ n n);
    Removexattr "removexattr" (t t);
    Lremovexattr "lremovexattr" (t t);
    Fremovexattr "fremovexattr" (n t);
    Chdir "chdir" (t);
    Fchdir "fchdir" (n);
    Chroot "chroot" (t);
    Umask "umask" (n);
    Flock "flock" (n n);
}
