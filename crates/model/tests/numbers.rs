//! Numbers of enums in segments: a file contains the number, and a dictionary in the order of `ALL`
//! contains the word.

use plimsoll_model::{Cache, Outcome, Phase};

#[test]
fn the_number_of_a_value_is_its_index_in_all() {
    assert!(
        Outcome::ALL
            .iter()
            .enumerate()
            .all(|(index, value)| *value as usize == index)
    );
    assert!(
        Cache::ALL
            .iter()
            .enumerate()
            .all(|(index, value)| *value as usize == index)
    );
    assert!(
        Phase::ALL
            .iter()
            .enumerate()
            .all(|(index, value)| *value as usize == index)
    );
}

#[test]
fn the_words_of_cache_are_those_that_the_lab_reads() {
    assert_eq!(
        Cache::ALL.map(Cache::word),
        ["none", "miss", "hit", "revalidated"]
    );
}
