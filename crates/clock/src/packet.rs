//! The bytes of a probe over UDP. Request and answer have the same size, so that an attacker gains
//! nothing with a forged sender address. Both contain a code that only a holder of the experiment's
//! key can compute, so that a stranger gets no answer.
//!
//! ```text
//! 0   4  magic "PLCK"          16  8  sent (T1)         40  16  HMAC-SHA256 of bytes 0..40, cut to 128 bits
//! 4   1  version, 1            24  8  heard (T2)            (RFC 2104 section 5, NIST SP 800-107 section 5.3.3)
//! 5   1  1 request, 2 answer   32  8  answered (T3)
//! 6   2  zero                      numbers are big-endian; T2 and T3 of a request are zero
//! 8   4  agent
//! 12  4  sequence
//! ```
//!
//! A packet that is received twice does no harm: θ(T1) ≤ T2 − T1 and θ(T4) ≥ T3 − T4 remain true,
//! but are weaker. An agent still drops answers that it does not wait for, so that no other process
//! can fill its window of probes.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::probe::{Probe, Via};

/// Size of every packet, bytes.
pub const PACKET_BYTES: usize = 56;
const SIGNED: usize = 40;
const MAC_BYTES: usize = PACKET_BYTES - SIGNED;
const MAGIC: [u8; 4] = *b"PLCK";
const VERSION: u8 = 1;
const REQUEST: u8 = 1;
const ANSWER: u8 = 2;

/// The key of one experiment for signing. It cannot be read or printed.
#[derive(Clone)]
pub struct ProbeKey(Hmac<Sha256>);

impl std::fmt::Debug for ProbeKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ProbeKey(***)")
    }
}

impl ProbeKey {
    /// A key of 32 random bytes.
    pub fn new(key: &[u8; 32]) -> Self {
        // HMAC pads a key that is shorter than a block with zeros. With a padded key no error is
        // possible.
        let mut block = [0; 64];
        block[..32].copy_from_slice(key);
        Self(Hmac::new(&block.into()))
    }

    fn seal(&self, kind: u8, fields: &Answer) -> [u8; PACKET_BYTES] {
        let mut bytes = [0; PACKET_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = kind;
        bytes[8..12].copy_from_slice(&fields.agent.to_be_bytes());
        bytes[12..16].copy_from_slice(&fields.sequence.to_be_bytes());
        bytes[16..24].copy_from_slice(&fields.sent.to_be_bytes());
        bytes[24..32].copy_from_slice(&fields.heard.to_be_bytes());
        bytes[32..40].copy_from_slice(&fields.answered.to_be_bytes());
        let code = self
            .0
            .clone()
            .chain_update(&bytes[..SIGNED])
            .finalize()
            .into_bytes();
        bytes[SIGNED..].copy_from_slice(&code[..MAC_BYTES]);
        bytes
    }

    /// The fields of a packet of `kind`. None if the packet was not made with this key. The codes
    /// are compared in constant time.
    fn open(&self, kind: u8, bytes: &[u8]) -> Option<Answer> {
        let bytes: &[u8; PACKET_BYTES] = bytes.try_into().ok()?;
        let (signed, code) = bytes.split_at(SIGNED);
        if signed[..4] != MAGIC || signed[4..8] != [VERSION, kind, 0, 0] {
            return None;
        }
        self.0
            .clone()
            .chain_update(signed)
            .verify_truncated_left(code)
            .ok()?;
        Some(Answer {
            agent: u32::from_be_bytes(field(bytes, 8)?),
            sequence: u32::from_be_bytes(field(bytes, 12)?),
            sent: i64::from_be_bytes(field(bytes, 16)?),
            heard: i64::from_be_bytes(field(bytes, 24)?),
            answered: i64::from_be_bytes(field(bytes, 32)?),
        })
    }
}

fn field<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset + N)?.try_into().ok()
}

/// The packet that an agent sends to the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Number of the agent in the experiment.
    pub agent: u32,
    /// Number of the probe at the agent; the answer contains the same number.
    pub sequence: u32,
    /// T1, agent time, ns.
    pub sent: i64,
}

impl Request {
    /// The request as a packet, with its code.
    pub fn encode(&self, key: &ProbeKey) -> [u8; PACKET_BYTES] {
        key.seal(REQUEST, &self.answer(0, 0))
    }

    /// The request in `bytes`. None if `bytes` is not exactly one valid request; such a packet gets
    /// no answer.
    pub fn decode(bytes: &[u8], key: &ProbeKey) -> Option<Self> {
        let fields = key.open(REQUEST, bytes)?;
        (fields.heard == 0 && fields.answered == 0).then_some(Self {
            agent: fields.agent,
            sequence: fields.sequence,
            sent: fields.sent,
        })
    }

