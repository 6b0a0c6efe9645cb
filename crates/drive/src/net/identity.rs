//! The certificate of a client, or grid proxies of it (RFC 3820).

use std::sync::Arc;

use plimsoll_grid_proxy::{Delegator, Language, ProxyInformation, public_key};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, InconsistentKeys};
use serde::Deserialize;
use tokio_rustls::TlsConnector;

use super::error::TlsError;
use super::tls::{TlsSettings, certificates, without_identity};
use super::transport::Security;

/// Who shares a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyMode {
    /// All testers of a run.
    Run,
    /// Nobody: each tester has its own.
    Tester,
}

/// TLS of the testers of a workload: all of them present the same certificate or proxy, or none, or
/// each has a proxy of its own.
pub struct Identity {
    shared: TlsConnector,
    own: Option<Box<TesterProxies>>,
}

impl Identity {
    /// Compiles the settings. Without CA certificates in the settings, those of the system are
    /// used.
    pub fn new(settings: Option<&TlsSettings>) -> Result<Self, TlsError> {
        let mut config = without_identity(settings)?;
        let certified = settings
            .map(|settings| certified(settings, &config))
            .transpose()?;
        let mode = settings.and_then(|settings| settings.proxy);
        let own = match (mode, certified.flatten()) {
            (None, None) => None,
            (Some(_), None) => return Err(TlsError::NoIssuer),
            (None, Some(identity)) => {
                present(&mut config, identity);
                None
            }
            (Some(mode), Some(identity)) => {
                let proxies = TesterProxies {
                    delegator: Delegator::new(identity.cert.clone(), Arc::clone(&identity.key))
                        .map_err(TlsError::Proxy)?,
                    config,
                    identity,
                };
                // Shows before the run that proxies can be made.
                config = proxies.configuration(1)?;
                (mode == ProxyMode::Tester).then(|| Box::new(proxies))
            }
        };
        Ok(Self {
            shared: TlsConnector::from(Arc::new(config)),
            own,
        })
    }

    /// TLS of all testers that have no proxy of their own.
    pub fn shared(&self) -> &TlsConnector {
        &self.shared
    }

    /// TLS of a tester with a proxy of its own; none: it uses [`Self::shared`]. `number` is from 0.
    /// A proxy takes one signature of the certificate's key: a millisecond with RSA.
    pub fn of_tester(&self, number: u32) -> Option<TlsConnector> {
        // The certificate can have expired since the first proxy was made. Then the service refuses
        // all connections, and the code states why.
        let config = self.own.as_ref()?.configuration(u64::from(number) + 1).ok()?;
        Some(TlsConnector::from(Arc::new(config)))
    }
}

/// TLS with a server.
pub struct ServerTls {
    /// Who the testers are.
    pub identity: Identity,
    /// The name that its certificate must contain.
    pub name: ServerName<'static>,
}

impl ServerTls {
    /// That of a tester, whose number is from 0.
    pub fn of_tester(&self, number: u32) -> Security {
        let own = self.identity.of_tester(number);
        let connector = own.unwrap_or_else(|| self.identity.shared().clone());
        (connector, self.name.clone())
    }
}

/// Makes configurations of TLS with different proxies of one certificate.
struct TesterProxies {
    /// Without a certificate.
    config: ClientConfig,
    identity: CertifiedKey,
    delegator: Delegator,
}

impl TesterProxies {
    /// The configuration with the proxy of this number.
    fn configuration(&self, number: u64) -> Result<ClientConfig, TlsError> {
        let information = ProxyInformation {
            path_length: None,
            language: Language::InheritAll,
        };
        let chain = self
            .delegator
            .delegate(number, information, UnixTime::now())
            .map_err(TlsError::Proxy)?;
        let mut config = self.config.clone();
        present(
            &mut config,
            CertifiedKey::new(chain, Arc::clone(&self.identity.key)),
        );
        Ok(config)
    }
}

fn present(config: &mut ClientConfig, identity: CertifiedKey) {
    config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(identity));
}

/// The certificate of the settings with its chain and key. None: the settings contain none.
fn certified(settings: &TlsSettings, config: &ClientConfig) -> Result<Option<CertifiedKey>, TlsError> {
    let Some(file) = &settings.cert else {
        return Ok(None);
    };
    let chain = certificates(file)?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(file.clone()));
    }
    let key_file = settings.key.as_ref().unwrap_or(file);
    let key = PrivateKeyDer::from_pem_file(key_file).map_err(|source| TlsError::Key {
        file: key_file.clone(),
        source,
    })?;
    let key = config
        .crypto_provider()
        .key_provider
        .load_private_key(key)
        .map_err(TlsError::ClientCertificate)?;
    let identity = CertifiedKey::new(chain, key);
    match identity.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
        // The library cannot parse proxies, because of their critical extension.
        Err(rustls::Error::InvalidCertificate(_)) if is_key_of_first(&identity) => {}
        Err(error) => return Err(TlsError::ClientCertificate(error)),
    }
    Ok(Some(identity))
}

/// Whether the key is that of the first certificate.
fn is_key_of_first(identity: &CertifiedKey) -> bool {
    let of_certificate = identity
        .cert
        .first()
        .and_then(|certificate| public_key(certificate));
    let of_key = identity.key.public_key();
    of_certificate.is_some_and(|of_certificate| of_key.is_none_or(|key| key.as_ref() == of_certificate))
}
