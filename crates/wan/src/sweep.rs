//! Ends every process in the network namespace of a host, independent of how it entered.
//!
//! The network namespace is the only property that all these processes share: an sshd, its
//! sessions, their background processes, and commands of `exec`, which descend from the shell of
//! a user. Rejected: a PID namespace, whose end would end all processes at once. Processes in it
//! would have other numbers than outside, and /proc would have to be mounted again. The hosts would
//! then no longer share the file system of the machine.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::namespace::Identity;

const POLL: Duration = Duration::from_millis(10);
/// Time after SIGKILL. Only a process that hangs in the kernel takes longer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Ends all processes in the given network namespaces: SIGTERM, and SIGKILL after `grace`. Calls
/// `reap` in every round, so that a caller that is the parent can reap its children. Returns the
/// processes that still run after [`TIMEOUT`]: those that hang in the kernel.
pub fn end_all(inside: &HashSet<Identity>, grace: Duration, mut reap: impl FnMut()) -> Vec<Pid> {
    let kill_after = Instant::now() + grace;
    let deadline = kill_after + TIMEOUT;
    let mut terminated = HashSet::new();
    loop {
        reap();
        let running = processes(inside);
        let now = Instant::now();
        if running.is_empty() || now > deadline {
            return running;
        }
        for pid in running {
            // The process was found microseconds ago. Its number is not reused that soon, because
            // the kernel assigns process numbers in a cycle.
            if now > kill_after {
                let _ = kill(pid, Signal::SIGKILL);
            } else if terminated.insert(pid) {
                let _ = kill(pid, Signal::SIGTERM);
            }
        }
        std::thread::sleep(POLL);
    }
}

/// Processes in one of these network namespaces. Processes whose namespace this user may not read
/// are not in a testbed of this user.
fn processes(inside: &HashSet<Identity>) -> Vec<Pid> {
    let Ok(all) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    all.flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            fs::metadata(format!("/proc/{pid}/ns/net"))
                .is_ok_and(|metadata| inside.contains(&(metadata.dev(), metadata.ino())))
        })
        .map(Pid::from_raw)
        .collect()
}
