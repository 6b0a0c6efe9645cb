//! Events as accesses to regular files, for formats that have nothing else.

use crate::event::{Event, FileId, OpenId, Outcome};
use crate::names::{Kind, Names};
use crate::syscalls::Effect;

/// Why an event, or a half of it, is no access. The keys stand in `docs/traces-export.md`.
pub(super) mod reason {
    /// A call that the format has no word for.
    pub const OTHER: &str = "other_call";
    /// The call failed.
    pub const FAILED: &str = "failed";
    /// Restarted, or nobody saw its end.
    pub const UNFINISHED: &str = "unfinished";
    /// A directory, a device, a pipe, a socket, memory; or not known what.
    pub const NO_FILE: &str = "no_regular_file";
    /// Not known where in the file.
    pub const NO_OFFSET: &str = "no_offset";
    /// No data came: the end of the file.
    pub const EMPTY: &str = "no_data";
}

/// Data that went to a file, or came from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Access {
    pub open: Option<OpenId>,
    pub file: FileId,
    pub is_write: bool,
    /// Where in the file, bytes.
    pub offset: u64,
    /// Bytes that were moved, not those that were asked for: above 0.
    pub length: u64,
}

/// One half of an event.
struct Half {
    open: Option<OpenId>,
    file: Option<FileId>,
    offset: Option<i64>,
    is_write: bool,
}

/// Gives the accesses of an event to `found`: one, or two where data went from file to file. The
/// reason goes to `left_out`, for each that is none.
pub(super) fn accesses(
    event: &Event,
    names: &Names,
    mut found: impl FnMut(Access),
    mut left_out: impl FnMut(&'static str),
) {
    let from = Half {
        open: event.open,
        file: event.file,
        offset: event.offset,
        is_write: event.call.effect == Effect::Write,
    };
    let to = Half {
        open: event.open2,
        file: event.file2,
        offset: event.offset2,
        is_write: true,
    };
    let halves = match event.call.effect {
        Effect::Read | Effect::Write => [Some(from), None],
        Effect::Transfer => [Some(from), Some(to)],
        _ => return left_out(reason::OTHER),
    };
    let moved = match event.outcome {
        Outcome::Returned(value) => u64::try_from(value).unwrap_or(0),
        Outcome::Failed(_) => return left_out(reason::FAILED),
        Outcome::Restarted | Outcome::Unknown => return left_out(reason::UNFINISHED),
    };
    for half in halves.into_iter().flatten() {
        let file = half.file.filter(|&file| is_regular(names, file));
        let offset = half.offset.and_then(|offset| u64::try_from(offset).ok());
        match (file, offset) {
            (None, _) => left_out(reason::NO_FILE),
            (Some(_), None) => left_out(reason::NO_OFFSET),
            (Some(_), Some(_)) if moved == 0 => left_out(reason::EMPTY),
            (Some(file), Some(offset)) => found(Access {
                open: half.open,
                file,
                is_write: half.is_write,
                offset,
                length: moved,
            }),
        }
    }
}

/// Whether it is a regular file, or may be one.
pub(super) fn is_regular(names: &Names, file: FileId) -> bool {
    names
        .files()
        .get(file.index())
        .is_some_and(|entry| entry.kind == Kind::File)
}
