//! The simulated file system: a tree of names that stand for files, laid over the real one.

use std::collections::HashMap;
use std::io;

use super::disk::{Disk, DiskEntry, Kind};

/// Links that are followed on the way to one name, as in Linux: `path_resolution(7)`.
const LINKS: usize = 40;

/// The inode of the root.
pub(super) const ROOT: usize = 0;

/// What a directory has under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    There(usize),
    /// Nothing on the disk, and no call has said more.
    Absent,
    /// A call was told that there is nothing. `finding`: there is, and that was reported.
    /// `followed`: it may be a link to nowhere.
    Denied {
        finding: Option<usize>,
        followed: bool,
    },
    /// A call has removed it.
    Gone,
}

/// A file.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own that calls tell"
)]
pub(super) struct Inode {
    pub kind: Kind,
    /// Names in it: those that were asked for, or changed.
    pub entries: HashMap<Box<[u8]>, Entry>,
    /// The directory and the name that it was put under last.
    pub parent: usize,
    pub name: Box<[u8]>,
    /// Of a link.
    pub target: Option<Box<[u8]>>,
    /// Of a file: bytes, as far as is known.
    pub size: u64,
    /// What it must have had at the beginning.
    pub least: u64,
    /// A call has set the size: more than that was not there before.
    pub fixed: bool,
    /// Its path at the beginning; none where a call has made it.
    pub initial: Option<Box<[u8]>>,
    /// What the disk has there.
    pub found: Option<DiskEntry>,
    /// The finding that it is missing, or something else.
    pub finding: Option<usize>,
    /// The finding that it is too small.
    pub small: Option<usize>,
    /// A call needs that it is there.
    pub needed: bool,
    /// A call needs that it is of its kind.
    pub told: bool,
    /// Nothing is known of it, and nothing more is to be said of it.
    pub quiet: bool,
    /// A call has changed it, or who may use it.
    pub changed: bool,
    pub opened_up: bool,
    /// A directory that was not empty for a reason that nobody knows.
    pub kept: bool,
    /// Permissions that calls were given, and refused: 4 read, 2 write, 1 search or execute.
    pub granted: u32,
    pub refused: u32,
    /// Of these a finding was made.
    pub reported: u32,
    /// Permissions that calls have found.
    pub mode: Option<u32>,
    /// The end of what was mapped; and whether a call has told its size.
    pub mapped: u64,
    pub exact: bool,
    /// Where a seek to its end has led while nobody knew whether it is a file.
    pub end: Option<u64>,
}

impl Inode {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            entries: HashMap::new(),
            parent: ROOT,
            name: Box::default(),
            target: None,
            size: 0,
            least: 0,
            fixed: false,
            initial: None,
            found: None,
            finding: None,
            small: None,
            needed: false,
            told: false,
            quiet: false,
            changed: false,
            opened_up: false,
            kept: false,
            granted: 0,
            refused: 0,
            reported: 0,
            mode: None,
            mapped: 0,
            end: None,
            exact: false,
        }
    }
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub dir: usize,
    pub name: Box<[u8]>,
}

/// Where the way along a path ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// At its end.
    Found(Place, usize),
    /// Before its end, or (`last`) at it: there is nothing.
    Absent { at: Place, entry: Entry, last: bool },
    /// Before its end: that is no directory.
    NotDirectory(Place, usize),
    /// At a link that leads out of the root, or in circles; none: the path itself does.
    Leaves(Option<(Place, usize)>),
}

#[derive(Debug)]
pub(super) struct Tree<'a, D> {
    disk: &'a D,
    pub inodes: Vec<Inode>,
    /// Inodes by their paths at the beginning (`index_at_start`).
    at_start: HashMap<Box<[u8]>, usize>,
    /// What could not be looked at, first.
    pub error: Option<(Box<[u8]>, io::Error)>,
}

