//! `--clean`, and the reset before each repetition: removes the names that a preparation or a
//! replay made.

use std::io;

use nix::libc;
use nix::sys::stat::FileStat;
use serde::Serialize;

use super::beneath::Beneath;
use super::disk::{Disk, Kind};
use super::manifest::{Create, Manifest, ManifestEntry, Name, State};
use super::prepare::{MAKING, PrepareError, depth};

/// Reason why a name was not removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// It was changed, but not by the replay.
    Changed,
    /// The directory contains names of others.
    NotEmpty,
    /// A replay moved a file here that existed before the preparation.
    Moved,
    /// It cannot be removed; the error of the operating system.
    Refused(String),
}

/// A name that was not removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftName {
    /// Path beneath the root.
    pub path: Name,
    /// Reason.
    pub why: Why,
}

/// Result of [`clean`] or [`reset`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CleanResult {
    /// Number of names that were removed.
    pub removed: usize,
    /// Names that were not removed.
    pub left: Vec<LeftName>,
    /// Whether the root had been prepared. If not, the names that a replay made are unknown, and
    /// nothing was removed.
    pub was_prepared: bool,
}

/// Removes all names that were made beneath a root, by preparations and by replays: only names of
/// the manifest, the deepest first. A name that was not removed stays in the manifest. If all were
/// removed, the manifest is removed as well. Without a manifest, nothing is done.
pub fn clean(root: &Beneath) -> Result<CleanResult, PrepareError> {
    let Some(mut manifest) = Manifest::read(root)? else {
        return Ok(CleanResult::default());
    };
    let mut sweep = Sweep::new(root, &manifest);
    sweep.sweep(|_| false)?;
    sweep.shrink()?;
    let result = CleanResult {
        was_prepared: true,
        ..sweep.result
    };
    if result.left.is_empty() {
        Manifest::remove(root)?;
        return Ok(result);
    }
    let stays = |path: &Name| result.left.iter().any(|left| left.path == *path);
    manifest.made.retain(|made| stays(&made.path));
    manifest.creates.retain(|create| stays(&create.path));
    manifest.grown.retain(|grown| stays(&grown.path));
    manifest.write(root)?;
    Ok(result)
}

/// Removes the names that a replay made, and those made for it that it changed. The next check then
/// finds the root as it was before the replay, or reports what is missing. Without a manifest,
/// nothing is done.
pub fn reset(root: &Beneath) -> Result<CleanResult, PrepareError> {
    let Some(manifest) = Manifest::read(root)? else {
        return Ok(CleanResult::default());
    };
    let mut sweep = Sweep::new(root, &manifest);
    sweep.sweep(|whole| whole)?;
    Ok(sweep.result)
}

/// A name that may be one that was made here.
#[derive(Clone, Copy)]
enum Item<'a> {
    Made(&'a ManifestEntry),
    Create(&'a Create),
}

impl Item<'_> {
    fn path(&self) -> &Name {
        match self {
            Self::Made(made) => &made.path,
            Self::Create(create) => &create.path,
        }
    }
}

struct Sweep<'a> {
    root: &'a Beneath,
    manifest: &'a Manifest,
    result: CleanResult,
}

impl<'a> Sweep<'a> {
    fn new(root: &'a Beneath, manifest: &'a Manifest) -> Self {
        Self {
            root,
            manifest,
            result: CleanResult::default(),
        }
    }

    /// Removes names that were made. `keeps` decides whether one stays; its argument is whether the
    /// name is unchanged.
    fn sweep(&mut self, keeps: impl Fn(bool) -> bool) -> Result<(), PrepareError> {
        self.open_directories()?;
        self.remove_if_present(MAKING)?;
        let made = self.manifest.made.iter().map(Item::Made);
        let creates = self.manifest.creates.iter().map(Item::Create);
        // Before the first replay, no name was made by one.
        let is_ready = self.manifest.state == State::Ready;
        let mut items: Vec<Item<'a>> = made.chain(creates.filter(|_| is_ready)).collect();
        items.sort_by_key(|item| std::cmp::Reverse(depth(&item.path().0)));
        for item in items {
            let path = item.path();
            let stat = self
                .root
                .stat(&path.0)
                .map_err(|source| PrepareError::io("check", &path.0, source))?;
            let Some(stat) = stat else { continue };
            match item {
                Item::Made(made) => self.sweep_made(made, &stat, &keeps)?,
                Item::Create(create) => self.sweep_created(create, &stat)?,
            }
        }
        Ok(())
    }

