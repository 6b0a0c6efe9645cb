//! Samples of the host as a whole. Rates are differences of two readings of the counters in
//! `/proc`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::network::Network;
use crate::parse::{self, CpuTimes, Disk, Stat};
use crate::proc_files::ProcFiles;
use crate::rows::Rows;

/// The previous readings of the counters.
#[derive(Debug, Default)]
pub(crate) struct Host {
    stat: Option<Stat>,
    disks: BTreeMap<String, Disk>,
    network: Network,
    files: ProcFiles,
    /// Sum and number of the readings of the run queue since the previous sample.
    runnable: (u64, u64),
    pressure: BTreeMap<&'static str, u64>,
    /// Names of the block devices that are not partitions.
    whole: BTreeSet<String>,
}

/// Metric, file, first word of the line.
const PRESSURE: [(&str, &str, &str); 5] = [
    ("psi.cpu.some", "pressure/cpu", "some"),
    ("psi.io.some", "pressure/io", "some"),
    ("psi.io.full", "pressure/io", "full"),
    ("psi.memory.some", "pressure/memory", "some"),
    ("psi.memory.full", "pressure/memory", "full"),
];

impl Host {
    /// `whole`: names of the block devices that are not partitions (the entries of `/sys/block`).
    pub(crate) fn new(whole: BTreeSet<String>) -> Self {
        Self {
            whole,
            ..Self::default()
        }
    }

    /// Appends a reading to `rows`, with rates if there is a previous reading, `seconds` ago.
    pub(crate) fn sample(&mut self, proc: &Path, seconds: Option<f64>, rows: &mut Rows) {
        let mut files = std::mem::take(&mut self.files);
        let mut read = |name: &'static str| files.read(proc, name);
        if let Some(stat) = read("stat").as_deref().and_then(parse::stat) {
            self.cpu(stat, seconds, rows);
        }
        if let Some(load) = read("loadavg").as_deref().and_then(parse::load) {
            rows.push("load.1", load);
        }
        if let Some(memory) = read("meminfo").as_deref().and_then(parse::memory) {
            rows.push("memory.total", memory.total as f64);
            rows.push("memory.available", memory.available as f64);
            rows.push(
                "memory.used",
                memory.total.saturating_sub(memory.available) as f64,
            );
            rows.push("swap.used", memory.swap_used as f64);
        }
        if let Some(text) = read("diskstats") {
            self.disk(&text, seconds, rows);
        }
        self.network.sample(proc, seconds, rows);
        let (sum, count) = std::mem::take(&mut self.runnable);
        if count > 0 {
            rows.push("cpu.runnable", sum as f64 / count as f64);
        }
        for (metric, file, line) in PRESSURE {
            let Some(now) = read(file).and_then(|text| parse::pressure(&text, line)) else {
                continue;
            };
            if let (Some(then), Some(seconds)) = (self.pressure.insert(metric, now), seconds) {
                rows.push(metric, (now.saturating_sub(then) as f64 / 1e6 / seconds).min(1.0));
            }
        }
        self.files = files;
    }

    /// Reads the number of tasks that run or wait for a core, without the reader itself. The next
    /// sample contains the mean of all readings.
    pub(crate) fn count_runnable(&mut self, proc: &Path) {
        let text = self.files.read(proc, "loadavg");
        if let Some(tasks) = text.as_deref().and_then(parse::runnable) {
            self.runnable.0 += tasks.saturating_sub(1);
            self.runnable.1 += 1;
        }
    }

    fn cpu(&mut self, now: Stat, seconds: Option<f64>, rows: &mut Rows) {
        if let (Some(then), Some(seconds)) = (&self.stat, seconds) {
            shares(&then.all, &now.all, "", rows);
            for (core, times) in &now.cores {
                if let Some((_, before)) = then.cores.iter().find(|(known, _)| known == core) {
                    shares(before, times, &core.to_string(), rows);
                }
            }
            if let (Some(now), Some(then)) = (now.switches, then.switches) {
                rows.push("context_switches", now.saturating_sub(then) as f64 / seconds);
            }
        }
        self.stat = Some(now);
    }

    fn disk(&mut self, text: &str, seconds: Option<f64>, rows: &mut Rows) {
        for now in parse::disks(text) {
            if !self.whole.contains(&now.name) {
                continue;
            }
            let part: Arc<str> = now.name.as_str().into();
            if let (Some(then), Some(seconds)) = (self.disks.get(&now.name), seconds) {
                rows.push_part(
                    "disk.read",
                    &part,
                    now.read.saturating_sub(then.read) as f64 / seconds,
                );
                rows.push_part(
                    "disk.write",
                    &part,
                    now.written.saturating_sub(then.written) as f64 / seconds,
                );
                let busy = now.busy_ms.saturating_sub(then.busy_ms) as f64 / 1e3 / seconds;
                rows.push_part("disk.busy", &part, busy.min(1.0));
                let completed = now.completed.saturating_sub(then.completed) as f64;
                rows.push_part("disk.iops", &part, completed / seconds);
                let queued = now.queued_ms.saturating_sub(then.queued_ms) as f64 / 1e3;
                rows.push_part("disk.queue", &part, queued / seconds);
                if completed > 0.0 {
                    let waited = now.waited_ms.saturating_sub(then.waited_ms) as f64 / 1e3;
                    rows.push_part("disk.wait", &part, waited / completed);
                }
            }
            self.disks.insert(now.name.clone(), now);
        }
    }
}

