//! A process with all its descendants, as one component.
//!
//! A process remains a member until it ends, also if its parent dies and init adopts it. A member
//! is identified by PID and start time, so that a reused PID is not a member. The kernel adds the
//! CPU time of an ended process to its parent when the parent reaps it. If the parent does not reap
//! it (adopted by init, SIGCHLD ignored), the sum over the members decreases. The counters here
//! never decrease.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_model::SESSION_THREAD;

use crate::group::LimitedGroup;
use crate::parse::{self, Process};
use crate::proportional::ProportionalSize;
use crate::rows::Rows;
use crate::sockets::Members;

/// Maximum number of members that are read, so that a fork bomb does not stop the monitor.
const MAX_MEMBERS: usize = 4096;
/// Maximum number of threads that are read, per tree.
const MAX_THREADS: usize = 2048;

/// Units of the numbers in `/proc`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Units {
    pub(crate) ticks_per_s: f64,
    pub(crate) page_bytes: f64,
}

/// A sum over members that never decreases.
#[derive(Debug, Default)]
struct MonotoneSum {
    last: u64,
    /// Sum of all decreases.
    lost: u64,
}

impl MonotoneSum {
    /// Adds a reading of the sum over the members. Returns the total, which never decreases.
    fn advance(&mut self, sum: u64) -> u64 {
        self.lost += self.last.saturating_sub(sum);
        self.last = sum;
        sum + self.lost
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Totals {
    user: u64,
    system: u64,
    read: u64,
    written: u64,
}

/// One watched tree.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) component: Arc<str>,
    root: u32,
    root_started: Option<u64>,
    members: BTreeMap<u32, u64>,
    user: MonotoneSum,
    system: MonotoneSum,
    read: MonotoneSum,
    written: MonotoneSum,
    last: Option<Totals>,
    threads: HashMap<u32, ThreadTimes>,
    /// Process and id of the threads that were reported last: the one that used most, the one that
    /// used or waited for most.
    reported: [Option<(u32, u32)>; 2],
    /// The control group below which the members run, if the experiment limits them.
    group: Option<LimitedGroup>,
    proportional: ProportionalSize,
    gone: bool,
}

impl Tree {
    pub(crate) fn new(component: Arc<str>, root: u32) -> Self {
        Self {
            component,
            root,
            root_started: None,
            members: BTreeMap::new(),
            user: MonotoneSum::default(),
            system: MonotoneSum::default(),
            read: MonotoneSum::default(),
            written: MonotoneSum::default(),
            last: None,
            threads: HashMap::new(),
            reported: [None; 2],
            group: None,
            proportional: ProportionalSize::default(),
            gone: false,
        }
    }

    /// Appends a reading to `rows`, with rates if there is a previous reading, `seconds` ago.
    /// Returns true once, when the root process has ended.
    pub(crate) fn sample(
        &mut self,
        proc: &Path,
        units: Units,
        seconds: Option<f64>,
        rows: &mut Rows,
    ) -> bool {
        if self.gone {
            return false;
        }
        let living = self.living(proc);
        if !living.contains_key(&self.root) {
            self.gone = true;
            return true;
        }
        let component = self.component.clone();
        let rows = rows.of(&component);
        let now = self.totals(proc, &living);
        let [busiest, most_demanding] = self.busiest(proc, &living, units, seconds);
        rows.push("processes", living.len() as f64);
        rows.push(
            "threads",
            living.values().map(|process| process.threads).sum::<u64>() as f64,
        );
        let pages: u64 = living.values().map(|process| process.rss_pages).sum();
        rows.push("memory.rss", pages as f64 * units.page_bytes);
        self.memory(proc, &living, seconds, rows);
        if let Some(count) = descriptors(proc, living.keys()) {
            rows.push("fds", count as f64);
        }
        if let (Some(then), Some(seconds)) = (self.last, seconds) {
            let cores = |now: u64, then: u64| (now - then) as f64 / units.ticks_per_s / seconds;
            let (user, system) = (cores(now.user, then.user), cores(now.system, then.system));
            rows.push("cpu", user + system);
            rows.push("cpu.user", user);
            rows.push("cpu.system", system);
            rows.push("io.read", (now.read - then.read) as f64 / seconds);
            rows.push("io.write", (now.written - then.written) as f64 / seconds);
            for (metric, thread) in [
                ("cpu.busiest_thread", busiest),
                ("cpu.thread_demand", most_demanding),
            ] {
                if let Some((name, share)) = thread {
                    rows.push_part(metric, &name.into(), share);
                }
            }
        }
        self.last = Some(now);
        false
    }

