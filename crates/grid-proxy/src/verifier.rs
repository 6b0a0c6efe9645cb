//! The verification of clients for `rustls`.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};

use crate::authorities::Authorities;
use crate::certificate::{Certificate, Kind};
use crate::chain::verify;
use crate::refusal::{Reason, Refusal};

/// Accepts clients with the certificate of an end entity, or with a chain of proxies below it.
/// Every client must have one.
#[derive(Debug)]
pub struct Verifier {
    authorities: Authorities,
    names: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    /// A verifier with the algorithms of a provider.
    pub fn new(authorities: Authorities, provider: &CryptoProvider) -> Self {
        Self {
            names: authorities.names(),
            authorities,
            algorithms: provider.signature_verification_algorithms,
        }
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.names
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let chain: Vec<CertificateDer<'_>> = std::iter::once(end_entity)
            .chain(intermediates)
            .map(|certificate| CertificateDer::from(certificate.as_ref()))
            .collect();
        verify(&chain, &self.authorities, now, self.algorithms.all)
            .map(|_| ClientCertVerified::assertion())
            .map_err(error)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let Some(key) = key_of_proxy(certificate) else {
            return verify_tls12_signature(message, certificate, signed, &self.algorithms);
        };
        // The library has this function only for certificates that it can parse.
        let bad = || Error::InvalidCertificate(CertificateError::BadSignature);
        let key = webpki::RawPublicKeyEntity::try_from(&key).map_err(|_| bad())?;
        let schemes = self.algorithms.mapping;
        let algorithms = schemes.iter().find(|(scheme, _)| *scheme == signed.scheme);
        algorithms
            .into_iter()
            .flat_map(|(_, algorithms)| *algorithms)
            .find(|algorithm| {
                key.verify_signature(**algorithm, message, signed.signature())
                    .is_ok()
            })
            .map(|_| HandshakeSignatureValid::assertion())
            .ok_or_else(bad)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match key_of_proxy(certificate) {
            Some(key) => verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms),
            None => verify_tls13_signature(message, certificate, signed, &self.algorithms),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The key of a proxy, whose certificate the library cannot parse. None: it is not a proxy.
fn key_of_proxy<'a>(certificate: &'a CertificateDer<'_>) -> Option<SubjectPublicKeyInfoDer<'a>> {
    let certificate = Certificate::parse(certificate).ok()?;
    matches!(certificate.kind, Kind::Proxy { .. })
        .then(|| SubjectPublicKeyInfoDer::from(certificate.public_key))
}

/// The error of the library, from which it selects the alert to the client.
fn error(refusal: Refusal) -> Error {
    Error::InvalidCertificate(match refusal.reason {
        Reason::Expired => CertificateError::Expired,
        Reason::NotValidYet => CertificateError::NotValidYet,
        Reason::UnknownAuthority => CertificateError::UnknownIssuer,
        Reason::Malformed => CertificateError::BadEncoding,
        Reason::Signature => CertificateError::BadSignature,
        _ => CertificateError::Other(OtherError(Arc::new(refusal))),
    })
}
