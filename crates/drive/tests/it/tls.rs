//! TLS: CA certificates, certificates, and the codes of those that are refused.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll_model::Outcome;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType, IsCa,
    KeyIdMethod, KeyPair, KeyUsagePurpose, SerialNumber, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};

use crate::harness::*;
use crate::http::{canned, directory, get, settings};

pub struct Pki {
    pub directory: PathBuf,
    pub server: Arc<rustls::ServerConfig>,
}

/// A CA certificate, the certificate of a server and that of a client, all in files.
pub fn pki(name: &str, ask_client: bool) -> Pki {
    let ca = authority("an authority", 4096, KeyPair::generate().unwrap());
    pki_of(name, ask_client, &ca, 4096)
}

/// A CA whose certificate expires at the end of the year before `end`.
fn authority(name: &str, end: i32, key: KeyPair) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(end, 1, 1);
    CertifiedIssuer::self_signed(params, key).unwrap()
}

/// The same with an existing CA, and certificates that expire before the year `end`.
fn pki_of(name: &str, ask_client: bool, ca: &CertifiedIssuer<'static, KeyPair>, end: i32) -> Pki {
    let directory = directory(name);
    let issue = |names: &[&str], file: &str| {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(end, 1, 1);
        let cert = params.signed_by(&key, ca).unwrap();
        std::fs::write(directory.join(format!("{file}.pem")), cert.pem()).unwrap();
        std::fs::write(directory.join(format!("{file}.key")), key.serialize_pem()).unwrap();
    };
    issue(&["127.0.0.1"], "server");
    issue(&["tester"], "client");
    std::fs::create_dir(directory.join("cas")).unwrap();
    // With the names that grids use, next to a file that is not a certificate.
    std::fs::write(directory.join("cas/0123abcd.0"), ca.pem()).unwrap();
    std::fs::write(
        directory.join("cas/0123abcd.signing_policy"),
        "access_id_CA X509 '/CN=x'",
    )
    .unwrap();
    let cert = CertificateDer::from_pem_file(directory.join("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(directory.join("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = if ask_client {
        let mut roots = rustls::RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(directory.join("cas/0123abcd.0")).unwrap())
            .unwrap();
        let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .unwrap();
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    Pki {
        directory,
        server: Arc::new(builder.with_single_cert(vec![cert], key).unwrap()),
    }
}

pub fn serve_tls(config: &Arc<rustls::ServerConfig>, stream: TcpStream, served: &AtomicUsize) {
    let session = rustls::ServerConnection::new(Arc::clone(config)).unwrap();
    let mut stream = rustls::StreamOwned::new(session, stream);
    while read_request(&mut stream).is_some() {
        served.fetch_add(1, Ordering::SeqCst);
        let body = "s".repeat(50_000);
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n{body}");
        if stream.write_all(answer.as_bytes()).is_err() || stream.flush().is_err() {
            return;
        }
    }
}

pub fn tls(directory: &Path, change: impl Fn(&mut Value)) -> Value {
    let mut tls =
        json!({"ca_file": null, "ca_dir": directory.join("cas"), "cert": null, "key": null, "verify": true});
    change(&mut tls);
    tls
}

#[test]
fn tls_works_with_a_private_ca() {
    let pki = pki("tls", false);
    let served = Arc::new(AtomicUsize::new(0));
    let (config, count) = (Arc::clone(&pki.server), Arc::clone(&served));
    let server = Server::start(move |stream| serve_tls(&config, stream, &count));
    let with = |url: String, tls: Value, connection: &str| {
        let mut settings = settings(connection);
        settings["tls"] = tls;
        run(spec(
            "http",
            &url,
            settings,
            get("/"),
            closed(2),
            json!({"transactions": 6}),
        ))
    };
    let trusted = tls(&pki.directory, |_| {});
    for connection in ["kept", "per-request"] {
        let ran = with(server.url("https"), trusted.clone(), connection);
        assert_eq!(
            (ran.counters.succeeded, ran.counters.payload),
            (6, 300_000),
            "{:?}",
            ran.results()
        );
        assert!(ran.transactions[0].connected > ran.transactions[0].start);
    }
    assert_eq!(served.load(Ordering::SeqCst), 12);
    let file = tls(&pki.directory, |tls| {
        tls["ca_dir"] = Value::Null;
        tls["ca_file"] = json!(pki.directory.join("cas/0123abcd.0"));
    });
    assert_eq!(with(server.url("https"), file, "kept").counters.succeeded, 6);
    // A name that the certificate does not contain, and a certificate of an unknown CA.
    let other = format!("https://localhost:{}", server.port);
    let ran = with(other.clone(), trusted, "kept");
    assert!(
        ran.results()
            .iter()
            .all(|(o, code)| *o == Outcome::Error && code.starts_with("tls ")),
        "{:?}",
        ran.results()
    );
    let careless = tls(&pki.directory, |tls| tls["verify"] = json!(false));
    assert_eq!(with(other, careless, "kept").counters.succeeded, 6);
    let stranger = tls(&pki.directory, |tls| {
        tls["ca_dir"] = Value::Null;
        tls["ca_file"] = json!(pki.directory.join("client.pem"));
    });
    let ran = with(server.url("https"), stranger, "kept");
    assert!(
        ran.results()
            .iter()
            .all(|(_, code)| code.starts_with("tls invalid peer certificate")),
        "{:?}",
        ran.results()
    );
    // A server without TLS.
    let plain = canned("HTTP/1.1 400 Bad\r\n\r\n", 1_000, true);
    let plain = Server::start(move |mut stream| {
        let _ = &plain;
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad\r\n\r\n");
    });
    let ran = with(plain.url("https"), tls(&pki.directory, |_| {}), "kept");
    assert!(
        ran.results()
            .iter()
            .all(|(o, code)| *o == Outcome::Error && code.starts_with("tls ")),
        "{:?}",
        ran.results()
    );
    std::fs::remove_dir_all(&pki.directory).unwrap();
}

/// Codes of three transactions with these settings.
fn codes_with(server: &Server, tls: Value) -> (u64, Vec<String>) {
    let mut settings = settings("per-request");
    settings["tls"] = tls;
    let ran = run(spec(
        "http",
        &server.url("https"),
        settings,
        get("/"),
        closed(1),
        json!({"transactions": 3}),
    ));
    let mut codes: Vec<String> = ran.results().iter().map(|(_, code)| (*code).to_owned()).collect();
    codes.dedup();
    (ran.counters.succeeded, codes)
}

fn tls_server(pki: &Pki) -> Server {
    let config = Arc::clone(&pki.server);
    Server::start(move |stream| serve_tls(&config, stream, &AtomicUsize::new(0)))
}

/// Adds files to `cas` that directories of grid sites contain in addition to valid certificates.
fn litter(cas: &Path, ca: &CertifiedIssuer<'static, KeyPair>) {
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, cas.join(name)).unwrap();
    let write = |name: &str, text: &[u8]| std::fs::write(cas.join(name), text).unwrap();
    // The same CA certificate again, with its name, and with the hash of another library.
    link("0123abcd.0", "an-authority.pem");
    link("an-authority.pem", "76543210.0");
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2000, 1, 1),
        next_update: date_time_ymd(2001, 1, 1),
        crl_number: SerialNumber::from(1_u64),
        issuing_distribution_point: None,
        revoked_certs: vec![],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let list = list.signed_by(ca).unwrap();
    write("0123abcd.r0", list.pem().unwrap().as_bytes());
    write("fedcba98.r0", list.der());
    write(
        "0123abcd.namespaces",
        b"TO Issuer \"/CN=x\" \\\n  PERMIT Subject \"/.*\"\n",
    );
    write(
        "an-authority.info",
        b"alias = an-authority\nca_url = http://x/ca.pem\n",
    );
    write("an-authority.crl_url", b"http://x/crl.der\n");
    write("empty.0", b"");
    write("noise.0", &[0xff, 0x00, 0x2d, 0x0a].repeat(3_000));
    write("half.0", &ca.pem().as_bytes()[..100]);
    write(
        "hollow.0",
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    );
    link("no-longer-there.pem", "89abcdef.0");
    link("round.0", "round.0");
    link("/dev/zero", "endless.0");
    std::fs::create_dir(cas.join("old")).unwrap();
    write("old/0123abcd.0", b"not looked at");
}

