//! What calls do to offsets and sizes.

use crate::constants::{
    FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE, FALLOC_FL_KEEP_SIZE, RWF_APPEND, SEEK_END,
};
use crate::event::{Event, FileId, OpenId};
use crate::kernel::{Kernel, Request};
use crate::names::Kind;
use crate::syscalls::{Argument, Effect};

impl Kernel {
    /// read(2), write(2) and all of their kind have moved `count` bytes.
    pub(super) fn data(&mut self, asked: &Request<'_>, count: i64, event: &mut Event) {
        let (Some(open), Some(file)) = (event.open, event.file) else {
            return;
        };
        if !self.has_offset(file) {
            return;
        }
        // preadv2(2) and pwritev2(2) take -1 for the offset of the descriptor.
        let given = asked.number(Argument::Offset).filter(|&offset| offset != -1);
        let writes = asked.effect() == Effect::Write;
        let appends = writes
            && (self.opens.get(open).is_some_and(|open| open.appends)
                || event
                    .flags
                    .is_some_and(|flags| asked.known.name == "pwritev2" && flags & RWF_APPEND != 0));
        let from = if appends {
            self.places.size(file)
        } else {
            given.or_else(|| self.offset(open))
        };
        event.offset = from;
        let end = from.map(|from| from.saturating_add(count));
        // Who appends nothing stays where it stood.
        if given.is_none() && !(appends && count == 0) {
            self.set_offset(open, end);
        }
        self.learns(file, event, end, count, writes);
    }

    /// What the result of a read or write says of the size of the file.
    fn learns(&mut self, file: FileId, event: &Event, end: Option<i64>, count: i64, writes: bool) {
        let Some(end) = end else { return };
        if writes {
            self.places.reaches(file, end);
        } else if count == 0 && end == 0 && event.length.is_some_and(|length| length > 0) {
            // Elsewhere than at its beginning, a read of nothing may also have begun behind the
            // end.
            self.places.set_size(file, 0);
        }
    }

    /// sendfile(2) and its like have moved `count` bytes from `event.open` to `event.open2`.
    pub(super) fn transfer(&mut self, asked: &Request<'_>, count: i64, event: &mut Event) {
        let is_sendfile = asked.known.name.starts_with("sendfile");
        let sides = [
            (event.open, event.file, asked.place(0)),
            (event.open2, event.file2, asked.place(1).filter(|_| !is_sendfile)),
        ];
        let [from, to] = sides.map(|(open, file, given)| self.side(open, file, given, count));
        (event.offset, event.offset2) = (from, to);
        if let (Some(file), Some(to)) = (event.file2, to) {
            self.places.reaches(file, to.saturating_add(count));
        }
    }

    fn side(
        &mut self,
        open: Option<OpenId>,
        file: Option<FileId>,
        given: Option<i64>,
        count: i64,
    ) -> Option<i64> {
        let open = open?;
        if !self.has_offset(file?) {
            return None;
        }
        let from = given.or_else(|| self.offset(open));
        if given.is_none() {
            self.set_offset(open, from.map(|from| from.saturating_add(count)));
        }
        from
    }

    pub(super) fn seek(&mut self, asked: &Request<'_>, value: i64, event: &mut Event) {
        event.offset = asked.number(Argument::Offset);
        let (Some(open), Some(file)) = (event.open, event.file) else {
            return;
        };
        self.set_offset(open, Some(value));
        if let (Some(SEEK_END), Some(asked)) = (event.flags, event.offset) {
            self.places.set_size(file, value.saturating_sub(asked));
        }
    }

    /// truncate(2) and fallocate(2).
    pub(super) fn sized(&mut self, asked: &Request<'_>, event: &mut Event) {
        if event.open.is_none() {
            event.file = event.path.map(|path| self.places.met(path, Kind::File));
        }
        event.offset = asked.number(Argument::Offset);
        let (Some(file), Some(length)) = (event.file, event.length) else {
            return;
        };
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        if asked.effect() == Effect::Truncate {
            self.places.set_size(file, length);
            return;
        }
        let mode = event.flags.unwrap_or(0);
        let size = self.places.size(file);
        if let (Some(size), true) = (size, mode & FALLOC_FL_COLLAPSE_RANGE != 0) {
            self.places.set_size(file, size.saturating_sub(length));
        } else if let (Some(size), true) = (size, mode & FALLOC_FL_INSERT_RANGE != 0) {
            self.places.set_size(file, size.saturating_add(length));
        } else if mode & FALLOC_FL_KEEP_SIZE == 0 {
            self.places
                .reaches(file, event.offset.unwrap_or(0).saturating_add(length));
        }
    }

    pub(super) fn has_offset(&self, file: FileId) -> bool {
        matches!(self.places.kind(file), Kind::File | Kind::Memory | Kind::Device)
    }

    fn offset(&self, open: OpenId) -> Option<i64> {
        self.opens.get(open)?.offset
    }

    fn set_offset(&mut self, open: OpenId, offset: Option<i64>) {
        if let Some(open) = self.opens.get_mut(open) {
            open.offset = offset;
        }
    }

    pub(super) fn set_kind(&mut self, file: Option<FileId>, kind: Kind) {
        if let Some(file) = file {
            self.places.set_kind(file, kind);
        }
    }
}
