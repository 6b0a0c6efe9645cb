//! `replay`: replays a trace of file I/O in a directory. One job, the whole trace, is one
//! transaction.
//!
//! Stamps: start before the replay, end after its last thread. The time between them includes some
//! milliseconds in which the threads of the job are created; the metric `job_s` does not include
//! them. Payload: bytes read and written. Items: calls performed. Wire bytes: 0. Before the run
//! begins, and between two jobs of a tester, its directory is prepared. That time is not part of a
//! transaction, and does not make the next one late.
//!
//! Outcomes: ok if every result was that of the trace. Otherwise wrong, and the code is the most
//! frequent difference: `open: ENOENT, was ok`, `mkdir refused`, `lost`, `let go`. Error: `too many
//! threads`, `no memory`, `no threads`. `timeout`: the job was stopped.
//!
//! The metrics are listed in [`metrics`].

mod directories;
mod error;
mod metrics;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use plimsoll_model::Outcome;
use plimsoll_replay::check::{Beneath, Fill};
use plimsoll_replay::job::Trace;
use plimsoll_replay::names::{Copies, Copy, Rules, Table};
use plimsoll_replay::plan::{Options, Ordering as Order, Plan};
use plimsoll_replay::result::ReplayResult;
use plimsoll_replay::root::Root;
use plimsoll_replay::run::{self, RunError};
use plimsoll_replay::timing::Timing;
use serde::Deserialize;

use crate::api::DriverInfo;
use crate::driver::{Attempt, BlockingDriver, BlockingTester, Due, Limit, Request, Setup};
use crate::setup_error::SetupError;
use directories::{JobDirectories, JobDirectory};
use metrics::Names;

pub use error::ReplayError;

/// Description of the driver.
pub(crate) const INFO: DriverInfo = DriverInfo {
    file_keys: &["trace"],
    blocking: true,
    prepares_files: true,
    ..DriverInfo::new(
        "replay",
        "replays a trace of file I/O in a directory, one job per transaction",
    )
};

/// Interval at which is checked whether a job must end.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

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
    /// With the timing `diff`: factor for the times between calls.
    scale: f64,
    order: Sequence,
    /// Content of the file of `map`, not its path. The same applies to `ignore`.
    map: Option<String>,
    ignore: Option<String>,
    copies: Copies,
    prepare: Prepare,
    /// Fraction that a compressor saves, 0 to 1.
    compressibility: f64,
    clean: bool,
    read_maps: bool,
    allow_root: bool,
    per_call: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoSettings {}

/// The driver. All testers share the trace in memory.
pub struct Replay {
    settings: Settings,
    trace: Trace,
    table: Table,
    may_write_shared: bool,
    directories: JobDirectories,
    /// The plan of every job; none if jobs share files, because each then has different names.
    plan: Option<Arc<Plan>>,
    /// Result of the preparation of the files that all jobs share: a message for the user, or the
    /// error.
    shared: OnceLock<Result<Option<String>, Arc<ReplayError>>>,
    /// Directories of testers and of shared files.
    created: Mutex<Vec<JobDirectory>>,
    seed: u64,
    names: Names,
}

impl BlockingDriver for Replay {
    type Tester = Tester;

    fn prepare(setup: &Setup<'_>) -> Result<Self, SetupError> {
        let settings: Settings = setup.settings()?;
        for operation in 0..setup.requests.len() {
            let NoSettings {} = setup.request(operation)?;
        }
        if !settings.allow_root && nix::unistd::geteuid().is_root() {
            return Err(ReplayError::IsRoot.into());
        }
        let trace = Trace::read(&settings.trace).map_err(|source| ReplayError::Trace {
            file: settings.trace.clone(),
            source,
        })?;
        let rules = rules(&settings)?;
        let table = trace.place(&rules);
        let shares = !settings.copies.shared.is_empty();
        let directories = JobDirectories::new(&settings.root, shares)?;
        let plan = plan(&trace, &table, &settings, b"", b"")?;
        if plan.workers.iter().all(|worker| worker.actions.is_empty()) {
            return Err(ReplayError::NoCalls {
                file: settings.trace,
                ignored: plan.ignored,
                calls: plan.calls,
            }
            .into());
        }
        Ok(Self {
            names: Names::new(setup.codes),
            may_write_shared: rules.may_write_shared(),
            plan: (!shares).then(|| Arc::new(plan)),
            shared: OnceLock::new(),
            created: Mutex::default(),
            seed: setup.seed,
            settings,
            trace,
            table,
            directories,
        })
    }

