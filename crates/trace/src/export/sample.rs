//! A small trace with events of all kinds, for tests.

use crate::event::{Event, FileId, OpenId, Outcome, PathId, ThreadId};
use crate::export::{Export, Tally};
use crate::header::{FORMAT, Header, Recorder};
use crate::names::{FileEntry, Kind, Names, ThreadEntry};
use crate::syscalls;

pub(super) const NAMES: [&[u8]; 5] = [
    b"/data/in.root",
    b"/data/out, \"new\"\n\xff",
    b"/data",
    b"/data/my file",
    b"../rel/log",
];

/// Files 0, 1, 3 and 4 are regular, 2 is a directory; threads 0 and 1 are one process, 2 is
/// another.
pub(super) fn names() -> Names {
    let mut names = Names::default();
    for (index, name) in NAMES.into_iter().enumerate() {
        let path = names.add_path(name).unwrap();
        let kind = if index == 2 { Kind::Directory } else { Kind::File };
        names.add_file(FileEntry { kind, path }).unwrap();
    }
    for (tid, pid, parent) in [
        (70, 70, None),
        (71, 70, ThreadId::new(0)),
        (90, 90, ThreadId::new(0)),
    ] {
        names.add_thread(ThreadEntry { tid, pid, parent }).unwrap();
    }
    names
}

pub(super) fn header() -> Header {
    Header {
        format: FORMAT.into(),
        recorder: Recorder::Strace,
        recorder_version: "strace -- version 6.1".into(),
        options: vec!["-f".into()],
        command: vec!["./job".into(), "in.root".into()],
        attached: false,
        host: vec!["node7".into()],
        zero_unix_ns: Some(1_700_000_000_500_000_000),
        resolution_ns: 1000,
        has_durations: true,
        calibration: None,
    }
}

/// An event of `call` by `thread` at `start_us`, with a duration of 10 us.
pub(super) fn event(thread: usize, call: &str, start_us: i64, outcome: Outcome) -> Event {
    let call = syscalls::find(call.as_bytes()).unwrap();
    let mut event = Event::new(ThreadId::new(thread).unwrap(), call, start_us * 1000, outcome);
    event.duration_ns = Some(10_000);
    event
}

/// The event with an open file.
pub(super) fn of(open: usize, file: usize, event: Event) -> Event {
    Event {
        open: OpenId::new(open),
        file: FileId::new(file),
        ..event
    }
}

/// The event with an offset and a length.
pub(super) fn at(offset: i64, length: u64, event: Event) -> Event {
    Event {
        offset: Some(offset),
        length: Some(length),
        ..event
    }
}

/// A close after which the open file has `left` descriptors.
pub(super) fn close(open: usize, file: usize, start_us: i64, left: u64) -> Event {
    let event = event(0, "close", start_us, Outcome::Returned(0));
    Event {
        length: Some(left),
        ..of(open, file, event)
    }
}

/// Writes events with an export and returns its counts.
pub(super) fn export<'a>(
    events: &[Event],
    out: &'a mut Vec<u8>,
    begin: impl FnOnce(&'a mut Vec<u8>) -> Box<dyn Export + 'a>,
) -> Tally {
    let mut export = begin(out);
    for event in events {
        export.event(event).unwrap();
    }
    export.finish().unwrap()
}

/// Events of all kinds.
pub(super) fn events() -> Vec<Event> {
    let opened = Event {
        path: PathId::new(0),
        flags: Some(0x8_0000),
        mode: Some(0o644),
        ..of(0, 0, event(0, "openat", 5, Outcome::Returned(3)))
    };
    let missing = Event {
        path: PathId::new(1),
        ..event(1, "openat", 20, Outcome::Failed(2))
    };
    let copied = Event {
        open2: OpenId::new(1),
        file2: FileId::new(1),
        offset2: Some(7),
        ..at(
            4096,
            5000,
            of(0, 0, event(2, "sendfile", 60, Outcome::Returned(5000))),
        )
    };
    let linked = Event {
        path: PathId::new(3),
        path2: PathId::new(4),
        ..event(0, "rename", 80, Outcome::Returned(0))
    };
    let forked = Event {
        other: ThreadId::new(2),
        cpu_ns: Some(123),
        ..event(0, "clone3", 90, Outcome::Returned(90))
    };
    vec![
        opened,
        missing,
        at(0, 4096, of(0, 0, event(0, "read", 30, Outcome::Returned(4096)))),
        copied,
        linked,
        forked,
        at(9096, 4096, of(0, 0, event(1, "read", 100, Outcome::Returned(0)))),
        Event {
            duration_ns: None,
            ..event(0, "read", 110, Outcome::Unknown)
        },
        event(0, "futex", 111, Outcome::Restarted),
        close(0, 0, 120, 0),
    ]
}

/// The fields of CSV according to RFC 4180; None for an empty field without quotes.
pub(super) fn fields(text: &str) -> Vec<Vec<Option<String>>> {
    let mut rows = Vec::new();
    let mut row = Vec::new();
    let mut field: Option<String> = None;
    let mut is_quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.get_or_insert_default().push('"');
            }
            '"' => {
                is_quoted = !is_quoted;
                field.get_or_insert_default();
            }
            ',' if !is_quoted => row.push(field.take()),
            '\r' if !is_quoted => {
                assert_eq!(characters.next(), Some('\n'));
                row.push(field.take());
                rows.push(std::mem::take(&mut row));
            }
            other => field.get_or_insert_default().push(other),
        }
    }
    assert!(
        !is_quoted && row.is_empty() && field.is_none(),
        "the last row is cut"
    );
    rows
}
