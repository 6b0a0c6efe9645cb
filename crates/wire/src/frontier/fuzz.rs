//! Mutated input: for any input the parsers return a result and do not panic.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::document::Reader;
use super::example;
use super::payload::{Fields, count_rows};
use super::request::{decode_p1, encode_p1, parse_target};

/// Makes one to eight changes: a byte is changed, a range is removed, copied or overwritten, or the
/// end is removed.
fn mutate(rng: &mut Pcg64, bytes: &mut Vec<u8>) {
    for _ in 0..rng.random_range(1..=8) {
        if bytes.is_empty() {
            return;
        }
        let from = rng.random_range(0..bytes.len());
        let end = (from + rng.random_range(1..40)).min(bytes.len());
        match rng.random_range(0..6) {
            0 => bytes[from] = rng.random(),
            1 => bytes[from] ^= 1 << rng.random_range(0..8),
            2 => drop(bytes.drain(from..end)),
            3 => {
                let copy = bytes[from..end].to_vec();
                let to = rng.random_range(0..=bytes.len());
                bytes.splice(to..to, copy);
            }
            4 => bytes[from..end].fill(*b"<>\"=&%/\x00\xff7".get(rng.random_range(0..11)).unwrap_or(&b'9')),
            _ => bytes.truncate(from),
        }
    }
}

#[test]
fn mutated_documents_do_not_panic_and_accepted_ones_are_correct() {
    let mut rng = Pcg64::seed_from_u64(1);
    let seeds = [
        example::zipped_document(),
        example::document("BLOB", &example::plain()),
        example::document("BLOBzip1", &example::plain()),
    ];
    let mut reader = Reader::new(1 << 16);
    let mut accepted = 0;
    for turn in 0..60_000 {
        let mut body = seeds[turn % seeds.len()].clone();
        mutate(&mut rng, &mut body);
        if let Ok(summary) = reader.verify(&body)
            && summary.error.is_none()
        {
            // Only damage outside the payload is accepted, so that the data is correct.
            assert_eq!(
                (summary.rows, summary.payload_bytes),
                (2 * u64::from(summary.payloads), 125 * u64::from(summary.payloads))
            );
            accepted += 1;
        }
    }
    assert!(
        accepted > 100,
        "only {accepted} documents were accepted: the mutations are too strong"
    );
}

#[test]
fn mutated_payloads_do_not_panic() {
    let mut rng = Pcg64::seed_from_u64(2);
    for _ in 0..100_000 {
        let mut bytes = example::plain();
        mutate(&mut rng, &mut bytes);
        let _ = count_rows(&bytes);
        assert!(Fields::new(&bytes).count() <= bytes.len());
    }
}

#[test]
fn mutated_requests_do_not_panic() {
    let mut rng = Pcg64::seed_from_u64(3);
    let seed = format!(
        "/F/Frontier/type=frontier_request:1:DEFAULT&encoding=BLOBzip5&p1={0}&ttl=short&type=a:1&encoding=BLOB&p1={0}",
        encode_p1(example::SQL)
    );
    for _ in 0..60_000 {
        let mut bytes = seed.clone().into_bytes();
        mutate(&mut rng, &mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        for command in parse_target(&text).unwrap_or_default() {
            let _ = command.p1.map(|p1| decode_p1(&p1));
        }
    }
}
