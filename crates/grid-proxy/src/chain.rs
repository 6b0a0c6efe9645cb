//! The rules for a chain, RFC 3820 sections 3 and 4.

use rustls::pki_types::{CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, UnixTime};

use crate::authorities::{Authorities, check_validity};
use crate::certificate::{Certificate, Kind, added_common_name};
use crate::information::{Language, ProxyInformation};
use crate::refusal::{Reason, Refusal};

/// Maximum number of certificates of a chain. A chain of delegations has two to four.
pub const MAX_CERTIFICATES: usize = 10;
/// Maximum size of a chain. A certificate has 1 to 2 kB; proxies with attributes of a virtual
/// organisation (VOMS) have 5 to 10 kB.
pub const MAX_BYTES: usize = 64 * 1024;

/// Who a verified chain belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Position of the certificate of the end entity in the chain: the number of proxies.
    pub end_entity: usize,
    /// Whether a proxy of the chain is limited.
    pub is_limited: bool,
}

/// Verifies the chain of a client. `chain`: its own certificate first, each followed by that of its
/// issuer up to the end entity, then intermediate authorities in any order. The number of
/// signatures that are verified is at most [`MAX_CERTIFICATES`] and those of the library's search
/// for a path, which it bounds.
pub fn verify(
    chain: &[CertificateDer<'_>],
    authorities: &Authorities,
    now: UnixTime,
    algorithms: &[&dyn SignatureVerificationAlgorithm],
) -> Result<Holder, Refusal> {
    if chain.len() > MAX_CERTIFICATES {
        return Err(Reason::TooLong.of(MAX_CERTIFICATES));
    }
    if chain.iter().map(|certificate| certificate.len()).sum::<usize>() > MAX_BYTES {
        return Err(Reason::TooLarge.of(0));
    }
    let first = chain.first().ok_or(Reason::Missing.of(0))?;
    let mut certificate = parse(0, first)?;
    let mut is_limited = false;
    let mut position = 0;
    while let Kind::Proxy {
        is_critical,
        information,
    } = certificate.kind
    {
        let refused = |reason: Reason| reason.of(position);
        if !is_critical {
            return Err(refused(Reason::NotCritical));
        }
        let information = ProxyInformation::parse(information).map_err(refused)?;
        check_proxy(&certificate, information, position, now).map_err(refused)?;
        is_limited |= information.language == Language::Limited;
        let issuer = chain
            .get(position + 1)
            .ok_or_else(|| refused(Reason::NoEndEntity))?;
        let issuer = parse(position + 1, issuer)?;
        check_names(&certificate, &issuer).map_err(refused)?;
        check_issuer(&issuer).map_err(|reason| reason.of(position + 1))?;
        check_signature(&certificate, issuer.public_key, algorithms).map_err(refused)?;
        certificate = issuer;
        position += 1;
    }
    let refused = |reason: Reason| reason.of(position);
    match certificate.kind {
        Kind::Legacy => return Err(refused(Reason::Legacy)),
        Kind::Draft => return Err(refused(Reason::Draft)),
        Kind::Ordinary | Kind::Proxy { .. } => {}
    }
    authorities
        .verify(&chain[position], &chain[position + 1..], now, algorithms)
        .map_err(refused)?;
    Ok(Holder {
        end_entity: position,
        is_limited,
    })
}

fn parse<'a>(position: usize, der: &'a CertificateDer<'_>) -> Result<Certificate<'a>, Refusal> {
    Certificate::parse(der).map_err(|reason| reason.of(position))
}

/// The certificate of the end entity of a chain that [`verify`] has accepted.
pub fn end_entity<'a>(chain: &'a [CertificateDer<'a>]) -> Option<&'a CertificateDer<'a>> {
    chain.iter().find(|der| {
        Certificate::parse(der).is_ok_and(|certificate| matches!(certificate.kind, Kind::Ordinary))
    })
}

/// The rules for a proxy alone. `below`: the number of proxies below it.
fn check_proxy(
    proxy: &Certificate<'_>,
    information: ProxyInformation,
    below: usize,
    now: UnixTime,
) -> Result<(), Reason> {
    let rules = [
        (proxy.is_version_3, Reason::Version),
        (information.language != Language::Independent, Reason::Independent),
        (!proxy.has_alternative_name, Reason::AlternativeName),
        (!proxy.is_authority, Reason::ProxyIsAuthority),
        (
            proxy.key_usage.is_none_or(|usage| !usage.key_cert_sign()),
            Reason::CertificateSigning,
        ),
        (proxy.may_sign(), Reason::KeyUsage),
        (proxy.is_for_clients, Reason::Purpose),
        (!proxy.has_unknown_critical, Reason::UnknownCritical),
    ];
    for (is_kept, reason) in rules {
        if !is_kept {
            return Err(reason);
        }
    }
    if let Some(permitted) = information.path_length
        && below > permitted as usize
    {
        return Err(Reason::PathLength {
            permitted,
            found: below,
        });
    }
    check_validity(proxy.validity, now)
}

fn check_names(proxy: &Certificate<'_>, issuer: &Certificate<'_>) -> Result<(), Reason> {
    if proxy.issuer != issuer.subject || issuer.subject.is_empty() {
        return Err(Reason::Issuer);
    }
    added_common_name(proxy.issuer, proxy.subject)
        .map(|_| ())
        .ok_or(Reason::Subject)
}

/// The rules for the issuer of a proxy, in addition to its own.
fn check_issuer(issuer: &Certificate<'_>) -> Result<(), Reason> {
    if issuer.is_authority && !matches!(issuer.kind, Kind::Proxy { .. }) {
        return Err(Reason::IssuerIsAuthority);
    }
    if !issuer.may_sign() {
        return Err(Reason::IssuerKeyUsage);
    }
    Ok(())
}

fn check_signature(
    certificate: &Certificate<'_>,
    issuer_key: &[u8],
    algorithms: &[&dyn SignatureVerificationAlgorithm],
) -> Result<(), Reason> {
    let key = SubjectPublicKeyInfoDer::from(issuer_key);
    let key = webpki::RawPublicKeyEntity::try_from(&key).map_err(|_| Reason::Algorithm)?;
    // An algorithm exists once for each kind of key, such as ECDSA with SHA-256 for each curve.
    for algorithm in algorithms
        .iter()
        .filter(|algorithm| algorithm.signature_alg_id().as_ref() == certificate.algorithm)
    {
        match key.verify_signature(*algorithm, certificate.signed, certificate.signature) {
            Ok(()) => return Ok(()),
            Err(webpki::Error::UnsupportedSignatureAlgorithmForPublicKeyContext(_)) => {}
            Err(_) => return Err(Reason::Signature),
        }
    }
    Err(Reason::Algorithm)
}
