use std::collections::BTreeMap;

use plimsoll_trace::event::{OpenId, Outcome, PathId, ThreadId};
use plimsoll_trace::syscalls;

use super::*;
use crate::names::{Copies, Rules};

/// A disk in memory: paths, and what links hold.
#[derive(Debug, Default)]
struct Memory {
    files: BTreeMap<Vec<u8>, DiskEntry>,
    links: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Memory {
    fn with(mut self, path: &str, kind: Kind, size: u64) -> Self {
        let found = DiskEntry {
            kind,
            size,
            allowed: 7,
        };
        self.files.insert(path.into(), found);
        self
    }

    fn directory(self, path: &str) -> Self {
        self.with(path, Kind::Directory, 0)
    }

    fn file(self, path: &str, size: u64) -> Self {
        self.with(path, Kind::File, size)
    }

    fn link(mut self, path: &str, target: &str) -> Self {
        self.links.insert(path.into(), target.into());
        self.with(path, Kind::Link, 0)
    }

    fn refuses(mut self, path: &str, bits: u32) -> Self {
        self.files.get_mut(path.as_bytes()).unwrap().allowed &= !bits;
        self
    }
}

impl Disk for Memory {
    fn lstat(&self, path: &[u8]) -> io::Result<Option<DiskEntry>> {
        Ok(self.files.get(path).copied())
    }

    fn readlink(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        Ok(self.links[path].clone())
    }

    fn list(&self, path: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let inside = self.files.keys().filter_map(|name| {
            let rest = name.strip_prefix(path)?.strip_prefix(b"/")?;
            (!rest.contains(&b'/')).then(|| rest.to_vec())
        });
        Ok(inside.collect())
    }
}

/// Events, written one after the other.
#[derive(Default)]
struct Log {
    names: Names,
    ids: BTreeMap<String, PathId>,
    events: Vec<Event>,
}

const ENOENT: i64 = -2;
const EACCES: i64 = -13;

impl Log {
    /// A negative result is an error of that number.
    fn call(&mut self, name: &str, path: &str, result: i64) -> &mut Event {
        let call = syscalls::find(name.as_bytes()).unwrap();
        let outcome = match u16::try_from(-result) {
            Ok(error) if error > 0 => Outcome::Failed(error),
            _ => Outcome::Returned(result),
        };
        let mut event = Event::new(ThreadId::new(0).unwrap(), call, 0, outcome);
        event.path = (!path.is_empty()).then(|| self.id(path));
        self.events.push(event);
        self.events.last_mut().unwrap()
    }

    fn id(&mut self, path: &str) -> PathId {
        let names = &mut self.names;
        *self
            .ids
            .entry(path.into())
            .or_insert_with(|| names.add_path(path.as_bytes()).unwrap())
    }

    fn open(&mut self, path: &str, flags: u64, id: usize) {
        let event = self.call("open", path, 3);
        event.flags = Some(flags);
        event.open = OpenId::new(id);
    }

    fn read(&mut self, id: usize, offset: i64, bytes: i64) {
        let event = self.call("pread64", "", bytes);
        event.open = OpenId::new(id);
        event.offset = Some(offset);
    }

    fn two(&mut self, name: &str, path: &str, second: &str, result: i64) {
        let second = self.id(second);
        self.call(name, path, result).path2 = Some(second);
    }

    fn stat(&mut self, name: &str, path: &str, mode: u32, size: u64) {
        let event = self.call(name, path, 0);
        event.mode = Some(mode);
        event.length = Some(size);
    }

    fn report(&self, disk: &Memory) -> Report {
        self.report_of(disk, &Rules::new(), Options::default())
    }

    fn report_of(&self, disk: &Memory, rules: &Rules, options: Options) -> Report {
        let links = Links::of(&self.events, &self.names);
        let table = Table::new(rules, &self.names, &links);
        check(&self.events, &self.names, &table, &links, disk, options).unwrap()
    }

