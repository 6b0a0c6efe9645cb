//! The monitor: samples `/proc` once a second, on the clock of the transactions.
//!
//! Each row has a time (the end of the interval that it describes), component, metric, part and
//! value.
//!
//! | component | metric | unit | part |
//! |---|---|---|---|
//! | host | `cpu.user` `.nice` `.system` `.irq` `.softirq` `.steal` `.iowait` `.idle` `.busy` | fraction of the interval; busy is the sum without idle and iowait | core number, empty: mean of all |
//! | host | `cpu.runnable` | mean number of tasks that run or wait for a core | |
//! | host | `load.1` | processes | |
//! | host | `memory.total` `.available` `.used`, `swap.used` | bytes | |
//! | host | `disk.read` `disk.write` | bytes/s | whole device |
//! | host | `disk.busy` | fraction | whole device |
//! | host | `disk.iops` | requests completed, 1/s | whole device |
//! | host | `disk.wait` | mean time of these requests, s | whole device |
//! | host | `disk.queue` | mean number of requests in progress | whole device |
//! | host | `net.receive` `net.send` | bytes/s | interface |
//! | host | `net.receive_packets` `net.send_packets` | 1/s | interface |
//! | host | `net.receive_drops` `net.send_drops` | packets dropped in the interval | interface |
//! | host | `net.softnet_drops` | packets dropped in the interval because the queue of a core was full | |
//! | host | `tcp.listen_overflows` `.listen_drops` `.request_queue_drops` `.syn_retransmits` | events in the interval | |
//! | host | `sockets` | TCP sockets | state, within a budget; empty: all |
//! | host | `ports.used` | fraction of the local ports in use toward one address, within a budget | |
//! | host | `ports.waiting` | fraction of them that ended data connections occupy, within the budget | |
//! | host | `net.retransmits`, `context_switches` | 1/s | |
//! | host | `psi.cpu.some` `psi.io.some` `.full` `psi.memory.some` `.full` | fraction of the interval | |
//! | service:NAME, testers | `cpu` `cpu.user` `cpu.system` | cores in use, whole process tree | |
//! | service:NAME, testers | `cpu.busiest_thread` | fraction of one core | name of the thread |
//! | service:NAME, testers | `cpu.thread_demand` | fraction of a core that one thread used or waited for | name of the thread |
//! | service:NAME, testers | `processes` `threads` `fds` | count | |
//! | service:NAME, testers | `memory.rss` | bytes, shared pages counted once per process | |
//! | service:NAME, testers | `memory.own` | bytes, each page counted once: the proportional set size, read within a budget; of a service with limits, anonymous and shared memory of its control group | |
//! | service or testers with limits | `memory.limit` | bytes | |
//! | service or testers with limits | `cpu.limit` | cores | |
//! | service or testers with limits | `memory.oom_kills` | processes that the kernel killed for lack of memory in the interval | |
//! | service or testers with limits | `memory.reclaims` `memory.major_faults` | 1/s | |
//! | service or testers with limits | `psi.memory.some` `.full` `psi.io.some` `.full` | fraction of the interval | |
//! | service or testers with limits | `cpu.throttled` | cores that waited because of the limit | |
//! | service or testers with limits | `disk.read` `disk.write` | bytes/s of the busiest disk, of its control group, for those that are limited | |
//! | service or testers with limits | `disk.read_limit` `disk.write_limit` | bytes/s | |
//! | service:NAME | `listen.queue` `listen.backlog` | connections that wait to be accepted, and their maximum | port |
//! | service:NAME | `listen.drops` | requests for a connection that were dropped in the interval | port |
//! | service:NAME, testers | `io.read` `io.write` | bytes/s from and to storage | |
//! | testers | `spin` | cores on which lanes spun instead of sleeping: not load | |
//! | monitor | `cpu` | cores in use by the monitor itself | |

mod ceiling;
mod diag;
mod facts;
mod find;
mod group;
mod host;
mod network;
mod parse;
mod proc_files;
mod proportional;
mod rows;
mod sockets;
mod thread;
mod tree;
mod watched_process;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_model::{HostWatch, Watch};
use plimsoll_record::Sample;

use crate::host::Host;
use crate::rows::Rows;
use crate::sockets::{Members, Sockets};
use crate::tree::{Tree, Units};
use crate::watched_process::WatchedProcess;

