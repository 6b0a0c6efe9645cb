//! Calls that make and change names, and the file mode creation mask.

use plimsoll_trace::constants::{AT_REMOVEDIR, O_CREAT, O_EXCL, S_IFMT};
use plimsoll_trace::event::{Event, OpenId, PathId, ThreadId};
use plimsoll_trace::syscalls::Effect;

use super::{act, of, refuse};
use crate::action::Operation;
use crate::plan::opens::OpenKind;
use crate::plan::{Fate, Planner};

const S_IFIFO: u32 = 0o1_0000;
const S_IFREG: u32 = 0o10_0000;
/// Mask of a process that has not set its own.
const USUAL_MASK: u32 = 0o022;

impl Planner<'_> {
    pub(super) fn on_name(&mut self, event: &Event) -> Fate {
        let has_two_names = matches!(event.call.effect, Effect::Link | Effect::Rename);
        if let (Effect::Link, None, Some(open)) = (event.call.effect, event.path, event.open) {
            return self.link_open(event, open);
        }
        if event.path.is_none() || has_two_names && event.path2.is_none() {
            return Fate::Fold;
        }
        if !self.is_here(event.path) || has_two_names && !self.is_here(event.path2) {
            return Fate::Ignore;
        }
        let removes_directory = event.flags.is_some_and(|flags| flags & AT_REMOVEDIR != 0);
        let operation = match event.call.effect {
            Effect::Link => Operation::Link,
            Effect::Rename => Operation::Rename,
            Effect::Symlink => Operation::Symlink,
            Effect::Remove if event.call.name == "rmdir" || removes_directory => Operation::Rmdir,
            Effect::Remove => Operation::Unlink,
            _ if event.call.name.starts_with("mkdir") => Operation::Mkdir,
            _ => match event.mode.map(|mode| mode & S_IFMT) {
                Some(S_IFIFO) => Operation::Mkfifo,
                Some(S_IFREG | 0) => Operation::Open,
                _ => return refuse(event),
            },
        };
        let mut action = of(event, operation);
        action.mode = event.mode.unwrap_or(0o777) & !self.mask(event);
        match operation {
            // mknod(2) of a regular file: the file is made, but not kept open.
            Operation::Open => action.flags = (O_CREAT | O_EXCL) as u32,
            Operation::Mkfifo => self.pipes.extend(event.path),
            Operation::Symlink => self.text(event.path2),
            _ => {}
        }
        Fate::Act(action)
    }

    /// A link to an open file: a file of `O_TMPFILE` has no other name.
    fn link_open(&mut self, event: &Event, open: OpenId) -> Fate {
        match self.open_kind(open, event.file) {
            OpenKind::Real if self.is_here(event.path2) => act(event, Operation::Link),
            OpenKind::Real | OpenKind::Ignored => Fate::Ignore,
            _ => Fate::Fold,
        }
    }

    pub(super) fn text(&mut self, path: Option<PathId>) {
        if let Some(path) = path {
            let bytes = self.trace.path(path);
            if let Ok(text) = std::ffi::CString::new(bytes) {
                self.plan.texts.insert(path, text);
            }
        }
    }

    pub(super) fn umask(&mut self, event: &Event) -> Fate {
        if let (Some(mask), Some(process)) = (event.mode, self.process(event.thread)) {
            self.masks.insert(process, mask & 0o777);
        }
        Fate::Fold
    }

    pub(in crate::plan) fn process(&self, thread: ThreadId) -> Option<u32> {
        let entry = self.trace.threads().get(thread.index())?;
        Some(entry.pid)
    }

    /// The mask of the event's process, or that of its nearest ancestor.
    pub(super) fn mask(&self, event: &Event) -> u32 {
        let threads = self.trace.threads();
        let mut thread = Some(event.thread);
        // A child is created after its parent, so parents have lower indices. Others are ignored: a
        // loop would not end.
        while let Some(entry) = thread.and_then(|thread| threads.get(thread.index())) {
            if let Some(mask) = self.masks.get(&entry.pid) {
                return *mask;
            }
            thread = entry.parent.filter(|parent| Some(*parent) < thread);
        }
        USUAL_MASK
    }
}
