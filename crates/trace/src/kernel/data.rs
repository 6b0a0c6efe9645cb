//! The effects of calls on offsets and sizes.

use crate::constants::{
    FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE, FALLOC_FL_KEEP_SIZE, RWF_APPEND, SEEK_END,
};
use crate::event::{Event, FileId, OpenId};
use crate::kernel::{Kernel, Request};
use crate::names::Kind;
use crate::syscalls::{Argument, Effect};

impl Kernel {
    /// Handles a read(2), write(2) or a variant that transferred `count` bytes.
    pub(super) fn data(&mut self, request: &Request<'_>, count: i64, event: &mut Event) {
        let (Some(open), Some(file)) = (event.open, event.file) else {
            return;
        };
        if !self.has_offset(file) {
            return;
        }
        // In preadv2(2) and pwritev2(2), -1 is the offset of the descriptor.
        let given = request.number(Argument::Offset).filter(|&offset| offset != -1);
        let is_write = request.effect() == Effect::Write;
        let appends = is_write
            && (self.opens.get(open).is_some_and(|open| open.appends)
                || event
                    .flags
                    .is_some_and(|flags| request.call.name == "pwritev2" && flags & RWF_APPEND != 0));
        let from = if appends {
            self.paths.size(file)
        } else {
            given.or_else(|| self.offset(open))
        };
        event.offset = from;
        let end = from.map(|from| from.saturating_add(count));
        // An append of 0 bytes does not move the offset.
        if given.is_none() && !(appends && count == 0) {
            self.set_offset(open, end);
        }
        self.update_size(file, event, end, count, is_write);
    }

    /// Derives the size of the file from the result of a read or write.
    fn update_size(&mut self, file: FileId, event: &Event, end: Option<i64>, count: i64, is_write: bool) {
        let Some(end) = end else { return };
        if is_write {
            self.paths.grow_to(file, end);
        } else if count == 0 && end == 0 && event.length.is_some_and(|length| length > 0) {
            // At an offset greater than 0, a read of 0 bytes may also have begun after the end.
            self.paths.set_size(file, 0);
        }
    }

    /// Handles a sendfile(2) or a similar call that transferred `count` bytes from `event.open` to
    /// `event.open2`.
    pub(super) fn transfer(&mut self, request: &Request<'_>, count: i64, event: &mut Event) {
        let is_sendfile = request.call.name.starts_with("sendfile");
        let sides = [
            (event.open, event.file, request.pointed_offset(0)),
            (
                event.open2,
                event.file2,
                request.pointed_offset(1).filter(|_| !is_sendfile),
            ),
        ];
        let [from, to] = sides.map(|(open, file, given)| self.side(open, file, given, count));
        (event.offset, event.offset2) = (from, to);
        if let (Some(file), Some(to)) = (event.file2, to) {
            self.paths.grow_to(file, to.saturating_add(count));
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

    pub(super) fn seek(&mut self, request: &Request<'_>, value: i64, event: &mut Event) {
        event.offset = request.number(Argument::Offset);
        let (Some(open), Some(file)) = (event.open, event.file) else {
            return;
        };
        self.set_offset(open, Some(value));
        if let (Some(SEEK_END), Some(offset)) = (event.flags, event.offset) {
            self.paths.set_size(file, value.saturating_sub(offset));
        }
    }

    /// Handles truncate(2) and fallocate(2).
    pub(super) fn resize(&mut self, request: &Request<'_>, event: &mut Event) {
        if event.open.is_none() {
            event.file = event.path.map(|path| self.paths.find_or_add(path, Kind::File));
        }
        event.offset = request.number(Argument::Offset);
        let (Some(file), Some(length)) = (event.file, event.length) else {
            return;
        };
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        if request.effect() == Effect::Truncate {
            self.paths.set_size(file, length);
            return;
        }
        let mode = event.flags.unwrap_or(0);
        let size = self.paths.size(file);
        if let (Some(size), true) = (size, mode & FALLOC_FL_COLLAPSE_RANGE != 0) {
            self.paths.set_size(file, size.saturating_sub(length));
        } else if let (Some(size), true) = (size, mode & FALLOC_FL_INSERT_RANGE != 0) {
            self.paths.set_size(file, size.saturating_add(length));
        } else if mode & FALLOC_FL_KEEP_SIZE == 0 {
            self.paths
                .grow_to(file, event.offset.unwrap_or(0).saturating_add(length));
        }
    }

    pub(super) fn has_offset(&self, file: FileId) -> bool {
        matches!(self.paths.kind(file), Kind::File | Kind::Memory | Kind::Device)
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
            self.paths.set_kind(file, kind);
        }
    }
}
