//! TLS of the service: every client has a certificate, or a grid proxy (RFC 3820).

use std::io;
use std::path::Path;
use std::sync::Arc;

use plimsoll_grid_proxy::{Authorities, Verifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::{CertificateError, OtherError, ServerConfig};

use super::config::{CatalogueConfig, SecurityMode};
use crate::ServiceError;

/// Loads the files of the configuration; none without security.
pub(super) fn server(config: &CatalogueConfig) -> Result<Option<Arc<ServerConfig>>, ServiceError> {
    let (SecurityMode::Tls, Some(cert), Some(key_file), Some(authorities)) = (
        config.security,
        &config.cert_file,
        &config.key_file,
        &config.ca_file,
    ) else {
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

/// Why a handshake has failed. The client receives only an alert.
pub(super) fn failure(error: &io::Error) -> String {
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
