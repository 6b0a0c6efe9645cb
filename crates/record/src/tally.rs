//! Sums over the rows on disk, for a comparison with the counters of the testers.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt8Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use plimsoll_model::{Counters, Phase};
use serde::{Deserialize, Serialize};

/// Sums over rows of transactions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Counted from the rows: started, succeeded, failed, items, payload, wire. The other counters
    /// are 0.
    pub counters: Counters,
    /// Number of transactions that were cancelled at the end of the drain.
    pub in_flight: u64,
    /// End of the last transaction that ended before the drain, ns since the start of the run; 0 if
    /// there is none.
    pub last_end_ns: i64,
}

impl Tally {
    /// Adds the rows of `batch`, whose `start` is relative to the start of the run. None if a
    /// column is missing or has another type.
    pub fn add(&mut self, batch: &RecordBatch) -> Option<()> {
        let (outcome, ok) = keys(batch, "outcome", "ok")?;
        let (_, cancelled) = keys(batch, "outcome", "cancelled")?;
        let (phase, drain) = keys(batch, "phase", Phase::Drain.word())?;
        let int = |name: &str| {
            Some(
                batch
                    .column_by_name(name)?
                    .as_primitive_opt::<Int64Type>()?
                    .values(),
            )
        };
        let sum = |name: &str| {
            Some(
                batch
                    .column_by_name(name)?
                    .as_primitive_opt::<UInt64Type>()?
                    .values(),
            )
        };
        let (start, end) = (int("start")?, int("end")?);
        let (items, payload, sent, received) =
            (sum("items")?, sum("payload")?, sum("sent")?, sum("received")?);
        let counters = &mut self.counters;
        counters.started += batch.num_rows() as u64;
        counters.wire += sent.iter().sum::<u64>() + received.iter().sum::<u64>();
        for row in 0..batch.num_rows() {
            if outcome[row] == ok {
                counters.succeeded += 1;
                counters.items += items[row];
                counters.payload += payload[row];
            } else if outcome[row] == cancelled {
                self.in_flight += 1;
            } else {
                counters.failed += 1;
            }
            if phase[row] != drain && end[row] >= 0 {
                self.last_end_ns = self.last_end_ns.max(start[row] + end[row]);
            }
        }
        Some(())
    }

    /// Adds the sums of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.counters.add(&other.counters);
        self.in_flight += other.in_flight;
        self.last_end_ns = self.last_end_ns.max(other.last_end_ns);
    }
}

/// The keys of a dictionary column, and the key of `word` in it (255 if it is absent).
fn keys<'a>(batch: &'a RecordBatch, column: &str, word: &str) -> Option<(&'a [u8], u8)> {
    let column = batch.column_by_name(column)?.as_dictionary_opt::<UInt8Type>()?;
    let values = column.values().as_string_opt::<i32>()?;
    let key = (0..values.len())
        .find(|&index| values.value(index) == word)
        .unwrap_or(255);
    Some((column.keys().values(), key as u8))
}