pub use facts::host_facts;
pub use thread::{MonitorConfig, MonitorThread, MonitorTotals};

/// Reads `/proc` and computes rates from the difference to the previous reading.
pub struct Monitor {
    proc: PathBuf,
    units: Units,
    host: Host,
    services: Vec<(String, Tree)>,
    sought: Vec<WatchedProcess>,
    testers: Tree,
    sockets: Sockets,
    spun_ns: u64,
    last_ns: Option<i64>,
}

/// Result of one reading.
pub struct Reading {
    /// The rows of all components.
    pub samples: Vec<Sample>,
    /// Processes that have ended or were found since the previous reading.
    pub events: Vec<MonitorEvent>,
}

/// The end or the discovery of a monitored process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MonitorEvent {
    /// The root process of a service of the experiment has ended. Contains the name of the service.
    ServiceGone(String),
    /// A watched process does not exist or has ended. Contains a message for the user.
    WatchLost(String),
    /// A watched process that was missing exists. Contains a message for the user.
    WatchFound(String),
    /// The memory of a service is above its ceiling. Contains the reason to stop the run.
    CeilingReached(String),
}

impl Monitor {
    /// A monitor of this host, of the process trees in `watch`, of the trees in `sought` while they
    /// exist, and of the tree with the root process `testers` (a PID).
    pub fn new(watch: &[Watch], sought: &[HostWatch], testers: u32) -> Self {
        let services = watch
            .iter()
            .map(|watch| {
                (
                    watch.name.clone(),
                    Tree::new(format!("service:{}", watch.name).into(), watch.pid),
                )
            })
            .collect();
        Self {
            proc: PathBuf::from("/proc"),
            units: units(),
            host: Host::new(whole_devices(Path::new("/sys/block"))),
            services,
            sought: sought.iter().map(WatchedProcess::new).collect(),
            testers: Tree::new("testers".into(), testers),
            sockets: Sockets::new(),
            spun_ns: 0,
            last_ns: None,
        }
    }

    /// Counts the tasks that run or wait for a core. The next reading contains the mean of these
    /// counts.
    pub fn count_runnable(&mut self) {
        self.host.count_runnable(&self.proc);
    }

    /// Takes a reading at the time `now_ns`. `spun_ns` is the total time for which lanes have spun,
    /// in ns. The first reading contains no rates.
    pub fn read(&mut self, now_ns: i64, spun_ns: u64) -> Reading {
        let seconds = self
            .last_ns
            .map(|last| (now_ns - last) as f64 / 1e9)
            .filter(|&seconds| seconds > 0.0);
        let host: Arc<str> = "host".into();
        let mut rows = Rows::new(now_ns, host);
        self.host.sample(&self.proc, seconds, &mut rows);
        let mut events = Vec::new();
        for (name, tree) in &mut self.services {
            if tree.sample(&self.proc, self.units, seconds, &mut rows) {
                events.push(MonitorEvent::ServiceGone(name.clone()));
            }
        }
        for sought in &mut self.sought {
            events.extend(sought.sample(&self.proc, self.units, now_ns, seconds, &mut rows));
        }
        self.testers.sample(&self.proc, self.units, seconds, &mut rows);
        if let Some(seconds) = seconds {
            let spun = spun_ns.saturating_sub(self.spun_ns) as f64 / 1e9 / seconds;
            rows.of(&self.testers.component.clone()).push("spin", spun);
        }
        let trees: Vec<Members<'_>> = self
            .services
            .iter()
            .map(|(_, tree)| tree)
            .chain(self.sought.iter().filter_map(WatchedProcess::tree))
            .filter_map(Tree::members)
            .collect();
        self.sockets.sample(&self.proc, &trees, seconds, &mut rows);
        self.spun_ns = spun_ns;
        self.last_ns = Some(now_ns);
        Reading {
            samples: rows.0,
            events,
        }
    }
}

fn units() -> Units {
    // SAFETY: sysconf has no preconditions, and returns -1 for an unknown name.
    let (ticks, page) = unsafe {
        (
            libc::sysconf(libc::_SC_CLK_TCK),
            libc::sysconf(libc::_SC_PAGESIZE),
        )
    };
    Units {
        ticks_per_s: if ticks > 0 { ticks as f64 } else { 100.0 },
        page_bytes: if page > 0 { page as f64 } else { 4096.0 },
    }
}

