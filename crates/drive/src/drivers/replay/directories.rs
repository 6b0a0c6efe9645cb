//! The directories of jobs: one for each job, and one for the files that they share. They are
//! created, prepared and cleaned.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use plimsoll_replay::check::{self, Beneath, Finding, What, Why};
use plimsoll_replay::names::Copy;

use super::{Replay, ReplayError};

/// Name of the directory for the files that jobs share.
pub(super) const SHARED: &str = "shared";
const TESTER: &str = "{tester}";
/// Maximum number of findings in a note.
const MAX_FINDINGS: usize = 3;

/// The directories of all jobs: PARENT/{tester} and PARENT/shared.
pub(super) struct JobDirectories {
    parent: PathBuf,
    /// Template for the name of a job's own directory, with `{tester}`.
    template: String,
}

/// A directory in which a replay works.
pub(super) struct JobDirectory {
    pub(super) path: PathBuf,
    /// Whether the directory was created here.
    is_new: bool,
    /// Whether its parent was created here.
    is_parent_new: bool,
}

impl JobDirectories {
    /// The directories for `root`, as in the experiment file. Creates nothing.
    pub(super) fn new(root: &Path, shares: bool) -> Result<Self, ReplayError> {
        let wrong = |expected| {
            Err(ReplayError::RootForm {
                expected,
                found: root.to_owned(),
            })
        };
        let (Some(parent), Some(template)) = (root.parent(), root.file_name().and_then(|name| name.to_str()))
        else {
            return wrong("a directory such as /mnt/new/{tester}");
        };
        if !template.contains(TESTER) || parent.to_string_lossy().contains(TESTER) {
            return wrong(
                "{tester} in the last part of the path and nowhere else, because each job needs its \
                 own directory",
            );
        }
        if !parent.is_absolute() {
            return wrong("an absolute path");
        }
        // The name is a part of every name of the plan.
        if shares && template.contains('\0') {
            return wrong("a path without a zero byte");
        }
        Ok(Self {
            parent: parent.to_owned(),
            template: template.to_owned(),
        })
    }

    /// The directory that contains all of them.
    pub(super) fn parent(&self) -> &Path {
        &self.parent
    }

    /// Name of a tester's own directory.
    pub(super) fn name(&self, tester: u32) -> String {
        self.template.replace(TESTER, &tester.to_string())
    }

    /// Creates a directory in the parent, and the parent if it is missing. It creates no further
    /// directories, so that nothing is written if the path is wrong or a file system is not
    /// mounted.
    pub(super) fn create(&self, name: &str) -> Result<JobDirectory, ReplayError> {
        let is_parent_new = create(&self.parent)?;
        let path = self.parent.join(name);
        let is_new = create(&path)?;
        Ok(JobDirectory {
            path,
            is_new,
            is_parent_new,
        })
    }

    /// Removes the directories that were created here and are empty. Other files in them belong to
    /// another process, or to a replay without preparation.
    pub(super) fn remove_empty(&self, created: &[JobDirectory]) {
        for directory in created.iter().filter(|directory| directory.is_new) {
            let _ = std::fs::remove_dir(&directory.path);
        }
        if created.iter().any(|directory| directory.is_parent_new) {
            let _ = std::fs::remove_dir(&self.parent);
        }
    }
}

/// Removes the files that were created for replays and by them. Returns a message for the user if
/// something remains.
pub(super) fn clean(directory: &JobDirectory) -> Option<String> {
    let path = directory.path.display();
    let cleaned = match open(&directory.path).map(|beneath| check::clean(&beneath)) {
        Ok(Ok(cleaned)) => cleaned,
        Ok(Err(error)) => return Some(format!("{path} was not cleaned: {error}")),
        Err(error) => return Some(format!("{path} was not cleaned: {error}")),
    };
    let remaining = cleaned.left;
    let first = remaining.first()?;
    let why = match &first.why {
        Why::Changed => "another process changed it",
        Why::NotEmpty => "it contains files of another process",
        Why::Moved => "it existed before, under another name",
        Why::Refused(why) => why,
    };
    let name = String::from_utf8_lossy(&first.path.0);
    Some(format!(
        "{path}: {} names were not removed, the first is {name}: {why}",
        remaining.len()
    ))
}

/// Creates a directory. Returns whether it did not exist.
fn create(path: &Path) -> Result<bool, ReplayError> {
    match std::fs::create_dir(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(ReplayError::NoParent(path.to_owned())),
        Err(source) => Err(ReplayError::Create {
            directory: path.to_owned(),
            source,
        }),
    }
}

pub(super) fn open(path: &Path) -> Result<Beneath, ReplayError> {
    Beneath::open(path).map_err(|source| ReplayError::Open {
        directory: path.to_owned(),
        source,
    })
}

impl Replay {
    /// Prepares a directory for a job, as the setting `prepare` says. Returns a message for the
    /// user if a part could not be prepared.
    pub(super) fn prepare_directory(
        &self,
        beneath: &Beneath,
        directory: &Path,
        copy: Copy,
        seed: u64,
    ) -> Result<Option<String>, ReplayError> {
        let fill = self.fill(seed);
        if fill.is_none() && copy == Copy::Private {
            return Ok(None);
        }
        let not_prepared = |source| ReplayError::Prepare {
            directory: directory.to_owned(),
            source,
        };
        if fill.is_some() {
            check::reset(beneath).map_err(not_prepared)?;
        }
        let options = check::Options {
            copy,
            may_write_shared: self.may_write_shared,
        };
        let report = self.trace.check(&self.table, beneath, options);
        let report = report.map_err(|source| ReplayError::Check {
            directory: directory.to_owned(),
            source,
        })?;
        let is_written = |finding: &&Finding| finding.what == What::SharedIsWritten;
        if let Some(finding) = report.findings.iter().find(is_written) {
            return Err(ReplayError::SharedIsWritten(Box::new(finding.clone())));
        }
        let Some(fill) = fill else { return Ok(None) };
        let prepared = check::prepare(beneath, &report, check::PrepareOptions { fill, force: false });
        let prepared = prepared.map_err(not_prepared)?;
        sync(directory).map_err(|source| ReplayError::Sync {
            directory: directory.to_owned(),
            source,
        })?;
        Ok(describe(directory, &prepared.left))
    }
}

/// Writes the file system of `directory` to disk. Otherwise the kernel would write it while jobs
/// are measured.
fn sync(directory: &Path) -> std::io::Result<()> {
    let directory = File::open(directory)?;
    Ok(nix::unistd::syncfs(&directory)?)
}

/// Message for the user about findings that could not be prepared; none without findings.
fn describe(directory: &Path, findings: &[Finding]) -> Option<String> {
    if findings.is_empty() {
        return None;
    }
    let texts: Vec<String> = findings
        .iter()
        .take(MAX_FINDINGS)
        .map(ToString::to_string)
        .collect();
    let more = if findings.len() > MAX_FINDINGS {
        ", ..."
    } else {
        ""
    };
    Some(format!(
        "{}: {} files are not as the trace needs them, and were not changed, because Plimsoll did not create \
         them: {}{more}",
        directory.display(),
        findings.len(),
        texts.join(", ")
    ))
}
