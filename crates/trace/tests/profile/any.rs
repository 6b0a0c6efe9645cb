//! Random events always have a profile and points.

use plimsoll_trace::event::{Event, FileId, OpenId, Outcome, PathId, ThreadId};
use plimsoll_trace::names::Kind;
use plimsoll_trace::profile::Profile;
use plimsoll_trace::profile::points::{Gatherer, Query};
use plimsoll_trace::syscalls;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

use crate::scene::Scene;

/// A random number: mostly small, sometimes at the limit of the range.
fn number(random: &mut Pcg64Mcg) -> u64 {
    match random.next_u32() % 8 {
        0 => u64::MAX - random.next_u64() % 3,
        1 => (1 << 63) - random.next_u64() % 3,
        2 => random.next_u64() >> (random.next_u32() % 64),
        _ => random.next_u64() % 100_000,
    }
}

fn event(random: &mut Pcg64Mcg, calls: &[&'static syscalls::Syscall]) -> Event {
    let mut below = |n: u64| (random.next_u64() % n) as usize;
    let thread = ThreadId::new(below(4)).unwrap();
    let call = calls[below(calls.len() as u64)];
    let mut ids = || below(12);
    let (open, open2) = (OpenId::new(ids()), OpenId::new(ids()));
    let (file, file2) = (
        FileId::new(ids()).filter(|id| id.index() < 8),
        FileId::new(ids()).filter(|id| id.index() < 8),
    );
    let (path, path2) = (
        PathId::new(ids()).filter(|id| id.index() < 8),
        PathId::new(ids()).filter(|id| id.index() < 8),
    );
    let mut maybe = || (!random.next_u32().is_multiple_of(4)).then(|| number(random));
    let outcome = match maybe() {
        Some(value) if value % 5 == 0 => Outcome::Failed((value % 4095) as u16 + 1),
        Some(value) => Outcome::Returned(value as i64),
        None => Outcome::Unknown,
    };
    Event {
        open,
        open2,
        file,
        file2,
        path,
        path2,
        duration_ns: maybe(),
        cpu_ns: maybe(),
        offset: maybe().map(|value| value as i64),
        offset2: maybe().map(|value| value as i64),
        length: maybe(),
        flags: maybe(),
        mode: maybe().map(|value| value as u32),
        ..Event::new(thread, call, maybe().unwrap_or(0) as i64, outcome)
    }
}

#[test]
fn random_events_have_a_profile_and_points() {
    let mut random = Pcg64Mcg::seed_from_u64(23);
    // Sorted, because the table has no order.
    let mut calls: Vec<_> = syscalls::all().collect();
    calls.sort_by_key(|call| call.name);
    for round in 0..150 {
        let mut scene = Scene::new().calibrated(30_000.0, 6_000.0);
        for index in 0..3 {
            scene.thread(101 + index, 100 + index % 2, Some(index as usize));
        }
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            scene.file(&format!("/f{}", index % 5), kind);
        }
        for name in ["/a", "/b", "/c"] {
            scene.path(name);
        }
        scene.events = (0..200).map(|_| event(&mut random, &calls)).collect();
        let profile = scene.profile();
        let made = scene
            .events
            .iter()
            .filter(|event| !event.call.name.starts_with('+'))
            .count();
        assert_eq!(profile.totals.calls, made as u64);
        // A number that is not finite would be null.
        let text = serde_json::to_string(&profile).unwrap();
        assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile);
        assert!(!text.contains(":null,\"to\""), "a number that is not finite");

        let limit = if round % 2 == 0 { 3 } else { 1000 };
        let mut gatherer = Gatherer::new(Query {
            limit,
            columns: 1 + round % 9,
            rows: 1 + round % 7,
            ..Query::default()
        });
        gatherer.take(&scene.names, &scene.events);
        let points = gatherer.finish(&scene.names);
        let requests = match &points.density {
            Some(density) => density
                .reads
                .iter()
                .chain(&density.writes)
                .map(|row| row[2])
                .sum::<u64>(),
            None => points.points.len() as u64,
        };
        assert_eq!(requests, points.requests);
    }
}
