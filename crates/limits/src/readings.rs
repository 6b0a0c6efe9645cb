//! Readings of the group of a limited program.

use std::fs;
use std::path::PathBuf;

use crate::Group;
use crate::hierarchy::{Version, hierarchies_of};
use crate::sweep::is_ours;

/// A reading of a group. Counts are totals since its creation. None: the kernel does not report it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GroupReading {
    /// The limit of memory, bytes.
    pub limit: Option<u64>,
    /// Anonymous and shared memory, bytes: what cannot be dropped. Each page counts once.
    pub memory: Option<u64>,
    /// How often an allocation met the limit, and memory had to be reclaimed first.
    pub reclaims: Option<u64>,
    /// Page faults that read from a disk.
    pub major_faults: Option<u64>,
    /// Processes that the kernel killed for lack of memory.
    pub oom_kills: Option<u64>,
    /// The limit of processor time, cores.
    pub cpu_limit: Option<f64>,
    /// Time for which it was not allowed to run, summed over cores, µs.
    pub throttled_us: Option<u64>,
    /// Time for which some, or all, of its tasks waited for memory, µs.
    pub memory_pressure_us: [Option<u64>; 2],
    /// Time for which some, or all, of its tasks waited for I/O, µs.
    pub io_pressure_us: [Option<u64>; 2],
}

/// The group of a process, for readings.
#[derive(Debug)]
pub struct GroupReader {
    directories: Vec<(PathBuf, Version)>,
}

impl GroupReader {
    /// The group of a process, if Plimsoll has created it.
    pub fn of(pid: u32) -> Option<Self> {
        // Most services have no limits: one small file answers for them.
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        if !groups.lines().any(|line| is_ours(last_part(line))) {
            return None;
        }
        let directories: Vec<_> = hierarchies_of(&pid.to_string())
            .ok()?
            .into_iter()
            .filter(|one| {
                one.own
                    .file_name()
                    .is_some_and(|name| is_ours(&name.to_string_lossy()))
            })
            .map(|one| (one.own, one.version))
            .collect();
        (!directories.is_empty()).then_some(Self { directories })
    }

    /// A reader of a group of this process.
    pub(crate) fn of_group(group: &Group) -> Self {
        Self {
            directories: group.paths(),
        }
    }

    /// Reads the group. All fields are None after its removal.
    pub fn read(&self) -> GroupReading {
        let mut reading = GroupReading::default();
        for (path, version) in &self.directories {
            let text = |file: &str| fs::read_to_string(path.join(file)).unwrap_or_default();
            let bytes = |file: &str| text(file).trim().parse::<u64>().ok();
            match version {
                Version::One => {
                    let memory = text("memory.stat");
                    if !memory.is_empty() {
                        reading.limit = bytes("memory.limit_in_bytes");
                        reading.memory = sum(&memory, "total_rss", "total_shmem");
                        reading.major_faults = number(&memory, "total_pgmajfault");
                        // Both limits are equal: the one that is checked first is met.
                        reading.reclaims = bytes("memory.failcnt")
                            .map(|count| count + bytes("memory.memsw.failcnt").unwrap_or(0));
                        reading.oom_kills = number(&text("memory.oom_control"), "oom_kill");
                    }
                    let quota = bytes("cpu.cfs_quota_us").zip(bytes("cpu.cfs_period_us"));
                    reading.cpu_limit = quota
                        .map(|(quota, period)| quota as f64 / period as f64)
                        .or(reading.cpu_limit);
                    let throttled = number(&text("cpu.stat"), "throttled_time");
                    reading.throttled_us = throttled.map(|ns| ns / 1000).or(reading.throttled_us);
                }
                Version::Two => {
                    let memory = text("memory.stat");
                    if !memory.is_empty() {
                        reading.limit = bytes("memory.max");
                        reading.memory = sum(&memory, "anon", "shmem");
                        reading.major_faults = number(&memory, "pgmajfault");
                        let events = text("memory.events");
                        reading.reclaims = number(&events, "max");
                        reading.oom_kills = number(&events, "oom_kill");
                    }
                    reading.cpu_limit = reading.cpu_limit.or(quota(&text("cpu.max")));
                    let throttled = number(&text("cpu.stat"), "throttled_usec");
                    reading.throttled_us = reading.throttled_us.or(throttled);
                    reading.memory_pressure_us = pressure(&text("memory.pressure"));
                    reading.io_pressure_us = pressure(&text("io.pressure"));
                }
            }
        }
        reading
    }
}

fn last_part(line: &str) -> &str {
    line.rsplit('/').next().unwrap_or_default()
}

/// The number after a name, of a file with a pair in each line.
fn number(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

fn sum(text: &str, first: &str, second: &str) -> Option<u64> {
    // The kernel counts shared memory as cache in version 1, next to what it counts as anonymous.
    Some(number(text, first)? + number(text, second)?)
}

/// The cores of `cpu.max`: quota and period. None: `max`, no limit.
fn quota(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
}

/// The totals of the lines `some` and `full`, µs.
fn pressure(text: &str) -> [Option<u64>; 2] {
    ["some", "full"].map(|kind| {
        let line = text.lines().find(|line| line.starts_with(kind))?;
        line.split_ascii_whitespace()
            .find_map(|word| word.strip_prefix("total=")?.parse().ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_whole_name() {
        let text = "total_rss_huge 5\ntotal_rss 7\noom_kill_disable 0\noom_kill 3\n";
        assert_eq!(number(text, "total_rss"), Some(7));
        assert_eq!(number(text, "oom_kill"), Some(3));
        assert_eq!(number(text, "shmem"), None);
        let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.00 total=9\n";
        assert_eq!(pressure(text), [Some(12), Some(9)]);
        assert_eq!(quota("50000 100000\n"), Some(0.5));
        assert_eq!(quota("max 100000\n"), None);
        assert_eq!(pressure("some avg10=0.00 total=12\n"), [Some(12), None]);
    }

    #[test]
    fn a_process_without_limits_has_no_group() {
        assert!(GroupReader::of(std::process::id()).is_none());
        assert!(GroupReader::of(u32::MAX).is_none());
    }
}
