//! `--clean`, and what comes before each repetition: takes away what was made, and what a replay
//! has made.

use std::io;

use nix::libc;
use nix::sys::stat::FileStat;
use serde::Serialize;

use super::beneath::Beneath;
use super::disk::{Disk, Kind};
use super::manifest::{Create, Manifest, ManifestEntry, Name, State};
use super::prepare::{MAKING, PrepareError, depth};

/// Why something was left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// It was changed, and not by the replay.
    Changed,
    /// The directory holds what is not ours.
    NotEmpty,
    /// A replay has moved something here that was there before.
    Moved,
    /// It cannot be removed.
    Refused(String),
}

/// Something that was left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftName {
    /// Beneath the root.
    pub path: Name,
    /// Why.
    pub why: Why,
}

/// What was taken away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cleaned {
    /// Names that were removed.
    pub removed: usize,
    /// What was left.
    pub left: Vec<LeftName>,
    /// The directory had been prepared: what a replay makes elsewhere is not known.
    pub was_prepared: bool,
}

/// Takes away all that was made beneath a root, and what replays have made there: only what the
/// manifest names, and what is deepest first. What was left stays in the manifest; where nothing
/// was, that goes, too. Without one nothing is done.
pub fn clean(root: &Beneath) -> Result<Cleaned, PrepareError> {
    let Some(mut manifest) = Manifest::read(root)? else {
        return Ok(Cleaned::default());
    };
    let mut sweep = Sweep::new(root, &manifest);
    sweep.sweep(|_| false)?;
    sweep.shrink()?;
    let cleaned = Cleaned {
        was_prepared: true,
        ..sweep.cleaned
    };
    if cleaned.left.is_empty() {
        Manifest::remove(root)?;
        return Ok(cleaned);
    }
    let stays = |path: &Name| cleaned.left.iter().any(|left| left.path == *path);
    manifest.made.retain(|made| stays(&made.path));
    manifest.creates.retain(|create| stays(&create.path));
    manifest.grown.retain(|grown| stays(&grown.path));
    manifest.write(root)?;
    Ok(cleaned)
}

/// Takes away what a replay has made, and what it has changed of what was made for it, so that the
/// next check finds the root as it was, or tells what is missing of it. Without a manifest nothing
/// is done.
pub fn reset(root: &Beneath) -> Result<Cleaned, PrepareError> {
    let Some(manifest) = Manifest::read(root)? else {
        return Ok(Cleaned::default());
    };
    let mut sweep = Sweep::new(root, &manifest);
    sweep.sweep(|whole| whole)?;
    Ok(sweep.cleaned)
}

/// Something that may be ours.
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
    cleaned: Cleaned,
}

impl<'a> Sweep<'a> {
    fn new(root: &'a Beneath, manifest: &'a Manifest) -> Self {
        Self {
            root,
            manifest,
            cleaned: Cleaned::default(),
        }
    }

    /// `keeps`: whether something of ours stays, by whether it is as it was made.
    fn sweep(&mut self, keeps: impl Fn(bool) -> bool) -> Result<(), PrepareError> {
        self.open_directories()?;
        self.remove_if_there(MAKING)?;
        let made = self.manifest.made.iter().map(Item::Made);
        let creates = self.manifest.creates.iter().map(Item::Create);
        // Before a replay there is nothing that it has made.
        let is_ready = self.manifest.state == State::Ready;
        let mut items: Vec<Item<'a>> = made.chain(creates.filter(|_| is_ready)).collect();
        items.sort_by_key(|item| std::cmp::Reverse(depth(&item.path().0)));
        for item in items {
            let path = item.path();
            let stat = self
                .root
                .stat(&path.0)
                .map_err(|source| PrepareError::io("look at", &path.0, source))?;
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
            self.leave(&made.path, Why::Changed);
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
            let old = old.map_err(|source| PrepareError::io("look at", &of.0, source))?;
            // A second name of what still has its first one can go.
            let is_second = old.is_some_and(|old| (old.st_dev, old.st_ino) == (stat.st_dev, stat.st_ino));
            if !is_second {
                self.leave(&create.path, Why::Moved);
                return Ok(());
            }
        }
        self.remove(&create.path, stat);
        Ok(())
    }

    /// Files that were made larger, back to what they were.
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
                Some(size) if size != grown.from => self.leave(&grown.path, Why::Changed),
                _ => {}
            }
        }
        Ok(())
    }

    /// Directories that were made so that calls are refused: what is in them is to be reached.
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

    fn remove_if_there(&mut self, path: &[u8]) -> Result<(), PrepareError> {
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
            Ok(()) => self.cleaned.removed += 1,
            Err(error) => self.leave(path, why(&error)),
        }
    }

    fn leave(&mut self, path: &Name, why: Why) {
        let path = path.clone();
        self.cleaned.left.push(LeftName { path, why });
    }
}

fn why(error: &io::Error) -> Why {
    match error.raw_os_error() {
        Some(libc::ENOTEMPTY | libc::EEXIST) => Why::NotEmpty,
        _ => Why::Refused(error.to_string()),
    }
}
