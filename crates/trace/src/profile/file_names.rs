//! The paths of files: a file has all paths that it had at any time, and is shown under the last
//! one. Many programs write to a path that exists for milliseconds, and rename the file when it is
//! complete.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::constants::RENAME_EXCHANGE;
use crate::event::{Event, FileId, PathId};
use crate::hash::BuildMixer;
use crate::names::{Kind, Names};
use crate::syscalls::Effect;

/// The paths of all files of a trace, according to the events so far.
#[derive(Debug, Default)]
pub struct FileNames {
    /// Whether an event concerned the file, by [`FileId`].
    is_used: Vec<bool>,
    /// The paths of files that had more than the first one.
    several: HashMap<FileId, NameHistory, BuildMixer>,
    table: Table,
}

#[derive(Debug)]
struct NameHistory {
    /// All paths, in the order of their appearance.
    all: Vec<PathId>,
    known: HashSet<PathId, BuildMixer>,
    /// The current paths; empty if the file was removed.
    current: Vec<PathId>,
    /// The path under which the file is shown.
    name: PathId,
}

impl NameHistory {
    fn new(first: PathId) -> Self {
        Self {
            all: vec![first],
            known: std::iter::once(first).collect(),
            current: vec![first],
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
        if !self.current.contains(&path) {
            self.current.push(path);
        }
    }

    fn remove(&mut self, path: PathId) {
        self.current.retain(|&current| current != path);
        if let Some(&other) = self.current.last().filter(|_| self.name == path) {
            self.name = other;
        }
    }

    fn rename(&mut self, from: PathId, to: PathId) {
        self.current.retain(|&current| current != from);
        if self.name == from || self.current.is_empty() {
            self.name = to;
        }
        self.add_name(to);
    }
}

impl FileNames {
    /// Reads the next events. Their ids are those of `names`.
    pub fn take(&mut self, names: &Names, events: &[Event]) {
        for event in events {
            self.add_event(names, event);
        }
    }

    /// The path under which a file is shown. None if the file is not in `names`.
    pub(super) fn name(&self, names: &Names, file: FileId) -> Option<PathId> {
        let first = names.files().get(file.index())?.path;
        Some(self.several.get(&file).map_or(first, |several| several.name))
    }

    /// All paths of a file if it had several, otherwise none.
    pub(super) fn all(&self, file: FileId) -> &[PathId] {
        self.several.get(&file).map_or(&[], |several| &several.all)
    }

    pub(super) fn add_event(&mut self, names: &Names, event: &Event) {
        for file in [event.file, event.file2].into_iter().flatten() {
            if file.index() >= self.is_used.len() {
                self.is_used.resize(file.index() + 1, false);
            }
            self.is_used[file.index()] = true;
        }
        let Some(file) = event.file.filter(|file| file.index() < names.files().len()) else {
            return;
        };
        let has_succeeded = event.outcome.value().is_some();
        match (event.call.effect, event.path, event.path2) {
            (Effect::Rename, from, Some(to)) if has_succeeded => {
                self.apply_rename(names, event, file, from, to);
            }
            (Effect::Link, _, Some(to)) if has_succeeded => self.several(names, file).add_name(to),
            (Effect::Remove, Some(path), _) if has_succeeded => self.remove_name(file, path),
            _ => {}
        }
        if let Some(path) = event
            .path
            .filter(|&path| names.files()[file.index()].path != path)
        {
            // The path is a symbolic link or contains `..`.
            self.several(names, file).add(path);
        }
    }

    fn apply_rename(&mut self, names: &Names, event: &Event, file: FileId, from: Option<PathId>, to: PathId) {
        let from = from.or_else(|| self.name(names, file)).unwrap_or(to);
        let is_exchange = event.flags.is_some_and(|flags| flags & RENAME_EXCHANGE != 0);
        let other = event
            .file2
            .filter(|other| other.index() < names.files().len() && *other != file);
        match other {
            Some(other) if is_exchange => {
                let beneath = self.beneath(names, other, to);
                self.move_tree(names, file, from, to);
                self.move_file(names, other, to, from);
                self.follow(names, beneath, to, from);
            }
            other => {
                if let Some(other) = other {
                    self.remove_name(other, to);
                }
                self.move_tree(names, file, from, to);
            }
        }
    }

    /// Renames a file and all files beneath it.
    fn move_tree(&mut self, names: &Names, file: FileId, from: PathId, to: PathId) {
        let beneath = self.beneath(names, file, from);
        self.move_file(names, file, from, to);
        self.follow(names, beneath, from, to);
    }

    fn move_file(&mut self, names: &Names, file: FileId, from: PathId, to: PathId) {
        self.several(names, file).rename(from, to);
    }

    /// The files beneath a directory, with their paths.
    fn beneath(&self, names: &Names, directory: FileId, path: PathId) -> Vec<(FileId, PathId)> {
        if names.files()[directory.index()].kind != Kind::Directory {
            return Vec::new();
        }
        let prefix = [names.path(path), b"/"].concat();
        let mut files = Vec::new();
        for (index, entry) in names.files().iter().enumerate().take(self.is_used.len()) {
            let Some(file) = FileId::new(index).filter(|_| self.is_used[index]) else {
                continue;
            };
            let own = [entry.path];
            let current = self
                .several
                .get(&file)
                .map_or(&own[..], |several| &several.current);
            let inside = current
                .iter()
                .filter(|&&path| names.path(path).starts_with(&prefix));
            files.extend(inside.map(|&path| (file, path)));
        }
        files
    }

    /// Moves the paths beneath `from` to `to`.
    fn follow(&mut self, names: &Names, beneath: Vec<(FileId, PathId)>, from: PathId, to: PathId) {
        for (file, path) in beneath {
            let relative = &names.path(path)[names.path(from).len()..];
            let moved = [names.path(to), relative].concat();
            // A path that is too long for the trace is not in its table.
            if let Some(moved) = self.table.find(names, &moved) {
                self.move_file(names, file, path, moved);
            }
        }
    }

    fn remove_name(&mut self, file: FileId, path: PathId) {
        if let Some(several) = self.several.get_mut(&file) {
            several.remove(path);
        }
    }

    fn several(&mut self, names: &Names, file: FileId) -> &mut NameHistory {
        let first = names.files()[file.index()].path;
        self.several
            .entry(file)
            .or_insert_with(|| NameHistory::new(first))
    }
}

/// Paths by their bytes, to find paths that are in no event: those in a renamed directory.
#[derive(Debug, Default)]
struct Table {
    ids: HashTable<PathId>,
    hasher: RandomState,
    /// Number of paths of the trace that are in the table.
    length: usize,
}

impl Table {
    fn find(&mut self, names: &Names, path: &[u8]) -> Option<PathId> {
        let Self { ids, hasher, length } = self;
        for index in *length..names.paths().len() {
            if let Some(id) = PathId::new(index) {
                let hash = hasher.hash_one(names.path(id));
                ids.insert_unique(hash, id, |&id| hasher.hash_one(names.path(id)));
            }
        }
        *length = names.paths().len();
        let hash = hasher.hash_one(path);
        ids.find(hash, |&id| names.path(id) == path).copied()
    }
}
