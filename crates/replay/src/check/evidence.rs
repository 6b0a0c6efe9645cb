//! What calls tell of the beginning: what must have been there, and what must not.
//!
//! A call that disagrees with the simulation is explained by what a name stood for at the
//! beginning, if no call since has decided that; it becomes a finding, and the simulation goes on
//! as if it were mended, so that consequences agree. What nothing at the beginning explains is
//! counted. Where one call needs a name and an earlier one was told that there is none, the name is
//! made: one call then succeeds that had failed, instead of all that use the file failing.

mod changes;
mod content;
mod findings;

use std::collections::{HashMap, HashSet};

use super::disk::{Disk, Kind};
use super::report::{Created, Finding, Need, Unexplained, What};
use super::tree::{Entry, Inode, Place, ROOT, Spot, Tree, join};
use findings::need;

/// Unexplained calls that are kept.
const EXAMPLES: usize = 10;

/// A name that keeps a directory from being empty.
const KEEPER: &[u8] = b".plimsoll-entry";

/// A path from a directory.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RelativePath {
    dir: usize,
    path: Box<[u8]>,
}

/// Paths of a call that was told ENOTDIR: one of them contains a file before its last name. `ends`:
/// the last name counts, too.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PathsWithFile {
    paths: Vec<RelativePath>,
    ends: bool,
}

/// The call that told something.
#[derive(Debug)]
struct Call {
    event: u64,
    recorded: Box<[u8]>,
}

#[derive(Debug)]
pub(super) struct Evidence<'a, D> {
    pub tree: Tree<'a, D>,
    /// Links at the beginning, and what they hold.
    pub links: HashMap<Box<[u8]>, Box<[u8]>>,
    /// None: withdrawn.
    pub findings: Vec<Option<Finding>>,
    pub created: HashMap<Box<[u8]>, Created>,
    /// Names that calls have taken away or given to other files.
    pub moved: HashSet<Box<[u8]>>,
    pub unexplained: u64,
    pub examples: Vec<Unexplained>,
    /// Names of calls that were told that a directory is none, where nothing was; with the first
    /// such call, and its name.
    files: HashMap<PathsWithFile, Call>,
    /// Names that were not there, nor was the directory that they would stand in.
    nowhere: HashSet<Box<[u8]>>,
    /// Initial paths of what was absent on the way to such a name, and that no call had removed.
    /// One that was there after all was a directory: beneath a file, the call would have been told
    /// that it is no directory.
    directories_if_there: HashSet<Box<[u8]>>,
    /// Findings that something is missing, or something else, by path.
    missing: HashMap<Box<[u8]>, usize>,
    /// Of the call that is looked at: its place, and its name.
    pub event: u64,
    pub recorded: Box<[u8]>,
}

impl<'a, D: Disk> Evidence<'a, D> {
    pub(super) fn new(disk: &'a D, links: HashMap<Box<[u8]>, Box<[u8]>>) -> Self {
        Self {
            tree: Tree::new(disk),
            links,
            findings: Vec::new(),
            created: HashMap::new(),
            moved: HashSet::new(),
            unexplained: 0,
            examples: Vec::new(),
            files: HashMap::new(),
            nowhere: HashSet::new(),
            directories_if_there: HashSet::new(),
            missing: HashMap::new(),
            event: 0,
            recorded: Box::default(),
        }
    }

    pub(super) fn inode(&mut self, id: usize) -> &mut Inode {
        &mut self.tree.inodes[id]
    }

    /// A name must be there, of this kind.
    pub(super) fn require(&mut self, path: &[u8], follow: bool, kind: Kind) -> Option<(Place, usize)> {
        loop {
            match self.tree.resolve(path, follow) {
                Spot::Found(at, id) => {
                    self.conform(&at, id, kind);
                    self.mark_needed(id);
                    return Some((at, id));
                }
                Spot::Absent { at, entry, last } => {
                    self.assume(&at, entry, if last { kind } else { Kind::Directory });
                }
                Spot::NotDirectory(at, id) => self.conform(&at, id, Kind::Directory),
                Spot::Leaves(Some((at, id))) => self.leaves(&at, id, kind),
                Spot::Leaves(None) => {
                    self.found_at(path.into(), What::Leaves);
                    return None;
                }
            }
        }
    }

