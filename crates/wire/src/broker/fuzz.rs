//! Mutated input: for any bytes the parsers return a result and do not panic, and what they accept
//! is encoded to the same bytes.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::reply::tests::replies;
use super::{Frame, HEADER, JobRequest, MAX_BODY, Reply};

fn messages() -> Vec<Vec<u8>> {
    let mut messages: Vec<Vec<u8>> = replies()
        .iter()
        .map(|reply| {
            let mut bytes = Vec::new();
            reply.encode(&mut bytes);
            bytes
        })
        .collect();
    let mut job = Vec::new();
    JobRequest {
        vo: 59,
        group: 9,
        cpus: 1_000_000,
        runtime_ms: 604_800_000,
    }
    .encode(&mut job);
    messages.push(job);
    messages
}

/// Changes one to four bytes, and removes or repeats the end of some messages.
fn mutate(rng: &mut Pcg64, bytes: &mut Vec<u8>) {
    for _ in 0..rng.random_range(1..=4) {
        let at = rng.random_range(0..bytes.len());
        bytes[at] = rng.random();
    }
    match rng.random_range(0..4) {
        0 => bytes.truncate(rng.random_range(0..bytes.len())),
        1 => bytes.extend_from_within(rng.random_range(0..bytes.len())..),
        _ => {}
    }
}

#[test]
fn what_is_accepted_is_encoded_to_the_same_bytes() {
    let mut rng = Pcg64::seed_from_u64(22);
    let messages = messages();
    let mut accepted = 0;
    for turn in 0..200_000 {
        let mut bytes = messages[turn % messages.len()].clone();
        mutate(&mut rng, &mut bytes);
        let Ok(Some(frame)) = Frame::parse(&bytes) else {
            continue;
        };
        assert!(frame.length() <= HEADER + MAX_BODY as usize);
        let mut again = Vec::new();
        if let Ok(job) = JobRequest::decode(frame) {
            job.encode(&mut again);
        } else if let Ok(reply) = Reply::decode(frame) {
            reply.encode(&mut again);
        } else {
            continue;
        }
        assert_eq!(again, bytes[..frame.length()]);
        accepted += 1;
    }
    assert!(accepted > 1_000, "{accepted}");
}

#[test]
fn random_bytes_are_no_message() {
    let mut rng = Pcg64::seed_from_u64(7);
    for _ in 0..50_000 {
        let mut bytes: Vec<u8> = (0..rng.random_range(0..64)).map(|_| rng.random()).collect();
        if let Some(first) = bytes.first_mut() {
            *first |= 0x40;
            assert!(Frame::parse(&bytes).is_err());
        }
        let _ = Reply::from_json(200, &bytes);
    }
}
