//! Prepare and clean on a real directory: nothing outside is touched, and nothing of the user's is
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

/// A directory with a root in it, and beside it what nobody may touch.
struct House {
    _scratch: Scratch,
    root: PathBuf,
    outside: PathBuf,
}

impl House {
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

/// A trace: names with how many bytes are read of them; 0: the name is made.
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
        let house = House::new();
        let target: PathBuf = if target == "absolute" {
            house.outside.clone()
        } else {
            target.into()
        };
        symlink(&target, house.root.join("a")).unwrap();
        let before = Snapshot::of(&house.outside);
        let root = house.beneath();
        let found = report(&root, &[("/a/secret", 100), ("/a/new", 10), ("/a/d/x", 5)]);
        assert_eq!(found.causes().len(), 1, "{:?}", found.findings);
        assert_eq!(found.findings[0].what, What::Leaves);
        let prepared = prepare(&root, &found, SPARSE).unwrap();
        assert_eq!(prepared.made, 0);
        assert_eq!(prepared.left.len(), found.findings.len());
        clean(&root).unwrap();
        assert_eq!(Snapshot::of(&house.outside), before);
        assert!(house.root.join("a").is_symlink());
    }
}

#[test]
fn a_link_that_comes_between_check_and_prepare_leads_nowhere() {
    let house = House::new();
    fs::create_dir(house.root.join("a")).unwrap();
    let root = house.beneath();
    let found = report(&root, &[("/a/new", 10)]);
    let before = Snapshot::of(&house.outside);
    fs::remove_dir(house.root.join("a")).unwrap();
    symlink(&house.outside, house.root.join("a")).unwrap();
    assert!(matches!(
        prepare(&root, &found, SPARSE),
        Err(PrepareError::Io { .. })
    ));
    assert_eq!(Snapshot::of(&house.outside), before);
}

#[test]
fn a_link_that_comes_between_prepare_and_clean_leads_nowhere() {
    let house = House::new();
    let root = house.beneath();
    let found = report(&root, &[("/a/d/secret", 10), ("/a/secret", 9)]);
    prepare(&root, &found, SPARSE).unwrap();
    fs::rename(house.root.join("a"), house.root.join("b")).unwrap();
    symlink(&house.outside, house.root.join("a")).unwrap();
    fs::write(house.outside.join("d/secret"), "of others").unwrap();
    let before = Snapshot::of(&house.outside);
    let cleaned = clean(&root).unwrap();
    assert_eq!(cleaned.left.len(), 1, "{cleaned:?}");
    assert_eq!(cleaned.left[0].why, Why::Changed);
    assert_eq!(Snapshot::of(&house.outside), before);
    assert!(
        house.root.join("b/d/secret").exists(),
        "it is not where it was made"
    );
}

#[test]
fn a_manifest_that_names_what_is_outside_removes_nothing_there() {
    let house = House::new();
    let root = house.beneath();
    prepare(&root, &report(&root, &[("/f", 5)]), SPARSE).unwrap();
    let name = house.root.join(std::str::from_utf8(NAME).unwrap());
    let before = Snapshot::of(&house.outside);
    let text = fs::read_to_string(&name).unwrap();
    for path in ["../outside/secret", "/etc/hosts", "a//b", ""] {
        fs::write(&name, text.replace("\"f\"", &format!("{path:?}"))).unwrap();
        assert!(clean(&root).is_err(), "{path}");
    }
    assert_eq!(Snapshot::of(&house.outside), before);
    fs::write(&name, text.replace("prepared/1", "prepared/9")).unwrap();
    assert!(matches!(clean(&root), Err(PrepareError::Format(_))));
    fs::remove_file(&name).unwrap();
    symlink(house.outside.join("secret"), &name).unwrap();
    assert!(clean(&root).is_err(), "the manifest itself is not followed");
}

#[test]
fn what_is_of_the_user_stays() {
    let house = House::new();
    fs::create_dir(house.root.join("data")).unwrap();
    fs::write(house.root.join("data/small"), "12345").unwrap();
    fs::write(house.root.join("data/log"), "old").unwrap();
    let before = Snapshot::of(&house.root);
    let root = house.beneath();
    let trace = [
        ("/data/small", 100),
        ("/data/in/f", 10),
        ("/data/log", 0),
        ("/data/out", 0),
    ];
    let found = report(&root, &trace);
    let prepared = prepare(&root, &found, SPARSE).unwrap();
    assert_eq!((prepared.made, prepared.grown, prepared.bytes), (2, 1, 105));
    assert_eq!(fs::metadata(house.root.join("data/small")).unwrap().size(), 100);
    // A replay makes this, and a user that.
    fs::write(house.root.join("data/out"), "made").unwrap();
    fs::write(house.root.join("data/in/mine"), "of the user").unwrap();
    let cleaned = clean(&root).unwrap();
    let left: Vec<(&[u8], &Why)> = cleaned
        .left
        .iter()
        .map(|left| (&*left.path.0, &left.why))
        .collect();
    assert_eq!(left, [(b"data/in".as_slice(), &Why::NotEmpty)]);
    assert_eq!(made(&house.root).made.len(), 1, "what was left is still known");
    fs::remove_file(house.root.join("data/in/mine")).unwrap();
    assert!(clean(&root).unwrap().left.is_empty());
    assert_eq!(Snapshot::of(&house.root), before);
}

