//! Signed responses (`sec=sig`). A client with the server's certificate can verify that a response
//! is from the server and belongs to its request, also if it comes from a cache.
//!
//! As in the servlet, a signature is the SHA-256 of the request's path and of the payload, with the
//! padding of PKCS#1 v1.5 but without the name of the digest, raised to the private exponent.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rsa::pkcs1::DecodeRsaPrivateKey;
use rsa::pkcs8::DecodePrivateKey;
use rsa::traits::PublicKeyParts;
use rsa::{Pkcs1v15Sign, RsaPrivateKey};

use crate::ServiceError;

/// Length of a key in bits. Shorter keys do not protect; with longer keys a signature takes
/// seconds.
const BITS: std::ops::RangeInclusive<usize> = 1024..=8192;

/// Why a response cannot be signed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SignError {
    /// The key cannot sign the digest.
    #[error("cannot sign: {0}")]
    Key(#[from] rsa::Error),
    /// The thread that signs did not complete.
    #[error("cannot sign: the gateway is shutting down")]
    ShuttingDown,
}

/// A server's key and certificate.
pub(super) struct Signer {
    key: Arc<RsaPrivateKey>,
    /// The certificate in PEM, as `cert_request` returns it.
    pub(super) certificate: Vec<u8>,
}

impl Signer {
    /// Reads the files of a configuration. None if neither file is configured.
    pub(super) fn load(
        key: Option<&PathBuf>,
        certificate: Option<&PathBuf>,
    ) -> Result<Option<Self>, ServiceError> {
        let wrong = |key, why: String| Err(ServiceError::Config { key, why });
        let (key, certificate) = match (key, certificate) {
            (None, None) => return Ok(None),
            (Some(key), Some(certificate)) => (key, certificate),
            (Some(_), None) => {
                return wrong(
                    "cert_file",
                    "required with key_file, because clients verify signatures with the certificate".into(),
                );
            }
            (None, Some(_)) => {
                return wrong(
                    "key_file",
                    "required with cert_file, because clients with the certificate request signatures".into(),
                );
            }
        };
        let pem = read(certificate)?;
        if !pem.starts_with(b"-----BEGIN CERTIFICATE-----") {
            let why = format!(
                "expected certificates in PEM, that of this server first, in {}",
                certificate.display()
            );
            return wrong("cert_file", why);
        }
        let text = String::from_utf8(read(key)?).unwrap_or_default();
        let parsed = RsaPrivateKey::from_pkcs8_pem(&text)
            .ok()
            .or_else(|| RsaPrivateKey::from_pkcs1_pem(&text).ok());
        let Some(parsed) = parsed else {
            let why = format!(
                "expected an RSA key in PEM without a passphrase in {}",
                key.display()
            );
            return wrong("key_file", why);
        };
        let bits = parsed.n().bits();
        if !BITS.contains(&bits) {
            let why = format!("expected an RSA key of 1,024 to 8,192 bits, got {bits} bits");
            return wrong("key_file", why);
        }
        Ok(Some(Self {
            key: Arc::new(parsed),
            certificate: pem,
        }))
    }

    /// Returns the signature in base64. It takes milliseconds, on a thread of the blocking pool.
    ///
    /// # Errors
    /// [`SignError`].
    pub(super) async fn sign(&self, digest: [u8; 32]) -> Result<String, SignError> {
        let key = self.key.clone();
        let sign = move || {
            // Blinded: the time that it takes does not depend on the key.
            key.sign_with_rng(
                &mut rsa::rand_core::OsRng,
                Pkcs1v15Sign::new_unprefixed(),
                &digest,
            )
        };
        let signed = tokio::task::spawn_blocking(sign).await;
        let signature = signed.map_err(|_| SignError::ShuttingDown)??;
        Ok(STANDARD.encode(signature))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ServiceError> {
    std::fs::read(path).map_err(ServiceError::io(format!("cannot read {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_key_or_certificate_is_rejected_with_its_config_key() {
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
            (Some(&other), None, "cert_file: required with key_file"),
            (None, Some(&certificate), "key_file: required with cert_file"),
            (
                Some(&other),
                Some(&other),
                "cert_file: expected certificates in PEM",
            ),
            (Some(&other), Some(&certificate), "key_file: expected an RSA key"),
            (Some(&absent), Some(&certificate), "cannot read"),
        ] {
            let error = Signer::load(key, cert).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(Signer::load(None, None).unwrap().is_none());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
