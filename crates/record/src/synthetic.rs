//! Synthetic transactions that resemble a real run, for tests and benchmarks of this crate.

use plimsoll_model::{Cache, Codes, NOT_HAPPENED, Outcome, Phase, Transaction};

use crate::Names;

/// Names for the numbers in the transactions of [`Mix`].
pub fn names() -> Names {
    let words = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    Names {
        agents: words(&["local"]),
        workloads: words(&["main"]),
        operations: words(&["small", "medium", "large"]),
        endpoints: words(&["target-1", "target-2"]),
    }
}

/// An endless sequence of transactions of 64 testers with a cached HTTP service: about 100,000/s,
/// response times around 0.5 ms with a long tail, three sizes of responses, one error in 1,000, one
/// new connection in 100. The sequence is determined by the seed.
#[derive(Debug)]
pub struct Mix {
    seed: u64,
    /// End of the last transaction, raw clock, ns.
    now: i64,
    free: Vec<i64>,
    ok: plimsoll_model::Code,
    failed: plimsoll_model::Code,
}

impl Mix {
    /// A sequence that begins at raw time `t0`, ns.
    pub fn new(seed: u64, t0: i64, codes: &Codes) -> Self {
        Self {
            seed: seed | 1,
            now: t0,
            free: vec![t0; 64],
            ok: codes.number("200"),
            failed: codes.number("503"),
        }
    }

    /// xorshift64*: fast, and random enough for this purpose.
    fn draw(&mut self) -> u64 {
        self.seed ^= self.seed >> 12;
        self.seed ^= self.seed << 25;
        self.seed ^= self.seed >> 27;
        self.seed.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

impl Iterator for Mix {
    type Item = Transaction;

    fn next(&mut self) -> Option<Transaction> {
        let (a, b) = (self.draw(), self.draw());
        let tester = (a % 64) as u32;
        self.now += 1_000 + (b % 18_000) as i64;
        let end = self.now;
        // An approximation of -ln u without a logarithm: the number of leading zeros is geometric,
        // and the low bits smooth it.
        let tail = i64::from((b >> 1).leading_zeros()) * 140_000 + (a >> 44) as i64 % 140_000;
        let start = (end - 300_000 - tail).max(self.free[tester as usize]);
        self.free[tester as usize] = end;
        let size = [1_000, 10_000, 100_000][(a >> 16) as usize % 3];
        let failed = (a >> 20) % 1000 == 0;
        let fresh = (a >> 32) % 100 == 0;
        Some(Transaction {
            scheduled: start - (a >> 50) as i64,
            start,
            connected: if fresh {
                start + (end - start) / 4
            } else {
                NOT_HAPPENED
            },
            first_byte: end - (end - start) / 3,
            end,
            items: size / 100,
            payload: if failed { 0 } else { size },
            sent: 180 + u64::from(fresh) * 12,
            received: if failed { 210 } else { size + 245 + (b >> 60) },
            session: tester + 1,
            tester,
            agent: 0,
            workload: 0,
            stage: 0,
            operation: ((a >> 16) % 3) as u16,
            endpoint: ((b >> 40) % 2) as u16,
            code: if failed { self.failed } else { self.ok },
            attempt: 0,
            outcome: if failed { Outcome::Error } else { Outcome::Ok },
            cache: if b >> 61 == 0 { Cache::Miss } else { Cache::Hit },
            phase: Phase::Measured,
        })
    }
}
