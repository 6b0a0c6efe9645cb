//! Descriptors as the kernel has them: a table for each process, or several, of numbers that stand for open files.
//!
//! A table is shared by the threads that clone(2) has made with `CLONE_FILES`, and copied by fork; an open file, with its offset, is
//! shared by all descriptors that dup, fork and execve have made of one. Numbers are given out again, so that a number says
//! nothing without its table and its time: a descriptor is freed where its close *begins*, as another thread may be given the
//! number before strace has written that the close has ended, and taken where its open ends.

mod files;
mod request;
mod tables;

use std::collections::HashMap;

pub use files::{FileId, OpenFile, Thing};

use crate::kernel::files::Files;
use crate::kernel::tables::{Slot, Table, Tables};
use crate::syscalls::{Argument, Effect};
use crate::text::line::Ended;
use crate::text::value::{self, Arguments};
pub use request::Request;

/// All processes of a trace.
#[derive(Debug, Default)]
pub struct Kernel {
    threads: HashMap<u32, Thread>,
    tables: Tables,
    files: Files,
}

#[derive(Debug, Clone, Copy)]
struct Thread {
    table: usize,
}

/// Open files that a call is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Touched {
    /// Of its first descriptor, or the one that it has made.
    pub file: Option<FileId>,
    /// That data go to; the one that dup2 has closed.
    pub other: Option<FileId>,
}

impl Kernel {
    /// Nobody is there yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is known of an open file; none where it is closed.
    pub fn file(&self, id: FileId) -> Option<&OpenFile> {
        self.files.get(id)
    }

    /// Whether this thread has been seen.
    pub fn knows(&self, pid: u32) -> bool {
        self.threads.contains_key(&pid)
    }

    /// A thread that `parent` makes. One that is known already stays.
    pub fn is_born(&mut self, pid: u32, parent: u32, shares_files: bool) {
        if self.knows(pid) {
            return;
        }
        let table = self.thread(parent).table;
        let table = if shares_files {
            self.tables.share(table)
        } else {
            self.tables.copy(table, &mut self.files)
        };
        self.threads.insert(pid, Thread { table });
    }

    /// The thread is gone.
    pub fn is_gone(&mut self, pid: u32) {
        if let Some(thread) = self.threads.remove(&pid) {
            self.tables.leave(thread.table, &mut self.files);
        }
    }

    /// Thread `by` of process `pid` executes a program: it has that id from now on, and all others are gone.
    pub fn is_superseded(&mut self, pid: u32, by: u32) {
        if let Some(executing) = self.threads.remove(&by) {
            self.is_gone(pid);
            self.threads.insert(pid, executing);
        }
    }

    /// A call begins: what it gives up is given up now.
    pub fn begins(&mut self, asked: Request<'_>) -> Touched {
        if asked.effect() != Effect::Close {
            return Touched::default();
        }
        let Some(number) = asked.number(Argument::Fd) else {
            return Touched::default();
        };
        // One that nobody knows was open before the trace began, or is not open at all: its end tells.
        let table = self.table(asked.pid());
        let freed = table.take(number);
        let file = freed.map(|slot| slot.file);
        if let Some(file) = file {
            self.files.release(file);
        }
        Touched { file, other: None }
    }

