use std::collections::BTreeMap;

use plimsoll_trace::event::{OpenId, Outcome, PathId, ThreadId};
use plimsoll_trace::syscalls;

use super::*;
use crate::names::{Copies, Rules};

/// A disk in memory: files and targets of links, by path.
#[derive(Debug, Default)]
struct Memory {
    files: BTreeMap<Vec<u8>, DiskEntry>,
    links: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Memory {
    fn with(mut self, path: &str, kind: Kind, size: u64) -> Self {
        let entry = DiskEntry {
            kind,
            size,
            allowed: 7,
        };
        self.files.insert(path.into(), entry);
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

/// A trace that tests write event by event.
#[derive(Default)]
struct Log {
    names: Names,
    ids: BTreeMap<String, PathId>,
    events: Vec<Event>,
}

const ENOENT: i64 = -2;
const EACCES: i64 = -13;

impl Log {
    /// Adds a call. A negative result is an error of that number.
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

    /// The findings as text, each with the index of its event.
    fn says(&self, disk: &Memory) -> Vec<String> {
        let findings = self.report(disk).findings;
        findings
            .iter()
            .map(|finding| format!("{} {finding}", finding.event))
            .collect()
    }
}

#[test]
fn a_missing_file_is_one_finding_with_all_bytes_that_are_read() {
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
            "0 d/f: the file is missing (it needs 10000 B)"
        ]
    );
    let disk = Memory::default().directory("d").file("d/f", 100);
    assert_eq!(log.says(&disk), ["11 d/f: has 100 B, but needs 10000 B"]);
    let disk = Memory::default().directory("d").file("d/f", 10_000);
    assert!(log.says(&disk).is_empty());
}

#[test]
fn missing_files_belong_to_the_finding_of_their_missing_directory() {
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
fn files_that_the_trace_makes_are_not_missing() {
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
    // The file of the previous replay exists.
    let disk = Memory::default().directory("d");
    assert_eq!(log.says(&disk), ["0 d: must not exist"]);
}

#[test]
fn an_open_file_remains_after_its_name_is_removed() {
    let mut log = Log::default();
    log.open("/f", 2, 0);
    log.call("unlink", "/f", 0);
    log.call("stat", "/f", ENOENT);
    log.read(0, 90, 10);
    assert_eq!(
        log.says(&Memory::default()),
        ["0 f: the file is missing (it needs 100 B)"]
    );
}

#[test]
fn a_file_opened_with_o_creat_existed_if_more_is_read_than_written() {
    let mut log = Log::default();
    log.open("/f", 0o102, 0);
    log.read(0, 0, 0);
    assert!(log.says(&Memory::default()).is_empty());
    log.read(0, 0, 16);
    assert_eq!(
        log.says(&Memory::default()),
        ["2 f: the file is missing (it needs 16 B)"]
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
fn names_of_failed_calls_must_not_exist() {
    let mut log = Log::default();
    log.call("stat", "/a", ENOENT);
    log.call("stat", "/a", ENOENT);
    log.open("/b", 0o301, 0);
    log.call("open", "/c/d", ENOENT).flags = Some(0o101);
    let disk = Memory::default().file("a", 1).file("b", 1).directory("c");
    assert_eq!(
        log.says(&disk),
        [
            "0 a: must not exist",
            "2 b: must not exist",
            "3 c: must not exist"
        ]
    );
    assert!(log.says(&Memory::default()).is_empty());
}

#[test]
fn a_file_made_outside_the_trace_is_required() {
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
fn types_of_files_follow_from_the_calls_on_them() {
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
            "4 e: the file is missing (it needs 0 B)",
            "3 f: the file is missing (it needs 0 B)",
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
            "1 d: is a file, but must be a directory",
            "2 l: is a directory, but must be a symbolic link",
            "3 f: is a directory, but must be a file",
        ]
    );
}

#[test]
fn links_are_followed_only_beneath_the_root() {
    let mut log = Log::default();
    log.open("/l/f", 0, 0);
    log.read(0, 0, 5);
    let disk = Memory::default().link("l", "d").directory("d");
    assert_eq!(log.says(&disk), ["0 d/f: the file is missing (it needs 5 B)"]);
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
fn a_link_of_unknown_target_leads_to_a_new_name() {
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
fn permissions_are_compared_with_the_results_of_calls() {
    let mut log = Log::default();
    log.open("/r", 0, 0);
    log.read(0, 0, 1);
    log.open("/w", 1, 1);
    log.call("open", "/no", EACCES).flags = Some(0);
    let disk = Memory::default().file("r", 1).file("w", 1).file("no", 1);
    assert_eq!(log.says(&disk), ["3 no: must not be accessible, but is"]);
    let disk = disk.refuses("r", 4).refuses("w", 2).refuses("no", 4);
    assert_eq!(log.says(&disk), ["0 r: cannot be read", "2 w: cannot be written"]);
    let report = log.report(&Memory::default());
    let What::Missing(need) = &report.findings[2].what else {
        panic!("{:?}", report.findings);
    };
    assert_eq!(need.mode, Some(0o244));
}

#[test]
fn files_move_with_their_directory() {
    let mut log = Log::default();
    log.two("rename", "/a", "/b", 0);
    log.open("/b/f", 0, 0);
    log.read(0, 0, 9);
    log.call("stat", "/a/f", ENOENT);
    assert_eq!(
        log.says(&Memory::default()),
        [
            "0 a: the file is missing (it needs 0 B)",
            "1 a/f: the file is missing (it needs 9 B)"
        ]
        .map(|text| text.replace(
            "a: the file is missing (it needs 0 B)",
            "a: the directory is missing"
        ))
    );
    let disk = Memory::default().directory("a").file("a/f", 3);
    assert_eq!(log.says(&disk), ["2 a/f: has 3 B, but needs 9 B"]);
}

#[test]
fn a_removed_directory_must_be_empty_and_an_enotempty_one_not() {
    let mut log = Log::default();
    log.call("rmdir", "/a", 0);
    log.call("rmdir", "/b", -39);
    let disk = Memory::default().directory("a").file("a/x", 0).directory("b");
    assert_eq!(
        log.says(&disk),
        [
            "0 a: must be empty, but is not",
            "1 b/.plimsoll-entry: the file is missing (it needs 0 B)"
        ]
    );
}

#[test]
fn jobs_must_not_change_shared_files() {
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
            "s/f: is shared by all jobs, but a call would change it",
            "s/x: is moved or linked between private and shared files of a job",
            "s/x: is shared by all jobs, but a call would change it",
        ]
    );
    let allowed = Options {
        may_write_shared: true,
        ..shared
    };
    assert_eq!(says(allowed).len(), 1);
}

#[test]
fn unexplained_calls_do_not_loop_endlessly() {
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
fn a_read_beyond_the_end_identifies_a_file_and_a_seek_its_size() {
    let mut log = Log::default();
    log.open("/f", 0, 0);
    log.read(0, 172, 0);
    log.events.last_mut().unwrap().length = Some(9);
    let seek = log.call("lseek", "", 133);
    (seek.open, seek.offset, seek.flags) = (OpenId::new(0), Some(0), Some(2));
    assert_eq!(
        log.says(&Memory::default()),
        ["0 f: the file is missing (it needs 133 B)"]
    );
}

#[test]
fn two_names_of_one_initial_file_are_unexplained() {
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

/// Beneath a file, the second call would have failed with ENOTDIR.
#[test]
fn an_existing_name_under_which_a_name_is_missing_is_a_directory() {
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
    // A file with this error must be a file, and its type was reported.
    let mut log = Log::default();
    log.open("/f", 1, 0);
    log.call("stat", "/f/none", ENOENT);
    let report = log.report(&Memory::default());
    assert!(
        matches!(&report.findings[..], [Finding { what: What::Missing(need), .. }] if need.kind == Kind::File)
    );
}

#[test]
fn in_a_path_with_dots_the_directory_before_them_may_be_missing() {
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
    assert_eq!(log.says(&disk), ["1 none: must not exist"]);
}
