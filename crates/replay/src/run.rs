//! Carrying out a plan: one thread a worker, begun when its parent forks.

mod crew;
mod gate;
mod worker;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plimsoll_trace::cost::Cost;
use plimsoll_trace::header::Header;
use plimsoll_trace::names::Names;

use crate::perform::Common;
use crate::perform::room::Room;
use crate::plan::Plan;
use crate::result::{FORMAT, Replayed, recorded, seconds};
use crate::root::Root;
use crate::timing::Timing;
use crew::RunContext;

/// How a plan is carried out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// How fast.
    pub timing: Timing,
    /// Share of what is written that compresses to nothing: 0..=1.
    pub compressible: f64,
    /// Of the rest.
    pub seed: u64,
    /// How long nobody may be able to go on before who waits is let go.
    pub patience: Duration,
    /// Most threads at one time.
    pub most_threads: usize,
    /// It may run as root, whom permissions do not keep from anything beneath the root directory.
    pub allow_root: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timing: Timing::Afap,
            compressible: 0.0,
            seed: 1,
            patience: Duration::from_secs(10),
            most_threads: 4096,
            allow_root: false,
        }
    }
}

/// Why a plan is not carried out.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// We are root, and nobody said that this is meant.
    #[error(
        "a replay as root can change every file below the root directory: run it as another user, or with --allow-root"
    )]
    IsRoot,
    /// The trace has too many threads.
    #[error(
        "the trace has {needed} threads at one time, and {most} are allowed: allow more, or replay a part of it"
    )]
    Threads {
        /// At one time.
        needed: usize,
        /// Allowed.
        most: usize,
    },
    /// The kernel gives no memory, or no thread.
    #[error("a replay needs {what}, and the kernel says: {why}")]
    Scarce {
        /// Of what.
        what: &'static str,
        /// What it says.
        why: std::io::Error,
    },
}

/// Carries a plan out beneath `root`. `names` are the trace's; `header` tells what tracing cost.
/// Ends within a second when `stop` becomes true, except in a call that the kernel does not end.
/// Files that are open then are closed. Raises the limit of open files of this process to what it
/// may be.
///
/// # Errors
/// See [`RunError`]. Calls that fail are no errors, but told in the result.
pub fn run(
    plan: &Plan,
    root: &Root,
    names: &Names,
    header: &Header,
    settings: &Settings,
    stop: &AtomicBool,
) -> Result<Replayed, RunError> {
    if nix::unistd::geteuid().is_root() && !settings.allow_root {
        return Err(RunError::IsRoot);
    }
    let needed = plan.most_at_once();
    if needed > settings.most_threads {
        return Err(RunError::Threads {
            needed,
            most: settings.most_threads,
        });
    }
    allow_open_files();
    let longest = plan.workers.iter().map(|worker| worker.longest_write).max();
    let content = Room::filled(longest.unwrap_or(0), settings.compressible, settings.seed);
    let content = content.map_err(|why| scarce("memory", why.into()))?;
    root.forget();
    let common = Common::new(root, plan, content);
    common.open_before();
    let cost = Cost::of(header.calibration.as_ref());
    let (tally, wall_ns, was_stopped) = RunContext::new(&common, &cost, settings, stop).work()?;
    let before = recorded(plan, &cost);
    let (read_bytes, write_bytes) = tally.bytes();
    Ok(Replayed {
        format: FORMAT.to_owned(),
        timing: settings.timing,
        wall_s: seconds(wall_ns),
        recorded_s: before.recorded_s,
        untraced_s: before.untraced_s,
        planned_s: before.planned_s,
        stopped: was_stopped,
        threads: tally.workers,
        calls: plan.calls,
        performed: tally.performed(),
        ignored: plan.ignored,
        lost: tally.lost,
        read_bytes,
        write_bytes,
        by_call: tally.by_call(),
        lateness: tally.lateness(),
        tracing: before.tracing,
        waits: tally.waits(plan, names),
        mismatches: tally.mismatches(plan, names),
        refusals: tally.refusals(names),
    })
}

fn scarce(what: &'static str, why: std::io::Error) -> RunError {
    RunError::Scarce { what, why }
}

/// All processes of a trace are one here, and have one table of descriptors.
fn allow_open_files() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure lives as long as the calls. Where they fail, opening fails later and
    // says so.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