    /// Findings as people read them, each with the place of its event.
    fn says(&self, disk: &Memory) -> Vec<String> {
        let findings = self.report(disk).findings;
        findings
            .iter()
            .map(|one| format!("{} {one}", one.event))
            .collect()
    }
}

#[test]
fn a_file_is_one_finding_with_all_that_is_read_of_it() {
    let mut log = Log::default();
    log.open("/d/f", 0, 0);
    for at in 0..1000 {
        log.read(0, at * 10, 10);
    }
    log.read(0, 50_000, 0);
    assert_eq!(
        log.says(&Memory::default()),
        [
            "0 d: the directory is missing",
            "0 d/f: the file is missing (10000 B are needed)"
        ]
    );
    let disk = Memory::default().directory("d").file("d/f", 100);
    assert_eq!(log.says(&disk), ["11 d/f: has 100 B, and 10000 B are needed"]);
    let disk = Memory::default().directory("d").file("d/f", 10_000);
    assert!(log.says(&disk).is_empty());
}

#[test]
fn what_is_in_a_missing_directory_counts_to_it() {
    let mut log = Log::default();
    for file in 0..50 {
        log.stat("stat", &format!("/data/set/{file}"), 0o100_640, 1000);
    }
    let report = log.report(&Memory::default());
    assert_eq!(report.findings.len(), 52);
    let causes = report.causes();
    assert_eq!(causes.len(), 1);
    let (finding, files, bytes) = causes[0];
    assert_eq!((&*finding.path, files, bytes), (b"data".as_slice(), 51, 50_000));
    let What::Missing(need) = &report.findings[51].what else {
        panic!("{:?}", report.findings[51]);
    };
    assert_eq!((need.size, need.mode), (1000, Some(0o640)));
}

#[test]
fn what_the_trace_makes_is_not_missing() {
    let mut log = Log::default();
    log.call("mkdir", "/d", 0);
    log.open("/d/new", 0o101, 0);
    log.call("pwrite64", "", 100).open = OpenId::new(0);
    log.events.last_mut().unwrap().offset = Some(0);
    log.two("rename", "/d/new", "/d/file", 0);
    log.open("/d/file", 0, 1);
    log.read(1, 0, 100);
    log.call("unlink", "/d/file", 0);
    log.call("stat", "/d/file", ENOENT);
    let report = log.report(&Memory::default());
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!(report.unexplained, 0);
    let mut made: Vec<&[u8]> = report.creates.iter().map(|made| &*made.path).collect();
    made.sort_unstable();
    assert_eq!(made, [b"d".as_slice(), b"d/file", b"d/new"]);
    // What it left there the last time is in its way.
    let disk = Memory::default().directory("d");
    assert_eq!(log.says(&disk), ["0 d: must not be there"]);
}

#[test]
fn a_file_that_is_open_stays_when_its_name_goes() {
    let mut log = Log::default();
    log.open("/f", 2, 0);
    log.call("unlink", "/f", 0);
    log.call("stat", "/f", ENOENT);
    log.read(0, 90, 10);
    assert_eq!(
        log.says(&Memory::default()),
        ["0 f: the file is missing (100 B are needed)"]
    );
}

#[test]
fn a_file_opened_to_be_made_was_there_if_it_holds_more_than_was_written() {
    let mut log = Log::default();
    log.open("/f", 0o102, 0);
    log.read(0, 0, 0);
    assert!(log.says(&Memory::default()).is_empty());
    log.read(0, 0, 16);
    assert_eq!(
        log.says(&Memory::default()),
        ["2 f: the file is missing (16 B are needed)"]
    );
    let mut log = Log::default();
    log.open("/f", 0o1102, 0);
    log.read(0, 0, 16);
    let report = log.report(&Memory::default());
    assert!(
        report.findings.is_empty(),
        "it was made empty: {:?}",
        report.findings
    );
    assert_eq!(report.unexplained, 1);
}

#[test]
fn what_failed_must_fail() {
    let mut log = Log::default();
    log.call("stat", "/a", ENOENT);
    log.call("stat", "/a", ENOENT);
    log.open("/b", 0o301, 0);
    log.call("open", "/c/d", ENOENT).flags = Some(0o101);
    let disk = Memory::default().file("a", 1).file("b", 1).directory("c");
    assert_eq!(
        log.says(&disk),
        [
            "0 a: must not be there",
            "2 b: must not be there",
            "3 c: must not be there"
        ]
    );
    assert!(log.says(&Memory::default()).is_empty());
}

#[test]
fn a_file_that_somebody_else_made_meanwhile_is_wanted() {
    let mut log = Log::default();
    log.call("stat", "/a", ENOENT);
    log.open("/a", 0, 0);
    log.read(0, 0, 7);
    let report = log.report(&Memory::default());
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.unexplained, 1);
    let report = log.report(&Memory::default().file("a", 7));
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!(report.unexplained, 1);
}

