//! Prepare and clean in a real directory: no file outside is changed, and no file of the user is
//! removed.
#![allow(clippy::unwrap_used)] // a test may panic, also in its helpers

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use common::{Scratch, Snapshot};
use plimsoll_replay::check::{
    Beneath, Fill, Manifest, NAME, Options, PrepareError, PrepareOptions, Report, What, Why, check, clean,
    prepare, reset,
};
use plimsoll_replay::names::{Links, Rules, Table};
use plimsoll_trace::event::{Event, OpenId, Outcome, ThreadId};
use plimsoll_trace::names::Names;
use plimsoll_trace::syscalls;

const SPARSE: PrepareOptions = PrepareOptions {
    fill: Fill::Sparse,
    force: false,
};

/// A root, and next to it a directory whose files must not change.
struct Sandbox {
    _scratch: Scratch,
    root: PathBuf,
    outside: PathBuf,
}

impl Sandbox {
    fn new() -> Self {
        let scratch = Scratch::new();
        let (root, outside) = (scratch.make("root"), scratch.make("outside"));
        fs::write(outside.join("secret"), "of others").unwrap();
        fs::create_dir(outside.join("d")).unwrap();
        Self {
            _scratch: scratch,
            root,
            outside,
        }
    }

    fn beneath(&self) -> Beneath {
        Beneath::open(&self.root).unwrap()
    }
}

/// The report on a trace of files with the number of bytes that are read; 0: the file is made.
fn report(root: &Beneath, files: &[(&str, u64)]) -> Report {
    let mut names = Names::default();
    let mut ids = BTreeMap::new();
    let mut events = Vec::new();
    for (at, (path, bytes)) in files.iter().enumerate() {
        let id = ids
            .entry(*path)
            .or_insert_with(|| names.add_path(path.as_bytes()).unwrap());
        let thread = ThreadId::new(0).unwrap();
        let call = |name: &[u8], value| {
            let mut event = Event::new(thread, syscalls::find(name).unwrap(), 0, Outcome::Returned(value));
            event.open = OpenId::new(at);
            event
        };
        let mut open = call(b"open", 3);
        open.path = Some(*id);
        open.flags = Some(if *bytes == 0 { 0o101 } else { 0 });
        events.push(open);
        let mut read = call(b"pread64", i64::try_from(*bytes).unwrap());
        read.offset = Some(0);
        events.push(read);
    }
    let table = Table::new(&Rules::new(), &names, &Links::new());
    check(&events, &names, &table, &Links::new(), root, Options::default()).unwrap()
}

fn made(path: &Path) -> Manifest {
    serde_json::from_slice(&fs::read(path.join(std::str::from_utf8(NAME).unwrap())).unwrap()).unwrap()
}

#[test]
fn links_out_of_the_root_are_reported_and_not_followed() {
    for target in ["absolute", "../outside"] {
        let sandbox = Sandbox::new();
        let target: PathBuf = if target == "absolute" {
            sandbox.outside.clone()
        } else {
            target.into()
        };
        symlink(&target, sandbox.root.join("a")).unwrap();
        let before = Snapshot::of(&sandbox.outside);
        let root = sandbox.beneath();
        let check_report = report(&root, &[("/a/secret", 100), ("/a/new", 10), ("/a/d/x", 5)]);
        assert_eq!(check_report.causes().len(), 1, "{:?}", check_report.findings);
        assert_eq!(check_report.findings[0].what, What::Leaves);
        let prepared = prepare(&root, &check_report, SPARSE).unwrap();
        assert_eq!(prepared.made, 0);
        assert_eq!(prepared.left.len(), check_report.findings.len());
        clean(&root).unwrap();
        assert_eq!(Snapshot::of(&sandbox.outside), before);
        assert!(sandbox.root.join("a").is_symlink());
    }
}

#[test]
fn a_link_made_between_check_and_prepare_is_not_followed() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.root.join("a")).unwrap();
    let root = sandbox.beneath();
    let check_report = report(&root, &[("/a/new", 10)]);
    let before = Snapshot::of(&sandbox.outside);
    fs::remove_dir(sandbox.root.join("a")).unwrap();
    symlink(&sandbox.outside, sandbox.root.join("a")).unwrap();
    assert!(matches!(
        prepare(&root, &check_report, SPARSE),
        Err(PrepareError::Io { .. })
    ));
    assert_eq!(Snapshot::of(&sandbox.outside), before);
}

