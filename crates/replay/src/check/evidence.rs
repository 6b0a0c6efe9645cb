//! What calls tell of the beginning: what must have been there, and what must not.
//!
//! A call that disagrees with the simulation is explained by what a name stood for at the beginning, if no call since has decided
//! that; it becomes a finding, and the simulation goes on as if it were mended, so that consequences agree. What nothing at the
//! beginning explains is counted. Where one call needs a name and an earlier one was told that there is none, the name is made: one call then
//! succeeds that had failed, instead of all that use the file failing.

use std::collections::{HashMap, HashSet};

use super::disk::{Disk, Kind};
use super::report::{Created, Finding, Need, Unexplained, What};
use super::tree::{Entry, Inode, Place, ROOT, Spot, Tree};

/// Unexplained calls that are kept.
const EXAMPLES: usize = 10;

/// A name that keeps a directory from being empty.
const KEEPER: &[u8] = b".plimsoll-entry";

/// Names, of which one leads along a file; `ends`: or to one.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Files {
    names: Vec<Box<[u8]>>,
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
    /// Names of calls that were told that a directory is none, where nothing was; with the first such call, and its name.
    files: HashMap<Files, Call>,
    /// Names that were not there, nor was the directory that they would stand in.
    nowhere: HashSet<Box<[u8]>>,
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
                    self.is_needed(id);
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

    /// A name must not be there, but all that is above it: a call makes it. What the name had is told.
    pub(super) fn vacate(&mut self, path: &[u8], follow: bool) -> Option<(Place, Entry)> {
        loop {
            match self.tree.resolve(path, follow) {
                Spot::Found(_, ROOT) => {
                    self.cannot_explain(path, "the root was made");
                    return None;
                }
                Spot::Found(at, id) => self.is_denied(&at, id, follow),
                Spot::Absent {
                    at,
                    entry,
                    last: true,
                } => {
                    self.is_needed(at.dir);
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
            match self.tree.resolve(path, follow) {
                Spot::Found(_, ROOT) => return self.cannot_explain(path, "the root was not there"),
                Spot::Found(at, id) => return self.is_denied(&at, id, follow),
                Spot::Absent {
                    at,
                    entry: Entry::Absent,
                    last: true,
                } => {
                    // A link that is seen later leads to nowhere now.
                    let initial = self.tree.initial(&at);
                    if follow && initial.is_some_and(|path| self.links.contains_key(&path)) {
                        self.assume(&at, Entry::Absent, Kind::Link);
                        continue;
                    }
                    let denied = Entry::Denied {
                        finding: None,
                        followed: follow,
                    };
                    return self.tree.put(at.dir, &at.name, denied);
                }
                Spot::Absent { last: false, .. } => {
                    self.nowhere.insert(path.into());
                    return;
                }
                _ => return,
            }
        }
    }

    /// A call that makes a name was told that the directory is not there that it would stand in, links followed.
    pub(super) fn deny_directory(&mut self, path: &[u8], follow: bool) {
        let spot = self.tree.resolve(path, follow);
        let (Spot::Found(at, _) | Spot::Absent { at, last: true, .. }) = spot else {
            return;
        };
        if at.dir == ROOT {
            return self.cannot_explain(path, "the root was not there");
        }
        let directory = &self.tree.inodes[at.dir];
        let above = Place {
            dir: directory.parent,
            name: directory.name.clone(),
        };
        self.is_denied(&above, at.dir, true);
    }

    /// What is there must not be.
    fn is_denied(&mut self, at: &Place, id: usize, follow: bool) {
        let inode = &self.tree.inodes[id];
        let path = self.tree.path(at);
        if inode.found.is_none() || inode.needed {
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

    /// Puts what is missing, or is something else, where it should be, with the finding that says so. Open files that stand for what
    /// was there stand for it now.
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
            self.is_created(at, id);
        }
    }

    /// Something that was not traced has made it.
    pub(super) fn appears(&mut self, at: &Place, kind: Kind) {
        let id = self.tree.add(Inode::new(kind));
        self.is_quiet(at, id, kind);
    }

    fn is_quiet(&mut self, at: &Place, id: usize, kind: Kind) {
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
            inode.kind = kind;
            inode.target = (kind == Kind::Link).then(|| stand_in(&at.name, 0));
            return;
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
            self.is_quiet(at, id, kind);
        }
    }

    /// A link that the sandbox does not follow: something else is put in its place, of which only this is said.
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
        self.is_quiet(at, id, kind);
    }

    /// A file is at least so large now. `exact`: a call has told its size.
    pub(super) fn is_large(&mut self, id: usize, size: u64, exact: bool) {
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
            let at = Place {
                dir: inode.parent,
                name: inode.name.clone(),
            };
            let path = self.tree.path(&at);
            return self.cannot_explain(&path, "it holds more than calls have written to it");
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
                let finding = self.found_at(initial, what);
                self.inode(id).small = Some(finding);
            }
        } else if inode.finding.is_none() {
            // Opened with O_CREAT: only now it is known that it was there before.
            inode.kind = Kind::File;
            let finding = self.found_at(initial.clone(), What::Missing(need(&self.tree.inodes[id])));
            self.missing.insert(initial, finding);
            self.inode(id).finding = Some(finding);
        }
    }

    /// A call was allowed, or refused, to read (4), write (2) or search and execute (1).
    pub(super) fn is_allowed(&mut self, id: usize, bits: u32, allowed: bool) {
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
            self.found_at(initial.clone(), what);
        }
    }

    /// A directory was empty, as it was removed.
    pub(super) fn was_empty(&mut self, at: &Place, dir: usize) {
        if self.tree.is_empty(dir) || self.tree.inodes[dir].quiet {
            return;
        }
        let inode = &self.tree.inodes[dir];
        let is_there = |entry: &Entry| match entry {
            Entry::There(id) => self.tree.inodes[*id].needed || self.tree.inodes[*id].found.is_none(),
            _ => false,
        };
        let is_explained = inode.kept || inode.entries.values().any(is_there);
        if let Some(path) = inode.initial.clone().filter(|_| !is_explained) {
            self.found_at(path, What::NotEmpty);
        } else {
            let path = self.tree.path(at);
            self.cannot_explain(&path, "it was removed, and holds what no call has removed");
        }
    }

    /// A directory was not empty.
    pub(super) fn was_not_empty(&mut self, dir: usize) {
        if !self.tree.is_empty(dir) {
            self.inode(dir).kept = true;
            return;
        }
        self.inode(dir).kept = true;
        let at = Place {
            dir,
            name: KEEPER.into(),
        };
        let entry = self.tree.entry(dir, KEEPER);
        self.assume(&at, entry, Kind::File);
    }

    /// Somewhere on the way of one of these names is a file, and nobody knows where. `ends`: or at its end.
    pub(super) fn has_a_file(&mut self, names: &[&[u8]], ends: bool) {
        let names = names.iter().map(|&name| name.into()).collect();
        let call = Call {
            event: self.event,
            recorded: self.recorded.clone(),
        };
        self.files.entry(Files { names, ends }).or_insert(call);
    }

    /// All calls are seen: files on the way of names are put where no call has told anything.
    pub(super) fn settle(&mut self) {
        let mut files: Vec<_> = std::mem::take(&mut self.files).into_iter().collect();
        files.sort_by_key(|(_, call)| call.event);
        for (Files { names, ends }, call) in files {
            let spots: Vec<Spot> = names.iter().map(|name| self.tree.resolve(name, false)).collect();
            if spots.iter().any(|spot| matches!(spot, Spot::NotDirectory(..))) {
                continue;
            }
            let place = spots.into_iter().find_map(|spot| match spot {
                Spot::Absent {
                    at,
                    entry: Entry::Absent,
                    last,
                } if !last || ends => Some(at),
                _ => None,
            });
            let Some(at) = place else { continue };
            let initial = self.tree.initial(&at).filter(|path| !self.nowhere.contains(path));
            if initial.is_some_and(|initial| initial == self.tree.path(&at)) {
                (self.event, self.recorded) = (call.event, call.recorded);
                self.assume(&at, Entry::Absent, Kind::File);
            }
        }
    }

    /// A call makes a name. `initial`: it may have been there already.
    pub(super) fn create(&mut self, at: &Place, kind: Kind, initial: Option<Box<[u8]>>) -> usize {
        let mut inode = Inode::new(kind);
        inode.initial = initial;
        let id = self.tree.add(inode);
        self.place(at, id);
        id
    }

    /// A call puts a file under a name.
    pub(super) fn place(&mut self, at: &Place, id: usize) {
        if self.tree.lies_in(at.dir, id) {
            let path = self.tree.path(at);
            return self.cannot_explain(&path, "a directory was moved into itself");
        }
        self.moves(at);
        self.tree.put(at.dir, &at.name, Entry::There(id));
        self.is_created(at, id);
    }

    /// A call takes a name away.
    pub(super) fn remove(&mut self, at: &Place) {
        self.moves(at);
        self.tree.put(at.dir, &at.name, Entry::Gone);
    }

    fn moves(&mut self, at: &Place) {
        if let Some(path) = self.tree.initial(at) {
            self.moved.insert(path);
        }
    }

    /// A name is made, and with a directory the names in it.
    fn is_created(&mut self, at: &Place, id: usize) {
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

    fn is_needed(&mut self, mut id: usize) {
        while !self.tree.inodes[id].needed {
            self.tree.inodes[id].needed = true;
            id = self.tree.inodes[id].parent;
        }
    }

    pub(super) fn found_at(&mut self, path: Box<[u8]>, what: What) -> usize {
        let above = path.iter().rposition(|&byte| byte == b'/');
        let above = above.and_then(|end| self.missing.get(&path[..end]).copied());
        let within = above.map(|above| {
            let finding = self.findings[above].as_ref();
            finding.and_then(|finding| finding.within).unwrap_or(above)
        });
        self.findings.push(Some(Finding {
            path,
            recorded: self.recorded.clone(),
            what,
            event: self.event,
            within,
            changed: false,
        }));
        self.findings.len() - 1
    }

    pub(super) fn cannot_explain(&mut self, path: &[u8], why: &'static str) {
        self.unexplained += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(Unexplained {
                event: self.event,
                path: path.into(),
                why,
            });
        }
    }

    /// What is needed of what is missing, all calls seen; and whether they have changed it.
    pub(super) fn end(mut self) -> (Vec<Finding>, Vec<Created>) {
        for inode in &self.tree.inodes {
            let Some(finding) = inode.finding.and_then(|at| self.findings[at].as_mut()) else {
                continue;
            };
            match &mut finding.what {
                What::Missing(needs) | What::WrongKind { needs, .. } => *needs = need(inode),
                _ => {}
            }
            finding.changed = inode.changed;
        }
        for finding in self.findings.iter_mut().flatten() {
            // A directory above it may have been moved, and the name made anew.
            let path = &finding.path;
            finding.changed |= self.moved.contains(path) || self.created.contains_key(path);
        }
        (kept(self.findings), self.created.into_values().collect())
    }
}

