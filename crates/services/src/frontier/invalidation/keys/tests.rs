//! The states of keys, with times chosen by the test.

use super::super::dependents::KeyRange;
use super::*;

const AGE: Duration = Duration::from_secs(100);

struct Bench {
    keys: Keys,
    zero: Instant,
}

fn name(text: &str) -> Name {
    text.into()
}

fn depends(tables: &[&str]) -> Arc<[Dependency]> {
    let tables = tables.iter().map(|table| Dependency::on_table(&name(table)));
    tables.collect()
}

impl Bench {
    /// Times in milliseconds.
    fn new(settle: u64, again: u64, max: usize) -> Self {
        let (settle, again) = (Duration::from_millis(settle), Duration::from_millis(again));
        Self {
            keys: Keys::new(settle, again, max),
            zero: Instant::now(),
        }
    }

    fn at(&self, ms: u64) -> Instant {
        self.zero + Duration::from_millis(ms)
    }

    fn begin(&mut self, url: &str, tables: &[&str], ms: u64) -> bool {
        self.keys.begin(&name(url), &depends(tables), AGE, 0, self.at(ms))
    }

    fn end(&mut self, url: &str, ms: u64) -> bool {
        self.keys.end(&name(url), AGE, self.at(ms)).is_some()
    }

    fn answer(&mut self, url: &str, tables: &[&str], ms: u64) {
        assert!(self.begin(url, tables, ms));
        assert!(!self.end(url, ms));
    }

    fn changed(&mut self, table: &str, ms: u64) -> String {
        names(self.keys.changed(&name(table), &Change::Table, self.at(ms)))
    }

    fn due(&mut self, ms: u64) -> String {
        names(self.keys.due(self.at(ms)))
    }
}

fn names(stale: Vec<Stale>) -> String {
    let mut urls: Vec<String> = stale.into_iter().map(|object| object.url.to_string()).collect();
    urls.sort();
    urls.join(" ")
}

#[test]
fn a_change_purges_the_keys_of_its_table_once() {
    let mut bench = Bench::new(0, 0, 10);
    bench.answer("/a", &["a"], 0);
    bench.answer("/ab", &["a", "b"], 0);
    bench.answer("/b", &["b"], 0);
    assert_eq!(bench.changed("c", 1), "");
    assert_eq!(bench.changed("a", 2), "/a /ab");
    assert_eq!(bench.changed("a", 3), "");
    assert_eq!(bench.changed("b", 4), "/b");
    assert_eq!((bench.keys.len(), bench.keys.of_table.len()), (0, 0));
}

#[test]
fn a_request_in_progress_is_purged_again_at_its_end() {
    let mut bench = Bench::new(0, 0, 10);
    assert!(bench.begin("/a", &["a"], 0));
    assert!(bench.begin("/a", &["a"], 1));
    assert_eq!(bench.changed("a", 2), "/a");
    assert!(bench.end("/a", 3));
    assert!(
        bench.begin("/a", &["a"], 4),
        "a request from before the change is in progress"
    );
    assert!(bench.end("/a", 5));
    assert!(bench.end("/a", 6), "it is unknown which of the two has ended");
    assert_eq!(bench.due(6), "/a");
    assert_eq!(bench.keys.len(), 0);
    bench.answer("/a", &["a"], 7);
    assert_eq!(bench.keys.len(), 1);
}

#[test]
fn a_request_that_begins_before_a_change_is_visible_is_purged_at_its_end() {
    let mut bench = Bench::new(100, 0, 10);
    assert_eq!(bench.changed("a", 0), "");
    assert!(bench.begin("/a", &["a"], 99));
    assert!(bench.begin("/b", &["b"], 99));
    assert!(bench.end("/a", 500));
    assert!(!bench.end("/b", 500));
    assert!(bench.begin("/late", &["a"], 100));
    assert!(!bench.end("/late", 101));
    bench.keys.all(bench.at(1000));
    assert!(bench.begin("/b", &["b"], 1050));
    assert!(bench.end("/b", 1060));
}

#[test]
fn a_response_in_transit_is_purged_again() {
    let mut bench = Bench::new(0, 1000, 10);
    bench.answer("/old", &["a"], 0);
    bench.answer("/new", &["a"], 1500);
    assert_eq!(bench.changed("a", 2000), "/new /old");
    assert_eq!(bench.keys.len(), 1);
    assert_eq!(bench.keys.next_due(), Some(bench.at(2500)));
    assert_eq!(bench.due(2499), "");
    assert_eq!(bench.due(2500), "/new");
    assert_eq!((bench.keys.len(), bench.keys.next_due()), (0, None));
    // Requested again in between: purged, and still known.
    bench.answer("/x", &["a"], 3000);
    assert_eq!(bench.changed("a", 3001), "/x");
    bench.answer("/x", &["a"], 3900);
    assert_eq!(bench.due(4000), "/x");
    assert_eq!(bench.changed("a", 5000), "/x");
}

#[test]
fn a_change_of_rows_purges_the_keys_that_depend_on_them() {
    let mut bench = Bench::new(0, 0, 10);
    let rows = |first, last| {
        let rows = Some(KeyRange { first, last });
        let unit = name("a");
        Arc::from([Dependency { unit, rows }])
    };
    for (url, depends) in [
        ("/5", rows(5, 5)),
        ("/6", rows(6, 6)),
        ("/1-9", rows(1, 9)),
        ("/all", depends(&["a"])),
    ] {
        assert!(bench.keys.begin(&name(url), &depends, AGE, 0, bench.zero));
        assert!(!bench.end(url, 1));
    }
    let now = bench.at(2);
    let change = Change::Rows([5].into());
    let stale = bench.keys.changed(&name("a"), &change, now);
    assert_eq!(names(stale), "/1-9 /5 /all");
    assert_eq!(bench.changed("a", 3), "/6");
    assert!(bench.keys.of_table.is_empty());
}

#[test]
fn a_full_table_accepts_no_key_until_one_expires() {
    let mut bench = Bench::new(0, 0, 2);
    bench.answer("/1", &["a"], 0);
    bench.answer("/2", &["a"], 50_000);
    assert!(!bench.begin("/3", &["a"], 60_000));
    assert!(
        bench.begin("/2", &["a"], 60_001),
        "a known key is always accepted"
    );
    assert!(bench.begin("/3", &["a"], 100_000), "the first has expired");
    assert!(!bench.begin("/4", &["a"], 155_000), "the others are in progress");
    assert_eq!(bench.changed("a", 155_001), "/2 /3");
    let tables = depends(&["a"]);
    let mut bench = Bench::new(0, 0, 2);
    assert!(bench.keys.begin(&name("/1"), &tables, AGE, 1, bench.zero));
    let now = bench.at(1);
    assert!(
        !bench.keys.begin(&name("/2"), &tables, AGE, 1, now),
        "a cache has not purged one key yet"
    );
}

#[test]
fn an_expired_key_is_forgotten_and_not_purged() {
    let mut bench = Bench::new(0, 0, 10);
    bench.answer("/a", &["a"], 0);
    assert_eq!(bench.changed("a", 100_000), "");
    assert_eq!(bench.keys.len(), 0);
}

#[test]
fn tables_that_are_added_to_a_key_later_count() {
    let mut bench = Bench::new(0, 0, 10);
    bench.answer("/v", &["a"], 0);
    bench.answer("/v", &["b"], 1);
    assert_eq!(bench.changed("b", 2), "/v");
    assert_eq!(bench.changed("a", 3), "");
    assert!(bench.keys.of_table.is_empty());
}
