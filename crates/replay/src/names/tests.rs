use plimsoll_trace::event::{Event, Outcome, ThreadId};
use plimsoll_trace::names::FileEntry;
use plimsoll_trace::syscalls;

use super::*;

fn table(rules: &Rules, paths: &[&str]) -> (Table, Vec<PathId>) {
    let mut names = Names::default();
    let ids = paths
        .iter()
        .map(|path| names.add_path(path.as_bytes()).unwrap())
        .collect();
    (Table::new(rules, &names, &Links::new()), ids)
}

fn mapped(rules: &Rules, path: &str) -> Result<String, Reason> {
    let (table, ids) = table(rules, &[path]);
    match table.get(ids[0]) {
        NameMapping::Inside(path, _) => Ok(String::from_utf8(path.to_vec()).unwrap()),
        NameMapping::Ignored(reason) => Err(*reason),
    }
}

#[test]
fn absolute_names_are_unchanged_beneath_the_root() {
    let rules = Rules::new();
    for (path, expected) in [
        ("/a/b", Ok("a/b")),
        ("/", Ok(".")),
        ("//a/./b/", Ok("a/b")),
        ("/a/../b", Ok("b")),
        ("/../../b", Ok("b")),
        ("a/b", Ok("a/b")),
        ("a/../..", Err(Reason::Relative)),
        ("../b", Err(Reason::Relative)),
        ("unknown:12:3", Err(Reason::Nameless)),
        ("/proc/self/stat", Err(Reason::System)),
        ("/a/../proc/stat", Err(Reason::System)),
        ("/dev/null", Err(Reason::System)),
        ("/devices", Ok("devices")),
        ("", Err(Reason::NoName)),
        ("/a\0b", Err(Reason::NoName)),
    ] {
        assert_eq!(mapped(&rules, path), expected.map(String::from), "{path}");
    }
}

#[test]
fn the_first_regex_has_precedence_then_the_longest_prefix() {
    let mut rules = Rules::new();
    rules
        .read_map(
            "# destinations\n\n/data => /scratch/data\n/data/big/ => fast\n\
             regex: ^/home/[^/]+/(.*)$ => home/$1\nunknown:7:3 => data/input\n",
        )
        .unwrap();
    for (path, expected) in [
        ("/data/a", "scratch/data/a"),
        ("/data", "scratch/data"),
        ("/data/big/a", "fast/a"),
        ("/database", "database"),
        ("/home/me/x/y", "home/x/y"),
        ("/home/me", "home/me"),
        ("unknown:7:3", "data/input"),
        ("/other/../data/a", "scratch/data/a"),
    ] {
        assert_eq!(mapped(&rules, path), Ok(expected.into()), "{path}");
    }
    rules.read_map("/ => all").unwrap();
    assert_eq!(mapped(&rules, "/etc/x"), Ok("all/etc/x".into()));
    assert_eq!(mapped(&rules, "/data/a"), Ok("scratch/data/a".into()));
    assert_eq!(mapped(&rules, "unknown:7:4"), Err(Reason::Nameless));
}

#[test]
fn a_rule_cannot_lead_out_of_the_root() {
    let mut rules = Rules::new();
    let error = rules.read_map("/a => b\n/data => ../x").unwrap_err();
    assert_eq!((error.line, error.text.as_str()), (2, "/data => ../x"));
    assert!(rules.read_map("/data -> x").is_err());
    assert!(rules.read_map("data => x").is_err());
    assert!(rules.read_map("regex: ( => x").is_err());
    // The part that a regular expression extracts may contain what a rule may not.
    rules.read_map("regex: ^/x/(.*)$ => $1").unwrap();
    assert_eq!(mapped(&rules, "/x/a"), Ok("a".into()));
}

#[test]
fn the_last_matching_line_decides_whether_a_name_is_ignored() {
    let mut rules = Rules::new();
    rules
        .read_ignore("*.pyc\n/usr/share\n!/usr/share/keep\n!/proc\n# other names\n/proc/self\n")
        .unwrap();
    for (path, expected) in [
        ("/a/b.pyc", Err(Reason::Asked)),
        ("/usr/share/x", Err(Reason::Asked)),
        ("/usr/share/keep/x", Ok("usr/share/keep/x")),
        ("/proc/stat", Ok("proc/stat")),
        ("/proc/self/stat", Err(Reason::Asked)),
        ("/sys/x", Err(Reason::System)),
    ] {
        assert_eq!(mapped(&rules, path), expected.map(String::from), "{path}");
    }
    assert_eq!(rules.read_ignore("\n\nregex: [").unwrap_err().line, 3);
}

#[test]
fn dots_after_a_link_are_not_resolved() {
    let mut names = Names::default();
    let mut add = |path: &str| names.add_path(path.as_bytes()).unwrap();
    let (link, through, beside) = (add("/a/l"), add("/a/l/../x"), add("/a/d/../x"));
    let thread = ThreadId::new(0).unwrap();
    let readlink = syscalls::find(b"readlink").unwrap();
    let mut event = Event::new(thread, readlink, 0, Outcome::Returned(5));
    event.path = Some(link);
    let links = Links::of(&[event], &names);
    let table = Table::new(&Rules::new(), &names, &links);
    assert_eq!(table.path(through, Copy::Private), Some(b"a/l/../x".as_slice()));
    assert_eq!(table.path(beside, Copy::Private), Some(b"a/x".as_slice()));
    let links_at_start: Vec<&Link> = links.at_start().collect();
    assert_eq!(
        (
            links_at_start.len(),
            links_at_start[0].path,
            links_at_start[0].length
        ),
        (1, link, 5)
    );
}

