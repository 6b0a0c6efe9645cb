//! The authorities that a service trusts, with their validity.

use rustls::pki_types::{CertificateDer, SignatureVerificationAlgorithm, TrustAnchor, UnixTime};
use rustls::{CertificateError, DistinguishedName};

use crate::certificate::Certificate;
use crate::refusal::Reason;

/// Authorities. The library does not check the validity of their certificates, so it is kept here.
#[derive(Debug, Default)]
pub struct Authorities {
    anchors: Vec<TrustAnchor<'static>>,
    /// First and last second of the validity of each, since 1970.
    validity: Vec<(i64, i64)>,
}

impl Authorities {
    /// Adds the certificate of an authority.
    pub fn add(&mut self, certificate: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        let malformed = || rustls::Error::InvalidCertificate(CertificateError::BadEncoding);
        let anchor = webpki::anchor_from_trusted_cert(certificate).map_err(|_| malformed())?;
        let parsed = Certificate::parse(certificate).map_err(|_| malformed())?;
        self.validity.push(parsed.validity);
        self.anchors.push(anchor.to_owned());
        Ok(())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.anchors.is_empty()
    }

    /// Names of all, as a server sends them to its clients.
    pub fn names(&self) -> Vec<DistinguishedName> {
        self.anchors
            .iter()
            .map(|anchor| DistinguishedName::in_sequence(anchor.subject.as_ref()))
            .collect()
    }

    /// Verifies the certificate of an end entity, with those of intermediate authorities.
    pub(crate) fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
        algorithms: &[&dyn SignatureVerificationAlgorithm],
    ) -> Result<(), Reason> {
        let certificate = webpki::EndEntityCert::try_from(end_entity).map_err(reason)?;
        let verify = |anchors: &[TrustAnchor<'static>]| {
            let usage = webpki::KeyUsage::client_auth();
            certificate
                .verify_for_usage(algorithms, anchors, intermediates, now, usage, None, None)
                .map(|path| {
                    // The path refers to one of the anchors.
                    let used = anchors
                        .iter()
                        .position(|anchor| std::ptr::eq(anchor, path.anchor()));
                    used.unwrap_or_default()
                })
                .map_err(reason)
        };
        let used = verify(&self.anchors)?;
        if is_within(self.validity[used], now) {
            return Ok(());
        }
        // A renewed certificate of the authority has the same name, and perhaps the same key.
        let valid: Vec<_> = self
            .anchors
            .iter()
            .zip(&self.validity)
            .filter(|(_, validity)| is_within(**validity, now))
            .map(|(anchor, _)| anchor.clone())
            .collect();
        verify(&valid).map(|_| ()).map_err(|_| Reason::StaleAuthority)
    }
}

/// Whether a time is within a validity.
fn is_within((first, last): (i64, i64), now: UnixTime) -> bool {
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    (first..=last).contains(&now)
}

/// Checks the validity of a certificate.
pub(crate) fn check_validity((first, last): (i64, i64), now: UnixTime) -> Result<(), Reason> {
    if is_within((first, last), now) {
        return Ok(());
    }
    let has_begun = i64::try_from(now.as_secs()).is_ok_and(|now| first <= now);
    Err(if has_begun {
        Reason::Expired
    } else {
        Reason::NotValidYet
    })
}

fn reason(error: webpki::Error) -> Reason {
    match error {
        webpki::Error::CertExpired { .. } => Reason::Expired,
        webpki::Error::CertNotValidYet { .. } => Reason::NotValidYet,
        webpki::Error::UnknownIssuer => Reason::UnknownAuthority,
        webpki::Error::InvalidSignatureForPublicKey => Reason::Signature,
        webpki::Error::RequiredEkuNotFoundContext(_) => Reason::Purpose,
        other => Reason::EndEntity(other),
    }
}
