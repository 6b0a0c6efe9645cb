//! The catalogue over database servers, with its logic in the service or in functions of
//! `PostgreSQL`: the same results, and sessions that hold what others need.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_services::catalogue::{CatalogueConfig, Logic};
use plimsoll_wire::catalogue::{DataSet as Names, Key, NewEntry, Reply, Request, Status, guid_of};

use crate::catalogue::{Client, NAMES, load, new, operations, path, serve, transactions};
use crate::servers::{self, Kind, Server};
use crate::support::{Running, Scratch};

/// A catalogue with its data set in a database of its own.
struct Catalogue {
    server: Arc<Server>,
    database: String,
    logic: Logic,
    service: Running,
}

impl Catalogue {
    /// None: the software is missing.
    fn new(kind: Kind, logic: Logic) -> Option<Self> {
        let server = servers::shared(kind)?;
        let database = server.database("SELECT 1;");
        let url = server.url(&database);
        load(&url);
        let service = serve(&url, |config| configure(config, logic));
        Some(Self {
            server,
            database,
            logic,
            service,
        })
    }

    fn sql(&self, sql: &str) -> String {
        self.server.sql(&self.database, sql)
    }

    fn client(&self) -> Client {
        Client::open(&self.service, "/O=Lab/CN=first")
    }

    fn counter(&self, name: &str) -> u64 {
        self.service.stats()[name].as_u64().unwrap()
    }

    /// Waits until a session waits for a lock of another one.
    fn wait_for_lock(&self) {
        let sql = match self.server.kind {
            Kind::Postgres => format!(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND wait_event_type = 'Lock'",
                self.database
            ),
            Kind::Mariadb => format!(
                "SELECT count(*) FROM information_schema.innodb_trx t JOIN information_schema.processlist p \
                 ON p.id = t.trx_mysql_thread_id WHERE p.db = '{}' AND t.trx_state = 'LOCK WAIT'",
                self.database
            ),
        };
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.server.sql("", &sql) == "0" {
            assert!(Instant::now() < deadline, "no session waits");
            // MariaDB renews innodb_trx only when nobody has read it for 100 ms.
            std::thread::sleep(Duration::from_millis(150));
        }
    }
}

fn configure(config: &mut CatalogueConfig, logic: Logic) {
    config.threads = 5;
    config.logic = logic;
}

/// A catalogue in each database server, and with its logic in functions.
fn all() -> impl Iterator<Item = Catalogue> {
    [
        (Kind::Postgres, Logic::Server),
        (Kind::Postgres, Logic::Database),
        (Kind::Mariadb, Logic::Server),
    ]
    .into_iter()
    .filter_map(|(kind, logic)| Catalogue::new(kind, logic))
}

#[test]
fn all_operations_over_database_servers() {
    for catalogue in all() {
        operations(&catalogue.service);
        transactions(&catalogue.service);
        assert_eq!(catalogue.counter("database_errors"), 0);
        assert_eq!(catalogue.counter("function_fallbacks"), 0);
        let is_by_functions = catalogue.logic == Logic::Database;
        assert_eq!(catalogue.counter("function_calls") > 0, is_by_functions);
    }
}

/// Two members of a group, and another client.
const SUBJECTS: [&str; 3] = [
    "/O=Lab/OU=atlas/CN=first",
    "/O=Lab/OU=atlas/CN=second",
    "/O=Lab/CN=third",
];

/// Requests of all of them whose results are compared.
fn table() -> Vec<(usize, Request)> {
    let first = requests().into_iter().map(|request| (0, request));
    first.chain(shared_directories()).collect()
}