#[test]
fn a_link_made_between_prepare_and_clean_is_not_followed() {
    let sandbox = Sandbox::new();
    let root = sandbox.beneath();
    let check_report = report(&root, &[("/a/d/secret", 10), ("/a/secret", 9)]);
    prepare(&root, &check_report, SPARSE).unwrap();
    fs::rename(sandbox.root.join("a"), sandbox.root.join("b")).unwrap();
    symlink(&sandbox.outside, sandbox.root.join("a")).unwrap();
    fs::write(sandbox.outside.join("d/secret"), "of others").unwrap();
    let before = Snapshot::of(&sandbox.outside);
    let cleaned = clean(&root).unwrap();
    assert_eq!(cleaned.left.len(), 1, "{cleaned:?}");
    assert_eq!(cleaned.left[0].why, Why::Changed);
    assert_eq!(Snapshot::of(&sandbox.outside), before);
    assert!(sandbox.root.join("b/d/secret").exists(), "the moved file is kept");
}

#[test]
fn a_manifest_with_paths_outside_removes_nothing_there() {
    let sandbox = Sandbox::new();
    let root = sandbox.beneath();
    prepare(&root, &report(&root, &[("/f", 5)]), SPARSE).unwrap();
    let name = sandbox.root.join(std::str::from_utf8(NAME).unwrap());
    let before = Snapshot::of(&sandbox.outside);
    let text = fs::read_to_string(&name).unwrap();
    for path in ["../outside/secret", "/etc/hosts", "a//b", ""] {
        fs::write(&name, text.replace("\"f\"", &format!("{path:?}"))).unwrap();
        assert!(clean(&root).is_err(), "{path}");
    }
    assert_eq!(Snapshot::of(&sandbox.outside), before);
    fs::write(&name, text.replace("prepared/1", "prepared/9")).unwrap();
    assert!(matches!(clean(&root), Err(PrepareError::Format(_))));
    fs::remove_file(&name).unwrap();
    symlink(sandbox.outside.join("secret"), &name).unwrap();
    assert!(
        clean(&root).is_err(),
        "a link instead of the manifest is not followed"
    );
}

#[test]
fn files_of_the_user_are_kept() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.root.join("data")).unwrap();
    fs::write(sandbox.root.join("data/small"), "12345").unwrap();
    fs::write(sandbox.root.join("data/log"), "old").unwrap();
    let before = Snapshot::of(&sandbox.root);
    let root = sandbox.beneath();
    let trace = [
        ("/data/small", 100),
        ("/data/in/f", 10),
        ("/data/log", 0),
        ("/data/out", 0),
    ];
    let check_report = report(&root, &trace);
    let prepared = prepare(&root, &check_report, SPARSE).unwrap();
    assert_eq!((prepared.made, prepared.grown, prepared.bytes), (2, 1, 105));
    assert_eq!(fs::metadata(sandbox.root.join("data/small")).unwrap().size(), 100);
    // A replay makes the first file, a user the second.
    fs::write(sandbox.root.join("data/out"), "made").unwrap();
    fs::write(sandbox.root.join("data/in/mine"), "of the user").unwrap();
    let cleaned = clean(&root).unwrap();
    let left: Vec<(&[u8], &Why)> = cleaned
        .left
        .iter()
        .map(|left| (&*left.path.0, &left.why))
        .collect();
    assert_eq!(left, [(b"data/in".as_slice(), &Why::NotEmpty)]);
    assert_eq!(
        made(&sandbox.root).made.len(),
        1,
        "the manifest lists the names that were not removed"
    );
    fs::remove_file(sandbox.root.join("data/in/mine")).unwrap();
    assert!(clean(&root).unwrap().left.is_empty());
    assert_eq!(Snapshot::of(&sandbox.root), before);
}

#[test]
fn a_made_file_that_others_changed_is_kept() {
    let sandbox = Sandbox::new();
    let root = sandbox.beneath();
    prepare(&root, &report(&root, &[("/a", 10), ("/b", 10)]), SPARSE).unwrap();
    fs::write(sandbox.root.join("a"), "results!!!").unwrap();
    let cleaned = clean(&root).unwrap();
    assert_eq!((cleaned.removed, cleaned.left.len()), (1, 1));
    assert_eq!(fs::read(sandbox.root.join("a")).unwrap(), b"results!!!");
}

