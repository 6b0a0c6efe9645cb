//! Hostile bytes: no panic, and no chain that was changed is accepted. The inputs are fixed;
//! `PLIMSOLL_FUZZ_TIMES=100` multiplies their number.

use plimsoll_grid_proxy::{Authorities, MAX_BYTES, ProxyInformation, end_entity, public_key, verify};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;

use crate::make::{SEQUENCE, authorities, authority, chain, now, proxy, user, value};
use crate::targets::proxy_chain;

const INPUTS: usize = 4_000;

fn times() -> usize {
    std::env::var("PLIMSOLL_FUZZ_TIMES").map_or(1, |times| times.parse().unwrap())
}

/// Calls every function that receives bytes of a client.
fn accepts(chain: &[CertificateDer<'_>], authorities: &Authorities) -> bool {
    let algorithms = default_provider().signature_verification_algorithms.all;
    let _ = end_entity(chain);
    for certificate in chain {
        let _ = public_key(certificate);
        let _ = ProxyInformation::parse(certificate);
    }
    verify(chain, authorities, now(), algorithms).is_ok()
}

/// Changes some bytes: other values, other bits, removed, repeated, cut.
fn change(bytes: &mut Vec<u8>, random: &mut Pcg64) {
    for _ in 0..random.random_range(1..4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..7) {
            0 => bytes[at] = random.random(),
            1 => bytes[at] ^= 1_u8 << random.random_range(0..8_u32),
            2 => bytes[at] = [0, 0x7f, 0x80, 0x81, 0x84, 0xff, SEQUENCE, 0xa0][random.random_range(0..8)],
            3 => {
                bytes.remove(at);
            }
            4 => bytes.insert(at, random.random()),
            5 => {
                let end = (at + random.random_range(1..64)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let to = random.random_range(0..=bytes.len());
                bytes.splice(to..to, piece);
            }
            _ => bytes.truncate(at),
        }
    }
}

#[test]
fn a_changed_chain_is_refused() {
    let authority = authority("authority", None, |_| {});
    let user = user(&authority, |_| {});
    let (first, trusted) = (proxy(&user, |_| {}), authorities(&[&authority]));
    let second = proxy(&first, |_| {});
    let valid = chain(&[&second, &first, &user]);
    assert!(accepts(&valid, &trusted));
    let mut random = Pcg64::seed_from_u64(3820);
    for number in 0..INPUTS * times() {
        let mut changed = valid.clone();
        let position = random.random_range(0..changed.len());
        let mut bytes = changed[position].to_vec();
        change(&mut bytes, &mut random);
        if bytes == *valid[position] {
            continue;
        }
        changed[position] = bytes.into();
        assert!(!accepts(&changed, &trusted), "input {number}: {changed:x?}");
    }
}

/// The seeds of `scripts/fuzz`, and changes of them.
#[test]
fn changed_inputs_of_the_fuzz_target_are_read() {
    let seed = include_bytes!("../fuzz/corpus/proxy_chain/two-proxies");
    let chain = proxy_chain::certificates(seed);
    assert_eq!(chain.len(), 4);
    let mut trusted = Authorities::default();
    trusted.add(&chain[3]).unwrap();
    assert!(
        proxy_chain::is_accepted(&chain[..3], &trusted),
        "the seed is valid"
    );
    let mut random = Pcg64::seed_from_u64(3821);
    for _ in 0..INPUTS * times() {
        let mut bytes = seed.to_vec();
        change(&mut bytes, &mut random);
        proxy_chain::run(&bytes);
    }
}

#[test]
fn bytes_without_form_are_refused() {
    let trusted = authorities(&[&authority("authority", None, |_| {})]);
    let mut random = Pcg64::seed_from_u64(5280);
    for _ in 0..INPUTS * times() {
        let length = random.random_range(0..300);
        let mut bytes = vec![0; length];
        random.fill_bytes(&mut bytes);
        if random.random() {
            bytes = value(SEQUENCE, &[&value(SEQUENCE, &[&bytes])]);
        }
        assert!(!accepts(&[bytes.into()], &trusted));
    }
}

#[test]
fn deep_and_wide_values_are_refused() {
    let authority = authority("authority", None, |_| {});
    let (user, trusted) = (user(&authority, |_| {}), authorities(&[&authority]));
    let mut deep = Vec::new();
    while deep.len() < MAX_BYTES - 10 {
        deep = value(SEQUENCE, &[&deep]);
    }
    assert!(!accepts(&[deep.into()], &trusted));
    // As many extensions as fit, all different, and a name of as many parts as fit.
    let wide = proxy(&user, |draft| {
        for number in 128..4_000_u16 {
            let [high, low] = [(number >> 7) as u8 | 0x80, (number & 0x7f) as u8];
            draft.set(&[0x2b, high, low], false, &[]);
        }
    });
    assert!(wide.der.len() < MAX_BYTES);
    assert!(
        accepts(&chain(&[&wide, &user]), &trusted),
        "only their number is unusual"
    );
    let long = proxy(&user, |draft| draft.subject = draft.subject.repeat(1_000));
    assert!(long.der.len() < MAX_BYTES);
    assert!(!accepts(&chain(&[&long, &user]), &trusted));
}