#[test]
fn kinds_are_told_by_what_is_done() {
    let mut log = Log::default();
    log.call("getdents64", "", 48).open = OpenId::new(0);
    log.events.clear();
    log.open("/d", 0, 0);
    log.call("getdents64", "", 48).open = OpenId::new(0);
    log.stat("lstat", "/l", 0o120_777, 9);
    log.call("stat", "/f/x", -20);
    log.call("mkdir", "/e", -17);
    assert_eq!(
        log.says(&Memory::default()),
        [
            "0 d: the directory is missing",
            "2 l: the symbolic link is missing",
            "4 e: the file is missing (0 B are needed)",
            "3 f: the file is missing (0 B are needed)",
        ]
    );
    let disk = Memory::default()
        .file("d", 1)
        .directory("l")
        .directory("f")
        .directory("e");
    assert_eq!(
        log.says(&disk),
        [
            "1 d: is a file, and must be a directory",
            "2 l: is a directory, and must be a symbolic link",
            "3 f: is a directory, and must be a file",
        ]
    );
}

#[test]
fn links_are_followed_beneath_the_root_only() {
    let mut log = Log::default();
    log.open("/l/f", 0, 0);
    log.read(0, 0, 5);
    let disk = Memory::default().link("l", "d").directory("d");
    assert_eq!(log.says(&disk), ["0 d/f: the file is missing (5 B are needed)"]);
    for target in ["/etc", "../etc", "l"] {
        let disk = Memory::default().link("l", target);
        let report = log.report(&disk);
        let causes = report.causes();
        assert_eq!(causes.len(), 1, "{target}: {:?}", report.findings);
        assert_eq!(causes[0].0.what, What::Leaves, "{target}");
    }
}

#[test]
fn a_link_is_made_with_the_target_that_was_read() {
    let mut log = Log::default();
    log.open("/a/l", 0, 0);
    log.read(0, 0, 5);
    log.two("readlink", "/a/l", "/b/f", 4);
    let report = log.report(&Memory::default());
    let made: Vec<(&[u8], Option<&[u8]>)> = report
        .findings
        .iter()
        .map(|finding| match &finding.what {
            What::Missing(need) => (&*finding.path, need.target.as_deref()),
            what => panic!("{what:?}"),
        })
        .collect();
    let target = Some(b"../b/f".as_slice());
    assert_eq!(
        made,
        [
            (b"a".as_slice(), None),
            (b"a/l", target),
            (b"b", None),
            (b"b/f", None)
        ]
    );
}

#[test]
fn a_link_of_which_nothing_is_told_leads_to_a_stand_in() {
    let mut log = Log::default();
    log.call("readlink", "/a/lib", 20);
    log.open("/a/lib", 0, 0);
    log.read(0, 0, 5);
    let report = log.report(&Memory::default());
    let What::Missing(need) = &report.findings[1].what else {
        panic!("{:?}", report.findings);
    };
    let target = need.target.as_deref().unwrap();
    assert_eq!(target.len(), 20);
    assert!(target.ends_with(b".lib.target"));
    assert_eq!(&*report.findings[2].path, b"a/.lib.target");
}

