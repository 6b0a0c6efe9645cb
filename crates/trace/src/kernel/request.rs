//! A call with typed arguments, independent of the recorder.

use std::borrow::Cow;

use crate::constants;
use crate::event::Outcome;
use crate::syscalls::{Argument, Effect, Syscall};
use crate::text::Call;
use crate::text::scan::MAX_ARGUMENTS;
use crate::text::value::{self, AT_FDCWD, Arguments, Descriptor};

/// An argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// The text of strace.
    Written(&'a [u8]),
    /// The number that the program passed.
    Number(i64),
    /// The text to whose address the argument points.
    Bytes(&'a [u8]),
    /// The two descriptors that the call returned.
    Pair([i32; 2]),
    /// The attributes of a file that the call returned.
    Status {
        /// Size in bytes.
        size: i64,
        /// Type and permissions.
        mode: u32,
    },
}

/// A known call of a thread.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The id of the thread.
    pub pid: u32,
    /// The system call.
    pub call: &'static Syscall,
    /// The arguments in the order of the table; None if they are unknown because the call is
    /// unfinished.
    parts: [Option<Part<'a>>; MAX_ARGUMENTS],
    /// All text between the parentheses; empty if the call is not from strace.
    written: &'a [u8],
}

/// The result of a call, as recorded.
#[derive(Debug, Clone, Copy)]
pub struct CallResult<'a> {
    /// The outcome.
    pub outcome: Outcome,
    /// The returned descriptor with its path, if the recorder reports paths.
    pub returned: Option<Descriptor<'a>>,
    /// Duration, ns.
    pub duration_ns: Option<u64>,
    /// Processor time of the thread since its previous call, ns.
    pub cpu_ns: Option<u64>,
}

impl<'a> Request<'a> {
    /// A call in the text of strace.
    #[inline]
    pub fn written(line: &Call<'a>, call: &'static Syscall) -> Self {
        let mut request = Self {
            pid: line.pid,
            call,
            parts: [None; MAX_ARGUMENTS],
            written: line.arguments,
        };
        let count = call.arguments.len().min(MAX_ARGUMENTS);
        // In most cases the parser has noted where the arguments end.
        match &line.cuts {
            Some(cuts) => cuts.each(line.arguments, count, |index, argument| {
                request.parts[index] = Some(Part::Written(argument));
            }),
            None => request.parts[..count]
                .iter_mut()
                .zip(Arguments::of(line.arguments))
                .for_each(|(part, argument)| *part = Some(Part::Written(argument))),
        }
        request
    }