    /// A name must not be there, but all that is above it: a call makes it. What the name had is
    /// told.
    pub(super) fn vacate(&mut self, path: &[u8], follow: bool) -> Option<(Place, Entry)> {
        loop {
            match self.tree.resolve(path, follow) {
                Spot::Found(_, ROOT) => {
                    self.cannot_explain(path, "the root was made");
                    return None;
                }
                Spot::Found(at, id) => self.deny_found(&at, id, follow),
                Spot::Absent {
                    at,
                    entry,
                    last: true,
                } => {
                    self.mark_needed(at.dir);
                    return Some((at, entry));
                }
                Spot::Absent { at, entry, .. } => self.assume(&at, entry, Kind::Directory),
                Spot::NotDirectory(at, id) => self.conform(&at, id, Kind::Directory),
                Spot::Leaves(Some((at, id))) => self.leaves(&at, id, Kind::Directory),
                Spot::Leaves(None) => {
                    self.found_at(path.into(), What::Leaves);
                    return None;
                }
            }
        }
    }

    /// A call was told that there is no such name.
    pub(super) fn deny(&mut self, path: &[u8], follow: bool) {
        loop {
            let (spot, rest) = self.resolve(path, follow);
            match spot {
                Spot::Found(at, id) => {
                    if (id == ROOT || !self.may_be_denied(id)) && self.deny_before_dots(path) {
                        return;
                    }
                    if id == ROOT {
                        return self.cannot_explain(path, "the root was not there");
                    }
                    return self.deny_found(&at, id, follow);
                }
                Spot::Absent {
                    at,
                    entry: Entry::Absent,
                    last: true,
                } => {
                    let denied = Entry::Denied {
                        finding: None,
                        followed: follow,
                    };
                    return self.tree.put(at.dir, &at.name, denied);
                }
                Spot::Absent {
                    at,
                    entry,
                    last: false,
                } => {
                    self.nowhere.insert(path.into());
                    return self.are_no_files(&at, entry, &rest);
                }
                // Beneath a file, the call would have been told that it is no directory.
                Spot::NotDirectory(at, id) if self.may_be_directory(id) => {
                    self.conform(&at, id, Kind::Directory);
                }
                _ => return,
            }
        }
    }

    /// Where a path ends, and what of it is behind. Links that later calls show to be there at the
    /// beginning are put there.
    pub(super) fn resolve(&mut self, path: &[u8], follow: bool) -> (Spot, Box<[u8]>) {
        loop {
            let (spot, rest) = self.tree.resolve_with_rest(path, follow);
            match &spot {
                Spot::Absent {
                    at,
                    entry: Entry::Absent,
                    last,
                } if (follow || !last) && self.is_link_at_start(at) => {
                    self.assume(at, Entry::Absent, Kind::Link);
                }
                _ => return (spot, rest),
            }
        }
    }

    fn is_link_at_start(&self, at: &Place) -> bool {
        let initial = self.tree.initial(at);
        initial.is_some_and(|path| self.links.contains_key(&path))
    }

    /// A call was told that there is nothing at `rest`, which begins in the directory `at`; it was
    /// not told that anything on the way is no directory.
    fn are_no_files(&mut self, at: &Place, entry: Entry, rest: &[u8]) {
        if entry != Entry::Absent {
            return;
        }
        let Some(mut initial) = self.tree.initial(at) else {
            return;
        };
        let mut parts = rest.split(|&byte| byte == b'/');
        while let Some(part) = parts.next().filter(|part| *part != b"..") {
            let beneath = join(&initial, part);
            self.directories_if_there
                .insert(std::mem::replace(&mut initial, beneath));
        }
    }

