//! Readings of the group of a limited program.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::Group;
use crate::hierarchy::{Version, hierarchies_of};
use crate::sweep::is_ours;

/// Bytes that a group has read from a disk, and written to it, since its creation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskBytes {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

/// A reading of a group. Counts are totals since its creation. None: the kernel does not report it.
#[derive(Debug, Clone, Default, PartialEq)]
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
    /// The limit of reads from each disk, bytes/s.
    pub disk_read_limit: Option<u64>,
    /// The limit of writes to each disk, bytes/s.
    pub disk_write_limit: Option<u64>,
    /// What was transferred, by the number (MAJOR:MINOR) of the disk. With version 1 without cached
    /// data that the kernel wrote later, which its limit does not cover either.
    pub disks: BTreeMap<String, DiskBytes>,
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
                    let served = text("blkio.throttle.io_service_bytes");
                    if !served.is_empty() {
                        reading.disks = served_bytes(&served);
                        reading.disk_read_limit = least(&text("blkio.throttle.read_bps_device"), "");
                        reading.disk_write_limit = least(&text("blkio.throttle.write_bps_device"), "");
                    }
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
                    let limits = text("io.max");
                    if !limits.is_empty() {
                        reading.disks = transferred_bytes(&text("io.stat"));
                        reading.disk_read_limit = least(&limits, "rbps=");
                        reading.disk_write_limit = least(&limits, "wbps=");
                    }
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

/// The bytes by disk of `io_service_bytes`: lines with a disk, `Read` or `Write`, and a number.
fn served_bytes(text: &str) -> BTreeMap<String, DiskBytes> {
    let mut disks: BTreeMap<String, DiskBytes> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [disk, kind, number] = words[..] else { continue };
        let Ok(bytes) = number.parse() else { continue };
        match kind {
            "Read" => disks.entry(disk.to_owned()).or_default().read = bytes,
            "Write" => disks.entry(disk.to_owned()).or_default().written = bytes,
            _ => {}
        }
    }
    disks
}

/// The bytes by disk of `io.stat`: a line per disk, with `rbytes=` and `wbytes=`.
fn transferred_bytes(text: &str) -> BTreeMap<String, DiskBytes> {
    text.lines()
        .filter_map(|line| {
            let (disk, rest) = line.split_once(' ')?;
            let bytes = DiskBytes {
                read: after(rest, "rbytes=")?,
                written: after(rest, "wbytes=")?,
            };
            Some((disk.to_owned(), bytes))
        })
        .collect()
}

/// The lowest limit of all disks. `prefix`: what precedes the number.
fn least(text: &str, prefix: &str) -> Option<u64> {
    text.lines()
        .filter_map(|line| after(line.split_once(' ')?.1, prefix))
        .min()
}

/// The number of the first word that begins with `prefix` and has one.
fn after(words: &str, prefix: &str) -> Option<u64> {
    words
        .split_ascii_whitespace()
        .find_map(|word| word.strip_prefix(prefix)?.parse().ok())
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
    fn disks_of_both_versions_have_bytes_and_limits() {
        let bytes = |read, written| DiskBytes { read, written };
        let text = "8:0 Read 4096\n8:0 Write 512\n8:0 Sync 4608\n8:0 Total 4608\n8:16 Read 1\nTotal 4609\n";
        let found = served_bytes(text);
        assert_eq!(found["8:0"], bytes(4096, 512));
        assert_eq!(found["8:16"], bytes(1, 0));
        let found = transferred_bytes("8:0 rbytes=7 wbytes=9 rios=1 wios=2 dbytes=0 dios=0\n254:0 \n");
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            [("8:0".to_owned(), bytes(7, 9))]
        );
        let limits = "8:0 rbps=20000000 wbps=max riops=max wiops=max\n8:16 rbps=10000000 wbps=max\n";
        assert_eq!(least(limits, "rbps="), Some(10_000_000));
        assert_eq!(least(limits, "wbps="), None);
        assert_eq!(least("8:0 5000000\n", ""), Some(5_000_000));
        assert_eq!(least("", ""), None);
    }

    #[test]
    fn a_process_without_limits_has_no_group() {
        assert!(GroupReader::of(std::process::id()).is_none());
        assert!(GroupReader::of(u32::MAX).is_none());
    }
}