/// Directories of a group, with an ACL, and behind a link.
fn shared_directories() -> Vec<(usize, Request)> {
    let make = |path: &str, mode| Request::MakeDirectory {
        path: path.into(),
        mode,
    };
    let acl = Request::SetAcl {
        path: "/grid/new/acl".into(),
        acl: format!(
            "user::rwx\nuser:{}:rwx\ngroup::---\nmask::rwx\nother::---",
            SUBJECTS[2]
        ),
    };
    let link = Request::MakeLink {
        path: "/grid/new/link".into(),
        target: "group".into(),
    };
    let mut requests = vec![
        (0, make("/grid/new/group", 0o770)),
        (0, make("/grid/new/inherited", 0o2775)),
        (0, make("/grid/new/acl", 0o700)),
        (0, acl),
        (0, link),
    ];
    for directory in ["group", "inherited", "acl", "link"] {
        for user in 0..SUBJECTS.len() {
            let own = new(&format!("/grid/new/{directory}/{user}"));
            let group = path(&format!("/grid/new/{directory}"));
            requests.push((user, Request::Register(vec![own.clone()])));
            requests.push((user, Request::Lookup(vec![path(&own.path), group])));
            let others = (0..SUBJECTS.len()).map(|user| path(&format!("/grid/new/{directory}/{user}")));
            requests.push((2 - user, Request::Delete(others.collect())));
        }
    }
    let both = vec![path("/grid/new/link"), path("/grid/new/inherited")];
    requests.push((0, Request::Delete(both)));
    requests
}

/// Requests of one client.
fn requests() -> Vec<Request> {
    let guid = NAMES.guid(120);
    let name = NAMES.path(120, &guid);
    let replica = Names::replica(&guid, 0);
    let keys = || {
        vec![
            Key::Replica(replica.clone()),
            Key::Path(name.clone()),
            path("/grid"),
            path("/grid/private"),
            path("/grid/private/a"),
            path(&format!("{name}/below")),
            path("/grid/none/a"),
            path("/grid/none"),
            path("relative"),
            path("/grid//new"),
            Key::Guid(guid.clone()),
            Key::Guid(String::new()),
            Key::Replica("none".into()),
            Key::Path(name.clone()),
        ]
    };
    let entry = |path: &str, key: &str, replica: &str| NewEntry {
        guid: guid_of(key),
        replica: replica.into(),
        ..new(path)
    };
    let long = "x".repeat(256);
    let entries = vec![
        entry("/grid/new/a", "1", "srm://h/1"),
        entry("/grid/new/a", "2", "srm://h/2"),
        entry("/grid/new/b", "1", "srm://h/3"),
        entry("/grid/new/c", "3", "srm://h/1"),
        entry("/grid/new/d", "4", &long),
        entry("/grid/new/e", "5", ""),
        entry("/", "6", "srm://h/6"),
        entry("/top", "7", "srm://h/7"),
        entry("/grid/private/a", "8", "srm://h/8"),
        entry("/grid/none/a", "9", "srm://h/9"),
        entry(&format!("{name}/below"), "10", "srm://h/10"),
        entry(
            "/grid/new/it's \"{\\}\", NULL",
            "11",
            "a \\ replica, {with} \"all\"\t\n",
        ),
        NewEntry {
            size: u64::MAX,
            mode: 0o177_777,
            ..entry("/grid/new/größe", "12", "ftp://host:21/größe")
        },
    ];
    let written: Vec<Key> = entries.iter().map(|entry| path(&entry.path)).collect();
    let single = |entry: &NewEntry| Request::Register(vec![entry.clone()]);
    let mut requests: Vec<Request> = keys().into_iter().map(|key| Request::Lookup(vec![key])).collect();
    requests.extend([
        Request::Lookup(keys()),
        Request::Lookup(vec![path("/")]),
        Request::Lookup(vec![path("/"), path("/grid")]),
        Request::Register(entries.clone()),
        Request::Register(entries.clone()),
        Request::Lookup(written.clone()),
        Request::Lookup(
            entries
                .iter()
                .map(|entry| Key::Replica(entry.replica.clone()))
                .collect(),
        ),
        Request::Delete(written[..3].to_vec()),
    ]);
    requests.extend(entries.iter().map(single));
    requests.extend([
        Request::Delete(vec![path("/")]),
        Request::Delete(vec![path("relative")]),
        Request::Delete(keys()),
        Request::Delete(written.clone()),
        Request::Lookup(written),
    ]);
    requests
}

