//! The system calls, from the table `syscalls.txt`.

use std::sync::LazyLock;

use foldhash::HashMap;

const TEXT: &str = include_str!("syscalls.txt");

/// The effect of a successful call on descriptors, offsets, paths and data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Returns a descriptor of a new open file.
    Open,
    /// Returns a descriptor of a new file in memory, without a path.
    Memory,
    /// Returns a descriptor of an object that is not a file. Its number is in use.
    New,
    /// Fills an array with two descriptors that are not files.
    Pair,
    /// Releases a descriptor at the start of the call; also if the call fails, except with EBADF.
    Close,
    /// Releases all descriptors of a range, or marks them as to be closed by execve.
    CloseRange,
    /// Not a call: the last descriptor of an open file was closed by something other than close.
    Released,
    /// Not a call: a thread has ended.
    Exited,
    /// Makes another descriptor of the same open file. A descriptor with the same number is closed
    /// first.
    Dup,
    /// Depends on the command: another descriptor, its close-on-exec flag, or the flags of the open
    /// file.
    Fcntl,
    /// Depends on the command: `FIOCLEX`, `FIONCLEX` and `FICLONE` have an effect.
    Ioctl,
    /// Creates a thread, whose table of descriptors and working directory are shared or copied.
    Fork,
    /// Makes the table of descriptors or the working directory private to the thread.
    Unshare,
    /// Executes a program: marked descriptors are closed, and the table becomes the thread's own.
    Execute,
    /// Ends a thread, or all threads of its process.
    Exit,
    /// Reads data from a descriptor, at its offset, which moves, or at an offset that is an
    /// argument.
    Read,
    /// Writes data to a descriptor, at such an offset.
    Write,
    /// Transfers data from one descriptor to another.
    Transfer,
    /// Reads entries of a directory.
    List,
    /// Reads data from a socket, which may contain descriptors of other processes.
    Receive,
    /// Writes data to a socket.
    Send,
    /// Moves the offset to the returned value.
    Seek,
    /// Submits asynchronous requests. Those of `io_submit` have events of their own (`+read`,
    /// `+write`), those of `io_uring` have not.
    Submit,
    /// Maps a range of a file into memory; accesses to it are not recorded.
    Map,
    /// Removes a mapping.
    Unmap,
    /// Moves a mapping.
    Remap,
    /// Advises the kernel about the page cache, or queries its state.
    Advise,
    /// Sets the size of a file.
    Truncate,
    /// Allocates, frees or moves ranges of a file.
    Allocate,
    /// Waits until data are on disk.
    Sync,
    /// Queries a path or the attributes of a file.
    Look,
    /// Creates a directory or a special file.
    Make,
    /// Creates a hard link.
    Link,
    /// Creates a symbolic link.
    Symlink,
    /// Removes a path.
    Remove,
    /// Renames a path.
    Rename,
    /// Changes the attributes of a file.
    Change,
    /// Changes the working directory.
    Enter,
    /// Changes the root directory.
    Root,
    /// Changes the permission bits that new files do not get.
    Umask,
    /// Mounts or unmounts a file system.
    Mount,
    /// Locks a file, which may wait for other processes.
    Lock,
    /// Waits: the time is not computing.
    Wait,
    /// No effect on files.
    Other,
}

/// The kind of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Argument {
    /// Not used.
    Ignored,
    /// The descriptor on which the call operates.
    Fd,
    /// The descriptor to which data are written.
    Out,
    /// The requested number of another descriptor.
    To,
    /// A descriptor that is changed, or -1 for a new one.
    Known,
    /// A descriptor on the file system to which a file handle belongs.
    Mount,
    /// The directory to which the following path is relative.
    Dir,
    /// The path of a file.
    Path,
    /// Another text: the target of a link, the name of an attribute.
    Text,
    /// Flags, as names of constants.
    Flags,
    /// `{flags=..., mode=...}` of openat2(2).
    How,
    /// Permissions, octal.
    Mode,
    /// The command of fcntl, ioctl, flock or futex.
    Command,
    /// The argument of the command.
    Value,
    /// Two descriptors: `[3, 4]`.
    Pair,
    /// The first descriptor of a range.
    First,
    /// The last descriptor of a range.
    Last,
    /// Flags of clone(2), or the structure of clone3(2).
    Clone,
    /// A buffer.
    Data,
    /// A list of buffers: `[{iov_base=..., iov_len=5}]`.
    Vectors,
    /// A message, or a list of them, with buffers and descriptors.
    Message,
    /// Several messages.
    Messages,
    /// Requests of `io_submit`.
    Blocks,
    /// A number of bytes.
    Length,
    /// An offset in the file. For futex(2): the address.
    Offset,
    /// A pointer to an offset: `[4096] => [8192]`, or `NULL` for the offset of the descriptor.
    Place,
    /// `SEEK_SET`, `SEEK_CUR`, `SEEK_END` and similar constants.
    Whence,
    /// The protection of mmap(2).
    Protection,
    /// An address in memory.
    Address,
    /// The result of stat(2) and its variants: `{st_mode=..., st_size=...}`.
    Status,
}

