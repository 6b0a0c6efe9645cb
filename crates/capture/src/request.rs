//! The request to record a program or processes, and its checks.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::RequestError;

/// The recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// strace: all calls, at about 35 us each.
    Strace,
    /// The preload recorder: calls through libc, at a fraction of a microsecond each.
    Preload,
}

/// The program or the processes to record, and how.
#[derive(Debug, Clone)]
pub struct RecordRequest {
    /// The recorder.
    pub source: Source,
    /// The trace file.
    pub output: PathBuf,
    /// Whether an existing output is overwritten.
    pub force: bool,
    /// The ids of the processes to attach to; empty if a program is started.
    pub pids: Vec<u32>,
    /// The time after which strace is interrupted, s. None: when the program ends.
    pub seconds: Option<f64>,
    /// Whether the tracing cost is measured before and after the recording.
    pub calibrated: bool,
    /// Whether strace and the program share a core.
    pub one_core: bool,
    /// Program and arguments; empty if processes are attached to.
    pub command: Vec<OsString>,
    /// The first arguments with which this executable calls [`spin`](crate::spin) and prints the
    /// durations in ns, separated by spaces. The calibration of strace adds the number of rounds
    /// and the number of calls.
    pub spin: &'static [&'static str],
}

impl RecordRequest {
    /// Program and arguments, as text.
    pub(crate) fn words(&self) -> Vec<String> {
        let words = self.command.iter();
        words.map(|word| word.to_string_lossy().into_owned()).collect()
    }

    /// Checks all but the output.
    pub(crate) fn check(&self) -> Result<(), RequestError> {
        if let Some(program) = self.command.first() {
            check_program(program)?;
        }
        match self.source {
            Source::Strace => self.check_strace(),
            Source::Preload => self.check_preload(),
        }
    }

    fn check_strace(&self) -> Result<(), RequestError> {
        let has_ended = |pid: &&u32| !PathBuf::from(format!("/proc/{pid}")).exists();
        if let Some(&pid) = self.pids.iter().find(has_ended) {
            return Err(RequestError::NoProcess(pid));
        }
        if self.one_core && !self.pids.is_empty() {
            return Err(RequestError::OneCoreAttached);
        }
        Ok(())
    }

    fn check_preload(&self) -> Result<(), RequestError> {
        if self.one_core {
            return Err(RequestError::OneCoreSource);
        }
        if !self.pids.is_empty() {
            return Err(RequestError::PreloadAttached);
        }
        if self.seconds.is_some() {
            return Err(RequestError::PreloadDuration);
        }
        Ok(())
    }
}

/// Refuses a missing program before the calibration.
fn check_program(program: &OsStr) -> Result<(), RequestError> {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let exists = if program.as_bytes().contains(&b'/') {
        Path::new(program).exists()
    } else {
        std::env::split_paths(&search).any(|directory| directory.join(program).is_file())
    };
    if exists {
        Ok(())
    } else {
        Err(RequestError::NoProgram(program.into()))
    }
}
