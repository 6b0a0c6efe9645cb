//! Rules about single files.

use super::words::{bytes, grouped, percent, times_over};
use super::{WeightedFinding, ratio};
use crate::profile::json::{FileProfile, Profile};
use crate::syscalls::{self, Effect};

/// All rules about files.
pub(super) const RULES: [fn(&FileProfile, &Profile) -> Option<WeightedFinding>; 12] = [
    useless_seeks,
    read_again,
    written_again,
    opened_often,
    opened_for_little,
    looked_at_often,
    descending,
    random_whole,
    part_read,
    modified,
    unaligned_direct,
    mapped,
];

/// Smaller counts are negligible: at 10 us each they take 1 ms.
const MIN_COUNT: u64 = 100;
/// Fewer bytes are negligible: reading 1 MiB from a cache takes less than 1 ms.
const MIN_BYTES: u64 = 1 << 20;

/// Half of the seeks. A program that seeks before every request, the simplest kind, has no useless
/// seeks.
const MIN_USELESS_SHARE: f64 = 0.5;

fn useless_seeks(file: &FileProfile, _: &Profile) -> Option<WeightedFinding> {
    let io = &file.io;
    let share = ratio(io.useless_seeks, io.seeks);
    if io.seeks < MIN_COUNT || share < MIN_USELESS_SHARE {
        return None;
    }
    let text = format!(
        "{} of {} seeks in {} are useless",
        percent(share),
        grouped(io.seeks),
        file.path
    );
    let numbers = [
        ("share", share),
        ("seeks", io.seeks as f64),
        ("still", io.still_seeks as f64),
    ];
    Some(WeightedFinding::about(
        file,
        "useless-seeks",
        io.useless_seeks as f64,
        &numbers,
        text,
    ))
}

/// The mean number of reads of each byte. A value below 2 may be a second read of a part; from 2
/// on, the file does not stay where it is needed.
const MIN_REPEATS: f64 = 2.0;

fn read_again(file: &FileProfile, _: &Profile) -> Option<WeightedFinding> {
    let io = &file.io;
    let all = io.unique_read_bytes.saturating_add(io.reread_bytes);
    let times = ratio(all, io.unique_read_bytes);
    if all < MIN_BYTES || times < MIN_REPEATS {
        return None;
    }
    let text = format!(
        "{} was read {}{}: {} read, {} distinct",
        file.path,
        up_to(io.approximate),
        times_over(times),
        bytes(all),
        bytes(io.unique_read_bytes)
    );
    let numbers = [
        ("times", times),
        ("read_bytes", all as f64),
        ("unique_bytes", io.unique_read_bytes as f64),
    ];
    Some(WeightedFinding::about(
        file,
        "read-again",
        io.reread_bytes as f64,
        &numbers,
        text,
    ))
}

fn written_again(file: &FileProfile, _: &Profile) -> Option<WeightedFinding> {
    let io = &file.io;
    let all = io.unique_write_bytes.saturating_add(io.overwritten_bytes);
    let times = ratio(all, io.unique_write_bytes);
    if all < MIN_BYTES || times < MIN_REPEATS {
        return None;
    }
    let text = format!(
        "{} was written {}{}: {} written, {} distinct",
        file.path,
        up_to(io.approximate),
        times_over(times),
        bytes(all),
        bytes(io.unique_write_bytes)
    );
    let numbers = [
        ("times", times),
        ("write_bytes", all as f64),
        ("unique_bytes", io.unique_write_bytes as f64),
    ];
    Some(WeightedFinding::about(
        file,
        "written-again",
        io.overwritten_bytes as f64,
        &numbers,
        text,
    ))
}

/// If gaps were closed, there may be more distinct bytes than counted, so the multiple is an upper
/// bound.
fn up_to(approximate: bool) -> &'static str {
    if approximate { "up to " } else { "" }
}

/// A lower rate, per second, is that of a timer or a user, not of a loop.
const MIN_RATE_PER_S: f64 = 10.0;
/// A rate over a shorter time, s, is not meaningful.
const MIN_RATE_TIME_S: f64 = 1.0;

