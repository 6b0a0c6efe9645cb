//! Descriptors that calls make, copy, mark and free.

use crate::constants::{
    CLOSE_RANGE_CLOEXEC, CLOSE_RANGE_UNSHARE, F_DUPFD, F_DUPFD_CLOEXEC, F_SETFD, F_SETFL, FICLONE,
    FICLONERANGE, FIOCLEX, FIONCLEX, O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_TMPFILE, O_TRUNC,
};
use crate::event::{Event, FileId, OpenId, PathId};
use crate::kernel::tables::Slot;
use crate::kernel::{CallResult, Kernel, OpenFile, Request, spoken};
use crate::names::Kind;
use crate::syscalls::{Argument, Effect};
use crate::text::value::{self, Descriptor};

impl Kernel {
    /// The open file of a descriptor of a thread; one that nobody has opened was there before the
    /// trace began.
    pub fn open_of(&mut self, pid: u32, found: &Descriptor<'_>) -> Option<OpenId> {
        if found.number < 0 {
            return None;
        }
        if let Some(slot) = self.table(pid).get(found.number) {
            self.adopt(slot.open, found);
            return Some(slot.open);
        }
        let name = self
            .places
            .name(format!("unknown:{pid}:{}", found.number).as_bytes());
        let file = OpenFile {
            offset: None,
            nameless: true,
            ..OpenFile::new(self.places.nameless(name, Kind::File))
        };
        let open = self.put_new(pid, found.number, file, false)?;
        self.adopt(open, found);
        Some(open)
    }

