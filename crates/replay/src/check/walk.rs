//! Applies the events of a trace to the evidence: what each call implies for its names and files.

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
use super::tree::{DirEntryName, Entry, Inode, Resolution};
use super::{CheckError, Options};
use crate::names::{Copy, Links, Table};

// Flags of open(2) and similar calls, as on x86-64.
const ACCESS: u64 = 3;
const CREATE: u64 = 0o100;
const EXCLUSIVE: u64 = 0o200;
const TRUNCATE: u64 = 0o1000;
const APPEND: u64 = 0o2000;
const DIRECTORY: u64 = 0o200_000;
const NO_FOLLOW: u64 = 0o400_000;
const PATH_ONLY: u64 = 0o10_000_000;
const NAMELESS: u64 = 0o20_000_000;
// Flags of the *at calls.
const AT_NO_FOLLOW: u64 = 0x100;
const AT_FOLLOW: u64 = 0x400;

/// State of an open file, by its index.
#[derive(Debug, Clone, Copy)]
enum OpenState {
    /// No event refers to it.
    Not,
    /// It is not beneath the root.
    Outside,
    Beneath(OpenInode),
}

/// The file of an open file.
#[derive(Debug, Clone, Copy)]
struct OpenInode {
    inode: usize,
    appends: bool,
}

/// The check of a trace: pass all events in their order, then request the report.
#[derive(Debug)]
pub struct Walk<'a, D> {
    table: &'a Table,
    names: &'a Names,
    options: Options,
    evidence: Evidence<'a, D>,
    opens: Vec<OpenState>,
    /// Shared names that were reported as changed.
    reported_shared: HashSet<Box<[u8]>>,
    events: u64,
}

impl<'a, D: Disk> Walk<'a, D> {
    /// A check before the first event. `links`: the links of the same trace.
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
            reported_shared: HashSet::new(),
            events: 0,
        }
    }

    /// Applies the next event.
    pub fn event(&mut self, event: &Event) {
        self.evidence.event = self.events;
        self.events += 1;
        if let Some(path) = event.path {
            self.evidence.recorded = self.names.path(path).into();
        }
        match event.outcome {
            Outcome::Returned(value) => self.note_success(event, u64::try_from(value).unwrap_or(0)),
            Outcome::Failed(error) => self.note_failure(event, i32::from(error)),
            Outcome::Restarted | Outcome::Unknown => {}
        }
    }

    /// The report. An error if a path could not be read: the report would be incomplete.
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

    fn note_success(&mut self, event: &Event, value: u64) {
        match event.call.effect {
            Effect::Open => self.note_open(event),
            Effect::Read => {
                if let Some(opened) = self.open_file(event.open, event.file) {
                    if event.length.is_some_and(|asked| asked > 0) {
                        // Also a read of 0 bytes: it would fail on a directory.
                        self.require_data(opened.inode);
                    }
                    self.note_read(opened, event.offset, value);
                }
            }
            Effect::Write => {
                if let Some(opened) = self.open_file(event.open, event.file) {
                    self.note_write(opened, event.offset, value);
                }
            }
            Effect::Transfer => {
                if let Some(from) = self.open_file(event.open, event.file) {
                    self.note_read(from, event.offset, value);
                }
                if let Some(to) = self.open_file(event.open2, event.file2) {
                    self.note_write(to, event.offset2, value);
                }
            }
            // A clone of a whole file does not show its size: the known size is used.
            Effect::Ioctl if event.open2.is_some() => {
                let mut bytes = event.length.unwrap_or(0);
                match self.open_file(event.open, event.file) {
                    Some(from) if bytes == 0 => bytes = self.evidence.inode(from.inode).size,
                    Some(from) => self.note_read(from, event.offset, bytes),
                    None => {}
                }
                if let Some(to) = self.open_file(event.open2, event.file2) {
                    self.note_write(to, event.offset2, bytes);
                }
            }
            Effect::List => {
                if let Some(opened) = self.open_file(event.open, event.file) {
                    self.set_kind(opened.inode, Kind::Directory);
                }
            }
            Effect::Seek => self.note_seek(event, value),
            Effect::Map => self.note_map(event),
            Effect::Truncate | Effect::Allocate => self.note_resize(event),
            Effect::Look => self.note_look(event),
            Effect::Change | Effect::Enter => self.note_change(event),
            Effect::Make | Effect::Symlink => self.note_make(event),
            Effect::Link => self.note_link(event),
            Effect::Remove => self.note_remove(event),
            Effect::Rename => self.note_rename(event),
            _ => {}
        }
    }

    fn note_open(&mut self, event: &Event) {
        let opened = self.path(event.path).and_then(|path| self.open(event, path));
        if let Some(open) = event.open {
            self.remember(open, opened);
        }
    }

    fn open(&mut self, event: &Event, path: &[u8]) -> Option<OpenInode> {
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
            let is_there = matches!(self.evidence.tree.resolve(path, follow), Resolution::Found(..));
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
            self.set_size(id, 0);
        }
        opened.inode = id;
        Some(opened)
    }

    /// The open file of an event. A file that was opened before the trace began is sought by its
    /// name.
    fn open_file(&mut self, open: Option<OpenId>, file: Option<FileId>) -> Option<OpenInode> {
        let open = open?;
        match self.opens.get(open.index()) {
            Some(OpenState::Beneath(opened)) => return Some(*opened),
            Some(OpenState::Outside) => return None,
            Some(OpenState::Not) | None => {}
        }
        let entry = file.and_then(|file| self.names.files().get(file.index()));
        let opened = entry.and_then(|entry| {
            let path = self.path(Some(entry.path))?;
            self.evidence.recorded = self.names.path(entry.path).into();
            let (_, inode) = self.evidence.require(path, true, Kind::Unknown)?;
            Some(OpenInode {
                inode,
                appends: false,
            })
        });
        self.remember(open, opened);
        opened
    }

    /// The open file of an event, if its opening is in the trace.
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

    /// Requires that an open file has this type.
    fn set_kind(&mut self, id: usize, kind: Kind) {
        let inode = self.evidence.inode(id);
        let at = DirEntryName {
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
        let at = DirEntryName {
            dir: inode.parent,
            name: inode.name.clone(),
        };
        self.report_change_of_shared_name(&at);
    }

    fn report_change_of_shared_name(&mut self, at: &DirEntryName) {
        if self.options.copy == Copy::Private || self.options.may_write_shared {
            return;
        }
        let path = self.evidence.tree.path(at);
        if self.reported_shared.insert(path.clone()) {
            self.evidence.add_finding(path, What::SharedIsWritten);
        }
    }

    fn note_look(&mut self, event: &Event) {
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
            path.and_then(|path| self.evidence.require(path, is_link_followed(event), kind))
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

    fn note_change(&mut self, event: &Event) {
        let is_enter = event.call.effect == Effect::Enter;
        let kind = if is_enter { Kind::Directory } else { Kind::Unknown };
        let id = match event.path {
            Some(_) => {
                let path = self.path(event.path);
                path.and_then(|path| self.evidence.require(path, is_link_followed(event), kind))
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
fn is_link_followed(event: &Event) -> bool {
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
