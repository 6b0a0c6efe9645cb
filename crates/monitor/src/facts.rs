//! Facts about this host.

use std::fs;

use plimsoll_model::{HostFacts, HostLimits};

use crate::parse;

/// Reads the facts about this host. A fact that cannot be read is 0 or empty. `engine` is the
/// version of the engine.
pub fn host_facts(engine: &str) -> HostFacts {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    HostFacts {
        hostname: text("/proc/sys/kernel/hostname"),
        cores: std::thread::available_parallelism().map_or(0, |cores| cores.get() as u32),
        memory_bytes: total_memory(&text("/proc/meminfo")),
        kernel: text("/proc/sys/kernel/osrelease"),
        architecture: std::env::consts::ARCH.to_owned(),
        limits: HostLimits {
            open_files: limit(libc::RLIMIT_NOFILE),
            processes: limit(libc::RLIMIT_NPROC),
            local_ports: local_ports(&text("/proc/sys/net/ipv4/ip_local_port_range")),
        },
        engine: engine.to_owned(),
    }
}

/// The hard limit, up to which an agent raises its soft limit. `u64::MAX`: no limit.
fn limit(resource: libc::__rlimit_resource_t) -> u64 {
    let mut limits = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limits` is valid and writable. If the call fails, it does not change `limits`.
    unsafe { libc::getrlimit(resource, &raw mut limits) };
    limits.rlim_max
}

fn total_memory(meminfo: &str) -> u64 {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn local_ports(range: &str) -> u64 {
    parse::net::local_ports(range).map_or(0, |(first, last)| u64::from(last - first) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_at_least_one_core_and_memory() {
        let facts = host_facts("1.2.3");
        assert!(facts.cores >= 1 && facts.memory_bytes > 1_000_000 && facts.limits.open_files > 0);
        assert!(!facts.kernel.is_empty() && facts.engine == "1.2.3");
    }

    #[test]
    fn a_malformed_file_of_proc_counts_as_0() {
        assert_eq!(total_memory("MemTotal:  2048 kB\nMemFree: 1 kB"), 2_097_152);
        assert_eq!((total_memory(""), total_memory("MemTotal: x")), (0, 0));
        assert_eq!(local_ports("32768\t60999"), 28_232);
        assert_eq!((local_ports("9 1"), local_ports("")), (0, 0));
    }
}
