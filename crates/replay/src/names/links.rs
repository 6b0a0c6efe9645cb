//! The symbolic links in a trace.

use std::collections::{HashMap, HashSet};

use plimsoll_trace::event::{Event, Outcome, PathId};
use plimsoll_trace::names::Names;
use plimsoll_trace::syscalls::{Argument, Effect};

/// Type bits of a mode, and those of a link: inode(7).
const TYPE: u32 = 0o170_000;
const LINK: u32 = 0o120_000;

/// A symbolic link that existed when the trace began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Path of the link.
    pub path: PathId,
    /// Target, if the trace contains it: `path2` of readlink.
    pub target: Option<PathId>,
    /// Length of the target, bytes; 0 if it is unknown.
    pub length: u64,
}

/// All symbolic links that a trace shows, at any time. They are collected before names are mapped,
/// because a name may be used long before a call shows that it is a link.
#[derive(Debug, Clone, Default)]
pub struct Links {
    at_start: HashMap<PathId, Link>,
    /// Names that the trace has made or assigned to other files. A link there, or beneath, need not
    /// have existed at the beginning.
    moved: HashSet<Box<[u8]>>,
    linked: HashSet<PathId>,
    /// Names with `..` on which calls have failed: the component before `..` may have been missing,
    /// or not a directory.
    failed: HashSet<PathId>,
    paths: HashSet<Box<[u8]>>,
}

impl Links {
    /// No links.
    pub fn new() -> Self {
        Self::default()
    }

    /// The links in these events.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>, names: &Names) -> Self {
        let mut links = Self::new();
        for event in events {
            links.note(event, names);
        }
        links
    }

    /// Adds the next event.
    pub fn note(&mut self, event: &Event, names: &Names) {
        if let Outcome::Failed(_) = event.outcome {
            let both = [event.path, event.path2].into_iter().flatten();
            self.failed
                .extend(both.filter(|path| has_dots(names.path(*path))));
        }
        let (Some(value), Some(path)) = (event.outcome.value(), event.path) else {
            return;
        };
        match event.call.effect {
            Effect::Symlink => {
                self.mark_moved(path, names);
                self.mark_linked(path, names);
            }
            Effect::Make | Effect::Remove => self.mark_moved(path, names),
            Effect::Link | Effect::Rename => {
                if event.call.effect == Effect::Rename {
                    self.mark_moved(path, names);
                }
                if let Some(to) = event.path2 {
                    self.mark_moved(to, names);
                    if self.linked.contains(&path) {
                        self.mark_linked(to, names);
                    }
                }
            }
            Effect::Look if event.call.name.starts_with("readlink") => {
                let length = u64::try_from(value).unwrap_or(0);
                self.add_link(path, event.path2, length, names);
            }
            Effect::Look
                if event.call.arguments.contains(&Argument::Status)
                    && event.mode.is_some_and(|mode| mode & TYPE == LINK) =>
            {
                self.add_link(path, None, event.length.unwrap_or(0), names);
            }
            _ => {}
        }
    }

    /// Whether this recorded name was a link at some time.
    pub fn has(&self, path: &[u8]) -> bool {
        self.paths.contains(path)
    }

    /// Whether a call has failed on this name, which contains `..`.
    pub(super) fn has_failed_call(&self, path: PathId) -> bool {
        self.failed.contains(&path)
    }

    /// The links that existed when the trace began, in no particular order.
    pub fn at_start(&self) -> impl Iterator<Item = &Link> {
        self.at_start.values()
    }

    fn add_link(&mut self, path: PathId, target: Option<PathId>, length: u64, names: &Names) {
        self.mark_linked(path, names);
        let name = names.path(path);
        let ends = (0..=name.len()).filter(|&end| end == name.len() || name[end] == b'/');
        if ends.into_iter().any(|end| self.moved.contains(&name[..end])) {
            return;
        }
        let link = self.at_start.entry(path).or_insert(Link { path, target, length });
        link.target = link.target.or(target);
        link.length = link.length.max(length);
    }

    fn mark_moved(&mut self, path: PathId, names: &Names) {
        self.moved.insert(names.path(path).into());
    }

    fn mark_linked(&mut self, path: PathId, names: &Names) {
        self.linked.insert(path);
        self.paths.insert(names.path(path).into());
    }
}

fn has_dots(path: &[u8]) -> bool {
    path.split(|&byte| byte == b'/').any(|part| part == b"..")
}
