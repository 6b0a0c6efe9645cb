//! Scripted exchanges that the servers of the tests do not have: other authentication methods, and
//! servers that violate the protocol.

use super::{CancelKey, Event, Login, Refusal, Server, Session, SqlProtocolError, StreamEvent};

fn session(server: Server, password: Option<&str>) -> Session {
    let login = Login {
        user: "lab".to_owned(),
        password: password.map(str::to_owned),
        database: String::new(),
    };
    Session::new(server, login)
}

type Step = Result<Option<Event>, SqlProtocolError>;

fn receive(session: &mut Session, bytes: &[u8]) -> Step {
    session.outgoing().clear();
    session.received(bytes);
    session.next()
}

fn sent(session: &mut Session) -> Vec<u8> {
    std::mem::take(session.outgoing())
}

fn protocol_error(step: &Step) -> &'static str {
    match step {
        Err(SqlProtocolError::Nonsense(text)) => text,
        other => panic!("{other:?}"),
    }
}

fn login_error(step: &Step) -> &str {
    match step {
        Err(SqlProtocolError::Login(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// A message of `PostgreSQL`.
fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = body.len() as u32 + 4;
    [&[tag], &length.to_be_bytes()[..], body].concat()
}

fn authentication(kind: u32, body: &[u8]) -> Vec<u8> {
    message(b'R', &[&kind.to_be_bytes(), body].concat())
}

/// The first bytes of a stream of changes, and what the client reports.
#[test]
fn a_replication_stream_contains_texts_and_positions() {
    let login = Login {
        user: "lab".to_owned(),
        password: None,
        database: "d".to_owned(),
    };
    let mut session = Session::replicating(Server::Postgres, login);
    assert!(sent(&mut session).ends_with(b"replication\0database\0\0"));
    let ready = message(b'Z', b"I");
    let step = receive(&mut session, &[authentication(0, b""), ready].concat());
    assert_eq!(step, Ok(Some(Event::Ready)));
    session.query("START_REPLICATION SLOT s LOGICAL 0/0");
    let step = receive(&mut session, &message(b'W', b"\0\0\0"));
    assert_eq!(step, Ok(Some(Event::Stream(StreamEvent::Begins))));
    let header = |tag: u8| [&[tag], &7_u64.to_be_bytes()[..], &[0; 8]].concat();
    let text = |text: &[u8]| message(b'd', &[&header(b'w')[..], &[0; 8], text].concat());
    let decoded = |text: &str| {
        let text = text.to_owned();
        Event::Stream(StreamEvent::Decoded { position: 7, text })
    };
    assert_eq!(
        receive(&mut session, &text(b"COMMIT")),
        Ok(Some(decoded("COMMIT")))
    );
    let latin = receive(&mut session, &text(b"caf\xe9"));
    assert_eq!(latin, Ok(Some(decoded("caf\u{e9}"))));
    let step = receive(&mut session, &message(b'd', &[&header(b'k')[..], &[0]].concat()));
    assert_eq!(step, Ok(Some(Event::Stream(StreamEvent::Position(7)))));
    session.report_position(0x1234);
    let report = sent(&mut session);
    assert_eq!((report.len(), &report[..6]), (39, &b"d\0\0\0\x26r"[..]));
    assert_eq!(report[6..14], 0x1234_u64.to_be_bytes());
    let wrong = receive(&mut session, &message(b'd', b"?"));
    assert_eq!(protocol_error(&wrong), "unknown message of a replication stream");
}

/// A packet of `MariaDB`.
fn packet(sequence: u8, body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_le_bytes()[..3], &[sequence], body].concat()
}

fn greeting(method: &[u8]) -> Vec<u8> {
    let capabilities: u32 = 0x01ff_ffff;
    let [a, b, c, d] = capabilities.to_le_bytes();
    let body = [
        b"\x0a8.0.36\0\x01\0\0\0",
        b"12345678".as_slice(),
        &[0, a, b, 45, 2, 0, c, d, 21],
        &[0; 10],
        b"90abcdefghij\0",
        method,
        b"\0",
    ];
    packet(0, &body.concat())
}

fn ready(server: Server) -> Session {
    let mut session = session(server, Some("secret"));
    let step = match server {
        Server::Postgres => receive(
            &mut session,
            &[authentication(0, b""), message(b'Z', b"I")].concat(),
        ),
        Server::Mysql => {
            receive(&mut session, &greeting(b"mysql_native_password")).unwrap();
            receive(&mut session, &packet(2, b"\0\0\0\x02\0\0\0"))
        }
    };
    assert_eq!(step, Ok(Some(Event::Ready)));
    session
}

#[test]
fn postgres_must_prove_that_it_knows_the_password() {
    let offer = authentication(10, b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0");
    let begin = || {
        let mut session = session(Server::Postgres, Some("secret"));
        assert_eq!(receive(&mut session, &offer), Ok(None));
        let first = String::from_utf8(sent(&mut session)).unwrap();
        let nonce = first.rsplit("r=").next().unwrap().to_owned();
        assert!(nonce.len() >= 18, "{first}");
        (session, nonce)
    };
    let (mut session, nonce) = begin();
    let answer = format!("r={nonce}server,s=QSXCR+Q6sek8bf92,i=4096");
    assert_eq!(
        receive(&mut session, &authentication(11, answer.as_bytes())),
        Ok(None)
    );
    assert!(String::from_utf8(sent(&mut session)).unwrap().contains(",p="));
    let proof = authentication(12, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    assert!(login_error(&receive(&mut session, &proof)).contains("did not prove"));

    let (mut session, _) = begin();
    assert_eq!(
        protocol_error(&receive(&mut session, &authentication(0, b""))),
        "unexpected message during the login"
    );
    let (mut session, nonce) = begin();
    let endless = format!("r={nonce}server,s=QSXCR+Q6sek8bf92,i=4000000000");
    let step = receive(&mut session, &authentication(11, endless.as_bytes()));
    assert_eq!(
        protocol_error(&step),
        "SCRAM without a number of rounds, or with more than 1,000,000"
    );
    let (mut session, _) = begin();
    let other = authentication(11, b"r=anothernonce,s=QSXCR+Q6sek8bf92,i=4096");
    assert_eq!(
        protocol_error(&receive(&mut session, &other)),
        "invalid SCRAM message"
    );
    for kind in [11, 12] {
        let mut session = self::session(Server::Postgres, Some("secret"));
        assert_eq!(
            protocol_error(&receive(&mut session, &authentication(kind, b"x"))),
            "unexpected SCRAM message"
        );
    }
}

#[test]
fn postgres_methods_that_are_not_supported_are_login_errors() {
    for (bytes, part) in [
        (authentication(7, b""), "GSSAPI"),
        (authentication(2, b""), "Kerberos"),
        (authentication(9, b""), "SSPI"),
        (
            authentication(10, b"SCRAM-SHA-256-PLUS\0\0"),
            "without SCRAM-SHA-256",
        ),
    ] {
        let mut session = session(Server::Postgres, Some("secret"));
        let step = receive(&mut session, &bytes);
        assert!(login_error(&step).contains(part), "{step:?}");
        assert!(login_error(&step).contains("pg_hba.conf"), "{step:?}");
    }
    for bytes in [
        authentication(3, b""),
        authentication(5, b"salt"),
        authentication(10, b"SCRAM-SHA-256\0\0"),
    ] {
        let mut session = session(Server::Postgres, None);
        assert!(
            login_error(&receive(&mut session, &bytes)).contains("the password of lab, which is missing")
        );
    }
}

/// The hash is md5(md5("secretlab") + "salt"), computed by Python's hashlib.
#[test]
fn postgres_md5_and_cancel_are_as_documented() {
    let mut session = session(Server::Postgres, Some("secret"));
    let start = sent(&mut session);
    assert!(start.starts_with(b"\0\0\0"), "{start:?}");
    assert!(
        start.ends_with(b"application_name\0plimsoll\0\0"),
        "{}",
        start.escape_ascii()
    );
    assert_eq!(receive(&mut session, &authentication(5, b"salt")), Ok(None));
    assert_eq!(
        sent(&mut session),
        message(b'p', b"md5df422f44c27a931a8523f7017fde1b17\0")
    );
    let key = message(b'K', b"\0\0\x01\x02\x03\x04\x05\x06");
    assert_eq!(session.cancel_key(), None);
    assert_eq!(
        receive(&mut session, &[authentication(0, b""), key].concat()),
        Ok(None)
    );
    let key = session.cancel_key();
    assert_eq!(
        key,
        Some(CancelKey {
            process: 0x102,
            secret: 0x0304_0506
        })
    );
    let request = key.unwrap().request();
    assert_eq!(request, b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\x01\x02\x03\x04\x05\x06");
}

#[test]
fn mysql_logs_in_with_a_cached_hash() {
    let mut session = session(Server::Mysql, Some("secret"));
    assert!(sent(&mut session).is_empty(), "the server speaks first");
    assert_eq!(
        receive(&mut session, &greeting(b"caching_sha2_password")),
        Ok(None)
    );
    let response = sent(&mut session);
    assert!(response.windows(4).any(|part| part == b"lab\0"));
    assert!(response.ends_with(b"caching_sha2_password\0"));
    assert_eq!(response[4 + 32 + 4], 32, "length of the proof");
    assert_eq!(receive(&mut session, &packet(2, b"\x01\x03")), Ok(None));
    assert_eq!(
        receive(&mut session, &packet(3, b"\0\0\0\x02\0\0\0")),
        Ok(Some(Event::Ready))
    );

    let mut session = self::session(Server::Mysql, Some("secret"));
    receive(&mut session, &greeting(b"caching_sha2_password")).unwrap();
    let step = receive(&mut session, &packet(2, b"\x01\x04"));
    assert!(login_error(&step).contains("log in once"), "{step:?}");
}

#[test]
fn mysql_switches_the_method() {
    let mut session = session(Server::Mysql, Some("secret"));
    receive(&mut session, &greeting(b"caching_sha2_password")).unwrap();
    let nonce: Vec<u8> = (1..=20).collect();
    let switch = [b"\xfemysql_native_password\0".as_slice(), &nonce, b"\0"].concat();
    assert_eq!(receive(&mut session, &packet(2, &switch)), Ok(None));
    let proof = sent(&mut session);
    assert_eq!(proof[..4], [20, 0, 0, 3]);
    assert_eq!(proof.len(), 24);
    for (body, part) in [
        (b"\xfeclient_ed25519\0".as_slice(), "client_ed25519"),
        (b"\xfe", "mysql_old_password"),
        (b"\xfemysql_clear_password\0", "mysql_clear_password"),
    ] {
        let mut session = self::session(Server::Mysql, Some("secret"));
        receive(&mut session, &greeting(b"client_ed25519")).unwrap();
        let step = receive(&mut session, &packet(2, body));
        assert!(login_error(&step).contains(part), "{step:?}");
        assert!(sent(&mut session).is_empty(), "the password is not sent");
    }
}

#[test]
fn a_request_of_mysql_for_a_local_file_is_refused() {
    let mut session = ready(Server::Mysql);
    session.query("SELECT 1");
    let step = receive(&mut session, &packet(1, b"\xfb/etc/passwd"));
    assert_eq!(protocol_error(&step), "request for a local file");
}

/// The server sends this error before it knows the capabilities of the client: without SQLSTATE.
#[test]
fn mysql_with_too_many_connections_sends_an_error_instead_of_a_greeting() {
    let mut session = session(Server::Mysql, None);
    let step = receive(&mut session, &packet(0, b"\xff\x10\x04Too many connections"));
    let refusal = Refusal {
        code: "08004".to_owned(),
        number: 1040,
        message: "Too many connections".to_owned(),
    };
    assert_eq!(step, Ok(Some(Event::Failed(refusal))));
    assert_eq!(session.next(), Ok(None));
}

#[test]
fn lengths_over_the_limit_are_refused_before_the_message_arrives() {
    for header in [b"D\x7f\xff\xff\xff", b"T\x40\0\0\x01"] {
        let mut session = ready(Server::Postgres);
        session.query("SELECT 1");
        let step = receive(&mut session, header);
        assert!(
            matches!(step, Err(SqlProtocolError::TooLong(length)) if length > 1 << 30),
            "{step:?}"
        );
    }
    // During the login, a long message is one of another kind of server.
    for (server, bytes) in [
        (Server::Postgres, b"HTTP/1.1 400"),
        (Server::Mysql, b"SSH-2.0-Open"),
    ] {
        let step = receive(&mut session(server, None), bytes);
        assert_eq!(protocol_error(&step), "message of a login that is too long");
    }
}

#[test]
fn rows_have_as_many_values_as_there_are_columns() {
    let mut session = ready(Server::Postgres);
    session.query("SELECT 1");
    let column = b"\0\x01a\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0";
    let step = receive(&mut session, &message(b'T', column));
    assert!(matches!(step, Ok(Some(Event::Columns(_)))), "{step:?}");
    let two = message(b'D', b"\0\x02\0\0\0\x01a\0\0\0\x01b");
    assert_eq!(
        protocol_error(&receive(&mut session, &two)),
        "row with more or fewer values than columns"
    );
}

#[test]
fn a_prepared_statement_has_rows_without_a_description() {
    let mut session = ready(Server::Postgres);
    session.prepare("s", "SELECT a FROM t WHERE b = $1");
    assert!(sent(&mut session).starts_with(b"P"));
    let described = [
        message(b'1', b""),
        message(b't', b"\0\x01\0\0\0\x14"),
        message(b'T', b"\0\x01a\0\0\0\0\0\0\0\0\0\0\x14\0\x08\xff\xff\xff\xff\0\0"),
        message(b'Z', b"I"),
    ]
    .concat();
    let Ok(Some(Event::Columns(columns))) = receive(&mut session, &described) else {
        panic!("no columns");
    };
    assert_eq!(columns.len(), 1);
    assert_eq!(session.next(), Ok(Some(Event::Ready)));

    session.execute("s", [&b"1"[..]].into_iter(), 1);
    assert!(sent(&mut session).starts_with(b"B"));
    let rows = [
        message(b'2', b""),
        message(b'D', b"\0\x01\0\0\0\x015"),
        message(b'C', b"SELECT 1\0"),
        message(b'Z', b"I"),
    ]
    .concat();
    assert_eq!(receive(&mut session, &rows), Ok(Some(Event::Row)));
    assert_eq!(session.row().collect::<Vec<_>>(), [Some(&b"5"[..])]);
    assert_eq!(session.next(), Ok(Some(Event::Complete)));
    assert_eq!(session.next(), Ok(Some(Event::Ready)));
}

#[test]
fn a_query_that_a_server_cannot_accept_is_refused_by_the_session() {
    let mut session = ready(Server::Postgres);
    sent(&mut session);
    session.query("SELECT '\0'");
    assert!(sent(&mut session).is_empty());
    assert!(matches!(session.next(), Ok(Some(Event::Failed(refusal))) if refusal.code == "54000"));
    assert_eq!(session.next(), Ok(Some(Event::Ready)));
    assert_eq!(session.next(), Ok(None));
}

/// Between two queries and within a response.
#[test]
fn notifications_of_postgres_are_events() {
    let mut session = ready(Server::Postgres);
    let notification = message(b'A', b"\0\0\0\x07changes\0public.t\0");
    let expected = Event::Notified {
        channel: "changes".to_owned(),
        payload: "public.t".to_owned(),
    };
    assert_eq!(receive(&mut session, &notification), Ok(Some(expected.clone())));
    session.query("SELECT 1");
    let both = [notification, message(b'C', b"SELECT 1\0")].concat();
    assert_eq!(receive(&mut session, &both), Ok(Some(expected)));
    assert_eq!(session.next(), Ok(Some(Event::Complete)));
    let cut = message(b'A', b"\0\0\0\x07changes\0public.t");
    assert_eq!(protocol_error(&receive(&mut session, &cut)), "invalid message");
}

/// An error between two queries ends the session.
#[test]
fn an_idle_session_reads_the_last_error_of_its_server() {
    let mut session = ready(Server::Postgres);
    let error = message(b'E', b"SFATAL\0C57P01\0Mbye\0\0");
    assert!(
        matches!(receive(&mut session, &error), Ok(Some(Event::Failed(refusal))) if refusal.code == "57P01")
    );
    let mut session = ready(Server::Mysql);
    let error = packet(0, b"\xff\x87\x07#70100Connection was killed");
    assert!(
        matches!(receive(&mut session, &error), Ok(Some(Event::Failed(refusal))) if refusal.number == 1927)
    );
    assert_eq!(session.next(), Ok(None));
}

#[test]
fn the_transaction_status_is_the_last_one_that_the_server_reported() {
    use super::TransactionStatus::{Failed, Idle, Open, Unknown};
    let mut session = ready(Server::Postgres);
    assert_eq!(session.transaction(), Idle);
    for (state, status) in [(b"T", Open), (b"E", Failed), (b"I", Idle)] {
        session.query("SELECT 1");
        let answer = [message(b'C', b"SELECT 1\0"), message(b'Z', state)].concat();
        assert_eq!(receive(&mut session, &answer), Ok(Some(Event::Complete)));
        assert_eq!(session.next(), Ok(Some(Event::Ready)));
        assert_eq!(session.transaction(), status);
    }
    session.query("SELECT 1");
    let step = receive(&mut session, &message(b'Z', b"?"));
    assert_eq!(protocol_error(&step), "unknown transaction status");

    let mut session = ready(Server::Mysql);
    let ok = |status: u8| packet(1, &[0, 0, 0, status, 0, 0, 0]);
    for (status, expected) in [(3, Open), (2, Idle)] {
        session.query("SELECT 1");
        assert_eq!(receive(&mut session, &ok(status)), Ok(Some(Event::Complete)));
        assert_eq!(session.next(), Ok(Some(Event::Ready)));
        assert_eq!(session.transaction(), expected);
    }
    session.query("SELECT 1");
    let step = receive(&mut session, &packet(1, b"\xff\x26\x04#23000duplicate"));
    assert!(matches!(step, Ok(Some(Event::Failed(_)))), "{step:?}");
    assert_eq!(session.next(), Ok(Some(Event::Ready)));
    assert_eq!(session.transaction(), Unknown);
    session.outgoing().clear();
    session.ping();
    assert_eq!(sent(&mut session), packet(0, b"\x0e"));
    assert_eq!(receive(&mut session, &ok(3)), Ok(Some(Event::Complete)));
    assert_eq!(session.transaction(), Open);
}

fn secured(server: Server) -> Session {
    let login = Login {
        user: "lab".to_owned(),
        password: Some("secret".to_owned()),
        database: String::new(),
    };
    Session::secured(server, login)
}

#[test]
fn postgres_receives_the_user_only_through_tls() {
    let mut session = secured(Server::Postgres);
    assert_eq!(sent(&mut session), b"\0\0\0\x08\x04\xd2\x16\x2f");
    assert_eq!(session.next(), Ok(None));
    assert_eq!(receive(&mut session, b"S"), Ok(Some(Event::StartTls)));
    assert!(sent(&mut session).is_empty());
    session.tls_started();
    assert!(sent(&mut session).ends_with(b"application_name\0plimsoll\0\0"));
    let bytes = [authentication(0, b""), message(b'Z', b"I")].concat();
    assert_eq!(receive(&mut session, &bytes), Ok(Some(Event::Ready)));

    let step = receive(&mut secured(Server::Postgres), b"N");
    assert!(login_error(&step).contains("does not support TLS: enable it on the server (ssl = on)"));
    // Bytes that an attacker inserts after the response must not count as received through TLS.
    let injected = [b"S".as_slice(), &authentication(0, b"")].concat();
    let step = receive(&mut secured(Server::Postgres), &injected);
    assert_eq!(protocol_error(&step), "bytes before the TLS handshake");
    let step = receive(&mut secured(Server::Postgres), b"HTTP/1.1 400");
    assert_eq!(protocol_error(&step), "invalid response to the TLS request");
}

#[test]
fn mysql_receives_the_user_and_the_password_only_through_tls() {
    let mut session = secured(Server::Mysql);
    assert_eq!(
        receive(&mut session, &greeting(b"caching_sha2_password")),
        Ok(Some(Event::StartTls))
    );
    let request = sent(&mut session);
    assert_eq!(request[..4], [32, 0, 0, 1]);
    assert_eq!(request.len(), 36, "only the capabilities");
    assert_eq!(request[5] & 8, 8, "CLIENT_SSL");
    session.tls_started();
    let response = sent(&mut session);
    assert_eq!(response[3], 2, "the packet after the request");
    assert_eq!(response[4..36], request[4..36]);
    assert!(response.windows(4).any(|part| part == b"lab\0"));
    // The server does not have the hash in its cache and requests the password itself.
    assert_eq!(receive(&mut session, &packet(3, b"\x01\x04")), Ok(None));
    assert_eq!(sent(&mut session), packet(4, b"secret\0"));
    let ok = packet(5, b"\0\0\0\x02\0\0\0");
    assert_eq!(receive(&mut session, &ok), Ok(Some(Event::Ready)));

    let mut plain = greeting(b"mysql_native_password");
    // The second byte of the capabilities, after header, version, number and random bytes.
    plain[26] &= !8;
    let step = receive(&mut secured(Server::Mysql), &plain);
    assert!(login_error(&step).contains("does not support TLS"), "{step:?}");
    let injected = [greeting(b"mysql_native_password"), ok].concat();
    let step = receive(&mut secured(Server::Mysql), &injected);
    assert_eq!(protocol_error(&step), "bytes before the TLS handshake");
}
