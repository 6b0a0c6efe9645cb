//! Adds events to the counts of their files.

use super::choice::Subject;
use super::counts::count_of;
use super::file::{File, Request};
use super::json::Elsewhere;
use super::open::{OpenFile, Opens};
use super::{EventContribution, Profiler};
use crate::constants::{O_DIRECT, PROT_EXEC, SEEK_END};
use crate::event::{Event, OpenId, Outcome};
use crate::header::Recorder;
use crate::syscalls::Effect;

/// One side of a transfer of data: the source or the target.
#[derive(Debug, Clone, Copy)]
struct Side {
    subject: Subject,
    open: Option<OpenId>,
    offset: Option<i64>,
    is_write: bool,
    /// Whether the time and a failure of the call count on this side. A call between two files
    /// counts once.
    has_call: bool,
}

impl Profiler {
    /// Adds an event to the counts of its file, and of the target of a transfer.
    pub(super) fn add_to_files(
        &mut self,
        event: &Event,
        [subject, target]: [Subject; 2],
        contribution: &mut EventContribution,
    ) {
        let side = |is_write| Side {
            subject,
            open: event.open,
            offset: event.offset,
            is_write,
            has_call: true,
        };
        match event.call.effect {
            Effect::Read | Effect::Receive => self.add_data(event, side(false), contribution),
            Effect::Write | Effect::Send => self.add_data(event, side(true), contribution),
            Effect::Transfer => {
                self.add_data(event, side(false), contribution);
                // At the end of the source nothing is written.
                if returned_count(event) == Some(0) {
                    return;
                }
                let to = Side {
                    subject: target,
                    open: event.open2,
                    offset: event.offset2,
                    is_write: true,
                    has_call: !matches!(subject, Subject::File(_)),
                };
                self.add_data(event, to, contribution);
            }
            Effect::Submit => {
                let with_events = event.length.unwrap_or(0);
                self.submissions += returned_count(event).unwrap_or(0).saturating_sub(with_events);
            }
            _ => {
                self.rings += u64::from(self.is_ring(event));
                self.add_other(event, subject, contribution);
            }
        }
    }

    /// Whether the event created an `io_uring` instance. If liburing created it, the preload
    /// recorder writes another call.
    fn is_ring(&self, event: &Event) -> bool {
        let is_made = match event.call.name {
            "io_uring_setup" => true,
            "io_uring_register" => self.header.recorder == Recorder::Preload,
            _ => false,
        };
        is_made && event.outcome.value().is_some()
    }

    /// Adds a transfer of data on one side.
    fn add_data(&mut self, event: &Event, side: Side, contribution: &mut EventContribution) {
        let returned = returned_count(event);
        let Subject::File(id) = side.subject else {
            if let (Some(returned), Subject::Elsewhere) = (returned, side.subject) {
                self.elsewhere.add(side.is_write, returned);
            }
            return;
        };
        let file = at(&mut self.files, id.index());
        file.add_use(event.thread, event.start_ns, event.end_ns());
        if let Some(spent) = contribution.spent.filter(|_| side.has_call) {
            let time = &mut file.counts.time;
            let time = if side.is_write {
                &mut time.write
            } else {
                &mut time.read
            };
            time.add(&spent);
        }
        let offset = side.offset.and_then(|offset| u64::try_from(offset).ok());
        let mut open = side
            .open
            .map(|open| use_open(&mut self.opens, file, open, event.start_ns));
        if let Some(open) = &mut open {
            // A transfer has an offset of its own or uses that of the open file. If the offset of
            // the open file is the same, it used that.
            let is_positioned = match event.call.effect {
                Effect::Transfer => open.offset != offset,
                _ => self.calls.named(contribution.kind).is_positioned,
            };
            if !is_positioned {
                open.has_seek = false;
                open.offset = offset.map(|offset| offset.saturating_add(returned.unwrap_or(0)));
            }
        }
        if let Some(returned) = returned {
            let is_write = side.is_write;
            file.request(
                open,
                &Request {
                    is_write,
                    offset,
                    requested: event.length,
                    returned,
                    spent: contribution.spent,
                },
            );
            *(if is_write {
                &mut contribution.written
            } else {
                &mut contribution.read
            }) = Some(returned);
        } else if let (Outcome::Failed(errno), true) = (event.outcome, side.has_call) {
            count_of(&mut file.counts.failed, (contribution.kind, errno), 1);
        }
        let bytes = returned.unwrap_or(0);
        let bin = self.axis.bin_index(event.start_ns);
        file.line.add(
            &self.axis,
            bin,
            if side.is_write {
                [1, 0, bytes]
            } else {
                [1, bytes, 0]
            },
        );
    }

