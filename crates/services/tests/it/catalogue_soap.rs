//! The catalogue over SOAP: operations, messages that fail as a whole, faults, HTTP, and clients
//! that send something else.

use plimsoll_services::catalogue::{Logic, Protocol};
use plimsoll_wire::catalogue::soap::{Answer, Call, Fault, FaultCode, MAX_MESSAGE};
use plimsoll_wire::catalogue::{DataSet as Names, Key, Reply, Request, Status};

use crate::catalogue::{NAMES, OWNER, load, new, path, serve};
use crate::servers::{self, Kind};
use crate::support::{Client, Running, Scratch};

const FIELDS: &str = "Content-Type: text/xml; charset=utf-8\r\nSOAPAction: \"\"\r\n";

/// The catalogue with its data set over `SQLite`. The directory is removed when this is dropped.
fn soap() -> (Running, Scratch) {
    let scratch = Scratch::new();
    let file = scratch.0.join("catalogue.db");
    load(&file);
    (serve(&file, |config| config.protocol = Protocol::Soap), scratch)
}

fn send(client: &mut Client, subject: &str, call: &Call) -> Answer {
    let mut text = String::new();
    call.encode(subject, &mut text);
    let response = client.request("POST", "/catalogue", FIELDS, text.as_bytes());
    let answer = Answer::decode(call.operation(), &response.body).unwrap();
    let status = match answer {
        Answer::Done(_) => 200,
        Answer::Fault(_) => 500,
    };
    assert_eq!(response.status, status);
    assert_eq!(response.field("content-type"), Some("text/xml; charset=utf-8"));
    answer
}

/// A client that sends all messages on one connection.
pub struct Soap {
    client: Client,
    subject: &'static str,
}

impl Soap {
    pub fn new(service: &Running, subject: &'static str) -> Self {
        Self {
            client: service.connect(),
            subject,
        }
    }

    fn done(&mut self, call: &Call) -> Reply {
        match send(&mut self.client, self.subject, call) {
            Answer::Done(reply) => reply,
            Answer::Fault(fault) => panic!("{fault:?}"),
        }
    }

    /// The reply, or the result of the operation that failed.
    pub fn reply(&mut self, call: &Call) -> Reply {
        match send(&mut self.client, self.subject, call) {
            Answer::Done(reply) => reply,
            Answer::Fault(fault) => {
                let (status, _) = fault.failed.unwrap();
                Reply::Result(status, fault.text)
            }
        }
    }

    fn fault(&mut self, call: &Call) -> (FaultCode, Status, usize) {
        match send(&mut self.client, self.subject, call) {
            Answer::Fault(Fault {
                code,
                failed: Some((status, index)),
                ..
            }) => (code, status, index),
            other => panic!("{other:?}"),
        }
    }

    fn exist(&mut self, keys: Vec<Key>) -> Vec<Status> {
        match self.done(&Call::existence(keys)) {
            Reply::Results(results) => results,
            other => panic!("{other:?}"),
        }
    }
}

fn call(requests: impl Into<Vec<Request>>) -> Call {
    Call::of(requests.into()).unwrap()
}

fn client_fault(status: Status, index: usize) -> (FaultCode, Status, usize) {
    (FaultCode::Client, status, index)
}