/// Appends the shares of the interval between two readings. `cpu.busy` is the share that is neither
/// idle nor waiting for I/O. Time that the hypervisor took counts as busy, because it was not
/// available.
fn shares(then: &CpuTimes, now: &CpuTimes, part: &str, rows: &mut Rows) {
    // On some kernels, idle and iowait may decrease a little: such a difference counts as 0.
    let parts = [
        ("cpu.user", now.user.saturating_sub(then.user)),
        ("cpu.nice", now.nice.saturating_sub(then.nice)),
        ("cpu.system", now.system.saturating_sub(then.system)),
        ("cpu.irq", now.irq.saturating_sub(then.irq)),
        ("cpu.softirq", now.softirq.saturating_sub(then.softirq)),
        ("cpu.steal", now.steal.saturating_sub(then.steal)),
        ("cpu.iowait", now.iowait.saturating_sub(then.iowait)),
        ("cpu.idle", now.idle.saturating_sub(then.idle)),
    ];
    let total: u64 = parts.iter().map(|(_, ticks)| ticks).sum();
    if total == 0 {
        return;
    }
    let part: Arc<str> = part.into();
    for (metric, ticks) in parts {
        rows.push_part(metric, &part, ticks as f64 / total as f64);
    }
    let busy: u64 = parts[..6].iter().map(|(_, ticks)| ticks).sum();
    rows.push_part("cpu.busy", &part, busy as f64 / total as f64);
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn shares_add_up_to_1_and_a_decrease_counts_as_0() {
        let then = CpuTimes {
            user: 100,
            system: 50,
            idle: 1000,
            iowait: 10,
            steal: 5,
            ..CpuTimes::default()
        };
        let now = CpuTimes {
            user: 160,
            system: 70,
            idle: 1010,
            iowait: 9,
            steal: 15,
            ..then
        };
        let mut rows = Rows::new(0, "host".into());
        shares(&then, &now, "", &mut rows);
        let value = |metric: &str| rows.0.iter().find(|row| row.metric == metric).unwrap().value;
        assert!((value("cpu.busy") - 0.9).abs() < 1e-12);
        assert!((value("cpu.user") - 0.6).abs() < 1e-12);
        assert!((value("cpu.steal") - 0.1).abs() < 1e-12);
        assert_eq!(value("cpu.iowait").to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn a_host_without_pressure_and_network_has_the_other_metrics() {
        let directory = std::env::temp_dir().join(format!("plimsoll-proc-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        fs::write(
            directory.join("stat"),
            "cpu 10 0 0 90\ncpu0 10 0 0 90\nctxt 100\n",
        )
        .unwrap();
        let disk = |numbers: &str| fs::write(directory.join("diskstats"), format!("8 0 sda {numbers}\n"));
        disk("100 0 0 1000 100 0 0 500 0 0 3000").unwrap();
        let mut host = Host::new(BTreeSet::from(["sda".to_owned()]));
        let mut rows = Rows::new(0, "host".into());
        host.sample(&directory, None, &mut rows);
        assert!(rows.0.is_empty());
        fs::write(
            directory.join("stat"),
            "cpu 60 0 0 140\ncpu0 60 0 0 140\nctxt 300\n",
        )
        .unwrap();
        disk("120 0 0 1200 120 0 0 700 1 500 4000").unwrap();
        fs::write(directory.join("loadavg"), "0 0 0 5/99 7\n").unwrap();
        host.count_runnable(&directory);
        fs::write(directory.join("loadavg"), "0 0 0 2/99 7\n").unwrap();
        host.count_runnable(&directory);
        host.sample(&directory, Some(2.0), &mut rows);
        fs::remove_dir_all(&directory).unwrap();
        let value = |metric: &str, part: &str| {
            rows.0
                .iter()
                .find(|row| row.metric == metric && &*row.part == part)
                .map(|row| row.value)
        };
        assert_eq!(value("cpu.busy", ""), Some(0.5));
        assert_eq!(value("cpu.busy", "0"), Some(0.5));
        assert_eq!(value("context_switches", ""), Some(100.0));
        assert_eq!(value("psi.cpu.some", ""), None);
        assert_eq!(value("disk.read", "sda"), Some(0.0));
        assert_eq!(value("disk.iops", "sda"), Some(20.0));
        assert_eq!(value("disk.wait", "sda"), Some(0.01));
        assert_eq!(value("disk.queue", "sda"), Some(0.5));
        assert_eq!(value("cpu.runnable", ""), Some(2.5));
    }
}
