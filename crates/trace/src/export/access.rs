//! Converts events to accesses of regular files, for formats that contain nothing else.

use crate::event::{Event, FileId, OpenId, Outcome};
use crate::names::{Kind, Names};
use crate::syscalls::Effect;

/// The reasons why an event, or one side of a transfer, is not an access. The keys are documented
/// in `docs/traces-export.md`.
pub(super) mod reason {
    /// A call that the format cannot represent.
    pub const OTHER: &str = "other_call";
    /// The call failed.
    pub const FAILED: &str = "failed";
    /// The call was restarted, or its end was not recorded.
    pub const UNFINISHED: &str = "unfinished";
    /// A directory, a device, a pipe, a socket or memory; or the file is unknown.
    pub const NO_FILE: &str = "no_regular_file";
    /// The offset is unknown.
    pub const NO_OFFSET: &str = "no_offset";
    /// No data were transferred: the end of the file.
    pub const EMPTY: &str = "no_data";
}

/// A transfer of data to or from a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Access {
    pub open: Option<OpenId>,
    pub file: FileId,
    pub is_write: bool,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Number of bytes transferred, not those requested: greater than 0.
    pub length: u64,
}

/// One side of a transfer.
struct Side {
    open: Option<OpenId>,
    file: Option<FileId>,
    offset: Option<i64>,
    is_write: bool,
}

/// Passes the accesses of an event to `visit`: one, or two for a transfer between files. For each
/// side that is not an access, the reason is passed to `left_out`.
pub(super) fn accesses(
    event: &Event,
    names: &Names,
    mut visit: impl FnMut(Access),
    mut left_out: impl FnMut(&'static str),
) {
    let from = Side {
        open: event.open,
        file: event.file,
        offset: event.offset,
        is_write: event.call.effect == Effect::Write,
    };
    let to = Side {
        open: event.open2,
        file: event.file2,
        offset: event.offset2,
        is_write: true,
    };
    let sides = match event.call.effect {
        Effect::Read | Effect::Write => [Some(from), None],
        Effect::Transfer => [Some(from), Some(to)],
        _ => return left_out(reason::OTHER),
    };
    let transferred = match event.outcome {
        Outcome::Returned(value) => u64::try_from(value).unwrap_or(0),
        Outcome::Failed(_) => return left_out(reason::FAILED),
        Outcome::Restarted | Outcome::Unknown => return left_out(reason::UNFINISHED),
    };
    for side in sides.into_iter().flatten() {
        let file = side.file.filter(|&file| is_regular(names, file));
        let offset = side.offset.and_then(|offset| u64::try_from(offset).ok());
        match (file, offset) {
            (None, _) => left_out(reason::NO_FILE),
            (Some(_), None) => left_out(reason::NO_OFFSET),
            (Some(_), Some(_)) if transferred == 0 => left_out(reason::EMPTY),
            (Some(file), Some(offset)) => visit(Access {
                open: side.open,
                file,
                is_write: side.is_write,
                offset,
                length: transferred,
            }),
        }
    }
}

/// Whether the file is regular, or may be.
pub(super) fn is_regular(names: &Names, file: FileId) -> bool {
    names
        .files()
        .get(file.index())
        .is_some_and(|entry| entry.kind == Kind::File)
}
