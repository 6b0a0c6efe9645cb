//! Parsers of the files of `/proc`. A value that the kernel does not report is None, not zero.

pub(crate) mod net;

/// Times of one core, or of all cores, in ticks since boot: the fields of a `cpu` line of
/// `/proc/stat`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Time in user mode, including guests.
    pub user: u64,
    /// Time in user mode with low priority.
    pub nice: u64,
    /// Time in the kernel.
    pub system: u64,
    /// Idle time.
    pub idle: u64,
    /// Idle time with outstanding I/O.
    pub iowait: u64,
    /// Time in interrupts.
    pub irq: u64,
    /// Time in soft interrupts.
    pub softirq: u64,
    /// Time taken by the hypervisor.
    pub steal: u64,
}

/// Contents of `/proc/stat`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stat {
    /// Sum over all cores.
    pub all: CpuTimes,
    /// Number and times of each core that is online.
    pub cores: Vec<(u32, CpuTimes)>,
    /// Number of context switches since boot.
    pub switches: Option<u64>,
}

/// Parses `/proc/stat`. None without a `cpu` line.
pub fn stat(text: &str) -> Option<Stat> {
    let mut stat = Stat::default();
    let mut has_cpu = false;
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("cpu") => {
                stat.all = cpu_times(words);
                has_cpu = true;
            }
            Some("ctxt") => stat.switches = words.next().and_then(|word| word.parse().ok()),
            Some(word) => {
                if let Some(core) = word.strip_prefix("cpu").and_then(|core| core.parse().ok()) {
                    stat.cores.push((core, cpu_times(words)));
                }
            }
            None => {}
        }
    }
    has_cpu.then_some(stat)
}

/// Parses the numbers of a `cpu` line. Old kernels have fewer numbers; a missing one is 0.
fn cpu_times<'a>(words: impl Iterator<Item = &'a str>) -> CpuTimes {
    let mut numbers = words.map(|word| word.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    CpuTimes {
        user: next(),
        nice: next(),
        system: next(),
        idle: next(),
        iowait: next(),
        irq: next(),
        softirq: next(),
        steal: next(),
    }
}

/// Load average of the last minute in processes, from `/proc/loadavg`.
pub fn load(text: &str) -> Option<f64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// Number of tasks that run or are ready to run, from `/proc/loadavg`. The reader is one of them.
pub fn runnable(text: &str) -> Option<u64> {
    let field = text.split_ascii_whitespace().nth(3)?;
    field.split_once('/')?.0.parse().ok()
}

/// Contents of `/proc/meminfo`, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// `MemTotal`.
    pub total: u64,
    /// `MemAvailable`. On kernels before 3.14, which do not report it: free + buffers + cached.
    pub available: u64,
    /// `SwapTotal - SwapFree`.
    pub swap_used: u64,
}

/// Parses `/proc/meminfo`. None without `MemTotal`, or without available or free memory.
pub fn memory(text: &str) -> Option<Memory> {
    let field = |name: &str| {
        let line = text
            .lines()
            .find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))?;
        line.split_ascii_whitespace()
            .nth(1)?
            .parse::<u64>()
            .ok()?
            .checked_mul(1024)
    };
    let total = field("MemTotal")?;
    let available = field("MemAvailable")
        .or_else(|| Some(field("MemFree")? + field("Buffers").unwrap_or(0) + field("Cached").unwrap_or(0)))?;
    let swap_used = field("SwapTotal")
        .unwrap_or(0)
        .saturating_sub(field("SwapFree").unwrap_or(0));
    Some(Memory {
        total,
        available,
        swap_used,
    })
}

/// One line of `/proc/diskstats`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Name of the device or partition.
    pub name: String,
    /// Bytes read since boot.
    pub read: u64,
    /// Bytes written since boot.
    pub written: u64,
    /// Time since boot with I/O in progress, ms.
    pub busy_ms: u64,
    /// Requests completed since boot.
    pub completed: u64,
    /// Times of these requests, from their start to their end, together, ms.
    pub waited_ms: u64,
    /// Integral of the number of requests in progress since boot, ms.
    pub queued_ms: u64,
}

