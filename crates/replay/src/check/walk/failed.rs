//! Failed calls: names that must not exist, names that must, and permissions that must be missing.

use nix::libc;
use plimsoll_trace::event::Event;
use plimsoll_trace::syscalls::Effect;

use super::{ACCESS, CREATE, DIRECTORY, NAMELESS, NO_FOLLOW, Walk, is_link_followed, open_flags};
use crate::check::disk::{Disk, Kind};
use crate::check::tree::Resolution;

const EXCHANGE: u64 = 2;

impl<'a, D: Disk> Walk<'a, D> {
    pub(super) fn note_failure(&mut self, event: &Event, error: i32) {
        let effect = event.call.effect;
        let has_two_names = matches!(effect, Effect::Link | Effect::Rename);
        let makes = matches!(effect, Effect::Make | Effect::Symlink);
        if let Some(opened) = self.known(event) {
            match (effect, error) {
                (Effect::Read, libc::EISDIR) => self.set_kind(opened.inode, Kind::Directory),
                (Effect::List, libc::ENOTDIR) => self.set_kind(opened.inode, Kind::File),
                _ => {}
            }
        }
        let by_name = matches!(
            effect,
            Effect::Open | Effect::Truncate | Effect::Look | Effect::Remove | Effect::Change | Effect::Enter
        );
        if !has_two_names && !makes && !by_name {
            return;
        }
        let Some(path) = self.path(event.path) else {
            return;
        };
        let second = if has_two_names {
            self.path(event.path2)
        } else {
            None
        };
        let last = if has_two_names { second } else { Some(path) };
        // The kernel looks up the first name before it finds that the second one exists.
        if has_two_names
            && matches!(
                error,
                libc::EEXIST | libc::ENOTEMPTY | libc::EISDIR | libc::EINVAL
            )
        {
            self.evidence.require(path, false, Kind::Unknown);
        }
        match error {
            // Both names were found: one is beneath the other.
            libc::EINVAL if is_exchange(event) => {
                if let Some(path) = second {
                    self.evidence.require(path, false, Kind::Unknown);
                }
            }
            libc::ENOENT => self.deny_name(event, path, second),
            libc::EEXIST => {
                if let Some(path) = last {
                    self.evidence.require(path, false, Kind::Unknown);
                }
            }
            libc::ENOTEMPTY => {
                if let Some(path) = last
                    && let Some((_, id)) = self.evidence.require(path, false, Kind::Directory)
                {
                    self.evidence.require_not_empty(id);
                }
            }
            libc::EISDIR => {
                if let Some(path) = last {
                    self.evidence
                        .require(path, effect != Effect::Remove, Kind::Directory);
                }
            }
            libc::ENOTDIR => self.explain_not_directory(event, path, second),
            libc::ELOOP if effect == Effect::Open && open_flags(event) & NO_FOLLOW != 0 => {
                // The cause may also be a loop of links in the path.
                let resolution = self.evidence.tree.resolve(path, false);
                if matches!(
                    resolution,
                    Resolution::Found(..) | Resolution::Absent { last: true, .. }
                ) {
                    self.evidence.require(path, false, Kind::Link);
                }
            }
            // A directory has no second name, nor has a protected file (proc(5):
            // protected_hardlinks).
            libc::EPERM if effect == Effect::Link => {
                let known = self
                    .evidence
                    .require(path, is_link_followed(event), Kind::Unknown);
                if let Some((at, id)) = known
                    && self.evidence.inode(id).kind == Kind::Unknown
                {
                    self.evidence.conform(&at, id, Kind::Directory);
                }
            }
            libc::EINVAL if event.call.name.starts_with("readlink") => {
                if let Some((at, id)) = self.evidence.require(path, false, Kind::Unknown)
                    && self.evidence.inode(id).kind == Kind::Link
                {
                    self.evidence.conform(&at, id, Kind::File);
                }
            }
            libc::ENODATA | libc::ERANGE | libc::ETXTBSY | libc::ENXIO => {
                self.evidence
                    .require(path, is_link_followed(event), Kind::Unknown);
            }
            libc::EACCES => self.refuse_permission(event, path),
            _ => {}
        }
    }

