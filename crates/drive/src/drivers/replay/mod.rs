//! `replay`: does to a directory what a trace of file I/O tells. One job, the whole trace, is one
//! transaction.
//!
//! Stamps: start before the replay, end after its last thread; nothing between is told apart. Both
//! hold some milliseconds in which the job's threads are made ready: the metric `job_s` is exact.
//! Payload: bytes read and written. Items: calls performed. Wire bytes: 0. Before the run begins,
//! and between two jobs of a tester, its directory is prepared: that time is in no transaction and
//! no lateness.
//!
//! Outcomes: ok where every result was that of the trace. Else wrong, and the code names the most
//! frequent difference: `open: ENOENT, was ok`, `mkdir refused`, `lost`, `let go`. Error: `too many
//! threads`, `no memory`, `no threads`. `timeout`: the job was stopped.
//!
//! Metrics: see [`told`].

mod place;
mod told;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use plimsoll_model::Outcome;
use plimsoll_replay::check::{Beneath, Fill};
use plimsoll_replay::job::Trace;
use plimsoll_replay::names::{Copies, Copy, Rules, Table};
use plimsoll_replay::plan::{Options, Ordering as Order, Plan};
use plimsoll_replay::result::Replayed;
use plimsoll_replay::root::Root;
use plimsoll_replay::run::{self, RunError};
use plimsoll_replay::timing::Timing;
use serde::Deserialize;

use crate::api::DriverInfo;
use crate::driver::{Attempt, BlockingDriver, BlockingTester, Due, Limit, Request, Setup};
use place::{JobDirectory, Places};
use told::Names;

/// See [`DriverInfo`].
pub(crate) const INFO: DriverInfo = DriverInfo {
    file_keys: &["trace"],
    blocking: true,
    prepares_files: true,
    ..DriverInfo::new(
        "replay",
        "replays a trace of file I/O in a directory, one job per transaction",
    )
};

/// How often it is looked whether a job must end.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Pace {
    Afap,
    Exact,
    Diff,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Sequence {
    Resource,
    Trace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Prepare {
    Data,
    Sparse,
    None,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "keys of an experiment file")]
struct Settings {
    trace: PathBuf,
    root: PathBuf,
    timing: Pace,
    /// What computing is multiplied by in `diff`.
    scale: f64,
    order: Sequence,
    /// Texts of files for names, not their names.
    map: Option<String>,
    ignore: Option<String>,
    copies: Copies,
    prepare: Prepare,
    /// 0..=1: how much a compressor saves.
    compressibility: f64,
    clean: bool,
    read_maps: bool,
    allow_root: bool,
    per_call: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// The driver: the trace, in memory once for all testers.
pub struct Replay {
    settings: Settings,
    trace: Trace,
    table: Table,
    may_write_shared: bool,
    places: Places,
    /// Of every job; none where jobs share files, as each then has names of its own.
    plan: Option<Arc<Plan>>,
    /// What all jobs share, once it is prepared: something to tell, or why it could not be.
    shared: OnceLock<Result<Option<String>, String>>,
    made: Mutex<Vec<JobDirectory>>,
    seed: u64,
    names: Names,
}

impl BlockingDriver for Replay {
    type Tester = Tester;

    fn prepare(setup: &Setup<'_>) -> Result<Self, String> {
        let settings: Settings = setup.settings()?;
        for operation in 0..setup.requests.len() {
            let Nothing {} = setup.request(operation)?;
        }
        if !settings.allow_root && nix::unistd::geteuid().is_root() {
            return Err(
                "permissions do not keep root from anything below the directory: run as another user, or give `allow_root: true`"
                    .to_owned(),
            );
        }
        let file = settings.trace.display();
        let trace = Trace::read(&settings.trace).map_err(|error| format!("trace: {file}: {error}"))?;
        let rules = rules(&settings)?;
        let table = trace.place(&rules);
        let shares = !settings.copies.shared.is_empty();
        let places = Places::new(&settings.root, shares)?;
        let plan = plan(&trace, &table, &settings, b"", b"")?;
        if plan.workers.iter().all(|worker| worker.actions.is_empty()) {
            return Err(format!(
                "trace: {file}: nothing of its {} calls is left to replay: {} are on names that are ignored",
                plan.calls, plan.ignored
            ));
        }
        Ok(Self {
            names: Names::new(setup.codes),
            may_write_shared: rules.may_write_shared(),
            plan: (!shares).then(|| Arc::new(plan)),
            shared: OnceLock::new(),
            made: Mutex::default(),
            seed: setup.seed,
            settings,
            trace,
            table,
            places,
        })
    }

