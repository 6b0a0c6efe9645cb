//! A client that is not an agent of the experiment is refused and counted, and does not prevent
//! agents from connecting.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_link::dial::{DialError, Dialer, Fault};
use plimsoll_link::identity::{Identity, Keys};
use plimsoll_link::listen::{Bounds, Listener, Reason};
use plimsoll_link::transport::Transport::{self, Quic, Tcp};
use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::relay::Relay;
use crate::{BOTH, ENGINE, TIMEOUT, dialer, link, open, talk, token};

const PROTOCOL: &[u8] = b"plimsoll-link/1";
const TLS13: &SupportedProtocolVersion = &rustls::version::TLS13;

/// Accepts any server certificate.
#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// Presents one certificate and signs with the key of another one.
#[derive(Debug)]
struct Thief(Arc<CertifiedKey>);

impl ResolvesClientCert for Thief {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

fn stranger(version: &'static SupportedProtocolVersion, protocol: &[u8]) -> ClientConfig {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer))
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    config
}

fn thief(certificate: &Identity, key: &Identity) -> ClientConfig {
    let mut config = stranger(TLS13, PROTOCOL);
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.key().reveal().to_vec()));
    let key = ring::default_provider()
        .key_provider
        .load_private_key(key)
        .unwrap();
    let chain = vec![CertificateDer::from(certificate.certificate().to_vec())];
    config.client_auth_cert_resolver = Arc::new(Thief(Arc::new(CertifiedKey::new(chain, key))));
    config
}

/// Number of bytes that a client with `config` reads over TLS or QUIC before the listener closes
/// the connection.
async fn intrude(config: ClientConfig, address: SocketAddr, via: Transport) -> Result<usize, String> {
    let mut heard = [0; 64];
    match via {
        Tcp => {
            let stream = TcpStream::connect(address)
                .await
                .map_err(|error| error.to_string())?;
            let name = ServerName::try_from("any.invalid").unwrap();
            let connector = TlsConnector::from(Arc::new(config));
            let mut stream = connector
                .connect(name, stream)
                .await
                .map_err(|error| error.to_string())?;
            stream.read(&mut heard).await.map_err(|error| error.to_string())
        }
        Quic => {
            let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(config).unwrap();
            let mut endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
            endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(crypto)));
            let connection = endpoint.connect(address, "any.invalid").unwrap();
            let connection = connection.await.map_err(|error| error.to_string())?;
            let (_send, mut receive) = connection.accept_bi().await.map_err(|error| error.to_string())?;
            let read = receive
                .read(&mut heard)
                .await
                .map_err(|error| error.to_string())?;
            Ok(read.unwrap_or(0))
        }
    }
}

