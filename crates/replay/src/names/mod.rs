//! Maps the names of a trace beneath the root of a replay.
//!
//! [`Rules`] are the rules of the user, [`Links`] the symbolic links of the trace, and [`Table`]
//! the result for every name of a trace:
//!
//! - an absolute `/a/b` becomes `a/b`, unless a rule of `--map` applies;
//! - `..` is resolved if the component before it was not a symbolic link and no call has failed on
//!   the name. Otherwise it remains, and the sandbox resolves or refuses it: the component may have
//!   been missing;
//! - a name relative to an unknown directory is taken as relative to the root; it is ignored if it
//!   begins with `..`;
//! - `unknown:PID:FD` and names that are not of files are ignored, unless a rule of `--map` names
//!   them;
//! - `/proc`, `/sys`, `/dev` and the names of `--ignore` are ignored. The recorded name decides,
//!   not the mapped one.

mod links;
mod pattern;
mod rules;

use plimsoll_trace::event::PathId;
use plimsoll_trace::names::{Kind, Names};
use serde::Serialize;

pub use links::{Link, Links};
pub use rules::{Copies, RuleError, Rules};

/// Reason why a name is ignored in a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The name is in `/proc`, `/sys` or `/dev`. `!/proc` in a file for `--ignore` includes it
    /// again.
    System,
    /// A line of the file for `--ignore` matches.
    Asked,
    /// The file was open before the trace began, and its name is unknown. A rule of `--map` for
    /// `unknown:PID:FD` assigns a name.
    Nameless,
    /// The name is relative to an unknown directory, and leads out of it.
    Relative,
    /// The name is that of a pipe, a socket or memory: not a file of a file system.
    NoFile,
    /// The name is empty or contains a zero byte.
    NoName,
}

/// Owner of a file if several jobs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Copy {
    /// Each job has its own copy, beneath its own root.
    Private,
    /// All jobs use the same file, beneath the shared root.
    Shared,
}

/// Result of the mapping of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameMapping {
    /// The path beneath the root, never absolute; `.` is the root itself.
    Inside(Box<[u8]>, Copy),
    /// Calls on the name are not replayed.
    Ignored(Reason),
}

/// Result of the mapping of each name of a trace.
#[derive(Debug, Clone)]
pub struct Table {
    rows: Vec<NameMapping>,
    /// The recorded names with `..` resolved, by the same index.
    whole: Vec<Box<[u8]>>,
    rules: Rules,
}

