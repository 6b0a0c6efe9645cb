//! Authentication of a secured link: the key pairs of one experiment, and the pins by which each
//! side identifies the other.
//!
//! A pin is the SHA-256 hash of a whole certificate (DER). Each side accepts exactly one
//! certificate, and only if the handshake proves that the peer has its key. Authority, name and
//! date are not checked. An authority would be valid for more than this experiment. The name of a
//! host depends on the route to it. The clocks of the hosts are themselves measured, so they must
//! not decide whether a certificate is valid. The key pairs exist only in memory, as long as the
//! experiment.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible,
    ServerConfig, SignatureScheme,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// Name of the protocol in the handshake (ALPN). It changes if links are secured in another way.
/// The frames on a link have their own version ([`plimsoll_model::format::LINK_VERSION`]).
pub(crate) const PROTOCOL: &[u8] = b"plimsoll-link/1";

/// The keys of one experiment, which its controller generates. Agents receive their part in a
/// [`Token`](crate::token::Token).
#[derive(Debug)]
pub struct Keys {
    /// Identity of the controller.
    pub controller: Identity,
    /// Identity that all agents of the experiment share.
    pub agents: Identity,
    /// Key of the time probes, 32 bytes. Probes are not sent over the link.
    pub time: Secret,
}

/// A key pair with its self-signed certificate. `Debug` shows only the pin.
#[derive(Clone)]
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: Secret,
}

/// SHA-256 hash of a certificate (DER). Its text has 64 hexadecimal digits. It is not secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pin([u8; 32]);

/// Bytes that no message contains. `Debug` writes `***`; only [`Secret::reveal`] returns the bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// Why keys cannot be generated or used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The key pair or its certificate could not be generated.
    #[error("cannot generate a key pair: {0}")]
    Make(#[from] rcgen::Error),
    /// The operating system returns no random bytes.
    #[error("the operating system returns no random bytes")]
    Random,
    /// Certificate and key do not match, or their format is not supported.
    #[error("cannot use certificate and key: {0}")]
    Use(#[from] Error),
    /// The keys cannot be used for QUIC.
    #[error("cannot use the keys for QUIC: {0}")]
    Quic(#[from] quinn::crypto::rustls::NoInitialCipherSuite),
}

/// The text of a pin does not consist of 64 hexadecimal digits.
#[derive(Debug, thiserror::Error)]
#[error("expected a pin of 64 hexadecimal digits")]
pub struct PinError;

impl Keys {
    /// Generates new, independent keys.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn generate() -> Result<Self, IdentityError> {
        Ok(Self {
            controller: Identity::generate()?,
            agents: Identity::generate()?,
            time: Secret::random(32)?,
        })
    }
}

impl Identity {
    /// Generates an Ed25519 key pair. The certificate contains no name, so a client that requests
    /// it learns nothing about experiment and host.
    ///
    /// # Errors
    /// [`IdentityError::Make`].
    pub fn generate() -> Result<Self, IdentityError> {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519)?;
        let mut parameters = rcgen::CertificateParams::new(Vec::new())?;
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        let certificate = parameters.self_signed(&pair)?;
        Ok(Self::from_parts(
            certificate.der().to_vec(),
            Secret(pair.serialize_der()),
        ))
    }

    /// An identity of a certificate (DER) and its key (PKCS #8, DER). Whether they match is checked
    /// only when they are used.
    pub fn from_parts(certificate: Vec<u8>, key: Secret) -> Self {
        Self {
            certificate: CertificateDer::from(certificate),
            key,
        }
    }

    /// The certificate (DER).
    pub fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// The key (PKCS #8, DER).
    pub fn key(&self) -> &Secret {
        &self.key
    }

    /// The pin by which the other side identifies this one.
    pub fn pin(&self) -> Pin {
        Pin::of(&self.certificate)
    }

    /// TLS configuration of a server with this identity that accepts only the client with pin
    /// `agents`.
    pub(crate) fn server(&self, agents: Pin) -> Result<ServerConfig, IdentityError> {
        let provider = Arc::new(ring::default_provider());
        let verifier = PinVerifier::new(agents, &provider);
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(Arc::new(verifier))
            .with_single_cert(vec![self.certificate.clone()], self.key.pkcs8())?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        // A resumed session would not prove the key again, and its ticket would use memory for each
        // agent.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    /// TLS configuration of a client with this identity that accepts only the server with pin
    /// `controller`.
    pub(crate) fn client(&self, controller: Pin) -> Result<ClientConfig, IdentityError> {
        let provider = Arc::new(ring::default_provider());
        let verifier = PinVerifier::new(controller, &provider);
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous() // no certificate authority is checked; the pin is stricter
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_auth_cert(vec![self.certificate.clone()], self.key.pkcs8())?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(config)
    }
}

impl Pin {
    /// The pin of a certificate (DER).
    pub fn of(certificate: &[u8]) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

impl Secret {
    /// Random bytes of the operating system, as many as given.
    ///
    /// # Errors
    /// [`IdentityError::Random`].
    pub fn random(bytes: usize) -> Result<Self, IdentityError> {
        let mut secret = vec![0; bytes];
        ring::default_provider()
            .secure_random
            .fill(&mut secret)
            .map_err(|_| IdentityError::Random)?;
        Ok(Self(secret))
    }

    /// A secret of existing bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The bytes. The caller must not write them where other users can read them.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }

    fn pkcs8(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.0.clone()))
    }
}