#[test]
fn rights_are_compared_with_what_was_done() {
    let mut log = Log::default();
    log.open("/r", 0, 0);
    log.read(0, 0, 1);
    log.open("/w", 1, 1);
    log.call("open", "/no", EACCES).flags = Some(0);
    let disk = Memory::default().file("r", 1).file("w", 1).file("no", 1);
    assert_eq!(log.says(&disk), ["3 no: must be refused, and is not"]);
    let disk = disk.refuses("r", 4).refuses("w", 2).refuses("no", 4);
    assert_eq!(log.says(&disk), ["0 r: cannot be read", "2 w: cannot be written"]);
    let report = log.report(&Memory::default());
    let What::Missing(need) = &report.findings[2].what else {
        panic!("{:?}", report.findings);
    };
    assert_eq!(need.mode, Some(0o244));
}

#[test]
fn directories_that_are_moved_take_their_files_with_them() {
    let mut log = Log::default();
    log.two("rename", "/a", "/b", 0);
    log.open("/b/f", 0, 0);
    log.read(0, 0, 9);
    log.call("stat", "/a/f", ENOENT);
    assert_eq!(
        log.says(&Memory::default()),
        [
            "0 a: the file is missing (0 B are needed)",
            "1 a/f: the file is missing (9 B are needed)"
        ]
        .map(|text| text.replace(
            "a: the file is missing (0 B are needed)",
            "a: the directory is missing"
        ))
    );
    let disk = Memory::default().directory("a").file("a/f", 3);
    assert_eq!(log.says(&disk), ["2 a/f: has 3 B, and 9 B are needed"]);
}

#[test]
fn directories_that_were_removed_were_empty_and_others_were_not() {
    let mut log = Log::default();
    log.call("rmdir", "/a", 0);
    log.call("rmdir", "/b", -39);
    let disk = Memory::default().directory("a").file("a/x", 0).directory("b");
    assert_eq!(
        log.says(&disk),
        [
            "0 a: must be empty, and is not",
            "1 b/.plimsoll-entry: the file is missing (0 B are needed)"
        ]
    );
}

#[test]
fn what_jobs_share_they_must_not_write() {
    let mut log = Log::default();
    log.open("/s/f", 1, 0);
    log.call("pwrite64", "", 5).open = OpenId::new(0);
    log.two("rename", "/p/x", "/s/x", 0);
    let mut rules = Rules::new();
    let copies = Copies {
        shared: vec!["/s".into()],
        ..Copies::default()
    };
    rules.set_copies(&copies).unwrap();
    let disk = Memory::default().directory("s").file("s/f", 5);
    let shared = Options {
        copy: Copy::Shared,
        may_write_shared: false,
    };
    let says = |options| -> Vec<String> {
        let report = log.report_of(&disk, &rules, options);
        report.findings.iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        says(shared),
        [
            "s/f: is shared by all jobs, and would be changed",
            "s/x: is moved or linked between a job's own files and shared ones",
            "s/x: is shared by all jobs, and would be changed",
        ]
    );
    let allowed = Options {
        may_write_shared: true,
        ..shared
    };
    assert_eq!(says(allowed).len(), 1);
}

#[test]
fn what_cannot_be_explained_is_no_endless_loop() {
    let mut log = Log::default();
    log.call("mkdir", "/a", 0);
    log.two("rename", "/a", "/a/b", 0);
    log.two("link", "/a", "/a/c", 0);
    log.two("rename", "/", "/x", 0);
    log.call("rmdir", "/", 0);
    log.stat("stat", "/a/b/c", 0o100_644, 5);
    log.two("symlink", "/l", "/l", 0);
    log.stat("stat", "/l", 0o100_644, 5);
    log.call("stat", "/", ENOENT);
    let report = log.report(&Memory::default());
    assert_eq!(report.events, 9);
    assert!(report.unexplained > 0);
}

