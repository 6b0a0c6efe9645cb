//! `--prepare`: makes beneath a root what a replay needs.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::stat::futimens;
use nix::sys::time::{TimeSpec, TimeValLike};

use super::beneath::Beneath;
use super::disk::{Disk, Kind};
use super::fill::{Fill, Filler};
use super::manifest::{Create, Grown, Manifest, ManifestEntry, Name, State};
use super::report::{Finding, Need, Report, What};

/// A file is made under this name, and gets its own when it is whole: what has its own is whole, or
/// somebody else's.
pub(super) const MAKING: &[u8] = b".plimsoll-making";

/// How a root is to be prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrepareOptions {
    /// What files are filled with.
    pub fill: Fill,
    /// Also removes what must not be there and is not ours, with all beneath it. It is not brought
    /// back.
    pub force: bool,
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Files, directories and links that were made.
    pub made: usize,
    /// Files that were made larger.
    pub grown: usize,
    /// Bytes that they have, or are larger by.
    pub bytes: u64,
    /// Names that were there and have been removed, all beneath them included.
    pub removed: usize,
    /// Findings that stay.
    pub left: Vec<Finding>,
}

/// Why a root could not be prepared, or cleaned.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// A call failed.
    #[error(
        "cannot {action} {path} beneath the root: {source}. Mend that and repeat; what was made so far is known"
    )]
    Io {
        /// What was to be done.
        action: &'static str,
        /// Beneath the root.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// There is no room.
    #[error(
        "{needed} B are to be written beneath the root, and {free} B are free. Choose another root, or sparse files"
    )]
    Space {
        /// Bytes.
        needed: u64,
        /// Bytes.
        free: u64,
    },
    /// What was made is not known.
    #[error(
        "what was made beneath the root is written in `.plimsoll-prepared.json`, and that makes no sense: {0}"
    )]
    Manifest(#[from] serde_json::Error),
    /// Another Plimsoll has made it.
    #[error("`.plimsoll-prepared.json` beneath the root is of format {0:?}; this program reads {known:?}. Use the one that wrote it", known = super::manifest::FORMAT)]
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

/// Makes what a report says is missing, as far as that is ours to do; what stays is told. The
/// manifest is written first.
///
/// Before each repetition: [`super::reset`], then [`super::check`], then this.
pub fn prepare(root: &Beneath, report: &Report, wanted: PrepareOptions) -> Result<Prepared, PrepareError> {
    let manifest = match Manifest::read(root)? {
        Some(manifest) => manifest,
        None => Manifest::new(now_ns()),
    };
    let mut plan = Plan::new(root, manifest, wanted);
    for (at, finding) in report.findings.iter().enumerate() {
        plan.take(at, finding);
    }
    plan.creates(report)?;
    plan.perform()
}

/// What is to be done, and is done when all of it is written down.
struct Plan<'a> {
    root: &'a Beneath,
    wanted: PrepareOptions,
    manifest: Manifest,
    /// Those of the manifest, by path.
    ours: BTreeMap<Box<[u8]>, ManifestEntry>,
    remove: Vec<Box<[u8]>>,
    /// Directories before what they hold, as they were found.
    make: Vec<Box<[u8]>>,
    grow: Vec<(Box<[u8]>, u64, u64)>,
    /// Findings that stay, by place.
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

    fn take(&mut self, at: usize, finding: &Finding) {
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
                self.blocked.insert(at);
                self.left.push(finding.clone());
            }
        }
    }

    fn remove(&mut self, finding: &Finding) {
        self.ours.remove(&finding.path);
        self.remove.push(finding.path.clone());
    }

    fn make(&mut self, finding: &Finding, need: &Need) {
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
            None => self.manifest.grown.push(Grown {
                path: Name(finding.path.clone()),
                from: has,
                to: needs,
            }),
        }
    }

    /// Names that the trace makes: those that are there now are not its own.
    fn creates(&mut self, report: &Report) -> Result<(), PrepareError> {
        let known = self.manifest.creates.iter().map(|create| create.path.0.clone());
        let known: HashSet<Box<[u8]>> = known.collect();
        let removed: HashSet<&[u8]> = self.remove.iter().map(|path| &**path).collect();
        for created in &report.creates {
            let path = &created.path;
            if known.contains(path) || self.ours.contains_key(path) {
                continue;
            }
            let stat = self.root.stat(path);
            let stat = stat.map_err(|source| PrepareError::io("look at", path, source))?;
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

    fn perform(mut self) -> Result<Prepared, PrepareError> {
        let grows: u64 = self.grow.iter().map(|(_, has, needs)| needs - has).sum();
        let makes: u64 = self.make.iter().map(|path| self.ours[path].size).sum();
        let mut prepared = Prepared {
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
                .map_err(|source| PrepareError::io("ask for space in", b".", source))?;
            if free < prepared.bytes {
                return Err(PrepareError::Space {
                    needed: prepared.bytes,
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
            prepared.removed += removed.map_err(|source| PrepareError::io("remove", path, source))?;
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
        Ok(prepared)
    }

    /// Of all that is ours, as a replay may have changed them: what is deepest first, as a
    /// directory may forbid the way.
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

/// `stamp_ns`: it is a file of ours.
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

/// Removes a name; a directory only where it is empty.
fn remove_one(root: &Beneath, path: &[u8]) -> io::Result<usize> {
    match root.stat(path)? {
        Some(stat) if Kind::of(stat.st_mode) == Kind::Directory => root.remove_directory(path)?,
        Some(_) => root.unlink(path)?,
        None => return Ok(0),
    }
    Ok(1)
}

/// Removes a name and all beneath it; links are removed, not followed. How many names that were.
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

/// How many directories a path is below the root.
pub(super) fn depth(path: &[u8]) -> usize {
    path.split(|&byte| byte == b'/').count() - 1
}

/// In whole seconds, as not all file systems keep more.
fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(0) * 1_000_000_000
}
