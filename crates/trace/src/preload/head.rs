//! Whose log it is.

use crate::preload::{Bytes, LogError, VERSION};
use crate::syscalls::{self, Syscall};

const MAGIC: &[u8] = b"plimcall";

/// The head of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head<'a> {
    /// The process.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// The thread.
    pub tid: u32,
    /// When the log was begun: `CLOCK_MONOTONIC`, ns, as all times of its records.
    pub monotonic_ns: u64,
    /// The same: ns since the Unix epoch.
    pub unix_ns: u64,
    /// The program that began with this log. None for those of other threads, and of children of
    /// fork.
    pub image: Option<Image<'a>>,
}

/// What a program has begun with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image<'a> {
    /// Program and arguments, to their 16384th byte.
    pub command: Vec<&'a [u8]>,
    /// The working directory.
    pub directory: &'a [u8],
    /// What was open already.
    pub open: Vec<OpenDescriptor<'a>>,
    /// The host, as uname(2) has it: node, release, machine.
    pub host: Vec<&'a [u8]>,
}

/// A descriptor that was open when a program began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenDescriptor<'a> {
    /// Its number.
    pub number: i32,
    /// Flags of its open file: `O_*`.
    pub flags: u32,
    /// execve closes it.
    pub is_marked: bool,
    /// Where the open file stood. None where there is no such place (a pipe).
    pub offset: Option<u64>,
    /// As `/proc/PID/fd` has it: a name of a file, or `pipe:[7]` and the like.
    pub name: &'a [u8],
}

/// The head, the calls by their numbers (None for one that nobody knew when this was written), and
/// what follows.
pub(super) type Parsed<'a> = (Head<'a>, Vec<Option<&'static Syscall>>, &'a [u8]);

pub(super) fn parse(bytes: &[u8]) -> Result<Parsed<'_>, LogError> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(LogError::NoLog)?;
    let mut fixed = Bytes(rest);
    let version = fixed.u32().ok_or(LogError::NoLog)?;
    if version != VERSION {
        return Err(LogError::Version(version));
    }
    read(bytes, fixed).ok_or(LogError::Head)
}

fn read<'a>(bytes: &'a [u8], mut fixed: Bytes<'a>) -> Option<Parsed<'a>> {
    let (head, records) = bytes.split_at_checked(fixed.u32()? as usize)?;
    let mut found = Head {
        pid: fixed.u32()?,
        parent: fixed.u32()?,
        tid: fixed.u32()?,
        image: (fixed.u32()? == 1).then(Image::default),
        monotonic_ns: fixed.u64()?,
        unix_ns: fixed.u64()?,
    };
    let mut calls = Vec::new();
    let mut parts = Bytes(head.get(bytes.len() - fixed.0.len()..)?);
    while !parts.0.is_empty() {
        let (what, length) = (parts.u32()?, parts.u32()? as usize);
        let part = parts.padded(length)?;
        match (what, &mut found.image) {
            (1, _) => calls = each(part, b'\n').map(syscalls::find).collect(),
            (2, Some(image)) => image.command = each(part, 0).collect(),
            (3, Some(image)) => image.directory = part,
            (4, Some(image)) => image.open.push(descriptor(Bytes(part))?),
            (5, Some(image)) => image.host = each(part, 0).collect(),
            // What a later recorder tells besides.
            _ => {}
        }
    }
    Some((found, calls, records))
}

/// Parts with an end each; the last one may be without.
fn each(bytes: &[u8], end: u8) -> impl Iterator<Item = &[u8]> {
    let whole = bytes.strip_suffix(&[end]).unwrap_or(bytes);
    let parts = (!bytes.is_empty()).then(|| whole.split(move |&byte| byte == end));
    parts.into_iter().flatten()
}

fn descriptor(mut part: Bytes<'_>) -> Option<OpenDescriptor<'_>> {
    let number = part.u32()?.cast_signed();
    let flags = part.u32()?;
    let is_marked = part.u32()? != 0;
    part.u32()?;
    let offset = part.i64()?.try_into().ok();
    Some(OpenDescriptor {
        number,
        flags,
        is_marked,
        offset,
        name: part.0,
    })
}