/// The number of kinds.
const ARGUMENTS: usize = Argument::Status as usize + 1;

/// The name of the event of an open file that was closed by something other than close.
pub const RELEASED: &[u8] = b"+released";
/// The name of the event of a thread that has ended.
pub const EXITED: &[u8] = b"+exited";

/// A system call.
#[derive(Debug, PartialEq, Eq)]
pub struct Syscall {
    /// The name as strace writes it.
    pub name: &'static str,
    /// The effect of the call.
    pub effect: Effect,
    /// The kinds of the first arguments. Those after them are not used.
    pub arguments: Vec<Argument>,
    /// The index among all calls of this build.
    index: usize,
    /// The index of the first argument of each kind.
    positions: [Option<u8>; ARGUMENTS],
}

impl Syscall {
    /// A call without arguments that is not in the table: for unknown calls.
    pub const fn bare(name: &'static str, effect: Effect) -> Self {
        Self {
            name,
            effect,
            arguments: Vec::new(),
            index: 0,
            positions: [None; ARGUMENTS],
        }
    }

    fn new(name: &'static str, effect: Effect, arguments: Vec<Argument>) -> Self {
        let mut call = Self::bare(name, effect);
        for (index, &kind) in arguments.iter().enumerate() {
            call.positions[kind as usize].get_or_insert(index as u8);
        }
        call.arguments = arguments;
        call
    }

    /// The index among all calls of this build, from 0. It differs between versions.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The index of the first argument of this kind, from 0.
    pub fn position(&self, kind: Argument) -> Option<usize> {
        self.positions[kind as usize].map(usize::from)
    }
}

impl Syscall {
    /// Whether a thread made this call; false for an implied event such as `+read`.
    pub fn is_made(&self) -> bool {
        !self.name.starts_with('+')
    }
}

static TABLE: LazyLock<HashMap<&'static [u8], Syscall>> = LazyLock::new(|| {
    let calls = TEXT.lines().flat_map(|line| {
        // The table is a part of this program, and a test reads it.
        read(line).unwrap_or_else(|| panic!("syscalls.txt: {line}"))
    });
    let indexed = |(index, call): (usize, Syscall)| (call.name.as_bytes(), Syscall { index, ..call });
    calls.enumerate().map(indexed).collect()
});

/// The call with this name; None if this version does not know it.
pub fn find(name: &[u8]) -> Option<&'static Syscall> {
    TABLE.get(name)
}

/// All calls, in arbitrary order.
pub fn all() -> impl Iterator<Item = &'static Syscall> {
    TABLE.values()
}

/// The calls of a line of the table; None if the line is malformed.
fn read(line: &'static str) -> Option<Vec<Syscall>> {
    let mut words = line.split('#').next()?.split_ascii_whitespace();
    let Some(effect) = words.next() else {
        return Some(Vec::new());
    };
    let effect = self::effect(effect)?;
    if effect == Effect::Other {
        return Some(words.map(|name| Syscall::bare(name, effect)).collect());
    }
    let name = words.next()?;
    let arguments = words.map(argument).collect::<Option<_>>()?;
    Some(vec![Syscall::new(name, effect, arguments)])
}