/// The replies without the numbers of entries, which depend on how many were tried before.
fn replies(service: &Running) -> Vec<Reply> {
    let mut clients = SUBJECTS.map(|subject| Client::open(service, subject));
    let without_numbers = |mut reply: Reply| {
        if let Reply::Entries(entries) = &mut reply {
            for entry in entries.iter_mut().flatten() {
                entry.file = 0;
            }
        }
        reply
    };
    table()
        .iter()
        .map(|(user, request)| without_numbers(clients[*user].ask(request)))
        .collect()
}

#[test]
fn every_database_and_the_functions_have_the_results_of_sqlite() {
    let scratch = Scratch::new();
    let file = scratch.0.join("catalogue.db");
    load(&file);
    let expected = replies(&serve(&file, |config| configure(config, Logic::Server)));
    for catalogue in all() {
        let found = replies(&catalogue.service);
        for ((request, found), expected) in table().iter().zip(found).zip(&expected) {
            let (kind, logic) = (catalogue.server.kind, catalogue.logic);
            assert_eq!(found, *expected, "{kind:?}, {logic:?}: {request:?}");
        }
        assert_eq!(catalogue.counter("database_errors"), 0);
        // The groups of new entries.
        let groups = "SELECT count(*) FROM Cns_file_metadata WHERE gid > 1000";
        assert_ne!(catalogue.sql(groups), "0");
        let is_by_functions = catalogue.logic == Logic::Database;
        assert_eq!(catalogue.counter("function_fallbacks") > 0, is_by_functions);
    }
}

#[test]
fn names_are_compared_as_bytes() {
    let names = ["a", "A", "a ", "ä", "a\u{308}", "ß", "ss", "a\\", "%"];
    let entries: Vec<NewEntry> = names
        .iter()
        .map(|name| new(&format!("/grid/new/{name}")))
        .collect();
    for catalogue in all() {
        let mut client = catalogue.client();
        let register = Request::Register(entries.clone());
        assert_eq!(client.statuses(&register), [Status::OK; 9]);
        let guids: Vec<_> = entries.iter().map(|entry| Some(entry.guid.clone())).collect();
        let keys: Vec<Key> = entries.iter().map(|entry| path(&entry.path)).collect();
        assert_eq!(client.guids(keys.clone()), guids);
        for (key, guid) in keys.iter().zip(&guids) {
            assert_eq!(client.guids(vec![key.clone()]), std::slice::from_ref(guid));
        }
        assert_eq!(
            client.guids(vec![path("/grid/new/a  "), path("/grid/new/Ä")]),
            [None, None]
        );
    }
}

/// What the functions do not know: ACLs and symbolic links.
#[test]
fn the_service_carries_out_what_the_functions_cannot_decide() {
    let Some(catalogue) = Catalogue::new(Kind::Postgres, Logic::Database) else {
        return;
    };
    let mut client = catalogue.client();
    let register = |path: &str| Request::Register(vec![new(path)]);
    let make = Request::MakeDirectory {
        path: "/grid/new/shared".into(),
        mode: 0o700,
    };
    let acl = Request::SetAcl {
        path: "/grid/new/shared".into(),
        acl: "user::rwx\nuser:/O=Lab/CN=other:rwx\ngroup::---\nmask::rwx\nother::---".into(),
    };
    let link = Request::MakeLink {
        path: "/grid/new/link".into(),
        target: "shared".into(),
    };
    let mut other = Client::open(&catalogue.service, "/O=Lab/CN=other");
    assert_eq!(client.status(&make), Status::OK);
    assert_eq!(
        other.statuses(&register("/grid/new/shared/a")),
        [Status::FORBIDDEN]
    );
    assert_eq!(catalogue.counter("function_fallbacks"), 0);
    assert_eq!(client.status(&acl), Status::OK);
    assert_eq!(client.status(&link), Status::OK);
    for (fallbacks, directory) in [(3, "shared"), (6, "link")] {
        let entry = format!("/grid/new/{directory}/{directory}");
        assert_eq!(other.statuses(&register(&entry)), [Status::OK]);
        let keys = vec![path(&entry), path("/grid/new")];
        assert_eq!(other.guids(keys.clone())[0], Some(guid_of(&entry)));
        assert_eq!(
            other.statuses(&Request::Delete(keys)),
            [Status::OK, Status::IS_DIRECTORY]
        );
        assert_eq!(catalogue.counter("function_fallbacks"), fallbacks);
    }
    let calls = catalogue.counter("function_calls");
    assert_eq!(other.guids(vec![path("/grid/new/none")]), [None]);
    assert_eq!(catalogue.counter("function_calls"), calls + 1);
}