impl<'a, D: Disk> Tree<'a, D> {
    pub(super) fn new(disk: &'a D) -> Self {
        let mut root = Inode::new(Kind::Directory);
        root.initial = Some(Box::default());
        root.found = Some(DiskEntry {
            kind: Kind::Directory,
            size: 0,
            allowed: 7,
        });
        root.needed = true;
        Self {
            disk,
            inodes: vec![root],
            at_start: HashMap::new(),
            error: None,
        }
    }

    /// Goes along a path beneath the root. `follow`: also the link at its end.
    pub(super) fn resolve(&mut self, path: &[u8], follow: bool) -> Spot {
        self.resolve_with_rest(path, follow).0
    }

    /// The same, with what of the path is behind the spot.
    pub(super) fn resolve_with_rest(&mut self, path: &[u8], follow: bool) -> (Spot, Box<[u8]>) {
        self.walk(Self::entry, ROOT, path, follow, 0)
    }

    /// Goes along a path as it was at the beginning, as far as that is known now.
    pub(super) fn resolve_at_start(&mut self, dir: usize, path: &[u8]) -> Spot {
        self.walk(Self::entry_at_start, dir, path, false, 0).0
    }

    fn walk(
        &mut self,
        entry: fn(&mut Self, usize, &[u8]) -> Entry,
        mut dir: usize,
        path: &[u8],
        follow: bool,
        links: usize,
    ) -> (Spot, Box<[u8]>) {
        let mut rest = path;
        while let Some((part, behind)) = split(rest) {
            rest = behind;
            if part == b".." {
                if dir == ROOT {
                    return (Spot::Leaves(None), rest.into());
                }
                dir = self.inodes[dir].parent;
                continue;
            }
            let at = Place {
                dir,
                name: part.into(),
            };
            let last = split(rest).is_none();
            let id = match entry(self, dir, part) {
                Entry::There(id) => id,
                entry => return (Spot::Absent { at, entry, last }, rest.into()),
            };
            match self.inodes[id].kind {
                Kind::Link if follow || !last => {
                    let target = self.inodes[id].target.as_deref().unwrap_or_default();
                    if links == LINKS || target.starts_with(b"/") {
                        return (Spot::Leaves(Some((at, id))), rest.into());
                    }
                    let way = [target, rest].join(&b'/');
                    return match self.walk(entry, dir, &way, follow, links + 1) {
                        (Spot::Leaves(None), rest) => (Spot::Leaves(Some((at, id))), rest),
                        ends => ends,
                    };
                }
                _ if last => return (Spot::Found(at, id), Box::default()),
                Kind::Directory => dir = id,
                _ => return (Spot::NotDirectory(at, id), rest.into()),
            }
        }
        let at = Place {
            dir: self.inodes[dir].parent,
            name: self.inodes[dir].name.clone(),
        };
        (Spot::Found(at, dir), Box::default())
    }

    /// What a directory had under a name at the beginning; `Gone` where a call has put something
    /// there, or has been told that there is nothing.
    fn entry_at_start(&mut self, dir: usize, name: &[u8]) -> Entry {
        let at = Place {
            dir,
            name: name.into(),
        };
        let Some(initial) = self.initial(&at) else {
            return Entry::Gone;
        };
        if let Some(&id) = self.at_start.get(&initial) {
            return Entry::There(id);
        }
        match self.entry(dir, name) {
            Entry::There(id) if self.inodes[id].initial.as_ref() == Some(&initial) => Entry::There(id),
            Entry::Absent => Entry::Absent,
            _ => Entry::Gone,
        }
    }

    /// Files are found where they were at the beginning, wherever calls have moved them.
    pub(super) fn index_at_start(&mut self) {
        let inodes = self.inodes.iter().enumerate();
        let initial = inodes.filter_map(|(id, inode)| Some((inode.initial.clone()?, id)));
        self.at_start = initial.collect();
    }

