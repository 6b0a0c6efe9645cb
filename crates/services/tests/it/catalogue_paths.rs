//! Groups, ACLs and symbolic links of the catalogue, over both databases and both protocols.

use std::time::{Duration, Instant};

use plimsoll_services::catalogue::Protocol;
use plimsoll_wire::catalogue::soap::Call;
use plimsoll_wire::catalogue::{Key, Reply, Request, Status, guid_of};

use crate::catalogue::{Client, NAMES, load, new, path, serve};
use crate::catalogue_soap::Soap;
use crate::servers::{self, Kind, Server};
use crate::support::{Running, Scratch};

/// Two members of the group `atlas`, one of another group, and one without.
const FIRST: &str = "/O=Lab/OU=atlas/CN=first";
const SECOND: &str = "/O=Lab/OU=cms/OU=atlas/CN=second";
const OTHER: &str = "/O=Lab/OU=cms/CN=other";
const NONE: &str = "/O=Lab/CN=none";

/// A client of either protocol.
trait Caller {
    /// The result of one request, as in the stateful protocol.
    fn call(&mut self, request: Request) -> Reply;

    fn status(&mut self, request: Request) -> Status {
        match self.call(request) {
            Reply::Result(status, _) => status,
            Reply::Results(statuses) if statuses.len() == 1 => statuses[0],
            other => panic!("{other:?}"),
        }
    }

    fn register(&mut self, path: &str) -> Status {
        self.status(Request::Register(vec![new(path)]))
    }

    fn make_directory(&mut self, path: &str, mode: u32) -> Status {
        let path = path.to_owned();
        self.status(Request::MakeDirectory { path, mode })
    }

    fn set_mode(&mut self, path: &str, mode: u32) -> Status {
        let path = path.to_owned();
        self.status(Request::SetMode { path, mode })
    }

    fn set_acl(&mut self, path: &str, acl: &str) -> Status {
        let (path, acl) = (path.to_owned(), acl.to_owned());
        self.status(Request::SetAcl { path, acl })
    }

    /// Group and ACL of an entry.
    fn acl(&mut self, path: &str) -> (String, String) {
        match self.call(Request::GetAcl { path: path.into() }) {
            Reply::Acl { group, acl, .. } => (group, acl),
            other => panic!("{path}: {other:?}"),
        }
    }

    fn link(&mut self, path: &str, target: &str) -> Status {
        let (path, target) = (path.to_owned(), target.to_owned());
        self.status(Request::MakeLink { path, target })
    }

    /// The GUID of an entry, if it is found.
    fn guid(&mut self, name: &str) -> Option<String> {
        match self.call(Request::Lookup(vec![path(name)])) {
            Reply::Entries(found) => found[0].as_ref().map(|found| found.guid.clone()),
            Reply::Result(..) => None,
            other => panic!("{other:?}"),
        }
    }
}

impl Caller for Client {
    fn call(&mut self, request: Request) -> Reply {
        self.ask(&request)
    }
}

impl Caller for Soap {
    fn call(&mut self, request: Request) -> Reply {
        self.reply(&Call::of(vec![request]).unwrap())
    }
}

