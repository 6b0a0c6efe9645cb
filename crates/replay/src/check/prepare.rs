//! `--prepare`: makes the files beneath a root that a replay needs.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::stat::futimens;
use nix::sys::time::{TimeSpec, TimeValLike};

use super::beneath::Beneath;
use super::disk::{Disk, Kind};
use super::fill::{Fill, Filler};
use super::manifest::{Create, EnlargedFile, Manifest, ManifestEntry, Name, State};
use super::report::{Finding, Report, Requirements, What};

/// Temporary name of a file until it is complete. A file under its own name is therefore complete,
/// or belongs to another process.
pub(super) const MAKING: &[u8] = b".plimsoll-making";

/// Options of a preparation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrepareOptions {
    /// Contents of the files.
    pub fill: Fill,
    /// Also removes names that must not exist and were not made here, with everything beneath them.
    /// They are not restored.
    pub force: bool,
}

/// Result of a preparation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrepareResult {
    /// Number of files, directories and links that were made.
    pub made: usize,
    /// Number of files that were enlarged.
    pub grown: usize,
    /// Bytes of the new files, and bytes by which files were enlarged.
    pub bytes: u64,
    /// Number of names that were removed, including everything beneath them.
    pub removed: usize,
    /// Findings that remain.
    pub left: Vec<Finding>,
}

/// Reason why a root could not be prepared or cleaned.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// A system call failed.
    #[error(
        "cannot {action} {path} beneath the root: {source}. Fix the cause and repeat the command; the \
         manifest lists the names that were made so far"
    )]
    Io {
        /// Verb of the action.
        action: &'static str,
        /// Path beneath the root.
        path: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file system has too little free space.
    #[error(
        "the preparation needs {needed} B beneath the root, but {free} B are free. Choose another root, \
         or sparse files"
    )]
    Space {
        /// Needed space, bytes.
        needed: u64,
        /// Free space, bytes.
        free: u64,
    },
    /// The manifest is invalid.
    #[error(
        "`.plimsoll-prepared.json` beneath the root, which lists the names that were made, is invalid: \
         {0}. Restore it from a backup, or remove it and the names by hand"
    )]
    Manifest(#[from] serde_json::Error),
    /// The manifest has the format of another version of Plimsoll.
    #[error(
        "`.plimsoll-prepared.json` beneath the root has format {0:?}, this program reads {known:?}. \
         Use the version that wrote it",
        known = super::manifest::FORMAT
    )]
    Format(String),
}

impl PrepareError {
    pub(super) fn io(action: &'static str, path: &[u8], source: io::Error) -> Self {
        Self::Io {
            action,
            path: String::from_utf8_lossy(path).into_owned(),
            source,
        }
    }
}

/// Makes the files that are missing according to a report, if they may be made here. Findings that
/// remain are returned. The manifest is written first.
///
/// Before each repetition: [`super::reset`], then [`super::check`], then this.
pub fn prepare(
    root: &Beneath,
    report: &Report,
    wanted: PrepareOptions,
) -> Result<PrepareResult, PrepareError> {
    let manifest = match Manifest::read(root)? {
        Some(manifest) => manifest,
        None => Manifest::new(now_ns()),
    };
    let mut plan = Plan::new(root, manifest, wanted);
    for (index, finding) in report.findings.iter().enumerate() {
        plan.take(index, finding);
    }
    plan.add_creates(report)?;
    plan.perform()
}

/// The changes that are to be made. They are written to the manifest before they are made.
struct Plan<'a> {
    root: &'a Beneath,
    wanted: PrepareOptions,
    manifest: Manifest,
    /// Entries of the manifest, by path.
    ours: BTreeMap<Box<[u8]>, ManifestEntry>,
    remove: Vec<Box<[u8]>>,
    /// Directories before their contents, in the order of the findings.
    make: Vec<Box<[u8]>>,
    grow: Vec<(Box<[u8]>, u64, u64)>,
    /// Indices of findings that remain.
    blocked: HashSet<usize>,
    left: Vec<Finding>,
}

impl<'a> Plan<'a> {
    fn new(root: &'a Beneath, mut manifest: Manifest, wanted: PrepareOptions) -> Self {
        let made = std::mem::take(&mut manifest.made).into_iter();
        Self {
            root,
            wanted,
            ours: made.map(|made| (made.path.0.clone(), made)).collect(),
            manifest,
            remove: Vec::new(),
            make: Vec::new(),
            grow: Vec::new(),
            blocked: HashSet::new(),
            left: Vec::new(),
        }
    }