/// Waits until `reason` was counted `times` times.
async fn counted(listener: &Listener, reason: Reason, times: u64) {
    let count = async {
        while listener.counters().refused.get(&reason).copied().unwrap_or(0) < times {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let done = timeout(TIMEOUT, count).await;
    assert!(
        done.is_ok(),
        "{reason:?} is not {times} in {:?}",
        listener.counters()
    );
}

/// Checks that an agent can connect over each transport.
async fn agents_connect(listener: &mut Listener, keys: &Keys) {
    for via in BOTH {
        let (mut near, mut far) = link(listener, &dialer(keys, listener.address(), via)).await;
        talk(&mut near, &mut far).await;
    }
}

#[tokio::test]
async fn a_wrong_key_is_refused_and_the_agent_does_not_retry() {
    let (mut listener, keys) = open(Bounds::default());
    for (times, via) in (1..).zip(BOTH) {
        let mut wrong = token(&keys, &[listener.address()], &[via]);
        wrong.agent = Identity::generate().unwrap();
        let dialed = timeout(TIMEOUT, Dialer::new(&wrong, ENGINE).unwrap().dial(TIMEOUT)).await;
        let error = dialed.unwrap().unwrap_err();
        assert!(
            matches!(
                error,
                DialError::NoLink {
                    fault: Fault::Refused,
                    ..
                }
            ),
            "{error}"
        );
        assert!(
            error.to_string().contains("does not know this token's key"),
            "{error}"
        );
        counted(&listener, Reason::WrongKey, times).await;
    }
    agents_connect(&mut listener, &keys).await;
    assert_eq!(listener.counters().accepted, 2);
    let refusals: Vec<_> = listener.refusals().iter().map(ToString::to_string).collect();
    assert_eq!(refusals.len(), 2, "{refusals:?}");
    assert!(
        refusals[0].starts_with("a connection from 127.0.0.1 (tcp) was refused: "),
        "{refusals:?}"
    );
}

#[tokio::test]
async fn a_client_without_key_or_certificate_is_refused() {
    let (mut listener, keys) = open(Bounds::default());
    let other = Identity::generate().unwrap();
    let mut wrong_keys = 0;
    for (times, via) in (1..).zip(BOTH) {
        let address = listener.address();
        let heard = intrude(stranger(TLS13, PROTOCOL), address, via).await;
        assert!(heard.is_err(), "without a key, {via}: {heard:?}");
        counted(&listener, Reason::NoKey, times).await;

        let heard = intrude(thief(&keys.agents, &other), address, via).await;
        assert!(heard.is_err(), "with the certificate alone, {via}: {heard:?}");
        let heard = intrude(thief(&other, &keys.agents), address, via).await;
        assert!(heard.is_err(), "with the key alone, {via}: {heard:?}");
        let heard = intrude(thief(&keys.controller, &keys.controller), address, via).await;
        assert!(heard.is_err(), "with the controller's own, {via}: {heard:?}");
        wrong_keys += 3;
        counted(&listener, Reason::WrongKey, wrong_keys).await;

        let heard = intrude(thief(&keys.agents, &keys.agents), address, via).await;
        assert_eq!(heard, Ok(1), "and with both, {via}");
        listener.accept().await;
    }
    agents_connect(&mut listener, &keys).await;
}

#[tokio::test]
async fn other_protocols_and_versions_are_refused_before_the_certificate() {
    let (mut listener, keys) = open(Bounds::default());
    let address = listener.address();
    for (times, via) in (1..).zip(BOTH) {
        let heard = intrude(stranger(TLS13, b"h2"), address, via).await;
        assert!(heard.is_err(), "{via}: {heard:?}");
        counted(&listener, Reason::Version, times).await;
    }
    let mut silent = thief(&keys.agents, &keys.agents);
    silent.alpn_protocols.clear();
    let heard = intrude(silent, address, Tcp).await;
    assert_eq!(heard.unwrap_or(0), 0, "no protocol named");
    counted(&listener, Reason::Version, 3).await;

    let heard = intrude(stranger(&rustls::version::TLS12, PROTOCOL), address, Tcp).await;
    assert!(heard.is_err(), "{heard:?}");
    counted(&listener, Reason::OldTls, 1).await;
    agents_connect(&mut listener, &keys).await;
    assert_eq!(listener.counters().accepted, 2);
}

#[tokio::test]
async fn bytes_that_are_not_a_handshake_end_the_connection() {
    let (mut listener, keys) = open(Bounds::default());
    let address = listener.address();
    let noise: Vec<u8> = (0..70_000u32)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    // A TLS record with a message of 16 MB.
    let large = [&[22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff], &noise[..0x4000]].concat();
    let rubbish: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\nHost: controller\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        &[0; 1000],
        &noise,
        &large,
    ];
    for (times, bytes) in (1..).zip(rubbish) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let _ = stream.write_all(bytes).await;
        counted(&listener, Reason::Garbage, times).await;
        let mut answer = Vec::new();
        let _ = timeout(TIMEOUT, stream.read_to_end(&mut answer)).await.unwrap();
        assert!(answer.len() <= 7, "more than an alert: {answer:?}");
    }
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for length in 0..1500 {
        socket.send_to(&noise[length..2 * length], address).await.unwrap();
    }
    agents_connect(&mut listener, &keys).await;
    assert_eq!(listener.counters().accepted, 2);
    // The datagrams started no handshake.
    assert!(listener.refusals().iter().all(|refusal| refusal.via == Tcp));
}