fn opened_often(file: &FileProfile, _: &Profile) -> Option<WeightedFinding> {
    let opens = file.io.opens;
    let lasted_s = file.last_s - file.first_s;
    let rate = opens as f64 / lasted_s.max(MIN_RATE_TIME_S);
    if opens < MIN_COUNT.min(50) || rate < MIN_RATE_PER_S {
        return None;
    }
    let text = if lasted_s >= MIN_RATE_TIME_S {
        format!(
            "{} was opened {} times per second, {} times in total",
            file.path,
            grouped(rate.round() as u64),
            grouped(opens)
        )
    } else {
        format!("{} was opened {} times within 1 s", file.path, grouped(opens))
    };
    Some(WeightedFinding::about(
        file,
        "opened-often",
        opens as f64,
        &[("opens", opens as f64), ("per_s", rate)],
        text,
    ))
}

/// Requests per open: a file that is repeatedly opened for one or two requests and closed could be
/// kept open.
const MAX_REQUESTS_PER_OPEN: f64 = 3.0;

fn opened_for_little(file: &FileProfile, _: &Profile) -> Option<WeightedFinding> {
    let io = &file.io;
    let requests = io.reads + io.writes;
    // Each incarnation needs one open.
    let repeated = io.opens.saturating_sub(file.incarnations);
    if repeated < MIN_COUNT / 2 || requests == 0 || requests as f64 > io.opens as f64 * MAX_REQUESTS_PER_OPEN
    {
        return None;
    }
    let text = format!(
        "{} was opened {} times for {} reads and writes",
        file.path,
        grouped(io.opens),
        grouped(requests)
    );
    let numbers = [("opens", io.opens as f64), ("requests", requests as f64)];
    Some(WeightedFinding::about(
        file,
        "opened-for-little",
        repeated as f64,
        &numbers,
        text,
    ))
}

/// Most libraries query a file once before and once after each open.
const LOOKS_PER_OPEN: u64 = 2;

fn looked_at_often(file: &FileProfile, _: &Profile) -> Option<WeightedFinding> {
    let looks =
        file.io.metadata.iter().filter(|(name, _)| {
            syscalls::find(name.as_bytes()).is_some_and(|call| call.effect == Effect::Look)
        });
    let looks: u64 = looks.map(|look| look.1).sum();
    if looks.saturating_sub(LOOKS_PER_OPEN * file.io.opens) < 2 * MIN_COUNT {
        return None;
    }
    let text = format!(
        "{} was queried {} times (stat, access and similar) and opened {} times",
        file.path,
        grouped(looks),
        grouped(file.io.opens)
    );
    let numbers = [("looks", looks as f64), ("opens", file.io.opens as f64)];
    Some(WeightedFinding::about(
        file,
        "looked-at-often",
        looks as f64,
        &numbers,
        text,
    ))
}

/// 80 % of requests against the direction of the file: read-ahead of the kernel or the disk does
/// not help.
const MIN_DESCENDING_SHARE: f64 = 0.8;

fn descending(file: &FileProfile, _: &Profile) -> Option<WeightedFinding> {
    let io = &file.io;
    let (requests, share) = (io.reads + io.writes, io.descending_share?);
    if requests < MIN_COUNT || share < MIN_DESCENDING_SHARE {
        return None;
    }
    let text = format!(
        "{} is accessed from its end to its start: {} of {} requests begin before the previous one",
        file.path,
        percent(share),
        grouped(requests)
    );
    Some(WeightedFinding::about(
        file,
        "descending",
        requests as f64,
        &[("share", share), ("requests", requests as f64)],
        text,
    ))
}

/// Share of requests in order. With less, read-ahead does not detect an order.
const MAX_SEQUENTIAL_SHARE: f64 = 0.2;
/// Share of a file. A program that reads almost all of it, and almost nothing twice, could read it
/// in order.
const MIN_WHOLE_SHARE: f64 = 0.9;

