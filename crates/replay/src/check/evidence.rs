//! Evidence of the initial state: names that must have existed, and names that must not.
//!
//! If a call disagrees with the simulation, the cause is sought in the initial state of a name that
//! no earlier call has determined. The cause becomes a finding, and the simulation continues as if
//! it were fixed, so that later calls agree. A call that no initial state explains is counted. If
//! one call needs a name and an earlier call was told that it does not exist, the name is created:
//! then one call succeeds that had failed, instead of the failure of all calls that use the file.

mod changes;
mod content;
mod findings;

use std::collections::{HashMap, HashSet};

use super::disk::{Disk, Kind};
use super::report::{CreatedName, Finding, Requirements, UnexplainedCall, What};
use super::tree::{DirEntryName, Entry, Inode, ROOT, Resolution, Tree, join};
use findings::need;

/// Number of unexplained calls that are kept as examples.
const EXAMPLES: usize = 10;

/// Name of a file that is created so that a directory is not empty.
const KEEPER: &[u8] = b".plimsoll-entry";

/// A path relative to a directory.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RelativePath {
    dir: usize,
    path: Box<[u8]>,
}

/// Paths of a call that failed with ENOTDIR: one of them contains a file before its last component.
/// `ends`: the last component may be the file as well.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PathsWithFile {
    paths: Vec<RelativePath>,
    ends: bool,
}

/// The call that is the evidence.
#[derive(Debug)]
struct Call {
    event: u64,
    recorded: Box<[u8]>,
}

