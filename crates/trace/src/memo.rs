//! Answers to questions that are asked again and again: what a name or a text of flags stands for.

use crate::mixed::spread;

/// As many are kept.
const SLOTS: usize = 128;
/// Longer questions are rare: their answers are not kept. Bytes.
const MAX_KEY_BYTES: usize = 128;

/// What was found for texts: each slot is for the last one of those that share it, so that memory
/// has a bound.
#[derive(Debug, Default)]
pub(crate) struct Memo<V> {
    slots: Vec<(Vec<u8>, Option<V>)>,
}

impl<V: Copy> Memo<V> {
    pub const fn new() -> Self {
        Self { slots: Vec::new() }
    }

    /// What `find` finds for this text, always the same: it is asked only where nobody remembers.
    #[inline]
    pub fn get(&mut self, text: &[u8], find: impl FnOnce(&[u8]) -> V) -> V {
        let place = place(text);
        match self.slots.get(place) {
            Some((known, Some(value))) if known == text => *value,
            _ => self.learn(place, text, find(text)),
        }
    }

    #[cold]
    fn learn(&mut self, place: usize, text: &[u8], value: V) -> V {
        if text.len() > MAX_KEY_BYTES {
            return value;
        }
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, (Vec::new(), None));
        }
        let slot = &mut self.slots[place];
        slot.0.clear();
        slot.0.extend_from_slice(text);
        slot.1 = Some(value);
        value
    }
}

/// The slot of a text: by its length, beginning, middle and end.
#[inline]
fn place(text: &[u8]) -> usize {
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
    fn answers_are_those_of_who_was_asked_first() {
        let mut memo = Memo::new();
        let mut asked = 0;
        for round in 0..3 {
            for text in ["O_RDONLY", "O_RDWR|O_CREAT", "", "ab"] {
                let found = memo.get(text.as_bytes(), |text| {
                    asked += 1;
                    text.len()
                });
                assert_eq!((found, asked.max(4)), (text.len(), 4), "round {round}");
            }
        }
    }

    /// Whatever shares a slot, and what is not kept at all.
    #[test]
    fn no_text_has_the_answer_of_another_one() {
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