/// What both databases must do.
fn operations(service: &Running) {
    let mut first = Soap::new(service, "/O=Lab/CN=first");
    let guid = NAMES.guid(120);
    let name = NAMES.path(120, &guid);
    let replica = |number| Names::replica(&guid, number);
    let keys = vec![
        path(&name),
        Key::Guid(guid.clone()),
        Key::Replica(replica(1)),
        path(&name),
    ];
    let Reply::Entries(found) = first.done(&call([Request::Lookup(keys)])) else {
        panic!();
    };
    assert_eq!(found.len(), 4);
    for found in found {
        let found = found.unwrap();
        assert_eq!((found.guid, found.mode), (guid.clone(), 0o100_644));
        assert_eq!(found.replicas, [replica(0), replica(1)]);
    }
    let page = Request::List {
        path: Names::directory_path(2),
        after: String::new(),
        max: 30,
    };
    let Reply::Directory { entries, is_last } = first.done(&call([page])) else {
        panic!();
    };
    assert_eq!((entries.len(), is_last), (30, false));

    // A message succeeds or fails as a whole.
    let count = |reply| matches!(reply, Reply::Results(results) if results == [Status::OK; 50]);
    let bulk: Vec<_> = (0..50)
        .map(|number| new(&format!("/grid/new/n<{number}")))
        .collect();
    let all = || -> Vec<Key> { bulk.iter().map(|entry| path(&entry.path)).collect() };
    let mut broken = bulk.clone();
    broken[30].path = "/grid/none/a".into();
    let register = |entries| call([Request::Register(entries)]);
    assert_eq!(first.fault(&register(broken)), client_fault(Status::NO_ENTRY, 30));
    assert_eq!(first.exist(all()), [Status::NO_ENTRY; 50]);
    assert!(count(first.done(&register(bulk.clone()))));
    assert_eq!(first.exist(all()), [Status::OK; 50]);
    assert_eq!(
        first.fault(&register(bulk.clone())),
        client_fault(Status::EXISTS, 0)
    );

    let mut with_missing = all();
    with_missing.insert(2, path("/grid/new/none"));
    let lookup = call([Request::Lookup(with_missing.clone())]);
    assert_eq!(first.fault(&lookup), client_fault(Status::NO_ENTRY, 2));
    let delete = |keys| call([Request::Delete(keys)]);
    assert_eq!(
        first.fault(&delete(with_missing)),
        client_fault(Status::NO_ENTRY, 2)
    );
    assert_eq!(first.exist(all()), [Status::OK; 50]);
    permissions(service, &mut first);
    assert!(count(first.done(&delete(all()))));
    assert_eq!(first.exist(all()), [Status::NO_ENTRY; 50]);
}

fn permissions(service: &Running, first: &mut Soap) {
    let mut second = Soap::new(service, "/O=Lab/CN=second");
    let make = |names: &[&str]| {
        let requests: Vec<Request> = names
            .iter()
            .map(|name| Request::MakeDirectory {
                path: format!("/grid/new/{name}"),
                mode: 0o755,
            })
            .collect();
        call(requests)
    };
    first.done(&make(&["a", "b"]));
    assert_eq!(
        first.fault(&make(&["c", "b", "d"])),
        client_fault(Status::EXISTS, 1)
    );
    let exists = [Status::OK, Status::NO_ENTRY];
    assert_eq!(
        first.exist(vec![path("/grid/new/a"), path("/grid/new/c")]),
        exists
    );
    let mode = |names: &[&str]| {
        let requests: Vec<Request> = names
            .iter()
            .map(|name| Request::SetMode {
                path: format!("/grid/new/{name}"),
                mode: 0o700,
            })
            .collect();
        call(requests)
    };
    assert_eq!(second.fault(&mode(&["a"])), client_fault(Status::FORBIDDEN, 0));
    first.done(&mode(&["a", "b"]));
    let inside = call([Request::Register(vec![new("/grid/new/a/x")])]);
    assert_eq!(second.fault(&inside), client_fault(Status::FORBIDDEN, 0));
    // The subject is that of the message, also on a kept connection.
    second.subject = first.subject;
    second.done(&inside);

    let entry = new("/grid/new/a/x");
    let add = |name: &str| Request::AddReplica {
        guid: entry.guid.clone(),
        replica: name.into(),
    };
    first.done(&call([add("r1"), add("r2")]));
    assert_eq!(
        first.fault(&call([add("r3"), add("r1")])),
        client_fault(Status::EXISTS, 1)
    );
    let remove = |name: &str| Request::DeleteReplica { replica: name.into() };
    let none = call([remove("r1"), remove("r3")]);
    assert_eq!(first.fault(&none), client_fault(Status::NO_ENTRY, 1));
    assert_eq!(first.exist(vec![Key::Replica("r1".into())]), [Status::OK]);
    first.done(&call([remove("r1"), remove("r2")]));
    let mut owner = Soap::new(service, OWNER);
    let Reply::Entries(found) = owner.done(&call([Request::Lookup(vec![path("/grid/data")])])) else {
        panic!();
    };
    assert_eq!(found[0].as_ref().unwrap().owner, 101);
}

#[test]
fn all_operations_over_sqlite() {
    let (service, _scratch) = soap();
    operations(&service);
    let stats = service.stats();
    assert_eq!(
        (&stats["database_errors"], &stats["refused"]),
        (&0.into(), &0.into())
    );
    assert_eq!(stats["received"], stats["answered"]);
}

#[test]
fn all_operations_over_database_servers() {
    for (kind, logic) in [
        (Kind::Postgres, Logic::Server),
        (Kind::Postgres, Logic::Database),
        (Kind::Mariadb, Logic::Server),
    ] {
        let Some(server) = servers::shared(kind) else {
            continue;
        };
        let url = server.url(&server.database("SELECT 1;"));
        load(&url);
        let service = serve(&url, |config| {
            config.protocol = Protocol::Soap;
            config.logic = logic;
        });
        operations(&service);
        assert_eq!(service.stats()["database_errors"], 0);
    }
}