    fn deny_name(&mut self, event: &Event, path: &[u8], second: Option<&[u8]>) {
        let effect = event.call.effect;
        let creates = effect == Effect::Open && open_flags(event) & CREATE != 0;
        if creates || matches!(effect, Effect::Make | Effect::Symlink) {
            return self.evidence.deny_directory(path, is_link_followed(event));
        }
        // The error does not show which of the two names is missing: it is the directory of the
        // second name if the simulation does not have it.
        let needed = if is_exchange(event) {
            second
        } else {
            second.and_then(above)
        };
        if let Some(above) = needed
            && !matches!(self.evidence.tree.resolve(above, true), Resolution::Found(..))
        {
            return;
        }
        self.evidence.deny(path, is_link_followed(event));
    }

    /// A component of a name is not a directory. Which one is known only if the components exist.
    /// If nothing exists, later calls decide.
    fn explain_not_directory(&mut self, event: &Event, path: &'a [u8], second: Option<&'a [u8]>) {
        let effect = event.call.effect;
        let names = [Some(path), second].into_iter().flatten();
        let resolutions: Vec<_> = names
            .map(|name| self.evidence.resolve(name, is_link_followed(event)))
            .collect();
        let inodes = &self.evidence.tree.inodes;
        let is_told = |(resolution, _): &(Resolution, _)| match resolution {
            Resolution::NotDirectory(_, id) => inodes[*id].kind != Kind::Unknown,
            Resolution::Leaves(_) => true,
            _ => false,
        };
        if resolutions.iter().any(is_told) {
            return;
        }
        let wants_directory = effect == Effect::Enter
            || effect == Effect::Remove
            || effect == Effect::Open && open_flags(event) & (DIRECTORY | NAMELESS) != 0;
        let is_absent = |(resolution, _): &(Resolution, _)| match resolution {
            Resolution::Absent { last, .. } => !last || wants_directory,
            // Later calls may show that it is a directory.
            Resolution::NotDirectory(..) => true,
            _ => false,
        };
        if resolutions.iter().any(is_absent) {
            return self.evidence.add_hidden_file(&resolutions, wants_directory);
        }
        if effect == Effect::Rename {
            if let Some(to) = second {
                self.evidence.require(path, false, Kind::Directory);
                self.require_no_directory(to, false);
            }
        } else if wants_directory {
            self.require_no_directory(path, is_link_followed(event));
        } else if let Some(above) = above(path) {
            self.evidence.require(above, true, Kind::File);
        }
    }

    /// Requires that a name exists and is not a directory.
    fn require_no_directory(&mut self, path: &[u8], follow: bool) {
        if let Some((at, id)) = self.evidence.require(path, follow, Kind::Unknown)
            && matches!(self.evidence.inode(id).kind, Kind::Directory | Kind::Unknown)
        {
            self.evidence.conform(&at, id, Kind::File);
        }
    }

    fn refuse_permission(&mut self, event: &Event, path: &[u8]) {
        let bits = match event.call.effect {
            Effect::Open => match open_flags(event) & ACCESS {
                0 => 4,
                1 => 2,
                _ => 6,
            },
            Effect::Truncate => 2,
            Effect::Look if event.call.name.contains("access") => event.mode.unwrap_or(0) & 7,
            Effect::Make | Effect::Symlink | Effect::Link | Effect::Rename | Effect::Remove => {
                return self.refuse_in_directory(path, 2);
            }
            Effect::Look | Effect::Change | Effect::Enter => return self.refuse_in_directory(path, 1),
            _ => return,
        };
        let creates = event.call.effect == Effect::Open && open_flags(event) & CREATE != 0;
        if creates && !matches!(self.evidence.tree.resolve(path, true), Resolution::Found(..)) {
            return self.refuse_in_directory(path, 2);
        }
        if let Some((_, id)) = self
            .evidence
            .require(path, is_link_followed(event), Kind::Unknown)
        {
            self.evidence.note_permission(id, bits, false);
        }
    }

    fn refuse_in_directory(&mut self, path: &[u8], bits: u32) {
        let required = above(path).and_then(|above| self.evidence.require(above, true, Kind::Directory));
        if let Some((_, id)) = required {
            self.evidence.note_permission(id, bits, false);
        }
    }
}

fn is_exchange(event: &Event) -> bool {
    event.call.name == "renameat2" && event.flags.is_some_and(|flags| flags & EXCHANGE != 0)
}

/// Parent directory of a path; none if it is the root.
fn above(path: &[u8]) -> Option<&[u8]> {
    let end = path.iter().rposition(|&byte| byte == b'/')?;
    Some(&path[..end])
}
