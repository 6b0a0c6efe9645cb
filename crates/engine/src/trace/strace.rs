//! How strace is run: the options with which it tells all that a trace holds, and nothing of what
//! is in the files.

use std::ffi::{OsStr, OsString};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// All calls about files, descriptors, names, processes and sockets, and those in which a thread
/// waits; strace leaves out those with `?` where it does not know them.
const CALLS: &str = "trace=file,desc,process,network,?close_range,?sync,?io_submit,?io_getevents,?io_pgetevents,?io_uring_setup,\
?umask,?unshare,?munmap,?mremap,?msync,?futex,?futex_waitv,?nanosleep,?clock_nanosleep,?pause,?rt_sigsuspend,?rt_sigtimedwait,\
?memfd_create,?bpf,?userfaultfd,?perf_event_open,?fanotify_init,?landlock_create_ruleset";
/// Lists that are to stand in full although strings are left out: lengths of buffers, both ends of
/// a pipe.
const WHOLE: &str = "abbrev=!readv,writev,preadv,pwritev,preadv2,pwritev2,vmsplice,pipe,pipe2,socketpair,io_submit,recvmsg,recvmmsg";

/// What strace is run as.
#[derive(Debug, Clone)]
pub(super) struct Strace {
    /// `strace -- version 6.1`.
    pub(super) version: String,
    /// Other calls than those that are traced cost nothing: option `--seccomp-bpf`, not when
    /// attaching.
    has_filter: bool,
    /// It shares a core with what it traces.
    one_core: bool,
}

impl Strace {
    /// The strace of this host. With `one_core` it and all that it traces will have one core
    /// together: they wake each other twice a call, which is quick and even on one core, and
    /// neither from one to another that sleeps.
    pub(super) fn find(one_core: bool) -> anyhow::Result<Self> {
        let said = Command::new("strace").arg("-V").stdin(Stdio::null()).output();
        let said = said.context("strace cannot be started: install it (Debian, Ubuntu: apt-get install strace; Fedora, RHEL: dnf install strace)")?;
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        let version = text.lines().next().unwrap_or_default().to_owned();
        let number = version.rsplit(' ').next().unwrap_or_default();
        let mut parts = number.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let number = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        if number < (4, 26) {
            bail!("\"{version}\" is too old: version 4.26 or later is needed");
        }
        Ok(Self {
            version,
            has_filter: number >= (5, 3),
            one_core,
        })
    }

    /// Options, without the program and the log.
    pub(super) fn options(&self, attaching: bool) -> Vec<OsString> {
        let mut options: Vec<OsString> = ["-f", "-ttt", "-T", "-y", "-q", "-s", "0", "-a", "1"]
            .map(OsString::from)
            .into();
        if self.has_filter && !attaching {
            options.push("--seccomp-bpf".into());
        }
        for expression in [CALLS, WHOLE] {
            options.push("-e".into());
            options.push(expression.into());
        }
        options
    }

    /// A command that writes its log to `log`, to which the program or the processes are added.
    pub(super) fn command(&self, log: &OsStr, attaching: bool) -> Command {
        let mut command = Command::new("strace");
        command.args(self.options(attaching)).arg("-o").arg(log);
        command
    }

    /// Starts it. Cores are inherited, so that it is this thread that moves to one and back.
    pub(super) fn start(&self, command: &mut Command) -> anyhow::Result<Child> {
        if !self.one_core {
            return command.spawn().context("starting strace");
        }
        let own = Pid::from_raw(0);
        let all = sched_getaffinity(own).context("asking for this process's cores")?;
        sched_setaffinity(own, &last_of(&all)?).context("moving to one core")?;
        let child = command.spawn().context("starting strace");
        sched_setaffinity(own, &all).context("moving back from one core")?;
        child
    }
}

/// The last core of a set: the first ones have more of the host's interrupts.
fn last_of(all: &CpuSet) -> anyhow::Result<CpuSet> {
    let last = (0..CpuSet::count())
        .rev()
        .find(|&core| all.is_set(core).unwrap_or(false));
    let mut one = CpuSet::new();
    one.set(last.context("this process has no core")?)?;
    Ok(one)
}
