//! Names that calls make, move and remove.

use super::Evidence;
use crate::check::disk::{Disk, Kind};
use crate::check::report::CreatedName;
use crate::check::tree::{DirEntryName, Entry, Inode};

impl<D: Disk> Evidence<'_, D> {
    /// Records that a call makes a name. `initial`: path of the file if it may have existed before.
    pub(in crate::check) fn create(
        &mut self,
        at: &DirEntryName,
        kind: Kind,
        initial: Option<Box<[u8]>>,
    ) -> usize {
        let mut inode = Inode::new(kind);
        inode.initial = initial;
        let id = self.tree.add(inode);
        self.add_name(at, id);
        id
    }

    /// Records that a call assigns a name to a file.
    pub(in crate::check) fn add_name(&mut self, at: &DirEntryName, id: usize) {
        if self.tree.is_beneath(at.dir, id) {
            let path = self.tree.path(at);
            return self.cannot_explain(&path, "a call moved a directory into itself");
        }
        self.note_moved(at);
        self.tree.put(at.dir, &at.name, Entry::There(id));
        self.record_created(at, id);
    }

    /// Records that a call removes a name.
    pub(in crate::check) fn remove(&mut self, at: &DirEntryName) {
        self.note_moved(at);
        self.tree.put(at.dir, &at.name, Entry::Gone);
    }

    pub(super) fn note_moved(&mut self, at: &DirEntryName) {
        if let Some(path) = self.tree.initial(at) {
            self.moved.insert(path);
        }
    }

    /// Records a name that the trace makes, and for a directory the names in it.
    pub(super) fn record_created(&mut self, at: &DirEntryName, id: usize) {
        let mut made = vec![(at.clone(), id)];
        while let Some((at, id)) = made.pop() {
            let inode = &self.tree.inodes[id];
            let was_there = inode.found.is_some() || inode.finding.is_some();
            let of = inode.initial.clone().filter(|_| was_there);
            let path = self.tree.path(&at);
            let kind = inode.kind;
            let created = self
                .created
                .entry(path.clone())
                .or_insert(CreatedName { path, kind, of: None });
            created.kind = kind;
            created.of = of.or(created.of.take());
            for (name, entry) in &inode.entries {
                if let Entry::There(inner) = entry {
                    let name = name.clone();
                    made.push((DirEntryName { dir: id, name }, *inner));
                }
            }
        }
    }
}
