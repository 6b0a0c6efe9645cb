//! Implied events: those that follow from a call, but are not recorded as calls.

use crate::event::{Event, FileId, OpenId, Outcome, ThreadId};
use crate::kernel::Kernel;
use crate::syscalls;

/// The events that follow from an event, in their order: requests that it submitted, and open files
/// that it closed.
pub(crate) fn implied_events(kernel: &mut Kernel, cause: &Event) -> Vec<Event> {
    // In most cases there is none, and this is called for every call.
    if !kernel.has_more() {
        return Vec::new();
    }
    let blocks = kernel.take_blocks();
    blocks.into_iter().chain(released(kernel, cause)).collect()
}

/// The events of open files that the last event has closed without a close.
fn released(kernel: &mut Kernel, cause: &Event) -> impl Iterator<Item = Event> + use<> {
    let (thread, end_ns) = (cause.thread, cause.end_ns());
    let released = kernel.take_released().into_iter();
    released.filter_map(move |(open, file)| release_event(thread, end_ns, open, file))
}

fn release_event(thread: ThreadId, at_ns: i64, open: OpenId, file: FileId) -> Option<Event> {
    let call = syscalls::find(syscalls::RELEASED)?;
    Some(Event {
        open: Some(open),
        file: Some(file),
        ..Event::new(thread, call, at_ns, Outcome::Returned(0))
    })
}

/// The event of the end of a thread.
pub(crate) fn exited(thread: ThreadId, at_ns: i64, status: Outcome) -> Option<Event> {
    Some(Event::new(
        thread,
        syscalls::find(syscalls::EXITED)?,
        at_ns,
        status,
    ))
}