/// Parses `/proc/diskstats`. The result contains devices and partitions; the caller selects the
/// devices.
pub fn disks(text: &str) -> Vec<Disk> {
    /// Unit of the file for all devices, in bytes.
    const SECTOR: u64 = 512;
    text.lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let number = |index: usize| words.get(index)?.parse::<u64>().ok();
            Some(Disk {
                name: (*words.get(2)?).to_owned(),
                read: number(5)?.wrapping_mul(SECTOR),
                written: number(9)?.wrapping_mul(SECTOR),
                busy_ms: number(12)?,
                completed: number(3)?.wrapping_add(number(7)?),
                waited_ms: number(6)?.wrapping_add(number(10)?),
                queued_ms: number(13)?,
            })
        })
        .collect()
}

/// Stall time since boot in µs, from the line that begins with `kind` (`some` or `full`) of a file
/// in `/proc/pressure`.
pub fn pressure(text: &str, kind: &str) -> Option<u64> {
    let line = text
        .lines()
        .find(|line| line.split_ascii_whitespace().next() == Some(kind))?;
    line.split_ascii_whitespace()
        .find_map(|word| word.strip_prefix("total="))?
        .parse()
        .ok()
}

/// The fields of `/proc/PID/stat` that the monitor uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Name of the program, at most 15 bytes.
    pub name: String,
    /// State: R, S, D, Z, ... (proc(5)).
    pub state: char,
    /// PID of the parent.
    pub parent: u32,
    /// User time in ticks: of the process, and of its reaped children.
    pub user: (u64, u64),
    /// System time in ticks: of the process, and of its reaped children.
    pub system: (u64, u64),
    /// Number of threads.
    pub threads: u64,
    /// Start time in ticks since boot. PID and start time together identify a process.
    pub started: u64,
    /// Resident memory in pages.
    pub rss_pages: u64,
}

/// Parses `/proc/PID/stat` or `/proc/PID/task/TID/stat`. The name may contain spaces and brackets.
pub fn process(text: &str) -> Option<Process> {
    let open = text.find('(')?;
    let close = text.rfind(')')?;
    let name = text.get(open + 1..close)?.to_owned();
    let words: Vec<&str> = text.get(close + 1..)?.split_ascii_whitespace().collect();
    // Field n of proc(5) is words[n - 3]: the first two fields precede the bracket.
    let number = |field: usize| {
        words
            .get(field - 3)?
            .parse::<i64>()
            .ok()
            .map(|value| value.max(0) as u64)
    };
    Some(Process {
        name,
        state: words.first()?.chars().next()?,
        parent: number(4)? as u32,
        user: (number(14)?, number(16)?),
        system: (number(15)?, number(17)?),
        threads: number(20)?,
        started: number(22)?,
        rss_pages: number(24)?,
    })
}

