//! TLS of services: every client has a certificate, or a grid proxy (RFC 3820).

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_grid_proxy::{Authorities, Verifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::{CertificateError, OtherError, ServerConfig};
use serde::{Deserialize, Serialize};

use crate::ServiceError;

/// Number of failed handshakes that the log contains. The counter has the number of all.
const LOGGED_HANDSHAKES: u64 = 20;

/// How clients are identified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SecurityMode {
    /// A client states who it is.
    #[default]
    None,
    /// TLS with client certificates.
    Tls,
}

/// The keys `security`, `cert_file`, `key_file` and `ca_file` of a configuration.
#[derive(Clone, Copy)]
pub(crate) struct TlsKeys<'a> {
    pub(crate) mode: SecurityMode,
    pub(crate) cert: Option<&'a Path>,
    pub(crate) key: Option<&'a Path>,
    pub(crate) ca: Option<&'a Path>,
}

impl TlsKeys<'_> {
    /// With TLS all files are required, without it none is permitted.
    pub(crate) fn check(&self) -> Result<(), ServiceError> {
        let wrong = |key, why: &str| Err(ServiceError::Config { key, why: why.into() });
        for (key, file) in [
            ("cert_file", self.cert),
            ("key_file", self.key),
            ("ca_file", self.ca),
        ] {
            match (self.mode, file) {
                (SecurityMode::Tls, None) => {
                    return wrong(key, "expected a PEM file, because security is tls");
                }
                (SecurityMode::None, Some(_)) => return wrong(key, "used only with security: tls"),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Loads the files of a configuration; none without security.
pub(crate) fn server(keys: &TlsKeys<'_>) -> Result<Option<Arc<ServerConfig>>, ServiceError> {
    let (SecurityMode::Tls, Some(cert), Some(key_file), Some(authorities)) =
        (keys.mode, keys.cert, keys.key, keys.ca)
    else {
        return Ok(None);
    };
    let mut trusted = Authorities::default();
    for authority in certificates("ca_file", authorities)? {
        trusted
            .add(&authority)
            .map_err(|error| wrong("ca_file", authorities, &error))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(Verifier::new(trusted, &provider));
    let key = PrivateKeyDer::from_pem_file(key_file).map_err(|error| wrong("key_file", key_file, &error))?;
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong("cert_file", cert, &error))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates("cert_file", cert)?, key)
        .map_err(|error| wrong("cert_file", cert, &error))?;
    // Every connection has a full handshake: its cost is what the service is to show.
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    Ok(Some(Arc::new(server)))
}

/// Counters of handshakes. They never decrease.
#[derive(Debug, Default)]
pub(crate) struct Handshakes {
    completed: AtomicU64,
    failed: AtomicU64,
}

impl Handshakes {
    pub(crate) fn completed(&self) -> u64 {
        self.completed.load(Ordering::Relaxed)
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Counts a handshake that was completed.
    pub(crate) fn complete(&self) {
        self.completed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a handshake that failed. Returns a line for the log; none after the first
    /// [`LOGGED_HANDSHAKES`].
    pub(crate) fn fail(&self, error: &io::Error) -> Option<String> {
        let before = self.failed.fetch_add(1, Ordering::Relaxed);
        (before < LOGGED_HANDSHAKES).then(|| format!("handshake {} failed: {}", before + 1, failure(error)))
    }
}

/// Why a handshake has failed. The client receives only an alert.
fn failure(error: &io::Error) -> String {
    let error_of_library = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match error_of_library {
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(refusal)))) => {
            format!("the client is refused: {refusal}")
        }
        _ => error.to_string(),
    }
}

fn certificates(key: &'static str, file: &Path) -> Result<Vec<CertificateDer<'static>>, ServiceError> {
    let read = || CertificateDer::pem_file_iter(file)?.collect::<Result<Vec<_>, _>>();
    let certificates = read().map_err(|error| wrong(key, file, &error))?;
    if certificates.is_empty() {
        return Err(wrong(key, file, &"it contains no certificate"));
    }
    Ok(certificates)
}

fn wrong(key: &'static str, file: &Path, why: &dyn std::fmt::Display) -> ServiceError {
    ServiceError::Config {
        key,
        why: format!("cannot use {}: {why}", file.display()),
    }
}
