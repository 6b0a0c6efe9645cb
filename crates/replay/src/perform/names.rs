//! Calls on names, each through the sandbox.

use libc::c_int;
use nix::errno::Errno;
use nix::sys::stat::SFlag;

use super::buffer::MAX_CHUNK_BYTES;
use super::{ActionResult, Executor};
use crate::action::{Action, Operation, mark};
use crate::root::CallFailure;

const AT_SYMLINK_FOLLOW: u32 = 0x400;

impl Executor<'_> {
    pub(super) fn on_name(&mut self, action: &Action) -> ActionResult {
        let common = self.common;
        let root = common.root;
        let Some(name) = common.name(action.path) else {
            return ActionResult::Nothing;
        };
        let follow = !action.has(mark::STAY);
        let bytes = self.buffer.bytes_mut();
        let size = usize::try_from(action.length)
            .unwrap_or(MAX_CHUNK_BYTES)
            .min(bytes.len());
        let bytes = &mut bytes[..size];
        let attribute = action.path2.and_then(|text| common.plan.texts.get(&text));
        let key = attribute.map_or(c"", |text| text.as_c_str());
        match action.operation {
            Operation::Stat => root.stat(name, follow).map(|_| 0).into(),
            Operation::Enter => root.stat(name, true).and_then(expect_directory).into(),
            Operation::Statfs => root.statfs(name).into(),
            Operation::Access => root.access(name, action.mode as c_int, follow).into(),
            Operation::Readlink => root.readlink(name, bytes).map(|size| size as i64).into(),
            Operation::Mkdir => root.mkdir(name, action.mode).into(),
            Operation::Mkfifo => root.mkfifo(name, action.mode).into(),
            Operation::Unlink => root.unlink(name).into(),
            Operation::Rmdir => root.rmdir(name).into(),
            Operation::Chmod => root.chmod(name, action.mode, follow).into(),
            Operation::Touch => root.touch(name, follow).into(),
            Operation::Truncate => {
                let size = i64::try_from(action.length).unwrap_or(i64::MAX);
                root.truncate(name, size).into()
            }
            Operation::Getxattr => root
                .getxattr(name, key, bytes, follow)
                .map(|size| size as i64)
                .into(),
            Operation::Listxattr => root.listxattr(name, bytes, follow).map(|size| size as i64).into(),
            Operation::Setxattr => {
                let flags = action.flags as c_int;
                root.setxattr(name, key, bytes, flags, follow).into()
            }
            Operation::Removexattr => root.removexattr(name, key, follow).into(),
            Operation::Symlink => self.symlink(action),
            Operation::Link | Operation::Rename => match common.name(action.path2) {
                Some(to) if action.operation == Operation::Rename => {
                    root.rename(name, to, action.flags).into()
                }
                Some(to) => root.link(name, to, action.flags & AT_SYMLINK_FOLLOW != 0).into(),
                None => ActionResult::Nothing,
            },
            _ => ActionResult::Nothing,
        }
    }

    /// An absolute target begins at the root of the sandbox.
    fn symlink(&self, action: &Action) -> ActionResult {
        let common = self.common;
        let text = action.path2.and_then(|text| common.plan.texts.get(&text));
        let (Some(name), Some(text)) = (common.name(action.path), text) else {
            return ActionResult::Nothing;
        };
        if text.to_bytes().first() != Some(&b'/') {
            return common.root.symlink(text, name).into();
        }
        match common.name(action.path2) {
            Some(target) => common.root.symlink_beneath(target, name).into(),
            None => ActionResult::Refused(crate::root::Refusal::Leaves),
        }
    }
}

fn expect_directory(status: nix::sys::stat::FileStat) -> Result<(), CallFailure> {
    if SFlag::from_bits_truncate(status.st_mode & SFlag::S_IFMT.bits()) == SFlag::S_IFDIR {
        Ok(())
    } else {
        Err(Errno::ENOTDIR.into())
    }
}