/// Names of the block devices that are not partitions, without those in memory (`ram`, `zram`) and
/// those that are files (`loop`).
fn whole_devices(directory: &Path) -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return BTreeSet::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| {
            !["loop", "ram", "zram"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_busy_child_process_and_its_end_are_reported() {
        let mut child = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let watch = Watch {
            name: "burner".into(),
            pid: child.id(),
            cpus: vec![],
        };
        let mut monitor = Monitor::new(&[watch], &[], std::process::id());
        let now = std::time::Instant::now();
        let at = || now.elapsed().as_nanos() as i64;
        monitor.read(at(), 0);
        std::thread::sleep(Duration::from_millis(300));
        let reading = monitor.read(at(), 150_000_000);
        let value = |component: &str, metric: &str| {
            let mut rows = reading.samples.iter();
            rows.find(|row| &*row.component == component && row.metric == metric)
                .map(|row| row.value)
        };
        let (cpu, thread) = (
            value("service:burner", "cpu").unwrap(),
            value("service:burner", "cpu.busiest_thread"),
        );
        assert!(cpu > 0.0 && cpu < 1.5, "{cpu}");
        assert!(
            thread.is_some_and(|share| share > 0.0 && share < 1.1),
            "{thread:?}"
        );
        assert!(value("testers", "memory.rss").unwrap() > 100_000.0);
        assert!(value("testers", "spin").is_some_and(|spin| spin > 0.0 && spin <= 0.5));
        let busy = value("host", "cpu.busy").unwrap();
        assert!((0.0..=1.0).contains(&busy), "{busy}");
        assert!(value("host", "memory.total").unwrap() > value("host", "memory.used").unwrap());
        assert!(reading.events.is_empty());
        child.kill().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        // The child is not reaped yet: a zombie also counts as ended.
        let ended = MonitorEvent::ServiceGone("burner".into());
        assert_eq!(monitor.read(at(), 0).events, [ended]);
        child.wait().unwrap();
    }

    #[test]
    fn a_watched_process_may_start_and_end_repeatedly() {
        // No other process of this machine has this name.
        let name = format!("seek{}", std::process::id());
        let program = std::env::temp_dir().join(&name);
        std::fs::copy("/bin/sleep", &program).unwrap();
        let start = || Command::new(&program).arg("60").spawn().unwrap();
        let sought = |pid| HostWatch {
            name: "db".into(),
            pid,
            process: pid.is_none().then(|| name.clone()),
            unit: None,
        };
        let mut monitor = Monitor::new(&[], &[sought(None)], std::process::id());
        let mut second = 0;
        let mut next = |monitor: &mut Monitor| {
            second += 1;
            let reading = monitor.read(second * 1_000_000_000, 0);
            let seen = reading.samples.iter().any(|row| &*row.component == "service:db");
            (seen, reading.events)
        };
        let missing = MonitorEvent::WatchLost(format!("there is no process called {name}"));
        assert_eq!(next(&mut monitor), (false, vec![missing]));
        assert_eq!(next(&mut monitor), (false, vec![]), "reported once");
        for _ in 0..2 {
            let mut child = start();
            // The process has its name a moment after its start.
            while !std::fs::read_to_string(format!("/proc/{}/comm", child.id()))
                .unwrap()
                .starts_with("seek")
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            let (first, later) = (next(&mut monitor), next(&mut monitor));
            let found = if first.0 { first.1 } else { later.1 };
            let text = format!("db is running as process {}", child.id());
            assert_eq!(found, [MonitorEvent::WatchFound(text)]);
            assert_eq!(next(&mut monitor), (true, vec![]));
            child.kill().unwrap();
            child.wait().unwrap();
            let ended = MonitorEvent::WatchLost("db has ended".into());
            assert_eq!(next(&mut monitor), (false, vec![ended]));
        }
        let mut child = start();
        let mut monitor = Monitor::new(&[], &[sought(Some(child.id()))], std::process::id());
        assert_eq!(
            next(&mut monitor),
            (true, vec![]),
            "a process that exists from the beginning causes no event"
        );
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(next(&mut monitor).1.len(), 1);
        for _ in 0..5 {
            assert_eq!(
                next(&mut monitor),
                (false, vec![]),
                "its PID may be that of another process"
            );
        }
        std::fs::remove_file(&program).unwrap();
    }
}
