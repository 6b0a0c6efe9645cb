//! Makes certificates, also those that no library makes.

use std::sync::Arc;

use plimsoll_grid_proxy::{Authorities, Language, ProxyInformation};
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::sign::SigningKey;

/// 2026-06-01, the time at which all chains are verified.
pub const NOW: u64 = 1_780_272_000;
/// A validity around [`NOW`], and others.
pub const VALID: [&str; 2] = ["260101000000Z", "270101000000Z"];
pub const PAST: [&str; 2] = ["250101000000Z", "260531235958Z"];
pub const FUTURE: [&str; 2] = ["260601000001Z", "270101000000Z"];

pub const SEQUENCE: u8 = 0x30;
pub const PROXY_INFORMATION: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 1, 14];
pub const DRAFT_INFORMATION: &[u8] = &[0x2b, 6, 1, 4, 1, 0x9b, 0x50, 1, 0x81, 0x5e];
pub const KEY_USAGE: &[u8] = &[0x55, 29, 15];
pub const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 29, 17];
pub const ISSUER_ALTERNATIVE_NAME: &[u8] = &[0x55, 29, 18];
pub const BASIC_CONSTRAINTS: &[u8] = &[0x55, 29, 19];
pub const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 29, 37];
/// A number that nobody uses.
pub const UNKNOWN: &[u8] = &[0x2b, 6, 1, 4, 1, 0x9b, 0x50, 0x7f];
/// `ecdsa-with-SHA256` and `ecdsa-with-SHA1`.
const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
pub const ECDSA_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 1];

/// A bit string with a key usage: `digitalSignature` 0x80, `keyCertSign` 0x04.
pub fn usage(bits: u8) -> Vec<u8> {
    vec![3, 2, 0, bits]
}

pub fn value(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let mut bytes = vec![tag];
    match content.len() {
        length @ 0..0x80 => bytes.push(length as u8),
        length @ 0x80..0x100 => bytes.extend([0x81, length as u8]),
        length @ 0x100..0x1_0000 => bytes.extend([0x82, (length >> 8) as u8, length as u8]),
        length => bytes.extend([0x83, (length >> 16) as u8, (length >> 8) as u8, length as u8]),
    }
    bytes.extend(content);
    bytes
}

/// An attribute of a name: 3 is CN, 10 is O, 11 is OU.
pub fn attribute(kind: u8, text: &str) -> Vec<u8> {
    value(
        SEQUENCE,
        &[&value(6, &[&[0x55, 4, kind]]), &value(12, &[text.as_bytes()])],
    )
}

/// The content of a name.
pub fn name(parts: &[(u8, &str)]) -> Vec<u8> {
    parts
        .iter()
        .flat_map(|(kind, text)| value(0x31, &[&attribute(*kind, text)]))
        .collect()
}

#[derive(Clone)]
pub struct Extension {
    pub identifier: Vec<u8>,
    pub is_critical: bool,
    pub value: Vec<u8>,
}

pub fn extension(identifier: &[u8], is_critical: bool, value: &[u8]) -> Extension {
    Extension {
        identifier: identifier.to_vec(),
        is_critical,
        value: value.to_vec(),
    }
}

/// A certificate before it is signed.
pub struct Draft {
    pub version: u8,
    pub issuer: Vec<u8>,
    pub subject: Vec<u8>,
    pub validity: [&'static str; 2],
    pub extensions: Vec<Extension>,
    /// Algorithms in the signed part and beside the signature.
    pub algorithms: [Vec<u8>; 2],
    pub signer: Arc<dyn SigningKey>,
    pub damages_signature: bool,
}

impl Draft {
    /// Replaces an extension, or adds it.
    pub fn set(&mut self, identifier: &[u8], is_critical: bool, value: &[u8]) {
        self.extensions.retain(|one| one.identifier != identifier);
        self.extensions.push(extension(identifier, is_critical, value));
    }

    pub fn information(&mut self, path_length: Option<u32>, language: Language) {
        let information = ProxyInformation {
            path_length,
            language,
        };
        self.set(PROXY_INFORMATION, true, &information.encode());
    }