    /// The members at the last reading. None if the tree has ended.
    pub(crate) fn members(&self) -> Option<Members<'_>> {
        (!self.gone).then(|| Members {
            component: &self.component,
            root: self.root,
            pids: self.members.keys().copied().collect(),
        })
    }

    /// Appends the memory that belongs to the members: that of their group if they have limits,
    /// else the proportional set size.
    fn memory(
        &mut self,
        proc: &Path,
        living: &BTreeMap<u32, Process>,
        seconds: Option<f64>,
        rows: &mut Rows,
    ) {
        if self.group.is_none() {
            // The root of a service is a guard, which is no member of its group. Below testers, the
            // group of the agent counts: each client program may have one of its own.
            let is_service = self.component.starts_with("service:");
            let member = living
                .keys()
                .copied()
                .find(|&pid| is_service == (pid != self.root));
            self.group = member.and_then(LimitedGroup::of);
        }
        let is_known = self
            .group
            .as_mut()
            .is_some_and(|group| group.sample(seconds, rows));
        if is_known {
            return;
        }
        if let Some(size) = self.proportional.advance(proc, living.keys(), seconds) {
            rows.push("memory.own", size as f64);
        }
    }

    /// All members that have not ended. The root is missing if it has ended or its PID was reused.
    fn living(&mut self, proc: &Path) -> BTreeMap<u32, Process> {
        let mut living = BTreeMap::new();
        let mut queue: Vec<(u32, Option<u64>)> = self
            .members
            .iter()
            .map(|(&pid, &started)| (pid, Some(started)))
            .collect();
        queue.push((self.root, self.root_started));
        while let Some((pid, started)) = queue.pop() {
            if living.contains_key(&pid) || living.len() >= MAX_MEMBERS {
                continue;
            }
            let Some(process) = read_process(&proc.join(pid.to_string())) else {
                continue;
            };
            let same = started.is_none_or(|started| started == process.started);
            if !same || (pid == self.root && matches!(process.state, 'Z' | 'X')) {
                continue;
            }
            queue.extend(children(proc, pid).into_iter().map(|child| (child, None)));
            living.insert(pid, process);
        }
        if let Some(root) = living.get(&self.root) {
            self.root_started = Some(root.started);
        }
        self.members = living
            .iter()
            .map(|(&pid, process)| (pid, process.started))
            .collect();
        living
    }

    fn totals(&mut self, proc: &Path, living: &BTreeMap<u32, Process>) -> Totals {
        let (mut read, mut written) = (0, 0);
        for pid in living.keys() {
            let io = fs::read_to_string(proc.join(format!("{pid}/io")))
                .ok()
                .and_then(|text| parse::io(&text));
            read += io.map_or(0, |io| io.0);
            written += io.map_or(0, |io| io.1);
        }
        Totals {
            user: self.user.advance(
                living
                    .values()
                    .map(|process| process.user.0 + process.user.1)
                    .sum(),
            ),
            system: self.system.advance(
                living
                    .values()
                    .map(|process| process.system.0 + process.system.1)
                    .sum(),
            ),
            read: self.read.advance(read),
            written: self.written.advance(written),
        }
    }

