//! Reads any bytes as a trace file.

use plimsoll_trace::event::{Event, ThreadId};
use plimsoll_trace::file::{BLOCK, FileError, Reader};
use plimsoll_trace::header::FORMAT;
use plimsoll_trace::names::Names;

const HEADER: &[u8] =
    br#"{"format":"plimsoll.trace/1","recorder":"strace","resolution_ns":1000,"has_durations":true}"#;
/// Kinds of frames: names, events, footer, and an unknown one.
pub const KINDS: [u8; 4] = *b"NEFx";

/// Reads the bytes unchanged, and as the contents of frames with valid checksums, which random
/// bytes would never have.
pub fn run(data: &[u8]) {
    let _ = read(data);
    let _ = read(&framed(data));
}

/// Reads a file up to its end or the first error. Asserts that all ids are in the tables.
pub fn read(file: &[u8]) -> Result<(), FileError> {
    let mut reader = Reader::new(file)?;
    while let Some(events) = reader.next()? {
        assert!(events.len() <= BLOCK);
        let events = events.to_vec();
        check_ids(&events, reader.names());
    }
    check_ids(&[], reader.names());
    Ok(())
}

fn check_ids(events: &[Event], names: &Names) {
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
    assert!(names.threads().iter().all(|entry| thread(entry.parent)));
}

/// A valid header, then frames. Each frame of the input has one byte for its index in [`KINDS`],
/// two bytes for its length, and its contents.
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
