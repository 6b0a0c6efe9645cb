//! Follows paths and the files that they refer to. A renamed file remains the same file; a path
//! that is removed and used again refers to another file.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::event::{FileId, PathId};
use crate::hash::{BuildMixer, spread};
use crate::names::{FileEntry, Kind, Names};

/// All paths and files of a trace.
#[derive(Debug, Default)]
pub(super) struct Paths {
    names: Names,
    /// Ids by the bytes of a path. The bytes are only in `names`; a copy of each would double the
    /// memory.
    known: HashTable<PathId>,
    hasher: RandomState,
    /// The current file of a path, by the index of the path.
    current: Vec<Option<FileId>>,
    /// Paths that differ from that of the file to which they lead: symbolic links.
    symbolic: std::collections::HashSet<PathId, BuildMixer>,
    /// Paths with `..`, and their form without it, as if they contained no symbolic link.
    plain: std::collections::HashMap<PathId, PathId, BuildMixer>,
    /// The state of each file, by its index.
    files: Vec<State>,
    /// Hashes of paths that have other paths beneath them, those of directories. The paths
    /// themselves would take memory proportional to the square of the depth. A collision only
    /// causes an unnecessary search.
    parents: std::collections::HashSet<u64, BuildMixer>,
    /// Hashes of the directories of one path, the outermost first.
    prefixes: Vec<u64>,
    joined: Vec<u8>,
}

/// `PATH_MAX` of Linux, with the terminating zero, bytes. The kernel refuses longer paths with
/// `ENAMETOOLONG`. Such a path is cut to this length.
const MAX_PATH: usize = 4096;

/// Maximum length of a directory joined with a relative path, bytes: twice the limit of Linux.
/// Without a limit, a log in which a program enters one directory after the other would take memory
/// proportional to the square of its length.
const MAX_JOINED: usize = 8192;

#[derive(Debug, Clone, Copy)]
struct State {
    /// The current path, or the last one.
    name: PathId,
    /// Another path, made by link(2).
    other: Option<PathId>,
    /// The file was made without a path (`O_TMPFILE`). Until it gets one, it has the path of its
    /// directory.
    unlinked: bool,
    size: Option<i64>,
}

impl Paths {
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    pub(super) fn names_mut(&mut self) -> &mut Names {
        &mut self.names
    }

    /// The id of a path, cut to [`MAX_JOINED`] bytes and otherwise unchanged.
    pub(super) fn name(&mut self, path: &[u8]) -> PathId {
        let path = &path[..path.len().min(MAX_JOINED)];
        let Self {
            names, known, hasher, ..
        } = self;
        let hash = hasher.hash_one(path);
        if let Some(&id) = known.find(hash, |&id| names.path(id) == path) {
            return id;
        }
        let id = names
            .add_path(path)
            .expect("memory is exhausted before 2^32 paths exist");
        known.insert_unique(hash, id, |&id| hasher.hash_one(names.path(id)));
        self.current.push(None);
        self.add_parents(path);
        if memchr::memchr_iter(b'.', path).any(|dot| path.get(dot + 1) == Some(&b'.')) {
            let plain = without_dots(path);
            let plain = self.name(&plain);
            self.plain.insert(id, plain);
        }
        id
    }

    /// Adds the directories of a path.
    fn add_parents(&mut self, path: &[u8]) {
        let mut prefixes = std::mem::take(&mut self.prefixes);
        prefixes.clear();
        prefixes.extend(self.prefix_hashes(path));
        // The last one is the path itself.
        prefixes.pop();
        for &prefix in prefixes.iter().rev() {
            if !self.parents.insert(prefix) {
                break;
            }
        }
        self.prefixes = prefixes;
    }