fn effect(word: &str) -> Option<Effect> {
    Some(match word {
        "open" => Effect::Open,
        "memory" => Effect::Memory,
        "new" => Effect::New,
        "pair" => Effect::Pair,
        "close" => Effect::Close,
        "close-range" => Effect::CloseRange,
        "released" => Effect::Released,
        "exited" => Effect::Exited,
        "dup" => Effect::Dup,
        "fcntl" => Effect::Fcntl,
        "ioctl" => Effect::Ioctl,
        "fork" => Effect::Fork,
        "unshare" => Effect::Unshare,
        "execute" => Effect::Execute,
        "exit" => Effect::Exit,
        "read" => Effect::Read,
        "write" => Effect::Write,
        "transfer" => Effect::Transfer,
        "list" => Effect::List,
        "receive" => Effect::Receive,
        "send" => Effect::Send,
        "seek" => Effect::Seek,
        "submit" => Effect::Submit,
        "map" => Effect::Map,
        "unmap" => Effect::Unmap,
        "remap" => Effect::Remap,
        "advise" => Effect::Advise,
        "truncate" => Effect::Truncate,
        "allocate" => Effect::Allocate,
        "sync" => Effect::Sync,
        "look" => Effect::Look,
        "make" => Effect::Make,
        "link" => Effect::Link,
        "symlink" => Effect::Symlink,
        "remove" => Effect::Remove,
        "rename" => Effect::Rename,
        "change" => Effect::Change,
        "enter" => Effect::Enter,
        "root" => Effect::Root,
        "umask" => Effect::Umask,
        "mount" => Effect::Mount,
        "lock" => Effect::Lock,
        "wait" => Effect::Wait,
        "other" => Effect::Other,
        _ => return None,
    })
}

fn argument(word: &str) -> Option<Argument> {
    Some(match word {
        "-" => Argument::Ignored,
        "fd" => Argument::Fd,
        "out" => Argument::Out,
        "to" => Argument::To,
        "known" => Argument::Known,
        "mount" => Argument::Mount,
        "dir" => Argument::Dir,
        "path" => Argument::Path,
        "text" => Argument::Text,
        "flags" => Argument::Flags,
        "how" => Argument::How,
        "mode" => Argument::Mode,
        "command" => Argument::Command,
        "value" => Argument::Value,
        "pair" => Argument::Pair,
        "first" => Argument::First,
        "last" => Argument::Last,
        "clone" => Argument::Clone,
        "data" => Argument::Data,
        "vectors" => Argument::Vectors,
        "message" => Argument::Message,
        "messages" => Argument::Messages,
        "blocks" => Argument::Blocks,
        "length" => Argument::Length,
        "offset" => Argument::Offset,
        "place" => Argument::Place,
        "whence" => Argument::Whence,
        "protection" => Argument::Protection,
        "address" => Argument::Address,
        "status" => Argument::Status,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86_64: &str = include_str!("../tests/data/x86_64.names");
    const AARCH64: &str = include_str!("../tests/data/aarch64.names");

    #[test]
    fn the_table_contains_every_call_of_linux_once() {
        let names = X86_64.lines().chain(AARCH64.lines());
        let missing: Vec<&str> = names.filter(|name| find(name.as_bytes()).is_none()).collect();
        assert!(missing.is_empty(), "{missing:?}");
        let lines = TEXT.lines().flat_map(|line| read(line).expect(line));
        assert_eq!(lines.count(), all().count(), "a call is listed twice");
        assert_eq!(find(b"no_such_call"), None);
    }

    /// The arguments that the effect of a row requires.
    #[test]
    fn a_call_has_the_arguments_that_its_effect_needs() {
        for call in all() {
            let has = |kind| call.arguments.contains(&kind);
            let is_complete = match call.effect {
                Effect::Open => has(Argument::Path) || has(Argument::Mount),
                Effect::Close | Effect::Dup | Effect::Seek | Effect::List | Effect::Map | Effect::Fcntl => {
                    has(Argument::Fd)
                }
                Effect::Read | Effect::Write => {
                    has(Argument::Fd) && (has(Argument::Vectors) || has(Argument::Length))
                }
                Effect::Transfer => has(Argument::Fd) && has(Argument::Out) && has(Argument::Length),
                Effect::Pair => has(Argument::Pair),
                Effect::Link | Effect::Rename => {
                    call.arguments
                        .iter()
                        .filter(|&&kind| kind == Argument::Path)
                        .count()
                        == 2
                }
                Effect::Make | Effect::Symlink | Effect::Remove => has(Argument::Path),
                Effect::Truncate => (has(Argument::Fd) || has(Argument::Path)) && has(Argument::Length),
                _ => true,
            };
            assert!(is_complete && call.arguments.len() <= 6, "{call:?}");
            let follows = |pair: &[Argument]| pair[0] != Argument::Dir || pair[1] == Argument::Path;
            assert!(
                call.arguments.windows(2).all(follows),
                "a directory precedes a path: {call:?}"
            );
        }
    }
}
