//! Names and the files that have them: a file that is renamed is the same one, a name that is taken away and given to another
//! file is not.

use std::collections::{HashMap, HashSet};

use crate::event::{FileId, PathId};
use crate::names::{FileEntry, Kind, Names};

/// All names and files that a trace has met.
#[derive(Debug, Default)]
pub(super) struct Places {
    names: Names,
    known: HashMap<Box<[u8]>, PathId>,
    /// The file that has a name now, by the name's place.
    here: Vec<Option<FileId>>,
    /// By the file's place.
    files: Vec<State>,
    /// Names that others begin with: those of directories.
    parents: HashSet<Box<[u8]>>,
    joined: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    /// Its name now, or the last one that it had.
    name: PathId,
    size: Option<i64>,
}

impl Places {
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    pub(super) fn names_mut(&mut self) -> &mut Names {
        &mut self.names
    }

    /// A name as it stands.
    pub(super) fn name(&mut self, path: &[u8]) -> PathId {
        if let Some(&id) = self.known.get(path) {
            return id;
        }
        let id = self
            .names
            .add_path(path)
            .expect("memory ends before four thousand million names are there");
        self.known.insert(path.into(), id);
        self.here.push(None);
        let mut rest = path;
        while let Some(slash) = memchr::memrchr(b'/', rest).filter(|&slash| slash > 0) {
            rest = &rest[..slash];
            if !self.parents.insert(rest.into()) {
                break;
            }
        }
        id
    }

    /// A name that begins at a directory, without `.` and empty parts.
    pub(super) fn join(&mut self, base: Option<PathId>, path: &[u8]) -> PathId {
        let mut joined = std::mem::take(&mut self.joined);
        joined.clear();
        if let Some(base) = base.filter(|_| path.first() != Some(&b'/')) {
            joined.extend_from_slice(self.names.path(base));
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

    /// The name without `..`, as if no symbolic link were in it: by which files are told apart.
    fn plain(&mut self, path: PathId) -> PathId {
        let bytes = self.names.path(path);
        if memchr::memmem::find(bytes, b"..").is_none() {
            return path;
        }
        let mut parts: Vec<&[u8]> = Vec::new();
        for part in bytes.split(|&byte| byte == b'/') {
            let back = part == b".."
                && parts
                    .last()
                    .is_some_and(|last| !last.is_empty() && *last != b"..");
            if back {
                parts.pop();
            } else if part != b".." || parts.len() != 1 || !parts[0].is_empty() {
                parts.push(part);
            }
        }
        let plain = parts.join(&b'/');
        self.name(if plain.is_empty() { b"/" } else { &plain })
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
                self.is(file, kind);
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
            size: None,
        });
        id
    }

    /// More is known of a file.
    pub(super) fn is(&mut self, file: FileId, kind: Kind) {
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
        self.here[path.index()].take()
    }

    /// A file has one name more.
    pub(super) fn link(&mut self, file: FileId, path: PathId) {
        let path = self.plain(path);
        self.here[path.index()] = Some(file);
    }

    /// A file, and all beneath it where it is a directory, have another name. Gives it, and what had that name before.
    pub(super) fn rename(&mut self, from: PathId, to: PathId) -> (FileId, Option<FileId>) {
        let (from, to) = (self.plain(from), self.plain(to));
        let moved = self.met(from, Kind::File);
        let replaced = self.here[to.index()].filter(|&file| file != moved);
        self.here[from.index()] = None;
        self.set_name(moved, to);
        if self.parents.contains(self.names.path(from)) {
            for (inner, file) in self.beneath(from) {
                let mut path = self.names.path(to).to_vec();
                path.extend_from_slice(&self.names.path(inner)[self.names.path(from).len()..]);
                let path = self.name(&path);
                self.here[inner.index()] = None;
                self.set_name(file, path);
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

fn is_device(path: &[u8]) -> bool {
    path.starts_with(b"/dev/") && !path.starts_with(b"/dev/shm/")
}
