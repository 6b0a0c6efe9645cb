//! What an event is to the files that it is about.

use super::chosen::Subject;
use super::counts::count_of;
use super::file::{File, Request};
use super::json::Elsewhere;
use super::open::{Open, Opens};
use super::{EventContribution, Profiler};
use crate::constants::{O_DIRECT, PROT_EXEC, SEEK_END};
use crate::event::{Event, OpenId, Outcome};
use crate::header::Recorder;
use crate::syscalls::Effect;

/// From where data go, or where to.
#[derive(Debug, Clone, Copy)]
struct Side {
    subject: Subject,
    open: Option<OpenId>,
    offset: Option<i64>,
    is_write: bool,
    /// A call between two files took its time, and failed, once.
    has_call: bool,
}

impl Profiler {
    /// What the event is to the files that it is about: its own, and the one that data go to.
    pub(super) fn add_to_files(
        &mut self,
        event: &Event,
        [subject, target]: [Subject; 2],
        taken: &mut EventContribution,
    ) {
        let side = |is_write| Side {
            subject,
            open: event.open,
            offset: event.offset,
            is_write,
            has_call: true,
        };
        match event.call.effect {
            Effect::Read | Effect::Receive => self.data(event, side(false), taken),
            Effect::Write | Effect::Send => self.data(event, side(true), taken),
            Effect::Transfer => {
                self.data(event, side(false), taken);
                // At the end of the source nothing was written.
                if given(event) == Some(0) {
                    return;
                }
                let to = Side {
                    subject: target,
                    open: event.open2,
                    offset: event.offset2,
                    is_write: true,
                    has_call: !matches!(subject, Subject::File(_)),
                };
                self.data(event, to, taken);
            }
            Effect::Submit => {
                let told = event.length.unwrap_or(0);
                self.submissions += given(event).unwrap_or(0).saturating_sub(told);
            }
            _ => {
                self.rings += u64::from(self.is_ring(event));
                self.no_data(event, subject, taken);
            }
        }
    }

    /// Whether a ring of `io_uring` was made. The preload recorder writes another call down where
    /// liburing has made one.
    fn is_ring(&self, event: &Event) -> bool {
        let is_made = match event.call.name {
            "io_uring_setup" => true,
            "io_uring_register" => self.header.recorder == Recorder::Preload,
            _ => false,
        };
        is_made && event.outcome.value().is_some()
    }

