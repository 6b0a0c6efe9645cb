//! Changed and malformed bytes.

use std::ops::Range;

use plimsoll_trace::file::FileError;
use plimsoll_trace::header::{FORMAT, Footer};

use super::random::Trace;
use super::read;

/// Kind, number, length, and two checksums.
const HEAD: usize = 17;

/// The ranges of the frames of a complete file, from their lengths.
pub fn frames(file: &[u8]) -> Vec<Range<usize>> {
    let mut frames = Vec::new();
    let mut at = FORMAT.len() + 1;
    while at < file.len() {
        let length = u32::from_le_bytes(file[at + 5..at + 9].try_into().unwrap()) as usize;
        frames.push(at..at + HEAD + length);
        at += HEAD + length;
    }
    frames
}

/// A frame of this kind, before it has a number.
fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![kind, 0, 0, 0, 0];
    frame.extend((body.len() as u32).to_le_bytes());
    frame.extend(crc32fast::hash(body).to_le_bytes());
    frame.extend([0; 4]);
    frame.extend(body);
    frame
}

/// Sets the number of a frame and the checksum of its head.
fn numbered(frame: &[u8], number: usize) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[1..5].copy_from_slice(&(number as u32).to_le_bytes());
    let checksum = crc32fast::hash(&frame[..13]);
    frame[13..HEAD].copy_from_slice(&checksum.to_le_bytes());
    frame
}

fn first_line() -> Vec<u8> {
    format!("{FORMAT}\n").into_bytes()
}

/// A file with these frames, unchanged.
fn of(frames: &[Vec<u8>]) -> Vec<u8> {
    [first_line(), frames.concat()].concat()
}

/// A file with these frames, numbered.
fn made_of(frames: &[Vec<u8>]) -> Vec<u8> {
    let numbered = frames
        .iter()
        .enumerate()
        .map(|(number, frame)| numbered(frame, number));
    of(&numbered.collect::<Vec<_>>())
}

fn split(file: &[u8]) -> Vec<Vec<u8>> {
    frames(file)
        .into_iter()
        .map(|range| file[range].to_vec())
        .collect()
}

/// The offset and the reason of the damage.
fn damage(file: &[u8]) -> (u64, &'static str) {
    match read(file).err() {
        Some(FileError::Damaged { at, why }) => (at, why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_changed_byte_is_detected() {
    let (file, _) = Trace::new(4, 40).written(10, &Footer::default());
    for at in 0..file.len() {
        for bits in [1, 0x80, 0xff] {
            let mut changed = file.clone();
            changed[at] ^= bits;
            assert!(read(&changed).is_err(), "byte {at} by {bits}");
        }
    }
}

#[test]
fn missing_duplicate_and_additional_frames_are_detected() {
    let trace = Trace::new(5, 40);
    let (file, _) = trace.written(10, &Footer::default());
    let frames = split(&file);
    for left_out in 1..frames.len() - 1 {
        let mut others = frames.clone();
        others.remove(left_out);
        damage(&of(&others));
        let mut others = frames.clone();
        others.insert(left_out, frames[left_out].clone());
        damage(&of(&others));
    }
    assert_eq!(
        damage(&made_of(&frames[1..])).1,
        "the first frame is not a header"
    );
    let twice = [&frames[..1], &frames].concat();
    assert_eq!(damage(&made_of(&twice)).1, "there is a second header");
    let longer = [file.clone(), vec![0]].concat();
    assert_eq!(damage(&longer).1, "data follow the footer");
    // The offset of the damage is reported.
    let mut changed = frames.clone();
    *changed[2].last_mut().unwrap() ^= 1;
    let at = [&first_line(), &frames[0], &frames[1]]
        .map(Vec::len)
        .iter()
        .sum::<usize>();
    assert_eq!(
        damage(&of(&changed)),
        (at as u64, "a frame does not match its checksum")
    );
    // Frames of kinds that are added later are skipped.
    let mut more = frames.clone();
    more.insert(2, frame(b'x', b"an index, say"));
    assert_eq!(read(&made_of(&more)).unwrap().events, trace.events);
}

/// Frames that state lengths which they do not have.
#[test]
fn false_lengths_do_not_allocate_memory() {
    let (file, _) = Trace::new(6, 3).written(usize::MAX, &Footer::default());
    let header = split(&file)[0].clone();
    let with = |kind: u8, body: &[u8]| made_of(&[header.clone(), frame(kind, body)]);

    // A frame of 4 GiB in a small file exceeds the maximum; one of 8 MiB is cut.
    let with_length = |length: u32| {
        let mut head = frame(b'E', &[]);
        head[5..9].copy_from_slice(&length.to_le_bytes());
        made_of(&[header.clone(), head])
    };
    assert_eq!(
        damage(&with_length(u32::MAX)).1,
        "a frame exceeds the maximum length of 8 MiB"
    );
    assert_eq!(
        read(&with_length(8 << 20)).unwrap().cut_at,
        Some((first_line().len() + header.len()) as u64)
    );

    // 1 MiB of zeros as names, compressed to a few bytes.
    let nothing = zstd::bulk::compress(&vec![0; 1 << 20], 3).unwrap();
    let body = [&[0x80, 0x80, 0x40], nothing.as_slice()].concat();
    assert_eq!(
        damage(&with(b'N', &body)).1,
        "a frame of names exceeds the maximum compression ratio or length"
    );

    // A block of 2^63 events, and one whose only column states a length of 1 GiB.
    let events = [&[0x80; 8][..], &[0x7f, 1]].concat();
    assert_eq!(
        damage(&with(b'E', &events)).1,
        "a block has more than 16,384 events"
    );
    let events = [1, 1, 0x80, 0x80, 0x80, 0x80, 4, 0];
    assert_eq!(
        damage(&with(b'E', &events)).1,
        "a column is longer than its events need"
    );
}
