//! Names and the files that have them: a file that is renamed is the same one, a name that is taken
//! away and given to another file is not.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::event::{FileId, PathId};
use crate::mixed::{Mixed, spread};
use crate::names::{FileEntry, Kind, Names};

/// All names and files that a trace has met.
#[derive(Debug, Default)]
pub(super) struct Places {
    names: Names,
    /// By the bytes of names, which stand in `names` alone: a copy of each would double the memory.
    known: HashTable<PathId>,
    hasher: RandomState,
    /// The file that has a name now, by the name's place.
    here: Vec<Option<FileId>>,
    /// Names that are another one than that of the file they lead to: symbolic links.
    led: std::collections::HashSet<PathId, Mixed>,
    /// Names with `..` and what they are without, as if no symbolic link were in them.
    plain: std::collections::HashMap<PathId, PathId, Mixed>,
    /// By the file's place.
    files: Vec<State>,
    /// Of names that others begin with, those of directories: their hashes. The names themselves
    /// would be as many bytes as the square of the depth. Two with one hash cost a search in vain.
    parents: std::collections::HashSet<u64, Mixed>,
    /// Hashes of the directories of one name, the outermost first.
    prefixes: Vec<u64>,
    joined: Vec<u8>,
}

/// `PATH_MAX` of Linux with the zero at the end: the kernel takes no longer name, and answers
/// `ENAMETOOLONG` without looking at it. Such a name is kept as far as this.
const MAX_ASKED: usize = 4096;

/// The longest name that a directory and a relative name make together, in bytes: twice what Linux
/// takes at once. Without a bound, a log in which a program enters one directory after the other
/// would cost the square of its length.
const MAX_JOINED: usize = 8192;

#[derive(Debug, Clone, Copy)]
struct State {
    /// Its name now, or the last one that it had.
    name: PathId,
    /// Another one, by link(2).
    other: Option<PathId>,
    /// It was made without a name (`O_TMPFILE`), and is called by its directory until it gets one.
    unlinked: bool,
    size: Option<i64>,
}

impl Places {
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    pub(super) fn names_mut(&mut self) -> &mut Names {
        &mut self.names
    }

