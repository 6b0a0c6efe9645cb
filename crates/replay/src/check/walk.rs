//! The walk over the events of a trace: what each call tells of the names and files that it is
//! about.

mod data;
mod failed;
mod names;

use std::collections::{HashMap, HashSet};

use plimsoll_trace::event::{Event, FileId, OpenId, Outcome, PathId};
use plimsoll_trace::names::Names;
use plimsoll_trace::syscalls::{Argument, Effect};

use super::disk::{Disk, Kind};
use super::evidence::{Evidence, stand_in};
use super::report::{Report, What};
use super::tree::{Entry, Inode, Place, Spot};
use super::{CheckError, Options};
use crate::names::{Copy, Links, Table};

// Flags of open(2) and its like, as on x86-64.
const ACCESS: u64 = 3;
const CREATE: u64 = 0o100;
const EXCLUSIVE: u64 = 0o200;
const TRUNCATE: u64 = 0o1000;
const APPEND: u64 = 0o2000;
const DIRECTORY: u64 = 0o200_000;
const NO_FOLLOW: u64 = 0o400_000;
const PATH_ONLY: u64 = 0o10_000_000;
const NAMELESS: u64 = 0o20_000_000;
// Of the *at calls.
const AT_NO_FOLLOW: u64 = 0x100;
const AT_FOLLOW: u64 = 0x400;

/// What is known of an open file, by its place.
#[derive(Debug, Clone, Copy)]
enum OpenState {
    /// No event was about it.
    Not,
    /// It is nothing beneath the root.
    Outside,
    Beneath(OpenInode),
}

/// What an open file stands for.
#[derive(Debug, Clone, Copy)]
struct OpenInode {
    inode: usize,
    appends: bool,
}

/// Walks over a trace: give it all events in their order, then ask for the report.
#[derive(Debug)]
pub struct Walk<'a, D> {
    table: &'a Table,
    names: &'a Names,
    options: Options,
    evidence: Evidence<'a, D>,
    opens: Vec<OpenState>,
    /// Shared names of which it was said that they are changed.
    told: HashSet<Box<[u8]>>,
    events: u64,
}

impl<'a, D: Disk> Walk<'a, D> {
    /// Before the first event. `links`: of the same trace, gathered before.
    pub fn new(table: &'a Table, names: &'a Names, links: &Links, disk: &'a D, options: Options) -> Self {
        let mut known = HashMap::new();
        for link in links.at_start() {
            let Some(path) = table.path(link.path, options.copy) else {
                continue;
            };
            let target = link.target.map(|target| names.path(target));
            let target = target.and_then(|target| table.target(link.path, target));
            let target = target.map_or_else(|| stand_in(path, link.length), Into::into);
            known.insert(path.into(), target);
        }
        Self {
            table,
            names,
            options,
            evidence: Evidence::new(disk, known),
            opens: Vec::new(),
            told: HashSet::new(),
            events: 0,
        }
    }

    /// Takes in the next event.
    pub fn event(&mut self, event: &Event) {
        self.evidence.event = self.events;
        self.events += 1;
        if let Some(path) = event.path {
            self.evidence.recorded = self.names.path(path).into();
        }
        match event.outcome {
            Outcome::Returned(value) => self.succeeded(event, u64::try_from(value).unwrap_or(0)),
            Outcome::Failed(error) => self.failed(event, i32::from(error)),
            Outcome::Restarted | Outcome::Unknown => {}
        }
    }

    /// What the root lacks. An error where something of it could not be looked at: the report would
    /// be of a part.
    pub fn end(mut self) -> Result<Report, CheckError> {
        if let Some((path, source)) = self.evidence.tree.error.take() {
            return Err(CheckError::Disk {
                path: String::from_utf8_lossy(&path).into_owned(),
                source,
            });
        }
        self.evidence.settle();
        let unexplained = self.evidence.unexplained;
        let examples = std::mem::take(&mut self.evidence.examples);
        let (findings, creates) = self.evidence.end();
        Ok(Report {
            findings,
            creates,
            unexplained,
            examples,
            events: self.events,
        })
    }

