//! The effects of calls on descriptors: new ones, copies, marks, and releases.

use crate::constants::{
    CLOSE_RANGE_CLOEXEC, CLOSE_RANGE_UNSHARE, F_DUPFD, F_DUPFD_CLOEXEC, F_SETFD, F_SETFL, FICLONE,
    FICLONERANGE, FIOCLEX, FIONCLEX, O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_TMPFILE, O_TRUNC,
};
use crate::event::{Event, FileId, OpenId, PathId};
use crate::kernel::tables::Slot;
use crate::kernel::{CallResult, Kernel, OpenFile, Request, descriptor_path};
use crate::names::Kind;
use crate::syscalls::{Argument, Effect};
use crate::text::value::{self, Descriptor};

impl Kernel {
    /// The open file of a descriptor of a thread. An unknown descriptor was open before the trace
    /// began.
    pub fn open_of(&mut self, pid: u32, found: &Descriptor<'_>) -> Option<OpenId> {
        if found.number < 0 {
            return None;
        }
        if let Some(slot) = self.table(pid).get(found.number) {
            self.adopt(slot.open, found);
            return Some(slot.open);
        }
        let name = self
            .paths
            .name(format!("unknown:{pid}:{}", found.number).as_bytes());
        let file = OpenFile {
            offset: None,
            nameless: true,
            ..OpenFile::new(self.paths.add_nameless(name, Kind::File))
        };
        let open = self.put_new(pid, found.number, file, false)?;
        self.adopt(open, found);
        Some(open)
    }

    /// Adds a descriptor that was open before the trace began, with its target in `/proc/PID/fd`,
    /// the position of its open file, and its flags. A known descriptor is not changed.
    pub fn add_open_before(
        &mut self,
        pid: u32,
        number: i32,
        name: &[u8],
        offset: Option<i64>,
        flags: u64,
        marked: bool,
    ) {
        if self.table(pid).get(number).is_some() {
            return;
        }
        let (kind, path) = descriptor_path::parse(name);
        let path = path.strip_suffix(b" (deleted)").unwrap_or(&path);
        let path = self.paths.name(path);
        let file = if matches!(kind, Kind::File | Kind::Device) {
            self.paths.find_or_add(path, kind)
        } else {
            self.paths.add_nameless(path, kind)
        };
        let open = OpenFile {
            offset,
            appends: flags & O_APPEND != 0,
            ..OpenFile::new(file)
        };
        self.put_new(pid, number, open, marked);
    }

    /// Sets the path of an open file without one, from the text that strace writes after its
    /// descriptor.
    pub(super) fn adopt(&mut self, open: OpenId, found: &Descriptor<'_>) {
        let Some(text) = found.name else { return };
        let is_nameless = self.opens.get(open).is_some_and(|open| open.nameless);
        if !is_nameless {
            return;
        }
        let (kind, path) = descriptor_path::parse(text);
        let name = self.paths.name(&path);
        let file = if found.deleted || matches!(kind, Kind::Pipe | Kind::Socket | Kind::Other) {
            self.paths.add_nameless(name, kind)
        } else {
            self.paths.find_or_add(name, kind)
        };
        if let Some(open) = self.opens.get_mut(open) {
            open.file = file;
            open.nameless = false;
        }
    }

    /// Adds an open file with this number. If the number was in use, its descriptor is closed.
    fn put_new(&mut self, pid: u32, number: i32, file: OpenFile, marked: bool) -> Option<OpenId> {
        let open = self.opens.add(file)?;
        self.put(pid, number, Slot { open, marked });
        Some(open)
    }

    fn put(&mut self, pid: u32, number: i32, slot: Slot) {
        if let Some(before) = self.table(pid).put(number, slot) {
            self.opens.release(before.open);
        }
    }

    /// Handles open(2) and all other calls that return a new descriptor.
    pub(super) fn open_descriptor(
        &mut self,
        request: &Request<'_>,
        result: &CallResult<'_>,
        value: i64,
        event: &mut Event,
    ) {
        let Some(number) = i32::try_from(value).ok().filter(|&number| number >= 0) else {
            return;
        };
        let file = match request.effect() {
            Effect::Open => self.open_file_of(request, result, event),
            Effect::Memory => {
                let name = request.text().unwrap_or_default();
                let name = self.paths.name(&[b"memfd:", name.as_ref()].concat());
                self.paths.add_nameless(name, Kind::Memory)
            }
            _ => {
                // signalfd(2) may change an existing descriptor; bpf(2) may return something other
                // than a descriptor.
                let is_known = request
                    .descriptor(Argument::Known)
                    .is_some_and(|known| known.number == number);
                if is_known || request.call.name == "bpf" && number == 0 {
                    return;
                }
                self.new_object(request)
            }
        };
        let appends = request.effect() == Effect::Open && event.flags.unwrap_or(0) & O_APPEND != 0;
        let open = OpenFile {
            appends,
            ..OpenFile::new(file)
        };
        event.open = self.put_new(request.pid, number, open, request.is_marked(event.flags));
        event.file = Some(file);
    }

