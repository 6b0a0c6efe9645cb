//! Reads any bytes as the certificates of a client.

use plimsoll_grid_proxy::{Authorities, ProxyInformation, end_entity, public_key, verify};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, UnixTime};

/// Within the validity of the certificates of the corpus.
const NOW: u64 = 1_800_000_000;

/// Reads each certificate, and verifies the chain below its last certificate. Each certificate of
/// the input has two bytes for its length.
pub fn run(data: &[u8]) {
    let chain = certificates(data);
    let mut trusted = Authorities::default();
    if let Some(last) = chain.last() {
        let _ = trusted.add(last);
    }
    for certificate in &chain {
        let _ = (public_key(certificate), ProxyInformation::parse(certificate));
    }
    let _ = end_entity(&chain);
    let _ = is_accepted(&chain, &trusted);
}

/// Whether the chain is accepted.
pub fn is_accepted(chain: &[CertificateDer<'_>], trusted: &Authorities) -> bool {
    let algorithms = default_provider().signature_verification_algorithms.all;
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(NOW));
    verify(chain, trusted, now, algorithms).is_ok()
}

/// The certificates of the input.
pub fn certificates(mut data: &[u8]) -> Vec<CertificateDer<'_>> {
    let mut chain = Vec::new();
    while let [high, low, rest @ ..] = data {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        let (certificate, next) = rest.split_at(length);
        chain.push(CertificateDer::from(certificate));
        data = next;
    }
    chain
}