    fn sign(&self, public_key: &[u8]) -> Vec<u8> {
        let [inner, outer] = self
            .algorithms
            .each_ref()
            .map(|identifier| value(SEQUENCE, &[&value(6, &[identifier])]));
        let times = self.validity.map(|time| value(0x17, &[time.as_bytes()])).concat();
        let extensions: Vec<u8> = self
            .extensions
            .iter()
            .flat_map(|one| {
                let critical: &[u8] = if one.is_critical { &[1, 1, 0xff] } else { &[] };
                let identifier = value(6, &[&one.identifier]);
                value(SEQUENCE, &[&identifier, critical, &value(4, &[&one.value])])
            })
            .collect();
        let extensions = value(0xa3, &[&value(SEQUENCE, &[&extensions])]);
        let body = value(
            SEQUENCE,
            &[
                &value(0xa0, &[&[2, 1, self.version]]),
                &[2, 1, 7],
                &inner,
                &value(SEQUENCE, &[&self.issuer]),
                &value(SEQUENCE, &[&times]),
                &value(SEQUENCE, &[&self.subject]),
                public_key,
                if self.extensions.is_empty() {
                    &[]
                } else {
                    &extensions
                },
            ],
        );
        let signer = self
            .signer
            .choose_scheme(&[SignatureScheme::ECDSA_NISTP256_SHA256]);
        let mut signature = signer.unwrap().sign(&body).unwrap();
        if self.damages_signature {
            // Within the second number, so that the form remains valid.
            *signature.last_mut().unwrap() ^= 1;
        }
        value(SEQUENCE, &[&body, &outer, &value(3, &[&[0], &signature])])
    }
}

/// A certificate and its key.
#[derive(Clone)]
pub struct Party {
    pub der: CertificateDer<'static>,
    pub key: Arc<dyn SigningKey>,
    /// PKCS #8.
    pub key_der: Vec<u8>,
    /// Content of its name.
    pub name: Vec<u8>,
}

fn new_key() -> Vec<u8> {
    rcgen::KeyPair::generate().unwrap().serialize_der()
}

/// A party with a key that signs itself, or is signed by `issuer`.
fn party(
    key_der: Vec<u8>,
    issuer: Option<&Party>,
    subject: Vec<u8>,
    extensions: Vec<Extension>,
    change: impl FnOnce(&mut Draft),
) -> Party {
    let key = any_supported_type(&PrivateKeyDer::try_from(key_der.clone()).unwrap()).unwrap();
    let mut draft = Draft {
        version: 2,
        issuer: issuer.map_or_else(|| subject.clone(), |issuer| issuer.name.clone()),
        subject,
        validity: VALID,
        extensions,
        algorithms: [ECDSA_SHA256.to_vec(), ECDSA_SHA256.to_vec()],
        signer: issuer.map_or_else(|| Arc::clone(&key), |issuer| Arc::clone(&issuer.key)),
        damages_signature: false,
    };
    change(&mut draft);
    let public_key = key.public_key().unwrap();
    Party {
        der: draft.sign(public_key.as_ref()).into(),
        key,
        key_der,
        name: draft.subject,
    }
}

fn of_authority() -> Vec<Extension> {
    vec![
        extension(BASIC_CONSTRAINTS, true, &[0x30, 3, 1, 1, 0xff]),
        extension(KEY_USAGE, true, &usage(0x84)),
    ]
}

pub fn authority(common_name: &str, issuer: Option<&Party>, change: impl FnOnce(&mut Draft)) -> Party {
    let subject = name(&[(10, "Grid"), (3, common_name)]);
    party(new_key(), issuer, subject, of_authority(), change)
}

/// Another certificate of an authority, with the same name and key.
pub fn renewed(authority: &Party, validity: [&'static str; 2]) -> Party {
    let (key, name) = (authority.key_der.clone(), authority.name.clone());
    party(key, None, name, of_authority(), |draft| draft.validity = validity)
}

pub fn user(authority: &Party, change: impl FnOnce(&mut Draft)) -> Party {
    let extensions = vec![extension(KEY_USAGE, true, &usage(0x80))];
    party(
        new_key(),
        Some(authority),
        name(&[(10, "Grid"), (3, "user")]),
        extensions,
        change,
    )
}

/// A proxy of `issuer` with one common name more, without limit of the path length.
pub fn proxy(issuer: &Party, change: impl FnOnce(&mut Draft)) -> Party {
    let information = ProxyInformation {
        path_length: None,
        language: Language::InheritAll,
    };
    let extensions = vec![
        extension(PROXY_INFORMATION, true, &information.encode()),
        extension(KEY_USAGE, true, &usage(0x80)),
    ];
    let subject = [issuer.name.clone(), name(&[(3, "1234")])].concat();
    party(new_key(), Some(issuer), subject, extensions, change)
}

pub fn now() -> UnixTime {
    UnixTime::since_unix_epoch(std::time::Duration::from_secs(NOW))
}

pub fn authorities(parties: &[&Party]) -> Authorities {
    let mut authorities = Authorities::default();
    for party in parties {
        authorities.add(&party.der).unwrap();
    }
    authorities
}

pub fn chain(parties: &[&Party]) -> Vec<CertificateDer<'static>> {
    parties.iter().map(|party| party.der.clone()).collect()
}
