//! Tests from batches to Parquet, including kills, damage and overload in between.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot continue fails; its helpers are tests as well"
)]

use std::fs;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt16Type, UInt32Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use plimsoll_model::{Codes, Keep, MetricRow, NOT_HAPPENED, Outcome, Transaction, format};
use plimsoll_record::synthetic::{Mix, names};
use plimsoll_record::{
    AgentStart, ClockReading, Columns, Conversion, Recorder, RecorderConfig, SideWriter, Start, convert,
    segment, write_json,
};

#[path = "record/disk.rs"]
mod disk;

const T0: i64 = 5_000_000_000_000;

/// A directory that is removed with the test.
struct Run(PathBuf);

impl Run {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("plimsoll-record-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("segments")).unwrap();
        Self(path)
    }

    fn segments(&self) -> PathBuf {
        self.0.join("segments")
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn start() -> Start {
    Start {
        format: format::START.into(),
        experiment: "e".into(),
        run: "0001".into(),
        t0_unix_ns: 1_790_000_000_000_000_000,
        t0_ns: 0,
        assumptions: plimsoll_clock::Assumptions::default(),
        warmup_ns: 0,
        duration_ns: None,
        keep: Keep::All,
        agents: vec![AgentStart {
            name: "local".into(),
            t0_raw_ns: T0,
            host: "local".into(),
            site: "local".into(),
            role: plimsoll_model::Role::Testers,
            same_clock: true,
        }],
    }
}

fn config(directory: &Path, codes: Codes) -> RecorderConfig {
    RecorderConfig {
        directory: directory.to_owned(),
        agent: "local".into(),
        run: "0001".into(),
        experiment: "e".into(),
        names: names(),
        codes,
        keep: Keep::All,
        lanes: 2,
        queue: 64,
    }
}

/// Writes `transactions` as segments that are closed at `rotate` bytes.
fn write(run: &Run, transactions: &[Transaction], codes: &Codes, rotate: u64) -> Vec<String> {
    let origin = config(&run.segments(), codes.clone()).origin();
    let mut columns = Columns::new(&names(), codes.clone(), std::collections::HashMap::new(), 100);
    let mut writer = segment::SegmentWriter::transactions(&run.segments(), origin, rotate);
    for part in transactions.chunks(100) {
        columns.extend(part);
        writer.write(&columns.take().unwrap()).unwrap();
    }
    let (names, sealed) = writer.finish();
    sealed.unwrap();
    names
}

/// Tester, the five stamps in the order of the columns, and code of every row.
fn rows(path: &Path) -> Vec<(u32, i64, i64, i64, i64, i64, String)> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(fs::File::open(path).unwrap())
        .unwrap()
        .build()
        .unwrap();
    let mut rows = Vec::new();
    for batch in reader {
        let batch = batch.unwrap();
        let int = |name: &str| {
            batch
                .column_by_name(name)
                .unwrap()
                .as_primitive::<Int64Type>()
                .clone()
        };
        let tester = batch
            .column_by_name("tester")
            .unwrap()
            .as_primitive::<UInt32Type>()
            .clone();
        let codes = batch
            .column_by_name("code")
            .unwrap()
            .as_dictionary::<UInt16Type>()
            .clone();
        let codes = codes.downcast_dict::<arrow_array::StringArray>().unwrap();
        for row in 0..batch.num_rows() {
            let [scheduled, start, connected, first, end] =
                ["scheduled", "start", "connected", "first_byte", "end"].map(|name| int(name).value(row));
            let code = arrow_array::ArrayAccessor::value(&codes, row).to_owned();
            rows.push((tester.value(row), scheduled, start, connected, first, end, code));
        }
    }
    rows
}

fn expected(transactions: &[Transaction], codes: &Codes) -> Vec<(u32, i64, i64, i64, i64, i64, String)> {
    let relative = |stamp: i64, start: i64| if stamp == NOT_HAPPENED { -1 } else { stamp - start };
    let texts = codes.texts();
    transactions
        .iter()
        .map(|t| {
            let code = texts[usize::from(t.code.0)].clone();
            let (connected, first, end) = (
                relative(t.connected, t.start),
                relative(t.first_byte, t.start),
                relative(t.end, t.start),
            );
            (
                t.tester,
                t.scheduled - t.start,
                t.start - T0,
                connected,
                first,
                end,
                code,
            )
        })
        .collect()
}

fn converted(run: &Run) -> Conversion {
    let conversion = convert(&run.0, &start()).unwrap();
    conversion.clean_up(false);
    conversion
}

#[test]
fn every_transaction_is_stored_with_every_stamp() {
    let run = Run::new("all");
    let codes = Codes::default();
    let mut transactions: Vec<Transaction> = Mix::new(1, T0, &codes).take(50_000).collect();
    transactions[7].end = NOT_HAPPENED;
    transactions[7].outcome = Outcome::Cancelled;
    let (recorder, mut sinks) = Recorder::start(config(&run.segments(), codes.clone())).unwrap();
    write_json(&run.segments().join("start.json"), &start()).unwrap();
    for (number, part) in transactions.chunks(1000).enumerate() {
        let mut batch = part.to_vec();
        if number >= 25 {
            batch[0].code = codes.number("a code that was added late");
        }
        assert_eq!(sinks[0].deliver(&mut batch), 0);
        assert!(batch.is_empty());
    }
    drop(sinks);
    let totals = recorder.finish();
    assert_eq!(totals.damage, Vec::<String>::new());
    assert_eq!(totals.segments, ["local-000.arrow"]);
    let conversion = converted(&run);
    assert_eq!(conversion.damage, Vec::<String>::new());
    let tally = conversion.tally();
    assert_eq!(tally.counters.started, 50_000);
    assert_eq!(tally.in_flight, 1);
    let failed = transactions
        .iter()
        .filter(|t| t.outcome == Outcome::Error)
        .count() as u64;
    assert_eq!(tally.counters.failed, failed);
    assert_eq!(tally.counters.succeeded, 50_000 - failed - 1);
    assert!(
        !run.segments().exists(),
        "segments are removed after Parquet is written"
    );
    let stored = rows(&run.0.join("transactions.parquet"));
    assert_eq!(
        stored
            .iter()
            .filter(|row| row.6 == "a code that was added late")
            .count(),
        25
    );
}

#[test]
fn rotation_keeps_order_and_content() {
    let run = Run::new("rotate");
    let codes = Codes::default();
    let transactions: Vec<Transaction> = Mix::new(2, T0, &codes).take(3_000).collect();
    let names = write(&run, &transactions, &codes, 60_000);
    assert!(names.len() > 3, "{names:?}");
    assert_eq!(names[1], "local-001.arrow");
    let conversion = converted(&run);
    assert!(conversion.segments.iter().all(|segment| segment.sealed));
    assert_eq!(
        rows(&run.0.join("transactions.parquet")),
        expected(&transactions, &codes)
    );
}

#[test]
fn all_complete_batches_of_a_killed_agent_are_converted() {
    let codes = Codes::default();
    let transactions: Vec<Transaction> = Mix::new(3, T0, &codes).take(1_000).collect();
    let whole = Run::new("whole");
    write(&whole, &transactions, &codes, u64::MAX);
    let bytes = fs::read(whole.segments().join("local-000.arrow")).unwrap();
    let run = Run::new("killed");
    for cut in (0..bytes.len()).step_by(4_999) {
        fs::create_dir_all(run.segments()).unwrap();
        let _ = fs::remove_file(run.0.join("transactions.parquet"));
        fs::write(run.segments().join("local-000.arrow"), &bytes[..cut]).unwrap();
        let conversion = convert(&run.0, &start()).unwrap();
        let kept = conversion.tally().counters.started;
        assert_eq!(kept % 100, 0, "cut at {cut}");
        assert!(
            cut == 0 || kept == 1_000 || !conversion.damage.is_empty(),
            "cut at {cut} of {}",
            bytes.len()
        );
        if kept > 0 {
            let stored = rows(&run.0.join("transactions.parquet"));
            assert_eq!(
                stored,
                expected(&transactions[..kept as usize], &codes),
                "cut at {cut}"
            );
        }
    }
}

#[test]
fn changed_bytes_are_reported_and_never_panic() {
    let codes = Codes::default();
    let transactions: Vec<Transaction> = Mix::new(4, T0, &codes).take(300).collect();
    let run = Run::new("changed");
    write(&run, &transactions, &codes, u64::MAX);
    let path = run.segments().join("local-000.arrow");
    let bytes = fs::read(&path).unwrap();
    let mut seed = 99_u64;
    for _ in 0..300 {
        let mut mutated = bytes.clone();
        for _ in 0..4 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let index = (seed >> 33) as usize % mutated.len();
            mutated[index] = (seed >> 20) as u8;
        }
        fs::write(&path, &mutated).unwrap();
        let _ = fs::remove_file(run.0.join("transactions.parquet"));
        match convert(&run.0, &start()) {
            Ok(conversion) => assert!(mutated == bytes || !conversion.damage.is_empty()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

#[test]
fn a_second_conversion_neither_loses_nor_duplicates_rows() {
    let run = Run::new("again");
    let codes = Codes::default();
    let transactions: Vec<Transaction> = Mix::new(5, T0, &codes).take(400).collect();
    write(&run, &transactions[..200], &codes, u64::MAX);
    let first = convert(&run.0, &start()).unwrap(); // as if killed before the segments are removed
    let second = convert(&run.0, &start()).unwrap();
    assert_eq!(first.tally(), second.tally());
    assert_eq!(rows(&run.0.join("transactions.parquet")).len(), 200);
    // A segment that arrives later is added.
    let late = Run::new("late");
    write(&late, &transactions[200..], &codes, u64::MAX);
    fs::copy(
        late.segments().join("local-000.arrow"),
        run.segments().join("local-001.arrow"),
    )
    .unwrap();
    let third = converted(&run);
    assert_eq!(third.tally().counters.started, 400);
    assert_eq!(
        rows(&run.0.join("transactions.parquet")),
        expected(&transactions, &codes)
    );
    assert!(!run.segments().exists());
}

#[test]
fn remnants_of_a_kill_are_removed_with_the_segments() {
    let run = Run::new("remnants");
    let codes = Codes::default();
    let transactions: Vec<Transaction> = Mix::new(5, T0, &codes).take(200).collect();
    write(&run, &transactions, &codes, u64::MAX);
    let remnants = [
        "start.json",
        "local-000.json.part",
        "local-001.arrow.part",
        "local-002.json",
    ];
    for name in remnants {
        fs::write(run.segments().join(name), "{}").unwrap();
    }
    let conversion = convert(&run.0, &start()).unwrap();
    conversion.clean_up(true);
    assert!(
        remnants.iter().all(|name| run.segments().join(name).exists()),
        "more segments may arrive"
    );
    fs::write(run.segments().join("of-another-kind"), "").unwrap();
    conversion.clean_up(false);
    let remaining: Vec<_> = fs::read_dir(run.segments())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(
        remaining.len(),
        2,
        "unknown files remain, and the start file, which is needed to convert them: {remaining:?}"
    );
    fs::remove_file(run.segments().join("of-another-kind")).unwrap();
    conversion.clean_up(false);
    assert!(!run.segments().exists());
}

#[test]
fn a_missing_segment_is_reported() {
    let run = Run::new("gap");
    let codes = Codes::default();
    let transactions: Vec<Transaction> = Mix::new(6, T0, &codes).take(3_000).collect();
    write(&run, &transactions, &codes, 60_000);
    fs::remove_file(run.segments().join("local-001.arrow")).unwrap();
    let conversion = converted(&run);
    assert_eq!(
        conversion.damage,
        ["segments 1 to 1 before local-002.arrow are missing"]
    );
}

#[test]
fn a_full_queue_drops_batches_and_counts_them() {
    let run = Run::new("full");
    let codes = Codes::default();
    let mut config = config(&run.segments(), codes.clone());
    config.queue = 1;
    let (recorder, mut sinks) = Recorder::start(config).unwrap();
    let row = Mix::new(7, T0, &codes).next().unwrap();
    let mut lost = 0;
    for _ in 0..2_000 {
        let mut batch = vec![row; 100];
        lost += sinks[1].deliver(&mut batch);
    }
    drop(sinks);
    recorder.finish();
    let conversion = converted(&run);
    assert_eq!(conversion.tally().counters.started + lost as u64, 200_000);
}

#[test]
fn a_recorder_that_cannot_write_reports_it_once_and_discards() {
    let run = Run::new("nowhere");
    let codes = Codes::default();
    let (recorder, mut sinks) = Recorder::start(config(&run.0.join("not-there"), codes.clone())).unwrap();
    let rows: Vec<Transaction> = Mix::new(8, T0, &codes).take(40_000).collect();
    for part in rows.chunks(10_000) {
        assert_eq!(sinks[0].deliver(&mut part.to_vec()), 0);
    }
    drop(sinks);
    let totals = recorder.finish();
    assert_eq!(totals.discarded, 40_000);
    assert_eq!(totals.damage.len(), 2, "{:?}", totals.damage);
    assert!(totals.damage[0].contains("not-there"), "{:?}", totals.damage);
}

#[test]
fn keep_summaries_stores_no_transactions() {
    let run = Run::new("summaries");
    let codes = Codes::default();
    let (recorder, mut sinks) = Recorder::start(RecorderConfig {
        keep: Keep::Summaries,
        ..config(&run.segments(), codes.clone())
    })
    .unwrap();
    let mut rows: Vec<Transaction> = Mix::new(9, T0, &codes).take(1_000).collect();
    assert_eq!(sinks[0].deliver(&mut rows), 0);
    drop(sinks);
    assert_eq!(recorder.finish().segments, Vec::<String>::new());
    converted(&run);
    assert!(!run.0.join("transactions.parquet").exists());
}

#[test]
fn metrics_and_clock_readings_have_their_own_tables() {
    let run = Run::new("side");
    let codes = Codes::default();
    let config = config(&run.segments(), codes.clone());
    let origin = config.origin();
    let (recorder, mut sinks) = Recorder::start(config).unwrap();
    let metric = codes.number("cpu_s");
    let mut rows = vec![MetricRow {
        agent: 0,
        tester: 3,
        start: T0 + 10,
        metric,
        value: 0.25,
    }];
    assert_eq!(sinks[0].metrics(&mut rows), 0);
    drop(sinks);
    assert_eq!(recorder.finish().segments, ["local-metrics-000.arrow"]);
    let mut clock = SideWriter::<ClockReading>::new(&run.segments(), &origin);
    clock
        .write(&[ClockReading {
            raw_ns: T0 + 5,
            monotonic_ns: 7,
            realtime_ns: 9,
        }])
        .unwrap();
    clock.finish().1.unwrap();
    converted(&run);
    let read = |name: &str| {
        let file = fs::File::open(run.0.join(name)).unwrap();
        ParquetRecordBatchReaderBuilder::try_new(file)
            .unwrap()
            .build()
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
    };
    let metrics = read("metrics.parquet");
    assert_eq!(
        metrics
            .column_by_name("start")
            .unwrap()
            .as_primitive::<Int64Type>()
            .value(0),
        10
    );
    assert_eq!(
        metrics
            .column_by_name("value")
            .unwrap()
            .as_primitive::<Float64Type>()
            .values(),
        &[0.25]
    );
    let clock = read("clock.parquet");
    assert_eq!(
        clock
            .column_by_name("t")
            .unwrap()
            .as_primitive::<Int64Type>()
            .value(0),
        5
    );
    assert_eq!(
        clock
            .column_by_name("raw")
            .unwrap()
            .as_primitive::<Int64Type>()
            .value(0),
        T0 + 5
    );
}

#[test]
fn a_newer_format_is_refused_with_both_versions() {
    let run = Run::new("newer");
    let mut newer = start();
    newer.format = "plimsoll.start/2".into();
    write_json(&run.segments().join("start.json"), &newer).unwrap();
    let error = Start::read(&run.segments()).unwrap_err().to_string();
    assert!(
        error.contains("plimsoll.start/2") && error.contains("plimsoll.start/1"),
        "{error}"
    );
}
