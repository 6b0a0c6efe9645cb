//! Types of the values of columns, and their generators.

use rand::RngExt;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use super::strings::Strings;
use super::writer::{Sql, Value};

/// The earliest time in a column, in seconds since 1970: 2000-01-01.
const FIRST_TIME: u64 = 946_684_800;

/// Type of the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    /// Printable characters.
    Text,
    /// Integers from 0 to 999,999,999.
    Int,
    /// Numbers below 1,000,000 with three decimals.
    Float,
    /// Numbers from 100 to 1,000 with 12 decimals: 15 significant digits, the most that every
    /// database returns unchanged.
    Double,
    /// Times of the years 2000 to 2031, in whole seconds.
    Time,
    /// Bytes of all values.
    Blob,
}

impl Type {
    /// Whether the values are strings, whose length is configured.
    pub(super) fn is_string(self) -> bool {
        matches!(self, Self::Text | Self::Blob)
    }
}

/// Generator of the values of a column.
#[derive(Clone)]
pub(super) enum Source {
    Strings(Strings),
    Int,
    Float,
    Double,
    Time,
}

impl Source {
    /// `strings` calibrates strings: text (true), bytes (false), or according to their
    /// compressibility.
    pub(super) fn new(kind: Option<Type>, strings: impl FnOnce(Option<bool>) -> Strings) -> Self {
        match kind {
            None => Self::Strings(strings(None)),
            Some(Type::Text) => Self::Strings(strings(Some(true))),
            Some(Type::Blob) => Self::Strings(strings(Some(false))),
            Some(Type::Int) => Self::Int,
            Some(Type::Float) => Self::Float,
            Some(Type::Double) => Self::Double,
            Some(Type::Time) => Self::Time,
        }
    }

    /// Type of the column in the database. `length`: of its strings, in bytes.
    pub(super) fn sql(&self, kind: Option<Type>, length: usize) -> Sql {
        match self {
            Self::Int => Sql::Int,
            Self::Float | Self::Double => Sql::Float,
            Self::Time => Sql::Time,
            Self::Strings(strings) if kind.is_some() && !strings.text => Sql::Blob(length),
            // Declared as text in SQLite, whose columns accept values of any type.
            Self::Strings(strings) => Sql::Strings(length, strings.text),
        }
    }

    pub(super) fn strings(&self) -> Option<&Strings> {
        match self {
            Self::Strings(strings) => Some(strings),
            _ => None,
        }
    }

    /// The next value. `length`: of a string, in bytes.
    pub(super) fn value<'a>(&self, rng: &mut Pcg64, length: usize, buffer: &'a mut Vec<u8>) -> Value<'a> {
        match self {
            Self::Strings(strings) => {
                buffer.resize(length, 0);
                strings.fill(rng, buffer);
                Value::strings(strings.text, buffer)
            }
            Self::Int => Value::Int(rng.random_range(0..1_000_000_000)),
            Self::Float => {
                // The number is never an integer, because databases differ in whether they write
                // the decimal point then.
                let number: u32 = rng.random_range(0..1_000_000) * 1000 + rng.random_range(1..1000);
                Value::Float(f64::from(number) / 1000.0)
            }
            Self::Double => {
                // Both numbers are exact, so the quotient is the value nearest to the decimal
                // number. The last digit is not 0: all values have the same number of digits.
                let number: u64 =
                    rng.random_range(10_000_000_000_000..100_000_000_000_000) * 10 + rng.random_range(1..10);
                Value::Float(number as f64 / 1e12)
            }
            Self::Time => Value::Time(FIRST_TIME + rng.random_range(0..1_000_000_000_u64)),
        }
    }
}