    /// No call has told that it is anything else.
    fn may_be_directory(&self, id: usize) -> bool {
        let inode = &self.tree.inodes[id];
        inode.kind == Kind::Unknown || inode.found.is_some() && !inode.told
    }

    /// A call that makes a name was told that the directory is not there that it would stand in,
    /// links followed.
    pub(super) fn deny_directory(&mut self, path: &[u8], follow: bool) {
        let (spot, rest) = self.resolve(path, follow);
        let at = match spot {
            Spot::Found(at, _) | Spot::Absent { at, last: true, .. } => at,
            Spot::Absent { at, entry, .. } => return self.are_no_files(&at, entry, &rest),
            _ => return,
        };
        if !self.may_be_denied(at.dir) && self.deny_before_dots(path) {
            return;
        }
        if at.dir == ROOT {
            return self.cannot_explain(path, "the root was not there");
        }
        let directory = &self.tree.inodes[at.dir];
        let above = Place {
            dir: directory.parent,
            name: directory.name.clone(),
        };
        self.deny_found(&above, at.dir, true);
    }

    /// Of `missing/../file`, it is the directory before `..` that was not there, if that can be.
    fn deny_before_dots(&mut self, path: &[u8]) -> bool {
        let dots = memchr::memmem::find_iter(path, b"/..")
            .filter(|at| matches!(path.get(at + 3), None | Some(b'/')));
        for end in dots {
            if let Spot::Found(at, id) = self.tree.resolve(&path[..end], false)
                && self.may_be_denied(id)
            {
                self.deny_found(&at, id, false);
                return true;
            }
        }
        false
    }

    /// It is on the disk, and no call has told that it was there.
    fn may_be_denied(&self, id: usize) -> bool {
        let inode = &self.tree.inodes[id];
        inode.found.is_some() && !inode.needed
    }

    /// What is there must not be.
    fn deny_found(&mut self, at: &Place, id: usize, follow: bool) {
        let inode = &self.tree.inodes[id];
        let path = self.tree.path(at);
        if !self.may_be_denied(id) {
            self.cannot_explain(&path, "it is there, and no call has removed it");
            return self.tree.put(at.dir, &at.name, Entry::Gone);
        }
        let initial = inode.initial.clone().unwrap_or(path);
        let finding = self.found_at(initial, What::MustNotExist);
        let denied = Entry::Denied {
            finding: Some(finding),
            followed: follow,
        };
        self.tree.put(at.dir, &at.name, denied);
    }

    /// What is not there was there at the beginning, if that can be.
    fn assume(&mut self, at: &Place, entry: Entry, kind: Kind) {
        if self.tree.inodes[at.dir].quiet {
            return self.appears(at, kind);
        }
        let initial = self.tree.initial(at).filter(|_| entry != Entry::Gone);
        let Some(initial) = initial else {
            let path = self.tree.path(at);
            self.cannot_explain(&path, "it is not there, and no call has made it");
            return self.appears(at, kind);
        };
        let link = self.links.get(&initial).cloned();
        if let Entry::Denied { finding, followed } = entry {
            if !followed || link.is_none() {
                self.cannot_explain(&initial, "an earlier call was told that it is not there");
            }
            if let Some(finding) = finding {
                self.findings[finding] = None;
            }
            self.tree.forget(at);
            if matches!(self.tree.entry(at.dir, &at.name), Entry::There(_)) {
                return;
            }
        }
        let mut inode = Inode::new(if link.is_some() { Kind::Link } else { kind });
        inode.target = link.or_else(|| (kind == Kind::Link).then(|| stand_in(&initial, 0)));
        let id = self.tree.add(Inode::new(kind));
        self.missing(at, id, initial, inode, What::Missing);
    }

