//! Requests of `io_submit(2)`: each block is a read, a write or a sync of its own.
//!
//! The outcome of a block is not in the trace: `io_getevents(2)` identifies blocks by addresses
//! that strace does not write when they are submitted. So a block that the kernel accepted counts
//! as complete, limited by the size of the file if it is known.

use crate::event::{Event, Outcome};
use crate::kernel::request::sum_of_vectors;
use crate::kernel::{Kernel, Part, Request};
use crate::syscalls::{self, Argument, Effect, Syscall};
use crate::text::value::{self, Arguments};

impl Kernel {
    /// Returns the blocks that were submitted since the previous call, in their order. Their times
    /// are those of `io_submit`.
    pub(crate) fn take_blocks(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.blocks)
    }

    /// Handles an `io_submit`. The kernel accepted its first `count` blocks. The length of the
    /// event is the number of events of blocks.
    pub(super) fn submit(&mut self, request: &Request<'_>, count: i64, event: &mut Event) {
        let Some(Part::Written(text)) = request.part(Argument::Blocks) else {
            return;
        };
        let count = usize::try_from(count).unwrap_or(0);
        let list = value::inner(text).unwrap_or_default();
        let blocks = Arguments::of(list)
            .take(count)
            .filter_map(|text| self.block(request.pid, text, event));
        let blocks: Vec<Event> = blocks.collect();
        event.length = Some(blocks.len() as u64);
        self.blocks = blocks;
    }

    /// Parses a block such as `{aio_lio_opcode=IOCB_CMD_PREAD, aio_fildes=3, aio_nbytes=4096,
    /// aio_offset=8192}`. None for an operation that waits or does nothing.
    fn block(&mut self, pid: u32, text: &[u8], submit: &Event) -> Option<Event> {
        let call = block_call(value::field(text, b"aio_lio_opcode")?)?;
        let open = self.open_of(pid, &value::descriptor(value::field(text, b"aio_fildes")?)?)?;
        let open_file = *self.opens.get(open)?;
        let mut event = Event {
            open: Some(open),
            file: Some(open_file.file),
            ..Event::new(submit.thread, call, submit.end_ns(), Outcome::Returned(0))
        };
        if call.effect == Effect::Sync {
            return Some(event);
        }
        let length = value::field(text, b"aio_nbytes").and_then(value::number);
        let length = length.and_then(|length| u64::try_from(length).ok());
        event.length = length.or_else(|| sum_of_vectors(value::field(text, b"aio_buf")?));
        let requested = event.length.and_then(|length| i64::try_from(length).ok())?;
        if !self.has_offset(open_file.file) {
            event.outcome = Outcome::Returned(requested);
            return Some(event);
        }
        let given = value::field(text, b"aio_offset").and_then(value::number);
        let size = self.paths.size(open_file.file);
        let is_write = call.effect == Effect::Write;
        event.offset = if is_write && open_file.appends {
            size
        } else {
            given
        };
        let readable = event.offset.zip(size).filter(|_| !is_write);
        let moved = readable.map_or(requested, |(from, size)| {
            requested.min(size.saturating_sub(from)).max(0)
        });
        event.outcome = Outcome::Returned(moved);
        if let Some(from) = event.offset.filter(|_| is_write) {
            self.paths.grow_to(open_file.file, from.saturating_add(moved));
        }
        Some(event)
    }
}

/// The call of the event of a block.
fn block_call(opcode: &[u8]) -> Option<&'static Syscall> {
    let name: &[u8] = match opcode {
        b"IOCB_CMD_PREAD" | b"IOCB_CMD_PREADV" => b"+read",
        b"IOCB_CMD_PWRITE" | b"IOCB_CMD_PWRITEV" => b"+write",
        b"IOCB_CMD_FSYNC" => b"+fsync",
        b"IOCB_CMD_FDSYNC" => b"+fdatasync",
        _ => return None,
    };
    syscalls::find(name)
}