    /// The thread that used most of a core since the previous reading, and the thread that used or
    /// waited for most of a core: name, and share of a core. None if the thread that was reported
    /// before has ended and its process has not. What it used since is then unknown, and another
    /// thread may not be the busiest (the lanes of a run end before the last reading). Work of
    /// sessions is left out.
    fn busiest(
        &mut self,
        proc: &Path,
        living: &BTreeMap<u32, Process>,
        units: Units,
        seconds: Option<f64>,
    ) -> [Option<(String, f64)>; 2] {
        let mut now = HashMap::new();
        let mut most: [Option<Busiest>; 2] = [None, None];
        for pid in living.keys() {
            for (tid, path) in numbered(&proc.join(format!("{pid}/task"))) {
                if now.len() >= MAX_THREADS {
                    break;
                }
                let Some(times) = thread_times(&path, units) else {
                    continue;
                };
                // A thread without a previous reading has started since. If a time has decreased,
                // the number was reused, and the thread has also started since.
                let before = self
                    .threads
                    .get(&tid)
                    .copied()
                    .filter(|before| before.used <= times.used && before.waited <= times.waited)
                    .unwrap_or_default();
                let used = times.used - before.used;
                let demand = used + times.waited - before.waited;
                for (most, value) in most.iter_mut().zip([used, demand]) {
                    let is_most = most.as_ref().is_none_or(|most| value > most.ns);
                    if is_most && !is_work_of_session(&path) {
                        *most = Some(Busiest {
                            ns: value,
                            path: path.clone(),
                            thread: (*pid, tid),
                        });
                    }
                }
                now.insert(tid, times);
            }
        }
        let has_ended = |(pid, tid)| living.contains_key(&pid) && !now.contains_key(&tid);
        let ended = self.reported.map(|reported| reported.is_some_and(has_ended));
        for ((reported, most), ended) in self.reported.iter_mut().zip(&mut most).zip(ended) {
            *reported = most.as_ref().map(|most| most.thread);
            most.take_if(|_| ended);
        }
        self.threads = now;
        most.map(|busiest| {
            let Busiest { ns, path, .. } = busiest?;
            Some((thread_name(&path), ns as f64 / 1e9 / seconds?))
        })
    }
}

fn thread_name(path: &Path) -> String {
    let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// Whether a thread carries out work of an emulated job, which delays no transaction.
fn is_work_of_session(path: &Path) -> bool {
    thread_name(path) == SESSION_THREAD
}

/// A thread that used, or used and waited for, most of a core.
struct Busiest {
    ns: u64,
    path: PathBuf,
    /// Process and id of the thread.
    thread: (u32, u32),
}

fn read_process(path: &Path) -> Option<Process> {
    // A name may contain bytes that are not UTF-8.
    parse::process(&String::from_utf8_lossy(&fs::read(path.join("stat")).ok()?))
}

/// Time for which a thread has run on a core, and has waited for one, ns.
#[derive(Debug, Clone, Copy, Default)]
struct ThreadTimes {
    used: u64,
    waited: u64,
}

/// Reads the times of a thread. Their resolution is 1 ns if the kernel provides schedstat.
/// Otherwise it is one tick, and the waiting time is unknown (0).
fn thread_times(path: &Path, units: Units) -> Option<ThreadTimes> {
    let exact = fs::read_to_string(path.join("schedstat")).ok().and_then(|text| {
        Some(ThreadTimes {
            used: parse::on_core_ns(&text)?,
            waited: parse::waited_ns(&text)?,
        })
    });
    exact.or_else(|| {
        let thread = read_process(path)?;
        let used = (thread.user.0 + thread.system.0) as f64 / units.ticks_per_s * 1e9;
        Some(ThreadTimes {
            used: used as u64,
            waited: 0,
        })
    })
}

/// Entries of a directory whose names are numbers.
fn numbered(path: &Path) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = fs::read_dir(path) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .collect()
}

/// The children of a process, from the lists of its threads. On kernels that were built without
/// these lists, from the parents of all processes.
fn children(proc: &Path, pid: u32) -> Vec<u32> {
    let mut children = Vec::new();
    for (_, path) in numbered(&proc.join(format!("{pid}/task")))
        .into_iter()
        .take(MAX_THREADS)
    {
        match fs::read_to_string(path.join("children")) {
            Ok(text) => children.extend(
                text.split_ascii_whitespace()
                    .filter_map(|word| word.parse::<u32>().ok()),
            ),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && path.exists() => {
                return numbered(proc)
                    .into_iter()
                    .filter(|(_, path)| read_process(path).is_some_and(|process| process.parent == pid))
                    .map(|(child, _)| child)
                    .collect();
            }
            Err(_) => {}
        }
    }
    children
}