/// Time for which a thread ran on a core in ns, from `/proc/PID/task/TID/schedstat`.
pub fn on_core_ns(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// Time for which a thread was ready to run and waited for a core in ns, from the same file.
pub fn waited_ns(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Bytes read from storage and written to storage, from `/proc/PID/io`.
pub fn io(text: &str) -> Option<(u64, u64)> {
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
    };
    Some((field("read_bytes:")?, field("write_bytes:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_of_a_current_kernel_has_all_fields() {
        let text = "cpu  100 2 30 4000 5 6 7 8 0 0\ncpu0 60 1 20 2000 3 4 5 6 0 0\ncpu3 40 1 10 2000 2 2 2 2 0 0\n\
                    intr 123 4 5\nctxt 987654\nbtime 1700000000\n";
        let stat = stat(text).unwrap();
        let all = CpuTimes {
            user: 100,
            nice: 2,
            system: 30,
            idle: 4000,
            iowait: 5,
            irq: 6,
            softirq: 7,
            steal: 8,
        };
        assert_eq!(stat.all, all);
        assert_eq!(stat.cores.iter().map(|core| core.0).collect::<Vec<_>>(), [0, 3]);
        assert_eq!(stat.switches, Some(987_654));
    }

    #[test]
    fn stat_of_an_old_kernel_has_fewer_fields() {
        assert_eq!(
            stat("cpu 1 2 3 4\n").unwrap().all,
            CpuTimes {
                user: 1,
                nice: 2,
                system: 3,
                idle: 4,
                ..CpuTimes::default()
            }
        );
        assert_eq!(stat(""), None);
    }

    #[test]
    fn available_memory_is_computed_if_the_kernel_does_not_report_it() {
        let text = "MemTotal:  1000 kB\nMemFree: 100 kB\nMemAvailable:  600 kB\nBuffers: 1 kB\nCached: 2 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\n";
        let expected = Memory {
            total: 1_024_000,
            available: 614_400,
            swap_used: 30_720,
        };
        assert_eq!(memory(text), Some(expected));
        let old = text.replace("MemAvailable", "SomethingElse");
        assert_eq!(memory(&old).unwrap().available, 103 * 1024);
        assert_eq!(memory("nothing"), None);
    }

    #[test]
    fn disks_are_parsed_and_other_lines_skipped() {
        let text = "   8       0 sda 100 5 2048 30 200 6 4096 40 0 77 70 0 0 0 0 0 0\n   8       1 sda1 1 2 3 4 5 6 7 8 9 10 11\n bad line\n";
        let disks = disks(text);
        assert_eq!(
            disks[0],
            Disk {
                name: "sda".into(),
                read: 1_048_576,
                written: 2_097_152,
                busy_ms: 77,
                completed: 300,
                waited_ms: 70,
                queued_ms: 70,
            }
        );
        assert_eq!(disks.len(), 2);
    }

    #[test]
    fn pressure_is_parsed() {
        let text = "some avg10=0.00 avg60=0.12 avg300=0.30 total=123456\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=789\n";
        assert_eq!(pressure(text, "some"), Some(123_456));
        assert_eq!(pressure(text, "full"), Some(789));
        assert_eq!(pressure("", "some"), None);
    }

    #[test]
    fn the_name_of_a_process_may_contain_brackets_and_spaces() {
        let text = "4242 (evil) R 1 (x) S 17 4242 4242 0 -1 4194560 1 2 3 4 500 60 7 8 20 0 9 0 123456 1000000 250 18446744073709551615 1";
        let parsed = process(text).unwrap();
        assert_eq!(parsed.name, "evil) R 1 (x");
        assert_eq!(
            (parsed.state, parsed.parent, parsed.user, parsed.system),
            ('S', 17, (500, 7), (60, 8))
        );
        assert_eq!(
            (parsed.threads, parsed.started, parsed.rss_pages),
            (9, 123_456, 250)
        );
        for broken in ["", "1", "1 (", "1 (a", "1 (a)", "1 (a) S", ")(", "1 (a) S 1 2 3"] {
            assert_eq!(process(broken), None, "{broken}");
        }
    }

    #[test]
    fn load_schedstat_and_io_are_parsed() {
        assert_eq!(load("0.52 0.58 0.59 1/467 12345\n"), Some(0.52));
        assert_eq!(runnable("0.52 0.58 0.59 3/467 12345\n"), Some(3));
        assert_eq!(runnable("0.52 0.58\n"), None);
        assert_eq!(on_core_ns("123456789 55 7\n"), Some(123_456_789));
        assert_eq!(waited_ns("123456789 55 7\n"), Some(55));
        assert_eq!(
            io("rchar: 1\nwchar: 2\nsyscr: 3\nread_bytes: 4096\nwrite_bytes: 8192\n"),
            Some((4096, 8192))
        );
        assert_eq!(io("rchar: 1\n"), None);
    }
}