    /// The hash of the part before each `/` of a path, and of the whole path. Each continues the
    /// previous one, because paths may be deep.
    fn prefix_hashes<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = u64> + 'a {
        path.split(|&byte| byte == b'/').scan(0, |prefix, part| {
            *prefix = spread(*prefix ^ self.hasher.hash_one(part));
            Some(*prefix)
        })
    }

    /// Whether a path may have others beneath it.
    fn is_parent(&self, path: PathId) -> bool {
        let prefix = self.prefix_hashes(self.names.path(path)).last();
        prefix.is_some_and(|prefix| self.parents.contains(&prefix))
    }

    /// The id of a path relative to a directory, without `.` and empty parts. If the joined path
    /// exceeds [`MAX_JOINED`], the directory is left out, like an unknown one.
    pub(super) fn join(&mut self, base: Option<PathId>, path: &[u8]) -> PathId {
        let path = &path[..path.len().min(MAX_PATH)];
        if is_plain(path) {
            return self.name(path);
        }
        let mut joined = std::mem::take(&mut self.joined);
        joined.clear();
        if let Some(base) = base.filter(|_| path.first() != Some(&b'/')) {
            let base = self.names.path(base);
            if base.len() + 1 + path.len() <= MAX_JOINED {
                joined.extend_from_slice(base);
            }
        }
        let is_absolute = path.first() == Some(&b'/');
        for part in path.split(|&byte| byte == b'/') {
            if part.is_empty() || part == b"." {
                continue;
            }
            if is_absolute || !joined.is_empty() && joined.last() != Some(&b'/') {
                joined.push(b'/');
            }
            joined.extend_from_slice(part);
        }
        if joined.is_empty() {
            joined.push(if is_absolute { b'/' } else { b'.' });
        }
        let id = self.name(&joined);
        self.joined = joined;
        id
    }

    /// The path without `..`, which identifies the file.
    fn plain(&self, path: PathId) -> PathId {
        if self.plain.is_empty() {
            return path;
        }
        self.plain.get(&path).copied().unwrap_or(path)
    }

    /// Whether a path contains `..`.
    pub(super) fn has_dots(&self, path: PathId) -> bool {
        self.plain.contains_key(&path)
    }

    /// The current file of a path, if known.
    pub(super) fn at(&mut self, path: PathId) -> Option<FileId> {
        let path = self.plain(path);
        self.current[path.index()]
    }

    /// The current file of a path; a new file if none is known.
    pub(super) fn find_or_add(&mut self, path: PathId, kind: Kind) -> FileId {
        let plain = self.plain(path);
        if let Some(file) = self.current[plain.index()] {
            if kind != Kind::File {
                self.set_kind(file, kind);
            }
            return file;
        }
        let file = self.add_nameless(path, kind);
        self.current[plain.index()] = Some(file);
        file
    }

    /// Adds a file to which no path leads. `path` is its path in the table.
    pub(super) fn add_nameless(&mut self, path: PathId, kind: Kind) -> FileId {
        let device = kind == Kind::File && is_device(self.names.path(path));
        let kind = if device { Kind::Device } else { kind };
        let id = self
            .names
            .add_file(FileEntry { kind, path })
            .expect("memory is exhausted before 2^32 files exist");
        self.files.push(State {
            name: path,
            other: None,
            unlinked: false,
            size: None,
        });
        id
    }

    /// Adds a file that was made in this directory without a path.
    pub(super) fn add_unlinked(&mut self, directory: PathId) -> FileId {
        let file = self.add_nameless(directory, Kind::File);
        self.files[file.index()].unlinked = true;
        file
    }

    /// Sets the kind of a file.
    pub(super) fn set_kind(&mut self, file: FileId, kind: Kind) {
        if let Some(&entry) = self.names.files().get(file.index()) {
            self.names.set_file(file, FileEntry { kind, ..entry });
        }
    }

    /// The kind of a file.
    pub(super) fn kind(&self, file: FileId) -> Kind {
        self.names
            .files()
            .get(file.index())
            .map_or(Kind::Other, |entry| entry.kind)
    }

    /// Removes a path. Returns its file.
    pub(super) fn remove(&mut self, path: PathId) -> Option<FileId> {
        let path = self.plain(path);
        self.symbolic.remove(&path);
        let file = self.current[path.index()].take()?;
        let state = &mut self.files[file.index()];
        if let Some(other) = state.other.take_if(|_| state.name == path) {
            state.name = other;
        }
        Some(file)
    }

    /// States that a path leads to a file. If the path is a symbolic link, the `real` path of the
    /// file differs.
    pub(super) fn set_target(&mut self, path: PathId, real: PathId, file: FileId) {
        let path = self.plain(path);
        if path != self.plain(real) {
            self.symbolic.insert(path);
        }
        self.current[path.index()] = Some(file);
    }

    /// Adds a path to a file.
    pub(super) fn link(&mut self, file: FileId, path: PathId) {
        let path = self.plain(path);
        self.symbolic.remove(&path);
        self.current[path.index()] = Some(file);
        let state = &mut self.files[file.index()];
        if state.unlinked {
            (state.unlinked, state.name) = (false, path);
            let kind = self.kind(file);
            self.names.set_file(file, FileEntry { kind, path });
        } else {
            state.other = Some(path);
        }
    }

    /// Renames a file, and all files beneath it if it is a directory. Returns the file, and the one
    /// that had the new path before.
    pub(super) fn rename(&mut self, from: PathId, to: PathId) -> (FileId, Option<FileId>) {
        let (from, to) = (self.plain(from), self.plain(to));
        let moved = self.find_or_add(from, Kind::File);
        let is_link = self.symbolic.contains(&from) || self.symbolic.contains(&to);
        if self.current[to.index()] == Some(moved) && !is_link {
            // rename(2): if both paths refer to one file, both remain.
            return (moved, None);
        }
        let replaced = self.current[to.index()].filter(|&file| file != moved);
        self.current[from.index()] = None;
        self.symbolic.remove(&from);
        self.set_name(moved, to);
        if self.is_parent(from) {
            let inside = self.beneath(from);
            if !inside.is_empty() {
                self.set_kind(moved, Kind::Directory);
            }
            for (inner, file) in inside {
                let mut path = self.names.path(to).to_vec();
                path.extend_from_slice(&self.names.path(inner)[self.names.path(from).len()..]);
                self.current[inner.index()] = None;
                if path.len() <= MAX_JOINED {
                    let path = self.name(&path);
                    self.set_name(file, path);
                }
            }
        }
        (moved, replaced)
    }

    /// Exchanges the paths of two files.
    pub(super) fn exchange(&mut self, first: PathId, second: PathId) -> (FileId, FileId) {
        let (first, second) = (self.plain(first), self.plain(second));
        let temporary = self.name(b"exchanged:");
        let (first_file, _) = self.rename(first, temporary);
        let (second_file, _) = self.rename(second, first);
        self.rename(temporary, second);
        (first_file, second_file)
    }

    /// All files with a path beneath this one.
    fn beneath(&self, directory: PathId) -> Vec<(PathId, FileId)> {
        let prefix = [self.names.path(directory), b"/"].concat();
        let mut files = Vec::new();
        for (index, file) in self.current.iter().enumerate() {
            let Some((id, file)) = PathId::new(index).zip(*file) else {
                continue;
            };
            if self.names.path(id).starts_with(&prefix) {
                files.push((id, file));
            }
        }
        files
    }

    fn set_name(&mut self, file: FileId, path: PathId) {
        self.symbolic.remove(&path);
        self.current[path.index()] = Some(file);
        self.files[file.index()].name = path;
    }

    /// The current path of a file, or its last one.
    pub(super) fn name_of(&self, file: FileId) -> PathId {
        self.files[file.index()].name
    }

    pub(super) fn size(&self, file: FileId) -> Option<i64> {
        self.files[file.index()].size
    }

    pub(super) fn set_size(&mut self, file: FileId, size: i64) {
        self.files[file.index()].size = Some(size.max(0));
    }

    /// Raises the size of a file to at least `end`.
    pub(super) fn grow_to(&mut self, file: FileId, end: i64) {
        let size = &mut self.files[file.index()].size;
        *size = size.map(|size| size.max(end));
    }
}

/// Whether a path is absolute and has no empty part and no part that begins with a dot.
fn is_plain(path: &[u8]) -> bool {
    path.len() > 1
        && path[0] == b'/'
        && path.last() != Some(&b'/')
        && memchr::memchr_iter(b'/', path).all(|slash| !matches!(path[slash + 1], b'/' | b'.'))
}

/// A path without `..`. The parent of the root is the root.
fn without_dots(path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|&byte| byte == b'/') {
        match parts.last() {
            Some(&[]) if part == b".." => {}
            Some(&last) if part == b".." && last != b".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    match parts.join(&b'/') {
        root if root.is_empty() && path.first() == Some(&b'/') => b"/".to_vec(),
        empty if empty.is_empty() => b".".to_vec(),
        plain => plain,
    }
}

fn is_device(path: &[u8]) -> bool {
    path.starts_with(b"/dev/") && !path.starts_with(b"/dev/shm/")
}

#[cfg(test)]
mod tests;