    /// What a directory has under a name; the disk is asked the first time.
    pub(super) fn entry(&mut self, dir: usize, name: &[u8]) -> Entry {
        if let Some(entry) = self.inodes[dir].entries.get(name) {
            return *entry;
        }
        let directory = &self.inodes[dir];
        let (Some(_), Some(above)) = (&directory.found, &directory.initial) else {
            return Entry::Absent;
        };
        let path = join(above, name);
        let entry = match self.disk.lstat(&path) {
            Ok(Some(found)) => Entry::There(self.load(path, found)),
            Ok(None) => Entry::Absent,
            Err(error) => {
                self.error.get_or_insert((path, error));
                Entry::Absent
            }
        };
        self.put(dir, name, entry);
        entry
    }

    /// Takes a file from the disk.
    fn load(&mut self, path: Box<[u8]>, found: DiskEntry) -> usize {
        let mut inode = Inode::new(found.kind);
        if found.kind == Kind::Link {
            match self.disk.readlink(&path) {
                Ok(target) => inode.target = Some(target.into()),
                Err(error) => {
                    self.error.get_or_insert((path.clone(), error));
                }
            }
        }
        inode.size = found.size;
        inode.found = Some(found);
        inode.initial = Some(path);
        self.add(inode)
    }

    pub(super) fn add(&mut self, inode: Inode) -> usize {
        self.inodes.push(inode);
        self.inodes.len() - 1
    }

    /// Puts something under a name.
    pub(super) fn put(&mut self, dir: usize, name: &[u8], entry: Entry) {
        if let Entry::There(id) = entry {
            let inode = &mut self.inodes[id];
            inode.parent = dir;
            inode.name = name.into();
        }
        self.inodes[dir].entries.insert(name.into(), entry);
    }

    /// Forgets what calls have said of a name: the disk is asked again.
    pub(super) fn forget(&mut self, at: &Place) {
        self.inodes[at.dir].entries.remove(&at.name);
    }

    /// A file that was there at the beginning, and that nobody has changed; the disk need not have
    /// it.
    pub(super) fn initial(&self, at: &Place) -> Option<Box<[u8]>> {
        let above = self.inodes[at.dir].initial.as_deref()?;
        Some(join(above, &at.name))
    }

    /// Where a name is now.
    pub(super) fn path(&self, at: &Place) -> Box<[u8]> {
        let mut parts: Vec<&[u8]> = vec![&at.name];
        let mut dir = at.dir;
        while dir != ROOT {
            parts.push(&self.inodes[dir].name);
            dir = self.inodes[dir].parent;
        }
        parts.reverse();
        parts.join(&b'/').into()
    }

    /// Whether a directory lies in another one, or is it.
    pub(super) fn lies_in(&self, mut dir: usize, above: usize) -> bool {
        while dir != above && dir != ROOT {
            dir = self.inodes[dir].parent;
        }
        dir == above
    }

    /// Whether there are names in a directory that no call has removed.
    pub(super) fn check_empty(&mut self, dir: usize) -> bool {
        let directory = &self.inodes[dir];
        let is_there = |entry: &Entry| matches!(entry, Entry::There(_));
        if directory.entries.values().any(is_there) {
            return false;
        }
        let (Some(_), Some(path)) = (&directory.found, &directory.initial) else {
            return true;
        };
        match self.disk.list(path) {
            Ok(names) => names
                .iter()
                .all(|name| directory.entries.contains_key(name.as_slice())),
            Err(error) => {
                let path = path.clone();
                self.error.get_or_insert((path, error));
                true
            }
        }
    }
}

/// The first part of a path and what stands behind it; none where nothing is left.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = path;
    loop {
        let end = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
        let (part, behind) = rest.split_at(end);
        rest = behind.strip_prefix(b"/").unwrap_or(behind);
        if !part.is_empty() && part != b"." {
            return Some((part, rest));
        }
        if behind.is_empty() {
            return None;
        }
    }
}

pub(super) fn join(above: &[u8], name: &[u8]) -> Box<[u8]> {
    if above.is_empty() {
        name.into()
    } else {
        [above, name].join(&b'/').into()
    }
}