/// Modes of groups, the group of new entries, and the set-group bit.
fn groups(service: &Running, open: &dyn Fn(&Running, &'static str) -> Box<dyn Caller>) {
    let [mut first, mut second, mut other, mut none] =
        [FIRST, SECOND, OTHER, NONE].map(|subject| open(service, subject));
    assert_eq!(first.make_directory("/grid/new/g", 0o770), Status::OK);
    assert_eq!(second.register("/grid/new/g/a"), Status::OK);
    for refused in [&mut other, &mut none] {
        assert_eq!(refused.register("/grid/new/g/b"), Status::FORBIDDEN);
        assert_eq!(refused.guid("/grid/new/g/a"), None);
    }
    // The group of a new entry is the primary one of its owner, or that of a set-group directory.
    assert_eq!(first.acl("/grid/new/g").0, "atlas");
    assert_eq!(first.acl("/grid/new/g/a").0, "cms");
    assert_eq!(none.make_directory("/grid/new/n", 0o755), Status::OK);
    assert_eq!(none.acl("/grid/new/n").0, "");
    assert_eq!(first.set_mode("/grid/new/g", 0o2770), Status::OK);
    assert_eq!(second.register("/grid/new/g/c"), Status::OK);
    assert_eq!(second.make_directory("/grid/new/g/d", 0o750), Status::OK);
    for inside in ["/grid/new/g/c", "/grid/new/g/d"] {
        assert_eq!(first.acl(inside).0, "atlas", "{inside}");
    }
    assert_eq!(second.register("/grid/new/g/d/e"), Status::OK);
    assert_eq!(first.acl("/grid/new/g/d/e").0, "atlas");
    assert_eq!(first.register("/grid/new/g/d/f"), Status::FORBIDDEN);
}

fn acls(service: &Running, open: &dyn Fn(&Running, &'static str) -> Box<dyn Caller>) {
    let [mut first, mut second, mut other, mut none] =
        [FIRST, SECOND, OTHER, NONE].map(|subject| open(service, subject));
    assert_eq!(first.make_directory("/grid/new/l", 0o700), Status::OK);
    let (group, acl) = first.acl("/grid/new/l");
    assert_eq!(
        (group.as_str(), acl.as_str()),
        ("atlas", "user::rwx\ngroup::---\nother::---")
    );
    for (who, expected) in [(&mut other, Status::FORBIDDEN), (&mut none, Status::FORBIDDEN)] {
        assert_eq!(who.register("/grid/new/l/a"), expected);
        assert_eq!(who.set_acl("/grid/new/l", &acl), Status::FORBIDDEN);
    }
    // One user and one group more; the mask takes the right to write from the group.
    let list = format!(
        "user::rwx\nuser:{OTHER}:rwx\ngroup::---\ngroup:atlas:r-x\nmask::rwx\nother::---\n\
         default:user::rwx\ndefault:user:{OTHER}:rwx\ndefault:group::r-x\ndefault:mask::rwx\ndefault:other::---"
    );
    assert_eq!(first.set_acl("/grid/new/l", &list), Status::OK);
    assert_eq!(first.acl("/grid/new/l"), ("atlas".into(), list.clone()));
    assert_eq!(other.register("/grid/new/l/a"), Status::OK);
    assert_eq!(second.register("/grid/new/l/b"), Status::FORBIDDEN);
    assert_eq!(second.guid("/grid/new/l/a"), Some(guid_of("/grid/new/l/a")));
    assert_eq!(none.guid("/grid/new/l/a"), None);
    // What is inherited: limited by the mode of the request (0644), and by a directory in whole.
    let inherited = format!("user::rw-\nuser:{OTHER}:rwx\ngroup::r-x\nmask::r--\nother::---");
    assert_eq!(other.acl("/grid/new/l/a"), ("cms".into(), inherited));
    assert_eq!(other.make_directory("/grid/new/l/d", 0o777), Status::OK);
    let (_, below) = other.acl("/grid/new/l/d");
    assert!(
        below.ends_with(&list[list.find("default:").unwrap()..]),
        "{below}"
    );
    // A change of the mode changes the mask.
    assert_eq!(first.set_mode("/grid/new/l", 0o710), Status::OK);
    let (_, changed) = first.acl("/grid/new/l");
    assert_eq!(changed, list.replacen("mask::rwx", "mask::--x", 1));
    assert_eq!(other.register("/grid/new/l/c"), Status::FORBIDDEN);
    // The list of the mode alone.
    assert_eq!(
        first.set_acl("/grid/new/l", "user::rwx\ngroup::rwx\nother::r-x"),
        Status::OK
    );
    assert_eq!(first.acl("/grid/new/l").1, "user::rwx\ngroup::rwx\nother::r-x");
    assert_eq!(second.register("/grid/new/l/e"), Status::OK);
    assert_eq!(none.register("/grid/new/l/f"), Status::FORBIDDEN);
    for wrong in [
        "",
        "user::rwx",
        "user::rwx\ngroup::r-x\nother::r-x\nuser:/O=Lab/CN=first:rwx",
        "user::rwx\ngroup::r-x\nother::r-x\nmask::rwx\nuser:nobody known:rwx",
        "user::7\ngroup::r-x\nother::r-x",
    ] {
        assert_eq!(first.set_acl("/grid/new/l", wrong), Status::INVALID, "{wrong}");
    }
    let inherits =
        "user::rw-\ngroup::r--\nother::r--\ndefault:user::rw-\ndefault:group::r--\ndefault:other::r--";
    assert_eq!(
        other.set_acl("/grid/new/l/a", inherits),
        Status::INVALID,
        "not a directory"
    );
    assert_eq!(first.set_acl("/grid/new/none", inherits), Status::NO_ENTRY);
}

fn links(service: &Running, open: &dyn Fn(&Running, &'static str) -> Box<dyn Caller>) {
    let [mut first, mut other] = [FIRST, OTHER].map(|subject| open(service, subject));
    let guid = NAMES.guid(120);
    let name = NAMES.path(120, &guid);
    let (directory, file) = name.rsplit_once('/').unwrap();
    assert_eq!(first.make_directory("/grid/new/s", 0o755), Status::OK);
    for (link, target) in [
        ("file", name.as_str()),
        ("directory", directory),
        ("relative", "../../data/d000001"),
        ("chain", "relative"),
        ("loop", "loop"),
        ("broken", "none"),
        ("dots", "./../s/./chain/../d000001/"),
        ("private", "/grid/private/a"),
    ] {
        assert_eq!(first.link(&format!("/grid/new/s/{link}"), target), Status::OK);
        let read = Request::ReadLink {
            path: format!("/grid/new/s/{link}"),
        };
        assert_eq!(first.call(read), Reply::Link(target.into()));
    }
    assert_eq!(first.link("/grid/new/s/file", "/"), Status::EXISTS);
    assert_eq!(first.link("/grid/new/s/empty", ""), Status::INVALID);
    assert_eq!(first.link("/grid/new/s/long", &"a".repeat(256)), Status::INVALID);
    assert_eq!(other.link("/grid/new/s/mine", "/"), Status::FORBIDDEN);
    let read = |path: &str| Request::ReadLink { path: path.into() };
    assert_eq!(first.status(read("/grid/new/s")), Status::INVALID);

    let through: Vec<String> = ["directory", "relative", "chain", "dots"]
        .iter()
        .map(|link| format!("/grid/new/s/{link}/{file}"))
        .chain(["/grid/new/s/file".into()])
        .collect();
    for path in &through {
        assert_eq!(first.guid(path), Some(guid.clone()), "{path}");
    }
    // In bulk, with paths without links and the same path twice.
    let mut keys: Vec<Key> = through.iter().map(|name| path(name)).collect();
    keys.extend([path(&name), path(&through[1]), path("/grid/new/s/file")]);
    let Reply::Entries(found) = first.call(Request::Lookup(keys)) else {
        panic!();
    };
    assert!(
        found
            .iter()
            .all(|found| found.as_ref().is_some_and(|found| found.guid == guid))
    );
    assert!(found.iter().flatten().all(|found| found.replicas.len() == 2));
    for missing in ["loop", "broken", "private", "loop/a"] {
        assert_eq!(first.guid(&format!("/grid/new/s/{missing}")), None, "{missing}");
    }
    let mode = |path: &str| Request::SetMode {
        path: path.into(),
        mode: 0o600,
    };
    assert_eq!(first.status(mode("/grid/new/s/loop")), Status::LINKS);
    assert_eq!(first.status(mode("/grid/new/s/broken")), Status::NO_ENTRY);
    assert_eq!(
        first.status(mode("/grid/new/s/file")),
        Status::FORBIDDEN,
        "that of its target"
    );
    assert_eq!(first.status(mode("/grid/new/s/file/a")), Status::NOT_DIRECTORY);

    // New entries through a link to a directory, and the list of the names there.
    assert_eq!(first.link("/grid/new/s/here", "."), Status::OK);
    assert_eq!(first.register("/grid/new/s/here/new"), Status::OK);
    assert_eq!(
        first.guid("/grid/new/s/new"),
        Some(guid_of("/grid/new/s/here/new"))
    );
    assert_eq!(other.register("/grid/new/s/here/other"), Status::FORBIDDEN);
    let list = Request::List {
        path: "/grid/new/s/here".into(),
        after: "loop".into(),
        max: 2,
    };
    let Reply::Directory { entries, .. } = first.call(list) else {
        panic!();
    };
    let names: Vec<(&str, u32)> = entries
        .iter()
        .map(|entry| (entry.name.as_str(), entry.mode))
        .collect();
    assert_eq!(names, [("new", 0o100_644), ("private", 0o120_777)]);

    // The deletion of a link removes the link alone.
    let delete = |path: &str| Request::Delete(vec![Key::Path(path.into())]);
    assert_eq!(other.status(delete("/grid/new/s/file")), Status::FORBIDDEN);
    assert_eq!(first.status(delete("/grid/new/s/file")), Status::OK);
    assert_eq!(first.status(read("/grid/new/s/file")), Status::NO_ENTRY);
    assert_eq!(first.guid(&name), Some(guid));
    let many = ["loop", "broken", "here/chain"].map(|link| path(&format!("/grid/new/s/{link}")));
    let Reply::Results(deleted) = first.call(Request::Delete(many.into())) else {
        panic!();
    };
    assert_eq!(deleted, [Status::OK; 3]);
    // A new entry may have the name of a deleted link.
    assert_eq!(first.register("/grid/new/s/loop"), Status::OK);
    assert_eq!(first.guid("/grid/new/s/loop"), Some(guid_of("/grid/new/s/loop")));
}

fn stateful(service: &Running, subject: &'static str) -> Box<dyn Caller> {
    Box::new(Client::open(service, subject))
}

fn soap(service: &Running, subject: &'static str) -> Box<dyn Caller> {
    Box::new(Soap::new(service, subject))
}

fn check(database: &str, protocol: Protocol) {
    let service = serve(database, |config| config.protocol = protocol);
    let open: &dyn Fn(&Running, &'static str) -> Box<dyn Caller> = match protocol {
        Protocol::Stateful => &stateful,
        Protocol::Soap => &soap,
    };
    groups(&service, open);
    acls(&service, open);
    links(&service, open);
    assert_eq!(service.stats()["database_errors"], 0);
}

#[test]
fn groups_acls_and_links_over_sqlite() {
    for protocol in [Protocol::Stateful, Protocol::Soap] {
        let scratch = Scratch::new();
        let file = scratch.0.join("catalogue.db");
        load(&file);
        check(file.to_str().unwrap(), protocol);
        let connection = rusqlite::Connection::open(&file).unwrap();
        let one = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        // Only links that exist have a content.
        let orphans =
            "SELECT count(*) FROM Cns_symlinks WHERE fileid NOT IN (SELECT fileid FROM Cns_file_metadata)";
        assert_eq!(one(orphans), 0);
        assert_eq!(one("SELECT count(*) FROM Cns_symlinks"), 5);
        assert_eq!(one("SELECT count(*) FROM Cns_groupinfo"), 3);
    }
}

#[test]
fn groups_acls_and_links_over_database_servers() {
    for server in servers::all() {
        for protocol in [Protocol::Stateful, Protocol::Soap] {
            let url = server.url(&server.database("SELECT 1;"));
            load(&url);
            check(&url, protocol);
        }
    }
}

/// Number of transactions of a database, after its sessions have ended: each statement is one.
fn transactions(server: &Server, database: &str) -> u64 {
    let number = |sql: &str| -> u64 { server.sql("", sql).parse().unwrap() };
    let sessions = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}'");
    let deadline = Instant::now() + Duration::from_secs(20);
    while number(&sessions) > 0 {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(20));
    }
    number(&format!(
        "SELECT xact_commit FROM pg_stat_database WHERE datname = '{database}'"
    ))
}

#[test]
fn a_path_without_links_needs_one_statement() {
    // Its transactions would be counted.
    let Some(server) = Server::with(Kind::Postgres, &["-c", "autovacuum=off"]) else {
        return;
    };
    let database = server.database("SELECT 1;");
    let url = server.url(&database);
    load(&url);
    let name = NAMES.path(120, &NAMES.guid(120));
    let needed = |work: &dyn Fn(&mut Client)| {
        let before = transactions(&server, &database);
        let service = serve(&url, |config| config.threads = 1);
        let mut client = Client::open(&service, FIRST);
        work(&mut client);
        drop(client);
        service.finish().unwrap();
        transactions(&server, &database) - before
    };
    needed(&|client| {
        assert_eq!(client.link("/grid/new/file", &name), Status::OK);
        assert_eq!(client.link("/grid/new/data", "../data"), Status::OK);
    });
    let below = name.replace("/grid/data/", "/grid/new/data/");
    for (path, statements) in [(name.as_str(), 1), ("/grid/new/file", 3), (&below, 3)] {
        let [few, many] = [10, 30].map(|lookups| {
            needed(&|client| {
                for _ in 0..lookups {
                    assert!(client.guid(path).is_some());
                }
            })
        });
        assert_eq!(many - few, 20 * statements, "{path}");
    }
}

/// An ACL that another program has written in the form of LFC is evaluated, and a column that is
/// none permits nothing but to the owner.
#[test]
fn the_column_has_the_form_of_lfc() {
    let scratch = Scratch::new();
    let file = scratch.0.join("catalogue.db");
    load(&file);
    let service = serve(&file, |_| {});
    let mut first = Client::open(&service, FIRST);
    let mut other = Client::open(&service, OTHER);
    assert_eq!(first.make_directory("/grid/new/c", 0o770), Status::OK);
    assert_eq!(other.register("/grid/new/c/a"), Status::FORBIDDEN);
    let connection = rusqlite::Connection::open(&file).unwrap();
    let number =
        |sql: &str, name: &str| -> i64 { connection.query_row(sql, [name], |row| row.get(0)).unwrap() };
    let user = number("SELECT userid FROM Cns_userinfo WHERE username = ?1", FIRST);
    let group = number("SELECT gid FROM Cns_groupinfo WHERE groupname = ?1", "atlas");
    let cms = number("SELECT gid FROM Cns_groupinfo WHERE groupname = ?1", "cms");
    let set = |acl: &str| {
        let sql = "UPDATE Cns_file_metadata SET acl = ?1 WHERE name = 'c'";
        assert_eq!(connection.execute(sql, [acl]).unwrap(), 1);
    };
    set(&format!("A7{user},C5{group},D7{cms},E70,F00"));
    assert_eq!(other.register("/grid/new/c/a"), Status::OK);
    set("A7,,");
    assert_eq!(other.register("/grid/new/c/b"), Status::FORBIDDEN);
    assert_eq!(first.register("/grid/new/c/b"), Status::OK);
    assert_eq!(
        first.status(&Request::GetAcl {
            path: "/grid/new/c".into()
        }),
        Status::INTERNAL
    );
    let acl = "user::rwx\ngroup::r-x\ngroup:cms:rwx\nmask::rwx\nother::---";
    assert_eq!(first.set_acl("/grid/new/c", acl), Status::OK);
    let column: String = connection
        .query_row("SELECT acl FROM Cns_file_metadata WHERE name = 'c'", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(column, format!("A7{user},C5{group},D7{cms},E70,F00"));
}
