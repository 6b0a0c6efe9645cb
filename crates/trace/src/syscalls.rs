//! The system calls, as data: `syscalls.txt`.

use std::sync::LazyLock;

use foldhash::HashMap;

const TEXT: &str = include_str!("syscalls.txt");

/// What a call does to descriptors, offsets, names and data, where it succeeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Returns a descriptor of a new open file.
    Open,
    /// Returns a descriptor of a new file without a name, in memory.
    Memory,
    /// Returns a descriptor of something that is no file: its number is taken.
    New,
    /// Fills an array with two such descriptors.
    Pair,
    /// Frees a descriptor, as it begins; also where it fails, but for EBADF.
    Close,
    /// Frees, or marks as to be closed by execve, all descriptors of a range.
    CloseRange,
    /// No call: the last descriptor of an open file is gone, and no close was the cause.
    Released,
    /// No call: a thread is gone.
    Exited,
    /// Another descriptor of the same open file, which what it returns or names is closed for.
    Dup,
    /// By its command: another descriptor, its mark, or flags of the open file.
    Fcntl,
    /// By its command: mostly nothing to us, but `FIOCLEX`, `FIONCLEX` and `FICLONE`.
    Ioctl,
    /// Another thread, with a table of descriptors and a working directory that are shared or
    /// copied.
    Fork,
    /// From now on the thread has a table or a working directory of its own.
    Unshare,
    /// Another program: descriptors that are marked are closed, and the table is the thread's own.
    Execute,
    /// The end of a thread, or of all of its process.
    Exit,
    /// Data from a descriptor, from its offset, which moves, or from one that is given, which is
    /// nobody's.
    Read,
    /// The same to a descriptor.
    Write,
    /// Data from one descriptor to another.
    Transfer,
    /// Entries of a directory.
    List,
    /// Data from a socket, and descriptors of other processes with it.
    Receive,
    /// Data to a socket.
    Send,
    /// Moves the offset to what it returns.
    Seek,
    /// Hands over requests to be carried out meanwhile: those of `io_submit` are told (`+read`,
    /// `+write`), those of `io_uring` are not.
    Submit,
    /// Makes a range of a file a range of memory; what is read and written there is not seen.
    Map,
    /// Ends such a range.
    Unmap,
    /// Moves such a range.
    Remap,
    /// A hint, or a question, about what is cached.
    Advise,
    /// Sets the size of a file.
    Truncate,
    /// Allocates, frees or moves ranges of a file.
    Allocate,
    /// Waits until data are on disk.
    Sync,
    /// Asks for a name, or what is known of a file.
    Look,
    /// Makes a directory or a special file.
    Make,
    /// Makes another name of a file.
    Link,
    /// Makes a symbolic link.
    Symlink,
    /// Takes a name away.
    Remove,
    /// Moves a name.
    Rename,
    /// Changes what is known of a file.
    Change,
    /// Changes the working directory.
    Enter,
    /// Changes what names begin at.
    Root,
    /// Changes the bits that new files do not get.
    Umask,
    /// Changes what lies under names.
    Mount,
    /// Waits for other processes at a file.
    Lock,
    /// Waits: the time was not spent computing.
    Wait,
    /// Nothing to files.
    Other,
}

/// What an argument is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Argument {
    /// Nothing to us.
    Ignored,
    /// The descriptor that the call is about.
    Fd,
    /// The descriptor that data go to.
    Out,
    /// The number that another descriptor is to have.
    To,
    /// A descriptor that is changed, or -1 for a new one.
    Known,
    /// A descriptor on the file system that a handle belongs to.
    Mount,
    /// The directory at which the path that follows begins.
    Dir,
    /// A name of a file.
    Path,
    /// Another text: the target of a link, the name of an attribute.
    Text,
    /// Flags, in constants' names.
    Flags,
    /// `{flags=..., mode=...}` of openat2(2).
    How,
    /// Permissions, octal.
    Mode,
    /// What fcntl, ioctl, flock or futex is to do.
    Command,
    /// What it is to do it with.
    Value,
    /// `[3, 4]`.
    Pair,
    /// The first descriptor of a range.
    First,
    /// The last one.
    Last,
    /// Flags of clone(2), or the structure of clone3(2).
    Clone,
    /// A buffer.
    Data,
    /// A list of buffers: `[{iov_base=..., iov_len=5}]`.
    Vectors,
    /// A message, or a list of them, with buffers and descriptors.
    Message,
    /// Several of them.
    Messages,
    /// Requests of `io_submit`.
    Blocks,
    /// How much.
    Length,
    /// Where in the file. Of futex(2), which has none: the address.
    Offset,
    /// Where in the file, by pointer: `[4096] => [8192]`, or `NULL` for the descriptor's own
    /// offset.
    Place,
    /// `SEEK_SET` and the like.
    Whence,
    /// Of mmap(2).
    Protection,
    /// In memory.
    Address,
    /// What stat(2) and its like have found: `{st_mode=..., st_size=...}`.
    Status,
}

