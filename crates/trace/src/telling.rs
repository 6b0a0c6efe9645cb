//! Events that are no calls: what goes with others without a word of its own.

use crate::event::{Event, FileId, OpenId, Outcome, ThreadId};
use crate::kernel::Kernel;
use crate::syscalls;

/// What goes with an event, in its order: blocks that it has handed over, open files that it has
/// closed.
pub(crate) fn behind(kernel: &mut Kernel, cause: &Event) -> Vec<Event> {
    // Nearly always there is nothing, and this is asked of every call.
    if !kernel.has_more() {
        return Vec::new();
    }
    let blocks = kernel.take_blocks();
    blocks.into_iter().chain(released(kernel, cause)).collect()
}

/// Events of open files that the last event has closed without a close.
fn released(kernel: &mut Kernel, cause: &Event) -> impl Iterator<Item = Event> + use<> {
    let (thread, end_ns) = (cause.thread, cause.end_ns());
    let gone = kernel.take_released().into_iter();
    gone.filter_map(move |(open, file)| of_released(thread, end_ns, open, file))
}

fn of_released(thread: ThreadId, at_ns: i64, open: OpenId, file: FileId) -> Option<Event> {
    let known = syscalls::find(syscalls::RELEASED)?;
    Some(Event {
        open: Some(open),
        file: Some(file),
        ..Event::new(thread, known, at_ns, Outcome::Returned(0))
    })
}

/// A thread is gone.
pub(crate) fn exited(thread: ThreadId, at_ns: i64, status: Outcome) -> Option<Event> {
    Some(Event::new(
        thread,
        syscalls::find(syscalls::EXITED)?,
        at_ns,
        status,
    ))
}
