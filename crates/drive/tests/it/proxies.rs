//! Grid proxies: the certificates that the drivers present, as a verifier of them and OpenSSL see
//! them.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plimsoll_grid_proxy::{Authorities, Verifier};
use plimsoll_model::Outcome;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use crate::harness::*;
use crate::http::{get, settings};
use crate::ldap::{answer_search, read_message, search, serve_start_tls};
use crate::tls::{Pki, pki, tls};

/// The certificates that the clients of a server have presented, for each connection.
type Chains = Arc<Mutex<Vec<Vec<CertificateDer<'static>>>>>;
type Secured = StreamOwned<ServerConnection, TcpStream>;

const TESTERS: usize = 2;
const TRANSACTIONS: usize = 6;
const CLOSED_LOAD: u32 = TESTERS as u32;

/// A driver with client certificates. `begin`: what its server does before TLS; `serve`: after it.
struct Row {
    driver: &'static str,
    scheme: &'static str,
    settings: Value,
    request: Value,
    begin: fn(&mut TcpStream),
    serve: fn(&mut Secured),
}

fn rows() -> Vec<Row> {
    let ldap = json!({
        "connection": "per-request", "bind": {"kind": "external"}, "start_tls": false, "tls": null,
    });
    let mut start_tls = ldap.clone();
    start_tls["start_tls"] = json!(true);
    vec![
        Row {
            driver: "http",
            scheme: "https",
            settings: settings("per-request"),
            request: get("/"),
            begin: |_| {},
            serve: serve_http,
        },
        Row {
            driver: "ldap",
            scheme: "ldaps",
            settings: ldap,
            request: search("(cn=*)"),
            begin: |_| {},
            serve: serve_ldap,
        },
        Row {
            driver: "ldap",
            scheme: "ldap",
            settings: start_tls,
            request: search("(cn=*)"),
            begin: serve_start_tls,
            serve: serve_ldap,
        },
        Row {
            driver: "sql",
            scheme: "postgresql",
            settings: json!({"connection": "per-query", "tls": null}),
            request: json!({"query": "SELECT 1"}),
            begin: begin_postgres,
            serve: serve_postgres,
        },
    ]
}

fn serve_http(stream: &mut Secured) {
    while read_request(stream).is_some() {
        if stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            .is_err()
        {
            return;
        }
    }
}

