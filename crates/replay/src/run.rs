//! Carries out a plan: one thread per worker, which starts when its parent forks.

mod crew;
mod gate;
mod worker;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plimsoll_trace::cost::Cost;
use plimsoll_trace::header::Header;
use plimsoll_trace::names::Names;

use crate::perform::Common;
use crate::perform::buffer::Buffer;
use crate::plan::Plan;
use crate::result::{FORMAT, ReplayResult, recorded, seconds};
use crate::root::Root;
use crate::timing::Timing;
use crew::RunContext;

/// Settings of a replay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Timing of the actions.
    pub timing: Timing,
    /// Share of the written data that compresses to nothing: 0..=1.
    pub compressible: f64,
    /// Seed of the rest of the data.
    pub seed: u64,
    /// Time without progress of any worker after which a wait is abandoned.
    pub patience: Duration,
    /// Maximum number of threads at one time.
    pub most_threads: usize,
    /// Whether it may run as root, which permissions do not restrict beneath the root directory.
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

/// Reason why a plan was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The process runs as root, and the settings do not allow that.
    #[error(
        "a replay as root can change every file below the root directory: run it as another user, or \
         use --allow-root"
    )]
    IsRoot,
    /// The trace has too many threads.
    #[error(
        "the trace has {needed} threads at one time, but {most} are allowed: allow more threads, or \
         replay a part of the trace"
    )]
    Threads {
        /// Number of threads at one time.
        needed: usize,
        /// Maximum number of threads.
        most: usize,
    },
    /// The kernel did not allocate memory or start a thread.
    #[error(
        "the replay cannot allocate {what}: {why}. Close other programs, or raise the limits of this user"
    )]
    Scarce {
        /// The missing resource: "memory" or "threads".
        what: &'static str,
        /// Error of the kernel.
        why: std::io::Error,
    },
}

/// Carries out a plan beneath `root`. `names` are those of the trace; `header` contains the cost of
/// tracing. Ends within a second after `stop` becomes true, except during a call that does not
/// return. Open files are then closed. Raises the limit of open files of this process to the hard
/// limit.
///
/// # Errors
/// See [`RunError`]. Calls that fail are not errors: the result contains them.
pub fn run(
    plan: &Plan,
    root: &Root,
    names: &Names,
    header: &Header,
    settings: &Settings,
    stop: &AtomicBool,
) -> Result<ReplayResult, RunError> {
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
    let content = Buffer::filled(longest.unwrap_or(0), settings.compressible, settings.seed);
    let content = content.map_err(|why| scarce("memory", why.into()))?;
    root.forget();
    let common = Common::new(root, plan, content);
    common.open_before();
    let cost = Cost::of(header.calibration.as_ref());
    let (tally, wall_ns, was_stopped) = RunContext::new(&common, &cost, settings, stop).work()?;
    let before = recorded(plan, &cost);
    let (read_bytes, write_bytes) = tally.bytes();
    Ok(ReplayResult {
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

/// Raises the limit of open files: all processes of a trace are one process in the replay, with one
/// table of descriptors.
fn allow_open_files() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure lives as long as the calls. If they fail, opening files fails later
    // with an error.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