#[derive(Debug)]
pub(super) struct Evidence<'a, D> {
    pub tree: Tree<'a, D>,
    /// Targets of the links at the beginning, by path.
    pub links: HashMap<Box<[u8]>, Box<[u8]>>,
    /// Findings; none if one was withdrawn.
    pub findings: Vec<Option<Finding>>,
    pub created: HashMap<Box<[u8]>, CreatedName>,
    /// Names that calls removed or assigned to other files.
    pub moved: HashSet<Box<[u8]>>,
    pub unexplained: u64,
    pub examples: Vec<UnexplainedCall>,
    /// Paths of calls that failed with ENOTDIR where nothing existed, each with the first such
    /// call.
    files: HashMap<PathsWithFile, Call>,
    /// Names that did not exist, and whose directory did not exist either.
    nowhere: HashSet<Box<[u8]>>,
    /// Initial paths of the missing directories of such names, unless a call had removed them. If
    /// one existed after all, it was a directory: beneath a file, the call would have failed with
    /// ENOTDIR.
    directories_if_there: HashSet<Box<[u8]>>,
    /// Findings about missing names and names of another type, by path.
    missing: HashMap<Box<[u8]>, usize>,
    /// Index of the current event.
    pub event: u64,
    /// Name that the current event contains.
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

    /// Requires that a name exists and has this type.
    pub(super) fn require(&mut self, path: &[u8], follow: bool, kind: Kind) -> Option<(DirEntryName, usize)> {
        loop {
            match self.tree.resolve(path, follow) {
                Resolution::Found(at, id) => {
                    self.conform(&at, id, kind);
                    self.mark_needed(id);
                    return Some((at, id));
                }
                Resolution::Absent { at, entry, last } => {
                    self.assume(&at, entry, if last { kind } else { Kind::Directory });
                }
                Resolution::NotDirectory(at, id) => self.conform(&at, id, Kind::Directory),
                Resolution::Leaves(Some((at, id))) => self.replace_link_out(&at, id, kind),
                Resolution::Leaves(None) => {
                    self.add_finding(path.into(), What::Leaves);
                    return None;
                }
            }
        }
    }

    /// Requires that a name does not exist and its directory does, because a call makes it. Returns
    /// the entry that the name had.
    pub(super) fn vacate(&mut self, path: &[u8], follow: bool) -> Option<(DirEntryName, Entry)> {
        loop {
            match self.tree.resolve(path, follow) {
                Resolution::Found(_, ROOT) => {
                    self.cannot_explain(path, "a call made the root, which exists");
                    return None;
                }
                Resolution::Found(at, id) => self.deny_found(&at, id, follow),
                Resolution::Absent {
                    at,
                    entry,
                    last: true,
                } => {
                    self.mark_needed(at.dir);
                    return Some((at, entry));
                }
                Resolution::Absent { at, entry, .. } => self.assume(&at, entry, Kind::Directory),
                Resolution::NotDirectory(at, id) => self.conform(&at, id, Kind::Directory),
                Resolution::Leaves(Some((at, id))) => self.replace_link_out(&at, id, Kind::Directory),
                Resolution::Leaves(None) => {
                    self.add_finding(path.into(), What::Leaves);
                    return None;
                }
            }
        }
    }

    /// Records that a call failed because the name does not exist.
    pub(super) fn deny(&mut self, path: &[u8], follow: bool) {
        loop {
            let (resolution, rest) = self.resolve(path, follow);
            match resolution {
                Resolution::Found(at, id) => {
                    if (id == ROOT || !self.may_be_denied(id)) && self.deny_before_dots(path) {
                        return;
                    }
                    if id == ROOT {
                        return self.cannot_explain(path, "a call found that the root does not exist");
                    }
                    return self.deny_found(&at, id, follow);
                }
                Resolution::Absent {
                    at,
                    entry: Entry::Absent,
                    last: true,
                } => {
                    let denied = Entry::CallFailure {
                        finding: None,
                        followed: follow,
                    };
                    return self.tree.put(at.dir, &at.name, denied);
                }
                Resolution::Absent {
                    at,
                    entry,
                    last: false,
                } => {
                    self.nowhere.insert(path.into());
                    return self.note_directories_if_there(&at, entry, &rest);
                }
                // Beneath a file, the call would have failed with ENOTDIR.
                Resolution::NotDirectory(at, id) if self.may_be_directory(id) => {
                    self.conform(&at, id, Kind::Directory);
                }
                _ => return,
            }
        }
    }

    /// Resolves a path; also returns the rest of it. A link that later calls show to have existed
    /// at the beginning is created.
    pub(super) fn resolve(&mut self, path: &[u8], follow: bool) -> (Resolution, Box<[u8]>) {
        loop {
            let (resolution, rest) = self.tree.resolve_with_rest(path, follow);
            match &resolution {
                Resolution::Absent {
                    at,
                    entry: Entry::Absent,
                    last,
                } if (follow || !last) && self.is_link_at_start(at) => {
                    self.assume(at, Entry::Absent, Kind::Link);
                }
                _ => return (resolution, rest),
            }
        }
    }

    fn is_link_at_start(&self, at: &DirEntryName) -> bool {
        let initial = self.tree.initial(at);
        initial.is_some_and(|path| self.links.contains_key(&path))
    }

    /// Records that a call found nothing at `rest`, which begins in the directory `at`, and did not
    /// fail with ENOTDIR: no component before the last one is a file.
    fn note_directories_if_there(&mut self, at: &DirEntryName, entry: Entry, rest: &[u8]) {
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

    /// Whether no call has shown that it is not a directory.
    fn may_be_directory(&self, id: usize) -> bool {
        let inode = &self.tree.inodes[id];
        inode.kind == Kind::Unknown || inode.found.is_some() && !inode.told
    }

    /// Records that a call that makes a name failed because its directory does not exist. Links are
    /// followed.
    pub(super) fn deny_directory(&mut self, path: &[u8], follow: bool) {
        let (resolution, rest) = self.resolve(path, follow);
        let at = match resolution {
            Resolution::Found(at, _) | Resolution::Absent { at, last: true, .. } => at,
            Resolution::Absent { at, entry, .. } => return self.note_directories_if_there(&at, entry, &rest),
            _ => return,
        };
        if !self.may_be_denied(at.dir) && self.deny_before_dots(path) {
            return;
        }
        if at.dir == ROOT {
            return self.cannot_explain(path, "a call found that the root does not exist");
        }
        let directory = &self.tree.inodes[at.dir];
        let above = DirEntryName {
            dir: directory.parent,
            name: directory.name.clone(),
        };
        self.deny_found(&above, at.dir, true);
    }

    /// For a path such as `missing/../file`: denies the directory before `..`, if that is possible.
    fn deny_before_dots(&mut self, path: &[u8]) -> bool {
        let dots = memchr::memmem::find_iter(path, b"/..")
            .filter(|at| matches!(path.get(at + 3), None | Some(b'/')));
        for end in dots {
            if let Resolution::Found(at, id) = self.tree.resolve(&path[..end], false)
                && self.may_be_denied(id)
            {
                self.deny_found(&at, id, false);
                return true;
            }
        }
        false
    }

    /// Whether it is on the disk, and no call has shown that it existed.
    fn may_be_denied(&self, id: usize) -> bool {
        let inode = &self.tree.inodes[id];
        inode.found.is_some() && !inode.needed
    }

    /// Denies a file that exists.
    fn deny_found(&mut self, at: &DirEntryName, id: usize, follow: bool) {
        let inode = &self.tree.inodes[id];
        let path = self.tree.path(at);
        if !self.may_be_denied(id) {
            self.cannot_explain(
                &path,
                "a call found that it does not exist, but no call has removed it",
            );
            return self.tree.put(at.dir, &at.name, Entry::Gone);
        }
        let initial = inode.initial.clone().unwrap_or(path);
        let finding = self.add_finding(initial, What::MustNotExist);
        let denied = Entry::CallFailure {
            finding: Some(finding),
            followed: follow,
        };
        self.tree.put(at.dir, &at.name, denied);
    }

    /// Assumes that a missing name existed at the beginning, if that is possible.
    fn assume(&mut self, at: &DirEntryName, entry: Entry, kind: Kind) {
        if self.tree.inodes[at.dir].quiet {
            return self.add_untraced(at, kind);
        }
        let initial = self.tree.initial(at).filter(|_| entry != Entry::Gone);
        let Some(initial) = initial else {
            let path = self.tree.path(at);
            self.cannot_explain(
                &path,
                "a call used it, but it does not exist and no call has made it",
            );
            return self.add_untraced(at, kind);
        };
        let link = self.links.get(&initial).cloned();
        if let Entry::CallFailure { finding, followed } = entry {
            if !followed || link.is_none() {
                self.cannot_explain(
                    &initial,
                    "a call used it, but an earlier call found that it does not exist",
                );
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

    /// Puts a missing file, or one of another type, at its name, and adds the finding about it.
    /// Open files that denoted the old file then denote the new one.
    fn missing(
        &mut self,
        at: &DirEntryName,
        id: usize,
        initial: Box<[u8]>,
        mut inode: Inode,
        what: impl Fn(Requirements) -> What,
    ) {
        // The complete need is known at the end.
        let finding = self.add_finding(initial.clone(), what(need(&inode)));
        self.missing.insert(initial.clone(), finding);
        // If its directory was moved, a replay makes this name as well.
        let is_moved = self.tree.path(at) != initial;
        inode.initial = Some(initial);
        inode.finding = Some(finding);
        self.tree.inodes[id] = inode;
        self.tree.put(at.dir, &at.name, Entry::There(id));
        if is_moved {
            self.record_created(at, id);
        }
    }

    /// Adds a file that a process outside the trace has made.
    pub(super) fn add_untraced(&mut self, at: &DirEntryName, kind: Kind) {
        let id = self.tree.add(Inode::new(kind));
        self.put_quiet(at, id, kind);
    }

    fn put_quiet(&mut self, at: &DirEntryName, id: usize, kind: Kind) {
        let mut inode = Inode::new(kind);
        inode.quiet = true;
        inode.target = (kind == Kind::Link).then(|| stand_in(&at.name, 0));
        self.tree.inodes[id] = inode;
        self.tree.put(at.dir, &at.name, Entry::There(id));
    }

    /// Requires that an existing file has this type.
    pub(super) fn conform(&mut self, at: &DirEntryName, id: usize, kind: Kind) {
        let inode = &mut self.tree.inodes[id];
        if kind == Kind::Unknown || inode.kind == kind {
            inode.told |= inode.kind == kind;
            return;
        }
        if inode.kind == Kind::Unknown || inode.quiet {
            inode.target = (kind == Kind::Link).then(|| stand_in(&at.name, 0));
            return self.set_inode_kind(id, kind);
        }
        let (actual_kind, is_told) = (inode.kind, inode.told || inode.found.is_none());
        let initial = inode.initial.clone().filter(|_| !is_told && id != ROOT);
        if let Some(initial) = initial {
            let mut other = Inode::new(kind);
            if kind == Kind::Link {
                let known = self.links.get(&initial).cloned();
                other.target = Some(known.unwrap_or_else(|| stand_in(&initial, 0)));
            }
            return self.missing(at, id, initial, other, |needs| What::WrongKind {
                is: actual_kind,
                needs,
            });
        }
        let path = self.tree.path(at);
        self.cannot_explain(&path, "a call used it as a file of another type");
        if id != ROOT {
            self.put_quiet(at, id, kind);
        }
    }

    /// Sets the type of a file of unknown type, and applies the size that an earlier seek to its
    /// end found.
    pub(super) fn set_inode_kind(&mut self, id: usize, kind: Kind) {
        let inode = &mut self.tree.inodes[id];
        inode.kind = kind;
        if let Some(end) = inode.end.take().filter(|_| kind == Kind::File) {
            self.require_size(id, end, true);
        }
    }

    /// Replaces a link that the sandbox does not follow. Only this is reported of it.
    fn replace_link_out(&mut self, at: &DirEntryName, id: usize, kind: Kind) {
        let inode = &self.tree.inodes[id];
        let initial = inode.initial.clone().filter(|_| inode.found.is_some());
        if let Some(initial) = initial {
            return self.missing(at, id, initial, Inode::new(kind), |_| What::Leaves);
        }
        let path = self.tree.path(at);
        self.cannot_explain(
            &path,
            "a call follows a link that leads out of the root or to itself",
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

/// Target of a link whose real target is unknown: a name next to it, of the given length if that is
/// possible.
pub(super) fn stand_in(link: &[u8], length: u64) -> Box<[u8]> {
    let name = link.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let base = [b".".as_slice(), name, b".target"].concat();
    let length = usize::try_from(length.min(4000)).unwrap_or(0);
    let padding = length.saturating_sub(base.len());
    let mut target = b"./".repeat(padding / 2);
    if padding % 2 == 1 && padding > 1 {
        target.push(b'/');
    }
    target.extend(base);
    target.into()
}
