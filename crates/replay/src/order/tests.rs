use super::*;

/// A trace in small: who, from when to when, what it claims.
fn order(list: &[(u32, i64, i64, &[Claim])]) -> Order {
    let mut claims = Vec::new();
    let mut counts = [0; 8];
    let mut steps: Vec<Step> = list
        .iter()
        .map(|&(worker, start, end, what)| {
            let index = counts[worker as usize];
            counts[worker as usize] += 1;
            claims.extend_from_slice(what);
            let waits = what.iter().any(|claim| {
                matches!(
                    claim,
                    Claim::Draws { .. }
                        | Claim::Awaits(_)
                        | Claim::Heeds(_)
                        | Claim::Woken { .. }
                        | Claim::Locks(_)
                )
            });
            Step {
                worker,
                index,
                start,
                end,
                key: if waits { end } else { start },
                claims: (claims.len() - what.len()) as u32,
                count: what.len() as u32,
            }
        })
        .collect();
    steps.sort_by_key(|step| step.key);
    // Name 10 is a directory, 11 and 12 are in it; the numbers of those that are changed are the
    // same.
    by_resource(&steps, &claims, 8, |name| match name {
        10 => &[10],
        11 => &[10, 11],
        _ => &[10, 12],
    })
}

fn edge(at: u32, worker: u32, until: u32) -> Edge {
    Edge { at, worker, until }
}

const fn reads(from: u64, to: u64) -> Claim {
    Claim::Reads { file: 1, from, to }
}

const fn writes(from: u64, to: u64) -> Claim {
    Claim::Writes { file: 1, from, to }
}

#[test]
fn overlapping_bytes_are_ordered_where_one_is_a_write() {
    let found = order(&[
        (0, 0, 10, &[writes(0, 100)]),
        (1, 20, 30, &[reads(50, 60)]),
        (2, 20, 30, &[reads(100, 200)]),
        (3, 20, 30, &[reads(40, 55)]),
        (4, 40, 50, &[writes(52, 53)]),
    ]);
    assert_eq!(found.edges[1], [edge(0, 0, 1)]);
    assert_eq!(found.edges[2], [], "other bytes");
    assert_eq!(
        found.edges[3],
        [edge(0, 0, 1)],
        "readers do not wait for each other"
    );
    assert_eq!(found.edges[4], [edge(0, 0, 1), edge(0, 1, 1), edge(0, 3, 1)]);
}

#[test]
fn overlapping_calls_stay_unordered() {
    let found = order(&[
        (0, 0, 30, &[writes(0, 100)]),
        (1, 20, 40, &[writes(0, 100)]),
        (2, 50, 60, &[reads(0, 1)]),
    ]);
    assert_eq!(found.edges[1], []);
    assert_eq!(
        found.edges[2],
        [edge(0, 0, 1), edge(0, 1, 1)],
        "both, as none knows of the other"
    );
}

#[test]
fn sync_and_truncate_concern_the_whole_file() {
    let found = order(&[
        (0, 0, 10, &[writes(0, 100)]),
        (1, 20, 30, &[reads(0, u64::MAX)]),
        (0, 40, 50, &[writes(5, 6)]),
        (2, 60, 70, &[writes(0, u64::MAX)]),
        (3, 80, 90, &[reads(1000, 1001)]),
    ]);
    assert_eq!(found.edges[1], [edge(0, 0, 1)]);
    assert_eq!(found.edges[0], [edge(1, 1, 1)]);
    assert_eq!(found.edges[2], [edge(0, 0, 2), edge(0, 1, 1)]);
    assert_eq!(found.edges[3], [edge(0, 2, 1)]);
}

#[test]
fn what_one_worker_does_alone_asks_for_nothing() {
    let found = order(&[
        (0, 0, 1, &[Claim::Makes(1), writes(0, 10)]),
        (0, 2, 3, &[Claim::Moves(1), reads(0, 10)]),
        (1, 4, 5, &[Claim::Makes(2)]),
        (0, 6, 7, &[Claim::Ends(1)]),
    ]);
    assert!(found.edges.iter().all(Vec::is_empty));
}

#[test]
fn an_open_file_is_made_used_in_turn_and_closed() {
    let found = order(&[
        (0, 0, 5, &[Claim::Makes(1)]),
        // Clocks are coarse: that it began before the open ended cannot be.
        (1, 4, 10, &[Claim::Moves(1)]),
        (0, 20, 30, &[Claim::Moves(1)]),
        (2, 20, 35, &[Claim::Uses(1)]),
        (1, 40, 50, &[Claim::Uses(1)]),
        (0, 45, 46, &[Claim::Ends(1)]),
    ]);
    assert_eq!(found.edges[1], [edge(0, 0, 1)]);
    assert_eq!(found.edges[0], [edge(1, 1, 1), edge(2, 1, 2), edge(2, 2, 1)]);
    assert_eq!(found.edges[2], [edge(0, 0, 1)], "pread needs no turn");
}

#[test]
fn names_are_made_before_they_are_used_and_used_before_they_are_gone() {
    let found = order(&[
        (0, 0, 10, &[Claim::Changes(10)]),
        (1, 20, 30, &[Claim::Changes(11)]),
        (2, 40, 50, &[Claim::Names(11)]),
        (3, 40, 50, &[Claim::Names(12)]),
        (4, 60, 70, &[Claim::Changes(11)]),
        (5, 80, 90, &[Claim::Changes(10)]),
    ]);
    assert_eq!(found.edges[1], [edge(0, 0, 1)], "its directory");
    assert_eq!(found.edges[2], [edge(0, 0, 1), edge(0, 1, 1)]);
    assert_eq!(found.edges[3], [edge(0, 0, 1)], "another name");
    assert_eq!(found.edges[4], [edge(0, 0, 1), edge(0, 1, 1), edge(0, 2, 1)]);
    let waits: Vec<_> = found.edges[5].iter().map(|edge| edge.worker).collect();
    assert_eq!(waits, [0, 1, 2, 3, 4], "all that were in it");
}