    fn path(&self, path: Option<PathId>) -> Option<&'a [u8]> {
        self.table.path(path?, self.options.copy)
    }

    fn succeeded(&mut self, event: &Event, value: u64) {
        match event.call.effect {
            Effect::Open => self.opened(event),
            Effect::Read => {
                if let Some(opened) = self.open_file(event.open, event.file) {
                    if event.length.is_some_and(|asked| asked > 0) {
                        // Also a read of nothing: a directory would have refused it.
                        self.holds_data(opened.inode);
                    }
                    self.reads(opened, event.offset, value);
                }
            }
            Effect::Write => {
                if let Some(opened) = self.open_file(event.open, event.file) {
                    self.writes(opened, event.offset, value);
                }
            }
            Effect::Transfer => {
                if let Some(from) = self.open_file(event.open, event.file) {
                    self.reads(from, event.offset, value);
                }
                if let Some(to) = self.open_file(event.open2, event.file2) {
                    self.writes(to, event.offset2, value);
                }
            }
            // A clone of all of a file says nothing of its size: it is what is known of it.
            Effect::Ioctl if event.open2.is_some() => {
                let mut bytes = event.length.unwrap_or(0);
                match self.open_file(event.open, event.file) {
                    Some(from) if bytes == 0 => bytes = self.evidence.inode(from.inode).size,
                    Some(from) => self.reads(from, event.offset, bytes),
                    None => {}
                }
                if let Some(to) = self.open_file(event.open2, event.file2) {
                    self.writes(to, event.offset2, bytes);
                }
            }
            Effect::List => {
                if let Some(opened) = self.open_file(event.open, event.file) {
                    self.set_kind(opened.inode, Kind::Directory);
                }
            }
            Effect::Seek => self.seeks(event, value),
            Effect::Map => self.maps(event),
            Effect::Truncate | Effect::Allocate => self.resizes(event),
            Effect::Look => self.looks(event),
            Effect::Change | Effect::Enter => self.changes(event),
            Effect::Make | Effect::Symlink => self.makes(event),
            Effect::Link => self.links(event),
            Effect::Remove => self.removes(event),
            Effect::Rename => self.renames(event),
            _ => {}
        }
    }

    fn opened(&mut self, event: &Event) {
        let opened = self.path(event.path).and_then(|path| self.opens(event, path));
        if let Some(open) = event.open {
            self.remember(open, opened);
        }
    }

    fn opens(&mut self, event: &Event, path: &[u8]) -> Option<OpenInode> {
        let flags = open_flags(event);
        let access = match flags & ACCESS {
            _ if flags & PATH_ONLY != 0 => 0,
            0 => 4,
            1 => 2,
            _ => 6,
        };
        let mut opened = OpenInode {
            inode: 0,
            appends: flags & APPEND != 0,
        };
        if flags & NAMELESS != 0 {
            let (_, dir) = self.evidence.require(path, true, Kind::Directory)?;
            self.evidence.note_permission(dir, 3, true);
            let nameless = Inode::new(Kind::File);
            opened.inode = self.evidence.tree.add(nameless);
            return Some(opened);
        }
        let follow = flags & NO_FOLLOW == 0;
        if flags & CREATE != 0 && flags & PATH_ONLY == 0 {
            let exclusive = flags & EXCLUSIVE != 0;
            let is_there = matches!(self.evidence.tree.resolve(path, follow), Spot::Found(..));
            if exclusive || !is_there {
                let (at, entry) = self.evidence.vacate(path, follow && !exclusive)?;
                self.evidence.note_permission(at.dir, 2, true);
                let initial = self.evidence.tree.initial(&at);
                let may_be = !exclusive && entry == Entry::Absent;
                opened.inode = self.evidence.create(&at, Kind::File, initial.filter(|_| may_be));
                self.report_shared_change(opened.inode);
                if flags & TRUNCATE != 0 {
                    self.evidence.inode(opened.inode).fixed = true;
                }
                return Some(opened);
            }
        }
        let kind = if flags & DIRECTORY != 0 {
            Kind::Directory
        } else if flags & PATH_ONLY == 0 && access & 2 != 0 {
            Kind::File
        } else {
            Kind::Unknown
        };
        let (_, id) = self.evidence.require(path, follow, kind)?;
        self.evidence.note_permission(id, access, true);
        if flags & TRUNCATE != 0 && flags & PATH_ONLY == 0 {
            self.sets_size(id, 0);
        }
        opened.inode = id;
        Some(opened)
    }

    /// The open file of an event; one that was open before the trace began is looked for by its
    /// name.
    fn open_file(&mut self, open: Option<OpenId>, file: Option<FileId>) -> Option<OpenInode> {
        let open = open?;
        match self.opens.get(open.index()) {
            Some(OpenState::Beneath(opened)) => return Some(*opened),
            Some(OpenState::Outside) => return None,
            Some(OpenState::Not) | None => {}
        }
        let entry = file.and_then(|file| self.names.files().get(file.index()));
        let found = entry.and_then(|entry| {
            let path = self.path(Some(entry.path))?;
            self.evidence.recorded = self.names.path(entry.path).into();
            let (_, inode) = self.evidence.require(path, true, Kind::Unknown)?;
            Some(OpenInode {
                inode,
                appends: false,
            })
        });
        self.remember(open, found);
        found
    }

    /// The open file of an event, where its opening was seen.
    fn known(&self, event: &Event) -> Option<OpenInode> {
        match self.opens.get(event.open?.index())? {
            OpenState::Beneath(opened) => Some(*opened),
            OpenState::Not | OpenState::Outside => None,
        }
    }

    fn remember(&mut self, open: OpenId, opened: Option<OpenInode>) {
        if self.opens.len() <= open.index() {
            self.opens.resize(open.index() + 1, OpenState::Not);
        }
        self.opens[open.index()] = opened.map_or(OpenState::Outside, OpenState::Beneath);
    }

    /// An open file is of this kind.
    fn set_kind(&mut self, id: usize, kind: Kind) {
        let inode = self.evidence.inode(id);
        let at = Place {
            dir: inode.parent,
            name: inode.name.clone(),
        };
        if inode.kind == Kind::Unknown || self.evidence.tree.entry(at.dir, &at.name) == Entry::There(id) {
            self.evidence.conform(&at, id, kind);
        }
    }

    fn mark_changed(&mut self, id: usize) {
        self.evidence.inode(id).changed = true;
        self.report_shared_change(id);
    }

    fn report_shared_change(&mut self, id: usize) {
        if self.options.copy == Copy::Private || self.options.may_write_shared {
            return;
        }
        let inode = self.evidence.inode(id);
        let at = Place {
            dir: inode.parent,
            name: inode.name.clone(),
        };
        self.changes_shared(&at);
    }

    fn changes_shared(&mut self, at: &Place) {
        if self.options.copy == Copy::Private || self.options.may_write_shared {
            return;
        }
        let path = self.evidence.tree.path(at);
        if self.told.insert(path.clone()) {
            self.evidence.found_at(path, What::SharedIsWritten);
        }
    }

    fn looks(&mut self, event: &Event) {
        let name = event.call.name;
        let finds = event.call.arguments.contains(&Argument::Status);
        let kind = if name.starts_with("readlink") {
            Kind::Link
        } else {
            let mode = event.mode.filter(|_| finds);
            mode.map_or(Kind::Unknown, Kind::of)
        };
        let id = if event.path.is_some() {
            let path = self.path(event.path);
            path.and_then(|path| self.evidence.require(path, follows(event), kind))
                .map(|(_, id)| id)
        } else {
            let opened = self.open_file(event.open, event.file);
            opened.map(|opened| {
                if kind != Kind::Unknown {
                    self.set_kind(opened.inode, kind);
                }
                opened.inode
            })
        };
        let Some(id) = id else { return };
        if name.contains("access") {
            self.evidence
                .note_permission(id, event.mode.unwrap_or(0) & 7, true);
        }
        if finds {
            let inode = self.evidence.inode(id);
            if !inode.opened_up {
                inode.mode = event.mode.map(|mode| mode & 0o777).or(inode.mode);
            }
            if let (Kind::File, Some(size)) = (kind, event.length) {
                self.evidence.require_size(id, size, true);
            }
        }
    }

    fn changes(&mut self, event: &Event) {
        let is_enter = event.call.effect == Effect::Enter;
        let kind = if is_enter { Kind::Directory } else { Kind::Unknown };
        let id = match event.path {
            Some(_) => {
                let path = self.path(event.path);
                path.and_then(|path| self.evidence.require(path, follows(event), kind))
                    .map(|(_, id)| id)
            }
            None => self.open_file(event.open, event.file).map(|opened| opened.inode),
        };
        let Some(id) = id else { return };
        if is_enter {
            self.set_kind(id, Kind::Directory);
            return self.evidence.note_permission(id, 1, true);
        }
        if event.call.name.contains("chmod") {
            self.evidence.inode(id).opened_up = true;
        }
        self.mark_changed(id);
    }
}

fn open_flags(event: &Event) -> u64 {
    match event.call.name {
        "creat" => CREATE | TRUNCATE | 1,
        _ => event.flags.unwrap_or(0),
    }
}

/// Whether a call follows a link at the end of its name.
fn follows(event: &Event) -> bool {
    let flags = event.flags.unwrap_or(0);
    let name = event.call.name;
    match event.call.effect {
        Effect::Open => {
            let flags = open_flags(event);
            flags & NO_FOLLOW == 0 && flags & (CREATE | EXCLUSIVE) != CREATE | EXCLUSIVE
        }
        Effect::Make | Effect::Symlink | Effect::Remove | Effect::Rename => false,
        Effect::Link => flags & AT_FOLLOW != 0,
        Effect::Look | Effect::Change => {
            let by_name = [
                "lstat",
                "lstat64",
                "oldlstat",
                "readlink",
                "readlinkat",
                "lgetxattr",
                "llistxattr",
                "lsetxattr",
                "lremovexattr",
                "lchown",
                "lchown32",
            ];
            let is_handle = name == "name_to_handle_at" && flags & AT_FOLLOW == 0;
            !by_name.contains(&name) && !is_handle && flags & AT_NO_FOLLOW == 0
        }
        _ => true,
    }
}
