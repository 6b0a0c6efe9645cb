//! The certificate of a client, or grid proxies of it (RFC 3820).

use std::sync::Arc;

use plimsoll_grid_proxy::{Delegator, Language, ProxyInformation, public_key};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, InconsistentKeys};
use serde::Deserialize;

use super::error::TlsError;
use super::tls::{TlsSettings, certificates};

/// Who shares a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyMode {
    /// All testers of a run.
    Run,
    /// Nobody: each tester has its own.
    Tester,
}

/// Adds the certificate of the settings, or the proxy of all testers.
pub(super) fn add(config: &mut ClientConfig, settings: &TlsSettings) -> Result<(), TlsError> {
    match (settings.proxy, identity(settings, config)?) {
        (None, None) => Ok(()),
        (Some(_), None) => Err(TlsError::NoIssuer),
        (Some(ProxyMode::Tester), Some(_)) => Err(TlsError::TesterProxies),
        (None, Some(identity)) => {
            present(config, identity);
            Ok(())
        }
        (Some(ProxyMode::Run), Some(identity)) => {
            let proxy = proxy(&delegator(&identity)?, &identity, 1)?;
            present(config, proxy);
            Ok(())
        }
    }
}

/// Configurations of TLS with a proxy for each tester.
pub struct TesterProxies {
    config: ClientConfig,
    identity: CertifiedKey,
    delegator: Delegator,
    /// That of number 1. It shows before the run that proxies can be made.
    first: Arc<ClientConfig>,
}

impl TesterProxies {
    pub(super) fn new(config: ClientConfig, settings: &TlsSettings) -> Result<Self, TlsError> {
        let identity = identity(settings, &config)?.ok_or(TlsError::NoIssuer)?;
        let delegator = delegator(&identity)?;
        let mut first = config.clone();
        present(&mut first, proxy(&delegator, &identity, 1)?);
        Ok(Self {
            config,
            identity,
            delegator,
            first: Arc::new(first),
        })
    }

    /// The configuration of a tester, whose number is from 0. It takes one signature of the
    /// certificate's key: a millisecond with RSA.
    pub fn of_tester(&self, number: u32) -> Arc<ClientConfig> {
        let number = u64::from(number) + 1;
        // The certificate can have expired since the first proxy was made. Then the service refuses
        // all connections, and the code states why.
        proxy(&self.delegator, &self.identity, number).map_or_else(
            |_| Arc::clone(&self.first),
            |proxy| {
                let mut config = self.config.clone();
                present(&mut config, proxy);
                Arc::new(config)
            },
        )
    }
}

fn present(config: &mut ClientConfig, identity: CertifiedKey) {
    config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(identity));
}

fn delegator(identity: &CertifiedKey) -> Result<Delegator, TlsError> {
    Delegator::new(identity.cert.clone(), Arc::clone(&identity.key)).map_err(TlsError::Proxy)
}

fn proxy(delegator: &Delegator, identity: &CertifiedKey, number: u64) -> Result<CertifiedKey, TlsError> {
    let information = ProxyInformation {
        path_length: None,
        language: Language::InheritAll,
    };
    let chain = delegator
        .delegate(number, information, UnixTime::now())
        .map_err(TlsError::Proxy)?;
    Ok(CertifiedKey::new(chain, Arc::clone(&identity.key)))
}

/// The certificate of the settings with its chain and key. None: the settings contain none.
fn identity(settings: &TlsSettings, config: &ClientConfig) -> Result<Option<CertifiedKey>, TlsError> {
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
