//! `sql` with TLS, with real servers that support it.

use std::path::Path;

use plimsoll_model::Outcome;
use serde_json::{Value, json};

use crate::harness::*;
use crate::servers::{Database, Kind, PASSWORD_ENCODED};
use crate::tls::{Pki, pki, tls};

/// A server with TLS, whose certificate is for 127.0.0.1.
fn secure(kind: Kind, pki: &Pki) -> Option<Database> {
    let mut server = Database::start(kind)?;
    server.down();
    server.take_tls(&pki.directory);
    server.up();
    Some(server)
}

fn asked(url: &str, tls: Value, connection: &str) -> RunResult {
    let settings = json!({"connection": connection, "tls": tls});
    let request = json!({"query": "SELECT 1 UNION ALL SELECT 2"});
    run(spec(
        "sql",
        url,
        settings,
        request,
        closed(2),
        json!({"each_tester": 3}),
    ))
}

fn url(server: &Database, host: &str) -> String {
    let user = match server.kind {
        Kind::Postgres => "scram",
        Kind::Mariadb => "native",
    };
    server
        .url_of(&format!("{user}:{PASSWORD_ENCODED}"))
        .replace("127.0.0.1", host)
}

/// Query for whether the connection is encrypted, according to the server.
fn encrypted(kind: Kind) -> &'static str {
    match kind {
        Kind::Postgres => "SELECT 1 / (ssl::int) FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
        Kind::Mariadb => {
            "SELECT n FROM (SELECT 1 AS n) AS one JOIN information_schema.session_status \
             ON variable_name = 'Ssl_version' AND variable_value LIKE 'TLS%'"
        }
    }
}

fn one_row(server: &Database, tls: Value) -> RunResult {
    let settings = json!({"connection": "kept", "tls": tls});
    let request = json!({"query": encrypted(server.kind)});
    let url = url(server, "127.0.0.1");
    run(spec(
        "sql",
        &url,
        settings,
        request,
        closed(1),
        json!({"each_tester": 2}),
    ))
}

#[test]
fn queries_use_tls_with_a_private_ca() {
    let pki = pki("sql-tls", false);
    for kind in [Kind::Postgres, Kind::Mariadb] {
        let Some(server) = secure(kind, &pki) else {
            continue;
        };
        for connection in ["kept", "per-query"] {
            let ran = asked(&url(&server, "127.0.0.1"), trusted(&pki.directory), connection);
            assert_eq!(ran.results(), [(Outcome::Ok, ""); 6], "{:?}", ran.notes);
            assert!(ran.transactions.iter().all(|t| (t.items, t.payload) == (2, 2)));
        }
        let ran = one_row(&server, trusted(&pki.directory));
        assert_eq!(ran.results(), [(Outcome::Ok, ""); 2], "{:?}", ran.notes);
        assert!(
            ran.transactions.iter().all(|t| t.items == 1),
            "the server sees TLS"
        );
        let plain = one_row(&server, json!(null));
        assert!(
            plain.transactions.iter().all(|t| t.items == 0),
            "no TLS without the setting"
        );
        for (host, tls, code) in [
            ("localhost", trusted(&pki.directory), "of another name"),
            (
                "127.0.0.1",
                json!({"ca_file": null, "ca_dir": null, "cert": null, "key": null, "verify": true}),
                "unknown authority",
            ),
        ] {
            let ran = asked(&url(&server, host), tls, "kept");
            let expected = format!("tls invalid peer certificate: {code}");
            assert_eq!(
                ran.results(),
                [(Outcome::Error, expected.as_str()); 6],
                "{:?}",
                ran.notes
            );
        }
        let anyone = tls(&pki.directory, |tls| {
            tls["ca_dir"] = json!(null);
            tls["verify"] = json!(false);
        });
        let ran = asked(&url(&server, "localhost"), anyone, "kept");
        assert_eq!(ran.results(), [(Outcome::Ok, ""); 6], "{:?}", ran.notes);
    }
}

fn trusted(directory: &Path) -> Value {
    tls(directory, |_| {})
}

#[test]
fn a_client_certificate_logs_in() {
    let pki = pki("sql-client", false);
    let Some(server) = secure(Kind::Postgres, &pki) else {
        return;
    };
    server.add_rule("hostssl all clear 127.0.0.1/32 trust clientcert=verify-ca");
    let url = server.url_of("clear");
    let with = tls(&pki.directory, |tls| {
        tls["cert"] = json!(pki.directory.join("client.pem"));
        tls["key"] = json!(pki.directory.join("client.key"));
    });
    let ran = asked(&url, with, "kept");
    assert_eq!(ran.results(), [(Outcome::Ok, ""); 6], "{:?}", ran.notes);
    let ran = asked(&url, trusted(&pki.directory), "kept");
    assert_eq!(
        ran.results(),
        [(Outcome::Refused, "login refused"); 6],
        "{:?}",
        ran.notes
    );
}

#[test]
fn a_server_without_tls_is_refused_with_advice() {
    let pki = pki("sql-none", false);
    // MariaDB 10.11 has no TLS without a certificate.
    for server in super::filled::servers() {
        let ran = asked(&url(server, "127.0.0.1"), trusted(&pki.directory), "kept");
        assert_eq!(
            ran.results(),
            [(Outcome::Refused, "login refused"); 6],
            "{:?}",
            ran.notes
        );
        assert!(
            ran.notes
                .iter()
                .any(|(_, text)| text.contains("does not support TLS: enable it on the server"))
        );
        let ran = asked(&server.url(), trusted(&pki.directory), "kept");
        let about_passwords = |text: &str| text.contains("no password was given");
        assert!(!ran.notes.iter().any(|(_, text)| about_passwords(text)));
        let user = if server.kind == Kind::Postgres {
            "scram"
        } else {
            "native"
        };
        let ran = asked(&server.url_of(user), json!(null), "kept");
        assert_eq!(ran.results(), [(Outcome::Refused, "login refused"); 6]);
        assert!(
            ran.notes.iter().any(|(_, text)| about_passwords(text)),
            "{:?}",
            ran.notes
        );
    }
}
