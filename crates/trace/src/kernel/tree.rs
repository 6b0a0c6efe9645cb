//! What calls do to names, and what they tell of what lies under them.

use crate::constants::{AT_SYMLINK_FOLLOW, RENAME_EXCHANGE, S_IFDIR, S_IFLNK, S_IFMT, S_IFREG};
use crate::event::{Event, FileId, OpenId, Outcome, PathId};
use crate::kernel::{EBADF, Kernel, Request, spoken};
use crate::names::Kind;
use crate::syscalls::{Argument, Effect};
use crate::text::value::{AT_FDCWD, Descriptor};

impl Kernel {
    /// The names among the arguments, joined with the directories that they begin at.
    pub(super) fn name(&mut self, asked: &Request<'_>, event: &mut Event) {
        if let Some(open) = self.linked_by_number(asked, event) {
            // The name is one of this process only: the descriptor is what is meant, as with
            // AT_EMPTY_PATH.
            event.open = Some(open);
            self.files_of(event);
        } else if let Some(path) = self.path(asked, 0, event) {
            // glibc changes the permissions of what it has only as a place by `/proc/self/fd/3`:
            // the file there is meant.
            let by_number = matches!(asked.effect(), Effect::Change | Effect::Truncate);
            let meant = by_number.then(|| self.own_descriptor(asked.pid, path)).flatten();
            event.path = Some(meant.map_or(path, |file| self.places.name_of(file)));
            event.file = meant.or_else(|| self.places.at(path));
        }
        match asked.effect() {
            Effect::Link | Effect::Rename => {
                event.path2 = self.path(asked, 1, event);
                event.file2 = event.path2.and_then(|path| self.places.at(path));
            }
            Effect::Symlink | Effect::Change | Effect::Look => {
                event.path2 = asked
                    .text()
                    .filter(|_| asked.known.name != "getcwd")
                    .map(|text| self.places.name(&text));
            }
            _ => {}
        }
    }

    /// The open file that linkat(2) gives a name by `/proc/self/fd/3`, links followed: how files of
    /// `O_TMPFILE` get theirs.
    fn linked_by_number(&mut self, asked: &Request<'_>, event: &Event) -> Option<OpenId> {
        let follows = event.flags.is_some_and(|flags| flags & AT_SYMLINK_FOLLOW != 0);
        if asked.effect() != Effect::Link || !follows {
            return None;
        }
        let (_, path) = asked.path(0)?;
        self.own_slot(asked.pid, &path).map(|slot| slot.open)
    }

    fn path(&mut self, asked: &Request<'_>, nth: usize, event: &mut Event) -> Option<PathId> {
        let (directory, bytes) = asked.path(nth)?;
        let is_absolute = bytes.first() == Some(&b'/');
        let begins_at = directory.filter(|found| found.number != AT_FDCWD && !is_absolute);
        if begins_at.is_some() && event.outcome == Outcome::Failed(EBADF) {
            // Nothing is open there, and nothing has been.
            return None;
        }
        if bytes.is_empty() {
            // `newfstatat(3, "", {...}, AT_EMPTY_PATH)`: the descriptor itself.
            if let Some(found) = begins_at {
                event.open = self.open_of(asked.pid, &found);
                self.files_of(event);
            }
            return None;
        }
        if is_absolute {
            return Some(self.absolute(asked.pid, &bytes));
        }
        let base = self.base(asked.pid, directory);
        Some(self.places.join(base, &bytes))
    }

    /// A name that begins at the root of the thread.
    fn absolute(&mut self, pid: u32, path: &[u8]) -> PathId {
        let Some(root) = self.root(pid) else {
            return self.places.join(None, path);
        };
        // Above a root is the root.
        let mut below = path;
        while let Some(rest) = [&b"/"[..], b"./", b"../"]
            .iter()
            .find_map(|part| below.strip_prefix(*part))
        {
            below = rest;
        }
        let below = if matches!(below, b"." | b"..") { b"" } else { below };
        let root = self.places.name_of(root);
        self.places.join(Some(root), below)
    }

    /// The name of the directory that a relative name begins at.
    fn base(&mut self, pid: u32, directory: Option<Descriptor<'_>>) -> Option<PathId> {
        match directory {
            Some(found) if found.number != AT_FDCWD => {
                let open = self.open_of(pid, &found)?;
                let file = self.opens.get(open)?.file;
                Some(self.places.name_of(file))
            }
            here => {
                let said = here.and_then(|found| found.name);
                if let Some(name) = said.filter(|_| self.directory(pid).is_none()) {
                    let (_, path) = spoken::read(name);
                    self.set_directory(pid, &path);
                }
                let here = self.directory(pid)?;
                Some(self.places.name_of(here))
            }
        }
    }

    /// The thread is known to be in this directory, whose name is absolute.
    pub fn set_directory(&mut self, pid: u32, path: &[u8]) {
        let path = self.places.join(None, path);
        let directory = self.places.met(path, Kind::Directory);
        self.enters(pid, directory);
    }

