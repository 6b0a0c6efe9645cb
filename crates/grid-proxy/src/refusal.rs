//! Why a chain is refused.

/// Why a chain of certificates is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("certificate {} of the chain: {reason}", .certificate + 1)]
pub struct Refusal {
    /// Position of the certificate that violates the rule, from 0: the client's own.
    pub certificate: usize,
    /// The rule.
    pub reason: Reason,
}

/// The rule that a certificate violates. The numbers are sections of RFC 3820 if nothing else is
/// stated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The chain is empty.
    #[error("it is missing: the client must send a certificate")]
    Missing,
    /// The chain has more than [`crate::MAX_CERTIFICATES`] certificates.
    #[error(
        "the chain is too long: at most {} certificates are accepted",
        crate::MAX_CERTIFICATES
    )]
    TooLong,
    /// The chain has more than [`crate::MAX_BYTES`].
    #[error("the chain is too large: at most {} bytes are accepted", crate::MAX_BYTES)]
    TooLarge,
    /// It cannot be parsed.
    #[error("it is not an X.509 certificate in DER")]
    Malformed,
    /// An extension occurs twice (RFC 5280, 4.2).
    #[error("an extension occurs twice")]
    Repeated,
    /// The algorithm in the signed part is not that of the signature (RFC 5280, 4.1.1.2).
    #[error("it contains two different signature algorithms")]
    AlgorithmMismatch,
    /// It was issued by a version of Globus before RFC 3820: its name ends with `CN=proxy` or
    /// `CN=limited proxy`, and it has no `proxyCertInfo`.
    #[error("it is a legacy proxy (GT2): make one according to RFC 3820 (grid-proxy-init -rfc)")]
    Legacy,
    /// Its `proxyCertInfo` has the number of a draft (GT3).
    #[error("it is a proxy of a draft (GT3): make one according to RFC 3820 (grid-proxy-init -rfc)")]
    Draft,
    /// It has extensions, and is not of version 3.
    #[error("a proxy must be a certificate of version 3")]
    Version,
    /// 3.8: `proxyCertInfo` must be critical.
    #[error("its proxyCertInfo is not critical")]
    NotCritical,
    /// 3.8: `proxyCertInfo` cannot be parsed.
    #[error("its proxyCertInfo cannot be parsed")]
    Information,
    /// 3.8.2: the policy language is unknown, so that its rights are unknown.
    #[error("its policy language is unknown: use inheritAll or limited")]
    Language,
    /// 3.8.2: languages without a policy must not contain one.
    #[error("it contains a policy, which its policy language does not permit")]
    Policy,
    /// 3.8.2: it has no rights of its end entity, and the services know only end entities.
    #[error("it is independent: it has no rights of its end entity")]
    Independent,
    /// 3.2 and 3.5: no alternative name of the subject or of the issuer.
    #[error("a proxy must not have alternative names")]
    AlternativeName,
    /// 3.7: a proxy is no authority.
    #[error("a proxy must not be an authority (cA)")]
    ProxyIsAuthority,
    /// RFC 5280, 4.2.1.9: only authorities may sign certificates with `keyCertSign`.
    #[error("a proxy must not have the key usage keyCertSign")]
    CertificateSigning,
    /// 3.6: the key usage does not permit a signature in the handshake.
    #[error("its key usage does not permit digital signatures")]
    KeyUsage,
    /// 3.6: its purposes, or those of its issuers, do not include client authentication.
    #[error("its extended key usage does not permit client authentication")]
    Purpose,
    /// It has a critical extension that is unknown (RFC 5280, 4.2).
    #[error("it has an unknown critical extension")]
    UnknownCritical,
    /// The chain contains only proxies, or is not in order.
    #[error("the chain ends with a proxy: send the certificates up to that of the end entity")]
    NoEndEntity,
    /// 3.1: the issuer is not the subject of the next certificate.
    #[error("its issuer is not the subject of the next certificate of the chain")]
    Issuer,
    /// 3.4: the subject is not that of the issuer and one common name more.
    #[error("its subject is not that of its issuer with one common name (CN) added")]
    Subject,
    /// 3.1: an authority must not issue proxies.
    #[error("an authority has issued a proxy: only end entities and proxies may")]
    IssuerIsAuthority,
    /// 3.1: the issuer's key usage must permit digital signatures.
    #[error("the key usage of the issuer of a proxy does not permit digital signatures")]
    IssuerKeyUsage,
    /// 3.8.1: more proxies follow than it permits.
    #[error("it permits {permitted} proxies below it, and the chain has {found}")]
    PathLength {
        /// The constraint.
        permitted: u32,
        /// Number of proxies below it.
        found: usize,
    },
    /// Its time has not come.
    #[error("it is not valid yet: check the clocks")]
    NotValidYet,
    /// Its time is over.
    #[error("it has expired")]
    Expired,
    /// The key of the issuer has not signed it.
    #[error("its signature is not one by the key of its issuer")]
    Signature,
    /// The signature has an algorithm that is not supported.
    #[error("its signature algorithm or key is not supported")]
    Algorithm,
    /// No authority has issued the certificate of the end entity.
    #[error("it was not issued by an authority of this service")]
    UnknownAuthority,
    /// The authority of the end entity has expired, or is not valid yet.
    #[error("its authority has expired or is not valid yet")]
    StaleAuthority,
    /// The certificate of the end entity is refused for another reason.
    #[error("the certificate of the end entity is refused: {0}")]
    EndEntity(webpki::Error),
}

impl Reason {
    /// The refusal of a certificate for this reason.
    pub(crate) fn of(self, certificate: usize) -> Refusal {
        Refusal {
            certificate,
            reason: self,
        }
    }
}
