//! The catalogue over every database: operations, permissions, transactions, threads,
//! and clients that send something else.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use plimsoll_services::catalogue::{self, CatalogueConfig};
use plimsoll_services::data::{self, DataConfig, DataSet, TableReport};
use plimsoll_wire::catalogue::{
    DataSet as Names, DirectoryEntry, Frame, Key, MAX_BULK, NewEntry, Reply, Request, Status, guid_of,
};

use crate::support::{Running, Scratch, start};

pub const OWNER: &str = "/O=Plimsoll/CN=owner";
pub const NAMES: Names = Names {
    entries: 250,
    directory: 100,
    replicas: 2,
    seed: 3,
};

pub fn load(database: impl Into<PathBuf>) -> Vec<TableReport> {
    let set = DataSet::Catalogue(data::CatalogueConfig {
        entries: NAMES.entries,
        directory: NAMES.directory,
        replicas: NAMES.replicas,
        seed: NAMES.seed,
        owner: OWNER.into(),
    });
    data::write(&DataConfig {
        database: database.into(),
        tables: vec![set],
    })
    .unwrap()
}

pub fn serve(database: impl Into<PathBuf>, change: impl FnOnce(&mut CatalogueConfig)) -> Running {
    let mut config = CatalogueConfig::new(database);
    change(&mut config);
    start(2, move |listener, shutdown| {
        catalogue::serve(listener, config, shutdown.into_future())
    })
}

pub struct Client {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Client {
    pub fn open(service: &Running, subject: &str) -> Self {
        let mut client = Self::connect(service);
        let subject = subject.to_owned();
        assert_eq!(client.status(&Request::StartSession { subject }), Status::OK);
        client
    }

    fn connect(service: &Running) -> Self {
        let stream = TcpStream::connect(service.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self {
            stream,
            input: Vec::new(),
        }
    }

    pub fn ask(&mut self, request: &Request) -> Reply {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        self.stream.write_all(&bytes).unwrap();
        self.reply().expect("a reply")
    }

    /// None: the service has closed the connection.
    pub fn reply(&mut self) -> Option<Reply> {
        loop {
            if let Some(frame) = Frame::parse(&self.input).unwrap() {
                let (reply, length) = (Reply::decode(frame).unwrap(), frame.length());
                self.input.drain(..length);
                return Some(reply);
            }
            let mut piece = [0; 16384];
            match self.stream.read(&mut piece) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.input.extend_from_slice(&piece[..count]),
            }
        }
    }

    pub fn status(&mut self, request: &Request) -> Status {
        match self.ask(request) {
            Reply::Result(status, _) => status,
            other => panic!("{other:?}"),
        }
    }

    pub fn statuses(&mut self, request: &Request) -> Vec<Status> {
        match self.ask(request) {
            Reply::Results(statuses) => statuses,
            other => panic!("{other:?}"),
        }
    }

