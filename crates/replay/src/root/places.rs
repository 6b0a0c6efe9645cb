//! Directories that names were found in, kept open: most calls of a program are about few of them.
//!
//! Kept are those with no symbolic link on their way. What such a name stands for changes only
//! where a directory is moved or removed, and all are forgotten when we do that. Of one that
//! somebody else moves we notice nothing: we go on in it as a program does in its working
//! directory.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The most that are kept: each is a descriptor of the process.
const MAX_CACHED: usize = 128;

/// Directories by their names.
#[derive(Debug, Default)]
pub(super) struct Places {
    all: RwLock<All>,
}

#[derive(Debug, Default)]
struct All {
    known: HashMap<CString, Arc<OwnedFd>>,
    /// How often all were forgotten.
    age: u64,
}

/// What was known when a name was not found: only as long as nothing was forgotten may be kept what
/// is found then.
#[derive(Debug, Clone, Copy)]
pub(super) struct Age(u64);

impl Places {
    /// The directory of this name.
    pub(super) fn get(&self, name: &CStr) -> Result<Arc<OwnedFd>, Age> {
        let all = self.read();
        all.known.get(name).cloned().ok_or(Age(all.age))
    }

    /// Keeps a directory that was looked up after `age`.
    pub(super) fn keep(&self, name: &CStr, directory: &Arc<OwnedFd>, age: Age) {
        let mut all = self.write();
        if all.age != age.0 {
            return;
        }
        if all.known.len() >= MAX_CACHED {
            all.known.clear();
        }
        all.known.insert(name.to_owned(), Arc::clone(directory));
    }

    /// A directory may have another name, or none.
    pub(super) fn forget(&self) {
        let mut all = self.write();
        all.age += 1;
        all.known.clear();
    }

    fn read(&self) -> RwLockReadGuard<'_, All> {
        // The map is whole after every line that changes it. So below.
        self.all.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, All> {
        self.all.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Arc<OwnedFd> {
        Arc::new(std::fs::File::open("/").unwrap().into())
    }

    #[test]
    fn what_was_looked_up_before_a_change_is_not_kept() {
        let (places, directory) = (Places::default(), some());
        let age = places.get(c"a").unwrap_err();
        places.keep(c"a", &directory, age);
        assert!(Arc::ptr_eq(&places.get(c"a").unwrap(), &directory));
        let late = places.get(c"b").unwrap_err();
        places.forget();
        places.keep(c"b", &directory, late);
        assert!(places.get(c"a").is_err() && places.get(c"b").is_err());
    }

    #[test]
    fn so_many_are_kept_and_no_more() {
        let (places, directory) = (Places::default(), some());
        for number in 0..3 * MAX_CACHED {
            let name = CString::new(number.to_string()).unwrap();
            let age = places.get(&name).unwrap_err();
            places.keep(&name, &directory, age);
            assert!(places.get(&name).is_ok() && places.read().known.len() <= MAX_CACHED);
        }
    }
}