#[test]
fn the_description_is_served_at_the_address_of_the_client() {
    let (service, _scratch) = soap();
    let response = service.get("/catalogue?wsdl");
    assert_eq!(response.status, 200);
    assert!(response.text().contains("location=\"http://h/catalogue\""));
    assert_eq!(service.get("/catalogue").status, 404);
}

#[test]
fn what_is_no_message_is_refused() {
    let (service, _scratch) = soap();
    let mut client = service.connect();
    let doctype = "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>";
    for (fields, body, status, text) in [
        (FIELDS, doctype, 500, "document type"),
        (FIELDS, "not XML", 500, "S:Client"),
        ("", "<a/>", 415, "text/xml"),
        ("Content-Type: application/json\r\n", "{}", 415, "text/xml"),
    ] {
        // The connection can still be used.
        let response = client.request("POST", "/catalogue", fields, body.as_bytes());
        assert_eq!(response.status, status, "{body}");
        assert!(response.text().contains(text), "{}", response.text());
    }
    assert_eq!(client.request("PUT", "/", FIELDS, b"").status, 405);
    let interim = format!("POST / HTTP/1.1\r\nExpect: 100-continue\r\n{FIELDS}Content-Length: 3\r\n\r\n");
    client.send(interim.as_bytes());
    assert_eq!(client.line().as_deref(), Some("HTTP/1.1 100 Continue"));
    assert_eq!(client.line().as_deref(), Some(""));
    client.send(b"<a>");
    assert_eq!(client.response().status, 500);

    for (head, status) in [
        (format!("Content-Length: {}\r\n", MAX_MESSAGE + 1), 413),
        ("Transfer-Encoding: chunked\r\n".into(), 411),
        (format!("A: {}\r\n", "a".repeat(1 << 20)), 431),
    ] {
        let mut client = service.connect();
        client.send(format!("POST / HTTP/1.1\r\n{head}\r\n").as_bytes());
        let response = client.response();
        assert_eq!(
            (response.status, response.field("connection")),
            (status, Some("close"))
        );
    }
    let stats = service.stats();
    assert_eq!((&stats["answered"], &stats["refused"]), (&0.into(), &9.into()));
}

/// A message that is as large as one may be needs a bounded time, whatever it contains.
#[test]
fn a_hostile_message_of_8_mb_is_a_fault() {
    let (service, _scratch) = soap();
    let open = "<S:Envelope xmlns:S='http://schemas.xmlsoap.org/soap/envelope/'>";
    let fill = |piece: &str| piece.repeat((MAX_MESSAGE - 1000) / piece.len());
    for hostile in [
        fill("<a>"),
        format!("<a {}/>", fill("b='c' ")),
        format!("<a {}/>", fill("xmlns:b='c' ")),
        format!("{open}<S:Header>{}", fill("<b/>")),
        format!("{open}<S:Header>{}", fill("&amp;")),
        format!(
            "{open}<S:Body><removeReplica xmlns='urn:plimsoll:catalogue'><replica>{}",
            fill("a")
        ),
        format!(
            "{open}<S:Body><removeReplica xmlns='urn:plimsoll:catalogue'>{}",
            fill("<replica/>")
        ),
    ] {
        let mut client = service.connect();
        let response = client.request("POST", "/", FIELDS, hostile.as_bytes());
        assert_eq!(response.status, 500, "{}", &hostile[..100]);
    }
}

#[test]
fn a_connection_ends_when_the_client_asks_for_it_or_is_silent() {
    let scratch = Scratch::new();
    let file = scratch.0.join("catalogue.db");
    load(&file);
    let service = serve(&file, |config| {
        config.protocol = Protocol::Soap;
        config.idle_timeout_s = 0.2;
        config.threads = 1;
    });
    let mut text = String::new();
    Call::existence(vec![path("/grid")]).encode("", &mut text);
    let mut client = service.connect();
    let fields = format!("{FIELDS}Connection: close\r\n");
    assert_eq!(client.request("POST", "/", &fields, text.as_bytes()).status, 200);
    assert_eq!(client.rest(), b"");
    // The only thread serves the next connection, until it is silent.
    let mut client = service.connect();
    assert_eq!(client.request("POST", "/", FIELDS, text.as_bytes()).status, 200);
    assert_eq!(client.rest(), b"");
}