#[test]
fn what_was_made_and_changed_by_others_stays() {
    let house = House::new();
    let root = house.beneath();
    prepare(&root, &report(&root, &[("/a", 10), ("/b", 10)]), SPARSE).unwrap();
    fs::write(house.root.join("a"), "results!!!").unwrap();
    let cleaned = clean(&root).unwrap();
    assert_eq!((cleaned.removed, cleaned.left.len()), (1, 1));
    assert_eq!(fs::read(house.root.join("a")).unwrap(), b"results!!!");
}

#[test]
fn what_must_not_be_there_is_removed_only_if_asked_for() {
    let house = House::new();
    fs::create_dir(house.root.join("f")).unwrap();
    fs::write(house.root.join("f/mine"), "of the user").unwrap();
    symlink(&house.outside, house.root.join("f/link")).unwrap();
    let before = Snapshot::of(&house.outside);
    let root = house.beneath();
    let mut found = report(&root, &[("/f", 10)]);
    assert!(
        matches!(found.findings[0].what, What::WrongKind { .. }),
        "{:?}",
        found.findings
    );
    let prepared = prepare(&root, &found, SPARSE).unwrap();
    assert_eq!((prepared.made, prepared.left.len()), (0, 1));
    assert!(house.root.join("f/mine").exists());
    found = report(&root, &[("/f", 10)]);
    let force = PrepareOptions {
        force: true,
        ..SPARSE
    };
    assert!(prepare(&root, &found, force).unwrap().left.is_empty());
    assert_eq!(fs::metadata(house.root.join("f")).unwrap().size(), 10);
    assert_eq!(Snapshot::of(&house.outside), before);
}

#[test]
fn an_interrupted_preparation_is_repeated_or_undone() {
    let house = House::new();
    let root = house.beneath();
    let trace = [("/a/x", 10), ("/a/y", 10), ("/b", 10)];
    prepare(&root, &report(&root, &trace), SPARSE).unwrap();
    // As if it had been killed while it made the second file.
    let name = house.root.join(std::str::from_utf8(NAME).unwrap());
    let text = fs::read_to_string(&name)
        .unwrap()
        .replace("\"ready\"", "\"making\"");
    fs::write(&name, text).unwrap();
    fs::remove_file(house.root.join("b")).unwrap();
    fs::rename(house.root.join("a/y"), house.root.join(".plimsoll-making")).unwrap();
    assert!(reset(&root).unwrap().left.is_empty());
    let found = report(&root, &trace);
    assert_eq!(found.findings.len(), 2);
    assert_eq!(prepare(&root, &found, SPARSE).unwrap().made, 2);
    assert!(report(&root, &trace).findings.is_empty());
    // Once more, and a user takes a name that was still to be made.
    let text = fs::read_to_string(&name)
        .unwrap()
        .replace("\"ready\"", "\"making\"");
    fs::write(&name, text).unwrap();
    fs::write(house.root.join("b"), "of the user").unwrap();
    let cleaned = clean(&root).unwrap();
    assert_eq!(cleaned.left.len(), 1);
    assert_eq!(fs::read(house.root.join("b")).unwrap(), b"of the user");
    assert!(!house.root.join("a").exists());
}

#[test]
fn files_are_filled_with_what_compresses_as_asked() {
    for (percent, range) in [(0, 95..=101), (50, 45..=55), (90, 8..=13), (100, 0..=2)] {
        let house = House::new();
        let root = house.beneath();
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
        let read = |name: &str| fs::read(house.root.join(name)).unwrap();
        let (a, b) = (read("a"), read("b"));
        assert_eq!(a.len(), 3_000_001);
        assert!(percent == 100 || a != b, "two files are not one");
        let packed = zstd::bulk::compress(&a, 1).unwrap().len() * 100 / a.len();
        assert!(range.contains(&packed), "{percent} %: {packed} % are left");
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
