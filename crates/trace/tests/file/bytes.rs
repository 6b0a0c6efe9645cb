//! Bytes that are not as they were written.

use std::ops::Range;

use plimsoll_trace::file::FileError;
use plimsoll_trace::header::{FORMAT, Footer};

use super::random::Trace;
use super::read;

/// Kind, number, length, and two checksums.
const HEAD: usize = 17;

/// Where the frames of a whole file are, by their lengths.
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

/// A frame of this kind, as it is before it has a number.
fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![kind, 0, 0, 0, 0];
    frame.extend((body.len() as u32).to_le_bytes());
    frame.extend(crc32fast::hash(body).to_le_bytes());
    frame.extend([0; 4]);
    frame.extend(body);
    frame
}

/// Numbers the frame, and makes the checksum of its head hold.
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

/// The file with other frames, as they are.
fn of(frames: &[Vec<u8>]) -> Vec<u8> {
    [first_line(), frames.concat()].concat()
}

/// The file with other frames, numbered.
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

/// Damage, and where.
fn damage(file: &[u8]) -> (u64, &'static str) {
    match read(file).err() {
        Some(FileError::Damaged { at, why }) => (at, why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_changed_byte_is_noticed() {
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
fn frames_that_are_missing_doubled_or_too_many_are_noticed() {
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
    assert_eq!(damage(&made_of(&frames[1..])).1, "there is no header");
    let twice = [&frames[..1], &frames].concat();
    assert_eq!(damage(&made_of(&twice)).1, "a second header");
    let longer = [file.clone(), vec![0]].concat();
    assert_eq!(damage(&longer).1, "bytes follow the end");
    // What is wrong is told by its place.
    let mut changed = frames.clone();
    *changed[2].last_mut().unwrap() ^= 1;
    let at = [&first_line(), &frames[0], &frames[1]]
        .map(Vec::len)
        .iter()
        .sum::<usize>();
    assert_eq!(damage(&of(&changed)), (at as u64, "a checksum does not hold"));
    // Frames of kinds that are added later are skipped.
    let mut more = frames.clone();
    more.insert(2, frame(b'x', b"an index, say"));
    assert_eq!(read(&made_of(&more)).unwrap().events, trace.events);
}

/// Frames that promise what they do not have.
#[test]
fn promises_take_no_memory() {
    let (file, _) = Trace::new(6, 3).written(usize::MAX, &Footer::default());
    let header = split(&file)[0].clone();
    let with = |kind: u8, body: &[u8]| made_of(&[header.clone(), frame(kind, body)]);

    // 4 GiB of frame in a file of a few bytes: longer than any may be; 8 MiB: cut.
    let promise = |length: u32| {
        let mut head = frame(b'E', &[]);
        head[5..9].copy_from_slice(&length.to_le_bytes());
        made_of(&[header.clone(), head])
    };
    assert_eq!(damage(&promise(u32::MAX)).1, "a frame is longer than any may be");
    assert_eq!(
        read(&promise(8 << 20)).unwrap().cut_at,
        Some((first_line().len() + header.len()) as u64)
    );

    // A megabyte of names that are nothing, in a few bytes.
    let nothing = zstd::bulk::compress(&vec![0; 1 << 20], 3).unwrap();
    let body = [&[0x80, 0x80, 0x40], nothing.as_slice()].concat();
    assert_eq!(
        damage(&with(b'N', &body)).1,
        "names are packed more than they may be"
    );

    // A block of 2^63 events, and one whose only column promises a gigabyte.
    let events = [&[0x80; 8][..], &[0x7f, 1]].concat();
    assert_eq!(
        damage(&with(b'E', &events)).1,
        "a block has more events than any may have"
    );
    let events = [1, 1, 0x80, 0x80, 0x80, 0x80, 4, 0];
    assert_eq!(
        damage(&with(b'E', &events)).1,
        "a column is longer than its events need"
    );
}
