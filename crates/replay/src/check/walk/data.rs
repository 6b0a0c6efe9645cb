//! Calls on the data of open files, and on their sizes.

use plimsoll_trace::event::Event;
use plimsoll_trace::syscalls::Effect;

use super::{OpenInode, Walk};
use crate::check::disk::{Disk, Kind};

// Of fallocate(2), lseek(2), mmap(2).
const KEEP_SIZE: u64 = 1;
const COLLAPSE: u64 = 8;
const INSERT: u64 = 0x20;
const FROM_END: u64 = 2;
const ANONYMOUS: u64 = 0x20;

impl<D: Disk> Walk<'_, D> {
    pub(super) fn reads(&mut self, opened: OpenInode, offset: Option<i64>, bytes: u64) {
        self.evidence.note_permission(opened.inode, 4, true);
        let offset = offset.and_then(|offset| u64::try_from(offset).ok());
        if bytes > 0 && self.holds_data(opened.inode) {
            let end = offset.unwrap_or(0).saturating_add(bytes);
            self.evidence.require_size(opened.inode, end, false);
        } else if let Some(end) = offset {
            // Nothing is read behind the end: it is not mapped for more than that either.
            let inode = self.evidence.inode(opened.inode);
            inode.exact |= bytes == 0 && end <= inode.size;
        }
    }

    pub(super) fn writes(&mut self, opened: OpenInode, offset: Option<i64>, bytes: u64) {
        if bytes == 0 || !self.holds_data(opened.inode) {
            return;
        }
        self.evidence.note_permission(opened.inode, 2, true);
        let offset = offset.and_then(|offset| u64::try_from(offset).ok());
        if let Some(offset) = offset.filter(|_| opened.appends) {
            self.evidence.require_size(opened.inode, offset, true);
        }
        let inode = self.evidence.inode(opened.inode);
        let start = offset.unwrap_or(if opened.appends { inode.size } else { 0 });
        inode.size = inode.size.max(start.saturating_add(bytes));
        self.mark_changed(opened.inode);
    }

    /// Whether it can hold bytes: a device, a FIFO says nothing of sizes.
    pub(super) fn holds_data(&mut self, id: usize) -> bool {
        if self.evidence.inode(id).kind == Kind::Unknown {
            self.evidence.becomes(id, Kind::File);
        }
        if self.evidence.inode(id).kind == Kind::Directory {
            self.set_kind(id, Kind::File);
        }
        self.evidence.inode(id).kind == Kind::File
    }

    pub(super) fn seeks(&mut self, event: &Event, value: u64) {
        let Some(opened) = self.open_file(event.open, event.file) else {
            return;
        };
        let (Some(FROM_END), Some(asked)) = (event.flags, event.offset) else {
            return;
        };
        let Some(size) = value.checked_add_signed(asked.saturating_neg()) else {
            return;
        };
        let inode = self.evidence.inode(opened.inode);
        match inode.kind {
            Kind::File => self.evidence.require_size(opened.inode, size, true),
            // Of a directory it would be the file system's own measure.
            Kind::Unknown => inode.end = Some(size),
            _ => {}
        }
    }

    pub(super) fn maps(&mut self, event: &Event) {
        if event.flags.is_some_and(|flags| flags & ANONYMOUS != 0) {
            return;
        }
        let Some(opened) = self.open_file(event.open, event.file) else {
            return;
        };
        let start = u64::try_from(event.offset.unwrap_or(0)).unwrap_or(0);
        let inode = self.evidence.inode(opened.inode);
        // What was written since is mapped, and says nothing of the beginning.
        if !inode.fixed && !inode.changed {
            let end = start.saturating_add(event.length.unwrap_or(0));
            inode.mapped = inode.mapped.max(end);
        }
    }

    pub(super) fn resizes(&mut self, event: &Event) {
        let id = match (event.path, event.open) {
            (Some(_), _) => {
                let path = self.path(event.path);
                path.and_then(|path| self.evidence.require(path, true, Kind::File))
                    .map(|(_, id)| id)
            }
            (None, open) => self.open_file(open, event.file).map(|opened| opened.inode),
        };
        let (Some(id), Some(length)) = (id, event.length) else {
            return;
        };
        self.evidence.note_permission(id, 2, true);
        if event.call.effect == Effect::Truncate {
            return self.sets_size(id, length);
        }
        let flags = event.flags.unwrap_or(0);
        let start = u64::try_from(event.offset.unwrap_or(0)).unwrap_or(0);
        let inode = self.evidence.inode(id);
        let size = inode.size;
        if flags & COLLAPSE != 0 {
            self.sets_size(id, size.saturating_sub(length));
        } else if flags & INSERT != 0 {
            self.sets_size(id, size.saturating_add(length));
        } else {
            if flags & KEEP_SIZE == 0 {
                inode.size = size.max(start.saturating_add(length));
            }
            self.mark_changed(id);
        }
    }

    pub(super) fn sets_size(&mut self, id: usize, size: u64) {
        let inode = self.evidence.inode(id);
        inode.size = size;
        inode.fixed = true;
        self.mark_changed(id);
    }
}
