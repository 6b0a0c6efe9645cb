//! `replay`: a trace against a directory. What the lab reads is one JSON object on stdout.

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
    /// Every call as close as possible to its recorded start
    Exact,
    /// Think times are kept, calls take as long as they take here
    Diff,
}

#[derive(Clone, Copy, ValueEnum)]
enum Order {
    /// As shared files and names ask for
    Resource,
    /// Strictly as recorded
    Trace,
}

#[derive(Args)]
#[allow(clippy::struct_excessive_bools, reason = "options of a command")]
pub(crate) struct Replay {
    /// The trace file
    trace: PathBuf,
    /// Everything happens beneath this directory
    #[arg(long)]
    root: PathBuf,
    #[arg(long, value_enum, default_value_t = Pace::Diff)]
    timing: Pace,
    /// What computing is multiplied by in `diff`
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    #[arg(long, value_enum, default_value_t = Order::Resource)]
    order: Order,
    /// Rules for names
    #[arg(long)]
    map: Option<PathBuf>,
    /// Names that are left out
    #[arg(long)]
    ignore: Option<PathBuf>,
    /// Tell what the root lacks, and replay nothing
    #[arg(long)]
    check: bool,
    /// Make what the root lacks; replay nothing unless --run
    #[arg(long)]
    prepare: bool,
    /// Remove what was prepared and what the replay has made
    #[arg(long)]
    clean: bool,
    /// Replay also where --check, --prepare or --clean is given: after the first two, before the
    /// third
    #[arg(long)]
    run: bool,
    /// Preparing removes what must not be there
    #[arg(long)]
    force: bool,
    /// Files that are prepared are sparse; else they hold data
    #[arg(long)]
    sparse: bool,
    /// Share of what is written and prepared that compresses to nothing, 0..100
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT")]
    compressible: f64,
    /// Ranges that were mapped are read
    #[arg(long)]
    read_maps: bool,
    /// It may run as root
    #[arg(long)]
    allow_root: bool,
    /// How long a call may wait for others when nobody can go on, in seconds
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS")]
    patience: f64,
}

pub(crate) fn run(replay: &Replay) -> anyhow::Result<ExitCode> {
    if !(0.0..=100.0).contains(&replay.compressible) {
        bail!(
            "--compressible {}: a share between 0 and 100 is expected",
            replay.compressible
        );
    }
    if !(replay.scale >= 0.0 && replay.scale.is_finite()) {
        bail!("--scale {}: a number from 0 on is expected", replay.scale);
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
            let prepared = check::prepare(&root, &report, options)?;
            let left = serde_json::to_value(&prepared.left)?;
            output.insert(
                "prepared".into(),
                json!({
                    "made": prepared.made,
                    "grown": prepared.grown,
                    "removed": prepared.removed,
                    "bytes": prepared.bytes,
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

/// Causes only: what follows from them counts to them.
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
