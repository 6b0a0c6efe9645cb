//! Rules about single files.

use super::words::{bytes, grouped, percent, times_over};
use super::{Weighed, ratio};
use crate::profile::json::{FileProfile, Profile};
use crate::syscalls::{self, Effect};

/// All rules about files.
pub(super) const RULES: [fn(&FileProfile, &Profile) -> Option<Weighed>; 12] = [
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

/// Fewer of anything are no matter: at 10 us each they take a millisecond.
const MANY: u64 = 100;
/// Fewer bytes are no matter: a megabyte is read from a cache in less than a millisecond.
const MUCH: u64 = 1 << 20;

/// Half of the seeks: a program that seeks before every request, as the simplest one does, has
/// none.
const USELESS: f64 = 0.5;

fn useless_seeks(file: &FileProfile, _: &Profile) -> Option<Weighed> {
    let io = &file.io;
    let share = ratio(io.useless_seeks, io.seeks);
    if io.seeks < MANY || share < USELESS {
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
    Some(Weighed::about(
        file,
        "useless-seeks",
        io.useless_seeks as f64,
        &numbers,
        text,
    ))
}

/// Once over may be a second look at a part; twice over, on the average, is a file that does not
/// stay where it is needed.
const AGAIN: f64 = 2.0;

fn read_again(file: &FileProfile, _: &Profile) -> Option<Weighed> {
    let io = &file.io;
    let all = io.unique_read_bytes.saturating_add(io.reread_bytes);
    let times = ratio(all, io.unique_read_bytes);
    if all < MUCH || times < AGAIN {
        return None;
    }
    let text = format!(
        "{} was read {}{} over: {} for {}",
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
    Some(Weighed::about(
        file,
        "read-again",
        io.reread_bytes as f64,
        &numbers,
        text,
    ))
}

fn written_again(file: &FileProfile, _: &Profile) -> Option<Weighed> {
    let io = &file.io;
    let all = io.unique_write_bytes.saturating_add(io.overwritten_bytes);
    let times = ratio(all, io.unique_write_bytes);
    if all < MUCH || times < AGAIN {
        return None;
    }
    let text = format!(
        "{} was written {}{} over: {} for {}",
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
    Some(Weighed::about(
        file,
        "written-again",
        io.overwritten_bytes as f64,
        &numbers,
        text,
    ))
}

/// Where pieces were forgotten, the bytes that are different may be more than were counted.
fn up_to(approximate: bool) -> &'static str {
    if approximate { "up to " } else { "" }
}

/// A rate of less than this is one of a clock or a user, not of a loop.
const OFTEN_PER_S: f64 = 10.0;
/// In a shorter time a rate says nothing about a run.
const LONG_S: f64 = 1.0;

fn opened_often(file: &FileProfile, _: &Profile) -> Option<Weighed> {
    let opens = file.io.opens;
    let lasted_s = file.last_s - file.first_s;
    let rate = opens as f64 / lasted_s.max(LONG_S);
    if opens < MANY.min(50) || rate < OFTEN_PER_S {
        return None;
    }
    let text = if lasted_s >= LONG_S {
        format!(
            "{} was opened {} times a second, {} times in all",
            file.path,
            grouped(rate.round() as u64),
            grouped(opens)
        )
    } else {
        format!(
            "{} was opened {} times within a second",
            file.path,
            grouped(opens)
        )
    };
    Some(Weighed::about(
        file,
        "opened-often",
        opens as f64,
        &[("opens", opens as f64), ("per_s", rate)],
        text,
    ))
}

/// Requests per open: a file that is opened, asked once or twice and closed, again and again, could
/// be kept open.
const FEW_PER_OPEN: f64 = 3.0;

fn opened_for_little(file: &FileProfile, _: &Profile) -> Option<Weighed> {
    let io = &file.io;
    let requests = io.reads + io.writes;
    // What each incarnation needs is one open.
    let again = io.opens.saturating_sub(file.incarnations);
    if again < MANY / 2 || requests == 0 || requests as f64 > io.opens as f64 * FEW_PER_OPEN {
        return None;
    }
    let text = format!(
        "{} was opened {} times for {} reads and writes",
        file.path,
        grouped(io.opens),
        grouped(requests)
    );
    let numbers = [("opens", io.opens as f64), ("requests", requests as f64)];
    Some(Weighed::about(
        file,
        "opened-for-little",
        again as f64,
        &numbers,
        text,
    ))
}

/// One look before and one after each open is what most libraries do.
const LOOKS_PER_OPEN: u64 = 2;

fn looked_at_often(file: &FileProfile, _: &Profile) -> Option<Weighed> {
    let looks =
        file.io.metadata.iter().filter(|(name, _)| {
            syscalls::find(name.as_bytes()).is_some_and(|call| call.effect == Effect::Look)
        });
    let looks: u64 = looks.map(|look| look.1).sum();
    if looks.saturating_sub(LOOKS_PER_OPEN * file.io.opens) < 2 * MANY {
        return None;
    }
    let text = format!(
        "{} was looked at {} times and opened {} times",
        file.path,
        grouped(looks),
        grouped(file.io.opens)
    );
    let numbers = [("looks", looks as f64), ("opens", file.io.opens as f64)];
    Some(Weighed::about(
        file,
        "looked-at-often",
        looks as f64,
        &numbers,
        text,
    ))
}

/// Four of five requests against the direction of the file: no read-ahead of any kernel or disk
/// helps.
const DESCENDING: f64 = 0.8;

fn descending(file: &FileProfile, _: &Profile) -> Option<Weighed> {
    let io = &file.io;
    let (requests, share) = (io.reads + io.writes, io.descending_share?);
    if requests < MANY || share < DESCENDING {
        return None;
    }
    let text = format!(
        "{} is read from its end to its beginning: {} of {} requests are before the previous one",
        file.path,
        percent(share),
        grouped(requests)
    );
    Some(Weighed::about(
        file,
        "descending",
        requests as f64,
        &[("share", share), ("requests", requests as f64)],
        text,
    ))
}

/// Requests that follow one another: less is an order that read-ahead cannot see.
const RANDOM: f64 = 0.2;
/// Who reads nearly all of a file, and nearly nothing twice, could have read it in its order.
const NEARLY_ALL: f64 = 0.9;

fn random_whole(file: &FileProfile, _: &Profile) -> Option<Weighed> {
    let io = &file.io;
    let (size, sequential) = (file.size.filter(|&size| size >= MUCH)?, io.sequential_share?);
    let is_whole =
        ratio(io.unique_read_bytes, size) >= NEARLY_ALL && ratio(io.reread_bytes, size) <= 1.0 - NEARLY_ALL;
    let is_descending = io.descending_share.is_some_and(|share| share >= DESCENDING);
    if io.reads < MANY || !is_whole || sequential > RANDOM || is_descending {
        return None;
    }
    let text = format!(
        "{} was read as a whole, but not in its order: {} of {} requests begin where the last one ended",
        file.path,
        percent(sequential),
        grouped(io.reads + io.writes)
    );
    let numbers = [("sequential_share", sequential), ("reads", io.reads as f64)];
    Some(Weighed::about(
        file,
        "random-whole",
        io.read_bytes as f64,
        &numbers,
        text,
    ))
}

/// A quarter of a file or less, that was there before and is not mapped: its format lets a reader
/// choose, which is worth knowing before it is copied somewhere.
const PART: f64 = 0.25;

fn part_read(file: &FileProfile, _: &Profile) -> Option<Weighed> {
    let (io, size) = (&file.io, file.size?);
    let share = ratio(io.unique_read_bytes, size);
    let is_seen = !io.approximate && io.unknown_offsets == 0 && io.maps == 0;
    if size < MUCH || io.reads == 0 || io.writes > 0 || share > PART || !is_seen {
        return None;
    }
    let over = ratio(io.read_bytes, io.unique_read_bytes);
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
        ("times", over),
    ];
    Some(Weighed::about(file, "part-read", size as f64, &numbers, text))
}

/// Half of the writes: the file is changed in place, and the device reads before it writes.
const MODIFIED: f64 = 0.5;

fn modified(file: &FileProfile, _: &Profile) -> Option<Weighed> {
    let io = &file.io;
    let share = ratio(io.modify_writes, io.writes);
    if io.modify_writes < MANY || share < MODIFIED {
        return None;
    }
    let text = format!(
        "{} of {} writes to {} go over what was read just before",
        percent(share),
        grouped(io.writes),
        file.path
    );
    let numbers = [("share", share), ("writes", io.writes as f64)];
    Some(Weighed::about(
        file,
        "read-modify-write",
        io.modify_writes as f64,
        &numbers,
        text,
    ))
}

fn unaligned_direct(file: &FileProfile, _: &Profile) -> Option<Weighed> {
    let io = &file.io;
    if io.unaligned_direct == 0 {
        return None;
    }
    let text = format!(
        "{} of {} requests to {} go past the cache and are not aligned to 512 B: file systems refuse them or fall back to the cache",
        grouped(io.unaligned_direct),
        grouped(io.direct),
        file.path
    );
    let numbers = [
        ("unaligned", io.unaligned_direct as f64),
        ("direct", io.direct as f64),
    ];
    Some(Weighed::about(
        file,
        "unaligned-direct",
        io.unaligned_direct as f64,
        &numbers,
        text,
    ))
}

fn mapped(file: &FileProfile, _: &Profile) -> Option<Weighed> {
    let mapped = file.io.mapped_bytes;
    if file.executable || mapped < MUCH {
        return None;
    }
    Some(Weighed::about(
        file,
        "mapped",
        mapped as f64,
        &[("bytes", mapped as f64)],
        mapped_text(file),
    ))
}

/// What cannot be said of a file that was mapped.
pub(in crate::profile) fn mapped_text(file: &FileProfile) -> String {
    format!(
        "{} of {} mapped: accesses are not visible",
        bytes(file.io.mapped_bytes),
        file.path
    )
}
