//! The distribution of values in a few hundred bytes: moments and a histogram by powers of two.

use super::json::{Bin, Spread};

/// The distribution of values that are integers in their unit: bytes, ns, bytes per second.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    count: u64,
    sum: u128,
    squares: u128,
    min: u64,
    max: u64,
    /// Bin 0 counts zeros, bin k values from 2^(k-1) (included) to 2^k (excluded), up to the bin of
    /// the maximum.
    bins: Vec<u64>,
}

impl Tally {
    /// Adds a value.
    pub(super) fn add(&mut self, value: u64) {
        self.min = if self.count == 0 {
            value
        } else {
            self.min.min(value)
        };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
        // It saturates only for values near 2^64, which no time and no size reaches.
        self.squares = self.squares.saturating_add(u128::from(value).pow(2));
        let index = (u64::BITS - value.leading_zeros()) as usize;
        if index >= self.bins.len() {
            self.bins.resize(index + 1, 0);
        }
        self.bins[index] += 1;
    }

    /// Adds all values of another distribution.
    pub(super) fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 {
            other.min
        } else {
            self.min.min(other.min)
        };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
        self.squares = self.squares.saturating_add(other.squares);
        if other.bins.len() > self.bins.len() {
            self.bins.resize(other.bins.len(), 0);
        }
        for (own, other) in self.bins.iter_mut().zip(&other.bins) {
            *own += other;
        }
    }

    /// The distribution in a unit of `parts` units of the values: 1e9 to convert ns to seconds.
    /// None without values.
    pub(super) fn spread(&self, parts: f64) -> Option<Spread> {
        if self.count == 0 {
            return None;
        }
        let bins = self.bins.iter().enumerate().filter(|&(_, &count)| count > 0);
        Some(Spread {
            count: self.count,
            mean: self.mean() / parts,
            sd: (self.count > 1).then(|| self.variance().sqrt() / parts),
            min: self.min as f64 / parts,
            max: self.max as f64 / parts,
            histogram: bins.map(|(index, &count)| bin(index, count, parts)).collect(),
        })
    }

    fn mean(&self) -> f64 {
        self.sum as f64 / self.count as f64
    }

    fn variance(&self) -> f64 {
        // The sums are exact, their difference is not: the variance of equal values would not be 0.
        if self.min == self.max {
            return 0.0;
        }
        let around = self.squares as f64 - self.sum as f64 * self.mean();
        around.max(0.0) / (self.count - 1) as f64
    }
}

fn bin(index: usize, count: u64, parts: f64) -> Bin {
    let end = 2f64.powi(i32::try_from(index).unwrap_or(i32::MAX));
    Bin {
        from: if index == 0 { 0.0 } else { end / 2.0 / parts },
        to: end / parts,
        count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_follow_the_definition_and_parts_add_up() {
        let values = [0u64, 1, 4096, 4096, 5000, 131_072, 1 << 40];
        let (mut whole, mut first, mut second) = (Tally::default(), Tally::default(), Tally::default());
        for (index, &value) in values.iter().enumerate() {
            whole.add(value);
            if index < 3 {
                first.add(value);
            } else {
                second.add(value);
            }
        }
        first.merge(&second);
        first.merge(&Tally::default());
        let spread = whole.spread(1.0).unwrap();
        assert_eq!(first.spread(1.0).unwrap(), spread);

        let mean = values.iter().map(|&v| v as f64).sum::<f64>() / 7.0;
        let sd = (values.iter().map(|&v| (v as f64 - mean).powi(2)).sum::<f64>() / 6.0).sqrt();
        assert!((spread.mean / mean - 1.0).abs() < 1e-12);
        assert!((spread.sd.unwrap() / sd - 1.0).abs() < 1e-12);
        assert_eq!((spread.count, spread.min, spread.max), (7, 0.0, 2f64.powi(40)));
        let bins: Vec<_> = spread.histogram.iter().map(|b| (b.from, b.to, b.count)).collect();
        assert_eq!(bins[..3], [(0.0, 1.0, 1), (1.0, 2.0, 1), (4096.0, 8192.0, 3)]);
        assert_eq!(spread.histogram.iter().map(|bin| bin.count).sum::<u64>(), 7);
    }

    #[test]
    fn equal_values_have_a_standard_deviation_of_zero() {
        let mut tally = Tally::default();
        for _ in 0..3 {
            tally.add(999_999_999_999);
        }
        assert_eq!(tally.spread(1e9).unwrap().sd, Some(0.0));
        assert_eq!(Tally::default().spread(1.0), None);
    }
}
