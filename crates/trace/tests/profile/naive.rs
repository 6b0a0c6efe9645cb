//! Compares the profiles of random programs with the definitions, computed from all events for each
//! number.

use plimsoll_trace::event::{Event, FileId};
use plimsoll_trace::names::Kind;
use plimsoll_trace::profile::json::FileProfile;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

use crate::scene::{Handle, Scene, assert_close, file};

const FILES: usize = 3;
/// Size of a file, bytes. It is small, so that ranges meet and a bitmap suffices.
const SIZE: u64 = 300;

/// A program with random calls on a few files.
fn random(random: &mut Pcg64Mcg) -> Scene {
    let mut below = |n: u64| random.next_u64() % n;
    let mut scene = Scene::new();
    scene.thread(101, 100, Some(0));
    let files: Vec<FileId> = (0..FILES)
        .map(|n| scene.file(&format!("/f{n}"), Kind::File))
        .collect();
    let mut open: Vec<Handle> = Vec::new();
    for _ in 0..below(200) {
        scene.duration = Some(below(20_000));
        let which = below(10);
        if open.is_empty() || which == 0 {
            open.push(scene.open(files[below(FILES as u64) as usize]));
            continue;
        }
        let index = below(open.len() as u64) as usize;
        let handle = &mut open[index];
        handle.thread = below(2) as usize;
        let requested = below(30);
        match which {
            1 | 2 => scene.seek(handle, below(4) * 50),
            3 => scene.data_at(
                handle,
                "pread64",
                below(SIZE),
                requested,
                requested.min(below(40)),
            ),
            4 => scene.data_at(handle, "pwrite64", below(SIZE), requested, requested),
            5 | 6 => scene.data(handle, "read", requested, requested.min(below(40))),
            7 => scene.data(handle, "write", requested, requested),
            8 => {
                let to = handle.offset;
                scene.seek(handle, to);
            }
            _ => {
                scene.close(handle);
                open.remove(index);
            }
        }
    }
    scene
}

fn is_data(event: &Event) -> bool {
    ["read", "write", "pread64", "pwrite64"].contains(&event.call.name)
}

fn uses_offset(event: &Event) -> bool {
    ["read", "write"].contains(&event.call.name)
}

fn value(event: &Event) -> u64 {
    event.outcome.value().unwrap() as u64
}

fn end_of(event: &Event) -> u64 {
    event.offset.unwrap() as u64 + value(event)
}

/// Whether the seek at `index` does not move the offset, according to all previous events of its
/// open file.
fn is_still(events: &[Event], index: usize) -> bool {
    let seek = &events[index];
    let mut offset = 0;
    for event in events[..index].iter().filter(|event| event.open == seek.open) {
        if event.call.name == "lseek" {
            offset = value(event);
        } else if uses_offset(event) {
            offset = end_of(event);
        }
    }
    offset == value(seek)
}

/// The definition: no read or write at the offset before the next seek that moves it, or the close.
fn is_useless(events: &[Event], index: usize) -> bool {
    for (later, event) in events.iter().enumerate().skip(index + 1) {
        if event.open != events[index].open {
            continue;
        }
        if uses_offset(event) {
            return false;
        }
        if event.call.name == "close" || event.call.name == "lseek" && !is_still(events, later) {
            return true;
        }
    }
    false
}

fn covered<'a>(events: impl Iterator<Item = &'a Event>) -> u64 {
    let mut bitmap = vec![false; 4000];
    for event in events {
        bitmap[event.offset.unwrap() as usize..end_of(event) as usize].fill(true);
    }
    bitmap.iter().filter(|&&byte| byte).count() as u64
}

fn check(events: &[Event], of: FileId, found: &FileProfile) {
    let own = || events.iter().filter(|event| event.file == Some(of));
    let reads = || own().filter(|event| event.call.name.contains("read"));
    let writes = || own().filter(|event| event.call.name.contains("write"));
    let io = &found.io;
    let bytes = |list: &mut dyn Iterator<Item = &Event>| list.map(value).sum::<u64>();
    assert_eq!(
        io.opens,
        own().filter(|event| event.call.name == "openat").count() as u64
    );
    assert_eq!(
        (io.reads, io.writes),
        (reads().count() as u64, writes().count() as u64)
    );
    assert_eq!(
        (io.read_bytes, io.write_bytes),
        (bytes(&mut reads()), bytes(&mut writes()))
    );
    assert_eq!(
        (io.unique_read_bytes, io.unique_write_bytes),
        (covered(reads()), covered(writes()))
    );
    assert_eq!(io.reread_bytes, io.read_bytes - io.unique_read_bytes);
    assert_eq!(io.overwritten_bytes, io.write_bytes - io.unique_write_bytes);
    let is_short = |event: &&Event| 0 < value(event) && value(event) < event.length.unwrap();
    assert_eq!(io.short_reads, reads().filter(is_short).count() as u64);
    let at_end = |event: &&Event| value(event) == 0 && event.length != Some(0);
    assert_eq!(io.end_reads, reads().filter(at_end).count() as u64);
    check_seeks(events, of, found);
    check_order(events, of, found);
    check_open(events, of, found);

    let time = |list: &mut dyn Iterator<Item = &Event>| {
        list.filter_map(|event| event.duration_ns).sum::<u64>() as f64
    };
    assert_close(io.read_time.unwrap().recorded_s, time(&mut reads()) * 1e-9);
    assert_close(io.write_time.unwrap().recorded_s, time(&mut writes()) * 1e-9);
    let others = &mut own().filter(|event| !is_data(event));
    assert_close(io.metadata_time.unwrap().recorded_s, time(others) * 1e-9);
    let threads: std::collections::BTreeSet<_> = own().map(|event| event.thread).collect();
    assert_eq!(found.threads, threads.len() as u64);
    assert_eq!(
        found.timeline.iter().map(|row| row[1]).sum::<u64>(),
        own().count() as u64
    );
    assert_eq!(
        found.timeline.iter().map(|row| row[2]).sum::<u64>(),
        io.read_bytes
    );
}