#[test]
fn names_that_must_not_exist_are_removed_only_with_force() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.root.join("f")).unwrap();
    fs::write(sandbox.root.join("f/mine"), "of the user").unwrap();
    symlink(&sandbox.outside, sandbox.root.join("f/link")).unwrap();
    let before = Snapshot::of(&sandbox.outside);
    let root = sandbox.beneath();
    let mut check_report = report(&root, &[("/f", 10)]);
    assert!(
        matches!(check_report.findings[0].what, What::WrongKind { .. }),
        "{:?}",
        check_report.findings
    );
    let prepared = prepare(&root, &check_report, SPARSE).unwrap();
    assert_eq!((prepared.made, prepared.left.len()), (0, 1));
    assert!(sandbox.root.join("f/mine").exists());
    check_report = report(&root, &[("/f", 10)]);
    let force = PrepareOptions {
        force: true,
        ..SPARSE
    };
    assert!(prepare(&root, &check_report, force).unwrap().left.is_empty());
    assert_eq!(fs::metadata(sandbox.root.join("f")).unwrap().size(), 10);
    assert_eq!(Snapshot::of(&sandbox.outside), before);
}

#[test]
fn an_interrupted_preparation_can_be_repeated_or_undone() {
    let sandbox = Sandbox::new();
    let root = sandbox.beneath();
    let trace = [("/a/x", 10), ("/a/y", 10), ("/b", 10)];
    prepare(&root, &report(&root, &trace), SPARSE).unwrap();
    // As if it had been killed while it made the second file.
    let name = sandbox.root.join(std::str::from_utf8(NAME).unwrap());
    let text = fs::read_to_string(&name)
        .unwrap()
        .replace("\"ready\"", "\"making\"");
    fs::write(&name, text).unwrap();
    fs::remove_file(sandbox.root.join("b")).unwrap();
    fs::rename(sandbox.root.join("a/y"), sandbox.root.join(".plimsoll-making")).unwrap();
    assert!(reset(&root).unwrap().left.is_empty());
    let check_report = report(&root, &trace);
    assert_eq!(check_report.findings.len(), 2);
    assert_eq!(prepare(&root, &check_report, SPARSE).unwrap().made, 2);
    assert!(report(&root, &trace).findings.is_empty());
    // The same again; then a user creates a name that is about to be made.
    let text = fs::read_to_string(&name)
        .unwrap()
        .replace("\"ready\"", "\"making\"");
    fs::write(&name, text).unwrap();
    fs::write(sandbox.root.join("b"), "of the user").unwrap();
    let cleaned = clean(&root).unwrap();
    assert_eq!(cleaned.left.len(), 1);
    assert_eq!(fs::read(sandbox.root.join("b")).unwrap(), b"of the user");
    assert!(!sandbox.root.join("a").exists());
}

#[test]
fn files_have_the_requested_compressibility() {
    for (percent, range) in [(0, 95..=101), (50, 45..=55), (90, 8..=13), (100, 0..=2)] {
        let sandbox = Sandbox::new();
        let root = sandbox.beneath();
        let fill = Fill::Data {
            compressibility: percent,
            seed: 7,
        };
        let trace = [("/a", 3_000_001), ("/b", 3_000_001)];
        prepare(
            &root,
            &report(&root, &trace),
            PrepareOptions { fill, force: false },
        )
        .unwrap();
        let read = |name: &str| fs::read(sandbox.root.join(name)).unwrap();
        let (a, b) = (read("a"), read("b"));
        assert_eq!(a.len(), 3_000_001);
        assert!(percent == 100 || a != b, "two files have different data");
        let packed = zstd::bulk::compress(&a, 1).unwrap().len() * 100 / a.len();
        assert!(range.contains(&packed), "{percent} %: {packed} % remain");
        clean(&root).unwrap();
        prepare(
            &root,
            &report(&root, &trace),
            PrepareOptions { fill, force: false },
        )
        .unwrap();
        assert!(read("a") == a, "the same seed, the same data");
    }
}
