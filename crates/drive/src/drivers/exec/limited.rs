//! Limits of client programs: the programs of each tester run in a control group of their own.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_limits::{Group, Limits, Resource};

use super::error::ExecError;
use super::program::ProgramExit;

/// The group of the programs of one tester.
pub(super) struct ProgramGroup {
    group: Group,
    entrances: Arc<Vec<OwnedFd>>,
    kills: u64,
}

impl ProgramGroup {
    /// None without limits.
    pub(super) fn new(limits: &Limits) -> Result<Option<Self>, ExecError> {
        if limits.is_empty() {
            return Ok(None);
        }
        let group = Group::create(limits).map_err(|error| ExecError::Limits(error.to_string()))?;
        let entrances = group
            .entrances()
            .map_err(|error| ExecError::Limits(error.to_string()))?;
        Ok(Some(Self {
            group,
            entrances: Arc::new(entrances),
            kills: 0,
        }))
    }

    /// Lets the program of `command` start as a member.
    pub(super) fn admit(&self, command: &mut Command) {
        let entrances = Arc::clone(&self.entrances);
        // SAFETY: only `write` is called between fork and exec. It is async-signal-safe.
        unsafe {
            command.pre_exec(move || plimsoll_limits::enter(&entrances));
        }
    }

    /// Whether the kernel has killed a program for lack of memory since the last call.
    fn take_kills(&mut self) -> bool {
        let kills = self.group.oom_kills();
        std::mem::replace(&mut self.kills, kills) < kills
    }
}

/// How a program ended, as a code: `out of memory` if the kernel killed it, or one of its children,
/// at the limit.
pub(super) fn word(exit: &ProgramExit, group: Option<&mut ProgramGroup>) -> String {
    if group.is_some_and(ProgramGroup::take_kills) {
        return "out of memory".to_owned();
    }
    exit.word()
}

/// Tests on this host that such limits hold. Once per process and resource.
pub(super) fn prove(limits: &Limits, directory: Option<&Path>) -> Result<(), ExecError> {
    static PROVEN: Mutex<Vec<Resource>> = Mutex::new(Vec::new());
    let mut proven = PROVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let wanted: Vec<Resource> = plimsoll_limits::resources(limits)
        .into_iter()
        .filter(|resource| !proven.contains(resource))
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    plimsoll_limits::sweep();
    let own = PathBuf::from("/proc/self/exe");
    let program = [
        std::fs::read_link(&own).unwrap_or(own),
        "limits".into(),
        "load".into(),
    ];
    let current = std::env::current_dir().unwrap_or_else(|_| std::env::temp_dir());
    let proofs = plimsoll_limits::self_test(&program, &wanted, directory.unwrap_or(&current));
    if let Some(proof) = proofs.into_iter().find(|proof| !proof.reason.is_empty()) {
        return Err(ExecError::Limits(format!(
            "{} cannot be limited on this host: {}",
            proof.resource, proof.reason
        )));
    }
    proven.extend(wanted);
    Ok(())
}
