//! The end of everything below this process.

use std::fs;

/// Kills all descendants of this process, whatever process groups they are in, and waits for those
/// that are its own children. What a client program has started must not outlive the run.
pub fn end_children() {
    end_children_but(&[]);
}

/// As [`end_children`], but leaves these children of ours, and what is below them, alone.
pub fn end_children_but(spared: &[u32]) {
    // Several rounds, because a killed parent hands its children to us where we are their
    // subreaper.
    for _ in 0..8 {
        let pids = descendants(std::process::id(), spared);
        if pids.is_empty() {
            return;
        }
        for &pid in &pids {
            // SAFETY: kill has no memory effects. The pid was a descendant a moment ago and cannot
            // have been given to anybody else unless it was waited for, which only its parent, one
            // of us, does.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        // SAFETY: a null status is allowed. Each call reaps one child that has ended; it never
        // blocks.
        while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn descendants(root: u32, spared: &[u32]) -> Vec<i32> {
    let mut found: Vec<i32> = Vec::new();
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
                if !found.contains(&child) && !spared.contains(&child.cast_unsigned()) {
                    found.push(child);
                    queue.push(child);
                }
            }
        }
    }
    found
}