/// The component before `..` may have been missing, or a file.
#[test]
fn dots_in_a_name_of_a_failed_call_are_not_resolved() {
    let mut names = Names::default();
    let mut add = |path: &str| names.add_path(path.as_bytes()).unwrap();
    let paths = [
        "/none/../d",
        "/data/none/../f",
        "/data/../f",
        "/a/../../f",
        "/proc/x/../f",
    ];
    let (failed, fine) = (paths.map(&mut add), add("/there/../d"));
    let stat = syscalls::find(b"stat").unwrap();
    let events = failed.map(|path| {
        let mut event = Event::new(ThreadId::new(0).unwrap(), stat, 0, Outcome::Failed(2));
        event.path = Some(path);
        event
    });
    let links = Links::of(&events, &names);
    let mut rules = Rules::new();
    rules.read_map("/data => scratch/d").unwrap();
    let table = Table::new(&rules, &names, &links);
    let path = |id| {
        table
            .path(id, Copy::Private)
            .map(|path| String::from_utf8(path.to_vec()).unwrap())
    };
    let expected = [
        Some("none/../d"),
        Some("scratch/d/none/../f"),
        // A rule leads to another path, or `..` leads above the root: `..` is resolved as usual.
        Some("f"),
        Some("f"),
        None,
    ];
    assert_eq!(failed.map(path), expected.map(|path| path.map(String::from)));
    assert_eq!(path(fine), Some("d".into()));
}

#[test]
fn a_link_that_the_trace_makes_did_not_exist_at_the_beginning() {
    let mut names = Names::default();
    let path = names.add_path(b"/a/l").unwrap();
    let make = |name: &str| {
        let call = syscalls::find(name.as_bytes()).unwrap();
        let mut event = Event::new(ThreadId::new(0).unwrap(), call, 0, Outcome::Returned(0));
        event.path = Some(path);
        event.mode = Some(0o120_777);
        event
    };
    let links = Links::of(&[make("symlink"), make("lstat")], &names);
    assert_eq!(links.at_start().count(), 0);
    assert!(links.has(b"/a/l"));
}

#[test]
fn jobs_share_files_that_are_shared_and_not_private() {
    let mut rules = Rules::new();
    let copies: Copies = serde_json::from_str(r#"{"private": ["*.root"], "shared": ["*"]}"#).unwrap();
    rules.set_copies(&copies).unwrap();
    let (table, ids) = table(&rules, &["/data/a.root", "/data/b", "/proc/x"]);
    assert_eq!(table.path(ids[0], Copy::Private), Some(b"data/a.root".as_slice()));
    assert_eq!(table.path(ids[0], Copy::Shared), None);
    assert_eq!(table.path(ids[1], Copy::Shared), Some(b"data/b".as_slice()));
    assert_eq!(table.path(ids[2], Copy::Shared), None);
    assert_eq!(table.ignored(), [(Reason::System, 1)]);
    assert!(serde_json::from_str::<Copies>(r#"{"privat": []}"#).is_err());
    assert!(
        rules
            .set_copies(&Copies {
                shared: vec!["[".into()],
                ..Copies::default()
            })
            .is_err()
    );
}

#[test]
fn pipes_without_a_path_are_ignored() {
    let mut names = Names::default();
    let pipe = names.add_path(b"pipe:[12]").unwrap();
    let fifo = names.add_path(b"/tmp/fifo").unwrap();
    for path in [pipe, fifo] {
        names
            .add_file(FileEntry {
                kind: Kind::Pipe,
                path,
            })
            .unwrap();
    }
    let table = Table::new(&Rules::new(), &names, &Links::new());
    assert_eq!(table.get(pipe), &NameMapping::Ignored(Reason::NoFile));
    assert_eq!(table.path(fifo, Copy::Private), Some(b"tmp/fifo".as_slice()));
}

#[test]
fn targets_of_links_lead_to_their_mapped_names() {
    let mut rules = Rules::new();
    rules.read_map("/data => scratch/d").unwrap();
    let (table, ids) = table(&rules, &["/a/b/link", "/data/link", "/link", "/proc/link"]);
    let target = |id: usize, text: &str| {
        let made = table.target(ids[id], text.as_bytes());
        made.map(|made| String::from_utf8(made).unwrap())
    };
    for (link, text, expected) in [
        (0, "x", Some("x")),
        (0, "../c/x", Some("../c/x")),
        (0, "../../../etc/x", Some("../../etc/x")),
        (0, "/a/b/x", Some("x")),
        (0, "/etc/x", Some("../../etc/x")),
        (0, "/a/b", Some(".")),
        (0, "/data/x", Some("../../scratch/d/x")),
        (0, "../../data/x", Some("../../scratch/d/x")),
        (1, "x", Some("x")),
        (1, "../etc/x", Some("../../etc/x")),
        (1, "../data/x", Some("x")),
        (2, "x", Some("x")),
        (2, "../x", Some("x")),
    ] {
        assert_eq!(target(link, text), expected.map(String::from), "{link} {text}");
    }
    assert_eq!(target(3, "x"), None, "the link itself is ignored");
}