    /// Puts what is missing, or is something else, where it should be, with the finding that says
    /// so. Open files that stand for what was there stand for it now.
    fn missing(
        &mut self,
        at: &Place,
        id: usize,
        initial: Box<[u8]>,
        mut inode: Inode,
        what: impl Fn(Need) -> What,
    ) {
        // What is needed of it is known at the end.
        let finding = self.found_at(initial.clone(), what(need(&inode)));
        self.missing.insert(initial.clone(), finding);
        // Its directory may have been moved: then a replay makes this name, too.
        let is_moved = self.tree.path(at) != initial;
        inode.initial = Some(initial);
        inode.finding = Some(finding);
        self.tree.inodes[id] = inode;
        self.tree.put(at.dir, &at.name, Entry::There(id));
        if is_moved {
            self.record_created(at, id);
        }
    }

    /// Something that was not traced has made it.
    pub(super) fn appears(&mut self, at: &Place, kind: Kind) {
        let id = self.tree.add(Inode::new(kind));
        self.put_quiet(at, id, kind);
    }

    fn put_quiet(&mut self, at: &Place, id: usize, kind: Kind) {
        let mut inode = Inode::new(kind);
        inode.quiet = true;
        inode.target = (kind == Kind::Link).then(|| stand_in(&at.name, 0));
        self.tree.inodes[id] = inode;
        self.tree.put(at.dir, &at.name, Entry::There(id));
    }

    /// What is there is of this kind.
    pub(super) fn conform(&mut self, at: &Place, id: usize, kind: Kind) {
        let inode = &mut self.tree.inodes[id];
        if kind == Kind::Unknown || inode.kind == kind {
            inode.told |= inode.kind == kind;
            return;
        }
        if inode.kind == Kind::Unknown || inode.quiet {
            inode.target = (kind == Kind::Link).then(|| stand_in(&at.name, 0));
            return self.becomes(id, kind);
        }
        let (is, is_told) = (inode.kind, inode.told || inode.found.is_none());
        let initial = inode.initial.clone().filter(|_| !is_told && id != ROOT);
        if let Some(initial) = initial {
            let mut other = Inode::new(kind);
            if kind == Kind::Link {
                let known = self.links.get(&initial).cloned();
                other.target = Some(known.unwrap_or_else(|| stand_in(&initial, 0)));
            }
            return self.missing(at, id, initial, other, |needs| What::WrongKind { is, needs });
        }
        let path = self.tree.path(at);
        self.cannot_explain(&path, "it was used as something that it is not");
        if id != ROOT {
            self.put_quiet(at, id, kind);
        }
    }

    /// Now it is known what it is, and what an earlier seek to its end has told.
    pub(super) fn becomes(&mut self, id: usize, kind: Kind) {
        let inode = &mut self.tree.inodes[id];
        inode.kind = kind;
        if let Some(end) = inode.end.take().filter(|_| kind == Kind::File) {
            self.require_size(id, end, true);
        }
    }

    /// A link that the sandbox does not follow: something else is put in its place, of which only
    /// this is said.
    fn leaves(&mut self, at: &Place, id: usize, kind: Kind) {
        let inode = &self.tree.inodes[id];
        let initial = inode.initial.clone().filter(|_| inode.found.is_some());
        if let Some(initial) = initial {
            return self.missing(at, id, initial, Inode::new(kind), |_| What::Leaves);
        }
        let path = self.tree.path(at);
        self.cannot_explain(
            &path,
            "a call follows a link that leads out of the root, or in circles",
        );
        self.put_quiet(at, id, kind);
    }

    fn mark_needed(&mut self, mut id: usize) {
        while !self.tree.inodes[id].needed {
            self.tree.inodes[id].needed = true;
            id = self.tree.inodes[id].parent;
        }
    }
}

/// What a link holds of which nobody knows what it holds: a name beside it, as long as it was if
/// that can be.
pub(super) fn stand_in(link: &[u8], length: u64) -> Box<[u8]> {
    let name = link.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let base = [b".".as_slice(), name, b".target"].concat();
    let length = usize::try_from(length.min(4000)).unwrap_or(0);
    let room = length.saturating_sub(base.len());
    let mut target = b"./".repeat(room / 2);
    if room % 2 == 1 && room > 1 {
        target.push(b'/');
    }
    target.extend(base);
    target.into()
}
