//! Sizes of files, empty directories, and permissions.

use super::findings::need;
use super::{Evidence, KEEPER};
use crate::check::disk::{Disk, Kind};
use crate::check::report::What;
use crate::check::tree::{DirEntryName, Entry};

impl<D: Disk> Evidence<'_, D> {
    /// Requires that a file has at least this size. `exact`: a call has reported its size.
    pub(in crate::check) fn require_size(&mut self, id: usize, size: u64, exact: bool) {
        let inode = &mut self.tree.inodes[id];
        inode.exact |= exact;
        if size <= inode.size {
            return;
        }
        inode.size = size;
        if inode.quiet {
            return;
        }
        let Some(initial) = inode.initial.clone().filter(|_| !inode.fixed) else {
            let at = DirEntryName {
                dir: inode.parent,
                name: inode.name.clone(),
            };
            let path = self.tree.path(&at);
            return self.cannot_explain(&path, "it contains more bytes than calls have written to it");
        };
        inode.least = size;
        if let Some(found) = inode.found {
            let what = What::TooSmall {
                has: found.size,
                needs: size,
            };
            if let Some(small) = inode.small {
                if let Some(finding) = &mut self.findings[small] {
                    finding.what = what;
                }
            } else {
                let finding = self.add_finding(initial, what);
                self.inode(id).small = Some(finding);
            }
        } else if inode.finding.is_none() {
            // Opened with O_CREAT: this shows that it existed before.
            inode.kind = Kind::File;
            let finding = self.add_finding(initial.clone(), What::Missing(need(&self.tree.inodes[id])));
            self.missing.insert(initial, finding);
            self.inode(id).finding = Some(finding);
        }
    }

    /// Records that a call was allowed, or not allowed, to read (4), write (2) or search and
    /// execute (1).
    pub(in crate::check) fn note_permission(&mut self, id: usize, bits: u32, allowed: bool) {
        let inode = &mut self.tree.inodes[id];
        if inode.opened_up || inode.quiet {
            return;
        }
        let noted = if allowed {
            &mut inode.granted
        } else {
            &mut inode.refused
        };
        *noted |= bits;
        let (Some(found), Some(initial)) = (inode.found, inode.initial.clone()) else {
            return;
        };
        let whats = if allowed {
            let lacks = bits & !found.allowed & !inode.reported;
            inode.reported |= lacks;
            let all = [
                (4, What::NotReadable),
                (2, What::NotWritable),
                (1, What::NotSearchable),
            ];
            all.into_iter()
                .filter(|(bit, _)| lacks & bit != 0)
                .map(|(_, what)| what)
                .collect()
        } else if found.allowed & bits == bits && inode.reported & 8 == 0 {
            inode.reported |= 8;
            vec![What::TooOpen]
        } else {
            Vec::new()
        };
        for what in whats {
            self.add_finding(initial.clone(), what);
        }
    }

    /// Requires that a directory was empty, because it was removed.
    pub(in crate::check) fn require_empty(&mut self, at: &DirEntryName, dir: usize) {
        if self.tree.check_empty(dir) || self.tree.inodes[dir].quiet {
            return;
        }
        let inode = &self.tree.inodes[dir];
        let is_there = |entry: &Entry| match entry {
            Entry::There(id) => self.tree.inodes[*id].needed || self.tree.inodes[*id].found.is_none(),
            _ => false,
        };
        let is_explained = inode.kept || inode.entries.values().any(is_there);
        if let Some(path) = inode.initial.clone().filter(|_| !is_explained) {
            self.add_finding(path, What::NotEmpty);
        } else {
            let path = self.tree.path(at);
            self.cannot_explain(
                &path,
                "a call removed the directory, but it contains names that no call has removed",
            );
        }
    }

    /// Requires that a directory was not empty.
    pub(in crate::check) fn require_not_empty(&mut self, dir: usize) {
        if !self.tree.check_empty(dir) {
            self.inode(dir).kept = true;
            return;
        }
        self.inode(dir).kept = true;
        let at = DirEntryName {
            dir,
            name: KEEPER.into(),
        };
        let entry = self.tree.entry(dir, KEEPER);
        self.assume(&at, entry, Kind::File);
    }
}