    fn open_file_of(&mut self, request: &Request<'_>, result: &CallResult<'_>, event: &Event) -> FileId {
        let flags = event.flags.unwrap_or(0);
        let kind = if flags & O_DIRECTORY != 0 {
            Kind::Directory
        } else {
            Kind::File
        };
        let path = event
            .path
            .unwrap_or_else(|| self.paths.name(format!("handle:{}", request.pid).as_bytes()));
        if flags & O_TMPFILE == O_TMPFILE {
            let file = self.paths.add_unlinked(path);
            self.paths.set_size(file, 0);
            return file;
        }
        let returned = result.returned.filter(|descriptor| !descriptor.deleted);
        // The real path, if strace writes it: two paths may lead to one file through a symbolic
        // link.
        let real = returned
            .and_then(|descriptor| descriptor.name)
            .map(descriptor_path::parse);
        let file = match real {
            Some((real_kind, real)) if real.first() == Some(&b'/') => {
                let real = self.paths.name(&real);
                let kind = if real_kind == Kind::Device {
                    real_kind
                } else {
                    kind
                };
                let file = self.paths.find_or_add(real, kind);
                self.paths.set_target(path, real, file);
                file
            }
            _ => match self.own_descriptor(request.pid, path) {
                Some(file) => file,
                None => self.paths.find_or_add(path, kind),
            },
        };
        let is_new = flags & O_CREAT != 0 && flags & O_EXCL != 0;
        if is_new || flags & O_TRUNC != 0 || request.call.name == "creat" {
            self.paths.set_size(file, 0);
        }
        file
    }

    /// The file that a thread has open already and opens again as `/proc/self/fd/3` or `/dev/fd/3`.
    pub(super) fn own_descriptor(&mut self, pid: u32, path: PathId) -> Option<FileId> {
        let number = own_number(pid, self.paths.names().path(path))?;
        let slot = self.table(pid).get(number)?;
        Some(self.opens.get(slot.open)?.file)
    }

    /// The slot of such a path, which need not be in the tables of the trace.
    pub(super) fn own_slot(&mut self, pid: u32, path: &[u8]) -> Option<Slot> {
        self.table(pid).get(own_number(pid, path)?)
    }

    /// A new file for a socket, an eventfd or a similar object.
    fn new_object(&mut self, request: &Request<'_>) -> FileId {
        let name = request.call.name;
        let kind = match name {
            "socket" | "accept" | "accept4" => Kind::Socket,
            _ => Kind::Other,
        };
        let name = self.paths.name(format!("{name}:").as_bytes());
        self.paths.add_nameless(name, kind)
    }

    pub(super) fn pair(&mut self, request: &Request<'_>, event: &mut Event) {
        let kind = if request.call.name == "socketpair" {
            Kind::Socket
        } else {
            Kind::Pipe
        };
        let name = self.paths.name(format!("{}:", request.call.name).as_bytes());
        let file = self.paths.add_nameless(name, kind);
        // With `-s 0` strace writes the descriptors as `[...]`: then they are the lowest free
        // numbers, which the kernel chooses.
        let numbers = request
            .pair()
            .unwrap_or_else(|| self.table(request.pid).lowest_free());
        let open = OpenFile {
            offset: None,
            ..OpenFile::new(file)
        };
        event.open = self.put_new(request.pid, numbers[0], open, request.is_marked(event.flags));
        event.open2 = self.put_new(request.pid, numbers[1], open, request.is_marked(event.flags));
        (event.file, event.file2) = (Some(file), Some(file));
    }

    /// Duplicates the descriptor of `event.open`.
    pub(super) fn dup(&mut self, request: &Request<'_>, value: i64, marked: bool, event: &mut Event) {
        let (Some(open), Ok(number)) = (event.open, i32::try_from(value)) else {
            return;
        };
        let from = request
            .descriptor(Argument::Fd)
            .map(|descriptor| descriptor.number);
        if number >= 0 && from != Some(number) {
            self.opens.hold(open);
            self.put(request.pid, number, Slot { open, marked });
        }
    }

