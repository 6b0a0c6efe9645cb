//! TLS of a client, from files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use serde::Deserialize;

/// Settings of TLS.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    /// PEM file with authorities.
    pub ca_file: Option<PathBuf>,
    /// Directory of PEM files, as grids keep them (`/etc/grid-security/certificates`): every file that holds a certificate
    /// counts, whatever its name; revocation lists are not looked at.
    pub ca_dir: Option<PathBuf>,
    /// PEM file with our certificate (and its chain; a grid proxy holds its key as well).
    pub cert: Option<PathBuf>,
    /// PEM file with our key; none: it stands in `cert`.
    pub key: Option<PathBuf>,
    /// Whether the server's certificate must be good.
    pub verify: bool,
}

/// Where distributions keep the authorities of the web.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Compiles the settings; without any, the system's authorities are trusted.
pub fn client(settings: Option<&TlsSettings>) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("tls: {error}"))?;
    let builder = if settings.is_some_and(|settings| !settings.verify) {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
    } else {
        builder.with_root_certificates(roots(settings)?)
    };
    let mut config =
        match settings.and_then(|settings| Some((settings.cert.as_ref()?, settings.key.as_ref()))) {
            Some((cert, key)) => {
                let chain = certificates(cert)?;
                if chain.is_empty() {
                    return Err(format!("tls.cert: there is no certificate in {}", cert.display()));
                }
                let key_file = key.unwrap_or(cert);
                let key = PrivateKeyDer::from_pem_file(key_file).map_err(|error| {
                    format!(
                        "tls.key: there is no usable key in {}: {error}",
                        key_file.display()
                    )
                })?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| format!("tls.cert and tls.key: {error}"))?
            }
            None => builder.with_no_client_auth(),
        };
    // Every connection pays its whole handshake, as those of different users do: a ticket taken over from another tester
    // would make the service look faster than it is.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn roots(settings: Option<&TlsSettings>) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    let mut add = |file: &Path| -> Result<(), String> {
        let found = certificates(file)?;
        store.add_parsable_certificates(found);
        Ok(())
    };
    let mut given = false;
    if let Some(file) = settings.and_then(|settings| settings.ca_file.as_ref()) {
        given = true;
        add(file)?;
    }
    if let Some(directory) = settings.and_then(|settings| settings.ca_dir.as_ref()) {
        given = true;
        let cannot = |error| format!("tls.ca_dir: cannot read {}: {error}", directory.display());
        for entry in std::fs::read_dir(directory).map_err(cannot)? {
            let file = entry.map_err(cannot)?.path();
            if file.is_file() {
                // What cannot be read or is no PEM file (policies, lists of revoked certificates) is not for us.
                let _ = add(&file);
            }
        }
    }
    if !given && let Some(file) = SYSTEM.iter().map(Path::new).find(|file| file.exists()) {
        add(file)?;
    }
    if store.is_empty() {
        return Err("tls: no certificate authority is known: give ca_file or ca_dir".to_owned());
    }
    Ok(store)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let cannot = |error| format!("tls: cannot read certificates from {}: {error}", file.display());
    CertificateDer::pem_file_iter(file)
        .map_err(cannot)?
        .collect::<Result<_, _>>()
        .map_err(cannot)
}

/// The name that the server's certificate must carry.
pub fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned())
        .map_err(|_| format!("{host} is no name that a certificate can carry"))
}

/// Takes every certificate: `verify: false`.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
