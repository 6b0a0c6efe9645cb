use super::*;
use crate::event::Outcome;

/// A head with the calls read, openat, pipe2, newfstatat and an unknown one.
fn head(tid: u32, monotonic_ns: u64, is_image: bool) -> Vec<u8> {
    let mut parts = part(1, b"read\nopenat\npipe2\nnewfstatat\nfuture\n");
    if is_image {
        parts.extend(part(2, b"cat\0a b\0"));
        parts.extend(part(3, b"/home/user"));
        let mut open = Vec::new();
        for number in [7_u32, 2, 1, 0] {
            open.extend(number.to_le_bytes());
        }
        open.extend((-1_i64).to_le_bytes());
        open.extend(b"pipe:[9]");
        parts.extend(part(4, &open));
        parts.extend(part(99, b"what a later one tells"));
    }
    let mut bytes = b"plimcall".to_vec();
    for number in [VERSION, 48 + parts.len() as u32, 10, 9, tid, u32::from(is_image)] {
        bytes.extend(number.to_le_bytes());
    }
    for number in [monotonic_ns, 1_700_000_000_000_000_000] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(parts);
    bytes
}

fn part(kind: u32, bytes: &[u8]) -> Vec<u8> {
    let mut part = kind.to_le_bytes().to_vec();
    part.extend((bytes.len() as u32).to_le_bytes());
    part.extend(padded(bytes));
    part
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(8), 0);
    padded
}

/// A record: call, errno, bits of the arguments, bits of the optional parts, times, value, and the
/// remaining words.
fn record(call: u16, [errno, given, extras]: [u16; 3], times: [u64; 2], value: i64, rest: &[u8]) -> Vec<u8> {
    let words = (4 + rest.len() / 8) as u16;
    let mut bytes = Vec::new();
    for number in [words, call, errno] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend([given as u8, extras as u8]);
    for time in times {
        bytes.extend(time.to_le_bytes());
    }
    bytes.extend(value.to_le_bytes());
    bytes.extend(rest);
    bytes
}