    pub(super) fn fcntl(&mut self, request: &Request<'_>, value: i64, event: &mut Event) {
        match event.flags {
            Some(F_DUPFD) => self.dup(request, value, false, event),
            Some(F_DUPFD_CLOEXEC) => self.dup(request, value, true, event),
            Some(F_SETFD) => self.mark(
                request,
                request
                    .number(Argument::Value)
                    .is_some_and(|flags| flags & 1 != 0),
            ),
            Some(F_SETFL) => {
                let appends = request
                    .number(Argument::Value)
                    .is_some_and(|flags| flags.cast_unsigned() & O_APPEND != 0);
                event.mode = request
                    .number(Argument::Value)
                    .and_then(|flags| u32::try_from(flags).ok());
                if let Some(open) = event.open.and_then(|open| self.opens.get_mut(open)) {
                    open.appends = appends;
                }
            }
            _ => {
                let lock = request.fields(Argument::Value, [b"l_type", b"l_start", b"l_len"]);
                let [kind, start, length] = lock.map(|field| crate::constants::bits(field?));
                event.mode = kind.and_then(|kind| u32::try_from(kind).ok());
                event.offset = start.map(u64::cast_signed);
                event.length = length;
            }
        }
    }

    pub(super) fn ioctl(&mut self, request: &Request<'_>, event: &mut Event) {
        match event.flags {
            Some(FIOCLEX) => self.mark(request, true),
            Some(FIONCLEX) => self.mark(request, false),
            Some(FICLONE) => {
                if let Some(from) = request.descriptor(Argument::Value) {
                    self.clone_range(request.pid, &from, [Some(0), None, Some(0)], event);
                }
            }
            Some(FICLONERANGE) => {
                let names: [&[u8]; 4] = [b"src_fd", b"src_offset", b"src_length", b"dest_offset"];
                let [from, numbers @ ..] = request.fields(Argument::Value, names);
                if let Some(from) = from.and_then(value::descriptor) {
                    let numbers = numbers.map(|field| field.and_then(value::number));
                    self.clone_range(request.pid, &from, numbers, event);
                }
            }
            _ => {}
        }
    }

    /// Makes the range of the event's file from `to` on a copy of `source`: `length` bytes, or all
    /// if that is 0 or absent.
    fn clone_range(
        &mut self,
        pid: u32,
        source: &Descriptor<'_>,
        [from, length, to]: [Option<i64>; 3],
        event: &mut Event,
    ) {
        (event.open2, event.file2) = (event.open, event.file);
        event.open = self.open_of(pid, source);
        event.file = event.open.and_then(|open| Some(self.opens.get(open)?.file));
        (event.offset, event.offset2) = (from, to);
        event.length = length.and_then(|length| u64::try_from(length).ok());
        let remaining = || Some(self.paths.size(event.file?)?.saturating_sub(from?));
        let moved = length.filter(|&length| length > 0).or_else(remaining);
        if let (Some(file), Some(to), Some(moved)) = (event.file2, to, moved) {
            self.paths.grow_to(file, to.saturating_add(moved));
        }
    }

    fn mark(&mut self, request: &Request<'_>, marked: bool) {
        if let Some(found) = request.descriptor(Argument::Fd) {
            let number = found.number;
            self.table(request.pid).mark(number..=number, marked);
        }
    }

    pub(super) fn close_range(&mut self, request: &Request<'_>, event: &mut Event) {
        let number = |value: i64| i32::try_from(value).unwrap_or(i32::MAX);
        let bounds = request
            .number(Argument::First)
            .zip(request.number(Argument::Last));
        let Some((first, last)) = bounds else { return };
        // ~0U is the highest number.
        let range = number(first)..=number(last & 0xffff_ffff);
        let flags = event.flags.unwrap_or(0);
        if flags & CLOSE_RANGE_UNSHARE != 0 {
            self.own_table(request.pid);
        }
        if flags & CLOSE_RANGE_CLOEXEC != 0 {
            self.table(request.pid).mark(range, true);
            return;
        }
        for slot in self.table(request.pid).clear(&range) {
            self.opens.release(slot.open);
        }
    }

    /// Adds the descriptors of other processes that arrived in a message.
    pub(super) fn receive(&mut self, request: &Request<'_>, event: &mut Event) {
        for found in request.received() {
            let name = self
                .paths
                .name(format!("received:{}:{}", request.pid, found.number).as_bytes());
            let file = OpenFile {
                offset: None,
                nameless: true,
                ..OpenFile::new(self.paths.add_nameless(name, Kind::File))
            };
            if let Some(open) = self.put_new(request.pid, found.number, file, false) {
                self.adopt(open, &found);
            }
        }
        self.files_of(event);
    }
}

/// The number of a descriptor in a path such as `/proc/self/fd/3`.
fn own_number(pid: u32, path: &[u8]) -> Option<i32> {
    let own = format!("/proc/{pid}/fd/");
    let prefixes: [&[u8]; 4] = [
        b"/proc/self/fd/",
        b"/dev/fd/",
        b"/proc/thread-self/fd/",
        own.as_bytes(),
    ];
    let number = prefixes.iter().find_map(|prefix| path.strip_prefix(*prefix))?;
    i32::try_from(value::number(number)?).ok()
}
