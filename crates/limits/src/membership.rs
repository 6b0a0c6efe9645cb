//! A process that runs within limits of its own.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;

use crate::hierarchy::hierarchies_of;
use crate::{Group, LimitError, Limits, enter};

/// This process, with all its threads, as a member of a group. When it is dropped, the process
/// returns to its former groups, and the group is removed.
#[derive(Debug)]
pub struct Membership {
    /// None only while it is dropped.
    group: Option<Group>,
    /// The entrances of the former groups.
    exits: Vec<OwnedFd>,
}

impl Membership {
    /// Creates a group with these limits, and makes this process its only member. Memory that the
    /// process has allocated before does not count.
    ///
    /// # Errors
    /// [`LimitError`]: the process is then in its former groups.
    pub fn new(limits: &Limits) -> Result<Self, LimitError> {
        let former = hierarchies_of("self")?;
        let group = Group::create(limits)?;
        let mut exits = Vec::new();
        for (path, _) in group.paths() {
            let known = former.iter().filter(|one| path.starts_with(&one.root));
            // The mount with the longest path: one hierarchy may be mounted within another.
            let Some(one) = known.max_by_key(|one| one.root.as_os_str().len()) else {
                continue;
            };
            exits.push(open(&one.own).map_err(LimitError::io(format!(
                "a process cannot return to the control group {}",
                one.own.display()
            )))?);
        }
        let entrances = group
            .entrances()
            .map_err(LimitError::io("a control group cannot be entered"))?;
        let membership = Self {
            group: Some(group),
            exits,
        };
        enter(&entrances).map_err(LimitError::io("a control group cannot be entered"))?;
        Ok(membership)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let has_left = enter(&self.exits).is_ok();
        let group = self.group.take();
        if !has_left {
            // The removal would kill this process as a member. `sweep` removes the group later.
            std::mem::forget(group);
        }
    }
}

fn open(group: &std::path::Path) -> io::Result<OwnedFd> {
    fs::OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_CLOEXEC)
        .open(group.join("cgroup.procs"))
        .map(OwnedFd::from)
}