    fn take(&mut self, index: usize, finding: &Finding) {
        let is_blocked = finding.within.is_some_and(|above| self.blocked.contains(&above));
        let may_remove = self.wanted.force || self.ours.contains_key(&finding.path);
        match &finding.what {
            What::Missing(need) if !is_blocked => self.make(finding, need),
            What::TooSmall { has, needs } if !is_blocked => self.grow(finding, *has, *needs),
            What::MustNotExist if may_remove => self.remove(finding),
            What::WrongKind { needs, .. } if may_remove && !is_blocked => {
                self.remove(finding);
                self.make(finding, needs);
            }
            _ => {
                self.blocked.insert(index);
                self.left.push(finding.clone());
            }
        }
    }

    fn remove(&mut self, finding: &Finding) {
        self.ours.remove(&finding.path);
        self.remove.push(finding.path.clone());
    }

    fn make(&mut self, finding: &Finding, need: &Requirements) {
        let made = ManifestEntry {
            path: Name(finding.path.clone()),
            kind: need.kind,
            size: need.size,
            mode: need.mode,
            target: need.target.clone().map(Name),
            changed: finding.changed,
        };
        self.ours.insert(finding.path.clone(), made);
        self.make.push(finding.path.clone());
    }

    fn grow(&mut self, finding: &Finding, has: u64, needs: u64) {
        self.grow.push((finding.path.clone(), has, needs));
        if let Some(made) = self.ours.get_mut(&finding.path) {
            made.size = needs;
            made.changed |= finding.changed;
            return;
        }
        let mut known = self.manifest.grown.iter_mut();
        match known.find(|grown| grown.path.0 == finding.path) {
            Some(grown) => grown.to = needs,
            None => self.manifest.grown.push(EnlargedFile {
                path: Name(finding.path.clone()),
                from: has,
                to: needs,
            }),
        }
    }

    /// Adds the names that the trace makes to the manifest. Names that exist now were not made by
    /// it.
    fn add_creates(&mut self, report: &Report) -> Result<(), PrepareError> {
        let known = self.manifest.creates.iter().map(|create| create.path.0.clone());
        let known: HashSet<Box<[u8]>> = known.collect();
        let removed: HashSet<&[u8]> = self.remove.iter().map(|path| &**path).collect();
        for created in &report.creates {
            let path = &created.path;
            if known.contains(path) || self.ours.contains_key(path) {
                continue;
            }
            let stat = self.root.stat(path);
            let stat = stat.map_err(|source| PrepareError::io("check", path, source))?;
            if stat.is_some() && !removed.contains(&**path) {
                continue;
            }
            let of = created.of.clone().filter(|of| !self.ours.contains_key(of));
            self.manifest.creates.push(Create {
                path: Name(path.clone()),
                of: of.map(Name),
            });
        }
        Ok(())
    }

    fn perform(mut self) -> Result<PrepareResult, PrepareError> {
        let grows: u64 = self.grow.iter().map(|(_, has, needs)| needs - has).sum();
        let makes: u64 = self.make.iter().map(|path| self.ours[path].size).sum();
        let mut result = PrepareResult {
            removed: 0,
            made: self.make.len(),
            grown: self.grow.len(),
            bytes: grows + makes,
            left: std::mem::take(&mut self.left),
        };
        if self.wanted.fill != Fill::Sparse {
            let free = self
                .root
                .free()
                .map_err(|source| PrepareError::io("read the free space of", b".", source))?;
            if free < result.bytes {
                return Err(PrepareError::Space {
                    needed: result.bytes,
                    free,
                });
            }
        }
        self.manifest.state = State::Making;
        self.manifest.made = self.ours.values().cloned().collect();
        self.manifest.write(self.root)?;
        for path in &self.remove {
            let removed = if self.wanted.force {
                remove_tree(self.root, path)
            } else {
                remove_one(self.root, path)
            };
            result.removed += removed.map_err(|source| PrepareError::io("remove", path, source))?;
        }
        let mut filler = Filler::new(self.wanted.fill);
        for path in &self.make {
            let made = &self.ours[path];
            make_one(self.root, made, self.manifest.stamp_ns, &mut filler)
                .map_err(|source| PrepareError::io("make", path, source))?;
        }
        for (path, has, needs) in &self.grow {
            let stamp = self.ours.contains_key(path).then_some(self.manifest.stamp_ns);
            grow_one(self.root, path, (*has, *needs), stamp, &mut filler)
                .map_err(|source| PrepareError::io("enlarge", path, source))?;
        }
        self.set_modes()?;
        self.manifest.state = State::Ready;
        self.manifest.write(self.root)?;
        Ok(result)
    }

