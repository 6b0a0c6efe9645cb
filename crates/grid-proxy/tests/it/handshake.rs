//! The verifier in TLS 1.2 and 1.3, without a network.

use std::sync::Arc;

use plimsoll_grid_proxy::{Language, Verifier};
use rustls::client::Resumption;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::TimeProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion,
};

use crate::make::{
    KEY_USAGE, Party, SUBJECT_ALTERNATIVE_NAME, authorities, authority, chain, now, proxy, usage, user, value,
};

#[derive(Debug)]
struct FixedTime;

impl TimeProvider for FixedTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(now())
    }
}

struct Peers {
    authority: Party,
    server: Arc<ServerConfig>,
}

impl Peers {
    fn new(version: &'static SupportedProtocolVersion) -> Self {
        let authority = authority("authority", None, |_| {});
        let host = user(&authority, |draft| {
            let name = value(0x30, &[&value(0x82, &[b"localhost"])]);
            draft.set(SUBJECT_ALTERNATIVE_NAME, false, &name);
        });
        let provider = Arc::new(default_provider());
        let verifier = Verifier::new(authorities(&[&authority]), &provider);
        let server = ServerConfig::builder_with_details(provider, Arc::new(FixedTime))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_client_cert_verifier(Arc::new(verifier))
            .with_single_cert(
                chain(&[&host]),
                PrivateKeyDer::try_from(host.key_der.clone()).unwrap(),
            )
            .unwrap();
        Self {
            authority,
            server: Arc::new(server),
        }
    }

    /// The number of certificates that the server has received, or its error and that of the
    /// client. `signer`: whose key signs the handshake.
    fn shake(&self, presented: &[&Party], signer: &Party) -> Result<usize, (String, String)> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der.clone()).unwrap();
        let identity = CertifiedKey::new(chain(presented), Arc::clone(&signer.key));
        let mut client =
            ClientConfig::builder_with_details(Arc::new(default_provider()), Arc::new(FixedTime))
                .with_protocol_versions(&[&TLS12, &TLS13])
                .unwrap()
                .with_root_certificates(roots)
                .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
        client.resumption = Resumption::disabled();
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
        let mut server = ServerConnection::new(Arc::clone(&self.server)).unwrap();
        for _ in 0..10 {
            let mut sent = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut sent).unwrap();
            }
            let mut rest = sent.as_slice();
            while !rest.is_empty() {
                server.read_tls(&mut rest).unwrap();
                let result = server.process_new_packets();
                if let Err(error) = result {
                    let mut alert = Vec::new();
                    while server.wants_write() {
                        server.write_tls(&mut alert).unwrap();
                    }
                    client.read_tls(&mut alert.as_slice()).unwrap();
                    let of_client = client.process_new_packets().unwrap_err();
                    return Err((error.to_string(), of_client.to_string()));
                }
            }
            let mut sent = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut sent).unwrap();
            }
            let mut rest = sent.as_slice();
            while !rest.is_empty() {
                client.read_tls(&mut rest).unwrap();
                client.process_new_packets().unwrap();
            }
        }
        assert!(!server.is_handshaking());
        Ok(server.peer_certificates().unwrap().len())
    }
}

#[test]
fn clients_with_certificates_and_with_proxies_are_accepted() {
    for version in [&TLS12, &TLS13] {
        let peers = Peers::new(version);
        let user = user(&peers.authority, |_| {});
        let first = proxy(&user, |_| {});
        let second = proxy(&first, |_| {});
        assert_eq!(peers.shake(&[&user], &user), Ok(1));
        assert_eq!(peers.shake(&[&first, &user], &first), Ok(2));
        assert_eq!(peers.shake(&[&second, &first, &user], &second), Ok(3));
    }
}

#[test]
fn a_proxy_without_its_key_is_refused() {
    for version in [&TLS12, &TLS13] {
        let peers = Peers::new(version);
        let user = user(&peers.authority, |_| {});
        let first = proxy(&user, |_| {});
        let (error, _) = peers.shake(&[&first, &user], &user).unwrap_err();
        assert!(error.contains("BadSignature"), "{error}");
    }
}

#[test]
fn the_error_of_the_server_states_the_rule() {
    let peers = Peers::new(&TLS13);
    let user = user(&peers.authority, |_| {});
    let last = proxy(&user, |draft| draft.information(Some(0), Language::InheritAll));
    let below = proxy(&last, |_| {});
    let (error, of_client) = peers.shake(&[&below, &last, &user], &below).unwrap_err();
    assert!(error.contains("PathLength { permitted: 0, found: 1 }"), "{error}");
    assert!(of_client.contains("CertificateUnknown"), "{of_client}");
    let silent = proxy(&user, |draft| draft.set(KEY_USAGE, true, &usage(0x20)));
    let (error, _) = peers.shake(&[&silent, &user], &silent).unwrap_err();
    assert!(error.contains("KeyUsage"), "{error}");
    let (error, of_client) = peers.shake(&[&last], &last).unwrap_err();
    assert!(error.contains("NoEndEntity"), "{error}");
    assert!(of_client.contains("CertificateUnknown"), "{of_client}");
}