/// How many kinds there are.
const ARGUMENTS: usize = Argument::Status as usize + 1;

/// Events that are no calls, by their names in the table.
pub const RELEASED: &[u8] = b"+released";
/// See [`RELEASED`].
pub const EXITED: &[u8] = b"+exited";

/// One call.
#[derive(Debug, PartialEq, Eq)]
pub struct Syscall {
    /// As strace writes it.
    pub name: &'static str,
    /// What it does.
    pub effect: Effect,
    /// Arguments that matter; those behind them do not.
    pub arguments: Vec<Argument>,
    /// Its place among all calls.
    index: usize,
    /// Where the first argument of each kind stands.
    places: [Option<u8>; ARGUMENTS],
}

impl Syscall {
    /// A call without arguments that is not in the table: for those that nobody knows.
    pub const fn bare(name: &'static str, effect: Effect) -> Self {
        Self {
            name,
            effect,
            arguments: Vec::new(),
            index: 0,
            places: [None; ARGUMENTS],
        }
    }

    fn new(name: &'static str, effect: Effect, arguments: Vec<Argument>) -> Self {
        let mut call = Self::bare(name, effect);
        for (place, &kind) in arguments.iter().enumerate() {
            call.places[kind as usize].get_or_insert(place as u8);
        }
        call.arguments = arguments;
        call
    }

    /// Its place among all calls of this build, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Where its argument of this kind stands; the first one where there are several.
    pub fn place(&self, kind: Argument) -> Option<usize> {
        self.places[kind as usize].map(usize::from)
    }
}

impl Syscall {
    /// It was called by a thread, and not made of what one has called (`+read`).
    pub fn is_made(&self) -> bool {
        !self.name.starts_with('+')
    }
}

static TABLE: LazyLock<HashMap<&'static [u8], Syscall>> = LazyLock::new(|| {
    let calls = TEXT.lines().flat_map(|line| {
        // The table is a part of this program, and a test reads it.
        read(line).unwrap_or_else(|| panic!("syscalls.txt: {line}"))
    });
    let place = |(index, call): (usize, Syscall)| (call.name.as_bytes(), Syscall { index, ..call });
    calls.enumerate().map(place).collect()
});

/// The call of this name; none for one that nobody knew when this was written.
pub fn find(name: &[u8]) -> Option<&'static Syscall> {
    TABLE.get(name)
}

/// All calls, in no order.
pub fn all() -> impl Iterator<Item = &'static Syscall> {
    TABLE.values()
}

/// The calls of one line; none where it makes no sense.
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
    fn every_call_of_linux_is_there_once() {
        let names = X86_64.lines().chain(AARCH64.lines());
        let missing: Vec<&str> = names.filter(|name| find(name.as_bytes()).is_none()).collect();
        assert!(missing.is_empty(), "{missing:?}");
        let lines = TEXT.lines().flat_map(|line| read(line).expect(line));
        assert_eq!(lines.count(), all().count(), "a call stands twice");
        assert_eq!(find(b"no_such_call"), None);
    }

    /// Rows whose arguments do not have what their effect works on.
    #[test]
    fn a_call_has_the_arguments_that_its_effect_needs() {
        for call in all() {
            let has = |one| call.arguments.contains(&one);
            let whole = match call.effect {
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
                        .filter(|&&one| one == Argument::Path)
                        .count()
                        == 2
                }
                Effect::Make | Effect::Symlink | Effect::Remove => has(Argument::Path),
                Effect::Truncate => (has(Argument::Fd) || has(Argument::Path)) && has(Argument::Length),
                _ => true,
            };
            assert!(whole && call.arguments.len() <= 6, "{call:?}");
            let follows = |pair: &[Argument]| pair[0] != Argument::Dir || pair[1] == Argument::Path;
            assert!(
                call.arguments.windows(2).all(follows),
                "a directory is that of a path: {call:?}"
            );
        }
    }
}