    /// Adds a call that transfers no data.
    fn add_other(&mut self, event: &Event, subject: Subject, contribution: &EventContribution) {
        let file = match subject {
            Subject::File(id) => at(&mut self.files, id.index()),
            Subject::Name(id) => at(&mut self.nameless, id.index()),
            Subject::Elsewhere | Subject::None | Subject::LeftOut => return,
        };
        if is_last_close(event)
            && let Some(open) = event.open.and_then(|open| self.opens.remove(open))
        {
            file.counts.useless_seeks += u64::from(open.has_seek);
            file.remove_open(event.end_ns());
        }
        let call = self.calls.named(contribution.kind);
        if !call.is_call {
            return;
        }
        file.add_use(event.thread, event.start_ns, event.end_ns());
        if event.call.effect != Effect::Seek {
            count_of(&mut file.counts.metadata, contribution.kind, 1);
        }
        if let Outcome::Failed(errno) = event.outcome {
            count_of(&mut file.counts.failed, (contribution.kind, errno), 1);
        }
        if let Some(spent) = &contribution.spent {
            let time = &mut file.counts.time;
            let is_sync = event.call.effect == Effect::Sync;
            let time = if is_sync {
                &mut time.sync
            } else {
                &mut time.metadata
            };
            time.add(spent);
        }
        if let Some(value) = event.outcome.value() {
            if let Some(size) = event.length.filter(|_| call.returns_size) {
                file.grow_to(size);
            }
            add_success(&mut self.opens, file, event, value);
        }
        let bin = self.axis.bin_index(event.start_ns);
        file.line.add(&self.axis, bin, [1, 0, 0]);
    }
}

impl Elsewhere {
    fn add(&mut self, is_write: bool, returned: u64) {
        let (count, bytes) = if is_write {
            (&mut self.writes, &mut self.write_bytes)
        } else {
            (&mut self.reads, &mut self.read_bytes)
        };
        *count += 1;
        *bytes = bytes.saturating_add(returned);
    }
}

/// The returned value of a successful call, if it is a count.
pub(super) fn returned_count(event: &Event) -> Option<u64> {
    event.outcome.value().and_then(|value| u64::try_from(value).ok())
}

/// Handles a successful call that transfers no data.
fn add_success(opens: &mut Opens, file: &mut File, event: &Event, value: i64) {
    match event.call.effect {
        Effect::Map => map(file, event),
        Effect::Sync => file.counts.syncs += 1,
        _ => {}
    }
    let Some(id) = event.open else {
        return;
    };
    match event.call.effect {
        Effect::Open | Effect::Memory => {
            file.counts.opens += 1;
            file.add_open(event.end_ns());
            let has_flags = event.call.effect == Effect::Open;
            let is_direct = has_flags && event.flags.is_some_and(|flags| flags & O_DIRECT != 0);
            opens.insert(id, OpenFile::new(is_direct));
        }
        Effect::Close => {}
        effect => {
            let open = use_open(opens, file, id, event.start_ns);
            match (effect, u64::try_from(value)) {
                (Effect::Seek, Ok(to)) => {
                    file.seek(open, to);
                    if event.flags == Some(SEEK_END) && event.offset == Some(0) {
                        file.grow_to(to);
                    }
                }
                // The position in a directory is known only to the file system.
                (Effect::List, _) => (open.has_seek, open.offset) = (false, None),
                _ => {}
            }
        }
    }
}

fn map(file: &mut File, event: &Event) {
    let offset = event.offset.and_then(|offset| u64::try_from(offset).ok());
    let is_executable = event.mode.is_some_and(|mode| mode & PROT_EXEC != 0);
    file.add_mapping(offset.unwrap_or(0), event.length.unwrap_or(0), is_executable);
}

/// Whether the open file is closed by this event. A close has the number of descriptors that the
/// open file still has, if that is known.
fn is_last_close(event: &Event) -> bool {
    match event.call.effect {
        Effect::Released => true,
        Effect::Close => event.length.is_none_or(|left| left == 0),
        _ => false,
    }
}

/// The open file, which exists from now on at the latest.
fn use_open<'a>(opens: &'a mut Opens, file: &mut File, id: OpenId, at_ns: i64) -> &'a mut OpenFile {
    let (open, is_new) = opens.find_or_add(id);
    if is_new {
        file.add_open(at_ns);
    }
    open
}

fn at(files: &mut Vec<Option<Box<File>>>, index: usize) -> &mut File {
    if index >= files.len() {
        files.resize_with(index + 1, || None);
    }
    files[index].get_or_insert_default()
}