    /// GUIDs of the entries; none where there is no entry.
    pub fn guids(&mut self, keys: Vec<Key>) -> Vec<Option<String>> {
        match self.ask(&Request::Lookup(keys)) {
            Reply::Entries(found) => found.into_iter().map(|found| Some(found?.guid)).collect(),
            other => panic!("{other:?}"),
        }
    }
}

pub fn new(path: &str) -> NewEntry {
    NewEntry {
        path: path.into(),
        guid: guid_of(path),
        size: 5,
        mode: 0o644,
        replica: format!("srm://se.example.org{path}"),
    }
}

pub fn path(path: &str) -> Key {
    Key::Path(path.into())
}

/// What every database must do.
pub fn operations(service: &Running) {
    let mut client = Client::open(service, "/O=Lab/CN=first");
    let guid = NAMES.guid(120);
    let name = NAMES.path(120, &guid);
    let keys = [
        Key::Path(name.clone()),
        Key::Guid(guid.clone()),
        Key::Replica(Names::replica(&guid, 1)),
    ];
    for key in &keys {
        let Reply::Entries(found) = client.ask(&Request::Lookup(vec![key.clone()])) else {
            panic!("{key:?}");
        };
        let found = found[0].clone().unwrap();
        let replicas = [0, 1].map(|replica| Names::replica(&guid, replica));
        assert_eq!(
            (found.guid, found.replicas, found.mode),
            (guid.clone(), replicas.to_vec(), 0o100_644)
        );
        let names = client.ask(&Request::ListReplicas(key.clone()));
        assert_eq!(names, Reply::Replicas(replicas.to_vec()));
    }
    let mut all = keys.to_vec();
    all.extend([
        path("/grid/data/none"),
        Key::Guid("none".into()),
        path("/grid/it's"),
        path("no"),
    ]);
    let found = client.guids(all);
    assert_eq!(found[..3], vec![Some(guid.clone()); 3]);
    assert_eq!(found[3..], vec![None; 4]);
    let below = Request::Stat(path(&format!("{name}/x")));
    assert_eq!(client.status(&below), Status::NOT_DIRECTORY);

    insertions(&mut client);
    permissions(service, &mut client);
    directory(&mut client);
}

fn insertions(client: &mut Client) {
    let bulk: Vec<NewEntry> = (0..300)
        .map(|number| new(&format!("/grid/new/n'{number}")))
        .collect();
    assert_eq!(
        client.statuses(&Request::Register(bulk.clone())),
        vec![Status::OK; 300]
    );
    let keys: Vec<Key> = bulk.iter().map(|entry| path(&entry.path)).collect();
    let guids: Vec<_> = bulk.iter().map(|entry| Some(entry.guid.clone())).collect();
    assert_eq!(client.guids(keys.clone()), guids);
    // The name, the GUID and the replica of an entry are unique. Each entry succeeds or fails.
    let taken = |change: fn(&mut NewEntry, &NewEntry)| {
        let mut entry = new("/grid/new/other");
        change(&mut entry, &bulk[0]);
        entry
    };
    let mixed = vec![
        taken(|entry, other| entry.path.clone_from(&other.path)),
        taken(|entry, other| entry.guid.clone_from(&other.guid)),
        taken(|entry, other| entry.replica.clone_from(&other.replica)),
        new("/grid/new/a"),
        new("/grid/none/a"),
        new("/grid/new/.."),
        taken(|entry, _| entry.guid = "short".into()),
    ];
    assert_eq!(
        client.statuses(&Request::Register(mixed)),
        [
            Status::EXISTS,
            Status::EXISTS,
            Status::EXISTS,
            Status::OK,
            Status::NO_ENTRY,
            Status::INVALID,
            Status::INVALID
        ]
    );
    assert_eq!(client.guids(vec![path("/grid/new/other")]), [None]);

    let deleted = client.statuses(&Request::Delete(keys[..200].to_vec()));
    assert_eq!(deleted, vec![Status::OK; 200]);
    let left = client.guids(keys);
    assert_eq!(left.iter().flatten().count(), 100);
    let replica = Key::Replica(bulk[0].replica.clone());
    assert_eq!(client.guids(vec![replica]), [None]);
    let twice = vec![path("/grid/new/a"), path("/grid/new/a"), path("/grid/new")];
    assert_eq!(
        client.statuses(&Request::Delete(twice)),
        [Status::OK, Status::NO_ENTRY, Status::IS_DIRECTORY]
    );

    let entry = new("/grid/new/steps");
    let create = Request::Create {
        path: entry.path.clone(),
        guid: entry.guid.clone(),
        mode: 0o600,
        size: 7,
    };
    assert_eq!(client.status(&create), Status::OK);
    assert_eq!(client.status(&create), Status::EXISTS);
    let add = Request::AddReplica {
        guid: entry.guid.clone(),
        replica: entry.replica.clone(),
    };
    assert_eq!(
        [client.status(&add), client.status(&add)],
        [Status::OK, Status::EXISTS]
    );
    let remove = Request::DeleteReplica {
        replica: entry.replica,
    };
    assert_eq!(
        [client.status(&remove), client.status(&remove)],
        [Status::OK, Status::NO_ENTRY]
    );
}

fn permissions(service: &Running, client: &mut Client) {
    let mut other = Client::open(service, "/O=Lab/CN=second");
    let private = Request::Register(vec![new("/grid/private/a")]);
    assert_eq!(client.statuses(&private), [Status::FORBIDDEN]);
    let list = Request::List {
        path: "/grid/private".into(),
        after: String::new(),
        max: 10,
    };
    assert_eq!(client.status(&list), Status::FORBIDDEN);
    let make = |path: &str, mode| Request::MakeDirectory {
        path: path.into(),
        mode,
    };
    assert_eq!(client.status(&make("/grid/new/mine", 0o755)), Status::OK);
    assert_eq!(client.status(&make("/grid/new/mine", 0o755)), Status::EXISTS);
    assert_eq!(
        client.statuses(&Request::Register(vec![new("/grid/new/mine/a")])),
        [Status::OK]
    );
    let theirs = Request::Register(vec![new("/grid/new/mine/b")]);
    assert_eq!(other.statuses(&theirs), [Status::FORBIDDEN]);
    let delete = Request::Delete(vec![Key::Guid(guid_of("/grid/new/mine/a"))]);
    assert_eq!(other.statuses(&delete), [Status::FORBIDDEN]);
    let close = Request::SetMode {
        path: "/grid/new/mine".into(),
        mode: 0o700,
    };
    assert_eq!(
        [other.status(&close), client.status(&close)],
        [Status::FORBIDDEN, Status::OK]
    );
    let inside = Request::Stat(path("/grid/new/mine/a"));
    assert_eq!(other.status(&inside), Status::FORBIDDEN);
    // The owner of the data set is its user 101.
    let mut owner = Client::open(service, OWNER);
    let Reply::Entries(found) = owner.ask(&Request::Stat(path("/grid/data"))) else {
        panic!();
    };
    assert_eq!(found[0].as_ref().unwrap().owner, 101);
}

fn directory(client: &mut Client) {
    let mut names = Vec::new();
    let mut after = String::new();
    loop {
        let request = Request::List {
            path: Names::directory_path(1),
            after: after.clone(),
            max: 33,
        };
        let Reply::Directory { entries, is_last } = client.ask(&request) else {
            panic!();
        };
        names.extend(entries.into_iter().map(|DirectoryEntry { name, .. }| name));
        if is_last {
            break;
        }
        after.clone_from(names.last().unwrap());
    }
    let mut expected: Vec<String> = (100..200)
        .map(|number| Names::name(number, &NAMES.guid(number)))
        .collect();
    names.sort();
    expected.sort();
    assert_eq!(names, expected);
}

/// A transaction is undone by the client, and by the end of its connection.
pub fn transactions(service: &Running) {
    let entry = || Request::Register(vec![new("/grid/new/undone")]);
    let key = || vec![path("/grid/new/undone")];
    let mut reader = Client::open(service, "/O=Lab/CN=first");
    let mut client = Client::open(service, "/O=Lab/CN=first");
    assert_eq!(client.status(&Request::EndTransaction), Status::INVALID);
    assert!(reader.guids(key())[0].is_none());
    for end in [Some(Request::AbortTransaction), None] {
        assert_eq!(client.status(&Request::StartTransaction), Status::OK);
        assert_eq!(client.statuses(&entry()), [Status::OK]);
        assert!(client.guids(key())[0].is_some());
        assert!(reader.guids(key())[0].is_none(), "it is not committed");
        match end {
            Some(end) => assert_eq!(client.status(&end), Status::OK),
            None => client = Client::open(service, "/O=Lab/CN=first"),
        }
    }
    // The transaction of the closed connection is undone by its thread, which may be later.
    assert_eq!(client.status(&Request::StartTransaction), Status::OK);
    assert_eq!(client.statuses(&entry()), [Status::OK]);
    assert_eq!(client.status(&Request::EndTransaction), Status::OK);
    assert!(reader.guids(key())[0].is_some());
}

#[test]
fn all_operations_over_sqlite() {
    let scratch = Scratch::new();
    let file = scratch.0.join("catalogue.db");
    let reports = load(&file);
    let rows: Vec<(&str, u64)> = reports
        .iter()
        .map(|report| (report.name.as_str(), report.rows))
        .take(2)
        .collect();
    assert_eq!(
        rows,
        [("Cns_file_metadata", 5 + 3 + 250), ("Cns_file_replica", 500)]
    );
    let service = serve(&file, |config| config.threads = 5);
    operations(&service);
    transactions(&service);
    assert_eq!(service.stats()["database_errors"], 0);
}

#[test]
fn a_session_holds_a_thread_and_an_operation_without_one_ends_its_connection() {
    let scratch = Scratch::new();
    let file = scratch.0.join("catalogue.db");
    load(&file);
    let service = serve(&file, |config| config.threads = 1);
    let first = Client::open(&service, "a");
    let mut second = Client::connect(&service);
    let mut bytes = Vec::new();
    Request::Stat(path("/grid")).encode(&mut bytes);
    second.stream.write_all(&bytes).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while service.stats()["connections_waiting"] != 1 {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(service.stats()["in_progress"], 1);
    drop(first);
    assert!(matches!(second.reply(), Some(Reply::Entries(_))));
    assert!(second.reply().is_none(), "the service closes the connection");
    assert_eq!(
        service.stats()["answered"],
        1,
        "the beginning of a session is no operation"
    );
}

#[test]
fn what_is_no_request_ends_the_connection() {
    let scratch = Scratch::new();
    let file = scratch.0.join("catalogue.db");
    load(&file);
    let service = serve(&file, |_| {});
    let mut bulk = Vec::new();
    Request::Lookup(vec![Key::Guid(String::new()); MAX_BULK + 1]).encode(&mut bulk);
    let long = b"\x03PLC\0\0\x03\xea\xff\xff\xff\xff".to_vec();
    for bytes in [b"\x16\x03\x01\x02".to_vec(), b"\x03PLX".to_vec(), bulk, long] {
        let mut client = Client::connect(&service);
        client.stream.write_all(&bytes).unwrap();
        assert!(client.reply().is_none());
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while service.stats()["refused"] != 4 {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(
        Client::open(&service, "a").guids(vec![path("/grid")]),
        [Some(String::new())]
    );
}

#[test]
fn a_silent_session_ends_and_a_missing_catalogue_is_reported() {
    let scratch = Scratch::new();
    let file = scratch.0.join("catalogue.db");
    rusqlite::Connection::open(&file)
        .unwrap()
        .execute_batch("CREATE TABLE other (a)")
        .unwrap();
    let service = serve(&file, |config| config.idle_timeout_s = 1.0);
    let mut client = Client::open(&service, "a");
    let Reply::Result(status, text) = client.ask(&Request::Stat(path("/"))) else {
        panic!();
    };
    assert_eq!(status, Status::INTERNAL);
    assert!(text.contains("Cns_file_metadata"), "{text}");
    assert!(client.reply().is_none());
    service.finish().unwrap();
}
