//! What the rules need of a certificate.

use x509_parser::certificate::{X509Certificate, X509CertificateParser};
use x509_parser::extensions::{BasicConstraints, ExtendedKeyUsage, KeyUsage, X509Extension};
use x509_parser::nom::Parser;
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Version;

use crate::der::{self, BIT_STRING, OBJECT_IDENTIFIER, SEQUENCE, SET};
use crate::refusal::Reason;

/// 1.3.6.1.5.5.7.1.14
pub(crate) const PROXY_INFORMATION: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 1, 14];
/// 1.3.6.1.4.1.3536.1.222: that of a draft, in version 3 of the Globus Toolkit.
const DRAFT_INFORMATION: &[u8] = &[0x2b, 6, 1, 4, 1, 0x9b, 0x50, 1, 0x81, 0x5e];
pub(crate) const KEY_USAGE: &[u8] = &[0x55, 29, 15];
const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 29, 17];
const ISSUER_ALTERNATIVE_NAME: &[u8] = &[0x55, 29, 18];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 29, 19];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 29, 37];
pub(crate) const COMMON_NAME: &[u8] = &[0x55, 4, 3];
/// The last common names of proxies that have no extension.
const LEGACY_NAMES: [&[u8]; 2] = [b"proxy", b"limited proxy"];

/// A parsed certificate. It is not verified.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a fact for a rule of its own"
)]
pub(crate) struct Certificate<'a> {
    /// The signed part.
    pub(crate) signed: &'a [u8],
    /// Content of the signature's algorithm identifier.
    pub(crate) algorithm: &'a [u8],
    pub(crate) signature: &'a [u8],
    /// Content of the names.
    pub(crate) subject: &'a [u8],
    pub(crate) issuer: &'a [u8],
    /// Whole `SubjectPublicKeyInfo`.
    pub(crate) public_key: &'a [u8],
    /// First and last second of the validity, since 1970.
    pub(crate) validity: (i64, i64),
    pub(crate) is_version_3: bool,
    pub(crate) kind: Kind<'a>,
    pub(crate) has_alternative_name: bool,
    pub(crate) is_authority: bool,
    /// None: every usage.
    pub(crate) key_usage: Option<KeyUsage>,
    /// Whether the purposes include client authentication.
    pub(crate) is_for_clients: bool,
    /// Whether a critical extension is not one of those above.
    pub(crate) has_unknown_critical: bool,
}

/// What its extensions make of a certificate.
#[derive(Clone, Copy)]
pub(crate) enum Kind<'a> {
    /// That of an end entity, or of an authority.
    Ordinary,
    Proxy {
        is_critical: bool,
        information: &'a [u8],
    },
    /// A proxy of a draft.
    Draft,
    /// A proxy without extension, from its name.
    Legacy,
}

