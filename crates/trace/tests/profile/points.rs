//! Points of a chart, and their density.

use std::collections::BTreeMap;

use plimsoll_trace::names::Kind;
use plimsoll_trace::profile::Choice;
use plimsoll_trace::profile::points::{Gatherer, Points, Query};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use regex::Regex;

use crate::scene::Scene;

fn gathered(scene: &Scene, query: Query) -> Points {
    let mut gatherer = Gatherer::new(query);
    for block in scene.events.chunks(50) {
        gatherer.take(&scene.names, block);
    }
    gatherer.finish(&scene.names)
}

fn scene() -> Scene {
    let mut random = Pcg64Mcg::seed_from_u64(5);
    let mut scene = Scene::new();
    let one = scene.file("/one", Kind::File);
    let two = scene.file("/two", Kind::File);
    let handles = [scene.open(one), scene.open(two)];
    for step in 0..2000u32 {
        // Not in the order of time: some requests begin before the first one.
        scene.now = i64::from(random.next_u32() % 1_000_000) * 1000 - 100_000_000;
        let handle = &handles[(step % 4 / 3) as usize];
        let name = if random.next_u32() % 3 == 0 {
            "pwrite64"
        } else {
            "pread64"
        };
        let length = u64::from(random.next_u32() % 10_000);
        scene.data_at(
            handle,
            name,
            u64::from(random.next_u32() % 1_000_000),
            10_000,
            length,
        );
    }
    scene
}

#[test]
fn few_requests_are_single_points() {
    let scene = scene();
    let choice = Choice {
        file: Some(Regex::new("two").unwrap()),
        from_ns: Some(0),
        to_ns: Some(300_000_000),
        ..Choice::default()
    };
    let query = Query {
        choice,
        from_byte: 100_000,
        to_byte: 600_000,
        ..Query::default()
    };
    let points = gathered(&scene, query);
    let expected: Vec<_> = scene
        .events
        .iter()
        .filter(|event| event.file.is_some_and(|file| file.index() == 1))
        .filter_map(|event| Some((event, event.offset? as u64, event.outcome.value()? as u64)))
        .filter(|(event, offset, returned)| {
            (0..300_000_000).contains(&event.start_ns) && *offset < 600_000 && offset + returned > 100_000
        })
        .map(|(event, offset, returned)| (event.start_ns, offset, returned, event.call.name == "pwrite64"))
        .collect();
    let found: Vec<_> = points
        .points
        .iter()
        .map(|point| (point.start_ns, point.offset, point.result, point.is_write))
        .collect();
    assert!(expected.len() > 20);
    assert_eq!(found, expected);
    assert_eq!(
        (points.binned, points.requests, &points.density),
        (false, expected.len() as u64, &None)
    );
    assert_eq!(points.files, ["/two"]);

    let text = serde_json::to_string(&points).unwrap();
    let row = serde_json::from_str::<serde_json::Value>(&text).unwrap()["points"][0].clone();
    assert_eq!(row.as_array().unwrap().len(), points.columns.len());
    assert_eq!(serde_json::from_str::<Points>(&text).unwrap(), points);
}

/// Compares each bin with a count over all bytes.
#[test]
fn many_requests_are_binned_completely() {
    let scene = scene();
    let query = Query {
        limit: 100,
        columns: 37,
        rows: 20,
        ..Query::default()
    };
    let points = gathered(&scene, query);
    let density = points.density.unwrap();
    assert!(points.binned && points.points.is_empty());
    assert_eq!(points.requests, 2000);
    assert!(
        density.columns <= 37 && density.columns > 37 / 2,
        "{}",
        density.columns
    );
    assert!(density.rows <= 20 && density.rows > 10, "{}", density.rows);

    let mut expected: [BTreeMap<(u64, u64), (u64, u64)>; 2] = Default::default();
    for event in &scene.events {
        let Some(offset) = event.offset else { continue };
        let side = usize::from(event.call.name == "pwrite64");
        let column = ((event.start_ns - density.start_ns) as u64) / density.column_ns;
        let (offset, returned) = (offset as u64, event.outcome.value().unwrap() as u64);
        expected[side]
            .entry((column, offset / density.row_bytes))
            .or_default()
            .0 += 1;
        for byte in offset..offset + returned {
            expected[side]
                .entry((column, byte / density.row_bytes))
                .or_default()
                .1 += 1;
        }
    }
    for (found, expected) in [density.reads, density.writes].into_iter().zip(expected) {
        let found: BTreeMap<_, _> = found
            .into_iter()
            .map(|[column, row, count, bytes]| ((column, row), (count, bytes)))
            .collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn requests_with_unknown_offsets_are_counted() {
    let mut scene = scene();
    scene.events.iter_mut().for_each(|event| event.offset = None);
    let points = gathered(&scene, Query::default());
    assert_eq!((points.requests, points.unknown_offsets), (0, 2000));
}