fn random_whole(file: &FileProfile, _: &Profile) -> Option<WeightedFinding> {
    let io = &file.io;
    let (size, sequential) = (file.size.filter(|&size| size >= MIN_BYTES)?, io.sequential_share?);
    let is_whole = ratio(io.unique_read_bytes, size) >= MIN_WHOLE_SHARE
        && ratio(io.reread_bytes, size) <= 1.0 - MIN_WHOLE_SHARE;
    let is_descending = io
        .descending_share
        .is_some_and(|share| share >= MIN_DESCENDING_SHARE);
    if io.reads < MIN_COUNT || !is_whole || sequential > MAX_SEQUENTIAL_SHARE || is_descending {
        return None;
    }
    let text = format!(
        "{} was read completely, but not in order: {} of {} requests begin where the previous one ended",
        file.path,
        percent(sequential),
        grouped(io.reads + io.writes)
    );
    let numbers = [("sequential_share", sequential), ("reads", io.reads as f64)];
    Some(WeightedFinding::about(
        file,
        "random-whole",
        io.read_bytes as f64,
        &numbers,
        text,
    ))
}

/// At most a quarter of a file that existed before and is not mapped: its format allows selective
/// reading, which matters before it is copied elsewhere.
const MAX_PART: f64 = 0.25;

fn part_read(file: &FileProfile, _: &Profile) -> Option<WeightedFinding> {
    let (io, size) = (&file.io, file.size?);
    let share = ratio(io.unique_read_bytes, size);
    let is_complete = !io.approximate && io.unknown_offsets == 0 && io.maps == 0;
    if size < MIN_BYTES || io.reads == 0 || io.writes > 0 || share > MAX_PART || !is_complete {
        return None;
    }
    let times = ratio(io.read_bytes, io.unique_read_bytes);
    let text = format!(
        "{} of {} was read: {} of {}",
        percent(share),
        file.path,
        bytes(io.unique_read_bytes),
        bytes(size)
    );
    let numbers = [
        ("share", share),
        ("unique_bytes", io.unique_read_bytes as f64),
        ("size", size as f64),
        ("times", times),
    ];
    Some(WeightedFinding::about(
        file,
        "part-read",
        size as f64,
        &numbers,
        text,
    ))
}

/// Half of the writes: the file is changed in place, and the device reads before it writes.
const MIN_MODIFIED_SHARE: f64 = 0.5;

fn modified(file: &FileProfile, _: &Profile) -> Option<WeightedFinding> {
    let io = &file.io;
    let share = ratio(io.modify_writes, io.writes);
    if io.modify_writes < MIN_COUNT || share < MIN_MODIFIED_SHARE {
        return None;
    }
    let text = format!(
        "{} of {} writes to {} overwrite bytes that were read just before",
        percent(share),
        grouped(io.writes),
        file.path
    );
    let numbers = [("share", share), ("writes", io.writes as f64)];
    Some(WeightedFinding::about(
        file,
        "read-modify-write",
        io.modify_writes as f64,
        &numbers,
        text,
    ))
}

fn unaligned_direct(file: &FileProfile, _: &Profile) -> Option<WeightedFinding> {
    let io = &file.io;
    if io.unaligned_direct == 0 {
        return None;
    }
    let text = format!(
        "{} of {} O_DIRECT requests to {} are not aligned to 512 B: file systems refuse them or use the page cache",
        grouped(io.unaligned_direct),
        grouped(io.direct),
        file.path
    );
    let numbers = [
        ("unaligned", io.unaligned_direct as f64),
        ("direct", io.direct as f64),
    ];
    Some(WeightedFinding::about(
        file,
        "unaligned-direct",
        io.unaligned_direct as f64,
        &numbers,
        text,
    ))
}

fn mapped(file: &FileProfile, _: &Profile) -> Option<WeightedFinding> {
    let mapped = file.io.mapped_bytes;
    if file.executable || mapped < MIN_BYTES {
        return None;
    }
    Some(WeightedFinding::about(
        file,
        "mapped",
        mapped as f64,
        &[("bytes", mapped as f64)],
        mapped_text(file),
    ))
}

/// The text about a file that was mapped.
pub(in crate::profile) fn mapped_text(file: &FileProfile) -> String {
    format!(
        "{} of {} mapped: accesses to mapped memory are not recorded",
        bytes(file.io.mapped_bytes),
        file.path
    )
}
