//! Sources of the values in texts of requests.

use serde::{Deserialize, Serialize};

use crate::run::Order;

/// Source of the values of a `{name}`. Each tester has its own seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Generator {
    /// Integers with equal probabilities, both ends included.
    Uniform {
        /// Minimum.
        from: i64,
        /// Maximum, at least `from`.
        to: i64,
    },
    /// Ranks 1 to `n`, P(k) proportional to k^-s.
    Zipf {
        /// Greatest rank, at least 1.
        n: u64,
        /// Exponent, at least 0.
        s: f64,
    },
    /// Texts of a list. The lab has read the lines of a file.
    List {
        /// Texts, at least one.
        items: Vec<String>,
        /// In turn over all transactions of the tester, or drawn.
        order: Order,
    },
    /// Texts of a list, each drawn with a probability proportional to its weight.
    Weighted {
        /// Texts, at least one.
        items: Vec<String>,
        /// One weight for each text, at least 0; at least one is greater than 0.
        weights: Vec<f64>,
    },
    /// Texts in the order of a recording. Transaction k of the workload takes `items[order[k]]`;
    /// after the last text follows the first. In an open load k is the number of the arrival, in a
    /// closed load the testers take turns.
    Recorded {
        /// Texts, at least one.
        items: Vec<String>,
        /// Indices into `items`, at least one.
        order: Vec<u32>,
    },
}

/// Why a [`Generator`] has no values.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GeneratorError {
    #[error("expected from of at most to, which is {to}, got {from}")]
    Bounds { from: i64, to: i64 },
    #[error("zipf: expected n of at least 1 and s of at least 0, got n {n} and s {s}")]
    Zipf { n: u64, s: f64 },
    #[error("expected at least one text, got an empty list")]
    Empty,
    #[error(
        "expected a weight of at least 0 for each of {texts} texts, at least one of them greater than 0, got {weights:?}"
    )]
    Weights { texts: usize, weights: Vec<f64> },
    #[error("expected an order of at least one index, each less than the number of texts, which is {texts}")]
    Order { texts: usize },
}

impl Generator {
    pub(crate) fn check(&self) -> Result<(), GeneratorError> {
        match self {
            Self::Uniform { from, to } if from > to => {
                return Err(GeneratorError::Bounds { from: *from, to: *to });
            }
            Self::Zipf { n, s } if *n == 0 || !(*s >= 0.0 && s.is_finite()) => {
                return Err(GeneratorError::Zipf { n: *n, s: *s });
            }
            Self::List { items, .. } if items.is_empty() => return Err(GeneratorError::Empty),
            Self::Weighted { items, weights } => {
                let sum: f64 = weights.iter().sum();
                let negative = weights.iter().any(|weight| *weight < 0.0);
                if items.len() != weights.len() || negative || !(sum > 0.0 && sum.is_finite()) {
                    let (texts, weights) = (items.len(), weights.clone());
                    return Err(GeneratorError::Weights { texts, weights });
                }
            }
            Self::Recorded { items, order }
                if order.is_empty() || order.iter().any(|&index| index as usize >= items.len()) =>
            {
                return Err(GeneratorError::Order { texts: items.len() });
            }
            _ => {}
        }
        Ok(())
    }
}
