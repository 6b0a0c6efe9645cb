//! Ranges of files that are ranges of memory, and shared: what msync(2) is about. Private ones are
//! never written back.

use std::ops::Range;

use crate::event::{Event, FileId, OpenId};
use crate::kernel::{Kernel, Request};
use crate::syscalls::Argument;

const MAP_SHARED: u64 = 1;

/// Of one process.
#[derive(Debug, Clone)]
struct Mapping {
    process: u32,
    memory: Range<i64>,
    open: OpenId,
    file: FileId,
    /// Where in the file the range begins.
    offset: i64,
}

/// All that there are: few, so that they are looked through one after the other.
#[derive(Debug, Default)]
pub(super) struct Maps(Vec<Mapping>);

impl Maps {
    /// Takes a range of memory out of whatever is there.
    fn clear(&mut self, process: u32, memory: &Range<i64>) {
        let is_hit = |one: &mut Mapping| {
            one.process == process && one.memory.start < memory.end && memory.start < one.memory.end
        };
        let hit: Vec<Mapping> = self.0.extract_if(.., is_hit).collect();
        for one in hit {
            let parts = [one.memory.start..memory.start, memory.end..one.memory.end];
            let parts = parts.into_iter().filter(|part| !part.is_empty());
            self.0.extend(parts.map(|part| Mapping {
                offset: one.offset + (part.start - one.memory.start),
                memory: part,
                ..one.clone()
            }));
        }
    }

    fn at(&mut self, process: u32, address: i64) -> Option<&mut Mapping> {
        let mut all = self.0.iter_mut();
        all.find(|one| one.process == process && one.memory.contains(&address))
    }

    /// A process is there, with the memory of `parent`.
    pub(super) fn copy(&mut self, parent: u32, child: u32) {
        let own = self.0.iter().filter(|one| one.process == parent);
        let copies: Vec<Mapping> = own
            .map(|one| Mapping {
                process: child,
                ..one.clone()
            })
            .collect();
        self.0.extend(copies);
    }

    /// The memory of a process is gone.
    pub(super) fn end(&mut self, process: u32) {
        self.0.retain(|one| one.process != process);
    }
}

impl Kernel {
    fn process(&mut self, pid: u32) -> u32 {
        let id = self.thread(pid).id;
        self.names()
            .threads()
            .get(id.index())
            .map_or(pid, |entry| entry.pid)
    }

    /// mmap(2) gave `address`.
    pub(super) fn maps(&mut self, asked: &Request<'_>, address: i64, event: &mut Event) {
        event.offset = asked.number(Argument::Offset);
        let is_shared = event.flags.is_some_and(|flags| flags & MAP_SHARED != 0);
        let found = event.open.zip(event.file).filter(|_| is_shared);
        if found.is_none() && self.maps.0.is_empty() {
            return;
        }
        let (process, memory) = (self.process(asked.pid), memory(address, event.length));
        self.maps.clear(process, &memory);
        if let Some((open, file)) = found {
            self.maps.0.push(Mapping {
                process,
                memory,
                open,
                file,
                offset: event.offset.unwrap_or(0),
            });
        }
    }

    pub(super) fn unmaps(&mut self, asked: &Request<'_>, event: &Event) {
        if let (Some(address), false) = (asked.number(Argument::Address), self.maps.0.is_empty()) {
            let process = self.process(asked.pid);
            self.maps.clear(process, &memory(address, event.length));
        }
    }

    /// mremap(2) gave `address`; how large the range is now does not matter to who begins in it.
    pub(super) fn remaps(&mut self, asked: &Request<'_>, address: i64) {
        if let (Some(from), false) = (asked.number(Argument::Address), self.maps.0.is_empty()) {
            let process = self.process(asked.pid);
            if let Some(moved) = self.maps.at(process, from) {
                let length = moved.memory.end - moved.memory.start;
                moved.memory = address..address.saturating_add(length);
            }
        }
    }

    /// Of sync calls: where in the file; of msync(2) which file, too.
    pub(super) fn syncs(&mut self, asked: &Request<'_>, event: &mut Event) {
        event.offset = asked.number(Argument::Offset);
        let Some(address) = asked.number(Argument::Address) else {
            return;
        };
        let process = self.process(asked.pid);
        if let Some(found) = self.maps.at(process, address).cloned() {
            event.file = Some(found.file);
            event.open = Some(found.open).filter(|&open| self.opens.get(open).is_some());
            event.offset = Some(found.offset + (address - found.memory.start));
        }
    }
}

fn memory(address: i64, length: Option<u64>) -> Range<i64> {
    let length = i64::try_from(length.unwrap_or(0)).unwrap_or(i64::MAX);
    address..address.saturating_add(length)
}
