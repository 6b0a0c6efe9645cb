//! Measurements of the engine itself, for `bench/`. Each prints one JSON line.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use plimsoll_model::{Codes, Keep, Transaction, format};
use plimsoll_record::segment::{Origin, ROTATE_BYTES, SegmentWriter};
use plimsoll_record::synthetic::{Mix, names};
use plimsoll_record::{AgentStart, Columns, Start, convert, recorder};

/// What to measure.
#[derive(clap::Subcommand)]
pub(crate) enum Bench {
    /// Write transactions from memory to segments, and convert them to Parquet
    Record {
        /// Number of transactions
        #[arg(long, default_value_t = 20_000_000)]
        rows: usize,
        /// Empty directory for the files
        #[arg(long)]
        directory: PathBuf,
    },
}

/// Wall time, and CPU time of this process, s. On a shared machine only the CPU time shows the
/// speed of a core.
#[derive(Clone, Copy)]
struct Mark(Instant, f64);

impl Mark {
    fn now() -> Self {
        let mut used = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the call only writes to `used`.
        unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut used) };
        Self(Instant::now(), used.tv_sec as f64 + used.tv_nsec as f64 / 1e9)
    }

    fn since(self) -> [f64; 2] {
        [self.0.elapsed().as_secs_f64(), Self::now().1 - self.1]
    }
}

/// Number of transactions that are generated at a time, outside of the measured time.
const POOL: usize = 1 << 20;
/// Number of transactions that a lane passes to the recorder at a time.
const BATCH: usize = 1024;

pub(crate) fn carry_out(bench: &Bench) -> anyhow::Result<()> {
    let Bench::Record { rows, directory } = bench;
    let segments = directory.join("segments");
    std::fs::create_dir_all(&segments).with_context(|| format!("cannot create {}", segments.display()))?;
    let codes = Codes::default();
    let origin = Origin {
        format: format::TRANSACTIONS,
        agent: "local".into(),
        run: "0001".into(),
        experiment: "bench".into(),
    };
    let start = Start {
        format: format::START.into(),
        experiment: "bench".into(),
        run: "0001".into(),
        t0_unix_ns: 0,
        t0_ns: 0,
        assumptions: plimsoll_clock::Assumptions::default(),
        warmup_ns: 0,
        duration_ns: None,
        keep: Keep::All,
        agents: vec![AgentStart {
            name: "local".into(),
            t0_raw_ns: 0,
            host: "local".into(),
            site: "local".into(),
            role: plimsoll_model::Role::Testers,
            same_clock: true,
        }],
    };
    let metadata = std::collections::HashMap::new();
    let mut columns = Columns::new(&names(), codes.clone(), metadata, recorder::BATCH_ROWS);
    let mut writer = SegmentWriter::transactions(&segments, origin, ROTATE_BYTES);
    let mut mix = Mix::new(1, 0, &codes);
    let mut pool: Vec<Transaction> = Vec::with_capacity(POOL);
    let (mut remaining, mut writing) = (*rows, [0.0, 0.0]);
    while remaining > 0 {
        pool.clear();
        pool.extend(mix.by_ref().take(POOL.min(remaining)));
        remaining -= pool.len();
        let mark = Mark::now();
        for batch in pool.chunks(BATCH) {
            if columns.len() + batch.len() > recorder::BATCH_ROWS {
                writer.write(&columns.take()?)?;
            }
            columns.extend(batch);
        }
        writer.write(&columns.take()?)?;
        add(&mut writing, mark.since());
    }
    let mark = Mark::now();
    writer.finish().1?;
    add(&mut writing, mark.since());
    let mark = Mark::now();
    let merged = convert(directory, &start)?;
    let converting = mark.since();
    let table = merged.tables.first().context("nothing was converted")?;
    let segment_bytes: u64 = merged.segments.iter().map(|segment| segment.bytes).sum();
    crate::say(&serde_json::json!({
        "rows": table.rows,
        "to_segments_per_s": *rows as f64 / writing[0],
        "to_segments_per_core_s": *rows as f64 / writing[1],
        "segment_bytes_per_row": segment_bytes as f64 / table.rows as f64,
        "to_parquet_per_s": table.rows as f64 / converting[0],
        "to_parquet_per_core_s": table.rows as f64 / converting[1],
        "parquet_bytes_per_row": table.bytes as f64 / table.rows as f64,
    }))
}

fn add(sum: &mut [f64; 2], more: [f64; 2]) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}
