//! Makes proxies.

use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::pki_types::{AlgorithmIdentifier, CertificateDer, UnixTime, alg_id};
use rustls::sign::SigningKey;
use x509_parser::time::ASN1Time;

use crate::certificate::{COMMON_NAME, Certificate, KEY_USAGE, PROXY_INFORMATION};
use crate::der::{
    self, BIT_STRING, BOOLEAN, GENERALIZED_TIME, OBJECT_IDENTIFIER, OCTET_STRING, PRINTABLE_STRING, SEQUENCE,
    SET, UTC_TIME,
};
use crate::information::ProxyInformation;

/// A proxy is valid from this time before it is made, for services whose clocks are slow. That of
/// Globus is the same.
const EARLIER_S: i64 = 300;
/// Schemes of signatures, with their algorithms.
const SCHEMES: [(SignatureScheme, AlgorithmIdentifier); 4] = [
    (SignatureScheme::RSA_PKCS1_SHA256, alg_id::RSA_PKCS1_SHA256),
    (SignatureScheme::ECDSA_NISTP256_SHA256, alg_id::ECDSA_SHA256),
    (SignatureScheme::ECDSA_NISTP384_SHA384, alg_id::ECDSA_SHA384),
    (SignatureScheme::ED25519, alg_id::ED25519),
];
/// Tags of the version and of the extensions.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// `digitalSignature` and `keyEncipherment`, and five unused bits.
const SIGNATURE_AND_ENCIPHERMENT: &[u8] = &[5, 0xa0];

/// Why a proxy cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum DelegateError {
    /// The certificate of the issuer cannot be used.
    #[error("the certificate cannot be read: a proxy needs an X.509 certificate of version 3")]
    Certificate,
    /// The key is not that of the certificate.
    #[error("the key is not that of the certificate")]
    Key,
    /// The certificate is that of an authority, or may not sign.
    #[error(
        "the certificate may not issue proxies: it is that of an authority, or its key usage does not permit \
         digital signatures"
    )]
    MayNotSign,
    /// The certificate has expired, or is not valid yet.
    #[error("the certificate has expired or is not valid yet")]
    NotValid,
    /// The key cannot sign.
    #[error("cannot sign: {0}")]
    Sign(#[source] rustls::Error),
}

/// A certificate that issues proxies.
///
/// A proxy has the same key as its issuer, and is valid as long. Rejected: a key pair for each, as
/// `grid-proxy-init` makes one: one of RSA takes a second of processor time, those of a thousand
/// testers a quarter of an hour. The service verifies the same signatures.
#[derive(Debug)]
pub struct Delegator {
    /// Chain of the issuer, its own certificate first.
    chain: Vec<CertificateDer<'static>>,
    key: Arc<dyn SigningKey>,
    /// Content of the issuer's name.
    name: Vec<u8>,
    public_key: Vec<u8>,
    validity: (i64, i64),
}

impl Delegator {
    /// An issuer with its chain, its own certificate first.
    pub fn new(chain: Vec<CertificateDer<'static>>, key: Arc<dyn SigningKey>) -> Result<Self, DelegateError> {
        let first = chain.first().ok_or(DelegateError::Certificate)?;
        let issuer = Certificate::parse(first).map_err(|_| DelegateError::Certificate)?;
        if key
            .public_key()
            .is_some_and(|key| key.as_ref() != issuer.public_key)
        {
            return Err(DelegateError::Key);
        }
        if issuer.is_authority || !issuer.may_sign() {
            return Err(DelegateError::MayNotSign);
        }
        Ok(Self {
            name: issuer.subject.to_vec(),
            public_key: issuer.public_key.to_vec(),
            validity: issuer.validity,
            chain,
            key,
        })
    }

    /// The chain of a new proxy. `number`: its serial number and its common name.
    pub fn delegate(
        &self,
        number: u64,
        information: ProxyInformation,
        now: UnixTime,
    ) -> Result<Vec<CertificateDer<'static>>, DelegateError> {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let (first, last) = self.validity;
        if !(first..=last).contains(&now) {
            return Err(DelegateError::NotValid);
        }
        let begin = time((now - EARLIER_S).max(first)).ok_or(DelegateError::NotValid)?;
        let end = time(last).ok_or(DelegateError::NotValid)?;

        let signer = self.key.choose_scheme(&SCHEMES.map(|(scheme, _)| scheme));
        let unsupported = || DelegateError::Sign(rustls::Error::General("unsupported kind of key".into()));
        let signer = signer.ok_or_else(unsupported)?;
        let used = SCHEMES.iter().find(|(scheme, _)| *scheme == signer.scheme());
        let (_, algorithm) = used.ok_or_else(unsupported)?;
        let algorithm = der::value(SEQUENCE, &[algorithm.as_ref()]);

        let identifier = der::value(OBJECT_IDENTIFIER, &[COMMON_NAME]);
        let text = der::value(PRINTABLE_STRING, &[number.to_string().as_bytes()]);
        let attribute = der::value(SEQUENCE, &[&identifier, &text]);
        let added = der::value(SET, &[&attribute]);
        let usage = der::value(BIT_STRING, &[SIGNATURE_AND_ENCIPHERMENT]);
        let extensions = der::value(
            SEQUENCE,
            &[
                &critical_extension(PROXY_INFORMATION, &information.encode()),
                &critical_extension(KEY_USAGE, &usage),
            ],
        );
        let body = der::value(
            SEQUENCE,
            &[
                &der::value(VERSION, &[&der::integer(2)]),
                &der::integer(number),
                &algorithm,
                &der::value(SEQUENCE, &[&self.name]),
                &der::value(SEQUENCE, &[&begin, &end]),
                &der::value(SEQUENCE, &[&self.name, &added]),
                &self.public_key,
                &der::value(EXTENSIONS, &[&extensions]),
            ],
        );
        let signature = signer.sign(&body).map_err(DelegateError::Sign)?;
        let signature = der::value(BIT_STRING, &[&[0], &signature]);
        let proxy = der::value(SEQUENCE, &[&body, &algorithm, &signature]);
        let mut chain = vec![CertificateDer::from(proxy)];
        chain.extend(self.chain.iter().cloned());
        Ok(chain)
    }
}

fn critical_extension(identifier: &[u8], value: &[u8]) -> Vec<u8> {
    der::value(
        SEQUENCE,
        &[
            &der::value(OBJECT_IDENTIFIER, &[identifier]),
            &der::value(BOOLEAN, &[&[0xff]]),
            &der::value(OCTET_STRING, &[value]),
        ],
    )
}

/// Seconds since 1970 as a time. RFC 5280, 4.1.2.5: `UTCTime` until 2049.
fn time(seconds: i64) -> Option<Vec<u8>> {
    let time = ASN1Time::from_timestamp(seconds).ok()?.to_datetime();
    let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    let rest = format!("{month:02}{day:02}{hour:02}{minute:02}{second:02}Z");
    match year {
        1950..2050 => Some(der::value(
            UTC_TIME,
            &[format!("{:02}{rest}", year % 100).as_bytes()],
        )),
        0..10_000 => Some(der::value(
            GENERALIZED_TIME,
            &[format!("{year:04}{rest}").as_bytes()],
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_two_digits_of_the_year_until_2049() {
        assert_eq!(time(0).unwrap(), b"\x17\x0d700101000000Z");
        assert_eq!(time(2_524_607_999).unwrap(), b"\x17\x0d491231235959Z");
        assert_eq!(time(2_524_608_000).unwrap(), b"\x18\x0f20500101000000Z");
        assert!(time(i64::MAX).is_none());
    }
}