#[test]
fn a_directory_of_ca_certificates_can_contain_other_files() {
    let ca = authority("an authority", 4096, KeyPair::generate().unwrap());
    let pki = pki_of("grid", false, &ca, 4096);
    let server = tls_server(&pki);
    let cas = pki.directory.join("cas");
    litter(&cas, &ca);
    // An expired CA certificate does not affect the others.
    let expired = authority("an old one", 2001, KeyPair::generate().unwrap());
    std::fs::write(cas.join("00000000.0"), expired.pem()).unwrap();
    assert_eq!(codes_with(&server, tls(&pki.directory, |_| {})).0, 3);
    // Without the valid one no CA certificate remains, and the run is refused before it begins.
    for name in ["0123abcd.0", "00000000.0"] {
        std::fs::remove_file(cas.join(name)).unwrap();
    }
    for (key, path) in [
        ("ca_dir", cas.clone()),
        ("ca_file", pki.directory.join("server.key")),
    ] {
        let mut settings = settings("kept");
        settings["tls"] = tls(&pki.directory, |tls| {
            tls["ca_dir"] = Value::Null;
            tls[key] = json!(path);
        });
        let end = json!({"transactions": 1});
        let refusal = refused(spec(
            "http",
            &server.url("https"),
            settings,
            get("/"),
            closed(1),
            end,
        ));
        let path = path.display().to_string();
        assert!(
            refusal.contains("no CA certificate in") && refusal.contains(&path),
            "{refusal}"
        );
    }
    std::fs::remove_dir_all(&pki.directory).unwrap();
}

