//! The end of everything that runs inside: whoever is in the network of one of the hosts, however
//! it came there.
//!
//! The networks are the one mark that every way in leaves: an sshd, its sessions, what they left in
//! the background, and commands that came in by `exec` and descend from a shell of somebody's.
//! Rejected: a PID namespace, whose end ends all at once: processes in it would have other numbers
//! than outside, and /proc would have to be mounted anew, which takes the shared file system apart.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::namespace::Identity;

const POLL: Duration = Duration::from_millis(10);
/// After the signal that nobody can refuse. Only a process that hangs in the kernel takes longer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Ends all processes inside, politely for `grace`, then not. `reap` is called meanwhile, for a
/// parent among us to bury its own. Gives what is left after all patience: none, or what hangs in
/// the kernel.
pub fn end_all(inside: &HashSet<Identity>, grace: Duration, mut reap: impl FnMut()) -> Vec<Pid> {
    let polite = Instant::now() + grace;
    let last = polite + TIMEOUT;
    let mut told = HashSet::new();
    loop {
        reap();
        let left = processes(inside);
        let now = Instant::now();
        if left.is_empty() || now > last {
            return left;
        }
        for pid in left {
            // The number may have been reused since we looked, microseconds ago: numbers go round,
            // they do not come back at once.
            if now > polite {
                let _ = kill(pid, Signal::SIGKILL);
            } else if told.insert(pid) {
                let _ = kill(pid, Signal::SIGTERM);
            }
        }
        std::thread::sleep(POLL);
    }
}

/// Processes whose network is one of these. Those that we may not look at are not ours.
fn processes(inside: &HashSet<Identity>) -> Vec<Pid> {
    let Ok(all) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    all.flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            fs::metadata(format!("/proc/{pid}/ns/net"))
                .is_ok_and(|about| inside.contains(&(about.dev(), about.ino())))
        })
        .map(Pid::from_raw)
        .collect()
}
