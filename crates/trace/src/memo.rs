//! A cache for values that are looked up repeatedly by a text, such as the call of a name or the
//! number of a text of flags.

use crate::hash::spread;

/// Number of slots.
const SLOTS: usize = 128;
/// Longer texts are rare and are not cached. Bytes.
const MAX_KEY_BYTES: usize = 128;

/// Cached values by text. Each slot contains the last of the texts that share it, so memory is
/// bounded.
#[derive(Debug, Default)]
pub(crate) struct Memo<V> {
    slots: Vec<(Vec<u8>, Option<V>)>,
}

impl<V: Copy> Memo<V> {
    pub const fn new() -> Self {
        Self { slots: Vec::new() }
    }

    /// The value of `find` for this text, which must always be the same. `find` is called only if
    /// the value is not cached.
    #[inline]
    pub fn get(&mut self, text: &[u8], find: impl FnOnce(&[u8]) -> V) -> V {
        let slot_index = slot_index(text);
        match self.slots.get(slot_index) {
            Some((known, Some(value))) if known == text => *value,
            _ => self.insert(slot_index, text, find(text)),
        }
    }

    #[cold]
    fn insert(&mut self, slot_index: usize, text: &[u8], value: V) -> V {
        if text.len() > MAX_KEY_BYTES {
            return value;
        }
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, (Vec::new(), None));
        }
        let slot = &mut self.slots[slot_index];
        slot.0.clear();
        slot.0.extend_from_slice(text);
        slot.1 = Some(value);
        value
    }
}

/// The slot of a text, from its length, beginning, middle and end.
#[inline]
fn slot_index(text: &[u8]) -> usize {
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    let key = match (text.first_chunk(), text.last_chunk()) {
        (Some(first), Some(last)) => {
            let middle = text[text.len() / 2 - 4..].first_chunk().map_or(0, word);
            spread(word(first)) ^ spread(middle).rotate_left(21) ^ word(last)
        }
        _ => text.iter().fold(0, |key, &byte| key << 8 | u64::from(byte)),
    };
    spread(key ^ text.len() as u64) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_a_text_is_looked_up_once() {
        let mut memo = Memo::new();
        let mut lookups = 0;
        for round in 0..3 {
            for text in ["O_RDONLY", "O_RDWR|O_CREAT", "", "ab"] {
                let length = memo.get(text.as_bytes(), |text| {
                    lookups += 1;
                    text.len()
                });
                assert_eq!((length, lookups.max(4)), (text.len(), 4), "round {round}");
            }
        }
    }

    /// Texts that share a slot, and texts that are too long for the cache.
    #[test]
    fn a_text_never_returns_the_value_of_another_text() {
        let mut memo = Memo::new();
        let texts: Vec<Vec<u8>> = (0..5000_u32)
            .map(|number| number.to_string().into_bytes().repeat(number as usize % 40))
            .collect();
        for text in texts.iter().chain(&texts) {
            let sum = |text: &[u8]| text.iter().map(|&byte| u64::from(byte)).sum::<u64>();
            assert_eq!(memo.get(text, sum), sum(text));
        }
    }
}
