//! Measures the time to encode and to verify one response: `cargo run --release -p plimsoll-wire
//! --example verify_cost`.
//!
//! The response has 1,000 rows of 100 bytes, the size in the figures of the gateway. This is a
//! measurement, not a test.

use std::time::Instant;

use plimsoll_wire::frontier::armor::Armor;
use plimsoll_wire::frontier::document::Reader;
use plimsoll_wire::frontier::payload::Encoder;
use plimsoll_wire::frontier::{frame, request::Encoding};

fn main() {
    let mut state = 1_u64;
    let mut rows = Encoder::default();
    rows.column("string", "text");
    rows.end_record();
    for _ in 0..1000 {
        let row: Vec<u8> = (0..100)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                b' ' + (state >> 58) as u8
            })
            .collect();
        rows.value(Some(&row));
        rows.end_record();
    }
    for level in [0, 1, 5] {
        let Some(encoding) = Encoding::from_level(level) else {
            continue;
        };
        let pack = || {
            let mut body = Vec::with_capacity(200_000);
            frame::begin(&mut body);
            frame::transaction(&mut body, 1);
            frame::payload(&mut body, "frontier_request", "1", &encoding.to_string());
            let mut armor = Armor::new(encoding);
            armor.push(&rows.buffer, &mut body);
            let seal = Some(armor.finish(&mut body));
            frame::quality(
                &mut body,
                "x",
                &frame::Quality {
                    seal,
                    records: Some(1000),
                    ..Default::default()
                },
            );
            frame::end_transaction(&mut body);
            frame::end(&mut body);
            body
        };
        let turns = 500;
        let start = Instant::now();
        for _ in 0..turns {
            std::hint::black_box(pack());
        }
        let packing = start.elapsed() / turns;
        let body = pack();
        let mut reader = Reader::new(1 << 24);
        let start = Instant::now();
        for _ in 0..turns {
            std::hint::black_box(reader.verify(std::hint::black_box(&body))).ok();
        }
        let verifying = start.elapsed() / turns;
        eprintln!(
            "zip {level}: {} bytes, pack {packing:?}, verify {verifying:?}",
            body.len()
        );
    }
}