/// Accepts one certificate. Any other certificate is only hashed. A certificate is parsed, to check
/// the signature of the handshake, only if the pin matches: rustls checks in this order.
#[derive(Debug)]
struct PinVerifier {
    pin: Pin,
    algorithms: WebPkiSupportedAlgorithms,
}

impl PinVerifier {
    fn new(pin: Pin, provider: &CryptoProvider) -> Self {
        Self {
            pin,
            algorithms: provider.signature_verification_algorithms,
        }
    }

    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        if Pin::of(certificate) == self.pin {
            Ok(())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }
}

/// The error for TLS 1.2, which is not enabled. It is only needed to complete the traits.
fn no_tls12() -> Error {
    Error::PeerIncompatible(PeerIncompatible::Tls12NotOfferedOrEnabled)
}

impl ServerCertVerifier for PinVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for PinVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("pin", &self.pin())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Pin {
    type Err = PinError;

    fn from_str(text: &str) -> Result<Self, PinError> {
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(PinError);
        }
        let mut pin = [0; 32];
        for (index, byte) in pin.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).map_err(|_| PinError)?;
        }
        Ok(Self(pin))
    }
}

impl Serialize for Pin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Pin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_and_certificates_contain_no_name() {
        let keys = Keys::generate().unwrap();
        assert_ne!(keys.controller.pin(), keys.agents.pin());
        assert_ne!(keys.time, Secret::random(32).unwrap());
        assert_eq!(keys.time.reveal().len(), 32);
        let text = String::from_utf8_lossy(keys.controller.certificate()).to_lowercase();
        for word in ["plimsoll", "rcgen", "localhost"] {
            assert!(!text.contains(word), "the certificate contains {word}");
        }
    }

    #[test]
    fn debug_shows_pins_and_no_secret() {
        let keys = Keys::generate().unwrap();
        let shown = format!("{keys:?}");
        assert!(shown.contains(&keys.agents.pin().to_string()), "{shown}");
        for secret in [&keys.controller.key, &keys.agents.key, &keys.time] {
            assert!(!shown.contains(&format!("{:?}", secret.reveal())), "{shown}");
        }
        assert!(shown.contains("time: ***"), "{shown}");
    }

    #[test]
    fn a_pin_parses_its_own_text_and_no_other() {
        let pin = Identity::generate().unwrap().pin();
        assert_eq!(pin.to_string().parse::<Pin>().unwrap(), pin);
        let text = pin.to_string();
        for wrong in [
            "",
            "ab",
            &text[1..],
            &format!("{text}0"),
            &format!("{}é", &text[2..]),
            &"g".repeat(64),
        ] {
            assert!(wrong.parse::<Pin>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_key_that_does_not_match_its_certificate_is_an_error() {
        let (first, second) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        let mixed = Identity::from_parts(first.certificate().to_vec(), second.key().clone());
        assert!(matches!(mixed.client(first.pin()), Err(IdentityError::Use(_))));
        let broken = Identity::from_parts(first.certificate().to_vec(), Secret::new(vec![1, 2, 3]));
        assert!(matches!(broken.client(first.pin()), Err(IdentityError::Use(_))));
    }
}
