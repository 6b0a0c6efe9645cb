//! Ends all descendants of this process.

use std::fs;
use std::time::{Duration, Instant};

/// Time between two looks at the descendants.
const INTERVAL: Duration = Duration::from_millis(5);

/// Kills all descendants of this process, of any process group, and waits for its own children.
/// Processes that a client program has started must not outlive the run.
pub fn end_children() {
    end_children_but(&[]);
}

/// As [`end_children`], except the children with the process ids `spared` and their descendants.
pub fn end_children_but(spared: &[u32]) {
    // Several rounds, because the children of a killed parent become children of this process if it
    // is their subreaper.
    for _ in 0..8 {
        let pids = descendants(std::process::id(), spared);
        if pids.is_empty() {
            return;
        }
        for &pid in &pids {
            // SAFETY: kill has no memory effects. The pid was that of a descendant a moment ago. It
            // can only be reused after the parent has waited for it, and the parent is this process
            // or a descendant.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        reap();
        std::thread::sleep(INTERVAL);
    }
}

/// Waits until this process has no descendants, for at most `max_wait`.
pub fn wait_for_children(max_wait: Duration) {
    let since = Instant::now();
    loop {
        reap();
        if descendants(std::process::id(), &[]).is_empty() || since.elapsed() >= max_wait {
            return;
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Reaps the children that have ended.
fn reap() {
    // SAFETY: a null status is allowed. Each call reaps one child that has ended, and never blocks.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
}

fn descendants(root: u32, spared: &[u32]) -> Vec<i32> {
    let mut pids: Vec<i32> = Vec::new();
    let mut queue = vec![root.cast_signed()];
    while let Some(pid) = queue.pop() {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
            continue;
        };
        for task in tasks.flatten() {
            let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            for child in text
                .split_ascii_whitespace()
                .filter_map(|word| word.parse::<i32>().ok())
            {
                if !pids.contains(&child) && !spared.contains(&child.cast_unsigned()) {
                    pids.push(child);
                    queue.push(child);
                }
            }
        }
    }
    pids
}
