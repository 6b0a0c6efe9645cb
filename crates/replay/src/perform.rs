//! Carries out one action: the system call alone, without memory allocation.

pub(crate) mod buffer;
mod data;
mod flags;
mod names;

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

use nix::errno::Errno;
use plimsoll_trace::event::{OpenId, PathId};

use crate::action::{Action, Operation, mark};
use crate::plan::Plan;
use crate::root::{CallFailure, Name, Refusal, Root};
use buffer::Buffer;

/// Result of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActionResult {
    /// The call returned a value or an error.
    Returned(Result<i64, Errno>),
    /// Another call was made instead, with this result.
    Replaced(Operation, Result<i64, Errno>),
    /// The sandbox refused the call.
    Refused(Refusal),
    /// The open file does not exist, because the call that should have opened it failed.
    Lost,
    /// No call was made.
    Nothing,
}

impl From<Result<i64, CallFailure>> for ActionResult {
    fn from(result: Result<i64, CallFailure>) -> Self {
        match result {
            Ok(value) => Self::Returned(Ok(value)),
            Err(CallFailure::Failed(why)) => Self::Returned(Err(why)),
            Err(CallFailure::Refused(why)) => Self::Refused(why),
        }
    }
}

impl From<Result<(), CallFailure>> for ActionResult {
    fn from(result: Result<(), CallFailure>) -> Self {
        result.map(|()| 0).into()
    }
}

/// State that all workers share.
pub(crate) struct Common<'a> {
    pub(crate) root: &'a Root,
    pub(crate) plan: &'a Plan,
    /// Descriptors by index of the open file; -1 if it is not open.
    opens: Vec<AtomicI32>,
    /// Additional descriptors of dup.
    duplicates: Mutex<HashMap<OpenId, Vec<OwnedFd>>>,
    /// Data that are written.
    content: Buffer,
}

impl<'a> Common<'a> {
    pub(crate) fn new(root: &'a Root, plan: &'a Plan, content: Buffer) -> Self {
        Self {
            root,
            plan,
            opens: (0..plan.opens).map(|_| AtomicI32::new(-1)).collect(),
            duplicates: Mutex::default(),
            content,
        }
    }

    /// Opens the files that were open before the trace began, with the greatest possible access. A
    /// file that does not exist is lost; calls on it report that.
    pub(crate) fn open_before(&self) {
        for &(open, path) in &self.plan.before {
            let Some(name) = self.name(Some(path)) else {
                continue;
            };
            let access_modes = [libc::O_RDWR, libc::O_RDONLY, libc::O_WRONLY];
            let file = access_modes
                .into_iter()
                .find_map(|access| self.root.open_file(name, access, 0).ok());
            if let Some(file) = file {
                self.put(Some(open), file);
            }
        }
    }

    fn name(&self, path: Option<PathId>) -> Option<&'a Name> {
        self.plan.names.get(path?.index())?.as_ref()
    }

    fn get(&self, open: Option<OpenId>) -> Option<RawFd> {
        let number = self.opens.get(open?.index())?.load(Ordering::Acquire);
        (number >= 0).then_some(number)
    }

    /// Stores a descriptor. The table then owns it.
    fn put(&self, open: Option<OpenId>, file: OwnedFd) {
        if let Some(slot) = open.and_then(|open| self.opens.get(open.index())) {
            close(slot.swap(file.into_raw_fd(), Ordering::AcqRel));
        }
    }

    fn duplicates(&self) -> std::sync::MutexGuard<'_, HashMap<OpenId, Vec<OwnedFd>>> {
        // The map is consistent after every statement that changes it.
        self.duplicates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Common<'_> {
    fn drop(&mut self) {
        for slot in &mut self.opens {
            close(*slot.get_mut());
        }
    }
}

fn close(number: RawFd) {
    if number >= 0 {
        // SAFETY: the table owns its descriptors, and this one was just removed from it.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }
}

/// Executes the actions of one worker.
pub(crate) struct Executor<'a> {
    common: &'a Common<'a>,
    /// Buffer for data that are read.
    buffer: Buffer,
}

impl<'a> Executor<'a> {
    /// # Errors
    /// The buffer cannot be allocated.
    pub(crate) fn new(common: &'a Common<'a>, longest_read: u64) -> Result<Self, Errno> {
        Ok(Self {
            common,
            buffer: Buffer::new(longest_read)?,
        })
    }

