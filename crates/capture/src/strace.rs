//! Runs strace with the options by which it writes all that a trace contains, and no contents of
//! files.

use std::ffi::{OsStr, OsString};
use std::process::{Child, Command, Stdio};

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::error::{CaptureError, system};

/// All calls on files, descriptors, paths, processes and sockets, and those in which a thread
/// waits. strace ignores unknown names with `?`.
const CALLS: &str = "trace=file,desc,process,network,?close_range,?sync,?io_submit,?io_getevents,?io_pgetevents,?io_uring_setup,\
?umask,?unshare,?munmap,?mremap,?msync,?futex,?futex_waitv,?nanosleep,?clock_nanosleep,?pause,?rt_sigsuspend,?rt_sigtimedwait,\
?memfd_create,?bpf,?userfaultfd,?perf_event_open,?fanotify_init,?landlock_create_ruleset";
/// Calls whose lists are written in full although strings are omitted: lengths of buffers, both
/// ends of a pipe.
const UNABBREVIATED: &str = "abbrev=!readv,writev,preadv,pwritev,preadv2,pwritev2,vmsplice,pipe,pipe2,socketpair,io_submit,recvmsg,recvmmsg";

/// The strace of this host.
#[derive(Debug, Clone)]
pub(crate) struct Strace {
    /// The version, such as `strace -- version 6.1`.
    pub(crate) version: String,
    /// Whether it supports `--seccomp-bpf`, with which calls that are not traced have no cost. It
    /// cannot be used when attaching.
    has_filter: bool,
    /// Whether it shares a core with the traced threads.
    one_core: bool,
}

impl Strace {
    /// Finds the strace of this host. With `one_core`, strace and the traced threads will share one
    /// core. They wake each other twice per call, which is fast and has a constant cost on one
    /// core, but not between two cores: one core may sleep.
    pub(crate) fn find(one_core: bool) -> Result<Self, CaptureError> {
        let output = Command::new("strace").arg("-V").stdin(Stdio::null()).output();
        let output = output.map_err(CaptureError::NoStrace)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.lines().next().unwrap_or_default().to_owned();
        let number = version.rsplit(' ').next().unwrap_or_default();
        let mut parts = number.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let number = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        if number < (4, 26) {
            return Err(CaptureError::OldStrace(version));
        }
        Ok(Self {
            version,
            has_filter: number >= (5, 3),
            one_core,
        })
    }

    /// The options, without the program and the log.
    pub(crate) fn options(&self, attaching: bool) -> Vec<OsString> {
        let mut options: Vec<OsString> = ["-f", "-ttt", "-T", "-y", "-q", "-s", "0", "-a", "1"]
            .map(OsString::from)
            .into();
        if self.has_filter && !attaching {
            options.push("--seccomp-bpf".into());
        }
        for expression in [CALLS, UNABBREVIATED] {
            options.push("-e".into());
            options.push(expression.into());
        }
        options
    }

    /// A command that writes its log to `log`. The caller adds the program or the processes.
    pub(crate) fn command(&self, log: &OsStr, attaching: bool) -> Command {
        let mut command = Command::new("strace");
        command.args(self.options(attaching)).arg("-o").arg(log);
        command
    }

    /// Starts strace. A child inherits the cores of its parent, so this thread moves to one core
    /// and back.
    pub(crate) fn start(&self, command: &mut Command) -> Result<Child, CaptureError> {
        if !self.one_core {
            return command.spawn().map_err(system("starting strace"));
        }
        let own = Pid::from_raw(0);
        let all = sched_getaffinity(own).map_err(cores("reading the cores of this process"))?;
        sched_setaffinity(own, &last_of(&all)?).map_err(cores("moving to one core"))?;
        let child = command.spawn().map_err(system("starting strace"));
        sched_setaffinity(own, &all).map_err(cores("moving back from one core"))?;
        child
    }
}

/// The last core of a set, because the first ones handle more interrupts of the host.
fn last_of(all: &CpuSet) -> Result<CpuSet, CaptureError> {
    let last = (0..CpuSet::count())
        .rev()
        .find(|&core| all.is_set(core).unwrap_or(false));
    let mut core = CpuSet::new();
    core.set(last.ok_or(CaptureError::NoCore)?)
        .map_err(cores("moving to one core"))?;
    Ok(core)
}

fn cores(operation: &'static str) -> impl FnOnce(Errno) -> CaptureError {
    move |source| CaptureError::Cores { operation, source }
}
