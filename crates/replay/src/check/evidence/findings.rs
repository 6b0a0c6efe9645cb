//! Findings at the end of the trace.

use super::{Call, EXAMPLES, Evidence, PathsWithFile, RelativePath};
use crate::check::disk::{Disk, Kind};
use crate::check::report::{CreatedName, Finding, Requirements, UnexplainedCall, What};
use crate::check::tree::{DirEntryName, Entry, Inode, Resolution};

impl<D: Disk> Evidence<'_, D> {
    /// Records that a component of one of these paths is a file, but not which one. `ends`: it may
    /// be the last component.
    pub(in crate::check) fn add_hidden_file(&mut self, resolutions: &[(Resolution, Box<[u8]>)], ends: bool) {
        let paths = resolutions
            .iter()
            .filter_map(|(resolution, rest)| match resolution {
                Resolution::Absent {
                    at,
                    entry: Entry::Absent,
                    ..
                }
                | Resolution::NotDirectory(at, _) => Some(RelativePath {
                    dir: at.dir,
                    path: [&at.name[..], rest].join(&b'/').into(),
                }),
                _ => None,
            });
        let paths = paths.collect();
        let call = Call {
            event: self.event,
            recorded: self.recorded.clone(),
        };
        self.files.entry(PathsWithFile { paths, ends }).or_insert(call);
    }

    /// After the last call: creates files in the paths of calls that failed with ENOTDIR, at names
    /// that no other call has determined.
    pub(in crate::check) fn settle(&mut self) {
        self.settle_directories();
        self.tree.index_at_start();
        let mut files: Vec<_> = std::mem::take(&mut self.files).into_iter().collect();
        files.sort_by_key(|(_, call)| call.event);
        for (PathsWithFile { paths, ends }, call) in files {
            let resolutions = paths
                .iter()
                .map(|from| self.tree.resolve_at_start(from.dir, &from.path));
            let resolutions: Vec<Resolution> = resolutions.collect();
            if resolutions
                .iter()
                .any(|resolution| matches!(resolution, Resolution::NotDirectory(..)))
            {
                continue;
            }
            let name = resolutions.into_iter().find_map(|resolution| match resolution {
                Resolution::Absent {
                    at,
                    entry: Entry::Absent,
                    last,
                } if (!last || ends) && self.may_be_file(&at) => Some(at),
                _ => None,
            });
            if let Some(at) = name {
                (self.event, self.recorded) = (call.event, call.recorded);
                self.assume(&at, Entry::Absent, Kind::File);
            }
        }
    }

    /// Whether no call has shown that the name does not exist or is a directory, and no directory
    /// above it was moved.
    fn may_be_file(&self, at: &DirEntryName) -> bool {
        self.tree.initial(at).is_some_and(|initial| {
            initial == self.tree.path(at)
                && !self.nowhere.contains(&initial)
                && !self.directories_if_there.contains(&initial)
        })
    }

    fn settle_directories(&mut self) {
        for id in 0..self.tree.inodes.len() {
            let inode = &self.tree.inodes[id];
            let initial = inode.initial.as_ref().filter(|_| inode.kind == Kind::Unknown);
            if initial.is_some_and(|initial| self.directories_if_there.contains(initial)) {
                self.set_inode_kind(id, Kind::Directory);
            }
        }
    }

    pub(in crate::check) fn add_finding(&mut self, path: Box<[u8]>, what: What) -> usize {
        let above = path.iter().rposition(|&byte| byte == b'/');
        let above = above.and_then(|end| self.missing.get(&path[..end]).copied());
        let within = above.map(|above| {
            let finding = self.findings[above].as_ref();
            finding.and_then(|finding| finding.within).unwrap_or(above)
        });
        self.findings.push(Some(Finding {
            path,
            recorded: self.recorded.clone(),
            what,
            event: self.event,
            within,
            changed: false,
        }));
        self.findings.len() - 1
    }

    pub(in crate::check) fn cannot_explain(&mut self, path: &[u8], why: &'static str) {
        self.unexplained += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(UnexplainedCall {
                event: self.event,
                path: path.into(),
                why,
            });
        }
    }

    /// Completes the findings after the last call: the need of each missing file, and whether the
    /// trace changes it.
    pub(in crate::check) fn end(mut self) -> (Vec<Finding>, Vec<CreatedName>) {
        for inode in &self.tree.inodes {
            let Some(finding) = inode.finding.and_then(|at| self.findings[at].as_mut()) else {
                continue;
            };
            match &mut finding.what {
                What::Missing(needs) | What::WrongKind { needs, .. } => *needs = need(inode),
                _ => {}
            }
            finding.changed = inode.changed;
        }
        for finding in self.findings.iter_mut().flatten() {
            // A directory above it may have been moved, and the name made again.
            let path = &finding.path;
            finding.changed |= self.moved.contains(path) || self.created.contains_key(path);
        }
        (kept(self.findings), self.created.into_values().collect())
    }
}

/// The findings without those that were withdrawn, with their references to others adjusted.
fn kept(findings: Vec<Option<Finding>>) -> Vec<Finding> {
    let mut index = 0;
    let indices: Vec<usize> = findings
        .iter()
        .map(|finding| {
            index += usize::from(finding.is_some());
            index.wrapping_sub(1)
        })
        .collect();
    let kept = findings.into_iter().flatten();
    kept.map(|mut finding| {
        finding.within = finding.within.map(|at| indices[at]);
        finding
    })
    .collect()
}

pub(super) fn need(inode: &Inode) -> Requirements {
    let kind = match inode.kind {
        Kind::Unknown => Kind::File,
        kind => kind,
    };
    // A mapping may extend beyond the end of a file. It counts only if no call has reported the
    // size.
    let mapped = if inode.exact { 0 } else { inode.mapped };
    let whole = if kind == Kind::Directory { 0o755 } else { 0o644 };
    let owner = (inode.granted | !inode.refused & (inode.mode.unwrap_or(whole) >> 6)) & 7;
    let owner = owner << 6;
    let is_told = inode.mode.is_some() || inode.refused != 0 || owner & !whole != 0;
    Requirements {
        kind,
        size: if kind == Kind::File {
            inode.least.max(mapped)
        } else {
            0
        },
        mode: (is_told && kind != Kind::Link).then(|| inode.mode.unwrap_or(whole) & 0o077 | owner),
        target: inode.target.clone(),
    }
}
