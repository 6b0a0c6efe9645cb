//! What `io_submit(2)` hands over: blocks, each of which is a read, a write or a sync of its own.
//!
//! Nobody tells how a block has ended: `io_getevents(2)` names blocks by addresses that strace does
//! not write when they are handed over. So each is taken for done in full, as far as the size of
//! the file is known to allow it, where the kernel took it.

use crate::event::{Event, Outcome};
use crate::kernel::request::sum_of_vectors;
use crate::kernel::{Kernel, Part, Request};
use crate::syscalls::{self, Argument, Effect, Syscall};
use crate::text::value::{self, Arguments};

impl Kernel {
    /// Blocks that were handed over since this was last asked, in their order: times are those of
    /// the call that handed them over.
    pub(crate) fn take_blocks(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.blocks)
    }

    /// The first `count` blocks of the call were taken; its length is how many of them are told.
    pub(super) fn submits(&mut self, asked: &Request<'_>, count: i64, event: &mut Event) {
        let Some(Part::Written(text)) = asked.part(Argument::Blocks) else {
            return;
        };
        let count = usize::try_from(count).unwrap_or(0);
        let list = value::inner(text).unwrap_or_default();
        let blocks = Arguments::of(list)
            .take(count)
            .filter_map(|text| self.block(asked.pid, text, event));
        let blocks: Vec<Event> = blocks.collect();
        event.length = Some(blocks.len() as u64);
        self.blocks = blocks;
    }

    /// `{aio_lio_opcode=IOCB_CMD_PREAD, aio_fildes=3, aio_nbytes=4096, aio_offset=8192}`; none for
    /// one that waits or does nothing.
    fn block(&mut self, pid: u32, text: &[u8], submit: &Event) -> Option<Event> {
        let known = call(value::field(text, b"aio_lio_opcode")?)?;
        let open = self.open_of(pid, &value::descriptor(value::field(text, b"aio_fildes")?)?)?;
        let found = *self.opens.get(open)?;
        let mut event = Event {
            open: Some(open),
            file: Some(found.file),
            ..Event::new(submit.thread, known, submit.end_ns(), Outcome::Returned(0))
        };
        if known.effect == Effect::Sync {
            return Some(event);
        }
        let length = value::field(text, b"aio_nbytes").and_then(value::number);
        let length = length.and_then(|length| u64::try_from(length).ok());
        event.length = length.or_else(|| sum_of_vectors(value::field(text, b"aio_buf")?));
        let asked = event.length.and_then(|length| i64::try_from(length).ok())?;
        if !self.has_offset(found.file) {
            event.outcome = Outcome::Returned(asked);
            return Some(event);
        }
        let given = value::field(text, b"aio_offset").and_then(value::number);
        let size = self.places.size(found.file);
        let writes = known.effect == Effect::Write;
        event.offset = if writes && found.appends { size } else { given };
        let there = event.offset.zip(size).filter(|_| !writes);
        let moved = there.map_or(asked, |(from, size)| asked.min(size.saturating_sub(from)).max(0));
        event.outcome = Outcome::Returned(moved);
        if let Some(from) = event.offset.filter(|_| writes) {
            self.places.reaches(found.file, from.saturating_add(moved));
        }
        Some(event)
    }
}

/// As which event a block is told.
fn call(opcode: &[u8]) -> Option<&'static Syscall> {
    let name: &[u8] = match opcode {
        b"IOCB_CMD_PREAD" | b"IOCB_CMD_PREADV" => b"+read",
        b"IOCB_CMD_PWRITE" | b"IOCB_CMD_PWRITEV" => b"+write",
        b"IOCB_CMD_FSYNC" => b"+fsync",
        b"IOCB_CMD_FDSYNC" => b"+fdatasync",
        _ => return None,
    };
    syscalls::find(name)
}