    fn tester(self: &Arc<Self>, number: u32) -> Result<Tester, SetupError> {
        let mut notes = self.prepare_shared()?;
        let own = self.directories.create(&self.directories.name(number))?;
        let directory = own.path.clone();
        self.add_created(own);
        let beneath = directories::open(&directory)?;
        notes.extend(self.prepare_directory(&beneath, &directory, Copy::Private, self.seed_of(number))?);
        let (root, plan) = if let Some(plan) = &self.plan {
            (directory.as_path(), Arc::clone(plan))
        } else {
            let own = self.directories.name(number);
            let (own, shared) = (own.as_bytes(), directories::SHARED.as_bytes());
            let plan = plan(&self.trace, &self.table, &self.settings, own, shared)?;
            (self.directories.parent(), Arc::new(plan))
        };
        if self.trace.is_cut {
            notes.push(
                "the trace is incomplete, because its recording was interrupted: the calls in it are replayed"
                    .into(),
            );
        }
        Ok(Tester {
            root: Root::open(root).map_err(ReplayError::from)?,
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
        let created = std::mem::take(&mut *self.created.lock().unwrap_or_else(PoisonError::into_inner));
        // With `prepare: none`, the files were prepared by the user and are not removed.
        let prepares = self.settings.prepare != Prepare::None;
        let messages = created
            .iter()
            .filter(|_| prepares)
            .filter_map(directories::clean)
            .collect();
        self.directories.remove_empty(&created);
        messages
    }
}

fn rules(settings: &Settings) -> Result<Rules, ReplayError> {
    let invalid = |key| move |source| ReplayError::Rule { key, source };
    let mut rules = Rules::new();
    if let Some(text) = &settings.map {
        rules.read_map(text).map_err(invalid("map"))?;
    }
    if let Some(text) = &settings.ignore {
        rules.read_ignore(text).map_err(invalid("ignore"))?;
    }
    rules.set_copies(&settings.copies).map_err(invalid("copies"))?;
    Ok(rules)
}

/// Plans a job. `private`, `shared`: directories below the root; empty for the root itself.
fn plan(
    trace: &Trace,
    table: &Table,
    settings: &Settings,
    private: &[u8],
    shared: &[u8],
) -> Result<Plan, ReplayError> {
    let options = Options {
        order: match settings.order {
            Sequence::Resource => Order::Resource,
            Sequence::Trace => Order::Trace,
        },
        read_maps: settings.read_maps,
    };
    let plan = trace.plan(table, private, shared, options);
    plan.map_err(|source| ReplayError::Plan {
        file: settings.trace.clone(),
        source,
    })
}

impl Replay {
    /// Prepares the files that all jobs share, once; every tester waits for it. Returns messages
    /// for the user to the first caller.
    fn prepare_shared(&self) -> Result<Vec<String>, ReplayError> {
        if self.plan.is_some() {
            return Ok(Vec::new());
        }
        let mut is_first = false;
        let shared = self.shared.get_or_init(|| {
            is_first = true;
            self.prepare_shared_directory().map_err(Arc::new)
        });
        let note = shared.clone()?;
        Ok(note.filter(|_| is_first).into_iter().collect())
    }

    fn prepare_shared_directory(&self) -> Result<Option<String>, ReplayError> {
        let created = self.directories.create(directories::SHARED)?;
        let directory = created.path.clone();
        self.add_created(created);
        let beneath = directories::open(&directory)?;
        self.prepare_directory(&beneath, &directory, Copy::Shared, self.seed)
    }

    fn add_created(&self, directory: JobDirectory) {
        let mut created = self.created.lock().unwrap_or_else(PoisonError::into_inner);
        created.push(directory);
    }

    /// Seed for the contents of the files of a tester. It differs between testers, so that a file
    /// system that removes duplicates stores the files of each.
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

/// A tester: it replays one job after the other in its own directory.
pub struct Tester {
    driver: Arc<Replay>,
    number: u32,
    /// Its directory, for the preparation.
    beneath: Beneath,
    directory: PathBuf,
    /// Root of its job: its directory, or the directory above if jobs share files.
    root: Root,
    plan: Arc<Plan>,
    /// Message of the preparation, for the note of its next transaction.
    note: Option<String>,
}

impl BlockingTester for Tester {
    fn renew(&mut self, attempt: &mut Attempt) -> Result<(), SetupError> {
        let driver = &self.driver;
        let seed = driver.seed_of(self.number);
        self.note = driver.prepare_directory(&self.beneath, &self.directory, Copy::Private, seed)?;
        attempt.freed();
        Ok(())
    }

    fn operate(&mut self, _: &Request<'_>, attempt: &mut Attempt, limit: &Limit<'_>) {
        let driver = Arc::clone(&self.driver);
        let result = with_limit(*limit, |stop| {
            attempt.begin();
            let result = self.run_job(stop);
            attempt.end = attempt.now();
            result
        });
        match result {
            Ok(replayed) if replayed.stopped => match limit.due() {
                Some(Due::Timeout) => {
                    let code = attempt.code_of("timeout");
                    attempt.conclude(Outcome::Timeout, code);
                }
                _ => limit.finish(attempt, Due::Cancelled),
            },
            Ok(replayed) => driver.names.report(&replayed, driver.settings.per_call, attempt),
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
    fn run_job(&self, stop: &AtomicBool) -> Result<ReplayResult, RunError> {
        let (config, trace) = (&self.driver.settings, &self.driver.trace);
        let settings = run::Settings {
            timing: match config.timing {
                Pace::Afap => Timing::Afap,
                Pace::Exact => Timing::Exact,
                Pace::Diff => Timing::Diff { scale: config.scale },
            },
            compressible: config.compressibility,
            seed: self.driver.seed_of(self.number),
            allow_root: config.allow_root,
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

/// Calls `work` with a flag that another thread sets when the transaction must end.
fn with_limit<T>(
    limit: Limit<'_>,
    work: impl FnOnce(&AtomicBool) -> Result<T, RunError>,
) -> Result<T, RunError> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (done, is_done) = mpsc::channel::<()>();
        let stop = &stop;
        let watch = move || {
            while is_done.recv_timeout(CHECK_INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout) {
                if limit.due().is_some() {
                    stop.store(true, Ordering::Relaxed);
                    return;
                }
            }
        };
        let builder = std::thread::Builder::new().name("replay-watch".into());
        if let Err(why) = builder.spawn_scoped(scope, watch) {
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