    /// A call whose arguments are numbers and texts, in the order of the system call.
    pub fn of_parts(pid: u32, call: &'static Syscall, parts: [Option<Part<'a>>; MAX_ARGUMENTS]) -> Self {
        Self {
            pid,
            call,
            parts,
            written: &[],
        }
    }

    /// The effect of the call.
    pub fn effect(&self) -> Effect {
        self.call.effect
    }

    /// The first argument of this kind.
    pub fn part(&self, kind: Argument) -> Option<Part<'a>> {
        self.part_at(self.call.position(kind)?)
    }

    /// The index of the `nth` argument of this kind, from 0.
    fn nth(&self, kind: Argument, nth: usize) -> Option<usize> {
        let first = self.call.position(kind)?;
        let mut candidates = self.call.arguments.iter().enumerate().skip(first);
        Some(
            candidates
                .by_ref()
                .filter(|&(_, &candidate)| candidate == kind)
                .nth(nth)?
                .0,
        )
    }

    fn part_at(&self, index: usize) -> Option<Part<'a>> {
        self.parts.get(index).copied().flatten()
    }

    /// The number in an argument of this kind, or the sum of its constants.
    pub fn number(&self, kind: Argument) -> Option<i64> {
        match self.part(kind)? {
            Part::Number(number) => Some(number),
            Part::Written(text) => value::number(text).or_else(|| Some(constants::bits(text)?.cast_signed())),
            Part::Bytes(_) | Part::Pair(_) | Part::Status { .. } => None,
        }
    }

    /// The descriptor in the argument of this kind; None for the current directory.
    pub fn descriptor(&self, kind: Argument) -> Option<Descriptor<'a>> {
        as_descriptor(self.part(kind)?).filter(|descriptor| descriptor.number != AT_FDCWD)
    }

    /// The `nth` path of the call, from 0, and the directory to which it is relative; None for the
    /// directory if the call has no such argument.
    pub fn path(&self, nth: usize) -> Option<(Option<Descriptor<'a>>, Cow<'a, [u8]>)> {
        let index = self.nth(Argument::Path, nth)?;
        let bytes = as_text(self.part_at(index)?)?;
        let before = index
            .checked_sub(1)
            .filter(|&before| self.call.arguments[before] == Argument::Dir);
        let directory = before.and_then(|before| as_descriptor(self.part_at(before)?));
        Some((directory, bytes))
    }

    /// The text argument that is not a path; None if the recorder abbreviates it (`-s 0` writes
    /// `""...` for the name of an attribute).
    pub fn text(&self) -> Option<Cow<'a, [u8]>> {
        whole_text(self.part(Argument::Text)?)
    }

    /// The contents of the buffer that the call filled, if they were recorded completely.
    pub fn data(&self) -> Option<Cow<'a, [u8]>> {
        whole_text(self.part(Argument::Data)?)
    }

    /// Flags, whence or command, as the number on x86-64.
    pub fn flags(&self) -> Option<u64> {
        let kinds = [Argument::Flags, Argument::Whence, Argument::Command];
        for kind in kinds {
            if let Some(part) = self.part(kind) {
                return bits(part, b"flags");
            }
        }
        bits(self.part(Argument::How)?, b"flags")
    }

    /// Permissions, or the protection of memory.
    pub fn mode(&self) -> Option<u32> {
        let kinds = [Argument::Mode, Argument::Protection];
        let part = kinds.into_iter().find_map(|kind| self.part(kind));
        let part = part.or_else(|| self.part(Argument::How))?;
        u32::try_from(bits(part, b"mode")?).ok()
    }

    /// The requested number of bytes.
    pub fn length(&self) -> Option<u64> {
        if let Some(length) = self.number(Argument::Length) {
            return u64::try_from(length).ok();
        }
        match self.part(Argument::Vectors)? {
            Part::Number(number) => u64::try_from(number).ok(),
            Part::Written(text) => sum_of_vectors(text),
            _ => None,
        }
    }

    /// The `nth` offset that is passed by pointer, from 0. None if the offset of the descriptor is
    /// used.
    pub fn pointed_offset(&self, nth: usize) -> Option<i64> {
        match self.part_at(self.nth(Argument::Place, nth)?)? {
            Part::Number(number) => Some(number),
            Part::Written(text) => value::number(Arguments::of(value::inner(text)?).next()?),
            _ => None,
        }
    }

    /// The size and the mode that stat or a variant returned.
    pub fn status(&self) -> (Option<i64>, Option<u32>) {
        let text = match self.part(Argument::Status) {
            Some(Part::Written(text)) => text,
            Some(Part::Status { size, mode }) => return (Some(size), Some(mode)),
            _ => return (None, None),
        };
        let [mode, size] = plain_status(text).map_or_else(
            || {
                let names: [&[u8]; 4] = [b"st_mode", b"st_size", b"stx_mode", b"stx_size"];
                let [mode, size, xmode, xsize] = value::fields(text, names, 2);
                [mode.or(xmode), size.or(xsize)]
            },
            |fields| fields.map(Some),
        );
        let mode = mode.and_then(constants::bits);
        let size = size.and_then(value::number);
        (size, mode.and_then(|mode| u32::try_from(mode).ok()))
    }

    /// Fields of a structure in an argument of this kind, in the text of strace.
    pub fn fields<const N: usize>(&self, kind: Argument, names: [&[u8]; N]) -> [Option<&'a [u8]>; N] {
        match self.part(kind) {
            Some(Part::Written(text)) => value::fields(text, names, N),
            _ => [None; N],
        }
    }

    /// The two descriptors of a pipe or a socket pair.
    pub fn pair(&self) -> Option<[i32; 2]> {
        match self.part(Argument::Pair)? {
            Part::Pair(pair) => Some(pair),
            Part::Written(text) => {
                let mut numbers =
                    Arguments::of(value::inner(text)?).map(|part| Some(value::descriptor(part)?.number));
                Some([numbers.next()??, numbers.next()??])
            }
            _ => None,
        }
    }

    /// The descriptors of other processes that arrived in a message: `cmsg_type=SCM_RIGHTS,
    /// cmsg_data=[5, 6]`.
    pub fn received(&self) -> Vec<Descriptor<'a>> {
        const RIGHTS: &[u8] = b"cmsg_type=SCM_RIGHTS, cmsg_data=[";
        let mut descriptors = Vec::new();
        let mut rest = self.written;
        while let Some(at) = memchr::memmem::find(rest, RIGHTS) {
            rest = &rest[at + RIGHTS.len()..];
            descriptors.extend(Arguments::of(rest).map_while(value::descriptor));
        }
        descriptors
    }

    /// Whether execve closes the new descriptor: `O_CLOEXEC`, `SOCK_CLOEXEC` and similar flags.
    /// They have the same number, except those of memfd and fanotify. Some calls always set it.
    /// `flags` is the result of [`Self::flags`].
    pub fn is_marked(&self, flags: Option<u64>) -> bool {
        const ALWAYS: [&str; 5] = [
            "bpf",
            "io_uring_setup",
            "landlock_create_ruleset",
            "pidfd_getfd",
            "pidfd_open",
        ];
        let mark = match self.call.name {
            "memfd_create" | "fanotify_init" | "fsopen" | "fsmount" | "fspick" | "perf_event_open" => {
                let Some(Part::Written(text)) = self.part(Argument::Flags) else {
                    return flags.is_some_and(|flags| flags & 1 != 0);
                };
                return text
                    .split(|&byte| byte == b'|')
                    .any(|flag| flag.ends_with(b"_CLOEXEC"));
            }
            _ => constants::O_CLOEXEC,
        };
        ALWAYS.contains(&self.call.name) || flags.is_some_and(|flags| flags & mark != 0)
    }

    /// Whether the new thread shares this with its parent: `CLONE_FILES`, `CLONE_FS`,
    /// `CLONE_THREAD`.
    pub fn shares(&self, flag: &[u8]) -> bool {
        memchr::memmem::find(self.written, flag).is_some()
    }
}