#[test]
fn a_pipe_is_read_after_it_is_written_and_ends_when_all_have_left() {
    let draw = |bytes| Claim::Draws { pipe: 1, bytes };
    let feed = |bytes| Claim::Feeds { pipe: 1, bytes };
    let found = order(&[
        (0, 0, 100, &[draw(10)]),
        (1, 50, 90, &[feed(6)]),
        (2, 60, 95, &[feed(6)]),
        (0, 110, 111, &[draw(2)]),
        (0, 120, 200, &[draw(0)]),
        (1, 150, 151, &[Claim::Leaves(1)]),
        (2, 160, 161, &[Claim::Leaves(1)]),
    ]);
    assert_eq!(
        found.edges[0],
        [edge(0, 1, 1), edge(0, 2, 1), edge(2, 1, 2), edge(2, 2, 2)]
    );
    assert_eq!(
        found.caused,
        [(0, 0), (0, 2)],
        "what was there already is not waited for"
    );
}

#[test]
fn one_waits_for_threads_that_end_and_for_those_it_was_lent_to() {
    let found = order(&[
        (0, 0, 100, &[Claim::Starts(1), Claim::Lends(1)]),
        (1, 50, 90, &[Claim::Returns]),
        (0, 110, 111, &[]),
        (1, 120, 180, &[Claim::Returns]),
        (0, 115, 190, &[Claim::Awaits(1)]),
    ]);
    assert_eq!(found.edges[0], [edge(1, 1, 1), edge(2, 1, 2)]);
    assert_eq!(found.edges[1], [], "the start is no edge: nobody begins before");
    assert_eq!(found.caused, [(0, 2)]);
}

#[test]
fn a_signal_comes_from_the_child_that_ended_meanwhile() {
    let found = order(&[
        (1, 0, 5, &[Claim::Departs(7)]),
        (0, 10, 100, &[Claim::Heeds(7)]),
        (2, 20, 30, &[Claim::Departs(8)]),
        (3, 40, 50, &[Claim::Departs(7)]),
        (4, 60, 95, &[Claim::Departs(7)]),
        (0, 110, 200, &[Claim::Heeds(7)]),
    ]);
    assert_eq!(
        found.edges[0],
        [edge(0, 4, 1)],
        "not of one before it, nor of another process; and of two the later, as the earlier may not have been heard"
    );
    assert_eq!(
        found.caused,
        [(0, 0)],
        "where none has ended it was another signal"
    );
}

#[test]
fn sleepers_are_woken_by_the_first_that_woke_somebody_since() {
    let (process, address) = (7, 0x40);
    let wake = |count| Claim::Wakes {
        process,
        address,
        count,
    };
    let woken = Claim::Woken { process, address };
    let elsewhere = Claim::Woken { process: 8, address };
    let found = order(&[
        (0, 0, 2, &[wake(1)]),
        (1, 10, 60, &[woken]),
        (2, 12, 61, &[woken]),
        (3, 14, 62, &[woken]),
        (4, 15, 63, &[elsewhere]),
        (0, 20, 65, &[wake(1)]),
        (5, 50, 55, &[wake(2)]),
        (1, 70, 80, &[woken]),
    ]);
    assert_eq!(
        found.edges[1],
        [edge(0, 0, 2)],
        "not by one before it slept, and by none a second time"
    );
    assert_eq!(
        (&found.edges[2], &found.edges[3]),
        (&vec![edge(0, 5, 1)], &vec![edge(0, 5, 1)])
    );
    assert_eq!(found.edges[4], []);
    assert_eq!(
        found.caused,
        [(1, 0), (2, 0), (3, 0)],
        "the others sleep as long as they did"
    );
}

#[test]
fn whoever_joins_a_thread_goes_on_when_it_has_ended() {
    let woken = Claim::Woken {
        process: 7,
        address: 0x40,
    };
    let found = order(&[
        (0, 0, 100, &[woken]),
        (1, 50, 90, &[Claim::Parts(7)]),
        (2, 60, 95, &[Claim::Parts(8)]),
    ]);
    assert_eq!(
        (&found.edges[0], &found.caused),
        (&vec![edge(0, 1, 1)], &vec![(0, 0)])
    );
}

#[test]
fn locks_are_taken_in_turn() {
    let found = order(&[
        (0, 0, 1, &[Claim::Locks(7)]),
        (1, 5, 50, &[Claim::Locks(7)]),
        (0, 40, 41, &[Claim::Locks(7)]),
    ]);
    assert_eq!(found.edges[1], [edge(0, 0, 2)]);
    assert_eq!(found.caused, [(1, 0)]);
}

#[test]
fn by_time_each_waits_for_the_one_before() {
    let step = |worker, index, key| Step {
        worker,
        index,
        start: key,
        end: key,
        key,
        claims: 0,
        count: 0,
    };
    let found = by_time(&[step(0, 0, 1), step(1, 0, 2), step(1, 1, 3), step(0, 1, 4)], 2);
    assert_eq!(found.edges, [vec![edge(1, 1, 2)], vec![edge(0, 0, 1)]]);
}
