//! The texts of findings.

use plimsoll_trace::event::Outcome;
use plimsoll_trace::names::Kind;
use plimsoll_trace::profile::Profile;

use crate::scene::{MS, Scene, assert_close};

fn texts<'a>(profile: &'a Profile, kind: &str) -> Vec<&'a str> {
    profile
        .findings
        .iter()
        .filter(|finding| finding.kind == kind)
        .map(|finding| finding.text.as_str())
        .collect()
}

#[test]
fn an_ordinary_reader_has_no_findings() {
    let mut scene = Scene::new();
    let one = scene.file("/data", Kind::File);
    let mut handle = scene.open(one);
    for _ in 0..2000 {
        scene.data(&mut handle, "read", 65_536, 65_536);
    }
    scene.data(&mut handle, "read", 65_536, 0);
    scene.close(&handle);
    assert_eq!(scene.profile().findings, []);
}

#[test]
fn useless_seeks_are_reported_for_the_run_and_the_file() {
    let mut scene = Scene::new();
    let one = scene.file("/ev.root", Kind::File);
    let mut handle = scene.open(one);
    for step in 0..112_000u64 {
        scene.seek(&mut handle, (step + 1) * 10);
        if step % 25 >= 22 {
            scene.data(&mut handle, "read", 5, 5);
        }
    }
    scene.close(&handle);
    let profile = scene.profile();
    assert_eq!(
        texts(&profile, "useless-seeks"),
        [
            "88 % of 112,000 seeks are useless",
            "88 % of 112,000 seeks in /ev.root are useless"
        ]
    );
    assert_close(
        profile
            .findings
            .iter()
            .find(|finding| finding.kind == "useless-seeks")
            .unwrap()
            .numbers["share"],
        0.88,
    );
}

#[test]
fn repeated_reads_and_writes_are_reported() {
    let mut scene = Scene::new();
    let (one, two) = (
        scene.file("config.tar", Kind::File),
        scene.file("/db", Kind::File),
    );
    let other = scene.open(two);
    for _ in 0..5 {
        let mut handle = scene.open(one);
        for _ in 0..10 {
            scene.data(&mut handle, "read", 1 << 20, 1 << 20);
        }
        scene.close(&handle);
        scene.data_at(&other, "pwrite64", 0, 1 << 20, 1 << 20);
    }
    let profile = scene.profile();
    assert_eq!(
        texts(&profile, "read-again"),
        ["config.tar was read five times: 50 MiB read, 10 MiB distinct"]
    );
    assert_eq!(
        texts(&profile, "written-again"),
        ["/db was written five times: 5.0 MiB written, 1.0 MiB distinct"]
    );
}

#[test]
fn frequent_opens_for_few_requests_are_reported() {
    let mut scene = Scene::new();
    let stat = scene.file("/proc/self/stat", Kind::File);
    for _ in 0..820 {
        let began = scene.now;
        let mut handle = scene.open(stat);
        scene.data(&mut handle, "read", 1024, 300);
        scene.close(&handle);
        scene.now = began + 1_000_000_000 / 82;
    }
    let profile = scene.profile();
    assert_eq!(
        texts(&profile, "opened-often"),
        ["/proc/self/stat was opened 82 times per second, 820 times in total"]
    );
    assert_eq!(
        texts(&profile, "opened-for-little"),
        ["/proc/self/stat was opened 820 times for 820 reads and writes"]
    );
}

#[test]
fn small_requests_are_reported_with_their_share_of_time() {
    let mut scene = Scene::new();
    let one = scene.file("/data", Kind::File);
    let mut handle = scene.open(one);
    for step in 0..2000 {
        let requested = if step % 50 < 47 { 100 } else { 65_536 };
        scene.duration = Some(if requested == 100 { 60_000 / 47 } else { 40_000 / 3 });
        scene.data(&mut handle, "read", requested, requested);
    }
    let profile = scene.profile();
    assert_eq!(
        texts(&profile, "small-reads"),
        ["94 % of reads request less than 4.0 KiB and take 60 % of the time in calls on files"]
    );
    // In a run with a small share of calls on files there is no such finding.
    scene.now += 10_000 * MS;
    scene.fail("stat", "/none", 2);
    assert!(texts(&scene.profile(), "small-reads").is_empty());
}

#[test]
fn syncs_queries_and_failed_lookups_are_reported() {
    let mut scene = Scene::new();
    let db = scene.file("/db", Kind::File);
    let mut handle = scene.open(db);
    for _ in 0..300 {
        scene.duration = Some(1_000);
        scene.data(&mut handle, "write", 4096, 4096);
        scene.duration = Some(100_000);
        scene.of(&handle, "fdatasync", Outcome::Returned(0));
        scene.duration = Some(1_000);
        let event = scene.call(0, "stat", Outcome::Returned(0));
        event.file = Some(db);
        scene.fail("openat", "/usr/lib/libfoo.so", 2);
        scene.fail("openat", "/lib/libfoo.so", 2);
    }
    let profile = scene.profile();
    assert_eq!(
        texts(&profile, "syncs"),
        [
            "300 calls that wait for the disk (fsync and similar) take 96 % of the time in calls on files: 30.0 ms"
        ]
    );
    assert_eq!(
        texts(&profile, "looked-at-often"),
        ["/db was queried 300 times (stat, access and similar) and opened 1 times"]
    );
    assert_eq!(
        texts(&profile, "failed-lookups"),
        [
            "600 lookups found no file: 50 % of the calls without data. Most frequent: libfoo.so, 600 times in 2 directories"
        ]
    );
}

