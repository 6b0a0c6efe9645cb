//! The simulated file system: a tree of names and files, an overlay of the real one.

use std::collections::HashMap;
use std::io;

use super::disk::{Disk, DiskEntry, Kind};

/// Maximum number of links that are followed in one path, as in Linux: `path_resolution(7)`.
const LINKS: usize = 40;

/// The inode of the root.
pub(super) const ROOT: usize = 0;

/// Entry of a directory under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    There(usize),
    /// Nothing exists on the disk, and no call has shown more.
    Absent,
    /// A call found that nothing exists. `finding`: something does, and that was reported.
    /// `followed`: it may be a link to a missing name.
    CallFailure {
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
    reason = "each is an independent fact about the file"
)]
pub(super) struct Inode {
    pub kind: Kind,
    /// Names in a directory that were read or changed.
    pub entries: HashMap<Box<[u8]>, Entry>,
    /// The directory in which it was put last.
    pub parent: usize,
    /// The name under which it was put last.
    pub name: Box<[u8]>,
    /// Target of a link.
    pub target: Option<Box<[u8]>>,
    /// Known size of a file, bytes.
    pub size: u64,
    /// Minimum size at the beginning, bytes.
    pub least: u64,
    /// A call has set the size: later bytes did not exist at the beginning.
    pub fixed: bool,
    /// Path at the beginning; none if a call has made it.
    pub initial: Option<Box<[u8]>>,
    /// The file on the disk.
    pub found: Option<DiskEntry>,
    /// Index of the finding that it is missing or has another type.
    pub finding: Option<usize>,
    /// Index of the finding that it is too small.
    pub small: Option<usize>,
    /// A call requires that it exists.
    pub needed: bool,
    /// A call requires its type.
    pub told: bool,
    /// It is unknown, and nothing more is reported about it.
    pub quiet: bool,
    /// A call has changed the file or its permissions.
    pub changed: bool,
    /// A call has changed its permissions.
    pub opened_up: bool,
    /// A directory that was not empty for an unknown reason.
    pub kept: bool,
    /// Rights that calls had: 4 read, 2 write, 1 search or execute.
    pub granted: u32,
    /// Rights that calls lacked.
    pub refused: u32,
    /// Rights about which a finding was made; 8: that they are too many.
    pub reported: u32,
    /// Permissions that calls have reported.
    pub mode: Option<u32>,
    /// End of the mapped ranges, bytes.
    pub mapped: u64,
    /// A call has reported its size.
    pub exact: bool,
    /// Size according to a seek to the end, while the type was unknown.
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
pub(super) struct DirEntryName {
    pub dir: usize,
    pub name: Box<[u8]>,
}

/// Result of the resolution of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Resolution {
    /// The file at the end of the path.
    Found(DirEntryName, usize),
    /// Nothing exists at a component, or (`last`) at the last component.
    Absent {
        at: DirEntryName,
        entry: Entry,
        last: bool,
    },
    /// A component before the last one is not a directory.
    NotDirectory(DirEntryName, usize),
    /// A link leads out of the root or to itself; none: the path itself leads out.
    Leaves(Option<(DirEntryName, usize)>),
}

