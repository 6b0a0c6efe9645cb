//! Numbers of enums in segments: files hold the number, and a dictionary in the order of `ALL` has
//! the word.

use plimsoll_model::{Cache, Outcome, Phase};

#[test]
fn the_number_of_a_value_is_its_place_in_the_list_that_files_are_written_with() {
    assert!(
        Outcome::ALL
            .iter()
            .enumerate()
            .all(|(place, value)| *value as usize == place)
    );
    assert!(
        Cache::ALL
            .iter()
            .enumerate()
            .all(|(place, value)| *value as usize == place)
    );
    assert!(
        Phase::ALL
            .iter()
            .enumerate()
            .all(|(place, value)| *value as usize == place)
    );
}

#[test]
fn words_of_caches_are_those_that_the_lab_reads() {
    assert_eq!(
        Cache::ALL.map(Cache::word),
        ["none", "miss", "hit", "revalidated"]
    );
}
