use super::*;

/// The order of a small trace: worker, start, end, and claims of each action.
fn order(list: &[(u32, i64, i64, &[Claim])]) -> Order {
    let mut claims = Vec::new();
    let mut counts = [0; 8];
    let mut steps: Vec<Step> = list
        .iter()
        .map(|&(worker, start, end, claimed)| {
            let index = counts[worker as usize];
            counts[worker as usize] += 1;
            claims.extend_from_slice(claimed);
            let waits = claimed.iter().any(|claim| {
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
                claims: (claims.len() - claimed.len()) as u32,
                count: claimed.len() as u32,
            }
        })
        .collect();
    steps.sort_by_key(|step| step.key);
    // Name 10 is a directory, 11 and 12 are in it. The numbers of the changed names are the same.
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
fn overlapping_bytes_are_ordered_if_one_call_writes() {
    let ordered = order(&[
        (0, 0, 10, &[writes(0, 100)]),
        (1, 20, 30, &[reads(50, 60)]),
        (2, 20, 30, &[reads(100, 200)]),
        (3, 20, 30, &[reads(40, 55)]),
        (4, 40, 50, &[writes(52, 53)]),
    ]);
    assert_eq!(ordered.edges[1], [edge(0, 0, 1)]);
    assert_eq!(ordered.edges[2], [], "other bytes");
    assert_eq!(
        ordered.edges[3],
        [edge(0, 0, 1)],
        "readers do not wait for each other"
    );
    assert_eq!(ordered.edges[4], [edge(0, 0, 1), edge(0, 1, 1), edge(0, 3, 1)]);
}

#[test]
fn overlapping_calls_stay_unordered() {
    let ordered = order(&[
        (0, 0, 30, &[writes(0, 100)]),
        (1, 20, 40, &[writes(0, 100)]),
        (2, 50, 60, &[reads(0, 1)]),
    ]);
    assert_eq!(ordered.edges[1], []);
    assert_eq!(
        ordered.edges[2],
        [edge(0, 0, 1), edge(0, 1, 1)],
        "both, because neither waits for the other"
    );
}

#[test]
fn sync_and_truncate_concern_the_whole_file() {
    let ordered = order(&[
        (0, 0, 10, &[writes(0, 100)]),
        (1, 20, 30, &[reads(0, u64::MAX)]),
        (0, 40, 50, &[writes(5, 6)]),
        (2, 60, 70, &[writes(0, u64::MAX)]),
        (3, 80, 90, &[reads(1000, 1001)]),
    ]);
    assert_eq!(ordered.edges[1], [edge(0, 0, 1)]);
    assert_eq!(ordered.edges[0], [edge(1, 1, 1)]);
    assert_eq!(ordered.edges[2], [edge(0, 0, 2), edge(0, 1, 1)]);
    assert_eq!(ordered.edges[3], [edge(0, 2, 1)]);
}

#[test]
fn resources_of_one_worker_need_no_edges() {
    let ordered = order(&[
        (0, 0, 1, &[Claim::Makes(1), writes(0, 10)]),
        (0, 2, 3, &[Claim::Moves(1), reads(0, 10)]),
        (1, 4, 5, &[Claim::Makes(2)]),
        (0, 6, 7, &[Claim::Ends(1)]),
    ]);
    assert!(ordered.edges.iter().all(Vec::is_empty));
}

#[test]
fn uses_of_an_open_file_are_after_its_creation_and_before_its_close() {
    let ordered = order(&[
        (0, 0, 5, &[Claim::Makes(1)]),
        // Clocks are coarse: it cannot have begun before the open ended.
        (1, 4, 10, &[Claim::Moves(1)]),
        (0, 20, 30, &[Claim::Moves(1)]),
        (2, 20, 35, &[Claim::Uses(1)]),
        (1, 40, 50, &[Claim::Uses(1)]),
        (0, 45, 46, &[Claim::Ends(1)]),
    ]);
    assert_eq!(ordered.edges[1], [edge(0, 0, 1)]);
    assert_eq!(ordered.edges[0], [edge(1, 1, 1), edge(2, 1, 2), edge(2, 2, 1)]);
    assert_eq!(ordered.edges[2], [edge(0, 0, 1)], "pread does not use the offset");
}

#[test]
fn uses_of_a_name_are_after_its_creation_and_before_its_removal() {
    let ordered = order(&[
        (0, 0, 10, &[Claim::Changes(10)]),
        (1, 20, 30, &[Claim::Changes(11)]),
        (2, 40, 50, &[Claim::Names(11)]),
        (3, 40, 50, &[Claim::Names(12)]),
        (4, 60, 70, &[Claim::Changes(11)]),
        (5, 80, 90, &[Claim::Changes(10)]),
    ]);
    assert_eq!(ordered.edges[1], [edge(0, 0, 1)], "its directory");
    assert_eq!(ordered.edges[2], [edge(0, 0, 1), edge(0, 1, 1)]);
    assert_eq!(ordered.edges[3], [edge(0, 0, 1)], "another name");
    assert_eq!(ordered.edges[4], [edge(0, 0, 1), edge(0, 1, 1), edge(0, 2, 1)]);
    let waits: Vec<_> = ordered.edges[5].iter().map(|edge| edge.worker).collect();
    assert_eq!(waits, [0, 1, 2, 3, 4], "all users of names in it");
}

#[test]
fn a_pipe_is_read_after_its_writes_and_ends_after_all_writers() {
    let draw = |bytes| Claim::Draws { pipe: 1, bytes };
    let feed = |bytes| Claim::Feeds { pipe: 1, bytes };
    let ordered = order(&[
        (0, 0, 100, &[draw(10)]),
        (1, 50, 90, &[feed(6)]),
        (2, 60, 95, &[feed(6)]),
        (0, 110, 111, &[draw(2)]),
        (0, 120, 200, &[draw(0)]),
        (1, 150, 151, &[Claim::Leaves(1)]),
        (2, 160, 161, &[Claim::Leaves(1)]),
    ]);
    assert_eq!(
        ordered.edges[0],
        [edge(0, 1, 1), edge(0, 2, 1), edge(2, 1, 2), edge(2, 2, 2)]
    );
    assert_eq!(
        ordered.caused,
        [(0, 0), (0, 2)],
        "bytes that were already available are not waited for"
    );
}

#[test]
fn a_wait_is_after_the_end_of_its_thread_and_a_vfork_after_its_child() {
    let ordered = order(&[
        (0, 0, 100, &[Claim::Starts(1), Claim::Lends(1)]),
        (1, 50, 90, &[Claim::Returns]),
        (0, 110, 111, &[]),
        (1, 120, 180, &[Claim::Returns]),
        (0, 115, 190, &[Claim::Awaits(1)]),
    ]);
    assert_eq!(ordered.edges[0], [edge(1, 1, 1), edge(2, 1, 2)]);
    assert_eq!(
        ordered.edges[1],
        [],
        "the start is not an edge: a worker cannot begin earlier"
    );
    assert_eq!(ordered.caused, [(0, 2)]);
}

#[test]
fn a_signal_is_that_of_the_child_that_ended_during_the_wait() {
    let ordered = order(&[
        (1, 0, 5, &[Claim::Departs(7)]),
        (0, 10, 100, &[Claim::Heeds(7)]),
        (2, 20, 30, &[Claim::Departs(8)]),
        (3, 40, 50, &[Claim::Departs(7)]),
        (4, 60, 95, &[Claim::Departs(7)]),
        (0, 110, 200, &[Claim::Heeds(7)]),
    ]);
    assert_eq!(
        ordered.edges[0],
        [edge(0, 4, 1)],
        "not a child that ended before, nor one of another process; of two, the later one, because the \
         earlier signal may not have been received"
    );
    assert_eq!(
        ordered.caused,
        [(0, 0)],
        "if no child ended, it was another signal"
    );
}

#[test]
fn a_sleeper_is_woken_by_the_first_unused_wake_up_after_it_slept() {
    let (process, address) = (7, 0x40);
    let wake = |count| Claim::Wakes {
        process,
        address,
        count,
    };
    let woken = Claim::Woken { process, address };
    let elsewhere = Claim::Woken { process: 8, address };
    let ordered = order(&[
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
        ordered.edges[1],
        [edge(0, 0, 2)],
        "not by a wake-up before it slept, and by none twice"
    );
    assert_eq!(
        (&ordered.edges[2], &ordered.edges[3]),
        (&vec![edge(0, 5, 1)], &vec![edge(0, 5, 1)])
    );
    assert_eq!(ordered.edges[4], []);
    assert_eq!(
        ordered.caused,
        [(1, 0), (2, 0), (3, 0)],
        "the other sleeps have their recorded duration"
    );
}

#[test]
fn a_join_is_after_the_end_of_its_thread() {
    let woken = Claim::Woken {
        process: 7,
        address: 0x40,
    };
    let ordered = order(&[
        (0, 0, 100, &[woken]),
        (1, 50, 90, &[Claim::Parts(7)]),
        (2, 60, 95, &[Claim::Parts(8)]),
    ]);
    assert_eq!(
        (&ordered.edges[0], &ordered.caused),
        (&vec![edge(0, 1, 1)], &vec![(0, 0)])
    );
}

#[test]
fn locks_of_a_file_are_in_recorded_order() {
    let ordered = order(&[
        (0, 0, 1, &[Claim::Locks(7)]),
        (1, 5, 50, &[Claim::Locks(7)]),
        (0, 40, 41, &[Claim::Locks(7)]),
    ]);
    assert_eq!(ordered.edges[1], [edge(0, 0, 2)]);
    assert_eq!(ordered.caused, [(1, 0)]);
}

#[test]
fn by_time_each_action_waits_for_the_previous_one() {
    let step = |worker, index, key| Step {
        worker,
        index,
        start: key,
        end: key,
        key,
        claims: 0,
        count: 0,
    };
    let ordered = by_time(&[step(0, 0, 1), step(1, 0, 2), step(1, 1, 3), step(0, 1, 4)], 2);
    assert_eq!(ordered.edges, [vec![edge(1, 1, 2)], vec![edge(0, 0, 1)]]);
}
