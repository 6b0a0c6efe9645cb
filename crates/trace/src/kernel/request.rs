//! A call, by what its arguments mean: whatever recorded it.

use std::borrow::Cow;

use crate::constants;
use crate::event::Outcome;
use crate::syscalls::{Argument, Effect, Syscall};
use crate::text::Call;
use crate::text::scan::MAX_ARGUMENTS;
use crate::text::value::{self, AT_FDCWD, Arguments, Descriptor};

/// One argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// As strace writes it.
    Written(&'a [u8]),
    /// The number that the kernel was given.
    Number(i64),
    /// The text that it was given the address of.
    Bytes(&'a [u8]),
    /// Two descriptors that it has filled in.
    Pair([i32; 2]),
    /// What it has found of a file.
    Status {
        /// Bytes.
        size: i64,
        /// Type and permissions.
        mode: u32,
    },
}

/// A call of which it is known what it does.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Of the thread.
    pub pid: u32,
    /// What the call is.
    pub known: &'static Syscall,
    /// Those that the table names; none where the call goes on and they are not told yet.
    parts: [Option<Part<'a>>; MAX_ARGUMENTS],
    /// Everything between the parentheses; empty where the call was not written.
    written: &'a [u8],
}

/// How a call has ended, as its source tells it.
#[derive(Debug, Clone, Copy)]
pub struct CallResult<'a> {
    /// How.
    pub outcome: Outcome,
    /// The descriptor that it returned, with its name, where the source tells names.
    pub returned: Option<Descriptor<'a>>,
    /// How long it took, ns.
    pub duration_ns: Option<u64>,
    /// Processor time that the thread used before it, ns.
    pub cpu_ns: Option<u64>,
}

impl<'a> Request<'a> {
    /// One that strace has written; `known` is what it is.
    #[inline]
    pub fn written(call: &Call<'a>, known: &'static Syscall) -> Self {
        let mut asked = Self {
            pid: call.pid,
            known,
            parts: [None; MAX_ARGUMENTS],
            written: call.arguments,
        };
        let most = known.arguments.len().min(MAX_ARGUMENTS);
        // Most lines were cut when they were told apart.
        match &call.cuts {
            Some(cuts) => cuts.each(call.arguments, most, |place, found| {
                asked.parts[place] = Some(Part::Written(found));
            }),
            None => asked.parts[..most]
                .iter_mut()
                .zip(Arguments::of(call.arguments))
                .for_each(|(part, found)| *part = Some(Part::Written(found))),
        }
        asked
    }