    /// The answer to this request. `heard` (T2) and `answered` (T3) are controller times, ns.
    pub fn answer(&self, heard: i64, answered: i64) -> Answer {
        Answer {
            agent: self.agent,
            sequence: self.sequence,
            sent: self.sent,
            heard,
            answered,
        }
    }
}

/// The packet with which the controller answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Number of the agent, copied from the request.
    pub agent: u32,
    /// Number of the probe, copied from the request.
    pub sequence: u32,
    /// T1, agent time, ns, copied from the request.
    pub sent: i64,
    /// T2, controller time, ns.
    pub heard: i64,
    /// T3, controller time, ns.
    pub answered: i64,
}

impl Answer {
    /// The answer as a packet, with its code.
    pub fn encode(&self, key: &ProbeKey) -> [u8; PACKET_BYTES] {
        key.seal(ANSWER, self)
    }

    /// The answer in `bytes`. None if `bytes` is not exactly one valid answer. The caller checks
    /// that agent, sequence and T1 are those of a request that it sent.
    pub fn decode(bytes: &[u8], key: &ProbeKey) -> Option<Self> {
        key.open(ANSWER, bytes)
    }

    /// The probe that this answer completes. `received` (T4) is agent time, ns.
    pub fn probe(&self, received: i64) -> Probe {
        Probe {
            sent: self.sent,
            heard: self.heard,
            answered: self.answered,
            received,
            via: Via::Udp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST_OF_7: Request = Request {
        agent: 7,
        sequence: 0x0102_0304,
        sent: 1_000,
    };

    fn key() -> ProbeKey {
        ProbeKey::new(&[0x0b; 32])
    }

    #[test]
    fn a_request_and_its_answer_are_decoded_unchanged() {
        let key = key();
        let request = Request::decode(&REQUEST_OF_7.encode(&key), &key).unwrap();
        assert_eq!(request, REQUEST_OF_7);
        let answer = request.answer(5_000, 5_010);
        let received = Answer::decode(&answer.encode(&key), &key).unwrap();
        assert_eq!(received, answer);
        let probe = received.probe(1_300);
        let stamps = (probe.sent, probe.heard, probe.answered, probe.received, probe.via);
        assert_eq!(stamps, (1_000, 5_000, 5_010, 1_300, Via::Udp));
    }

    /// The code was computed by another implementation: Python's `hmac.new(b"\x0b" * 32,
    /// packet[:40], "sha256")`.
    #[test]
    fn the_bytes_are_those_of_the_documented_layout() {
        let bytes = REQUEST_OF_7.encode(&key());
        let mut expected = [0; 40];
        expected[..4].copy_from_slice(b"PLCK");
        expected[4..6].copy_from_slice(&[1, 1]);
        expected[8..16].copy_from_slice(&[0, 0, 0, 7, 1, 2, 3, 4]);
        expected[22..24].copy_from_slice(&[3, 232]);
        assert_eq!(bytes[..40], expected);
        assert_eq!(
            bytes[40..],
            [
                0x82, 0xdf, 0x04, 0xfe, 0xc6, 0x8a, 0x91, 0xae, 0x7c, 0x53, 0x3e, 0xce, 0x07, 0x07, 0xef,
                0xaf
            ]
        );
    }

    #[test]
    fn any_changed_bit_length_or_key_is_refused() {
        let (key, other) = (key(), ProbeKey::new(&[0x0c; 32]));
        let request = REQUEST_OF_7.encode(&key);
        let answer = REQUEST_OF_7.answer(1, 2).encode(&key);
        assert_eq!(request.len(), answer.len(), "no amplification");
        for bit in 0..PACKET_BYTES * 8 {
            let mut changed = request;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Request::decode(&changed, &key), None, "bit {bit}");
            let mut changed = answer;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Answer::decode(&changed, &key), None, "bit {bit}");
        }
        assert_eq!(Request::decode(&request, &other), None);
        assert_eq!(Request::decode(&answer, &key), None, "an answer is no request");
        assert_eq!(Answer::decode(&request, &key), None, "a request is no answer");
        for length in 0..PACKET_BYTES {
            assert_eq!(Request::decode(&request[..length], &key), None);
        }
        assert_eq!(Request::decode(&[request.as_slice(), &[0]].concat(), &key), None);
        assert_eq!(Request::decode(&[0xff; 2048], &key), None);
    }

    #[test]
    fn a_request_with_stamps_of_the_controller_is_refused() {
        let key = key();
        let odd = key.seal(REQUEST, &REQUEST_OF_7.answer(1, 0));
        assert_eq!(Request::decode(&odd, &key), None);
    }

    #[test]
    fn the_key_is_not_printed() {
        assert_eq!(format!("{:?}", key()), "ProbeKey(***)");
    }
}
