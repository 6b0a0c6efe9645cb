//! Any bytes as a trace file.

use plimsoll_trace::event::{Event, ThreadId};
use plimsoll_trace::file::{BLOCK, FileError, Reader};
use plimsoll_trace::header::FORMAT;
use plimsoll_trace::names::Names;

const HEADER: &[u8] =
    br#"{"format":"plimsoll.trace/1","recorder":"strace","resolution_ns":1000,"has_durations":true}"#;
/// Kinds of frames: names, events, the footer, one of the future.
pub const KINDS: [u8; 4] = *b"NEFx";

/// As they are, and as what stands in frames whose checksums hold, which chance would never make.
pub fn run(data: &[u8]) {
    let _ = read(data);
    let _ = read(&framed(data));
}

/// Reads as far as it goes. Every id that is given is in the tables. Returns why it went no
/// further.
pub fn read(file: &[u8]) -> Result<(), FileError> {
    let mut reader = Reader::new(file)?;
    while let Some(events) = reader.next()? {
        assert!(events.len() <= BLOCK);
        let events = events.to_vec();
        ids_are_there(&events, reader.names());
    }
    ids_are_there(&[], reader.names());
    Ok(())
}

fn ids_are_there(events: &[Event], names: &Names) {
    let thread = |id: Option<ThreadId>| id.is_none_or(|id| id.index() < names.threads().len());
    for event in events {
        assert!(thread(Some(event.thread)) && thread(event.other));
        for path in [event.path, event.path2].into_iter().flatten() {
            assert!(path.index() < names.paths().len());
        }
        for file in [event.file, event.file2].into_iter().flatten() {
            assert!(file.index() < names.files().len());
        }
    }
    let mut files = names.files().iter();
    assert!(files.all(|file| file.path.index() < names.paths().len()));
    assert!(names.threads().iter().all(|it| thread(it.parent)));
}

/// A whole header, then frames: each a byte for its place in [`KINDS`], two for its length, and
/// what is in it.
pub fn framed(mut data: &[u8]) -> Vec<u8> {
    let mut file = format!("{FORMAT}\n").into_bytes();
    push(&mut file, b'H', 0, HEADER);
    let mut number = 1;
    while let [kind, low, high, rest @ ..] = data {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (body, next) = rest.split_at(length);
        push(&mut file, KINDS[usize::from(*kind) % KINDS.len()], number, body);
        number += 1;
        data = next;
    }
    file
}

fn push(file: &mut Vec<u8>, kind: u8, number: u32, body: &[u8]) {
    let mut head = vec![kind];
    head.extend(number.to_le_bytes());
    head.extend((body.len() as u32).to_le_bytes());
    head.extend(crc32fast::hash(body).to_le_bytes());
    head.extend(crc32fast::hash(&head).to_le_bytes());
    file.extend(head);
    file.extend(body);
}
