//! Any bytes as a trace file: as they are, and as what stands in frames whose checksums hold, which chance would never make.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_trace::file::Reader;

const HEADER: &[u8] = br#"{"format":"plimsoll.trace/1","recorder":"strace","resolution_ns":1000,"has_durations":true}"#;

fuzz_target!(|data: &[u8]| {
    read(data);
    read(&framed(data));
});

fn read(file: &[u8]) {
    let Ok(mut reader) = Reader::new(file) else { return };
    while let Ok(Some(events)) = reader.next() {
        let last = events.last().copied();
        let names = reader.names();
        if let Some(event) = last {
            assert!(event.thread.index() < names.threads().len());
            assert!(event.file.is_none_or(|file| file.index() < names.files().len()));
            assert!(event.path.is_none_or(|path| path.index() < names.paths().len()));
        }
    }
}

/// A whole header, then frames: each a byte for its kind, two for its length, and what is in it.
fn framed(mut data: &[u8]) -> Vec<u8> {
    let mut file = b"plimsoll.trace/1\n".to_vec();
    push(&mut file, b'H', 0, HEADER);
    let mut number = 1;
    while let [kind, low, high, rest @ ..] = data {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (body, next) = rest.split_at(length);
        push(&mut file, [b'N', b'E', b'F', b'x'][usize::from(kind % 4)], number, body);
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