#[test]
fn a_read_behind_the_end_tells_a_file_whose_size_a_seek_tells() {
    let mut log = Log::default();
    log.open("/f", 0, 0);
    log.read(0, 172, 0);
    log.events.last_mut().unwrap().length = Some(9);
    let seek = log.call("lseek", "", 133);
    (seek.open, seek.offset, seek.flags) = (OpenId::new(0), Some(0), Some(2));
    assert_eq!(
        log.says(&Memory::default()),
        ["0 f: the file is missing (133 B are needed)"]
    );
}

#[test]
fn two_names_that_were_one_file_before_are_not_known_and_that_is_told() {
    let mut log = Log::default();
    log.open("/one", 0o1, 0);
    log.call("ftruncate", "", 0).open = OpenId::new(0);
    log.events.last_mut().unwrap().length = Some(10);
    log.open("/two", 0o2, 1);
    log.call("pwrite64", "", 90).open = OpenId::new(1);
    log.events.last_mut().unwrap().offset = Some(10);
    let disk = Memory::default().file("one", 10).file("two", 10);
    assert_eq!(log.report(&disk).unexplained, 0);
    log.stat("stat", "/one", 0o100_644, 100);
    let report = log.report(&disk);
    assert_eq!((report.unexplained, report.findings.len()), (1, 0));
    assert_eq!(
        (report.examples[0].event, &*report.examples[0].path),
        (4, b"one".as_slice())
    );
}

/// Beneath a file, the second call would have been told that it is no directory.
#[test]
fn what_is_there_and_lacks_a_name_beneath_it_is_a_directory() {
    const EEXIST: i64 = -17;
    for turned in [false, true] {
        let mut log = Log::default();
        log.call("mkdir", "/d", EEXIST);
        log.call("stat", "/d/none", ENOENT);
        if turned {
            log.events.swap(0, 1);
        }
        let report = log.report(&Memory::default());
        let kinds: Vec<Kind> = report
            .findings
            .iter()
            .map(|finding| match &finding.what {
                What::Missing(need) => need.kind,
                what => panic!("{what:?}"),
            })
            .collect();
        assert_eq!(
            (kinds, report.unexplained),
            (vec![Kind::Directory], 0),
            "{turned}"
        );
        assert!(log.says(&Memory::default().directory("d")).is_empty());
    }
    let mut log = Log::default();
    log.call("mkdir", "/d", EEXIST);
    log.call("stat", "/d/none", ENOENT);
    assert_eq!(
        log.report(&Memory::default().file("d", 0)).findings.len(),
        1,
        "a file is there"
    );
    // Of a file, that is another answer, and what it is was told.
    let mut log = Log::default();
    log.open("/f", 1, 0);
    log.call("stat", "/f/none", ENOENT);
    let report = log.report(&Memory::default());
    assert!(
        matches!(&report.findings[..], [Finding { what: What::Missing(need), .. }] if need.kind == Kind::File)
    );
}

#[test]
fn of_a_name_with_dots_it_may_be_what_stands_before_them_that_is_missing() {
    let mut log = Log::default();
    log.stat("stat", "/d", 0o40_755, 0);
    log.call("stat", "/none/../d", ENOENT);
    log.call("open", "/none/../d/new", ENOENT).flags = Some(0o101);
    log.call("stat", "/none/..", ENOENT);
    let disk = Memory::default().directory("d");
    let report = log.report(&disk);
    assert_eq!(
        (report.findings.len(), report.unexplained),
        (0, 0),
        "{:?}",
        report.examples
    );
    let disk = disk.directory("none");
    assert_eq!(log.says(&disk), ["1 none: must not be there"]);
}
