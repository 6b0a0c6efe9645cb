//! Shared mappings of files, to which msync(2) refers. Private mappings are never written back.

use std::ops::Range;

use crate::event::{Event, FileId, OpenId};
use crate::kernel::{Kernel, Request};
use crate::syscalls::Argument;

const MAP_SHARED: u64 = 1;

/// A mapping of one process.
#[derive(Debug, Clone)]
struct Mapping {
    process: u32,
    memory: Range<i64>,
    open: OpenId,
    file: FileId,
    /// Offset in the file at which the range begins.
    offset: i64,
}

/// All mappings. There are few, so a list is searched.
#[derive(Debug, Default)]
pub(super) struct Maps(Vec<Mapping>);

impl Maps {
    /// Removes a range of memory from the mappings.
    fn clear(&mut self, process: u32, memory: &Range<i64>) {
        let overlaps = |mapping: &mut Mapping| {
            mapping.process == process
                && mapping.memory.start < memory.end
                && memory.start < mapping.memory.end
        };
        let removed: Vec<Mapping> = self.0.extract_if(.., overlaps).collect();
        for mapping in removed {
            let parts = [mapping.memory.start..memory.start, memory.end..mapping.memory.end];
            let parts = parts.into_iter().filter(|part| !part.is_empty());
            self.0.extend(parts.map(|part| Mapping {
                offset: mapping.offset + (part.start - mapping.memory.start),
                memory: part,
                ..mapping.clone()
            }));
        }
    }

    fn at(&mut self, process: u32, address: i64) -> Option<&mut Mapping> {
        let mut all = self.0.iter_mut();
        all.find(|mapping| mapping.process == process && mapping.memory.contains(&address))
    }

    /// Adds a process with a copy of the mappings of `parent`.
    pub(super) fn copy(&mut self, parent: u32, child: u32) {
        let own = self.0.iter().filter(|mapping| mapping.process == parent);
        let copies: Vec<Mapping> = own
            .map(|mapping| Mapping {
                process: child,
                ..mapping.clone()
            })
            .collect();
        self.0.extend(copies);
    }

    /// Removes the mappings of a process.
    pub(super) fn end(&mut self, process: u32) {
        self.0.retain(|mapping| mapping.process != process);
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

    /// Handles an mmap(2) that returned `address`.
    pub(super) fn map(&mut self, request: &Request<'_>, address: i64, event: &mut Event) {
        event.offset = request.number(Argument::Offset);
        let is_shared = event.flags.is_some_and(|flags| flags & MAP_SHARED != 0);
        let target = event.open.zip(event.file).filter(|_| is_shared);
        if target.is_none() && self.maps.0.is_empty() {
            return;
        }
        let (process, memory) = (self.process(request.pid), memory(address, event.length));
        self.maps.clear(process, &memory);
        if let Some((open, file)) = target {
            self.maps.0.push(Mapping {
                process,
                memory,
                open,
                file,
                offset: event.offset.unwrap_or(0),
            });
        }
    }

    pub(super) fn unmap(&mut self, request: &Request<'_>, event: &Event) {
        if let (Some(address), false) = (request.number(Argument::Address), self.maps.0.is_empty()) {
            let process = self.process(request.pid);
            self.maps.clear(process, &memory(address, event.length));
        }
    }

    /// Handles an mremap(2) that returned `address`. The old length is kept: only the start of a
    /// range matters to later calls.
    pub(super) fn remap(&mut self, request: &Request<'_>, address: i64) {
        if let (Some(from), false) = (request.number(Argument::Address), self.maps.0.is_empty()) {
            let process = self.process(request.pid);
            if let Some(moved) = self.maps.at(process, from) {
                let length = moved.memory.end - moved.memory.start;
                moved.memory = address..address.saturating_add(length);
            }
        }
    }

    /// Sets the offset of a sync call; of msync(2) also the file.
    pub(super) fn sync(&mut self, request: &Request<'_>, event: &mut Event) {
        event.offset = request.number(Argument::Offset);
        let Some(address) = request.number(Argument::Address) else {
            return;
        };
        let process = self.process(request.pid);
        if let Some(mapping) = self.maps.at(process, address).cloned() {
            event.file = Some(mapping.file);
            event.open = Some(mapping.open).filter(|&open| self.opens.get(open).is_some());
            event.offset = Some(mapping.offset + (address - mapping.memory.start));
        }
    }
}

fn memory(address: i64, length: Option<u64>) -> Range<i64> {
    let length = i64::try_from(length.unwrap_or(0)).unwrap_or(i64::MAX);
    address..address.saturating_add(length)
}