#[test]
fn descending_and_random_reads_are_reported() {
    const BLOCK: u64 = 65_536;
    let mut scene = Scene::new();
    let (back, mixed) = (scene.file("/back", Kind::File), scene.file("/mixed", Kind::File));
    let (back, mixed) = (scene.open(back), scene.open(mixed));
    for step in 0..128 {
        scene.data_at(&back, "pread64", (127 - step) * BLOCK, BLOCK, BLOCK);
        scene.data_at(&mixed, "pread64", (step * 37 % 128) * BLOCK, BLOCK, BLOCK);
    }
    let profile = scene.profile();
    assert_eq!(
        texts(&profile, "descending"),
        ["/back is accessed from its end to its start: 99 % of 128 requests begin before the previous one"]
    );
    assert_eq!(
        texts(&profile, "random-whole"),
        [
            "/mixed was read completely, but not in order: 0.8 % of 128 requests begin where the previous one ended"
        ]
    );
}

#[test]
fn partial_reads_mappings_and_direct_requests_are_reported() {
    let mut scene = Scene::new();
    let (part, direct) = (scene.file("/ev.root", Kind::File), scene.file("/raw", Kind::File));
    let mut handle = scene.open(part);
    let event = scene.of(&handle, "fstat", Outcome::Returned(0));
    event.length = Some(224_692_674);
    scene.data(&mut handle, "read", 17_500_000, 17_500_000);
    let mut handle = scene.open(direct);
    scene.events.last_mut().unwrap().flags = Some(0x4000);
    scene.data(&mut handle, "read", 4096, 4096);
    scene.data(&mut handle, "read", 100, 100);
    let mapped = scene.file("/mapped", Kind::File);
    let handle = scene.open(mapped);
    let event = scene.of(&handle, "mmap", Outcome::Returned(0x7f00_0000));
    (event.offset, event.length, event.mode) = (Some(0), Some(224_692_674), Some(1));
    let profile = scene.profile();
    assert_eq!(
        texts(&profile, "part-read"),
        ["8 % of /ev.root was read: 17 MiB of 214 MiB"]
    );
    assert_eq!(
        texts(&profile, "mapped"),
        ["214 MiB of /mapped mapped: accesses to mapped memory are not recorded"]
    );
    assert_eq!(
        texts(&profile, "unaligned-direct"),
        [
            "1 of 2 O_DIRECT requests to /raw are not aligned to 512 B: file systems refuse them or use the page cache"
        ]
    );
}

#[test]
fn read_modify_write_and_many_small_files_are_reported() {
    let mut scene = Scene::new();
    let db = scene.file("/db", Kind::File);
    let handle = scene.open(db);
    for page in 0..150 {
        scene.data_at(&handle, "pread64", page * 4096, 4096, 4096);
        scene.data_at(&handle, "pwrite64", page * 4096, 4096, 4096);
    }
    for number in 0..1500 {
        let small = scene.file(&format!("/small/{number}"), Kind::File);
        let mut handle = scene.open(small);
        scene.data(&mut handle, "read", 65_536, 2000);
        scene.close(&handle);
    }
    let profile = scene.profile();
    assert_eq!(
        texts(&profile, "read-modify-write"),
        ["100 % of 150 writes to /db overwrite bytes that were read just before"]
    );
    assert_eq!(
        texts(&profile, "small-files"),
        ["1,500 of 1,501 files that were read are smaller than 64 KiB"]
    );
    assert_eq!(
        texts(&profile, "mostly-metadata"),
        [
            "3,001 calls without data (open, stat, close and similar) take 63 % of the time in calls on files: 30.0 ms"
        ]
    );
}

#[test]
fn mostly_tracing_is_the_first_finding_and_paths_are_escaped() {
    let mut scene = Scene::new().calibrated(30_000.0, 6_000.0);
    let bad = scene.file("/a\n\x1b[31m", Kind::File);
    let mut handle = scene.open(bad);
    for step in 0..200 {
        scene.now += 25_000;
        scene.seek(&mut handle, step * 7 + 1);
    }
    let profile = scene.profile();
    assert_eq!(profile.findings[0].kind, "mostly-tracing");
    assert!(
        profile.findings[0]
            .text
            .ends_with("the run takes between 0.0 s and 2.0 ms"),
        "{}",
        profile.findings[0].text
    );
    assert_eq!(
        texts(&profile, "useless-seeks"),
        [r"100 % of 200 seeks in /a\x0a\x1b[31m are useless"]
    );
}
