//! The table: every chain with its result.

use plimsoll_grid_proxy::{Reason, Refusal, end_entity, verify};
use rustls::crypto::ring::default_provider;

use crate::make::{PAST, Party, authorities, authority, chain, now, proxy, renewed, user};
use crate::rows;

#[test]
fn every_chain_of_the_table_is_accepted_or_refused_for_its_reason() {
    let provider = default_provider();
    let mut failed = Vec::new();
    for row in rows::all() {
        let authorities = authorities(&[&row.authority]);
        let algorithms = provider.signature_verification_algorithms.all;
        let found = verify(&row.chain, &authorities, now(), algorithms)
            .map(|holder| (holder.end_entity, holder.is_limited))
            .map_err(|Refusal { certificate, reason }| (certificate, reason));
        if found != row.expected {
            failed.push(format!("{}: {found:?} instead of {:?}", row.title, row.expected));
        } else if let Ok((position, _)) = found {
            let holder = end_entity(&row.chain);
            assert_eq!(holder, Some(&row.chain[position]), "{}", row.title);
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn a_renewed_authority_is_valid_beside_its_expired_certificate() {
    let current = authority("authority", None, |_| {});
    let old = renewed(&current, PAST);
    let issuer = user(&current, |_| {});
    let below = proxy(&issuer, |_| {});
    let algorithms = default_provider().signature_verification_algorithms.all;
    let presented = chain(&[&below, &issuer]);
    let found = |trusted: &[&Party]| verify(&presented, &authorities(trusted), now(), algorithms);
    assert!(found(&[&old, &current]).is_ok());
    assert!(found(&[&current, &old]).is_ok());
    assert_eq!(found(&[&old]).unwrap_err().reason, Reason::StaleAuthority);
}

#[test]
fn a_refusal_states_the_certificate_and_the_rule() {
    let rows = rows::all();
    let row = rows
        .iter()
        .find(|row| row.title == "path length 0, one below")
        .unwrap();
    let algorithms = default_provider().signature_verification_algorithms.all;
    let refusal = verify(&row.chain, &authorities(&[&row.authority]), now(), algorithms).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "certificate 2 of the chain: it permits 0 proxies below it, and the chain has 1"
    );
}
