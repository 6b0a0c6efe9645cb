//! Which name of a trace becomes which one beneath the root of a replay.
//!
//! [`Rules`] are what the user says, [`Links`] which names were symbolic links, [`Table`] the
//! answer for every name of a trace:
//!
//! - an absolute `/a/b` becomes `a/b`, unless a rule of `--map` says otherwise;
//! - `..` is resolved where what stands before it was no symbolic link, and no call has failed on
//!   the name, as then it may have been missing; else it stays, and the sandbox resolves it, or
//!   refuses;
//! - a name that was relative to an unknown directory is taken to be relative to the root; ignored
//!   where it begins with `..`;
//! - `unknown:PID:FD` and what is no file are ignored, unless a rule of `--map` names them;
//! - `/proc`, `/sys`, `/dev` and what `--ignore` names are ignored. That is asked of the recorded
//!   name, not of what becomes of it.

mod links;
mod pattern;
mod rules;

use plimsoll_trace::event::PathId;
use plimsoll_trace::names::{Kind, Names};
use serde::Serialize;

pub use links::{Link, Links};
pub use rules::{Copies, RuleError, Rules};

/// Why a name is left out of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// It is of `/proc`, `/sys` or `/dev`. `!/proc` in a file for `--ignore` takes it back.
    System,
    /// A line of the file for `--ignore` matches.
    Asked,
    /// It was open before the trace began, and nobody knows its name. A rule of `--map` for
    /// `unknown:PID:FD` gives it one.
    Nameless,
    /// It is relative to a directory that is not known, and leaves it.
    Relative,
    /// A pipe, a socket, memory: nothing of a file system.
    NoFile,
    /// It is empty, or holds a zero byte: no name at all.
    NoName,
}

/// Whose a file is, where several jobs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Copy {
    /// Each job's own, beneath its own root.
    Private,
    /// That of all jobs, beneath the shared root.
    Shared,
}

/// What becomes of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mapped {
    /// This path beneath the root; `.` is the root itself. It is never absolute.
    Inside(Box<[u8]>, Copy),
    /// Calls on it are left out.
    Ignored(Reason),
}

/// What becomes of each name of a trace.
#[derive(Debug, Clone)]
pub struct Table {
    rows: Vec<Mapped>,
    /// As recorded, `..` resolved; by the same index.
    whole: Vec<Box<[u8]>>,
    rules: Rules,
}

impl Table {
    /// Of all names of a trace.
    pub fn new(rules: &Rules, names: &Names, links: &Links) -> Self {
        let is_link = |path: &[u8]| links.has(path);
        let whole: Vec<Box<[u8]>> = names
            .paths()
            .iter()
            .map(|path| plain(path, &is_link).into())
            .collect();
        let mut rows: Vec<Mapped> = whole.iter().map(|path| map(rules, path)).collect();
        for (index, row) in rows.iter_mut().enumerate() {
            let Some(id) = PathId::new(index).filter(|id| links.fails(*id)) else {
                continue;
            };
            if let Some(name) = with_dots(rules, names.path(id), row) {
                *row = name;
            }
        }
        for file in names.files() {
            let is_none = matches!(
                file.kind,
                Kind::Device | Kind::Pipe | Kind::Socket | Kind::Memory | Kind::Other
            );
            let name = names.path(file.path);
            // A FIFO or a socket of the file system has an absolute name.
            if is_none
                && !name.starts_with(b"/")
                && rules.mapped(name).is_none()
                && let Some(row) = rows.get_mut(file.path.index())
            {
                *row = Mapped::Ignored(Reason::NoFile);
            }
        }
        Self {
            rows,
            whole,
            rules: rules.clone(),
        }
    }

    /// What becomes of a name; an id of another trace is no name.
    pub fn get(&self, id: PathId) -> &Mapped {
        self.rows
            .get(id.index())
            .unwrap_or(&Mapped::Ignored(Reason::NoName))
    }

    /// Its path beneath the root of such files; none where it is ignored, or one of the others.
    pub fn path(&self, id: PathId, copy: Copy) -> Option<&[u8]> {
        match self.get(id) {
            Mapped::Inside(path, whose) if *whose == copy => Some(path),
            _ => None,
        }
    }

    /// What `link` is to hold so that it leads to what becomes of its recorded target; none where
    /// nothing beneath the root does.
    ///
    /// A relative target that still leads there stays as it was written. All others are made
    /// relative, as the sandbox follows no absolute ones.
    pub fn target(&self, link: PathId, target: &[u8]) -> Option<Vec<u8>> {
        let recorded = self.whole.get(link.index())?;
        let Mapped::Inside(link, _) = self.get(link) else {
            return None;
        };
        let from = |name: &[u8]| plain(&beside(name, target), &|_| false);
        let whole = from(recorded);
        let to = inside(&self.rules.mapped(&whole).unwrap_or(whole))?;
        let stays = !target.starts_with(b"/") && inside(&from(link)).is_some_and(|way| way == to);
        Some(if stays {
            target.to_vec()
        } else {
            relative(link, &to)
        })
    }

