//! TLS of a client, from files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme,
};
use serde::Deserialize;

/// Settings of TLS.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    /// PEM file with authorities.
    pub ca_file: Option<PathBuf>,
    /// Directory of PEM files, as grids keep them (`/etc/grid-security/certificates`): every file
    /// that holds a certificate counts, whatever its name; revocation lists are not looked at.
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
    let trust = if settings.is_some_and(|settings| !settings.verify) {
        Trust::Anyone
    } else {
        Trust::of(roots(settings, &provider)?, &provider)?
    };
    let builder = match trust {
        Trust::Valid(roots) => builder.with_root_certificates(roots),
        trust => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Judge { trust, provider })),
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
    // Every connection pays its whole handshake, as those of different users do: a ticket taken
    // over from another tester would make the service look faster than it is.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// Authorities, apart by their dates: what verifies certificates never looks at those of the
/// authority itself, and would take an expired one, which other clients refuse.
struct Roots {
    valid: RootCertStore,
    /// Expired, or not valid yet.
    stale: RootCertStore,
}

fn roots(settings: Option<&TlsSettings>, provider: &Arc<CryptoProvider>) -> Result<Roots, String> {
    let mut found = Vec::new();
    let mut given = Vec::new();
    if let Some(file) = settings.and_then(|settings| settings.ca_file.as_ref()) {
        given.push(file.display().to_string());
        found.extend(certificates(file)?);
    }
    if let Some(directory) = settings.and_then(|settings| settings.ca_dir.as_ref()) {
        given.push(directory.display().to_string());
        let cannot = |error| format!("tls.ca_dir: cannot read {}: {error}", directory.display());
        for entry in std::fs::read_dir(directory).map_err(cannot)? {
            let file = entry.map_err(cannot)?.path();
            // What cannot be read or is no PEM file (policies, lists of revoked certificates, links
            // to what is no longer there) is not for us. Of a file that is broken in the middle
            // counts what stands before.
            if file.is_file()
                && let Ok(sections) = CertificateDer::pem_file_iter(&file)
            {
                found.extend(sections.map_while(Result::ok));
            }
        }
    }
    if given.is_empty()
        && let Some(file) = SYSTEM.iter().map(Path::new).find(|file| file.exists())
    {
        found.extend(certificates(file)?);
    }
    // Directories of grids hold every authority several times, as links by the hashes of old and
    // new libraries.
    found.sort_unstable_by(|a, b| a.as_ref().cmp(b.as_ref()));
    found.dedup();
    let (mut valid, mut stale) = (RootCertStore::empty(), RootCertStore::empty());
    for authority in found {
        // One that cannot be understood is left out, as are those of algorithms that nobody uses
        // any more.
        let _ = if is_stale(&authority, provider) {
            stale.add(authority)
        } else {
            valid.add(authority)
        };
    }
    if valid.is_empty() && stale.is_empty() {
        return Err(if given.is_empty() {
            "tls: no certificate authority is known: give ca_file or ca_dir".to_owned()
        } else {
            format!(
                "tls: there is no certificate of an authority in {}: ca_file wants a PEM file, ca_dir a directory of them",
                given.join(" or ")
            )
        });
    }
    Ok(Roots { valid, stale })
}

/// Whether an authority's own certificate is past its end, or before its begin. The library reads
/// dates only of what it is to verify, and there it looks at them first, before anything else can
/// be wrong with an authority in that place.
fn is_stale(authority: &CertificateDer<'static>, provider: &Arc<CryptoProvider>) -> bool {
    let mut alone = RootCertStore::empty();
    if alone.add(authority.clone()).is_err() {
        return false;
    }
    let Ok(verifier) =
        WebPkiServerVerifier::builder_with_provider(Arc::new(alone), Arc::clone(provider)).build()
    else {
        return false;
    };
    let anybody = ServerName::IpAddress(std::net::Ipv4Addr::LOCALHOST.into());
    let judged = verifier.verify_server_cert(authority, &[], &anybody, &[], UnixTime::now());
    matches!(
        judged,
        Err(rustls::Error::InvalidCertificate(
            CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. }
        ))
    )
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let cannot = |error| format!("tls: cannot read certificates from {}: {error}", file.display());
    CertificateDer::pem_file_iter(file)
        .map_err(cannot)?
        .collect::<Result<_, _>>()
        .map_err(cannot)
}

/// A few words for `error`, the same for everybody: the library's own hold the second of the check,
/// and long names.
pub fn code(error: &rustls::Error) -> String {
    let rustls::Error::InvalidCertificate(why) = error else {
        return format!("tls {error}");
    };
    let why = match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "not valid yet",
        CertificateError::UnknownIssuer => "unknown authority",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "of another name"
        }
        CertificateError::Other(OtherError(why)) => return format!("tls invalid peer certificate: {why}"),
        _ => return format!("tls {error}"),
    };
    format!("tls invalid peer certificate: {why}")
}

/// The name that the server's certificate must carry.
pub fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned())
        .map_err(|_| format!("{host} is no name that a certificate can carry"))
}

/// Why a certificate is refused that an authority of ours vouches for.
#[derive(Debug, thiserror::Error)]
#[error("its authority has expired or is not valid yet")]
struct StaleAuthority;

/// Judges a server's certificate where the library's own way is not what we want.
#[derive(Debug)]
struct Judge {
    trust: Trust,
    provider: Arc<CryptoProvider>,
}

#[derive(Debug)]
enum Trust {
    /// Every certificate is good: `verify: false`.
    Anyone,
    /// Those of these authorities are good: the library's own way.
    Valid(RootCertStore),
    /// Those of valid authorities are good; of those of stale ones it is said why they are not.
    Dated {
        valid: Option<Arc<WebPkiServerVerifier>>,
        stale: Arc<WebPkiServerVerifier>,
    },
}

impl Trust {
    fn of(roots: Roots, provider: &Arc<CryptoProvider>) -> Result<Self, String> {
        if roots.stale.is_empty() {
            return Ok(Self::Valid(roots.valid));
        }
        let verifier = |roots| {
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
                .build()
                .map_err(|error| format!("tls: {error}"))
        };
        let valid = if roots.valid.is_empty() {
            None
        } else {
            Some(verifier(roots.valid)?)
        };
        let stale = verifier(roots.stale)?;
        Ok(Self::Dated { valid, stale })
    }
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Trust::Dated { valid, stale } = &self.trust else {
            return Ok(ServerCertVerified::assertion());
        };
        let judged = match valid {
            Some(valid) => valid.verify_server_cert(certificate, chain, name, ocsp, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        };
        // A bad signature is that of another authority of the same name, such as the successor of
        // an expired one.
        let unknown = matches!(
            judged,
            Err(rustls::Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::BadSignature
            ))
        );
        // Costs its time only where the answer is no anyway.
        if unknown
            && stale
                .verify_server_cert(certificate, chain, name, ocsp, now)
                .is_ok()
        {
            return Err(CertificateError::Other(OtherError(Arc::new(StaleAuthority))).into());
        }
        judged
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