fn as_descriptor(part: Part<'_>) -> Option<Descriptor<'_>> {
    match part {
        Part::Written(text) => value::descriptor(text),
        Part::Number(number) => Some(Descriptor {
            number: i32::try_from(number).ok()?,
            name: None,
            deleted: false,
        }),
        Part::Bytes(_) | Part::Pair(_) | Part::Status { .. } => None,
    }
}

fn whole_text(part: Part<'_>) -> Option<Cow<'_, [u8]>> {
    match part {
        Part::Written(text) => value::text(text).filter(|text| !text.cut).map(|text| text.bytes),
        Part::Bytes(bytes) => Some(Cow::Borrowed(bytes)),
        _ => None,
    }
}

fn as_text(part: Part<'_>) -> Option<Cow<'_, [u8]>> {
    match part {
        Part::Written(text) => value::text(text).map(|text| text.bytes),
        Part::Bytes(bytes) => Some(Cow::Borrowed(bytes)),
        Part::Number(_) | Part::Pair(_) | Part::Status { .. } => None,
    }
}

/// The usual result of stat, without a walk over brackets: `{st_mode=S_IFREG|0644, st_size=17,
/// ...}`.
fn plain_status(text: &[u8]) -> Option<[&[u8]; 2]> {
    let rest = text.strip_prefix(b"{st_mode=")?;
    let end = rest
        .iter()
        .position(|byte| !matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'|'))?;
    let (mode, rest) = rest.split_at(end);
    let rest = rest.strip_prefix(b", st_size=")?;
    let end = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    matches!(rest[end], b',' | b'}').then(|| [mode, &rest[..end]])
}

/// The value of constants; of a structure, that of its field.
fn bits(part: Part<'_>, field: &[u8]) -> Option<u64> {
    match part {
        Part::Number(number) => Some(number.cast_unsigned()),
        Part::Written(text) if text.first() == Some(&b'{') => constants::bits(value::field(text, field)?),
        Part::Written(text) => constants::bits(text.strip_prefix(b"flags=").unwrap_or(text)),
        Part::Bytes(_) | Part::Pair(_) | Part::Status { .. } => None,
    }
}

/// The total length of buffers such as `[{iov_base=""..., iov_len=10}, {iov_base="a",
/// iov_len=20}]`. None if strace has abbreviated the list to `[...]`.
pub(super) fn sum_of_vectors(text: &[u8]) -> Option<u64> {
    let mut sum = 0_u64;
    for vector in Arguments::of(value::inner(text)?) {
        let length = value::number(value::field(vector, b"iov_len")?)?;
        sum = sum.checked_add(u64::try_from(length).ok()?)?;
    }
    Some(sum)
}