#[derive(Debug)]
pub(super) struct Tree<'a, D> {
    disk: &'a D,
    pub inodes: Vec<Inode>,
    /// Inodes by their paths at the beginning (`index_at_start`).
    at_start: HashMap<Box<[u8]>, usize>,
    /// The first path that could not be read, and the error.
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

    /// Resolves a path beneath the root. `follow`: also follows a link at its end.
    pub(super) fn resolve(&mut self, path: &[u8], follow: bool) -> Resolution {
        self.resolve_with_rest(path, follow).0
    }

    /// As [`Self::resolve`]; also returns the rest of the path after the resolution ended.
    pub(super) fn resolve_with_rest(&mut self, path: &[u8], follow: bool) -> (Resolution, Box<[u8]>) {
        self.walk(Self::entry, ROOT, path, follow, 0)
    }

    /// Resolves a path in the known state at the beginning.
    pub(super) fn resolve_at_start(&mut self, dir: usize, path: &[u8]) -> Resolution {
        self.walk(Self::entry_at_start, dir, path, false, 0).0
    }

    fn walk(
        &mut self,
        entry: fn(&mut Self, usize, &[u8]) -> Entry,
        mut dir: usize,
        path: &[u8],
        follow: bool,
        links: usize,
    ) -> (Resolution, Box<[u8]>) {
        let mut rest = path;
        while let Some((part, behind)) = split(rest) {
            rest = behind;
            if part == b".." {
                if dir == ROOT {
                    return (Resolution::Leaves(None), rest.into());
                }
                dir = self.inodes[dir].parent;
                continue;
            }
            let at = DirEntryName {
                dir,
                name: part.into(),
            };
            let last = split(rest).is_none();
            let id = match entry(self, dir, part) {
                Entry::There(id) => id,
                entry => return (Resolution::Absent { at, entry, last }, rest.into()),
            };
            match self.inodes[id].kind {
                Kind::Link if follow || !last => {
                    let target = self.inodes[id].target.as_deref().unwrap_or_default();
                    if links == LINKS || target.starts_with(b"/") {
                        return (Resolution::Leaves(Some((at, id))), rest.into());
                    }
                    let way = [target, rest].join(&b'/');
                    return match self.walk(entry, dir, &way, follow, links + 1) {
                        (Resolution::Leaves(None), rest) => (Resolution::Leaves(Some((at, id))), rest),
                        ends => ends,
                    };
                }
                _ if last => return (Resolution::Found(at, id), Box::default()),
                Kind::Directory => dir = id,
                _ => return (Resolution::NotDirectory(at, id), rest.into()),
            }
        }
        let at = DirEntryName {
            dir: self.inodes[dir].parent,
            name: self.inodes[dir].name.clone(),
        };
        (Resolution::Found(at, dir), Box::default())
    }

    /// Entry of a directory at the beginning. `Gone` if a call has put a file there, or has found
    /// that nothing exists.
    fn entry_at_start(&mut self, dir: usize, name: &[u8]) -> Entry {
        let at = DirEntryName {
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

    /// Indexes all files by their paths at the beginning, independent of later moves.
    pub(super) fn index_at_start(&mut self) {
        let inodes = self.inodes.iter().enumerate();
        let initial = inodes.filter_map(|(id, inode)| Some((inode.initial.clone()?, id)));
        self.at_start = initial.collect();
    }

    /// Entry of a directory under a name. The first access reads the disk.
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

    /// Adds a file of the disk.
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

    /// Sets the entry under a name.
    pub(super) fn put(&mut self, dir: usize, name: &[u8], entry: Entry) {
        if let Entry::There(id) = entry {
            let inode = &mut self.inodes[id];
            inode.parent = dir;
            inode.name = name.into();
        }
        self.inodes[dir].entries.insert(name.into(), entry);
    }

    /// Removes the knowledge about a name: the next access reads the disk again.
    pub(super) fn forget(&mut self, at: &DirEntryName) {
        self.inodes[at.dir].entries.remove(&at.name);
    }

    /// Path at the beginning of a name whose directory existed then. The disk may lack it.
    pub(super) fn initial(&self, at: &DirEntryName) -> Option<Box<[u8]>> {
        let above = self.inodes[at.dir].initial.as_deref()?;
        Some(join(above, &at.name))
    }

    /// Current path of a name.
    pub(super) fn path(&self, at: &DirEntryName) -> Box<[u8]> {
        let mut parts: Vec<&[u8]> = vec![&at.name];
        let mut dir = at.dir;
        while dir != ROOT {
            parts.push(&self.inodes[dir].name);
            dir = self.inodes[dir].parent;
        }
        parts.reverse();
        parts.join(&b'/').into()
    }

    /// Whether a directory is beneath another one, or is the same.
    pub(super) fn is_beneath(&self, mut dir: usize, above: usize) -> bool {
        while dir != above && dir != ROOT {
            dir = self.inodes[dir].parent;
        }
        dir == above
    }

    /// Whether all names of a directory were removed by calls.
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

/// The first component of a path and the rest after it; none if no component remains.
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