fn words(words: &[i64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn text(bytes: &[u8]) -> Vec<u8> {
    let mut text = words(&[bytes.len() as i64]);
    text.extend(padded(bytes));
    text
}

fn log() -> Vec<u8> {
    let mut bytes = head(11, 1000, true);
    let mut name = words(&[50, -100, 0x80000]);
    name.extend(text(b"/etc/passwd"));
    bytes.extend(record(1, [0, 0b101, 1 | 2], [1100, 10], 3, &name));
    bytes.extend(record(0, [0, 0b101, 0], [1200, 5], 512, &words(&[3, 512])));
    bytes.extend(record(4, [0, 0, 0], [1250, 5], 0, &[]));
    bytes.extend(record(0, [9, 0b101, 128], [1300, 5], -1, &words(&[7, 512])));
    bytes.extend(record(u16::MAX, [0, 0, 0], [1350, 0], 2, &[]));
    let pair = words(&[0x4_0000_0003, 0]);
    bytes.extend(record(
        2,
        [0, 2, 16 | 32],
        [1400, 5],
        0,
        &[words(&[77, 0]), pair[..8].to_vec()].concat(),
    ));
    let mut status = words(&[-100, 0o100_644, 1234]);
    status.extend(text(b"a"));
    bytes.extend(record(3, [0, 1, 8 | 2 | 64], [1500, 0], 0, &status));
    bytes.extend([0; 64]);
    bytes
}

#[test]
fn a_log_contains_its_process_and_its_calls() {
    let bytes = log();
    let log = Log::parse(&bytes).unwrap();
    let head = &log.head;
    assert_eq!(
        (head.pid, head.parent, head.tid, head.monotonic_ns),
        (10, 9, 11, 1000)
    );
    let image = head.image.as_ref().unwrap();
    assert_eq!(
        (image.command.as_slice(), image.directory),
        (&[&b"cat"[..], b"a b"][..], &b"/home/user"[..])
    );
    let open = OpenDescriptor {
        number: 7,
        flags: 2,
        is_marked: true,
        offset: None,
        name: b"pipe:[9]",
    };
    assert_eq!(image.open, [open]);

    let mut records = log.records;
    let all: Vec<Record<'_>> = records.by_ref().collect();
    let names: Vec<&str> = all.iter().map(|record| record.call.name).collect();
    assert_eq!(names, ["openat", "read", "read", "pipe2", "newfstatat"]);
    assert_eq!(
        (records.lost(), records.unknown_calls(), records.cut_bytes()),
        (2, 1, None)
    );
    assert_eq!(
        all[0].arguments,
        [Some(-100), None, Some(0x80000), None, None, None]
    );
    assert_eq!(
        (all[0].texts, all[0].cpu_ns),
        ([Some(&b"/etc/passwd"[..]), None], Some(50))
    );
    assert_eq!(
        (all[1].outcome, all[1].end_ns(), all[1].is_inferred),
        (Outcome::Returned(512), 1205, false)
    );
    assert_eq!((all[2].outcome, all[2].is_inferred), (Outcome::Failed(9), true));
    assert_eq!(
        (all[3].pair, all[3].other_thread, all[3].arguments[1]),
        (Some([3, 4]), Some(77), Some(0))
    );
    assert_eq!((all[4].outcome, all[4].duration_ns), (Outcome::Unknown, None));
    assert_eq!(
        all[4].status,
        Some(Status {
            mode: 0o100_644,
            size: 1234
        })
    );
}

#[test]
fn bytes_that_are_not_a_log_are_refused_with_a_reason() {
    assert_eq!(Log::parse(b"").unwrap_err(), LogError::NoLog);
    assert_eq!(Log::parse(&[0; 4096]).unwrap_err(), LogError::NoLog);
    let mut later = log();
    later[8] = 2;
    assert_eq!(Log::parse(&later).unwrap_err(), LogError::Version(2));
    let mut long = log();
    long[14] = 1;
    assert_eq!(Log::parse(&long).unwrap_err(), LogError::Head);
}

#[test]
fn records_before_the_cut_of_a_log_are_read() {
    let whole = log();
    let start = head(11, 1000, true).len();
    let all = Log::parse(&whole).unwrap().records.count();
    let mut before = 0;
    for end in start..whole.len() - 64 {
        let mut records = Log::parse(&whole[..end]).unwrap().records;
        let count = records.by_ref().count();
        assert!(count >= before && count < all, "{end}: {count}");
        before = count;
    }
    assert_eq!(before, all - 1);
    let mut records = Log::parse(&whole[..start + 20]).unwrap().records;
    assert_eq!((records.next(), records.cut_bytes()), (None, Some(20)));
}

/// The corpus of the fuzz target (tests/fuzz) contains this log.
#[test]
fn the_corpus_of_the_fuzz_target_is_this_log() {
    let corpus = include_bytes!("../../tests/fuzz/corpus/preload_log/one");
    assert!(
        log() == corpus,
        "the log of the test was changed: update the corpus file"
    );
}

/// Found by fuzzing: sums of the counts of damaged logs overflowed.
#[test]
fn counts_of_lost_records_saturate() {
    let lost = record(u16::MAX, [0, 0, 0], [10, 0], i64::MAX, &[]);
    let one = [head(1, 5, false), lost.clone(), lost].concat();
    let logs = [&one, &one].map(|bytes| Log::parse(bytes).unwrap());
    let (_, lost) = follow(logs.into(), 0, &mut |_, _| {});
    assert_eq!((lost.lost, lost.records), (u64::MAX, u64::MAX));
}

#[test]
fn threads_are_merged_by_time_and_ends_come_first() {
    let read = |start, duration| record(0, [0, 1, 0], [start, duration], 0, &words(&[3]));
    let one = [head(1, 5, false), read(10, 20), read(40, 1)].concat();
    // A call of the other thread ends when one of the first thread begins. A call that has not
    // ended contains a call of a child.
    let waiting = record(0, [0, 1, 64], [20, 0], 0, &words(&[4]));
    let two = [head(2, 12, false), waiting, read(21, 19)].concat();
    let logs = vec![Log::parse(&one).unwrap(), Log::parse(&two).unwrap()];
    let seen: Vec<(u64, usize, char)> = Merge::new(logs)
        .map(|moment| {
            let kind = match moment.kind {
                MomentKind::Log => 'L',
                MomentKind::Begin(_) => 'B',
                MomentKind::End(_) => 'E',
            };
            (moment.time_ns, moment.log, kind)
        })
        .collect();
    let expected = [
        (5, 0, 'L'),
        (10, 0, 'B'),
        (12, 1, 'L'),
        (20, 1, 'B'),
        (21, 1, 'B'),
        (30, 0, 'E'),
        (40, 1, 'E'),
        (40, 0, 'B'),
        (41, 0, 'E'),
    ];
    assert_eq!(seen, expected);
}
