//! Signed answers (`sec=sig`): whoever has the server's certificate can tell that an answer is the
//! server's, and to which question, whatever caches it came through.
//!
//! As in the servlet, a signature is the SHA-256 of the request's path and of the payload, padded
//! as PKCS#1 v1.5 pads a signature but without the name of the digest, and raised to the private
//! exponent.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rsa::pkcs1::DecodeRsaPrivateKey;
use rsa::pkcs8::DecodePrivateKey;
use rsa::traits::PublicKeyParts;
use rsa::{Pkcs1v15Sign, RsaPrivateKey};

use crate::ServiceError;

/// Bits of a key: fewer are no protection, more take seconds.
const BITS: std::ops::RangeInclusive<usize> = 1024..=8192;

/// A server's key and certificate.
pub(super) struct Signer {
    key: Arc<RsaPrivateKey>,
    /// PEM, as `cert_request` sends it.
    pub(super) certificate: Vec<u8>,
}

impl Signer {
    /// Reads the files of a configuration: both, or none.
    pub(super) fn load(
        key: Option<&PathBuf>,
        certificate: Option<&PathBuf>,
    ) -> Result<Option<Self>, ServiceError> {
        let wrong = |key, why: &str| Err(ServiceError::Config { key, why: why.into() });
        let (key, certificate) = match (key, certificate) {
            (None, None) => return Ok(None),
            (Some(key), Some(certificate)) => (key, certificate),
            (Some(_), None) => {
                return wrong(
                    "cert_file",
                    "needed with key_file: clients verify by the certificate",
                );
            }
            (None, Some(_)) => {
                return wrong(
                    "key_file",
                    "needed with cert_file: clients then ask for signatures",
                );
            }
        };
        let pem = read(certificate)?;
        if !pem.starts_with(b"-----BEGIN CERTIFICATE-----") {
            return wrong(
                "cert_file",
                "not a certificate in PEM, which the server's own one must begin",
            );
        }
        let text = String::from_utf8(read(key)?).unwrap_or_default();
        let parsed = RsaPrivateKey::from_pkcs8_pem(&text)
            .ok()
            .or_else(|| RsaPrivateKey::from_pkcs1_pem(&text).ok());
        let Some(parsed) = parsed else {
            return wrong("key_file", "not an RSA key in PEM without a passphrase");
        };
        if !BITS.contains(&parsed.n().bits()) {
            return wrong("key_file", "expected an RSA key of 1024 to 8192 bits");
        }
        Ok(Some(Self {
            key: Arc::new(parsed),
            certificate: pem,
        }))
    }

    /// The signature in base64. Takes milliseconds, on a thread of the blocking pool.
    pub(super) async fn sign(&self, digest: [u8; 32]) -> Result<String, String> {
        let key = self.key.clone();
        let sign = move || {
            // Blinded: how long it takes must tell nothing of the key.
            key.sign_with_rng(
                &mut rsa::rand_core::OsRng,
                Pkcs1v15Sign::new_unprefixed(),
                &digest,
            )
        };
        match tokio::task::spawn_blocking(sign).await {
            Ok(Ok(signature)) => Ok(STANDARD.encode(signature)),
            Ok(Err(error)) => Err(format!("cannot sign: {error}")),
            Err(_) => Err("cannot sign: the gateway ends".into()),
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ServiceError> {
    std::fs::read(path).map_err(ServiceError::io(format!("cannot read {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_key_or_no_certificate_is_refused_by_its_name() {
        let directory = std::env::temp_dir().join(format!("plimsoll-signature-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let certificate = file("cert", "-----BEGIN CERTIFICATE-----\n");
        let other = file("other", "-----BEGIN EC PRIVATE KEY-----\n");
        let absent = directory.join("absent");
        for (key, cert, expected) in [
            (Some(&other), None, "cert_file: needed with"),
            (None, Some(&certificate), "key_file: needed with"),
            (Some(&other), Some(&other), "cert_file: not a certificate"),
            (Some(&other), Some(&certificate), "key_file: not an RSA key"),
            (Some(&absent), Some(&certificate), "cannot read"),
        ] {
            let error = Signer::load(key, cert).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(Signer::load(None, None).unwrap().is_none());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
