//! Proxies that we make.

use std::sync::Arc;

use plimsoll_grid_proxy::{DelegateError, Delegator, Language, ProxyInformation, verify};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::UnixTime;

use crate::make::{NOW, Party, authorities, authority, chain, now, proxy, user};
use crate::openssl::{is_missing, opinion};

fn information(path_length: Option<u32>, language: Language) -> ProxyInformation {
    ProxyInformation {
        path_length,
        language,
    }
}

fn delegator(parties: &[&Party]) -> Result<Delegator, DelegateError> {
    Delegator::new(chain(parties), Arc::clone(&parties[0].key))
}

#[test]
fn a_proxy_of_ours_is_accepted_by_the_verifier_and_by_openssl() {
    let authority = authority("authority", None, |_| {});
    let user = user(&authority, |_| {});
    let first = proxy(&user, |_| {});
    let trusted = authorities(&[&authority]);
    let algorithms = default_provider().signature_verification_algorithms.all;
    for (parties, proxies) in [(&[&user][..], 1), (&[&first, &user][..], 2)] {
        let delegator = delegator(parties).unwrap();
        for (number, language) in [(1, Language::InheritAll), (u64::MAX, Language::Limited)] {
            let chain = delegator
                .delegate(number, information(Some(0), language), now())
                .unwrap();
            let holder = verify(&chain, &trusted, now(), algorithms).unwrap();
            assert_eq!(holder.end_entity, proxies);
            assert_eq!(holder.is_limited, language == Language::Limited);
            if !is_missing() {
                let (accepts, output) = opinion(&chain, &authority.der, NOW);
                assert!(accepts, "{output}");
            }
        }
    }
}

#[test]
fn a_proxy_that_nobody_would_accept_is_not_made() {
    let authority = authority("authority", None, |_| {});
    let user = user(&authority, |_| {});
    let with_other_key = Delegator::new(chain(&[&user]), Arc::clone(&authority.key));
    assert!(matches!(with_other_key, Err(DelegateError::Key)));
    assert!(matches!(delegator(&[&authority]), Err(DelegateError::MayNotSign)));
    let no_chain = Delegator::new(Vec::new(), Arc::clone(&user.key));
    assert!(matches!(no_chain, Err(DelegateError::Certificate)));
    let delegator = delegator(&[&user]).unwrap();
    let later = UnixTime::since_unix_epoch(std::time::Duration::from_secs(NOW + 366 * 86_400));
    let expired = delegator.delegate(1, information(None, Language::InheritAll), later);
    assert!(matches!(expired, Err(DelegateError::NotValid)));
}