    /// One whose arguments are numbers and texts, in the order of the call's own.
    pub fn of_parts(pid: u32, known: &'static Syscall, parts: [Option<Part<'a>>; MAX_ARGUMENTS]) -> Self {
        Self {
            pid,
            known,
            parts,
            written: &[],
        }
    }

    /// What the call does.
    pub fn effect(&self) -> Effect {
        self.known.effect
    }

    /// The argument of this kind; the first one where there are several.
    pub fn part(&self, kind: Argument) -> Option<Part<'a>> {
        self.part_at(self.known.place(kind)?)
    }

    /// Where the `nth` argument of this kind stands, from 0.
    fn nth(&self, kind: Argument, nth: usize) -> Option<usize> {
        let first = self.known.place(kind)?;
        let mut places = self.known.arguments.iter().enumerate().skip(first);
        Some(places.by_ref().filter(|&(_, &one)| one == kind).nth(nth)?.0)
    }

    fn part_at(&self, place: usize) -> Option<Part<'a>> {
        self.parts.get(place).copied().flatten()
    }

    /// A number, or the sum of constants, in an argument of this kind.
    pub fn number(&self, kind: Argument) -> Option<i64> {
        match self.part(kind)? {
            Part::Number(number) => Some(number),
            Part::Written(text) => value::number(text).or_else(|| Some(constants::bits(text)?.cast_signed())),
            Part::Bytes(_) | Part::Pair(_) | Part::Status { .. } => None,
        }
    }

    /// The descriptor that is the argument of this kind; none for the current directory.
    pub fn descriptor(&self, kind: Argument) -> Option<Descriptor<'a>> {
        as_descriptor(self.part(kind)?).filter(|found| found.number != AT_FDCWD)
    }

    /// The path that is the `nth` of the call's, from 0, and the directory that it begins at; none
    /// where the call has no directory.
    pub fn path(&self, nth: usize) -> Option<(Option<Descriptor<'a>>, Cow<'a, [u8]>)> {
        let place = self.nth(Argument::Path, nth)?;
        let bytes = as_text(self.part_at(place)?)?;
        let before = place
            .checked_sub(1)
            .filter(|&before| self.known.arguments[before] == Argument::Dir);
        let directory = before.and_then(|before| as_descriptor(self.part_at(before)?));
        Some((directory, bytes))
    }

    /// The text that is no path; none where the source does not tell all of it (`-s 0` leaves
    /// `""...` of an attribute's name).
    pub fn text(&self) -> Option<Cow<'a, [u8]>> {
        whole_text(self.part(Argument::Text)?)
    }

    /// What the call has put into its buffer, where the source tells all of it.
    pub fn data(&self) -> Option<Cow<'a, [u8]>> {
        whole_text(self.part(Argument::Data)?)
    }

    /// Flags, whence or command, as the number that the kernel is given on x86-64.
    pub fn flags(&self) -> Option<u64> {
        let kinds = [Argument::Flags, Argument::Whence, Argument::Command];
        for kind in kinds {
            if let Some(part) = self.part(kind) {
                return bits(part, b"flags");
            }
        }
        bits(self.part(Argument::How)?, b"flags")
    }

    /// Permissions, or protection of memory.
    pub fn mode(&self) -> Option<u32> {
        let kinds = [Argument::Mode, Argument::Protection];
        let part = kinds.into_iter().find_map(|kind| self.part(kind));
        let part = part.or_else(|| self.part(Argument::How))?;
        u32::try_from(bits(part, b"mode")?).ok()
    }

    /// How many bytes were asked for.
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

    /// A place in a file that is given by pointer, the `nth` from 0; none where the offset of the
    /// descriptor counts.
    pub fn place(&self, nth: usize) -> Option<i64> {
        match self.part_at(self.nth(Argument::Place, nth)?)? {
            Part::Number(number) => Some(number),
            Part::Written(text) => value::number(Arguments::of(value::inner(text)?).next()?),
            _ => None,
        }
    }

    /// Size and mode that stat or one like it has found.
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
            |found| found.map(Some),
        );
        let mode = mode.and_then(constants::bits);
        let size = size.and_then(value::number);
        (size, mode.and_then(|mode| u32::try_from(mode).ok()))
    }

    /// Fields of a structure that strace has written in an argument of this kind.
    pub fn fields<const N: usize>(&self, kind: Argument, names: [&[u8]; N]) -> [Option<&'a [u8]>; N] {
        match self.part(kind) {
            Some(Part::Written(text)) => value::fields(text, names, N),
            _ => [None; N],
        }
    }

    /// The two descriptors of a pipe.
    pub fn pair(&self) -> Option<[i32; 2]> {
        match self.part(Argument::Pair)? {
            Part::Pair(pair) => Some(pair),
            Part::Written(text) => {
                let mut told =
                    Arguments::of(value::inner(text)?).map(|part| Some(value::descriptor(part)?.number));
                Some([told.next()??, told.next()??])
            }
            _ => None,
        }
    }

    /// Descriptors of other processes that came with a message: `cmsg_type=SCM_RIGHTS,
    /// cmsg_data=[5, 6]`.
    pub fn received(&self) -> Vec<Descriptor<'a>> {
        const RIGHTS: &[u8] = b"cmsg_type=SCM_RIGHTS, cmsg_data=[";
        let mut found = Vec::new();
        let mut rest = self.written;
        while let Some(at) = memchr::memmem::find(rest, RIGHTS) {
            rest = &rest[at + RIGHTS.len()..];
            found.extend(Arguments::of(rest).map_while(value::descriptor));
        }
        found
    }

    /// Whether execve is to close what it makes: `O_CLOEXEC`, `SOCK_CLOEXEC`, and so on, which are
    /// one number but for memfd's and fanotify's; some are made so always. `flags` is what
    /// [`Self::flags`] has told.
    pub fn is_marked(&self, flags: Option<u64>) -> bool {
        const ALWAYS: [&str; 5] = [
            "bpf",
            "io_uring_setup",
            "landlock_create_ruleset",
            "pidfd_getfd",
            "pidfd_open",
        ];
        let mark = match self.known.name {
            "memfd_create" | "fanotify_init" | "fsopen" | "fsmount" | "fspick" | "perf_event_open" => {
                let Some(Part::Written(text)) = self.part(Argument::Flags) else {
                    return flags.is_some_and(|flags| flags & 1 != 0);
                };
                return text
                    .split(|&byte| byte == b'|')
                    .any(|one| one.ends_with(b"_CLOEXEC"));
            }
            _ => constants::O_CLOEXEC,
        };
        ALWAYS.contains(&self.known.name) || flags.is_some_and(|flags| flags & mark != 0)
    }

    /// Whether a thread that it makes shares this with its parent: `CLONE_FILES`, `CLONE_FS`,
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

/// What most files are found to be, without a walk over brackets: `{st_mode=S_IFREG|0644,
/// st_size=17, ...}`.
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

/// Constants; where a structure was given, those of its field.
fn bits(part: Part<'_>, field: &[u8]) -> Option<u64> {
    match part {
        Part::Number(number) => Some(number.cast_unsigned()),
        Part::Written(text) if text.first() == Some(&b'{') => constants::bits(value::field(text, field)?),
        Part::Written(text) => constants::bits(text.strip_prefix(b"flags=").unwrap_or(text)),
        Part::Bytes(_) | Part::Pair(_) | Part::Status { .. } => None,
    }
}

/// `[{iov_base=""..., iov_len=10}, {iov_base="a", iov_len=20}]`; none where strace has abbreviated
/// it to `[...]`.
pub(super) fn sum_of_vectors(text: &[u8]) -> Option<u64> {
    let mut sum = 0_u64;
    for one in Arguments::of(value::inner(text)?) {
        let length = value::number(value::field(one, b"iov_len")?)?;
        sum = sum.checked_add(u64::try_from(length).ok()?)?;
    }
    Some(sum)
}
