//! The control group of a component with limits, as its rows.

use plimsoll_limits::{DiskBytes, GroupReader, GroupReading};

use crate::rows::Rows;

/// The group, and its previous reading.
#[derive(Debug)]
pub(crate) struct LimitedGroup {
    reader: GroupReader,
    last: Option<GroupReading>,
}

impl LimitedGroup {
    /// The group of a process, if Plimsoll has created it.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        GroupReader::of(pid).map(|reader| Self { reader, last: None })
    }

    /// Appends a reading, with rates if there is a previous one, `seconds` ago. Returns whether it
    /// contains the memory: with version 1, only a group with a limit of memory counts it.
    pub(crate) fn sample(&mut self, seconds: Option<f64>, rows: &mut Rows) -> bool {
        let now = self.reader.read();
        push_reading(&now, self.last.as_ref().zip(seconds), rows);
        let has_memory = now.memory.is_some();
        self.last = Some(now);
        has_memory
    }
}

fn push_reading(now: &GroupReading, then: Option<(&GroupReading, f64)>, rows: &mut Rows) {
    if let Some(limit) = now.limit {
        rows.push("memory.limit", limit as f64);
    }
    if let Some(memory) = now.memory {
        rows.push("memory.own", memory as f64);
    }
    if let Some(cores) = now.cpu_limit {
        rows.push("cpu.limit", cores);
    }
    for (metric, limit) in [
        ("disk.read_limit", now.disk_read_limit),
        ("disk.write_limit", now.disk_write_limit),
    ] {
        if let Some(limit) = limit {
            rows.push(metric, limit as f64);
        }
    }
    let Some((then, seconds)) = then else { return };
    for (metric, limit, of) in [
        ("disk.read", now.disk_read_limit, read as fn(&DiskBytes) -> u64),
        ("disk.write", now.disk_write_limit, written),
    ] {
        if limit.is_some() {
            rows.push(metric, of_busiest(now, then, of) as f64 / seconds);
        }
    }
    let mut push = |metric, now: Option<u64>, then: Option<u64>, unit: f64| {
        if let (Some(now), Some(then)) = (now, then) {
            rows.push(metric, now.saturating_sub(then) as f64 / unit);
        }
    };
    push("memory.oom_kills", now.oom_kills, then.oom_kills, 1.0);
    push("memory.reclaims", now.reclaims, then.reclaims, seconds);
    push(
        "memory.major_faults",
        now.major_faults,
        then.major_faults,
        seconds,
    );
    push(
        "cpu.throttled",
        now.throttled_us,
        then.throttled_us,
        1e6 * seconds,
    );
    for (metrics, now, then) in [
        (
            ["psi.memory.some", "psi.memory.full"],
            now.memory_pressure_us,
            then.memory_pressure_us,
        ),
        (
            ["psi.io.some", "psi.io.full"],
            now.io_pressure_us,
            then.io_pressure_us,
        ),
    ] {
        for ((metric, now), then) in metrics.into_iter().zip(now).zip(then) {
            push(metric, now, then, 1e6 * seconds);
        }
    }
}

fn read(disk: &DiskBytes) -> u64 {
    disk.read
}

fn written(disk: &DiskBytes) -> u64 {
    disk.written
}

/// The greatest number of bytes of one disk between two readings: each disk has the limit of its
/// own.
fn of_busiest(now: &GroupReading, then: &GroupReading, of: fn(&DiskBytes) -> u64) -> u64 {
    now.disks
        .iter()
        .map(|(disk, bytes)| of(bytes).saturating_sub(then.disks.get(disk).map_or(0, of)))
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_rates_and_what_the_kernel_does_not_report_is_left_out() {
        let reading = |reclaims, pressure, kills| GroupReading {
            limit: Some(64_000_000),
            memory: Some(40_000_000),
            reclaims: Some(reclaims),
            oom_kills: Some(kills),
            memory_pressure_us: [Some(pressure), None],
            ..GroupReading::default()
        };
        let (then, now) = (reading(10, 0, 1), reading(50, 500_000, 3));
        let mut rows = Rows::new(0, "service:db".into());
        push_reading(&now, Some((&then, 2.0)), &mut rows);
        let of = |metric| {
            rows.0
                .iter()
                .find(|row| row.metric == metric)
                .map(|row| row.value)
        };
        assert_eq!(of("memory.limit"), Some(64e6));
        assert_eq!(of("memory.own"), Some(40e6));
        assert_eq!(of("memory.reclaims"), Some(20.0));
        assert_eq!(of("memory.oom_kills"), Some(2.0));
        assert_eq!(of("psi.memory.some"), Some(0.25));
        assert_eq!(of("psi.memory.full"), None);
        assert_eq!(of("cpu.throttled"), None);
        assert_eq!(of("disk.read"), None);
    }

    #[test]
    fn the_rate_of_the_busiest_disk_is_that_of_its_limit() {
        let disks = |first, second| {
            let of = |read| DiskBytes { read, written: 900 };
            [("8:0".to_owned(), of(first)), ("8:16".to_owned(), of(second))].into()
        };
        let reading = |disks| GroupReading {
            disk_read_limit: Some(10_000),
            disks,
            ..GroupReading::default()
        };
        let then = reading(disks(1000, 4000));
        let now = reading(disks(3000, 5000));
        let mut rows = Rows::new(0, "service:db".into());
        push_reading(&now, Some((&then, 2.0)), &mut rows);
        let found: Vec<_> = rows.0.iter().map(|row| (row.metric, row.value)).collect();
        assert_eq!(found, [("disk.read_limit", 10_000.0), ("disk.read", 1000.0)]);
    }
}
