//! Made-up transactions that look like a real run: for the tests of this crate and for measuring
//! it.

use plimsoll_model::{Cache, Codes, NOT_HAPPENED, Outcome, Phase, Transaction};

use crate::Names;

/// Names that fit to [`Mix`].
pub fn names() -> Names {
    let words = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    Names {
        agents: words(&["local"]),
        workloads: words(&["main"]),
        operations: words(&["small", "medium", "large"]),
        endpoints: words(&["target-1", "target-2"]),
    }
}

/// An endless row of transactions of 64 testers against a cached HTTP service: about 100,000/s,
/// response times around half a millisecond with a long tail, three sizes of answers, one error in
/// a thousand, one new connection in a hundred. The same seed gives the same row.
#[derive(Debug)]
pub struct Mix {
    seed: u64,
    /// Raw clock: end of the last transaction.
    now: i64,
    free: Vec<i64>,
    ok: plimsoll_model::Code,
    failed: plimsoll_model::Code,
}

impl Mix {
    /// Begins at raw time `t0`.
    pub fn new(seed: u64, t0: i64, codes: &Codes) -> Self {
        Self {
            seed: seed | 1,
            now: t0,
            free: vec![t0; 64],
            ok: codes.number("200"),
            failed: codes.number("503"),
        }
    }

    /// xorshift64*: fast, and good enough for shapes.
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
        // -ln u without a logarithm: leading zeros are geometric, the low bits smooth them.
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