fn serve_ldap(stream: &mut Secured) {
    while let Some(request) = read_message(stream) {
        let Some(answer) = answer_search(&request) else {
            return;
        };
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

/// Accepts the request for TLS.
fn begin_postgres(stream: &mut TcpStream) {
    let mut request = [0; 8];
    stream.read_exact(&mut request).unwrap();
    stream.write_all(b"S").unwrap();
}

/// Accepts the login, and answers queries without rows.
fn serve_postgres(stream: &mut Secured) {
    const READY: &[u8] = b"Z\0\0\0\x05I";
    let mut read = |has_tag: bool| -> Option<u8> {
        let mut tag = [0];
        if has_tag {
            stream.read_exact(&mut tag).ok()?;
        }
        let mut length = [0; 4];
        stream.read_exact(&mut length).ok()?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
        stream.read_exact(&mut body).ok()?;
        let answer: &[u8] = match (has_tag, tag[0]) {
            (false, _) => b"R\0\0\0\x08\0\0\0\0",
            (true, b'Q') => b"C\0\0\0\x0dSELECT 0\0",
            _ => return None,
        };
        stream.write_all(&[answer, READY].concat()).ok()?;
        Some(tag[0])
    };
    if read(false).is_some() {
        while read(true).is_some() {}
    }
}

/// A configuration that requires certificates of the authority, or proxies of them.
fn accepting(pki: &Pki) -> Arc<ServerConfig> {
    let file = |name: &str| pki.directory.join(name);
    let mut trusted = Authorities::default();
    trusted
        .add(&CertificateDer::from_pem_file(file("cas/0123abcd.0")).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier::new(trusted, &provider);
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(Arc::new(verifier))
        .with_single_cert(
            vec![CertificateDer::from_pem_file(file("server.pem")).unwrap()],
            PrivateKeyDer::from_pem_file(file("server.key")).unwrap(),
        );
    Arc::new(config.unwrap())
}

/// A server of the row, and the chains that it has accepted.
fn server(row: &Row, config: &Arc<ServerConfig>) -> (Server, Chains) {
    let chains = Chains::default();
    let (begin, serve) = (row.begin, row.serve);
    let (config, seen) = (Arc::clone(config), Arc::clone(&chains));
    let server = Server::start(move |mut stream| {
        begin(&mut stream);
        let mut session = ServerConnection::new(Arc::clone(&config)).unwrap();
        while session.is_handshaking() {
            if session.complete_io(&mut stream).is_err() {
                return;
            }
        }
        let chain = session.peer_certificates().unwrap_or_default();
        let chain = chain.iter().map(|certificate| certificate.clone().into_owned());
        seen.lock().unwrap().push(chain.collect());
        serve(&mut StreamOwned::new(session, stream));
    });
    (server, chains)
}

fn client_tls(pki: &Pki, proxy: Value) -> Value {
    tls(&pki.directory, |tls| {
        tls["cert"] = json!(pki.directory.join("client.pem"));
        tls["key"] = json!(pki.directory.join("client.key"));
        tls["proxy"] = proxy.clone();
    })
}

#[test]
fn every_driver_with_client_certificates_presents_proxies() {
    let pki = pki("proxies", true);
    let config = accepting(&pki);
    let user = CertificateDer::from_pem_file(pki.directory.join("client.pem")).unwrap();
    // The number of certificates of a chain, and of different first certificates.
    let modes = [
        (Value::Null, 1, 1),
        (json!("run"), 2, 1),
        (json!("tester"), 2, TESTERS),
    ];
    for row in rows() {
        for (mode, length, different) in &modes {
            let (server, chains) = server(&row, &config);
            let mut settings = row.settings.clone();
            settings["tls"] = client_tls(&pki, mode.clone());
            let url = match row.driver {
                "sql" => format!("postgresql://user@127.0.0.1:{}/db", server.port),
                _ => server.url(row.scheme),
            };
            let ran = run(spec(
                row.driver,
                &url,
                settings,
                row.request.clone(),
                closed(CLOSED_LOAD),
                json!({"each_tester": TRANSACTIONS / TESTERS}),
            ));
            let about = format!("{} {mode}: {:?}", row.scheme, ran.notes);
            assert_eq!(
                ran.results(),
                [(Outcome::Ok, ""); TRANSACTIONS]
                    .map(|(outcome, code)| { (outcome, if row.driver == "http" { "200" } else { code }) }),
                "{about}"
            );
            let chains = chains.lock().unwrap();
            assert_eq!(chains.len(), TRANSACTIONS, "{about}");
            assert!(chains.iter().all(|chain| chain.len() == *length), "{about}");
            assert!(chains.iter().all(|chain| chain.last() == Some(&user)), "{about}");
            let first: HashSet<_> = chains.iter().map(|chain| &chain[0]).collect();
            assert_eq!(first.len(), *different, "{about}");
        }
    }
    std::fs::remove_dir_all(&pki.directory).unwrap();
}

#[test]
fn proxies_need_a_certificate() {
    let pki = pki("proxies-none", true);
    for row in rows() {
        let mut settings = row.settings;
        settings["tls"] = client_tls(&pki, json!("tester"));
        (settings["tls"]["cert"], settings["tls"]["key"]) = (Value::Null, Value::Null);
        let url = format!("{}://127.0.0.1:1", row.scheme);
        let end = json!({"transactions": 1});
        let message = refused(spec(row.driver, &url, settings, row.request, closed(1), end));
        let expected = if row.driver == "ldap" {
            "external"
        } else {
            "tls.proxy"
        };
        assert!(message.contains(expected), "{message}");
    }
    std::fs::remove_dir_all(&pki.directory).unwrap();
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// `openssl s_server`, which ends when it is dropped.
struct SServer(Child);

impl SServer {
    /// Starts it with a page about the client's certificate; none: `openssl` is not installed. With
    /// `CI=true` this is a failure.
    #[allow(clippy::print_stdout, reason = "the output of the tests contains the reason")]
    fn start(pki: &Pki, port: u16, options: &[&str]) -> Option<Self> {
        let file = |name: &str| pki.directory.join(name).display().to_string();
        let (cert, key, authority) = (file("server.pem"), file("server.key"), file("cas/0123abcd.0"));
        let child = Command::new("openssl")
            .args([
                "s_server",
                "-quiet",
                "-www",
                "-accept",
                &format!("127.0.0.1:{port}"),
            ])
            .args(["-cert", &cert, "-key", &key, "-CAfile", &authority])
            .args(["-Verify", "4", "-verify_return_error"])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            println!("SKIPPED: openssl is not installed (apt-get install openssl)");
            assert!(
                std::env::var_os("CI").is_none_or(|ci| ci != "true"),
                "with CI=true nothing may be skipped"
            );
            return None;
        };
        let server = Self(child);
        let until = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "openssl s_server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }
}

impl Drop for SServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn openssl_accepts_the_proxies_if_its_options_allow_them() {
    let pki = pki("proxies-openssl", true);
    for (options, is_accepted) in [(&["-allow_proxy_certs"][..], true), (&[], false)] {
        let port = free_port();
        let Some(_server) = SServer::start(&pki, port, options) else {
            return;
        };
        let mut settings = settings("per-request");
        settings["tls"] = client_tls(&pki, json!("tester"));
        let mut request = get("/");
        request["expect"]["contains"] = json!("Inherit all");
        let url = format!("https://127.0.0.1:{port}");
        let end = json!({"transactions": 4});
        let ran = run(spec("http", &url, settings, request, closed(2), end));
        let accepted = ran
            .results()
            .iter()
            .filter(|result| **result == (Outcome::Ok, "200"))
            .count();
        assert_eq!(accepted, if is_accepted { 4 } else { 0 }, "{:?}", ran.results());
    }
    std::fs::remove_dir_all(&pki.directory).unwrap();
}