#[test]
fn the_code_states_what_is_wrong_with_a_certificate() {
    let key = KeyPair::generate().unwrap();
    let same_key = || KeyPair::from_pem(&key.serialize_pem()).unwrap();
    let ca = authority("an authority", 4096, same_key());
    let old_ca = authority("an authority", 2001, same_key());
    let other_ca = authority("another authority", 4096, KeyPair::generate().unwrap());
    let namesake = authority("an authority", 4096, KeyPair::generate().unwrap());
    let pki = pki_of("codes", false, &ca, 4096);
    let server = tls_server(&pki);
    let cas = pki.directory.join("cas");
    let with = |server: &Server, authorities: &[&CertifiedIssuer<'static, KeyPair>]| {
        std::fs::remove_dir_all(&cas).unwrap();
        std::fs::create_dir(&cas).unwrap();
        for (number, ca) in authorities.iter().enumerate() {
            std::fs::write(cas.join(format!("0000000{number}.0")), ca.pem()).unwrap();
        }
        let (succeeded, codes) = codes_with(server, tls(&pki.directory, |_| {}));
        assert_eq!(codes.len(), 1, "{codes:?}");
        assert!(succeeded == 0 || codes[0] == "200", "{codes:?}");
        codes[0]
            .strip_prefix("tls invalid peer certificate: ")
            .map(str::to_owned)
    };
    assert_eq!(with(&server, &[&ca]), None);
    assert_eq!(with(&server, &[&other_ca]).unwrap(), "unknown authority");
    let stale = "its authority has expired or is not valid yet";
    assert_eq!(with(&server, &[&old_ca]).unwrap(), stale);
    assert_eq!(with(&server, &[&old_ca, &other_ca]).unwrap(), stale);
    assert_eq!(with(&server, &[&old_ca, &namesake]).unwrap(), stale);
    assert_eq!(
        with(&server, &[&old_ca, &ca]),
        None,
        "a renewed authority is valid"
    );
    // The text of the library contains the time, so that each second would have a different code.
    let ended = pki_of("ended", false, &ca, 2001);
    assert_eq!(with(&tls_server(&ended), &[&ca]).unwrap(), "expired");
    for pki in [&pki, &ended] {
        std::fs::remove_dir_all(&pki.directory).unwrap();
    }
}

#[test]
fn a_client_certificate_is_sent_on_request() {
    let pki = pki("client", true);
    let served = Arc::new(AtomicUsize::new(0));
    let (config, count) = (Arc::clone(&pki.server), Arc::clone(&served));
    let server = Server::start(move |stream| serve_tls(&config, stream, &count));
    let with = |tls: Value| {
        let mut settings = settings("kept");
        settings["tls"] = tls;
        run(spec(
            "http",
            &server.url("https"),
            settings,
            get("/"),
            closed(1),
            json!({"transactions": 3}),
        ))
    };
    let ours = tls(&pki.directory, |tls| {
        tls["cert"] = json!(pki.directory.join("client.pem"));
        tls["key"] = json!(pki.directory.join("client.key"));
    });
    assert_eq!(with(ours).counters.succeeded, 3);
    let ran = with(tls(&pki.directory, |_| {}));
    assert_eq!(ran.counters.failed, 3, "{:?}", ran.results());
    let mut settings = settings("kept");
    settings["tls"] = tls(&pki.directory, |tls| tls["cert"] = json!("/no/such/file"));
    let refusal = refused(spec(
        "http",
        &server.url("https"),
        settings,
        get("/"),
        closed(1),
        json!({"transactions": 1}),
    ));
    assert!(refusal.contains("/no/such/file"), "{refusal}");
    std::fs::remove_dir_all(&pki.directory).unwrap();
}