    /// What readlink(2) has found, where its source does not tell: `read_link` looks it up. What is
    /// there by now counts only where it is as long.
    pub fn complete_link(&mut self, event: &mut Event, read_link: impl Fn(&[u8]) -> Option<Vec<u8>>) {
        let is_readlink = event.call.name.starts_with("readlink") && event.path2.is_none();
        let (Some(path), Some(length), true) = (event.path, event.outcome.value(), is_readlink) else {
            return;
        };
        let found = read_link(self.places.names().path(path));
        let found = found.filter(|found| i64::try_from(found.len()).is_ok_and(|found| found == length));
        event.path2 = found.map(|target| self.places.name(&target));
    }

    /// Calls about names that have succeeded.
    pub(super) fn tree(&mut self, asked: &Request<'_>, value: i64, event: &mut Event) {
        match asked.effect() {
            Effect::Look => self.look(asked, value, event),
            Effect::Make => {
                let kind = if asked.known.name.starts_with("mkdir") {
                    Kind::Directory
                } else {
                    Kind::File
                };
                event.file = event.path.map(|path| self.anew(path, kind));
            }
            Effect::Symlink => event.file = event.path.map(|path| self.anew(path, Kind::Link)),
            Effect::Link => {
                let file = event
                    .file
                    .or_else(|| Some(self.places.met(event.path?, Kind::File)));
                event.file = file;
                event.file2 = file;
                if let (Some(file), Some(path)) = (file, event.path2) {
                    self.places.link(file, path);
                }
            }
            Effect::Remove => event.file = event.path.map(|path| self.taken_away(path)),
            Effect::Rename => self.rename(event),
            Effect::Enter => self.enter(asked, event),
            Effect::Change if event.open.is_none() => {
                event.file = event.path.map(|path| self.places.met(path, Kind::File));
            }
            _ => {}
        }
    }

    /// What has this name is of this kind. Of a name that leads to an open file, `lstat` tells the
    /// link; the file stays what it is.
    fn seen(&mut self, path: PathId, kind: Kind) -> FileId {
        match self.places.at(path) {
            Some(file) if kind == Kind::Link => file,
            _ => self.places.met(path, kind),
        }
    }

    /// Nothing had this name before.
    fn anew(&mut self, path: PathId, kind: Kind) -> FileId {
        self.places.remove(path);
        self.places.met(path, kind)
    }

    fn taken_away(&mut self, path: PathId) -> FileId {
        let file = self.places.met(path, Kind::File);
        self.places.remove(path);
        file
    }

    fn rename(&mut self, event: &mut Event) {
        let (Some(from), Some(to)) = (event.path, event.path2) else {
            return;
        };
        if event.flags.is_some_and(|flags| flags & RENAME_EXCHANGE != 0) {
            let (first, second) = self.places.exchange(from, to);
            (event.file, event.file2) = (Some(first), Some(second));
        } else {
            let (moved, replaced) = self.places.rename(from, to);
            (event.file, event.file2) = (Some(moved), replaced);
        }
    }

    fn enter(&mut self, asked: &Request<'_>, event: &mut Event) {
        let directory = match (event.path, event.file) {
            (Some(path), _) => Some(self.places.met(path, Kind::Directory)),
            (None, file) => file,
        };
        event.file = directory;
        if let Some(directory) = directory {
            self.enters(asked.pid, directory);
        }
    }

    /// stat(2) and its like tell size and type.
    fn look(&mut self, asked: &Request<'_>, value: i64, event: &mut Event) {
        if asked.known.name == "getcwd" {
            if let Some(path) = asked.text().filter(|path| path.first() == Some(&b'/')) {
                let path = self.absolute(asked.pid, &path);
                let directory = self.places.met(path, Kind::Directory);
                self.enters(asked.pid, directory);
            }
            return;
        }
        if asked.known.name.starts_with("readlink") {
            event.path2 = asked
                .data()
                .filter(|target| i64::try_from(target.len()).is_ok_and(|length| length == value))
                .map(|target| self.places.name(&target));
        }
        let (size, mode) = asked.status();
        if asked.part(Argument::Status).is_some() {
            event.length = size.and_then(|size| u64::try_from(size).ok());
            event.mode = mode;
        }
        let kind = match mode.map(|mode| mode & S_IFMT) {
            Some(S_IFDIR) => Kind::Directory,
            Some(S_IFLNK) => Kind::Link,
            _ if asked.known.name.starts_with("readlink") && value >= 0 => Kind::Link,
            _ => Kind::File,
        };
        if let Some(path) = event.path {
            event.file = Some(self.seen(path, kind));
        } else if kind == Kind::Directory {
            self.set_kind(event.file, kind);
        }
        let is_regular = mode.is_some_and(|mode| mode & S_IFMT == S_IFREG);
        if let (Some(file), Some(size), true) = (event.file, size, is_regular) {
            self.places.set_size(file, size);
        }
    }
}