    /// Sets the permissions of all names that were made, because a replay may have changed them.
    /// The deepest are first, because a directory may forbid access to its contents.
    fn set_modes(&self) -> Result<(), PrepareError> {
        let mut made: Vec<(&ManifestEntry, u32)> = self
            .manifest
            .made
            .iter()
            .filter_map(|made| Some((made, made.mode?)))
            .filter(|(made, _)| made.kind != Kind::Link)
            .collect();
        made.sort_by_key(|(made, _)| std::cmp::Reverse(depth(&made.path.0)));
        for (made, mode) in made {
            let path = &made.path.0;
            let failed = |source| PrepareError::io("set permissions of", path, source);
            let stat = self.root.stat(path).map_err(failed)?;
            if stat.is_some_and(|stat| stat.st_mode & 0o777 != mode && Kind::of(stat.st_mode) == made.kind) {
                self.root.set_mode(path, mode).map_err(failed)?;
            }
        }
        Ok(())
    }
}

fn make_one(root: &Beneath, made: &ManifestEntry, stamp_ns: i64, filler: &mut Filler) -> io::Result<()> {
    let path = &made.path.0;
    match made.kind {
        Kind::Directory => root.make_directory(path),
        Kind::Link => {
            let target = made.target.as_ref().map(|target| &*target.0);
            root.make_link(path, target.unwrap_or(b"."))
        }
        Kind::Other => root.make_fifo(path),
        Kind::File | Kind::Unknown => {
            if root.stat(MAKING)?.is_some() {
                root.unlink(MAKING)?;
            }
            let file = File::from(root.create(MAKING)?);
            filler.grow(&file, path, 0, made.size)?;
            stamp(&file, stamp_ns)?;
            if root.stat(path)?.is_some() {
                return Err(io::Error::from(io::ErrorKind::AlreadyExists));
            }
            root.rename(MAKING, path)
        }
    }
}

/// Enlarges a file. `stamp_ns`: modification time of a file that was made here.
fn grow_one(
    root: &Beneath,
    path: &[u8],
    (has, needs): (u64, u64),
    stamp_ns: Option<i64>,
    filler: &mut Filler,
) -> io::Result<()> {
    let file = File::from(root.write(path)?);
    filler.grow(&file, path, has, needs)?;
    match stamp_ns {
        Some(stamp_ns) => stamp(&file, stamp_ns),
        None => Ok(()),
    }
}

fn stamp(file: &File, stamp_ns: i64) -> io::Result<()> {
    let time = TimeSpec::nanoseconds(stamp_ns);
    Ok(futimens(file, &time, &time)?)
}

/// Removes a name; a directory only if it is empty.
fn remove_one(root: &Beneath, path: &[u8]) -> io::Result<usize> {
    match root.stat(path)? {
        Some(stat) if Kind::of(stat.st_mode) == Kind::Directory => root.remove_directory(path)?,
        Some(_) => root.unlink(path)?,
        None => return Ok(0),
    }
    Ok(1)
}

/// Removes a name and everything beneath it. Links are removed, not followed. Returns the number of
/// names.
fn remove_tree(root: &Beneath, path: &[u8]) -> io::Result<usize> {
    let Some(stat) = root.stat(path)? else {
        return Ok(0);
    };
    if Kind::of(stat.st_mode) != Kind::Directory {
        return root.unlink(path).map(|()| 1);
    }
    let mut removed = 1;
    for name in root.list(path)? {
        removed += remove_tree(root, &[path, &name].join(&b'/'))?;
    }
    root.remove_directory(path)?;
    Ok(removed)
}

/// Number of directories between a path and the root.
pub(super) fn depth(path: &[u8]) -> usize {
    path.split(|&byte| byte == b'/').count() - 1
}

/// The current time in whole seconds, because some file systems store no more, ns.
fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(0) * 1_000_000_000
}
