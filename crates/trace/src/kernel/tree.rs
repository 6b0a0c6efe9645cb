//! The effects of calls on paths, and what they show of the files.

use crate::constants::{AT_SYMLINK_FOLLOW, RENAME_EXCHANGE, S_IFDIR, S_IFLNK, S_IFMT, S_IFREG};
use crate::event::{Event, FileId, OpenId, Outcome, PathId};
use crate::kernel::{EBADF, Kernel, Request, descriptor_path};
use crate::names::Kind;
use crate::syscalls::{Argument, Effect};
use crate::text::value::{AT_FDCWD, Descriptor};

impl Kernel {
    /// Resolves the paths of the arguments relative to their directories.
    pub(super) fn resolve_paths(&mut self, request: &Request<'_>, event: &mut Event) {
        if let Some(open) = self.linked_descriptor(request, event) {
            // The path is valid only in this process and refers to the descriptor, as with
            // AT_EMPTY_PATH.
            event.open = Some(open);
            self.files_of(event);
        } else if let Some(path) = self.path(request, 0, event) {
            // To change the permissions of a file that is open with `O_PATH`, glibc uses
            // `/proc/self/fd/3`: the call refers to that file.
            let by_number = matches!(request.effect(), Effect::Change | Effect::Truncate);
            let own_file = by_number
                .then(|| self.own_descriptor(request.pid, path))
                .flatten();
            event.path = Some(own_file.map_or(path, |file| self.paths.name_of(file)));
            event.file = own_file.or_else(|| self.paths.at(path));
        }
        match request.effect() {
            Effect::Link | Effect::Rename => {
                event.path2 = self.path(request, 1, event);
                event.file2 = event.path2.and_then(|path| self.paths.at(path));
            }
            Effect::Symlink | Effect::Change | Effect::Look => {
                event.path2 = request
                    .text()
                    .filter(|_| request.call.name != "getcwd")
                    .map(|text| self.paths.name(&text));
            }
            _ => {}
        }
    }

    /// The open file to which linkat(2) refers as `/proc/self/fd/3` with `AT_SYMLINK_FOLLOW`. Files
    /// of `O_TMPFILE` get their path in this way.
    fn linked_descriptor(&mut self, request: &Request<'_>, event: &Event) -> Option<OpenId> {
        let follows = event.flags.is_some_and(|flags| flags & AT_SYMLINK_FOLLOW != 0);
        if request.effect() != Effect::Link || !follows {
            return None;
        }
        let (_, path) = request.path(0)?;
        self.own_slot(request.pid, &path).map(|slot| slot.open)
    }

    fn path(&mut self, request: &Request<'_>, nth: usize, event: &mut Event) -> Option<PathId> {
        let (directory, bytes) = request.path(nth)?;
        let is_absolute = bytes.first() == Some(&b'/');
        let base = directory.filter(|descriptor| descriptor.number != AT_FDCWD && !is_absolute);
        if base.is_some() && event.outcome == Outcome::Failed(EBADF) {
            // The descriptor is not open and was not before.
            return None;
        }
        if bytes.is_empty() {
            // `newfstatat(3, "", {...}, AT_EMPTY_PATH)`: the call refers to the descriptor.
            if let Some(descriptor) = base {
                event.open = self.open_of(request.pid, &descriptor);
                self.files_of(event);
            }
            return None;
        }
        if is_absolute {
            return Some(self.absolute(request.pid, &bytes));
        }
        let base = self.base(request.pid, directory);
        Some(self.paths.join(base, &bytes))
    }

    /// An absolute path, relative to the root directory of the thread.
    fn absolute(&mut self, pid: u32, path: &[u8]) -> PathId {
        let Some(root) = self.root(pid) else {
            return self.paths.join(None, path);
        };
        // The parent of the root is the root.
        let mut below = path;
        while let Some(relative) = [&b"/"[..], b"./", b"../"]
            .iter()
            .find_map(|part| below.strip_prefix(*part))
        {
            below = relative;
        }
        let below = if matches!(below, b"." | b"..") { b"" } else { below };
        let root = self.paths.name_of(root);
        self.paths.join(Some(root), below)
    }

    /// The path of the directory to which a relative path refers.
    fn base(&mut self, pid: u32, directory: Option<Descriptor<'_>>) -> Option<PathId> {
        match directory {
            Some(descriptor) if descriptor.number != AT_FDCWD => {
                let open = self.open_of(pid, &descriptor)?;
                let file = self.opens.get(open)?.file;
                Some(self.paths.name_of(file))
            }
            here => {
                let text = here.and_then(|descriptor| descriptor.name);
                if let Some(name) = text.filter(|_| self.directory(pid).is_none()) {
                    let (_, path) = descriptor_path::parse(name);
                    self.set_directory(pid, &path);
                }
                let directory = self.directory(pid)?;
                Some(self.paths.name_of(directory))
            }
        }
    }

    /// Sets the working directory of a thread to an absolute path.
    pub fn set_directory(&mut self, pid: u32, path: &[u8]) {
        let path = self.paths.join(None, path);
        let directory = self.paths.find_or_add(path, Kind::Directory);
        self.set_working_directory(pid, directory);
    }

