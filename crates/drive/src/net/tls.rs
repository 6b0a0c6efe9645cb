//! TLS of a client, from files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme,
};
use serde::Deserialize;
use url::Url;

use super::error::{ServerNameError, TlsError};
use super::identity::ProxyMode;
use crate::setup_error::UrlError;

/// Settings of TLS.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    /// PEM file with CA certificates.
    pub ca_file: Option<PathBuf>,
    /// Directory with PEM files of CA certificates, such as `/etc/grid-security/certificates`.
    /// Every file that contains a certificate is read, independent of its name. Revocation lists
    /// are not read.
    pub ca_dir: Option<PathBuf>,
    /// PEM file with the client's certificate and its chain. A grid proxy also contains the key.
    pub cert: Option<PathBuf>,
    /// PEM file with the client's key; none: `cert` contains it.
    pub key: Option<PathBuf>,
    /// Whether the server's certificate is verified.
    pub verify: bool,
    /// Whether the clients present grid proxies of `cert`; none: `cert` itself.
    #[serde(default)]
    pub proxy: Option<ProxyMode>,
}

impl TlsSettings {
    /// The settings for a service that has made certificates for its clients in `directory`: of the
    /// files that `settings` do not name, those of the directory.
    pub fn with_made(settings: Option<&Self>, directory: &Path) -> Self {
        let file = |name: &str| Some(directory.join(name));
        let mut all = settings.cloned().unwrap_or(Self {
            ca_file: None,
            ca_dir: None,
            cert: None,
            key: None,
            verify: true,
            proxy: None,
        });
        if all.cert.is_none() {
            (all.cert, all.key) = (file("user.pem"), file("user.key"));
        }
        if all.ca_file.is_none() && all.ca_dir.is_none() {
            all.ca_file = file("ca.pem");
        }
        all
    }

    /// The settings of a client that needs a certificate: `settings` if they have one, otherwise
    /// with the files that the service at `url` has made for its clients. None: there is no
    /// certificate.
    pub fn certified(settings: Option<&Self>, url: &str) -> Option<Self> {
        match (settings, made_directory(url)) {
            (Some(settings), _) if settings.cert.is_some() => Some(settings.clone()),
            (settings, Some(directory)) => Some(Self::with_made(settings, directory)),
            _ => None,
        }
    }
}

/// Name of the directory with the certificates that a service has made.
const MADE: &str = "credentials";

/// The directory with the certificates that a service has made for its clients, if its URL contains
/// it.
pub fn made_directory(url: &str) -> Option<&Path> {
    let (_, address) = url.split_once("://")?;
    let directory = Path::new(&address[address.find('/')?..]);
    directory.ends_with(MADE).then_some(directory)
}

/// The URL of a service that has TLS if its scheme ends with `s`.
pub struct ServiceUrl {
    /// The whole URL.
    pub url: Url,
    /// Its host; an IPv6 address in brackets.
    pub host: String,
    /// Whether the service has TLS.
    pub is_secure: bool,
}

impl ServiceUrl {
    /// Parses a URL with a host. The only path is the directory of the certificates that a service
    /// with TLS has made. `forms`: the permitted forms, for the error.
    pub fn parse(text: &str, forms: &'static str) -> Result<Self, UrlError> {
        let form = || UrlError::form(forms, text);
        let url = Url::parse(text).map_err(|source| UrlError::Syntax {
            found: text.to_owned(),
            source,
        })?;
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(form)?;
        let (host, is_secure) = (host.to_owned(), url.scheme().ends_with('s'));
        let is_made = is_secure && made_directory(text).is_some();
        let has_path = !matches!(url.path(), "" | "/") && !is_made;
        if has_path || url.query().is_some() {
            return Err(form());
        }
        Ok(Self { url, host, is_secure })
    }

    /// The name that the certificate of the service must contain.
    pub fn server_name(&self) -> Result<ServerName<'static>, ServerNameError> {
        server_name(self.host.trim_start_matches('[').trim_end_matches(']'))
    }
}

/// Files in which distributions keep the CA certificates of the web.
const SYSTEM_CA_FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The configuration of a client without a certificate.
pub(super) fn without_identity(settings: Option<&TlsSettings>) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Versions)?;
    let trust = if settings.is_some_and(|settings| !settings.verify) {
        Trust::Any
    } else {
        Trust::of(roots(settings, &provider)?, &provider)?
    };
    let builder = match trust {
        Trust::Valid(roots) => builder.with_root_certificates(roots),
        trust => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier { trust, provider })),
    };
    let mut config = builder.with_no_client_auth();
    // Every connection performs a full handshake, as connections of different users do. A ticket of
    // another tester would make the service appear faster than it is.
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// CA certificates, separated by their validity periods. The library does not check the period of a
/// CA certificate itself and would accept an expired one, which other clients refuse.
struct Roots {
    valid: RootCertStore,
    /// Expired, or not valid yet.
    stale: RootCertStore,
}

