//! What is told at the end.

use super::{Call, EXAMPLES, Evidence, PathsWithFile, RelativePath};
use crate::check::disk::{Disk, Kind};
use crate::check::report::{Created, Finding, Need, Unexplained, What};
use crate::check::tree::{Entry, Inode, Place, Spot};

impl<D: Disk> Evidence<'_, D> {
    /// Somewhere on the way of one of these names is a file, and nobody knows where. `ends`: or at
    /// its end.
    pub(in crate::check) fn add_hidden_file(&mut self, spots: &[(Spot, Box<[u8]>)], ends: bool) {
        let paths = spots.iter().filter_map(|(spot, rest)| match spot {
            Spot::Absent {
                at,
                entry: Entry::Absent,
                ..
            }
            | Spot::NotDirectory(at, _) => Some(RelativePath {
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

    /// All calls are seen: files on the way of names are put where no call has told anything.
    pub(in crate::check) fn settle(&mut self) {
        self.are_directories();
        self.tree.index_at_start();
        let mut files: Vec<_> = std::mem::take(&mut self.files).into_iter().collect();
        files.sort_by_key(|(_, call)| call.event);
        for (PathsWithFile { paths, ends }, call) in files {
            let spots = paths
                .iter()
                .map(|from| self.tree.resolve_at_start(from.dir, &from.path));
            let spots: Vec<Spot> = spots.collect();
            if spots.iter().any(|spot| matches!(spot, Spot::NotDirectory(..))) {
                continue;
            }
            let place = spots.into_iter().find_map(|spot| match spot {
                Spot::Absent {
                    at,
                    entry: Entry::Absent,
                    last,
                } if (!last || ends) && self.may_be_file(&at) => Some(at),
                _ => None,
            });
            if let Some(at) = place {
                (self.event, self.recorded) = (call.event, call.recorded);
                self.assume(&at, Entry::Absent, Kind::File);
            }
        }
    }

    /// No call has told that there is nothing, or a directory, and nothing above it was moved.
    fn may_be_file(&self, at: &Place) -> bool {
        self.tree.initial(at).is_some_and(|initial| {
            initial == self.tree.path(at)
                && !self.nowhere.contains(&initial)
                && !self.directories_if_there.contains(&initial)
        })
    }

    fn are_directories(&mut self) {
        for id in 0..self.tree.inodes.len() {
            let inode = &self.tree.inodes[id];
            let initial = inode.initial.as_ref().filter(|_| inode.kind == Kind::Unknown);
            if initial.is_some_and(|initial| self.directories_if_there.contains(initial)) {
                self.becomes(id, Kind::Directory);
            }
        }
    }

    pub(in crate::check) fn found_at(&mut self, path: Box<[u8]>, what: What) -> usize {
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
            self.examples.push(Unexplained {
                event: self.event,
                path: path.into(),
                why,
            });
        }
    }

    /// What is needed of what is missing, all calls seen; and whether they have changed it.
    pub(in crate::check) fn end(mut self) -> (Vec<Finding>, Vec<Created>) {
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
            // A directory above it may have been moved, and the name made anew.
            let path = &finding.path;
            finding.changed |= self.moved.contains(path) || self.created.contains_key(path);
        }
        (kept(self.findings), self.created.into_values().collect())
    }
}

/// Without those that were withdrawn; places of others follow.
fn kept(findings: Vec<Option<Finding>>) -> Vec<Finding> {
    let mut place = 0;
    let places: Vec<usize> = findings
        .iter()
        .map(|finding| {
            place += usize::from(finding.is_some());
            place.wrapping_sub(1)
        })
        .collect();
    let kept = findings.into_iter().flatten();
    kept.map(|mut finding| {
        finding.within = finding.within.map(|at| places[at]);
        finding
    })
    .collect()
}

pub(super) fn need(inode: &Inode) -> Need {
    let kind = match inode.kind {
        Kind::Unknown => Kind::File,
        kind => kind,
    };
    // What was mapped may reach beyond the end of a file: only where no call has told its size.
    let mapped = if inode.exact { 0 } else { inode.mapped };
    let whole = if kind == Kind::Directory { 0o755 } else { 0o644 };
    let owner = (inode.granted | !inode.refused & (inode.mode.unwrap_or(whole) >> 6)) & 7;
    let owner = owner << 6;
    let is_told = inode.mode.is_some() || inode.refused != 0 || owner & !whole != 0;
    Need {
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
