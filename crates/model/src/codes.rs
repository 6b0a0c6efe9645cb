//! The dictionary of result codes. It grows during a run, so it is shared and bounded.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

/// Index of a code in the agent's [`Codes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub u16);

impl Code {
    /// The empty code, present in every dictionary.
    pub const NONE: Self = Self(0);
}

/// Text of the code that replaces all codes beyond [`MAX_CODES`]. Its number is 1.
const OTHER: &str = "other";
/// Maximum number of codes: a hostile server must not fill the memory with invented status texts.
const MAX_CODES: usize = 4096;
/// Maximum length of the text of a code, in bytes.
const MAX_CODE_BYTES: usize = 80;

/// Short texts of results, numbered in order of their first appearance. A clone is cheap and shares
/// the dictionary.
///
/// Drivers look a code up once per kind of response and keep its number; the lock is not on the
/// path of a transaction.
#[derive(Debug, Clone, Default)]
pub struct Codes(Arc<RwLock<Table>>);

#[derive(Debug)]
struct Table {
    texts: Vec<String>,
    numbers: HashMap<String, u16>,
}

impl Default for Table {
    fn default() -> Self {
        let texts = vec![String::new(), OTHER.to_owned()];
        let numbers = texts.iter().cloned().zip(0..).collect();
        Self { texts, numbers }
    }
}

impl Codes {
    /// The number of `text`, which is cut to 80 bytes and added if it is new. Once the dictionary
    /// contains 4,096 texts, every new text gets the number of "other".
    pub fn number(&self, text: &str) -> Code {
        let text = cut(text);
        if let Some(&number) = self
            .0
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .numbers
            .get(text)
        {
            return Code(number);
        }
        let mut table = self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(&number) = table.numbers.get(text) {
            return Code(number);
        }
        if table.texts.len() >= MAX_CODES {
            return Code(1);
        }
        let number = table.texts.len() as u16;
        table.texts.push(text.to_owned());
        table.numbers.insert(text.to_owned(), number);
        Code(number)
    }

    /// All texts so far. The index of a text is its number.
    pub fn texts(&self) -> Vec<String> {
        self.0
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .texts
            .clone()
    }
}

fn cut(text: &str) -> &str {
    if text.len() <= MAX_CODE_BYTES {
        return text;
    }
    let end = (0..=MAX_CODE_BYTES)
        .rev()
        .find(|&index| text.is_char_boundary(index))
        .unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_stable_and_shared_by_clones() {
        let codes = Codes::default();
        let other = codes.clone();
        let first = codes.number("200");
        assert_eq!(first, other.number("200"));
        assert_ne!(first, other.number("503"));
        assert_eq!(codes.number(""), Code::NONE);
        assert_eq!(codes.texts()[usize::from(first.0)], "200");
    }

    #[test]
    fn number_and_length_of_codes_are_bounded() {
        let codes = Codes::default();
        for n in 0..10_000 {
            codes.number(&format!("{n}{}", "é".repeat(200)));
        }
        assert_eq!(codes.texts().len(), MAX_CODES);
        assert!(codes.texts().iter().all(|text| text.len() <= MAX_CODE_BYTES));
        assert_eq!(codes.number("never seen"), codes.number(OTHER));
    }
}
