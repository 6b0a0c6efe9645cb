//! What files are called: each has the names that it had at any time, and is shown under the last
//! one. Programs write to a name that lives for milliseconds, and rename the file when it is whole.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::constants::RENAME_EXCHANGE;
use crate::event::{Event, FileId, PathId};
use crate::mixed::Mixed;
use crate::names::{Kind, Names};
use crate::syscalls::Effect;

/// The names of all files of a trace, as far as its events were taken.
#[derive(Debug, Default)]
pub struct Called {
    /// By [`FileId`]: an event was about it.
    met: Vec<bool>,
    /// Of files that had another name than their first one.
    several: HashMap<FileId, Several, Mixed>,
    table: Table,
}

#[derive(Debug)]
struct Several {
    /// All, the first one first.
    all: Vec<PathId>,
    known: HashSet<PathId, Mixed>,
    /// Those that it has now; of a file that is gone, none.
    here: Vec<PathId>,
    /// The one that it is shown under.
    name: PathId,
}

impl Several {
    fn new(first: PathId) -> Self {
        Self {
            all: vec![first],
            known: std::iter::once(first).collect(),
            here: vec![first],
            name: first,
        }
    }

    fn add(&mut self, path: PathId) {
        if self.known.insert(path) {
            self.all.push(path);
        }
    }

    fn add_name(&mut self, path: PathId) {
        self.add(path);
        if !self.here.contains(&path) {
            self.here.push(path);
        }
    }

    fn loses(&mut self, path: PathId) {
        self.here.retain(|&one| one != path);
        if let Some(&other) = self.here.last().filter(|_| self.name == path) {
            self.name = other;
        }
    }

    fn moves(&mut self, from: PathId, to: PathId) {
        self.here.retain(|&one| one != from);
        if self.name == from || self.here.is_empty() {
            self.name = to;
        }
        self.add_name(to);
    }
}

impl Called {
    /// Takes the next events. Their ids are those of `names`.
    pub fn take(&mut self, names: &Names, events: &[Event]) {
        for event in events {
            self.take_one(names, event);
        }
    }

    /// The name that a file is shown under; none for a file of another trace.
    pub(super) fn name(&self, names: &Names, file: FileId) -> Option<PathId> {
        let first = names.files().get(file.index())?.path;
        Some(self.several.get(&file).map_or(first, |several| several.name))
    }

    /// All its names, if it had several.
    pub(super) fn all(&self, file: FileId) -> &[PathId] {
        self.several.get(&file).map_or(&[], |several| &several.all)
    }

    pub(super) fn take_one(&mut self, names: &Names, event: &Event) {
        for file in [event.file, event.file2].into_iter().flatten() {
            if file.index() >= self.met.len() {
                self.met.resize(file.index() + 1, false);
            }
            self.met[file.index()] = true;
        }
        let Some(file) = event.file.filter(|file| file.index() < names.files().len()) else {
            return;
        };
        let is_done = event.outcome.value().is_some();
        match (event.call.effect, event.path, event.path2) {
            (Effect::Rename, from, Some(to)) if is_done => self.renamed(names, event, file, from, to),
            (Effect::Link, _, Some(to)) if is_done => self.several(names, file).add_name(to),
            (Effect::Remove, Some(path), _) if is_done => self.loses(file, path),
            _ => {}
        }
        if let Some(path) = event
            .path
            .filter(|&path| names.files()[file.index()].path != path)
        {
            // By a symbolic link, or by `..`.
            self.several(names, file).add(path);
        }
    }

    fn renamed(&mut self, names: &Names, event: &Event, file: FileId, from: Option<PathId>, to: PathId) {
        let from = from.or_else(|| self.name(names, file)).unwrap_or(to);
        let is_exchange = event.flags.is_some_and(|flags| flags & RENAME_EXCHANGE != 0);
        let other = event
            .file2
            .filter(|other| other.index() < names.files().len() && *other != file);
        match other {
            Some(other) if is_exchange => {
                let beneath = self.beneath(names, other, to);
                self.moves(names, file, from, to);
                self.moves_one(names, other, to, from);
                self.follow(names, beneath, to, from);
            }
            other => {
                if let Some(other) = other {
                    self.loses(other, to);
                }
                self.moves(names, file, from, to);
            }
        }
    }

    /// It has another name, and so has all that is beneath it.
    fn moves(&mut self, names: &Names, file: FileId, from: PathId, to: PathId) {
        let beneath = self.beneath(names, file, from);
        self.moves_one(names, file, from, to);
        self.follow(names, beneath, from, to);
    }

    fn moves_one(&mut self, names: &Names, file: FileId, from: PathId, to: PathId) {
        self.several(names, file).moves(from, to);
    }

    /// Files with the names that they have beneath a directory.
    fn beneath(&self, names: &Names, directory: FileId, path: PathId) -> Vec<(FileId, PathId)> {
        if names.files()[directory.index()].kind != Kind::Directory {
            return Vec::new();
        }
        let prefix = [names.path(path), b"/"].concat();
        let mut found = Vec::new();
        for (index, entry) in names.files().iter().enumerate().take(self.met.len()) {
            let Some(file) = FileId::new(index).filter(|_| self.met[index]) else {
                continue;
            };
            let own = [entry.path];
            let here = self.several.get(&file).map_or(&own[..], |several| &several.here);
            let inside = here.iter().filter(|&&path| names.path(path).starts_with(&prefix));
            found.extend(inside.map(|&path| (file, path)));
        }
        found
    }

    /// What was beneath `from` is beneath `to` now.
    fn follow(&mut self, names: &Names, beneath: Vec<(FileId, PathId)>, from: PathId, to: PathId) {
        for (file, path) in beneath {
            let rest = &names.path(path)[names.path(from).len()..];
            let moved = [names.path(to), rest].concat();
            // A name that is too long for the trace is not in its table.
            if let Some(moved) = self.table.find(names, &moved) {
                self.moves_one(names, file, path, moved);
            }
        }
    }

    fn loses(&mut self, file: FileId, path: PathId) {
        if let Some(several) = self.several.get_mut(&file) {
            several.loses(path);
        }
    }

    fn several(&mut self, names: &Names, file: FileId) -> &mut Several {
        let first = names.files()[file.index()].path;
        self.several.entry(file).or_insert_with(|| Several::new(first))
    }
}

/// Names by their bytes, for those that no event has: of what a renamed directory holds.
#[derive(Debug, Default)]
struct Table {
    places: HashTable<PathId>,
    hasher: RandomState,
    /// So many of the trace's names are in it.
    length: usize,
}

impl Table {
    fn find(&mut self, names: &Names, path: &[u8]) -> Option<PathId> {
        let Self {
            places,
            hasher,
            length,
        } = self;
        for index in *length..names.paths().len() {
            if let Some(id) = PathId::new(index) {
                let hash = hasher.hash_one(names.path(id));
                places.insert_unique(hash, id, |&id| hasher.hash_one(names.path(id)));
            }
        }
        *length = names.paths().len();
        let hash = hasher.hash_one(path);
        places.find(hash, |&id| names.path(id) == path).copied()
    }
}
