//! Finds bursts: times with a much higher rate than the mean.

use super::json::{Burst, Measure, Timeline};

/// A bin belongs to a burst if its rate is at least this multiple of the mean rate of the run.
const TIMES_MEAN: f64 = 4.0;
/// Minimum share of a burst in the total. Smaller ones are noise of a quiet run.
const MIN_SHARE: f64 = 0.05;
/// Maximum number of bursts by bytes, and by calls.
const MAX_BURSTS: usize = 5;

/// The bursts of bytes and of calls on files, the greatest of each first.
pub(super) fn bursts(timeline: &Timeline) -> Vec<Burst> {
    let sum = |columns: &[&Vec<u64>]| -> Vec<u64> {
        let bins = 0..timeline.reads.len();
        bins.map(|bin| {
            columns
                .iter()
                .map(|column| column[bin])
                .fold(0, u64::saturating_add)
        })
        .collect()
    };
    let bytes = sum(&[&timeline.read_bytes, &timeline.write_bytes]);
    let calls = sum(&[&timeline.reads, &timeline.writes, &timeline.metadata]);
    let mut bursts = of(Measure::Bytes, &bytes, timeline);
    bursts.extend(of(Measure::Calls, &calls, timeline));
    bursts
}

fn of(of: Measure, amounts: &[u64], timeline: &Timeline) -> Vec<Burst> {
    let all: f64 = amounts.iter().map(|&amount| amount as f64).sum();
    let mean = all / amounts.len() as f64;
    let is_high = |bin: &usize| amounts[*bin] as f64 >= TIMES_MEAN * mean && all > 0.0;
    let mut bursts = Vec::new();
    let mut bin = 0;
    while let Some(first) = (bin..amounts.len()).find(is_high) {
        let length = (first..amounts.len()).take_while(is_high).count();
        bin = first + length;
        let amount = amounts[first..bin].iter().copied().fold(0, u64::saturating_add);
        let share = amount as f64 / all;
        bursts.push(Burst {
            of,
            from_s: timeline.start_s + first as f64 * timeline.bin_s,
            to_s: timeline.start_s + bin as f64 * timeline.bin_s,
            amount,
            share,
            times_mean: share * amounts.len() as f64 / length as f64,
        });
    }
    bursts.retain(|burst| burst.share >= MIN_SHARE);
    bursts.sort_by(|a, b| b.share.total_cmp(&a.share));
    bursts.truncate(MAX_BURSTS);
    bursts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_the_times_with_most_bytes() {
        let mut read_bytes = vec![1; 100];
        read_bytes[20..23].fill(100);
        read_bytes[70] = 60;
        read_bytes[90] = 10;
        let none = vec![0; 100];
        let timeline = Timeline {
            start_s: 5.0,
            bin_s: 0.5,
            reads: vec![1; 100],
            read_bytes,
            writes: none.clone(),
            write_bytes: none.clone(),
            metadata: none.clone(),
            other: none,
        };
        let found = bursts(&timeline);
        let seen: Vec<_> = found
            .iter()
            .map(|burst| (burst.of, burst.from_s, burst.to_s, burst.amount))
            .collect();
        assert_eq!(
            seen,
            [
                (Measure::Bytes, 15.0, 16.5, 300),
                (Measure::Bytes, 40.0, 40.5, 60)
            ]
        );
        let all = 96.0 + 300.0 + 60.0 + 10.0 - 1.0;
        assert!((found[0].share - 300.0 / all).abs() < 1e-12);
        assert!((found[0].times_mean - 100.0 / (all / 100.0)).abs() < 1e-9);
        assert!(bursts(&Timeline::default()).is_empty());
    }
}