impl Table {
    /// Maps all names of a trace.
    pub fn new(rules: &Rules, names: &Names, links: &Links) -> Self {
        let is_link = |path: &[u8]| links.has(path);
        let whole: Vec<Box<[u8]>> = names
            .paths()
            .iter()
            .map(|path| plain(path, &is_link).into())
            .collect();
        let mut rows: Vec<NameMapping> = whole.iter().map(|path| map(rules, path)).collect();
        for (index, row) in rows.iter_mut().enumerate() {
            let Some(id) = PathId::new(index).filter(|id| links.has_failed_call(*id)) else {
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
            // A FIFO or a socket in a file system has an absolute name.
            if is_none
                && !name.starts_with(b"/")
                && rules.mapped(name).is_none()
                && let Some(row) = rows.get_mut(file.path.index())
            {
                *row = NameMapping::Ignored(Reason::NoFile);
            }
        }
        Self {
            rows,
            whole,
            rules: rules.clone(),
        }
    }

    /// Result of the mapping of a name. The id of another trace has none: it is ignored.
    pub fn get(&self, id: PathId) -> &NameMapping {
        self.rows
            .get(id.index())
            .unwrap_or(&NameMapping::Ignored(Reason::NoName))
    }

    /// Path beneath the root of files of this owner; none if the name is ignored or has another
    /// owner.
    pub fn path(&self, id: PathId, copy: Copy) -> Option<&[u8]> {
        match self.get(id) {
            NameMapping::Inside(path, whose) if *whose == copy => Some(path),
            _ => None,
        }
    }

    /// Target that `link` must have to lead to the mapped name of its recorded target; none if that
    /// is not beneath the root.
    ///
    /// A relative target that leads there is unchanged. Any other target becomes relative, because
    /// the sandbox does not follow absolute ones.
    pub fn target(&self, link: PathId, target: &[u8]) -> Option<Vec<u8>> {
        let recorded = self.whole.get(link.index())?;
        let NameMapping::Inside(link, _) = self.get(link) else {
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

    /// Number of ignored names, by reason.
    pub fn ignored(&self) -> Vec<(Reason, usize)> {
        let mut reasons: Vec<Reason> = self
            .rows
            .iter()
            .filter_map(|row| match row {
                NameMapping::Ignored(reason) => Some(*reason),
                NameMapping::Inside(..) => None,
            })
            .collect();
        reasons.sort_unstable();
        let groups = reasons.chunk_by(|a, b| a == b);
        groups.map(|group| (group[0], group.len())).collect()
    }
}

/// Result of the mapping of a name with its `..`; none if it, or a rule for the part before `..`,
/// would lead to another path than `without`, the mapping of the same name without `..`.
fn with_dots(rules: &Rules, name: &[u8], without: &NameMapping) -> Option<NameMapping> {
    let NameMapping::Inside(expected, expected_copy) = without else {
        return None;
    };
    let NameMapping::Inside(path, copy) = map(rules, &plain(name, &|_| true)) else {
        return None;
    };
    let is_same = copy == *expected_copy && inside(&without_dots(&path)) == inside(&without_dots(expected));
    is_same.then_some(NameMapping::Inside(path, copy))
}

fn map(rules: &Rules, name: &[u8]) -> NameMapping {
    if name.is_empty() || name.contains(&0) {
        return NameMapping::Ignored(Reason::NoName);
    }
    if let Some(reason) = rules.ignore_reason(name) {
        return NameMapping::Ignored(reason);
    }
    let copy = rules.copy(name);
    let mapped = match rules.mapped(name) {
        Some(mapped) => mapped,
        None if name.starts_with(b"unknown:") => return NameMapping::Ignored(Reason::Nameless),
        None => name.to_vec(),
    };
    match inside(&mapped) {
        Some(path) => NameMapping::Inside(path.into(), copy),
        None => NameMapping::Ignored(Reason::Relative),
    }
}

/// A path beneath the root: without `/` at its ends and empty components. None if it begins with
/// `..`.
fn inside(path: &[u8]) -> Option<Vec<u8>> {
    let parts: Vec<&[u8]> = parts(path).collect();
    match parts.first() {
        None => Some(b".".to_vec()),
        Some(&b"..") => None,
        Some(_) => Some(parts.join(&b'/')),
    }
}

/// A name with all `..` resolved, as if no component were a link.
pub(crate) fn without_dots(path: &[u8]) -> Vec<u8> {
    plain(path, &|_| false)
}

/// A name without `.`, without empty components, and without `..` unless the component before it is
/// a link.
fn plain(path: &[u8], is_link: &impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let is_absolute = path.starts_with(b"/");
    let mut kept: Vec<u8> = Vec::with_capacity(path.len());
    for part in parts(path) {
        let last = kept.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let stays = if kept.is_empty() {
            // `/..` is `/`.
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

/// Relative path from the directory of a link to a path, both beneath the root.
fn relative(link: &[u8], to: &[u8]) -> Vec<u8> {
    let from: Vec<&[u8]> = parts(parent(link)).collect();
    let to: Vec<&[u8]> = parts(to).collect();
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let ups = std::iter::repeat_n(b"..".as_slice(), from.len() - common);
    let components: Vec<&[u8]> = ups.chain(to[common..].iter().copied()).collect();
    if components.is_empty() {
        b".".to_vec()
    } else {
        components.join(&b'/')
    }
}

/// Path to which a target leads from the link of this name.
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