impl<'a> Certificate<'a> {
    pub(crate) fn parse(der: &'a [u8]) -> Result<Self, Reason> {
        let whole = Outline::of(der).ok_or(Reason::Malformed)?;
        // Only the extensions below are parsed, so that a strange one of no concern does no harm.
        let mut parser = X509CertificateParser::new().with_deep_parse_extensions(false);
        let parsed: X509Certificate<'a> = match parser.parse(der) {
            Ok(([], parsed)) => parsed,
            _ => return Err(Reason::Malformed),
        };
        if parsed.tbs_certificate.signature != parsed.signature_algorithm {
            return Err(Reason::AlgorithmMismatch);
        }
        let name = |raw: &'a [u8]| Some(der::expect(&mut &raw[..], SEQUENCE)?.content);
        let tbs = &parsed.tbs_certificate;
        let subject = name(tbs.subject.as_raw()).ok_or(Reason::Malformed)?;
        let issuer = name(tbs.issuer.as_raw()).ok_or(Reason::Malformed)?;
        let mut found = Self {
            signed: whole.signed,
            algorithm: whole.algorithm,
            signature: whole.signature,
            subject,
            issuer,
            public_key: tbs.subject_pki.raw,
            validity: (
                tbs.validity.not_before.timestamp(),
                tbs.validity.not_after.timestamp(),
            ),
            is_version_3: tbs.version == X509Version::V3,
            kind: Kind::Ordinary,
            has_alternative_name: false,
            is_authority: false,
            key_usage: None,
            is_for_clients: true,
            has_unknown_critical: false,
        };
        parsed.extensions_map().map_err(|_| Reason::Repeated)?;
        for extension in parsed.extensions() {
            found.extend(extension)?;
        }
        let added = added_common_name(issuer, subject);
        if matches!(found.kind, Kind::Ordinary) && added.is_some_and(|name| LEGACY_NAMES.contains(&name)) {
            found.kind = Kind::Legacy;
        }
        Ok(found)
    }

    fn extend(&mut self, extension: &X509Extension<'a>) -> Result<(), Reason> {
        let value = extension.value;
        match extension.oid.as_bytes() {
            PROXY_INFORMATION => {
                self.kind = Kind::Proxy {
                    is_critical: extension.critical,
                    information: value,
                }
            }
            DRAFT_INFORMATION => self.kind = Kind::Draft,
            SUBJECT_ALTERNATIVE_NAME | ISSUER_ALTERNATIVE_NAME => self.has_alternative_name = true,
            BASIC_CONSTRAINTS => self.is_authority = all_of::<BasicConstraints>(value)?.ca,
            KEY_USAGE => self.key_usage = Some(all_of(value)?),
            EXTENDED_KEY_USAGE => {
                let purposes = all_of::<ExtendedKeyUsage<'a>>(value)?;
                self.is_for_clients = purposes.any || purposes.client_auth;
            }
            _ => self.has_unknown_critical |= extension.critical,
        }
        Ok(())
    }

    /// Whether the key may sign messages, and proxies.
    pub(crate) fn may_sign(&self) -> bool {
        self.key_usage.is_none_or(|usage| usage.digital_signature())
    }
}

/// Parses a whole value.
fn all_of<'a, T: FromDer<'a, x509_parser::error::X509Error>>(value: &'a [u8]) -> Result<T, Reason> {
    match T::from_der(value) {
        Ok(([], parsed)) => Ok(parsed),
        _ => Err(Reason::Malformed),
    }
}

/// The three parts of a certificate as bytes, which the parser does not retain.
struct Outline<'a> {
    signed: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Outline<'a> {
    fn of(mut der: &'a [u8]) -> Option<Self> {
        let mut body = der::expect(&mut der, SEQUENCE)?.content;
        let signed = der::expect(&mut body, SEQUENCE)?.whole;
        let algorithm = der::expect(&mut body, SEQUENCE)?.content;
        let signature = der::expect(&mut body, BIT_STRING)?.content;
        // The first octet is the number of unused bits.
        let (&0, signature) = signature.split_first()? else {
            return None;
        };
        (der.is_empty() && body.is_empty()).then_some(Self {
            signed,
            algorithm,
            signature,
        })
    }
}

/// The common name that `subject` has in addition to all parts of `issuer`, byte for byte. None: it
/// has other parts in addition, or several, or none.
pub(crate) fn added_common_name<'a>(issuer: &[u8], subject: &'a [u8]) -> Option<&'a [u8]> {
    let mut added = subject.strip_prefix(issuer)?;
    let mut set = der::expect(&mut added, SET)?.content;
    let mut attribute = der::expect(&mut set, SEQUENCE)?.content;
    let kind = der::expect(&mut attribute, OBJECT_IDENTIFIER)?;
    let name = der::next(&mut attribute)?;
    let is_all = added.is_empty() && set.is_empty() && attribute.is_empty();
    (is_all && kind.content == COMMON_NAME && !name.content.is_empty()).then_some(name.content)
}

/// The public key of a certificate in DER (`SubjectPublicKeyInfo`). None: it cannot be parsed.
pub fn public_key(certificate: &[u8]) -> Option<&[u8]> {
    Some(Certificate::parse(certificate).ok()?.public_key)
}
