//! One action: the bare system call, with nothing allocated for it.

mod data;
mod flags;
mod names;
pub(crate) mod room;

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

use nix::errno::Errno;
use plimsoll_trace::event::{OpenId, PathId};

use crate::action::{Action, Operation, mark};
use crate::plan::Plan;
use crate::root::{Denied, Name, Refusal, Root};
use room::Room;

/// What became of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActionResult {
    /// The kernel said: a value, or an error.
    Said(Result<i64, Errno>),
    /// The same of another call, which was made instead.
    Instead(Operation, Result<i64, Errno>),
    /// The sandbox refused.
    Refused(Refusal),
    /// The open file that it is about is not there: what should have opened it has failed.
    Lost,
    /// There was nothing to do.
    Nothing,
}

impl From<Result<i64, Denied>> for ActionResult {
    fn from(result: Result<i64, Denied>) -> Self {
        match result {
            Ok(value) => Self::Said(Ok(value)),
            Err(Denied::Failed(why)) => Self::Said(Err(why)),
            Err(Denied::Refused(why)) => Self::Refused(why),
        }
    }
}

impl From<Result<(), Denied>> for ActionResult {
    fn from(result: Result<(), Denied>) -> Self {
        result.map(|()| 0).into()
    }
}

/// What all workers have in common.
pub(crate) struct Common<'a> {
    pub(crate) root: &'a Root,
    pub(crate) plan: &'a Plan,
    /// By the place of an open file: its descriptor, or -1.
    opens: Vec<AtomicI32>,
    /// Further descriptors, which dup has made.
    duplicates: Mutex<HashMap<OpenId, Vec<OwnedFd>>>,
    /// What is written.
    content: Room,
}

impl<'a> Common<'a> {
    pub(crate) fn new(root: &'a Root, plan: &'a Plan, content: Room) -> Self {
        Self {
            root,
            plan,
            opens: (0..plan.opens).map(|_| AtomicI32::new(-1)).collect(),
            duplicates: Mutex::default(),
            content,
        }
    }

    /// Opens what was open before the trace began, as far as it may be written and read. What is
    /// not there is lost, and whoever uses it says so.
    pub(crate) fn open_before(&self) {
        for &(open, path) in &self.plan.before {
            let Some(name) = self.name(Some(path)) else {
                continue;
            };
            let ways = [libc::O_RDWR, libc::O_RDONLY, libc::O_WRONLY];
            let file = ways
                .into_iter()
                .find_map(|way| self.root.open_file(name, way, 0).ok());
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

    /// The descriptor is the table's from now on.
    fn put(&self, open: Option<OpenId>, file: OwnedFd) {
        if let Some(slot) = open.and_then(|open| self.opens.get(open.index())) {
            close(slot.swap(file.into_raw_fd(), Ordering::AcqRel));
        }
    }

    fn duplicates(&self) -> std::sync::MutexGuard<'_, HashMap<OpenId, Vec<OwnedFd>>> {
        // A map of descriptors is whole after every line that changes it.
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
        // SAFETY: descriptors in the table are owned by it, and this one has just been taken out.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }
}

/// One worker's means.
pub(crate) struct Hands<'a> {
    common: &'a Common<'a>,
    /// What is read goes there.
    room: Room,
}

impl<'a> Hands<'a> {
    /// # Errors
    /// There is no memory for the room.
    pub(crate) fn new(common: &'a Common<'a>, longest_read: u64) -> Result<Self, Errno> {
        Ok(Self {
            common,
            room: Room::new(longest_read)?,
        })
    }

    /// Does it. `in_order`: everybody that it had to wait for is done, so that an open file may be
    /// closed.
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
                ActionResult::Said(Ok(i64::from(number)))
            }
            Err(why) => Err::<i64, _>(why).into(),
        }
    }

    fn memory(&mut self, action: &Action) -> ActionResult {
        // SAFETY: the name ends in a zero.
        let number = unsafe { libc::memfd_create(c"replay".as_ptr(), libc::MFD_CLOEXEC) };
        match Errno::result(number) {
            Ok(number) => {
                // SAFETY: the kernel has just given it to us.
                self.common
                    .put(action.open, unsafe { OwnedFd::from_raw_fd(number) });
                ActionResult::Said(Ok(i64::from(number)))
            }
            Err(why) => ActionResult::Said(Err(why)),
        }
    }

    fn dup(&mut self, action: &Action) -> ActionResult {
        let (Some(open), Some(number)) = (action.open, self.common.get(action.open)) else {
            return ActionResult::Lost;
        };
        // SAFETY: the table holds it open, since whoever closes it waits for us.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        match file.try_clone_to_owned() {
            Ok(copy) => {
                let number = std::os::fd::AsRawFd::as_raw_fd(&copy);
                self.common.duplicates().entry(open).or_default().push(copy);
                ActionResult::Said(Ok(i64::from(number)))
            }
            Err(why) => ActionResult::Said(Err(Errno::from_raw(why.raw_os_error().unwrap_or(0)))),
        }
    }

    fn close(&mut self, action: &Action) -> ActionResult {
        let Some(open) = action.open else {
            return ActionResult::Nothing;
        };
        if !action.has(mark::LAST) {
            let one = self.common.duplicates().get_mut(&open).and_then(Vec::pop);
            return one.map_or(ActionResult::Lost, |_| ActionResult::Said(Ok(0)));
        }
        let Some(slot) = self.common.opens.get(open.index()) else {
            return ActionResult::Lost;
        };
        let number = slot.swap(-1, Ordering::AcqRel);
        if number < 0 {
            return ActionResult::Lost;
        }
        // SAFETY: the table owned it, and it has just been taken out.
        let closed = unsafe { libc::close(number) };
        if self.common.plan.has_duplicates {
            self.common.duplicates().remove(&open);
        }
        ActionResult::Said(Errno::result(closed).map(i64::from))
    }

    fn sync(&self) -> ActionResult {
        let root = Name::new(b"").map(|name| self.common.root.open_file(&name, libc::O_DIRECTORY, 0));
        match root {
            Some(Ok(directory)) => {
                // SAFETY: this call takes a number only.
                let done = unsafe { libc::syncfs(std::os::fd::AsRawFd::as_raw_fd(&directory)) };
                ActionResult::Said(Errno::result(done).map(i64::from))
            }
            Some(Err(why)) => Err::<i64, _>(why).into(),
            None => ActionResult::Nothing,
        }
    }
}

/// The descriptor that must be there.
fn of_descriptor(action: &Action) -> Option<OpenId> {
    if action.operation == Operation::TakeIn {
        action.open2
    } else if action.operation == Operation::Truncate && action.path.is_some() {
        None
    } else {
        action.open
    }
}
