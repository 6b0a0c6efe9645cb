//! Where jobs work: a directory each, beside the one for what they share; made, prepared and
//! cleaned.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use plimsoll_replay::check::{self, Beneath, Finding, What, Why};
use plimsoll_replay::names::Copy;

use super::Replay;

/// Name of the directory for what jobs share.
pub(super) const SHARED: &str = "shared";
const TESTER: &str = "{tester}";
/// Findings that a note tells.
const TOLD: usize = 3;

/// The directories of all jobs: DIR/{tester}, and DIR/shared.
pub(super) struct Places {
    above: PathBuf,
    /// Name of a job's own directory, with a place for the tester's number.
    last: String,
}

/// A directory that a replay works in.
pub(super) struct JobDirectory {
    pub(super) path: PathBuf,
    /// It was not there before.
    is_new: bool,
    /// Nor was the one that it stands in.
    is_above_new: bool,
}

impl Places {
    /// Of `root`, as experiment files have it. Makes nothing.
    pub(super) fn new(root: &Path, shares: bool) -> Result<Self, String> {
        let wrong = |what: &str| Err(format!("root: {}: {what}", root.display()));
        let (Some(above), Some(last)) = (root.parent(), root.file_name().and_then(|last| last.to_str()))
        else {
            return wrong("a directory such as /mnt/new/{tester} is expected");
        };
        if !last.contains(TESTER) || above.to_string_lossy().contains(TESTER) {
            return wrong(
                "the last part of the name, and no other, has to hold {tester}: each job needs a directory of its own",
            );
        }
        if !above.is_absolute() {
            return wrong("an absolute name is expected");
        }
        // Its name is a part of every name of the plan.
        if shares && last.contains('\0') {
            return wrong("a zero byte cannot stand in a name");
        }
        Ok(Self {
            above: above.to_owned(),
            last: last.to_owned(),
        })
    }

    /// Where all of them stand.
    pub(super) fn above(&self) -> &Path {
        &self.above
    }

    /// Name of a tester's own directory.
    pub(super) fn of(&self, tester: u32) -> String {
        self.last.replace(TESTER, &tester.to_string())
    }

    /// Makes a directory in `above`, and that too where it is missing: no more, as a wrong name, or
    /// a file system that is not mounted, is not to be filled.
    pub(super) fn make(&self, name: &str) -> Result<JobDirectory, String> {
        let is_above_new = make(&self.above)?;
        let path = self.above.join(name);
        let is_new = make(&path)?;
        Ok(JobDirectory {
            path,
            is_new,
            is_above_new,
        })
    }

    /// Takes away the directories that were made here and hold nothing any more: what else is in
    /// them is somebody else's, or was made by a replay that nothing was prepared for.
    pub(super) fn leave(&self, made: &[JobDirectory]) {
        for one in made.iter().filter(|one| one.is_new) {
            let _ = std::fs::remove_dir(&one.path);
        }
        if made.iter().any(|one| one.is_above_new) {
            let _ = std::fs::remove_dir(&self.above);
        }
    }
}

/// Takes away what was made for replays, and by them. What is left, for people.
pub(super) fn clean(made: &JobDirectory) -> Option<String> {
    let shown = made.path.display();
    let cleaned = match open(&made.path).map(|beneath| check::clean(&beneath)) {
        Ok(Ok(cleaned)) => cleaned,
        Ok(Err(error)) => return Some(format!("{shown} is not cleaned: {error}")),
        Err(error) => return Some(format!("{shown} is not cleaned: {error}")),
    };
    let left = cleaned.left;
    let first = left.first()?;
    let why = match &first.why {
        Why::Changed => "another process changed it",
        Why::NotEmpty => "it holds what is not ours",
        Why::Moved => "it was there before, under another name",
        Why::Refused(why) => why,
    };
    let path = String::from_utf8_lossy(&first.path.0);
    Some(format!(
        "{shown}: {} names are left, the first is {path}: {why}",
        left.len()
    ))
}

/// Whether it was not there before.
fn make(path: &Path) -> Result<bool, String> {
    match std::fs::create_dir(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(format!(
            "root: {} cannot be made, as the directory that it is to stand in is not there: make it, or mount what belongs there",
            path.display()
        )),
        Err(error) => Err(format!("root: {} cannot be made: {error}", path.display())),
    }
}

pub(super) fn open(path: &Path) -> Result<Beneath, String> {
    Beneath::open(path).map_err(|error| format!("root: {}: {error}", path.display()))
}

impl Replay {
    /// Makes a directory what the first call of a job needs, as far as that is asked for. Something
    /// to tell, where not all could be done.
    pub(super) fn make_ready(
        &self,
        beneath: &Beneath,
        directory: &Path,
        copy: Copy,
        seed: u64,
    ) -> Result<Option<String>, String> {
        let fill = self.fill(seed);
        if fill.is_none() && copy == Copy::Private {
            return Ok(None);
        }
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", directory.display());
        if fill.is_some() {
            check::reset(beneath).map_err(|error| failed(&error))?;
        }
        let options = check::Options {
            copy,
            may_write_shared: self.may_write_shared,
        };
        let report = self.trace.check(&self.table, beneath, options);
        let report = report.map_err(|error| failed(&error))?;
        let writes = |finding: &&Finding| finding.what == What::SharedIsWritten;
        if let Some(finding) = report.findings.iter().find(writes) {
            return Err(format!(
                "copies: {finding}: name it in `private`, or give `write_shared: true`"
            ));
        }
        let Some(fill) = fill else { return Ok(None) };
        let prepared = check::prepare(beneath, &report, check::PrepareOptions { fill, force: false });
        let prepared = prepared.map_err(|error| failed(&error))?;
        settle(directory).map_err(|error| failed(&error))?;
        Ok(left(directory, &prepared.left))
    }
}

/// What was written is on its way no more: else it would be written while jobs are measured.
fn settle(directory: &Path) -> std::io::Result<()> {
    let directory = File::open(directory)?;
    Ok(nix::unistd::syncfs(&directory)?)
}

fn left(directory: &Path, findings: &[Finding]) -> Option<String> {
    if findings.is_empty() {
        return None;
    }
    let shown: Vec<String> = findings.iter().take(TOLD).map(ToString::to_string).collect();
    let more = if findings.len() > TOLD { ", ..." } else { "" };
    Some(format!(
        "{}: {} things are not as the trace needs them, and are not ours to change: {}{more}",
        directory.display(),
        findings.len(),
        shown.join(", ")
    ))
}