    fn tester(self: &Arc<Self>, number: u32) -> Result<Tester, String> {
        let mut notes = self.share()?;
        let own = self.places.make(&self.places.of(number))?;
        let directory = own.path.clone();
        self.keep(own);
        let beneath = place::open(&directory)?;
        notes.extend(self.make_ready(&beneath, &directory, Copy::Private, self.seed_of(number))?);
        let (root, plan) = if let Some(plan) = &self.plan {
            (directory.as_path(), Arc::clone(plan))
        } else {
            let own = self.places.of(number);
            let (own, shared) = (own.as_bytes(), place::SHARED.as_bytes());
            let plan = plan(&self.trace, &self.table, &self.settings, own, shared)?;
            (self.places.above(), Arc::new(plan))
        };
        if self.trace.is_cut {
            notes.push(
                "the trace has no end: its recording was broken off, and what is there is replayed".into(),
            );
        }
        Ok(Tester {
            root: Root::open(root).map_err(|error| error.to_string())?,
            driver: Arc::clone(self),
            number,
            beneath,
            directory,
            plan,
            note: (!notes.is_empty()).then(|| notes.join("; ")),
        })
    }

    fn tidy(&self) -> Vec<String> {
        if !self.settings.clean {
            return Vec::new();
        }
        let made = std::mem::take(&mut *self.made.lock().unwrap_or_else(PoisonError::into_inner));
        // Where nothing was prepared here, what was prepared before is whose it was.
        let prepares = self.settings.prepare != Prepare::None;
        let left = made
            .iter()
            .filter(|_| prepares)
            .filter_map(place::clean)
            .collect();
        self.places.leave(&made);
        left
    }
}

fn rules(settings: &Settings) -> Result<Rules, String> {
    let mut rules = Rules::new();
    if let Some(text) = &settings.map {
        rules.read_map(text).map_err(|error| format!("map: {error}"))?;
    }
    if let Some(text) = &settings.ignore {
        rules
            .read_ignore(text)
            .map_err(|error| format!("ignore: {error}"))?;
    }
    rules
        .set_copies(&settings.copies)
        .map_err(|error| format!("copies: {error}"))?;
    Ok(rules)
}

/// `private`, `shared`: directories beneath the root; empty for the root itself.
fn plan(
    trace: &Trace,
    table: &Table,
    settings: &Settings,
    private: &[u8],
    shared: &[u8],
) -> Result<Plan, String> {
    let options = Options {
        order: match settings.order {
            Sequence::Resource => Order::Resource,
            Sequence::Trace => Order::Trace,
        },
        read_maps: settings.read_maps,
    };
    let plan = trace.plan(table, private, shared, options);
    plan.map_err(|error| format!("trace: {}: {error}", settings.trace.display()))
}

impl Replay {
    /// Makes what all jobs share, once; every tester waits for it.
    fn share(&self) -> Result<Vec<String>, String> {
        if self.plan.is_some() {
            return Ok(Vec::new());
        }
        let mut is_first = false;
        let shared = self.shared.get_or_init(|| {
            is_first = true;
            let made = self.places.make(place::SHARED)?;
            let directory = made.path.clone();
            self.keep(made);
            let beneath = place::open(&directory)?;
            self.make_ready(&beneath, &directory, Copy::Shared, self.seed)
        });
        let note = shared.clone()?;
        Ok(note.filter(|_| is_first).into_iter().collect())
    }

    fn keep(&self, made: JobDirectory) {
        let mut all = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(made);
    }

