//! What calls make, move and take away.

use super::Evidence;
use crate::check::disk::{Disk, Kind};
use crate::check::report::Created;
use crate::check::tree::{Entry, Inode, Place};

impl<D: Disk> Evidence<'_, D> {
    /// A call makes a name. `initial`: it may have been there already.
    pub(in crate::check) fn create(&mut self, at: &Place, kind: Kind, initial: Option<Box<[u8]>>) -> usize {
        let mut inode = Inode::new(kind);
        inode.initial = initial;
        let id = self.tree.add(inode);
        self.place(at, id);
        id
    }

    /// A call puts a file under a name.
    pub(in crate::check) fn place(&mut self, at: &Place, id: usize) {
        if self.tree.lies_in(at.dir, id) {
            let path = self.tree.path(at);
            return self.cannot_explain(&path, "a directory was moved into itself");
        }
        self.moves(at);
        self.tree.put(at.dir, &at.name, Entry::There(id));
        self.record_created(at, id);
    }

    /// A call takes a name away.
    pub(in crate::check) fn remove(&mut self, at: &Place) {
        self.moves(at);
        self.tree.put(at.dir, &at.name, Entry::Gone);
    }

    pub(super) fn moves(&mut self, at: &Place) {
        if let Some(path) = self.tree.initial(at) {
            self.moved.insert(path);
        }
    }

    /// A name is made, and with a directory the names in it.
    pub(super) fn record_created(&mut self, at: &Place, id: usize) {
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
                .or_insert(Created { path, kind, of: None });
            created.kind = kind;
            created.of = of.or(created.of.take());
            for (name, entry) in &inode.entries {
                if let Entry::There(inner) = entry {
                    let name = name.clone();
                    made.push((Place { dir: id, name }, *inner));
                }
            }
        }
    }
}