#[tokio::test]
async fn clients_that_disconnect_are_counted() {
    let (mut listener, keys) = open(Bounds::default());
    drop(TcpStream::connect(listener.address()).await.unwrap());
    counted(&listener, Reason::Left, 1).await;
    agents_connect(&mut listener, &keys).await;
}

#[tokio::test]
async fn a_slow_handshake_ends_at_its_time_limit() {
    let (mut listener, keys) = open(Bounds {
        handshake: Duration::from_secs(2),
        ..Bounds::default()
    });
    let address = listener.address();
    // One client sends nothing, one sends an endless record byte by byte, and one stops during the
    // QUIC handshake.
    let silent = TcpStream::connect(address).await.unwrap();
    let mut loris = TcpStream::connect(address).await.unwrap();
    let dripping = tokio::spawn(async move {
        for byte in [22, 3, 1, 2, 0].into_iter().chain(std::iter::repeat(1)) {
            if loris.write_all(&[byte]).await.is_err() {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    });
    let relay = Relay::start(address, Duration::ZERO, 0.0).await;
    relay.cut_after(2);
    let stuck = dialer(&keys, relay.address, Quic);
    let dialing = tokio::spawn(async move { stuck.dial(TIMEOUT).await });
    agents_connect(&mut listener, &keys).await;
    counted(&listener, Reason::Slow, 3).await;
    timeout(TIMEOUT, dripping).await.unwrap().unwrap();
    dialing.abort();
    drop(silent);
    agents_connect(&mut listener, &keys).await;
}

#[tokio::test]
async fn a_flood_uses_only_the_share_of_its_source() {
    let (mut listener, keys) = open(Bounds {
        handshake: TIMEOUT,
        unfinished: 10,
        unfinished_per_source: 4,
        ..Bounds::default()
    });
    let address = listener.address();
    let mut flood = Vec::new();
    for _ in 0..100 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        flood.push(socket.connect(address).await.unwrap());
    }
    counted(&listener, Reason::FullSource, 96).await;
    agents_connect(&mut listener, &keys).await;
    assert_eq!(listener.counters().refused[&Reason::FullSource], 96);
    let refusals = listener.refusals();
    assert_eq!(refusals.len(), 1, "a flood is one event: {refusals:?}");
    assert_eq!(
        (refusals[0].source.to_string().as_str(), refusals[0].times),
        ("127.0.0.2", 96)
    );

    // More sources than the total limit allows: agents wait and connect when the flood is over.
    for host in 3..6 {
        for _ in 0..4 {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(format!("127.0.0.{host}:0").parse().unwrap()).unwrap();
            flood.push(socket.connect(address).await.unwrap());
        }
    }
    counted(&listener, Reason::Full, 6).await;
    for via in BOTH {
        let dialed = dialer(&keys, address, via).dial(Duration::from_millis(300)).await;
        let error = dialed.unwrap_err();
        assert!(
            matches!(
                error,
                DialError::NoLink {
                    fault: Fault::Busy,
                    ..
                }
            ),
            "{error}"
        );
    }
    let waiting = dialer(&keys, address, Tcp);
    let waiting = tokio::spawn(async move { waiting.dial(TIMEOUT).await });
    sleep(Duration::from_millis(50)).await;
    drop(flood);
    timeout(TIMEOUT, listener.accept()).await.unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn many_agents_at_once_all_connect() {
    let (mut listener, keys) = open(Bounds {
        unfinished: 20,
        unfinished_per_source: 10,
        ..Bounds::default()
    });
    for via in BOTH {
        let dialer = Arc::new(dialer(&keys, listener.address(), via));
        let dials: Vec<_> = (0..60)
            .map(|_| {
                let dialer = Arc::clone(&dialer);
                tokio::spawn(async move { dialer.dial(TIMEOUT).await })
            })
            .collect();
        let mut links = Vec::new();
        for _ in &dials {
            links.push(timeout(TIMEOUT, listener.accept()).await.unwrap());
        }
        for dial in dials {
            links.push(dial.await.unwrap().unwrap());
        }
    }
    assert_eq!(listener.counters().accepted, 120);
}