    /// Completes a readlink(2) whose target the recorder does not report: `read_link` looks it up.
    /// The current target is used only if its length is that in the trace.
    pub fn complete_link(&mut self, event: &mut Event, read_link: impl Fn(&[u8]) -> Option<Vec<u8>>) {
        let is_readlink = event.call.name.starts_with("readlink") && event.path2.is_none();
        let (Some(path), Some(length), true) = (event.path, event.outcome.value(), is_readlink) else {
            return;
        };
        let target = read_link(self.paths.names().path(path));
        let target = target
            .filter(|target| i64::try_from(target.len()).is_ok_and(|target_length| target_length == length));
        event.path2 = target.map(|target| self.paths.name(&target));
    }

    /// Handles successful calls on paths.
    pub(super) fn tree(&mut self, request: &Request<'_>, value: i64, event: &mut Event) {
        match request.effect() {
            Effect::Look => self.look(request, value, event),
            Effect::Make => {
                let kind = if request.call.name.starts_with("mkdir") {
                    Kind::Directory
                } else {
                    Kind::File
                };
                event.file = event.path.map(|path| self.replace(path, kind));
            }
            Effect::Symlink => event.file = event.path.map(|path| self.replace(path, Kind::Link)),
            Effect::Link => {
                let file = event
                    .file
                    .or_else(|| Some(self.paths.find_or_add(event.path?, Kind::File)));
                event.file = file;
                event.file2 = file;
                if let (Some(file), Some(path)) = (file, event.path2) {
                    self.paths.link(file, path);
                }
            }
            Effect::Remove => event.file = event.path.map(|path| self.remove_path(path)),
            Effect::Rename => self.rename(event),
            Effect::Enter => self.enter(request, event),
            Effect::Change if event.open.is_none() => {
                event.file = event.path.map(|path| self.paths.find_or_add(path, Kind::File));
            }
            _ => {}
        }
    }

    /// The file of a path, whose kind is set. `lstat` on a symbolic link to an open file reports
    /// the link; then the file keeps its kind.
    fn observe(&mut self, path: PathId, kind: Kind) -> FileId {
        match self.paths.at(path) {
            Some(file) if kind == Kind::Link => file,
            _ => self.paths.find_or_add(path, kind),
        }
    }

    /// Adds a new file with this path.
    fn replace(&mut self, path: PathId, kind: Kind) -> FileId {
        self.paths.remove(path);
        self.paths.find_or_add(path, kind)
    }

    fn remove_path(&mut self, path: PathId) -> FileId {
        let file = self.paths.find_or_add(path, Kind::File);
        self.paths.remove(path);
        file
    }

    fn rename(&mut self, event: &mut Event) {
        let (Some(from), Some(to)) = (event.path, event.path2) else {
            return;
        };
        if event.flags.is_some_and(|flags| flags & RENAME_EXCHANGE != 0) {
            let (first, second) = self.paths.exchange(from, to);
            (event.file, event.file2) = (Some(first), Some(second));
        } else {
            let (moved, replaced) = self.paths.rename(from, to);
            (event.file, event.file2) = (Some(moved), replaced);
        }
    }

    fn enter(&mut self, request: &Request<'_>, event: &mut Event) {
        let directory = match (event.path, event.file) {
            (Some(path), _) => Some(self.paths.find_or_add(path, Kind::Directory)),
            (None, file) => file,
        };
        event.file = directory;
        if let Some(directory) = directory {
            self.set_working_directory(request.pid, directory);
        }
    }

    /// Handles stat(2) and its variants, which report size and type, getcwd(2) and readlink(2).
    fn look(&mut self, request: &Request<'_>, value: i64, event: &mut Event) {
        if request.call.name == "getcwd" {
            if let Some(path) = request.text().filter(|path| path.first() == Some(&b'/')) {
                let path = self.absolute(request.pid, &path);
                let directory = self.paths.find_or_add(path, Kind::Directory);
                self.set_working_directory(request.pid, directory);
            }
            return;
        }
        if request.call.name.starts_with("readlink") {
            event.path2 = request
                .data()
                .filter(|target| i64::try_from(target.len()).is_ok_and(|length| length == value))
                .map(|target| self.paths.name(&target));
        }
        let (size, mode) = request.status();
        if request.part(Argument::Status).is_some() {
            event.length = size.and_then(|size| u64::try_from(size).ok());
            event.mode = mode;
        }
        let kind = match mode.map(|mode| mode & S_IFMT) {
            Some(S_IFDIR) => Kind::Directory,
            Some(S_IFLNK) => Kind::Link,
            _ if request.call.name.starts_with("readlink") && value >= 0 => Kind::Link,
            _ => Kind::File,
        };
        if let Some(path) = event.path {
            event.file = Some(self.observe(path, kind));
        } else if kind == Kind::Directory {
            self.set_kind(event.file, kind);
        }
        let is_regular = mode.is_some_and(|mode| mode & S_IFMT == S_IFREG);
        if let (Some(file), Some(size), true) = (event.file, size, is_regular) {
            self.paths.set_size(file, size);
        }
    }
}