/// Without those that were withdrawn; places of others follow.
fn kept(findings: Vec<Option<Finding>>) -> Vec<Finding> {
    let mut place = 0;
    let places: Vec<usize> = findings
        .iter()
        .map(|finding| {
            place += usize::from(finding.is_some());
            place.wrapping_sub(1)
        })
        .collect();
    let kept = findings.into_iter().flatten();
    kept.map(|mut finding| {
        finding.within = finding.within.map(|at| places[at]);
        finding
    })
    .collect()
}

fn need(inode: &Inode) -> Need {
    let kind = match inode.kind {
        Kind::Unknown => Kind::File,
        kind => kind,
    };
    // What was mapped may reach beyond the end of a file: only where no call has told its size.
    let mapped = if inode.exact { 0 } else { inode.mapped };
    let whole = if kind == Kind::Directory { 0o755 } else { 0o644 };
    let owner = (inode.granted | !inode.refused & (inode.mode.unwrap_or(whole) >> 6)) & 7;
    let owner = owner << 6;
    let is_told = inode.mode.is_some() || inode.refused != 0 || owner & !whole != 0;
    Need {
        kind,
        size: if kind == Kind::File {
            inode.least.max(mapped)
        } else {
            0
        },
        mode: (is_told && kind != Kind::Link).then(|| inode.mode.unwrap_or(whole) & 0o077 | owner),
        target: inode.target.clone(),
    }
}

/// What a link holds of which nobody knows what it holds: a name beside it, as long as it was if that can be.
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
