//! Calls on the data of open files, and on their sizes.

use plimsoll_trace::event::Event;
use plimsoll_trace::syscalls::Effect;

use super::{OpenInode, Walk};
use crate::check::disk::{Disk, Kind};

// Flags of fallocate(2), lseek(2), mmap(2).
const KEEP_SIZE: u64 = 1;
const COLLAPSE: u64 = 8;
const INSERT: u64 = 0x20;
const FROM_END: u64 = 2;
const ANONYMOUS: u64 = 0x20;

impl<D: Disk> Walk<'_, D> {
    pub(super) fn note_read(&mut self, opened: OpenInode, offset: Option<i64>, bytes: u64) {
        self.evidence.note_permission(opened.inode, 4, true);
        let offset = offset.and_then(|offset| u64::try_from(offset).ok());
        if bytes > 0 && self.require_data(opened.inode) {
            let end = offset.unwrap_or(0).saturating_add(bytes);
            self.evidence.require_size(opened.inode, end, false);
        } else if let Some(end) = offset {
            // A read beyond the end returned nothing, so no mapping shows a greater size.
            let inode = self.evidence.inode(opened.inode);
            inode.exact |= bytes == 0 && end <= inode.size;
        }
    }

    pub(super) fn note_write(&mut self, opened: OpenInode, offset: Option<i64>, bytes: u64) {
        if bytes == 0 || !self.require_data(opened.inode) {
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

    /// Requires that a file is not a directory. Returns whether it is a regular file; the size of a
    /// device or FIFO is meaningless.
    pub(super) fn require_data(&mut self, id: usize) -> bool {
        if self.evidence.inode(id).kind == Kind::Unknown {
            self.evidence.set_inode_kind(id, Kind::File);
        }
        if self.evidence.inode(id).kind == Kind::Directory {
            self.set_kind(id, Kind::File);
        }
        self.evidence.inode(id).kind == Kind::File
    }

    pub(super) fn note_seek(&mut self, event: &Event, value: u64) {
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
            // The offset in a directory is specific to the file system.
            Kind::Unknown => inode.end = Some(size),
            _ => {}
        }
    }

    pub(super) fn note_map(&mut self, event: &Event) {
        if event.flags.is_some_and(|flags| flags & ANONYMOUS != 0) {
            return;
        }
        let Some(opened) = self.open_file(event.open, event.file) else {
            return;
        };
        let start = u64::try_from(event.offset.unwrap_or(0)).unwrap_or(0);
        let inode = self.evidence.inode(opened.inode);
        // A mapping after a write does not show the size at the beginning.
        if !inode.fixed && !inode.changed {
            let end = start.saturating_add(event.length.unwrap_or(0));
            inode.mapped = inode.mapped.max(end);
        }
    }

    pub(super) fn note_resize(&mut self, event: &Event) {
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
            return self.set_size(id, length);
        }
        let flags = event.flags.unwrap_or(0);
        let start = u64::try_from(event.offset.unwrap_or(0)).unwrap_or(0);
        let inode = self.evidence.inode(id);
        let size = inode.size;
        if flags & COLLAPSE != 0 {
            self.set_size(id, size.saturating_sub(length));
        } else if flags & INSERT != 0 {
            self.set_size(id, size.saturating_add(length));
        } else {
            if flags & KEEP_SIZE == 0 {
                inode.size = size.max(start.saturating_add(length));
            }
            self.mark_changed(id);
        }
    }

    pub(super) fn set_size(&mut self, id: usize, size: u64) {
        let inode = self.evidence.inode(id);
        inode.size = size;
        inode.fixed = true;
        self.mark_changed(id);
    }
}