    /// What files of a tester are filled with: two testers' are not to be one for what removes
    /// duplicates.
    fn seed_of(&self, number: u32) -> u64 {
        self.seed.wrapping_add(1 + u64::from(number))
    }

    fn fill(&self, seed: u64) -> Option<Fill> {
        match self.settings.prepare {
            Prepare::None => None,
            Prepare::Sparse => Some(Fill::Sparse),
            Prepare::Data => Some(Fill::Data {
                compressibility: (100.0 * self.settings.compressibility).round() as u8,
                seed,
            }),
        }
    }
}

/// A tester: one job after the other, in a directory of its own.
pub struct Tester {
    driver: Arc<Replay>,
    number: u32,
    /// Its directory, to be prepared.
    beneath: Beneath,
    directory: PathBuf,
    /// What its job may reach: its directory, or, where jobs share files, the one above.
    root: Root,
    plan: Arc<Plan>,
    /// Of its preparation, for its next transaction.
    note: Option<String>,
}

impl BlockingTester for Tester {
    fn renew(&mut self, attempt: &mut Attempt) -> Result<(), String> {
        let driver = &self.driver;
        let seed = driver.seed_of(self.number);
        self.note = driver.make_ready(&self.beneath, &self.directory, Copy::Private, seed)?;
        attempt.freed();
        Ok(())
    }

    fn operate(&mut self, _: &Request<'_>, attempt: &mut Attempt, limit: &Limit<'_>) {
        let driver = Arc::clone(&self.driver);
        let done = watched(*limit, |stop| {
            attempt.begin();
            let done = self.job(stop);
            attempt.end = attempt.now();
            done
        });
        match done {
            Ok(replayed) if replayed.stopped => match limit.due() {
                Some(Due::Timeout) => {
                    let code = attempt.code_of("timeout");
                    attempt.conclude(Outcome::Timeout, code);
                }
                _ => limit.finish(attempt, Due::Cancelled),
            },
            Ok(replayed) => driver.names.tell(&replayed, driver.settings.per_call, attempt),
            Err(error) => {
                let code = attempt.code_of(&code(&error));
                attempt.conclude(Outcome::Error, code);
                attempt.note = Some(format!("a job could not be replayed: {error}"));
            }
        }
        if let Some(note) = self.note.take() {
            attempt.note = Some(match attempt.note.take() {
                Some(later) => format!("{note}; {later}"),
                None => note,
            });
        }
    }
}

impl Tester {
    fn job(&self, stop: &AtomicBool) -> Result<Replayed, RunError> {
        let (asked, trace) = (&self.driver.settings, &self.driver.trace);
        let settings = run::Settings {
            timing: match asked.timing {
                Pace::Afap => Timing::Afap,
                Pace::Exact => Timing::Exact,
                Pace::Diff => Timing::Diff { scale: asked.scale },
            },
            compressible: asked.compressibility,
            seed: self.driver.seed_of(self.number),
            allow_root: asked.allow_root,
            ..run::Settings::default()
        };
        run::run(
            &self.plan,
            &self.root,
            &trace.names,
            &trace.header,
            &settings,
            stop,
        )
    }
}

/// Does `work` with a flag that becomes true when it must end.
fn watched<T>(
    limit: Limit<'_>,
    work: impl FnOnce(&AtomicBool) -> Result<T, RunError>,
) -> Result<T, RunError> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (done, is_done) = mpsc::channel::<()>();
        let stop = &stop;
        let watch = move || {
            while is_done.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Timeout) {
                if limit.due().is_some() {
                    stop.store(true, Ordering::Relaxed);
                    return;
                }
            }
        };
        let watching = std::thread::Builder::new().name("replay-watch".into());
        if let Err(why) = watching.spawn_scoped(scope, watch) {
            return Err(RunError::Scarce { what: "threads", why });
        }
        let result = work(stop);
        drop(done);
        result
    })
}

fn code(error: &RunError) -> String {
    match error {
        RunError::IsRoot => "root".to_owned(),
        RunError::Threads { .. } => "too many threads".to_owned(),
        RunError::Scarce { what, .. } => format!("no {what}"),
    }
}