    /// A descriptor is known to have been open before the trace began: by its name as
    /// `/proc/PID/fd` has it, where its open file stood, and its flags. One that is known already
    /// stays as it is.
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
        let (kind, path) = spoken::read(name);
        let path = path.strip_suffix(b" (deleted)").unwrap_or(&path);
        let path = self.places.name(path);
        let file = if matches!(kind, Kind::File | Kind::Device) {
            self.places.met(path, kind)
        } else {
            self.places.nameless(path, kind)
        };
        let open = OpenFile {
            offset,
            appends: flags & O_APPEND != 0,
            ..OpenFile::new(file)
        };
        self.put_new(pid, number, open, marked);
    }

    /// Gives an open file that has no name yet the one that strace has put behind its descriptor.
    pub(super) fn adopt(&mut self, open: OpenId, found: &Descriptor<'_>) {
        let Some(said) = found.name else { return };
        let is_nameless = self.opens.get(open).is_some_and(|open| open.nameless);
        if !is_nameless {
            return;
        }
        let (kind, path) = spoken::read(said);
        let name = self.places.name(&path);
        let file = if found.deleted || matches!(kind, Kind::Pipe | Kind::Socket | Kind::Other) {
            self.places.nameless(name, kind)
        } else {
            self.places.met(name, kind)
        };
        if let Some(open) = self.opens.get_mut(open) {
            open.file = file;
            open.nameless = false;
        }
    }

    /// One more open file, by this number. What the number stood for is closed.
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

    /// open(2) and all others that return a new descriptor.
    pub(super) fn makes(
        &mut self,
        asked: &Request<'_>,
        done: &CallResult<'_>,
        value: i64,
        event: &mut Event,
    ) {
        let Some(number) = i32::try_from(value).ok().filter(|&number| number >= 0) else {
            return;
        };
        let file = match asked.effect() {
            Effect::Open => self.opened(asked, done, event),
            Effect::Memory => {
                let name = asked.text().unwrap_or_default();
                let name = self.places.name(&[b"memfd:", name.as_ref()].concat());
                self.places.nameless(name, Kind::Memory)
            }
            _ => {
                // signalfd(2) changes one that is there, bpf(2) may return anything but a
                // descriptor.
                let is_known = asked
                    .descriptor(Argument::Known)
                    .is_some_and(|known| known.number == number);
                if is_known || asked.known.name == "bpf" && number == 0 {
                    return;
                }
                self.other(asked)
            }
        };
        let appends = asked.effect() == Effect::Open && event.flags.unwrap_or(0) & O_APPEND != 0;
        let open = OpenFile {
            appends,
            ..OpenFile::new(file)
        };
        event.open = self.put_new(asked.pid, number, open, asked.is_marked(event.flags));
        event.file = Some(file);
    }

    fn opened(&mut self, asked: &Request<'_>, done: &CallResult<'_>, event: &Event) -> FileId {
        let flags = event.flags.unwrap_or(0);
        let kind = if flags & O_DIRECTORY != 0 {
            Kind::Directory
        } else {
            Kind::File
        };
        let path = event
            .path
            .unwrap_or_else(|| self.places.name(format!("handle:{}", asked.pid).as_bytes()));
        if flags & O_TMPFILE == O_TMPFILE {
            let file = self.places.unlinked(path);
            self.places.set_size(file, 0);
            return file;
        }
        let said = done.returned.filter(|found| !found.deleted);
        // The real name, where strace tells it: two names may be one file through a symbolic link.
        let real = said.and_then(|found| found.name).map(spoken::read);
        let file = match real {
            Some((real_kind, real)) if real.first() == Some(&b'/') => {
                let real = self.places.name(&real);
                let kind = if real_kind == Kind::Device {
                    real_kind
                } else {
                    kind
                };
                let file = self.places.met(real, kind);
                self.places.leads(path, real, file);
                file
            }
            _ => match self.own_descriptor(asked.pid, path) {
                Some(file) => file,
                None => self.places.met(path, kind),
            },
        };
        let is_new = flags & O_CREAT != 0 && flags & O_EXCL != 0;
        if is_new || flags & O_TRUNC != 0 || asked.known.name == "creat" {
            self.places.set_size(file, 0);
        }
        file
    }

    /// The file that a thread has open already, where it opens it by `/proc/self/fd/3` or
    /// `/dev/fd/3`.
    pub(super) fn own_descriptor(&mut self, pid: u32, path: PathId) -> Option<FileId> {
        let number = own_number(pid, self.places.names().path(path))?;
        let slot = self.table(pid).get(number)?;
        Some(self.opens.get(slot.open)?.file)
    }

    /// The same, of a name that need not be one of the trace's.
    pub(super) fn own_slot(&mut self, pid: u32, path: &[u8]) -> Option<Slot> {
        self.table(pid).get(own_number(pid, path)?)
    }

    /// A socket, an eventfd and the like.
    fn other(&mut self, asked: &Request<'_>) -> FileId {
        let name = asked.known.name;
        let kind = match name {
            "socket" | "accept" | "accept4" => Kind::Socket,
            _ => Kind::Other,
        };
        let name = self.places.name(format!("{name}:").as_bytes());
        self.places.nameless(name, kind)
    }

    pub(super) fn pair(&mut self, asked: &Request<'_>, event: &mut Event) {
        let kind = if asked.known.name == "socketpair" {
            Kind::Socket
        } else {
            Kind::Pipe
        };
        let name = self.places.name(format!("{}:", asked.known.name).as_bytes());
        let file = self.places.nameless(name, kind);
        // With `-s 0` they stand as `[...]`: the kernel gives the lowest numbers that are free.
        let numbers = asked
            .pair()
            .unwrap_or_else(|| self.table(asked.pid).lowest_free());
        let open = OpenFile {
            offset: None,
            ..OpenFile::new(file)
        };
        event.open = self.put_new(asked.pid, numbers[0], open, asked.is_marked(event.flags));
        event.open2 = self.put_new(asked.pid, numbers[1], open, asked.is_marked(event.flags));
        (event.file, event.file2) = (Some(file), Some(file));
    }

    /// `event.open` is duplicated.
    pub(super) fn dup(&mut self, asked: &Request<'_>, value: i64, marked: bool, event: &mut Event) {
        let (Some(open), Ok(number)) = (event.open, i32::try_from(value)) else {
            return;
        };
        let from = asked.descriptor(Argument::Fd).map(|found| found.number);
        if number >= 0 && from != Some(number) {
            self.opens.hold(open);
            self.put(asked.pid, number, Slot { open, marked });
        }
    }

    pub(super) fn fcntl(&mut self, asked: &Request<'_>, value: i64, event: &mut Event) {
        match event.flags {
            Some(F_DUPFD) => self.dup(asked, value, false, event),
            Some(F_DUPFD_CLOEXEC) => self.dup(asked, value, true, event),
            Some(F_SETFD) => self.mark(
                asked,
                asked.number(Argument::Value).is_some_and(|flags| flags & 1 != 0),
            ),
            Some(F_SETFL) => {
                let appends = asked
                    .number(Argument::Value)
                    .is_some_and(|flags| flags.cast_unsigned() & O_APPEND != 0);
                event.mode = asked
                    .number(Argument::Value)
                    .and_then(|flags| u32::try_from(flags).ok());
                if let Some(open) = event.open.and_then(|open| self.opens.get_mut(open)) {
                    open.appends = appends;
                }
            }
            _ => {
                let lock = asked.fields(Argument::Value, [b"l_type", b"l_start", b"l_len"]);
                let [kind, start, length] = lock.map(|field| crate::constants::bits(field?));
                event.mode = kind.and_then(|kind| u32::try_from(kind).ok());
                event.offset = start.map(u64::cast_signed);
                event.length = length;
            }
        }
    }

    pub(super) fn ioctl(&mut self, asked: &Request<'_>, event: &mut Event) {
        match event.flags {
            Some(FIOCLEX) => self.mark(asked, true),
            Some(FIONCLEX) => self.mark(asked, false),
            Some(FICLONE) => {
                if let Some(from) = asked.descriptor(Argument::Value) {
                    self.clones(asked.pid, &from, [Some(0), None, Some(0)], event);
                }
            }
            Some(FICLONERANGE) => {
                let names: [&[u8]; 4] = [b"src_fd", b"src_offset", b"src_length", b"dest_offset"];
                let [from, numbers @ ..] = asked.fields(Argument::Value, names);
                if let Some(from) = from.and_then(value::descriptor) {
                    let numbers = numbers.map(|field| field.and_then(value::number));
                    self.clones(asked.pid, &from, numbers, event);
                }
            }
            _ => {}
        }
    }

    /// The event's file is, from `to` on, what `from` is: `length` bytes of it, all where that is 0
    /// or none.
    fn clones(
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
        let rest = || Some(self.places.size(event.file?)?.saturating_sub(from?));
        let moved = length.filter(|&length| length > 0).or_else(rest);
        if let (Some(file), Some(to), Some(moved)) = (event.file2, to, moved) {
            self.places.reaches(file, to.saturating_add(moved));
        }
    }

    fn mark(&mut self, asked: &Request<'_>, marked: bool) {
        if let Some(found) = asked.descriptor(Argument::Fd) {
            let number = found.number;
            self.table(asked.pid).mark(number..=number, marked);
        }
    }

    pub(super) fn close_range(&mut self, asked: &Request<'_>, event: &mut Event) {
        let number = |value: i64| i32::try_from(value).unwrap_or(i32::MAX);
        let bounds = asked.number(Argument::First).zip(asked.number(Argument::Last));
        let Some((first, last)) = bounds else { return };
        // ~0U is the last one that can be.
        let range = number(first)..=number(last & 0xffff_ffff);
        let flags = event.flags.unwrap_or(0);
        if flags & CLOSE_RANGE_UNSHARE != 0 {
            self.own_table(asked.pid);
        }
        if flags & CLOSE_RANGE_CLOEXEC != 0 {
            self.table(asked.pid).mark(range, true);
            return;
        }
        for slot in self.table(asked.pid).clear(&range) {
            self.opens.release(slot.open);
        }
    }

    /// Descriptors of other processes that came with a message.
    pub(super) fn received(&mut self, asked: &Request<'_>, event: &mut Event) {
        for found in asked.received() {
            let name = self
                .places
                .name(format!("received:{}:{}", asked.pid, found.number).as_bytes());
            let file = OpenFile {
                offset: None,
                nameless: true,
                ..OpenFile::new(self.places.nameless(name, Kind::File))
            };
            if let Some(open) = self.put_new(asked.pid, found.number, file, false) {
                self.adopt(open, &found);
            }
        }
        self.files_of(event);
    }
}

/// The descriptor that a thread means by `/proc/self/fd/3` and the like.
fn own_number(pid: u32, path: &[u8]) -> Option<i32> {
    let own = format!("/proc/{pid}/fd/");
    let before: [&[u8]; 4] = [
        b"/proc/self/fd/",
        b"/dev/fd/",
        b"/proc/thread-self/fd/",
        own.as_bytes(),
    ];
    let number = before.iter().find_map(|before| path.strip_prefix(*before))?;
    i32::try_from(value::number(number)?).ok()
}