/// Number of open descriptors of all members. None without the right to read them.
fn descriptors<'a>(proc: &Path, pids: impl Iterator<Item = &'a u32>) -> Option<u64> {
    let mut total = 0;
    for pid in pids {
        let path = proc.join(format!("{pid}/fd"));
        // From Linux 6.2 on, the size of the directory is the number of descriptors.
        total += match fs::metadata(&path).ok()?.len() {
            0 => fs::read_dir(&path).ok()?.count() as u64,
            size => size,
        };
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNITS: Units = Units {
        ticks_per_s: 100.0,
        page_bytes: 4096.0,
    };

    /// A synthetic `/proc`.
    struct Proc(PathBuf);

    impl Proc {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("plimsoll-tree-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn process(&self, pid: u32, started: u64, times: [u64; 4], children: &[u32], on_core_ns: u64) {
            let task = self.0.join(format!("{pid}/task/{pid}"));
            fs::create_dir_all(&task).unwrap();
            let [user, system, child_user, child_system] = times;
            let stat = format!(
                "{pid} (p{pid}) S 1 1 1 0 -1 0 0 0 0 0 {user} {system} {child_user} {child_system} 20 0 1 0 {started} 0 10 0"
            );
            fs::write(self.0.join(format!("{pid}/stat")), stat).unwrap();
            let children: Vec<String> = children.iter().map(ToString::to_string).collect();
            fs::write(task.join("children"), children.join(" ")).unwrap();
            fs::write(task.join("schedstat"), format!("{on_core_ns} 0 0")).unwrap();
            fs::write(task.join("comm"), format!("thread{pid}\n")).unwrap();
        }

        fn thread(&self, pid: u32, tid: u32, on_core_ns: u64) {
            let task = self.0.join(format!("{pid}/task/{tid}"));
            fs::create_dir_all(&task).unwrap();
            fs::write(task.join("schedstat"), format!("{on_core_ns} 0 0")).unwrap();
            fs::write(task.join("comm"), format!("thread{tid}\n")).unwrap();
        }

        fn end(&self, pid: u32) {
            fs::remove_dir_all(self.0.join(pid.to_string())).unwrap();
        }

        fn sample(&self, tree: &mut Tree, seconds: Option<f64>) -> (bool, HashMap<&'static str, f64>) {
            let mut rows = Rows::new(0, "x".into());
            let gone = tree.sample(&self.0, UNITS, seconds, &mut rows);
            (gone, rows.0.iter().map(|row| (row.metric, row.value)).collect())
        }
    }

    impl Drop for Proc {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_cpu_time_of_a_reaped_child_counts() {
        let proc = Proc::new("reaped");
        let mut tree = Tree::new("service:x".into(), 10);
        proc.process(10, 5, [100, 0, 50, 0], &[11], 0);
        proc.process(11, 6, [200, 0, 0, 0], &[], 0);
        proc.sample(&mut tree, None);
        // 11 used 100 ticks more, ended, and was reaped by 10.
        proc.end(11);
        proc.process(10, 5, [100, 0, 350, 0], &[], 0);
        let (gone, values) = proc.sample(&mut tree, Some(1.0));
        assert!(!gone);
        assert!((values["cpu"] - 1.0).abs() < 1e-9, "{values:?}");
        assert_eq!(values["processes"].to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn a_member_that_is_not_reaped_does_not_decrease_the_cpu_time() {
        let proc = Proc::new("lost");
        let mut tree = Tree::new("service:x".into(), 10);
        proc.process(10, 5, [100, 0, 0, 0], &[11], 0);
        proc.process(11, 6, [5000, 0, 0, 0], &[], 0);
        proc.sample(&mut tree, None);
        proc.end(11);
        proc.process(10, 5, [100, 0, 0, 0], &[], 0);
        let (_, values) = proc.sample(&mut tree, Some(1.0));
        assert_eq!(values["cpu"].to_bits(), 0.0_f64.to_bits());
        proc.process(10, 5, [150, 0, 0, 0], &[], 0);
        let (_, values) = proc.sample(&mut tree, Some(1.0));
        assert!((values["cpu"] - 0.5).abs() < 1e-9, "{values:?}");
    }

    #[test]
    fn an_adopted_member_stays_and_a_reused_pid_does_not_join() {
        let proc = Proc::new("adopted");
        let mut tree = Tree::new("service:x".into(), 10);
        proc.process(10, 5, [0; 4], &[11, 12], 0);
        proc.process(11, 6, [0; 4], &[], 0);
        proc.process(12, 7, [0; 4], &[], 0);
        proc.sample(&mut tree, None);
        proc.process(10, 5, [0; 4], &[], 0); // 11 and 12 were adopted by init
        proc.process(12, 99, [0; 4], &[], 0); // and 12 is the reused PID of another process
        let (_, values) = proc.sample(&mut tree, Some(1.0));
        assert_eq!(values["processes"].to_bits(), 2.0_f64.to_bits());
    }

    #[test]
    fn the_end_or_replacement_of_the_root_is_reported_once() {
        let proc = Proc::new("gone");
        let mut tree = Tree::new("service:x".into(), 10);
        proc.process(10, 5, [0; 4], &[], 0);
        assert!(!proc.sample(&mut tree, None).0);
        proc.process(10, 77, [0; 4], &[], 0);
        assert!(proc.sample(&mut tree, Some(1.0)).0);
        assert!(!proc.sample(&mut tree, Some(1.0)).0);
        assert!(
            proc.sample(&mut Tree::new("service:y".into(), 4711), None).0,
            "it never existed"
        );
    }

    #[test]
    fn the_busiest_and_the_most_demanding_thread_have_a_name_and_a_share() {
        let proc = Proc::new("threads");
        let mut tree = Tree::new("service:x".into(), 10);
        proc.process(10, 5, [0; 4], &[11], 1_000_000_000);
        proc.process(11, 6, [0; 4], &[], 9_000_000_000);
        proc.sample(&mut tree, None);
        proc.process(10, 5, [0; 4], &[11], 2_800_000_000);
        proc.process(11, 6, [0; 4], &[], 9_100_000_000);
        let waited = proc.0.join("11/task/11/schedstat");
        fs::write(waited, "9100000000 1800000000 0").unwrap();
        let mut rows = Rows::new(0, "x".into());
        tree.sample(&proc.0, UNITS, Some(2.0), &mut rows);
        let of = |metric| {
            let row = rows.0.iter().find(|row| row.metric == metric).unwrap();
            (&*row.part, row.value)
        };
        assert_eq!(of("cpu.busiest_thread"), ("thread10", 0.9));
        assert_eq!(of("cpu.thread_demand"), ("thread11", 0.95));
    }

    #[test]
    fn work_of_sessions_is_not_the_busiest_thread() {
        let proc = Proc::new("work");
        let mut tree = Tree::new("testers".into(), 10);
        proc.process(10, 5, [0; 4], &[], 0);
        proc.sample(&mut tree, None);
        proc.process(10, 5, [0; 4], &[], 100_000_000);
        proc.thread(10, 12, 900_000_000);
        fs::write(proc.0.join("10/task/12/comm"), format!("{SESSION_THREAD}\n")).unwrap();
        let mut rows = Rows::new(0, "x".into());
        tree.sample(&proc.0, UNITS, Some(1.0), &mut rows);
        let row = rows.0.iter().find(|row| row.metric == "cpu.busiest_thread");
        assert_eq!(row.map(|row| (&*row.part, row.value)), Some(("thread10", 0.1)));
    }

    #[test]
    fn an_interval_in_which_the_busiest_thread_ended_has_no_busiest_thread() {
        let proc = Proc::new("ended-thread");
        let mut tree = Tree::new("testers".into(), 10);
        proc.process(10, 5, [0; 4], &[], 0);
        proc.thread(10, 12, 0);
        let busiest = |tree: &mut Tree, seconds| {
            let mut rows = Rows::new(0, "x".into());
            tree.sample(&proc.0, UNITS, seconds, &mut rows);
            let row = rows.0.iter().find(|row| row.metric == "cpu.busiest_thread");
            row.map(|row| (row.part.to_string(), row.value))
        };
        busiest(&mut tree, None);
        proc.thread(10, 12, 900_000_000);
        assert_eq!(busiest(&mut tree, Some(1.0)), Some(("thread12".to_owned(), 0.9)));
        fs::remove_dir_all(proc.0.join("10/task/12")).unwrap();
        assert_eq!(busiest(&mut tree, Some(1.0)), None);
        proc.process(10, 5, [0; 4], &[], 100_000_000);
        assert_eq!(busiest(&mut tree, Some(1.0)), Some(("thread10".to_owned(), 0.1)));
    }
}