    fn sweep_made(
        &mut self,
        made: &ManifestEntry,
        stat: &FileStat,
        keeps: &impl Fn(bool) -> bool,
    ) -> Result<(), PrepareError> {
        let is_whole = self.is_as_made(made, stat)?;
        let is_ours = is_whole || made.changed && self.manifest.state == State::Ready;
        if !is_ours {
            self.add_left(&made.path, Why::Changed);
        } else if !keeps(is_whole) {
            self.remove(&made.path, stat);
        }
        Ok(())
    }

    fn is_as_made(&self, made: &ManifestEntry, stat: &FileStat) -> Result<bool, PrepareError> {
        if Kind::of(stat.st_mode) != made.kind {
            return Ok(false);
        }
        Ok(match made.kind {
            Kind::File | Kind::Unknown => {
                let time_ns = stat.st_mtime.saturating_mul(1_000_000_000) + stat.st_mtime_nsec;
                u64::try_from(stat.st_size) == Ok(made.size) && time_ns == self.manifest.stamp_ns
            }
            Kind::Link => {
                let path = &made.path.0;
                let target = self.root.readlink(path);
                let target = target.map_err(|source| PrepareError::io("read", path, source))?;
                made.target.as_ref().is_some_and(|made| *made.0 == *target)
            }
            Kind::Directory | Kind::Other => true,
        })
    }

    fn sweep_created(&mut self, create: &Create, stat: &FileStat) -> Result<(), PrepareError> {
        if let Some(of) = &create.of {
            let old = self.root.stat(&of.0);
            let old = old.map_err(|source| PrepareError::io("check", &of.0, source))?;
            // A second name can be removed while the file still has its first name.
            let is_second = old.is_some_and(|old| (old.st_dev, old.st_ino) == (stat.st_dev, stat.st_ino));
            if !is_second {
                self.add_left(&create.path, Why::Moved);
                return Ok(());
            }
        }
        self.remove(&create.path, stat);
        Ok(())
    }

    /// Truncates files that were enlarged to their previous size.
    fn shrink(&mut self) -> Result<(), PrepareError> {
        for grown in &self.manifest.grown {
            let path = &grown.path.0;
            let failed = |source| PrepareError::io("shorten", path, source);
            let stat = self.root.stat(path).map_err(failed)?;
            let size = stat.filter(|stat| Kind::of(stat.st_mode) == Kind::File);
            match size.and_then(|stat| u64::try_from(stat.st_size).ok()) {
                Some(size) if size >= grown.to => {
                    let file = std::fs::File::from(self.root.write(path).map_err(failed)?);
                    file.set_len(grown.from).map_err(failed)?;
                }
                Some(size) if size != grown.from => self.add_left(&grown.path, Why::Changed),
                _ => {}
            }
        }
        Ok(())
    }

    /// Grants the owner all rights on directories that were made without them, so that their
    /// contents can be removed.
    fn open_directories(&self) -> Result<(), PrepareError> {
        let mut made: Vec<&ManifestEntry> = self
            .manifest
            .made
            .iter()
            .filter(|made| made.kind == Kind::Directory)
            .collect();
        made.sort_by_key(|made| depth(&made.path.0));
        for made in made {
            let path = &made.path.0;
            let failed = |source| PrepareError::io("open up", path, source);
            let stat = self.root.stat(path).map_err(failed)?;
            let Some(stat) = stat.filter(|stat| Kind::of(stat.st_mode) == Kind::Directory) else {
                continue;
            };
            if stat.st_mode & 0o700 != 0o700 {
                self.root
                    .set_mode(path, stat.st_mode & 0o777 | 0o700)
                    .map_err(failed)?;
            }
        }
        Ok(())
    }

    fn remove_if_present(&mut self, path: &[u8]) -> Result<(), PrepareError> {
        let failed = |source| PrepareError::io("remove", path, source);
        if self.root.stat(path).map_err(failed)?.is_some() {
            self.root.unlink(path).map_err(failed)?;
        }
        Ok(())
    }

    fn remove(&mut self, path: &Name, stat: &FileStat) {
        let removed = if Kind::of(stat.st_mode) == Kind::Directory {
            self.root.remove_directory(&path.0)
        } else {
            self.root.unlink(&path.0)
        };
        match removed {
            Ok(()) => self.result.removed += 1,
            Err(error) => self.add_left(path, why(&error)),
        }
    }

    fn add_left(&mut self, path: &Name, why: Why) {
        let path = path.clone();
        self.result.left.push(LeftName { path, why });
    }
}

fn why(error: &io::Error) -> Why {
    match error.raw_os_error() {
        Some(libc::ENOTEMPTY | libc::EEXIST) => Why::NotEmpty,
        _ => Why::Refused(error.to_string()),
    }
}