    /// How many names are ignored, by reason.
    pub fn ignored(&self) -> Vec<(Reason, usize)> {
        let mut reasons: Vec<Reason> = self
            .rows
            .iter()
            .filter_map(|row| match row {
                Mapped::Ignored(reason) => Some(*reason),
                Mapped::Inside(..) => None,
            })
            .collect();
        reasons.sort_unstable();
        let groups = reasons.chunk_by(|one, other| one == other);
        groups.map(|group| (group[0], group.len())).collect()
    }
}

/// What becomes of a name with its `..` left in it; none where that, or a rule for what stands
/// before, would lead elsewhere than `without`, which is the same name without them.
fn with_dots(rules: &Rules, name: &[u8], without: &Mapped) -> Option<Mapped> {
    let Mapped::Inside(expected, expected_copy) = without else {
        return None;
    };
    let Mapped::Inside(path, copy) = map(rules, &plain(name, &|_| true)) else {
        return None;
    };
    let is_same = copy == *expected_copy && inside(&without_dots(&path)) == inside(&without_dots(expected));
    is_same.then_some(Mapped::Inside(path, copy))
}

fn map(rules: &Rules, name: &[u8]) -> Mapped {
    if name.is_empty() || name.contains(&0) {
        return Mapped::Ignored(Reason::NoName);
    }
    if let Some(reason) = rules.ignores(name) {
        return Mapped::Ignored(reason);
    }
    let copy = rules.copy(name);
    let mapped = match rules.mapped(name) {
        Some(mapped) => mapped,
        None if name.starts_with(b"unknown:") => return Mapped::Ignored(Reason::Nameless),
        None => name.to_vec(),
    };
    match inside(&mapped) {
        Some(path) => Mapped::Inside(path.into(), copy),
        None => Mapped::Ignored(Reason::Relative),
    }
}

/// Beneath the root: without `/` at its ends and empty parts. None where it begins with `..`.
fn inside(path: &[u8]) -> Option<Vec<u8>> {
    let parts: Vec<&[u8]> = parts(path).collect();
    match parts.first() {
        None => Some(b".".to_vec()),
        Some(&b"..") => None,
        Some(_) => Some(parts.join(&b'/')),
    }
}

/// A name without `..`, as if no link stood before them.
pub(crate) fn without_dots(path: &[u8]) -> Vec<u8> {
    plain(path, &|_| false)
}

/// Without `.`, empty parts, and `..` where what stands before it is no link.
fn plain(path: &[u8], is_link: &impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let is_absolute = path.starts_with(b"/");
    let mut kept: Vec<u8> = Vec::with_capacity(path.len());
    for part in parts(path) {
        let last = kept.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let stays = if kept.is_empty() {
            // There is nothing above `/`.
            !is_absolute
        } else {
            last == b".." || is_link(&kept)
        };
        if part != b".." || stays {
            if is_absolute || !kept.is_empty() {
                kept.push(b'/');
            }
            kept.extend_from_slice(part);
        } else {
            let length = kept.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
            kept.truncate(length);
        }
    }
    if kept.is_empty() && is_absolute {
        kept.push(b'/');
    }
    kept
}

/// The way from where a link stands to a path, both beneath the root.
fn relative(link: &[u8], to: &[u8]) -> Vec<u8> {
    let from: Vec<&[u8]> = parts(parent(link)).collect();
    let to: Vec<&[u8]> = parts(to).collect();
    let common = from
        .iter()
        .zip(&to)
        .take_while(|(one, other)| one == other)
        .count();
    let ups = std::iter::repeat_n(b"..".as_slice(), from.len() - common);
    let way: Vec<&[u8]> = ups.chain(to[common..].iter().copied()).collect();
    if way.is_empty() {
        b".".to_vec()
    } else {
        way.join(&b'/')
    }
}

/// Where a target leads from the link of this name.
fn beside(link: &[u8], target: &[u8]) -> Vec<u8> {
    let end = link
        .iter()
        .rposition(|&byte| byte == b'/')
        .map_or(0, |end| end + 1);
    if target.starts_with(b"/") {
        target.to_vec()
    } else {
        [&link[..end], target].concat()
    }
}

fn parent(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte == b'/');
    end.map_or(b"".as_slice(), |end| &path[..end])
}

fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/')
        .filter(|part| !part.is_empty() && *part != b".")
}

#[cfg(test)]
mod tests;