    /// A call has ended: what it has made is there now. `begun`: what [`Kernel::begins`] has said of it.
    pub fn ends(&mut self, asked: Request<'_>, ended: &Ended<'_>, begun: Touched) -> Touched {
        if asked.effect() == Effect::Close {
            return begun;
        }
        let returned = ended.value.filter(|_| ended.error.is_none());
        let made = returned
            .and_then(|value| i32::try_from(value).ok())
            .filter(|&value| value >= 0);
        match (asked.effect(), made) {
            (Effect::Open | Effect::Memory, Some(number)) => {
                let appends = asked.flag(b"O_APPEND");
                self.take(
                    asked,
                    number,
                    OpenFile::new(Thing::File, appends),
                    asked.is_marked(),
                )
            }
            (Effect::New, Some(number)) => self.take_new(asked, number),
            (Effect::Pair, Some(_)) => self.pair(asked),
            (Effect::Dup, Some(number)) => {
                let marked = asked.is_marked();
                self.dup(asked, number, marked)
            }
            (Effect::Fcntl, Some(number)) => self.fcntl(asked, number),
            (Effect::Fork, Some(child)) if child > 0 => {
                self.is_born(child.cast_unsigned(), asked.pid(), asked.shares_files());
                Touched::default()
            }
            (Effect::Execute, Some(0)) => {
                self.own_table(asked.pid());
                let closed = self.table(asked.pid()).sweep();
                self.release(&closed);
                Touched::default()
            }
            (Effect::Unshare, Some(0)) if asked.flag(b"CLONE_FILES") => {
                self.own_table(asked.pid());
                Touched::default()
            }
            (Effect::CloseRange, Some(0)) => self.close_range(asked),
            (Effect::Ioctl, Some(_)) => self.ioctl(asked),
            (Effect::Receive, Some(_)) => {
                self.received(asked);
                self.touched(asked)
            }
            (Effect::Exit, _) => {
                self.is_gone(asked.pid());
                Touched::default()
            }
            // It was no descriptor.
            _ if ended.error == Some(b"EBADF") => Touched::default(),
            _ => self.touched(asked),
        }
    }

    /// The open file of a descriptor of a thread; one that nobody has opened was there before the trace began.
    pub fn open_file(&mut self, pid: u32, number: i32) -> Option<FileId> {
        if number < 0 {
            return None;
        }
        if let Some(slot) = self.table(pid).get(number) {
            return Some(slot.file);
        }
        let file = self
            .files
            .add(OpenFile::new(Thing::Unknown { pid, number }, false));
        self.table(pid).put(number, Slot { file, marked: false });
        Some(file)
    }

    fn release(&mut self, closed: &[Slot]) {
        for slot in closed {
            self.files.release(slot.file);
        }
    }

    fn thread(&mut self, pid: u32) -> Thread {
        let tables = &mut self.tables;
        *self
            .threads
            .entry(pid)
            .or_insert_with(|| Thread { table: tables.add() })
    }

    fn table(&mut self, pid: u32) -> &mut Table {
        let table = self.thread(pid).table;
        self.tables.get(table)
    }

    fn own_table(&mut self, pid: u32) {
        let shared = self.thread(pid).table;
        let own = self.tables.own(shared, &mut self.files);
        self.threads.insert(pid, Thread { table: own });
    }

    fn touched(&mut self, asked: Request<'_>) -> Touched {
        let first = asked.number(Argument::Fd);
        let out = asked.number(Argument::Out);
        Touched {
            file: first.and_then(|number| self.open_file(asked.pid(), number)),
            other: out.and_then(|number| self.open_file(asked.pid(), number)),
        }
    }

    fn take(&mut self, asked: Request<'_>, number: i32, file: OpenFile, marked: bool) -> Touched {
        let file = self.files.add(file);
        self.put(asked.pid(), number, Slot { file, marked });
        Touched {
            file: Some(file),
            other: None,
        }
    }

    fn take_new(&mut self, asked: Request<'_>, number: i32) -> Touched {
        // signalfd(2) changes one that is there, bpf(2) may return anything but a descriptor.
        let is_known = asked.number(Argument::Known) == Some(number);
        let returns_none = asked.name() == "bpf" && number == 0;
        if is_known || returns_none {
            return Touched::default();
        }
        self.take(
            asked,
            number,
            OpenFile::new(Thing::Other, false),
            asked.is_marked(),
        )
    }

    fn put(&mut self, pid: u32, number: i32, slot: Slot) -> Option<FileId> {
        let before = self.table(pid).put(number, slot)?;
        self.files.release(before.file);
        Some(before.file)
    }

