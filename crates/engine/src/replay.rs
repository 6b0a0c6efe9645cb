//! `replay`: replays a trace in a directory. The lab reads the result as one JSON object on stdout.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use plimsoll_replay::check::{self, Beneath, Fill, PrepareOptions};
use plimsoll_replay::job::Trace;
use plimsoll_replay::names::Rules;
use plimsoll_replay::plan::{self, Options};
use plimsoll_replay::root::Root;
use plimsoll_replay::run::{Settings, run as carry_out};
use plimsoll_replay::timing::Timing;
use serde_json::{Map, Value, json};

#[derive(Clone, Copy, ValueEnum)]
enum Pace {
    /// As fast as possible
    Afap,
    /// Each call as close as possible to its recorded start
    Exact,
    /// Recorded think times; each call takes as long as it takes here
    Diff,
}

#[derive(Clone, Copy, ValueEnum)]
enum Order {
    /// As required by shared files and names
    Resource,
    /// Strictly as recorded
    Trace,
}

#[derive(Args)]
#[allow(clippy::struct_excessive_bools, reason = "options of a command")]
pub(crate) struct Replay {
    /// The trace file
    trace: PathBuf,
    /// Directory of the replay; all files are below it
    #[arg(long)]
    root: PathBuf,
    #[arg(long, value_enum, default_value_t = Pace::Diff)]
    timing: Pace,
    /// Factor for the computation between calls with `--timing diff`
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    #[arg(long, value_enum, default_value_t = Order::Resource)]
    order: Order,
    /// File with rules for names
    #[arg(long)]
    map: Option<PathBuf>,
    /// File with names that are not replayed
    #[arg(long)]
    ignore: Option<PathBuf>,
    /// Report what the root lacks; replay nothing unless --run
    #[arg(long)]
    check: bool,
    /// Create what the root lacks; replay nothing unless --run
    #[arg(long)]
    prepare: bool,
    /// Remove the prepared files and those that the replay has created
    #[arg(long)]
    clean: bool,
    /// Replay also with --check, --prepare or --clean: after the first two, before the third
    #[arg(long)]
    run: bool,
    /// Let --prepare remove files that must not exist
    #[arg(long)]
    force: bool,
    /// Create sparse files with --prepare; otherwise they contain data
    #[arg(long)]
    sparse: bool,
    /// Compressible share of the data that is written and prepared, 0 to 100
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT")]
    compressible: f64,
    /// Read the ranges that were mapped
    #[arg(long)]
    read_maps: bool,
    /// Allow the replay as root
    #[arg(long)]
    allow_root: bool,
    /// Maximum time that a call waits for others if no call can continue
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS")]
    patience: f64,
}

pub(crate) fn run(replay: &Replay) -> anyhow::Result<ExitCode> {
    if !(0.0..=100.0).contains(&replay.compressible) {
        bail!(
            "--compressible: expected a share from 0 to 100, got \"{}\"",
            replay.compressible
        );
    }
    if !(replay.scale >= 0.0 && replay.scale.is_finite()) {
        bail!(
            "--scale: expected a number of at least 0, got \"{}\"",
            replay.scale
        );
    }
    let trace = Trace::read(&replay.trace).with_context(|| format!("reading {}", replay.trace.display()))?;
    let rules = rules(replay)?;
    let table = trace.place(&rules);
    let root =
        || Beneath::open(&replay.root).with_context(|| format!("opening the root {}", replay.root.display()));
    let mut output = Map::new();
    output.insert("is_cut".into(), trace.is_cut.into());
    output.insert("ignored".into(), json!(table.ignored()));
    if replay.check || replay.prepare {
        let root = root()?;
        if replay.prepare {
            check::reset(&root)?;
        }
        let report = trace.check(&table, &root, check::Options::default())?;
        output.insert("check".into(), report_json(&report)?);
        if replay.prepare {
            let options = PrepareOptions {
                fill: fill(replay),
                force: replay.force,
            };
            let result = check::prepare(&root, &report, options)?;
            let left = serde_json::to_value(&result.left)?;
            output.insert(
                "prepared".into(),
                json!({
                    "made": result.made,
                    "grown": result.grown,
                    "removed": result.removed,
                    "bytes": result.bytes,
                    "left": left,
                }),
            );
        }
    }
    if replay.run || !(replay.check || replay.prepare || replay.clean) {
        output.insert("replayed".into(), replayed(replay, &trace, &table)?);
    }
    if replay.clean {
        output.insert("cleaned".into(), serde_json::to_value(check::clean(&root()?)?)?);
    }
    writeln!(std::io::stdout(), "{}", Value::Object(output))?;
    Ok(ExitCode::SUCCESS)
}

fn replayed(replay: &Replay, trace: &Trace, table: &plimsoll_replay::names::Table) -> anyhow::Result<Value> {
    let order = match replay.order {
        Order::Resource => plan::Ordering::Resource,
        Order::Trace => plan::Ordering::Trace,
    };
    let options = Options {
        order,
        read_maps: replay.read_maps,
    };
    let plan = trace.plan(table, b"", b"", options)?;
    let settings = Settings {
        timing: match replay.timing {
            Pace::Afap => Timing::Afap,
            Pace::Exact => Timing::Exact,
            Pace::Diff => Timing::Diff { scale: replay.scale },
        },
        compressible: replay.compressible / 100.0,
        patience: Duration::try_from_secs_f64(replay.patience).context("--patience")?,
        allow_root: replay.allow_root,
        ..Settings::default()
    };
    let root =
        Root::open(&replay.root).with_context(|| format!("opening the root {}", replay.root.display()))?;
    let stop = Arc::new(AtomicBool::new(false));
    let stop_requested = stop.clone();
    let signals = crate::signals::listen().context("cannot listen to signals")?;
    std::thread::spawn(move || {
        while signals.recv().is_ok() {
            stop_requested.store(true, Ordering::Relaxed);
        }
    });
    let replayed = carry_out(&plan, &root, &trace.names, &trace.header, &settings, &stop)?;
    let mut value = serde_json::to_value(&replayed)?;
    value["is_faithful"] = replayed.is_faithful().into();
    Ok(value)
}

fn fill(replay: &Replay) -> Fill {
    if replay.sparse {
        return Fill::Sparse;
    }
    Fill::Data {
        compressibility: replay.compressible.round() as u8,
        seed: 1,
    }
}

/// The report with the causes only; each has the number of its consequences.
fn report_json(report: &check::Report) -> anyhow::Result<Value> {
    let mut causes = Vec::new();
    for (finding, consequences, bytes) in report.causes() {
        let mut value = serde_json::to_value(finding)?;
        value["consequences"] = consequences.into();
        value["bytes"] = bytes.into();
        causes.push(value);
    }
    Ok(json!({
        "causes": causes,
        "findings": report.findings.len(),
        "creates": report.creates.len(),
        "unexplained": report.unexplained,
        "examples": report.examples,
        "events": report.events,
    }))
}

fn rules(replay: &Replay) -> anyhow::Result<Rules> {
    let mut rules = Rules::new();
    let text =
        |path: &Path| std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()));
    if let Some(path) = &replay.map {
        rules
            .read_map(&text(path)?)
            .with_context(|| path.display().to_string())?;
    }
    if let Some(path) = &replay.ignore {
        rules
            .read_ignore(&text(path)?)
            .with_context(|| path.display().to_string())?;
    }
    Ok(rules)
}