fn roots(settings: Option<&TlsSettings>, provider: &Arc<CryptoProvider>) -> Result<Roots, TlsError> {
    let mut authorities = Vec::new();
    let mut sources = Vec::new();
    if let Some(file) = settings.and_then(|settings| settings.ca_file.as_ref()) {
        sources.push(file.clone());
        authorities.extend(certificates(file)?);
    }
    if let Some(directory) = settings.and_then(|settings| settings.ca_dir.as_ref()) {
        sources.push(directory.clone());
        let cannot = |source| TlsError::Directory {
            directory: directory.clone(),
            source,
        };
        for entry in std::fs::read_dir(directory).map_err(cannot)? {
            let file = entry.map_err(cannot)?.path();
            // Files that cannot be read or are not PEM files are ignored: policies, revocation
            // lists, broken links. Of a damaged file, the certificates before the damage are used.
            if file.is_file()
                && let Ok(sections) = CertificateDer::pem_file_iter(&file)
            {
                authorities.extend(sections.map_while(Result::ok));
            }
        }
    }
    if sources.is_empty()
        && let Some(file) = SYSTEM_CA_FILES.iter().map(Path::new).find(|file| file.exists())
    {
        authorities.extend(certificates(file)?);
    }
    // Directories of grids contain every certificate several times, as links by the hashes of old
    // and new libraries.
    authorities.sort_unstable_by(|a, b| a.as_ref().cmp(b.as_ref()));
    authorities.dedup();
    let (mut valid, mut stale) = (RootCertStore::empty(), RootCertStore::empty());
    for authority in authorities {
        // A certificate that cannot be parsed is ignored, such as one with an obsolete algorithm.
        let _ = if is_stale(&authority, provider) {
            stale.add(authority)
        } else {
            valid.add(authority)
        };
    }
    if valid.is_empty() && stale.is_empty() {
        return Err(if sources.is_empty() {
            TlsError::NoSystemAuthorities
        } else {
            TlsError::NoAuthorities(sources)
        });
    }
    Ok(Roots { valid, stale })
}

/// Whether a CA certificate has expired or is not valid yet. The library checks the period only of
/// the certificate that it verifies, so that the CA certificate is verified as if it were that of a
/// server: the period is checked before anything else can fail.
fn is_stale(authority: &CertificateDer<'static>, provider: &Arc<CryptoProvider>) -> bool {
    let mut roots = RootCertStore::empty();
    if roots.add(authority.clone()).is_err() {
        return false;
    }
    let Ok(verifier) =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build()
    else {
        return false;
    };
    let any_name = ServerName::IpAddress(std::net::Ipv4Addr::LOCALHOST.into());
    let result = verifier.verify_server_cert(authority, &[], &any_name, &[], UnixTime::now());
    matches!(
        result,
        Err(rustls::Error::InvalidCertificate(
            CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. }
        ))
    )
}

pub(super) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let cannot = |source| TlsError::Certificates {
        file: file.to_owned(),
        source,
    };
    CertificateDer::pem_file_iter(file)
        .map_err(cannot)?
        .collect::<Result<_, _>>()
        .map_err(cannot)
}

/// Text of `error` for the column `code`. The text of the library contains the time of the check
/// and long names, so that there would be too many different codes.
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

/// The name that the server's certificate must contain.
pub fn server_name(host: &str) -> Result<ServerName<'static>, ServerNameError> {
    ServerName::try_from(host.to_owned()).map_err(|source| ServerNameError {
        host: host.to_owned(),
        source,
    })
}

/// Why a certificate is refused that a stale CA has signed. The text becomes a part of the code.
#[derive(Debug, thiserror::Error)]
#[error("its authority has expired or is not valid yet")]
struct StaleAuthority;

/// Verifies a server's certificate if the library's own verification is not sufficient.
#[derive(Debug)]
struct Verifier {
    trust: Trust,
    provider: Arc<CryptoProvider>,
}

#[derive(Debug)]
enum Trust {
    /// Every certificate is accepted: `verify: false`.
    Any,
    /// Certificates of these authorities are accepted, by the library's own verification.
    Valid(RootCertStore),
    /// Certificates of valid authorities are accepted. A certificate of a stale authority is
    /// refused with [`StaleAuthority`].
    Dated {
        valid: Option<Arc<WebPkiServerVerifier>>,
        stale: Arc<WebPkiServerVerifier>,
    },
}

impl Trust {
    fn of(roots: Roots, provider: &Arc<CryptoProvider>) -> Result<Self, TlsError> {
        if roots.stale.is_empty() {
            return Ok(Self::Valid(roots.valid));
        }
        let verifier = |roots| {
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
                .build()
                .map_err(TlsError::Verifier)
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

impl ServerCertVerifier for Verifier {
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
        let result = match valid {
            Some(valid) => valid.verify_server_cert(certificate, chain, name, ocsp, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        };
        // The signature is bad if a valid authority has the same name but another key, such as the
        // successor of an expired one.
        let is_unknown = matches!(
            result,
            Err(rustls::Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::BadSignature
            ))
        );
        // The second verification costs time only if the certificate is refused.
        if is_unknown
            && stale
                .verify_server_cert(certificate, chain, name, ocsp, now)
                .is_ok()
        {
            return Err(CertificateError::Other(OtherError(Arc::new(StaleAuthority))).into());
        }
        result
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