    fn pair(&mut self, asked: Request<'_>) -> Touched {
        let marked = asked.is_marked();
        let list = asked.argument(Argument::Pair).and_then(value::inner);
        let told: Vec<i32> = list
            .into_iter()
            .flat_map(Arguments::of)
            .filter_map(|part| Some(value::descriptor(part)?.number))
            .collect();
        // With `-s 0` they stand as `[...]`: the kernel gives the lowest numbers that are free.
        let numbers = if told.len() == 2 {
            told
        } else {
            self.table(asked.pid()).lowest_free(2)
        };
        for number in numbers {
            self.take(asked, number, OpenFile::new(Thing::Other, false), marked);
        }
        Touched::default()
    }

    fn dup(&mut self, asked: Request<'_>, number: i32, marked: bool) -> Touched {
        let from = asked.number(Argument::Fd);
        let Some(file) = from.and_then(|from| self.open_file(asked.pid(), from)) else {
            return Touched::default();
        };
        let mut other = None;
        if from != Some(number) {
            self.files.hold(file);
            other = self.put(asked.pid(), number, Slot { file, marked });
        }
        Touched {
            file: Some(file),
            other,
        }
    }

    fn fcntl(&mut self, asked: Request<'_>, value: i32) -> Touched {
        let command = asked.argument(Argument::Command).unwrap_or_default();
        let given = asked.argument(Argument::Value).unwrap_or_default();
        match command {
            b"F_DUPFD" => return self.dup(asked, value, false),
            b"F_DUPFD_CLOEXEC" => return self.dup(asked, value, true),
            b"F_SETFD" => {
                let marked = value::has(given, b"FD_CLOEXEC");
                self.mark(asked, marked);
            }
            b"F_SETFL" => {
                let touched = self.touched(asked);
                if let Some(file) = touched.file {
                    let appends = value::has(given, b"O_APPEND");
                    if let Some(file) = self.files.get_mut(file) {
                        file.appends = appends;
                    }
                }
                return touched;
            }
            _ => {}
        }
        self.touched(asked)
    }

    fn ioctl(&mut self, asked: Request<'_>) -> Touched {
        match asked.argument(Argument::Command) {
            Some(b"FIOCLEX") => self.mark(asked, true),
            Some(b"FIONCLEX") => self.mark(asked, false),
            _ => {}
        }
        self.touched(asked)
    }

    fn mark(&mut self, asked: Request<'_>, marked: bool) {
        let number = asked.number(Argument::Fd);
        if let Some(number) = number.filter(|&number| self.open_file(asked.pid(), number).is_some()) {
            self.table(asked.pid()).mark(number..=number, marked);
        }
    }

    fn close_range(&mut self, asked: Request<'_>) -> Touched {
        let bound = |kind| asked.argument(kind).and_then(value::number);
        let number = |value: i64| i32::try_from(value).unwrap_or(i32::MAX);
        let (Some(first), Some(last)) = (bound(Argument::First), bound(Argument::Last)) else {
            return Touched::default();
        };
        // ~0U is the last one that can be.
        let range = number(first)..=number(last & 0xffff_ffff);
        if asked.flag(b"CLOSE_RANGE_UNSHARE") {
            self.own_table(asked.pid());
        }
        if asked.flag(b"CLOSE_RANGE_CLOEXEC") {
            self.table(asked.pid()).mark(range, true);
        } else {
            let closed = self.table(asked.pid()).clear(&range);
            self.release(&closed);
        }
        Touched::default()
    }

    /// Descriptors of other processes that came with a message: `cmsg_type=SCM_RIGHTS, cmsg_data=[5, 6]`.
    fn received(&mut self, asked: Request<'_>) {
        let mut rest = asked.arguments();
        while let Some(at) = memchr::memmem::find(rest, b"cmsg_type=SCM_RIGHTS, cmsg_data=[") {
            rest = &rest[at + b"cmsg_type=SCM_RIGHTS, cmsg_data=[".len()..];
            for part in Arguments::of(rest) {
                if let Some(one) = value::descriptor(part) {
                    self.take(asked, one.number, OpenFile::new(Thing::Received, false), false);
                }
            }
        }
    }
}