    /// Carries out an action. `in_order`: all actions for which it had to wait are complete, so
    /// that an open file may be closed.
    pub(crate) fn perform(&mut self, action: &Action, in_order: bool) -> ActionResult {
        match action.operation {
            Operation::Open => self.open(action),
            Operation::Close | Operation::Release if in_order => self.close(action),
            Operation::Dup => self.dup(action),
            Operation::Memory => self.memory(action),
            Operation::Refuse => ActionResult::Refused(Refusal::System),
            Operation::Close
            | Operation::Release
            | Operation::Compute
            | Operation::Wait
            | Operation::Fork => ActionResult::Nothing,
            operation if operation <= Operation::Map => match self.common.get(of_descriptor(action)) {
                Some(file) => self.on_data(action, file),
                None if operation == Operation::Truncate && action.path.is_some() => self.on_name(action),
                None if operation == Operation::Syncfs && action.open.is_none() => self.sync(),
                None => ActionResult::Lost,
            },
            _ if action.path.is_some() => self.on_name(action),
            Operation::Link => match (self.common.get(action.open), self.common.name(action.path2)) {
                (Some(file), Some(to)) => self.common.root.link_file(file, to).into(),
                (None, _) => ActionResult::Lost,
                (_, None) => ActionResult::Nothing,
            },
            _ => match self.common.get(action.open) {
                Some(file) => self.on_open(action, file),
                None => ActionResult::Lost,
            },
        }
    }

    fn open(&mut self, action: &Action) -> ActionResult {
        let Some(name) = self.common.name(action.path) else {
            return ActionResult::Lost;
        };
        if action.has(mark::PIPE) {
            return self.common.root.locate(name, true).map(|_| 0).into();
        }
        let flags = flags::of_open(action.flags);
        match self.common.root.open_file(name, flags, action.mode) {
            Ok(file) => {
                let number = std::os::fd::AsRawFd::as_raw_fd(&file);
                if action.open.is_some() {
                    self.common.put(action.open, file);
                }
                ActionResult::Returned(Ok(i64::from(number)))
            }
            Err(why) => Err::<i64, _>(why).into(),
        }
    }

    fn memory(&mut self, action: &Action) -> ActionResult {
        // SAFETY: the name ends in a zero.
        let number = unsafe { libc::memfd_create(c"replay".as_ptr(), libc::MFD_CLOEXEC) };
        match Errno::result(number) {
            Ok(number) => {
                // SAFETY: the kernel has just returned the descriptor to this process.
                self.common
                    .put(action.open, unsafe { OwnedFd::from_raw_fd(number) });
                ActionResult::Returned(Ok(i64::from(number)))
            }
            Err(why) => ActionResult::Returned(Err(why)),
        }
    }

    fn dup(&mut self, action: &Action) -> ActionResult {
        let (Some(open), Some(number)) = (action.open, self.common.get(action.open)) else {
            return ActionResult::Lost;
        };
        // SAFETY: the table keeps it open, because an action that closes it waits for this one.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        match file.try_clone_to_owned() {
            Ok(copy) => {
                let number = std::os::fd::AsRawFd::as_raw_fd(&copy);
                self.common.duplicates().entry(open).or_default().push(copy);
                ActionResult::Returned(Ok(i64::from(number)))
            }
            Err(why) => ActionResult::Returned(Err(Errno::from_raw(why.raw_os_error().unwrap_or(0)))),
        }
    }

    fn close(&mut self, action: &Action) -> ActionResult {
        let Some(open) = action.open else {
            return ActionResult::Nothing;
        };
        if !action.has(mark::LAST) {
            let duplicate = self.common.duplicates().get_mut(&open).and_then(Vec::pop);
            return duplicate.map_or(ActionResult::Lost, |_| ActionResult::Returned(Ok(0)));
        }
        let Some(slot) = self.common.opens.get(open.index()) else {
            return ActionResult::Lost;
        };
        let number = slot.swap(-1, Ordering::AcqRel);
        if number < 0 {
            return ActionResult::Lost;
        }
        // SAFETY: the table owned it, and it was just removed.
        let closed = unsafe { libc::close(number) };
        if self.common.plan.has_duplicates {
            self.common.duplicates().remove(&open);
        }
        ActionResult::Returned(Errno::result(closed).map(i64::from))
    }

    fn sync(&self) -> ActionResult {
        let root = Name::new(b"").map(|name| self.common.root.open_file(&name, libc::O_DIRECTORY, 0));
        match root {
            Some(Ok(directory)) => {
                // SAFETY: this call takes a number only.
                let done = unsafe { libc::syncfs(std::os::fd::AsRawFd::as_raw_fd(&directory)) };
                ActionResult::Returned(Errno::result(done).map(i64::from))
            }
            Some(Err(why)) => Err::<i64, _>(why).into(),
            None => ActionResult::Nothing,
        }
    }
}

/// The open file that the action requires.
fn of_descriptor(action: &Action) -> Option<OpenId> {
    if action.operation == Operation::TakeIn {
        action.open2
    } else if action.operation == Operation::Truncate && action.path.is_some() {
        None
    } else {
        action.open
    }
}
