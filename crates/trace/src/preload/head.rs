//! Reads the head of a log.

use plimsoll_preload_log::{MAGIC, VERSION, part};

use crate::preload::{Bytes, LogError};
use crate::syscalls::{self, Syscall};

/// The head of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head<'a> {
    /// The id of the process.
    pub pid: u32,
    /// The id of the parent process.
    pub parent: u32,
    /// The id of the thread.
    pub tid: u32,
    /// Start of the log: `CLOCK_MONOTONIC`, ns, as all times of its records.
    pub monotonic_ns: u64,
    /// Start of the log: ns since the Unix epoch.
    pub unix_ns: u64,
    /// The program that started with this log. None for a log of another thread or of a child of
    /// fork.
    pub image: Option<Image<'a>>,
}

/// The initial state of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image<'a> {
    /// The program and its arguments, at most 16,384 bytes together.
    pub command: Vec<&'a [u8]>,
    /// The working directory.
    pub directory: &'a [u8],
    /// The inherited descriptors.
    pub open: Vec<OpenDescriptor<'a>>,
    /// The host according to uname(2): node, release, machine.
    pub host: Vec<&'a [u8]>,
}

/// A descriptor that was open when a program started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenDescriptor<'a> {
    /// The number of the descriptor.
    pub number: i32,
    /// Flags of the open file: `O_*`.
    pub flags: u32,
    /// Whether execve closes it.
    pub is_marked: bool,
    /// The position of the open file. None if it has none (a pipe).
    pub offset: Option<u64>,
    /// The target of the link in `/proc/PID/fd`: a path, or a text such as `pipe:[7]`.
    pub name: &'a [u8],
}

/// The head, the calls by number (None if this version does not know the call), and the records.
pub(super) type ParsedLog<'a> = (Head<'a>, Vec<Option<&'static Syscall>>, &'a [u8]);

pub(super) fn parse(bytes: &[u8]) -> Result<ParsedLog<'_>, LogError> {
    let fixed = bytes.strip_prefix(MAGIC).ok_or(LogError::NoLog)?;
    let mut fixed = Bytes(fixed);
    let version = fixed.u32().ok_or(LogError::NoLog)?;
    if version != VERSION {
        return Err(LogError::Version(version));
    }
    read(bytes, fixed).ok_or(LogError::Head)
}

fn read<'a>(bytes: &'a [u8], mut fixed: Bytes<'a>) -> Option<ParsedLog<'a>> {
    let (head, records) = bytes.split_at_checked(fixed.u32()? as usize)?;
    let mut result = Head {
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
        let (kind, length) = (parts.u32()?, parts.u32()? as usize);
        let part = parts.padded(length)?;
        match (kind, &mut result.image) {
            (part::CALLS, _) => calls = each(part, b'\n').map(syscalls::find).collect(),
            (part::COMMAND, Some(image)) => image.command = each(part, 0).collect(),
            (part::DIRECTORY, Some(image)) => image.directory = part,
            (part::DESCRIPTOR, Some(image)) => image.open.push(descriptor(Bytes(part))?),
            (part::HOST, Some(image)) => image.host = each(part, 0).collect(),
            // Parts of a later recorder are skipped.
            _ => {}
        }
    }
    Some((result, calls, records))
}

/// Splits bytes into parts that end with `end`; the last part may lack it.
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