    /// A name as it stands, to its [`MAX_JOINED`]th byte.
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
            .expect("memory ends before four thousand million names are there");
        known.insert_unique(hash, id, |&id| hasher.hash_one(names.path(id)));
        self.here.push(None);
        self.add_parents(path);
        if memchr::memchr_iter(b'.', path).any(|dot| path.get(dot + 1) == Some(&b'.')) {
            let plain = without_dots(path);
            let plain = self.name(&plain);
            self.plain.insert(id, plain);
        }
        id
    }

    /// The directories that a name is beneath.
    fn add_parents(&mut self, path: &[u8]) {
        let mut prefixes = std::mem::take(&mut self.prefixes);
        prefixes.clear();
        prefixes.extend(self.prefix_hashes(path));
        // The name itself is last.
        prefixes.pop();
        for &prefix in prefixes.iter().rev() {
            if !self.parents.insert(prefix) {
                break;
            }
        }
        self.prefixes = prefixes;
    }

    /// A hash for what stands before each `/` of a name, and for all of it: each continues the one
    /// before it, as names are deep.
    fn prefix_hashes<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = u64> + 'a {
        path.split(|&byte| byte == b'/').scan(0, |prefix, part| {
            *prefix = spread(*prefix ^ self.hasher.hash_one(part));
            Some(*prefix)
        })
    }

    /// Whether a name may have others beneath it.
    fn is_parent(&self, path: PathId) -> bool {
        let prefix = self.prefix_hashes(self.names.path(path)).last();
        prefix.is_some_and(|prefix| self.parents.contains(&prefix))
    }

    /// A name that begins at a directory, without `.` and empty parts. Where both are longer
    /// together than [`MAX_JOINED`], the directory is left out, as one that is not known.
    pub(super) fn join(&mut self, base: Option<PathId>, path: &[u8]) -> PathId {
        let path = &path[..path.len().min(MAX_ASKED)];
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

    /// The name by which files are told apart.
    fn plain(&self, path: PathId) -> PathId {
        if self.plain.is_empty() {
            return path;
        }
        self.plain.get(&path).copied().unwrap_or(path)
    }

    /// Whether there is `..` in a name.
    pub(super) fn has_dots(&self, path: PathId) -> bool {
        self.plain.contains_key(&path)
    }

    /// What has this name now, as far as it is known.
    pub(super) fn at(&mut self, path: PathId) -> Option<FileId> {
        let path = self.plain(path);
        self.here[path.index()]
    }

    /// What has this name now; a new file where nobody knew any.
    pub(super) fn met(&mut self, path: PathId, kind: Kind) -> FileId {
        let plain = self.plain(path);
        if let Some(file) = self.here[plain.index()] {
            if kind != Kind::File {
                self.set_kind(file, kind);
            }
            return file;
        }
        let file = self.nameless(path, kind);
        self.here[plain.index()] = Some(file);
        file
    }

    /// A file that no name leads to; `path` is what it is called.
    pub(super) fn nameless(&mut self, path: PathId, kind: Kind) -> FileId {
        let device = kind == Kind::File && is_device(self.names.path(path));
        let kind = if device { Kind::Device } else { kind };
        let id = self
            .names
            .add_file(FileEntry { kind, path })
            .expect("memory ends before four thousand million files are there");
        self.files.push(State {
            name: path,
            other: None,
            unlinked: false,
            size: None,
        });
        id
    }

    /// A file that has been made in this directory without a name.
    pub(super) fn unlinked(&mut self, directory: PathId) -> FileId {
        let file = self.nameless(directory, Kind::File);
        self.files[file.index()].unlinked = true;
        file
    }

    /// More is known of a file.
    pub(super) fn set_kind(&mut self, file: FileId, kind: Kind) {
        if let Some(&entry) = self.names.files().get(file.index()) {
            self.names.set_file(file, FileEntry { kind, ..entry });
        }
    }

    /// What a file is.
    pub(super) fn kind(&self, file: FileId) -> Kind {
        self.names
            .files()
            .get(file.index())
            .map_or(Kind::Other, |entry| entry.kind)
    }

    /// Nothing has this name any more. Gives what had it.
    pub(super) fn remove(&mut self, path: PathId) -> Option<FileId> {
        let path = self.plain(path);
        self.led.remove(&path);
        let file = self.here[path.index()].take()?;
        let state = &mut self.files[file.index()];
        if let Some(other) = state.other.take_if(|_| state.name == path) {
            state.name = other;
        }
        Some(file)
    }

    /// A name leads to a file, whose `real` name is another one where this is a symbolic link.
    pub(super) fn leads(&mut self, path: PathId, real: PathId, file: FileId) {
        let path = self.plain(path);
        if path != self.plain(real) {
            self.led.insert(path);
        }
        self.here[path.index()] = Some(file);
    }

    /// A file has one name more.
    pub(super) fn link(&mut self, file: FileId, path: PathId) {
        let path = self.plain(path);
        self.led.remove(&path);
        self.here[path.index()] = Some(file);
        let state = &mut self.files[file.index()];
        if state.unlinked {
            (state.unlinked, state.name) = (false, path);
            let kind = self.kind(file);
            self.names.set_file(file, FileEntry { kind, path });
        } else {
            state.other = Some(path);
        }
    }

    /// A file, and all beneath it where it is a directory, have another name. Gives it, and what
    /// had that name before.
    pub(super) fn rename(&mut self, from: PathId, to: PathId) -> (FileId, Option<FileId>) {
        let (from, to) = (self.plain(from), self.plain(to));
        let moved = self.met(from, Kind::File);
        let is_link = self.led.contains(&from) || self.led.contains(&to);
        if self.here[to.index()] == Some(moved) && !is_link {
            // rename(2): of two names of one file, both stay.
            return (moved, None);
        }
        let replaced = self.here[to.index()].filter(|&file| file != moved);
        self.here[from.index()] = None;
        self.led.remove(&from);
        self.set_name(moved, to);
        if self.is_parent(from) {
            let inside = self.beneath(from);
            if !inside.is_empty() {
                self.set_kind(moved, Kind::Directory);
            }
            for (inner, file) in inside {
                let mut path = self.names.path(to).to_vec();
                path.extend_from_slice(&self.names.path(inner)[self.names.path(from).len()..]);
                self.here[inner.index()] = None;
                if path.len() <= MAX_JOINED {
                    let path = self.name(&path);
                    self.set_name(file, path);
                }
            }
        }
        (moved, replaced)
    }

    /// Two files have each other's names.
    pub(super) fn exchange(&mut self, one: PathId, other: PathId) -> (FileId, FileId) {
        let (one, other) = (self.plain(one), self.plain(other));
        let beside = self.name(b"exchanged:");
        let (first, _) = self.rename(one, beside);
        let (second, _) = self.rename(other, one);
        self.rename(beside, other);
        (first, second)
    }

    /// All that have a name beneath this one.
    fn beneath(&self, directory: PathId) -> Vec<(PathId, FileId)> {
        let prefix = [self.names.path(directory), b"/"].concat();
        let mut found = Vec::new();
        for (place, file) in self.here.iter().enumerate() {
            let Some((id, file)) = PathId::new(place).zip(*file) else {
                continue;
            };
            if self.names.path(id).starts_with(&prefix) {
                found.push((id, file));
            }
        }
        found
    }

    fn set_name(&mut self, file: FileId, path: PathId) {
        self.led.remove(&path);
        self.here[path.index()] = Some(file);
        self.files[file.index()].name = path;
    }

    /// The name that a file has now, or had last.
    pub(super) fn name_of(&self, file: FileId) -> PathId {
        self.files[file.index()].name
    }

    pub(super) fn size(&self, file: FileId) -> Option<i64> {
        self.files[file.index()].size
    }

    pub(super) fn set_size(&mut self, file: FileId, size: i64) {
        self.files[file.index()].size = Some(size.max(0));
    }

    /// Its size is at least this.
    pub(super) fn reaches(&mut self, file: FileId, end: i64) {
        let size = &mut self.files[file.index()].size;
        *size = size.map(|size| size.max(end));
    }
}

/// An absolute name without empty parts and those that begin with a dot.
fn is_plain(path: &[u8]) -> bool {
    path.len() > 1
        && path[0] == b'/'
        && path.last() != Some(&b'/')
        && memchr::memchr_iter(b'/', path).all(|slash| !matches!(path[slash + 1], b'/' | b'.'))
}

/// A name without `..`. What is above the root is the root.
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
        here if here.is_empty() => b".".to_vec(),
        plain => plain,
    }
}

fn is_device(path: &[u8]) -> bool {
    path.starts_with(b"/dev/") && !path.starts_with(b"/dev/shm/")
}

#[cfg(test)]
mod tests;
