//! Calls that make, move and remove names.

use plimsoll_trace::event::Event;
use plimsoll_trace::syscalls::Effect;

use super::{AT_FOLLOW, Walk};
use crate::check::disk::{Disk, Kind};
use crate::check::report::What;
use crate::check::tree::{DirEntryName, Resolution};
use crate::names::NameMapping;

const AT_REMOVE_DIRECTORY: u64 = 0x200;
// Flags of renameat2(2).
const NO_REPLACE: u64 = 1;
const EXCHANGE: u64 = 2;

impl<D: Disk> Walk<'_, D> {
    pub(super) fn note_make(&mut self, event: &Event) {
        let Some(path) = self.path(event.path) else {
            return;
        };
        let kind = match event.call.effect {
            Effect::Symlink => Kind::Link,
            _ if event.call.name.starts_with("mkdir") => Kind::Directory,
            _ => match Kind::of(event.mode.unwrap_or(0)) {
                Kind::Unknown => Kind::File,
                kind => kind,
            },
        };
        let Some((at, _)) = self.evidence.vacate(path, false) else {
            return;
        };
        self.evidence.note_permission(at.dir, 2, true);
        let id = self.evidence.create(&at, kind, None);
        if let (Kind::Link, Some(link), Some(target)) = (kind, event.path, event.path2) {
            let target = self.table.target(link, self.names.path(target));
            // A link that would lead out of the root is not made. Files beneath it are unknown.
            let inode = self.evidence.inode(id);
            inode.quiet = target.is_none();
            inode.target = target.map(Into::into);
        }
        self.report_change_of_shared_name(&at);
    }

    pub(super) fn note_link(&mut self, event: &Event) {
        let (from, to) = (self.path(event.path), self.path(event.path2));
        let follow = event.flags.is_some_and(|flags| flags & AT_FOLLOW != 0);
        let id = match from {
            Some(from) => {
                let required = self.evidence.require(from, follow, Kind::Unknown);
                required.map(|(at, id)| {
                    // A directory has no second name.
                    if matches!(self.evidence.inode(id).kind, Kind::Directory | Kind::Unknown) {
                        self.evidence.conform(&at, id, Kind::File);
                    }
                    id
                })
            }
            None => self.open_file(event.open, event.file).map(|opened| opened.inode),
        };
        self.check_same_copy(event);
        let Some((at, _)) = to.and_then(|to| self.evidence.vacate(to, false)) else {
            return;
        };
        self.evidence.note_permission(at.dir, 2, true);
        match id {
            Some(id) => self.evidence.add_name(&at, id),
            None => self.add_from_outside(&at),
        }
        self.report_change_of_shared_name(&at);
    }

    pub(super) fn note_remove(&mut self, event: &Event) {
        let Some(path) = self.path(event.path) else {
            return;
        };
        let flags = event.flags.unwrap_or(0);
        let is_directory = event.call.name == "rmdir" || flags & AT_REMOVE_DIRECTORY != 0;
        let kind = if is_directory {
            Kind::Directory
        } else {
            Kind::Unknown
        };
        let Some((at, id)) = self.evidence.require(path, false, kind) else {
            return;
        };
        if is_directory {
            self.evidence.require_empty(&at, id);
        } else if self.evidence.inode(id).kind == Kind::Directory {
            self.evidence.conform(&at, id, Kind::File);
        }
        self.evidence.note_permission(at.dir, 2, true);
        self.evidence.remove(&at);
        self.report_change_of_shared_name(&at);
    }

    pub(super) fn note_rename(&mut self, event: &Event) {
        let flags = if event.call.name == "renameat2" {
            event.flags.unwrap_or(0)
        } else {
            0
        };
        self.check_same_copy(event);
        let from = self.path(event.path).map(|path| {
            let required = self.evidence.require(path, false, Kind::Unknown);
            if let Some((at, _)) = &required {
                self.evidence.note_permission(at.dir, 2, true);
                self.report_change_of_shared_name(at);
            }
            required
        });
        let to = self.path(event.path2);
        match (from, to) {
            (Some(Some((at, id))), Some(to)) if flags & EXCHANGE != 0 => {
                let Some((to, other)) = self.evidence.require(to, false, Kind::Unknown) else {
                    return;
                };
                self.evidence.add_name(&to, id);
                self.evidence.add_name(&at, other);
            }
            (Some(Some((at, id))), Some(to)) => {
                if let Some(to) = self.replace(to, id, flags) {
                    self.evidence.note_permission(to.dir, 2, true);
                    self.evidence.remove(&at);
                    self.evidence.add_name(&to, id);
                    self.report_change_of_shared_name(&to);
                }
            }
            (Some(Some((at, _))), None) => self.evidence.remove(&at),
            (None, Some(to)) => {
                if let Some(to) = self.replace(to, usize::MAX, flags) {
                    self.add_from_outside(&to);
                    self.report_change_of_shared_name(&to);
                }
            }
            _ => {}
        }
    }

    /// Target of a rename. A file that exists there is replaced if that is permitted. None if both
    /// names denote the same file: then the rename has no effect.
    pub(super) fn replace(&mut self, to: &[u8], id: usize, flags: u64) -> Option<DirEntryName> {
        if flags & NO_REPLACE == 0
            && let Resolution::Found(at, old) = self.evidence.tree.resolve(to, false)
        {
            if old == id {
                return None;
            }
            let kind = self.evidence.tree.inodes.get(id).map(|inode| inode.kind);
            let old_kind = self.evidence.inode(old).kind;
            match (kind, old_kind) {
                (Some(Kind::Directory), _) => self.evidence.conform(&at, old, Kind::Directory),
                (Some(Kind::Unknown), Kind::Directory) => self.set_kind(id, Kind::Directory),
                (Some(_), Kind::Directory) => self.evidence.conform(&at, old, Kind::File),
                _ => {}
            }
            if self.evidence.inode(old).kind == Kind::Directory {
                self.evidence.require_empty(&at, old);
            }
            return Some(at);
        }
        self.evidence.vacate(to, false).map(|(at, _)| at)
    }

    /// Adds a name for a file that is unknown.
    pub(super) fn add_from_outside(&mut self, at: &DirEntryName) {
        let id = self.evidence.create(at, Kind::Unknown, None);
        self.evidence.inode(id).quiet = true;
    }

    pub(super) fn check_same_copy(&mut self, event: &Event) {
        let (Some(from), Some(to)) = (event.path, event.path2) else {
            return;
        };
        if let (NameMapping::Inside(_, from), NameMapping::Inside(path, to)) =
            (self.table.get(from), self.table.get(to))
            && from != to
            && *to == self.options.copy
        {
            self.evidence.add_finding(path.clone(), What::AcrossCopies);
        }
    }
}