    /// Data go from or to a side.
    fn data(&mut self, event: &Event, side: Side, taken: &mut EventContribution) {
        let done = given(event);
        let Subject::File(id) = side.subject else {
            if let (Some(done), Subject::Elsewhere) = (done, side.subject) {
                self.elsewhere.add(side.is_write, done);
            }
            return;
        };
        let file = at(&mut self.files, id.index());
        file.used(event.thread, event.start_ns, event.end_ns());
        if let Some(spent) = taken.spent.filter(|_| side.has_call) {
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
            // A transfer has an offset of its own or goes on at the open file's: if that stands
            // there, it went on there.
            let is_positioned = match event.call.effect {
                Effect::Transfer => open.offset != offset,
                _ => self.calls.named(taken.kind).is_positioned,
            };
            if !is_positioned {
                open.has_seek = false;
                open.offset = offset.map(|offset| offset.saturating_add(done.unwrap_or(0)));
            }
        }
        if let Some(done) = done {
            let is_write = side.is_write;
            file.request(
                open,
                &Request {
                    is_write,
                    offset,
                    asked: event.length,
                    done,
                    spent: taken.spent,
                },
            );
            *(if is_write {
                &mut taken.written
            } else {
                &mut taken.read
            }) = Some(done);
        } else if let (Outcome::Failed(errno), true) = (event.outcome, side.has_call) {
            count_of(&mut file.counts.failed, (taken.kind, errno), 1);
        }
        let bytes = done.unwrap_or(0);
        let bin = self.axis.place(event.start_ns);
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

    /// Anything but data.
    fn no_data(&mut self, event: &Event, subject: Subject, taken: &EventContribution) {
        let file = match subject {
            Subject::File(id) => at(&mut self.files, id.index()),
            Subject::Name(id) => at(&mut self.nameless, id.index()),
            Subject::Elsewhere | Subject::None | Subject::LeftOut => return,
        };
        if is_last_close(event)
            && let Some(open) = event.open.and_then(|open| self.opens.closed(open))
        {
            file.counts.useless_seeks += u64::from(open.has_seek);
            file.closed(event.end_ns());
        }
        let call = self.calls.named(taken.kind);
        if !call.is_call {
            return;
        }
        file.used(event.thread, event.start_ns, event.end_ns());
        if event.call.effect != Effect::Seek {
            count_of(&mut file.counts.metadata, taken.kind, 1);
        }
        if let Outcome::Failed(errno) = event.outcome {
            count_of(&mut file.counts.failed, (taken.kind, errno), 1);
        }
        if let Some(spent) = &taken.spent {
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
            if let Some(size) = event.length.filter(|_| call.tells_size) {
                file.reaches(size);
            }
            succeeded(&mut self.opens, file, event, value);
        }
        let bin = self.axis.place(event.start_ns);
        file.line.add(&self.axis, bin, [1, 0, 0]);
    }
}

impl Elsewhere {
    fn add(&mut self, is_write: bool, done: u64) {
        let (count, bytes) = if is_write {
            (&mut self.writes, &mut self.write_bytes)
        } else {
            (&mut self.reads, &mut self.read_bytes)
        };
        *count += 1;
        *bytes = bytes.saturating_add(done);
    }
}

/// What a call returned, where that is a number of something.
pub(super) fn given(event: &Event) -> Option<u64> {
    event.outcome.value().and_then(|value| u64::try_from(value).ok())
}

/// A call that moves no data has succeeded.
fn succeeded(opens: &mut Opens, file: &mut File, event: &Event, value: i64) {
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
            file.opened(event.end_ns());
            let has_flags = event.call.effect == Effect::Open;
            let is_direct = has_flags && event.flags.is_some_and(|flags| flags & O_DIRECT != 0);
            opens.opened(id, Open::new(is_direct));
        }
        Effect::Close => {}
        effect => {
            let open = use_open(opens, file, id, event.start_ns);
            match (effect, u64::try_from(value)) {
                (Effect::Seek, Ok(to)) => {
                    file.seek(open, to);
                    if event.flags == Some(SEEK_END) && event.offset == Some(0) {
                        file.reaches(to);
                    }
                }
                // Where a directory goes on is known to nobody but the file system.
                (Effect::List, _) => (open.has_seek, open.offset) = (false, None),
                _ => {}
            }
        }
    }
}

fn map(file: &mut File, event: &Event) {
    let offset = event.offset.and_then(|offset| u64::try_from(offset).ok());
    let to_execute = event.mode.is_some_and(|mode| mode & PROT_EXEC != 0);
    file.mapped(offset.unwrap_or(0), event.length.unwrap_or(0), to_execute);
}

/// The open file is gone. A close tells how many descriptors it still has, where that is known.
fn is_last_close(event: &Event) -> bool {
    match event.call.effect {
        Effect::Released => true,
        Effect::Close => event.length.is_none_or(|left| left == 0),
        _ => false,
    }
}

/// The open file, which is in use from now on at the latest.
fn use_open<'a>(opens: &'a mut Opens, file: &mut File, id: OpenId, at_ns: i64) -> &'a mut Open {
    let (open, is_new) = opens.used(id);
    if is_new {
        file.opened(at_ns);
    }
    open
}

fn at(files: &mut Vec<Option<Box<File>>>, place: usize) -> &mut File {
    if place >= files.len() {
        files.resize_with(place + 1, || None);
    }
    files[place].get_or_insert_default()
}