#[test]
fn functions_are_created_once_more_at_the_next_start() {
    let Some(catalogue) = Catalogue::new(Kind::Postgres, Logic::Database) else {
        return;
    };
    let url = catalogue.server.url(&catalogue.database);
    let again = serve(&url, |config| configure(config, Logic::Database));
    let mut client = Client::open(&again, "/O=Lab/CN=first");
    assert_eq!(client.guids(vec![path("/grid/new")]), [Some(String::new())]);
    let created = "SELECT count(*) FROM pg_proc WHERE proname LIKE 'plimsoll_catalogue_%'";
    assert_eq!(catalogue.sql(created), "6");
}

/// A change of one request is repeated, a transaction of a client fails.
#[test]
fn a_deadlock_ends_one_of_two_transactions() {
    for catalogue in all() {
        let [first, second] = ["/grid/new/first", "/grid/new/second"].map(new);
        let mut holder = catalogue.client();
        assert_eq!(holder.status(&Request::StartTransaction), Status::OK);
        // MariaDB undoes the transaction with fewer changes.
        let many: Vec<_> = (0..100)
            .map(|number| new(&format!("/grid/new/{number}")))
            .collect();
        assert_eq!(holder.statuses(&Request::Register(many)), [Status::OK; 100]);
        assert_eq!(
            holder.statuses(&Request::Register(vec![second.clone()])),
            [Status::OK]
        );
        let mut other = catalogue.client();
        let both = Request::Register(vec![first.clone(), second]);
        let waiting = std::thread::spawn(move || other.statuses(&both));
        catalogue.wait_for_lock();
        let reply = holder.ask(&Request::Register(vec![first]));
        if reply == Reply::Results(vec![Status::OK]) {
            assert_eq!(holder.status(&Request::EndTransaction), Status::OK);
            assert_eq!(waiting.join().unwrap(), [Status::EXISTS; 2]);
        } else {
            // PostgreSQL undoes the transaction whose time for a wait is over first.
            assert_eq!(catalogue.server.kind, Kind::Postgres);
            assert!(matches!(reply, Reply::Result(Status::BUSY, _)), "{reply:?}");
            assert_eq!(waiting.join().unwrap(), [Status::OK; 2]);
        }
        assert!(catalogue.counter("deadlocks") >= 1);
    }
}

/// A transaction of a client has been undone then: its connection ends.
#[test]
fn a_session_of_mariadb_that_waits_too_long_is_busy() {
    let Some(catalogue) = Catalogue::new(Kind::Mariadb, Logic::Server) else {
        return;
    };
    let register = Request::Register(vec![new("/grid/new/held")]);
    let mut holder = catalogue.client();
    assert_eq!(holder.status(&Request::StartTransaction), Status::OK);
    assert_eq!(holder.statuses(&register), [Status::OK]);
    let mut transaction = catalogue.client();
    assert_eq!(transaction.status(&Request::StartTransaction), Status::OK);
    let same = register.clone();
    let undone = std::thread::spawn(move || {
        assert_eq!(transaction.status(&same), Status::BUSY);
        assert_eq!(transaction.reply(), None);
    });
    let mut other = catalogue.client();
    let Reply::Result(status, text) = other.ask(&register) else {
        panic!();
    };
    undone.join().unwrap();
    assert_eq!(status, Status::BUSY);
    assert!(text.contains("longer than 5 s"), "{text}");
    // The session is usable again when the other one has ended.
    assert_eq!(holder.status(&Request::AbortTransaction), Status::OK);
    assert_eq!(other.statuses(&register), [Status::OK]);
    assert_eq!(catalogue.counter("database_errors"), 2);
}