fn check_seeks(events: &[Event], of: FileId, found: &FileProfile) {
    let seeks: Vec<usize> = (0..events.len())
        .filter(|&index| events[index].file == Some(of) && events[index].call.name == "lseek")
        .collect();
    let still = seeks.iter().filter(|&&index| is_still(events, index)).count() as u64;
    let moved = seeks.iter().filter(|&&index| !is_still(events, index));
    let useless = moved.filter(|&&index| is_useless(events, index)).count() as u64;
    let io = &found.io;
    assert_eq!(
        (io.seeks, io.still_seeks, io.useless_seeks),
        (seeks.len() as u64, still, still + useless)
    );
}

fn check_order(events: &[Event], of: FileId, found: &FileProfile) {
    let data: Vec<&Event> = events
        .iter()
        .filter(|event| event.file == Some(of) && is_data(event))
        .collect();
    let (mut sequential, mut descending, mut consecutive, mut modified) = (0, 0, 0, 0);
    for (index, event) in data.iter().enumerate() {
        let offset = event.offset.unwrap() as u64;
        let before = data[..index]
            .iter()
            .rev()
            .find(|earlier| earlier.open == event.open);
        sequential += u64::from(before.map_or(0, |before| end_of(before)) == offset);
        descending += u64::from(before.is_some_and(|before| before.offset.unwrap() as u64 > offset));
        consecutive += u64::from(index.checked_sub(1).map_or(0, |last| end_of(data[last])) == offset);
        // The last read after the last write.
        let read = before.filter(|before| before.call.name.contains("read"));
        modified += u64::from(
            event.call.name.contains("write")
                && read.is_some_and(|read| (read.offset.unwrap() as u64..end_of(read)).contains(&offset)),
        );
    }
    let share = |count: u64| (!data.is_empty()).then(|| count as f64 / data.len() as f64);
    let io = &found.io;
    assert_eq!(io.sequential_share, share(sequential));
    assert_eq!(io.descending_share, share(descending));
    assert_eq!(io.consecutive_share, share(consecutive));
    assert_eq!(io.modify_writes, modified);
}

/// The time in which at least one open file exists, from the changes of their number.
fn check_open(events: &[Event], of: FileId, found: &FileProfile) {
    let end = events.iter().map(Event::end_ns).max().unwrap();
    let mut spans = Vec::new();
    for (index, event) in events.iter().enumerate() {
        if event.file == Some(of) && event.call.name == "openat" {
            let close = events[index..]
                .iter()
                .find(|later| later.open == event.open && later.call.name == "close");
            spans.push((event.end_ns(), close.map_or(end, Event::end_ns)));
        }
    }
    let mut edges: Vec<i64> = spans.iter().flat_map(|span| [span.0, span.1]).collect();
    edges.sort_unstable();
    let is_open = |from: i64| spans.iter().any(|span| span.0 <= from && from < span.1);
    let open: i64 = edges
        .windows(2)
        .filter(|pair| is_open(pair[0]))
        .map(|pair| pair[1] - pair[0])
        .sum();
    assert_close(found.open_s, open as f64 * 1e-9);
}

#[test]
fn the_numbers_of_a_profile_follow_their_definitions() {
    let mut source = Pcg64Mcg::seed_from_u64(11);
    let mut seeks = 0;
    for _ in 0..400 {
        let scene = random(&mut source);
        let profile = scene.profile();
        for (index, entry) in scene.names.files().iter().enumerate() {
            let of = FileId::new(index).unwrap();
            if scene.events.iter().any(|event| event.file == Some(of)) {
                let path = String::from_utf8(scene.names.path(entry.path).to_vec()).unwrap();
                check(&scene.events, of, file(&profile, &path));
            }
        }
        let total = &profile.totals;
        assert_eq!(total.calls, scene.events.len() as u64);
        assert_eq!(
            total.io.read_bytes,
            profile.files.iter().map(|file| file.io.read_bytes).sum::<u64>()
        );
        assert_eq!(
            total.io.read_bytes,
            profile.timeline.read_bytes.iter().sum::<u64>()
        );
        assert_eq!(
            total.io.read_bytes,
            profile
                .processes
                .iter()
                .map(|process| process.work.read_bytes)
                .sum::<u64>()
        );
        seeks += total.io.useless_seeks;
    }
    assert!(seeks > 1000, "the programs have too few useless seeks");
}
