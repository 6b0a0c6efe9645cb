//! A cache of open directories: most calls of a program use few directories.
//!
//! The cache contains directories without a symbolic link in their path. The directory of such a
//! name changes only if a directory is moved or removed, and the replay then clears the cache. A
//! move by another process is not noticed: the replay continues in the directory, as a program does
//! in its working directory.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Maximum number of cached directories; each is a descriptor of the process.
const MAX_CACHED: usize = 128;

/// Open directories by name.
#[derive(Debug, Default)]
pub(super) struct DirectoryCache {
    all: RwLock<All>,
}

#[derive(Debug, Default)]
struct All {
    known: HashMap<CString, Arc<OwnedFd>>,
    /// Number of times that the cache was cleared.
    age: u64,
}

/// State of the cache when a name was not found. A directory that is opened then may be cached only
/// if the cache was not cleared since.
#[derive(Debug, Clone, Copy)]
pub(super) struct Age(u64);

impl DirectoryCache {
    /// The directory of this name, or the age of the cache.
    pub(super) fn get(&self, name: &CStr) -> Result<Arc<OwnedFd>, Age> {
        let all = self.read();
        all.known.get(name).cloned().ok_or(Age(all.age))
    }

    /// Caches a directory that was opened after `age`.
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

    /// Clears the cache, because a directory may have been renamed or removed.
    pub(super) fn forget(&self) {
        let mut all = self.write();
        all.age += 1;
        all.known.clear();
    }

    fn read(&self) -> RwLockReadGuard<'_, All> {
        // The map is consistent after every statement that changes it. The same is true below.
        self.all.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, All> {
        self.all.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_directory() -> Arc<OwnedFd> {
        Arc::new(std::fs::File::open("/").unwrap().into())
    }

    #[test]
    fn a_directory_opened_before_a_clear_is_not_cached() {
        let (cache, directory) = (DirectoryCache::default(), some_directory());
        let age = cache.get(c"a").unwrap_err();
        cache.keep(c"a", &directory, age);
        assert!(Arc::ptr_eq(&cache.get(c"a").unwrap(), &directory));
        let late = cache.get(c"b").unwrap_err();
        cache.forget();
        cache.keep(c"b", &directory, late);
        assert!(cache.get(c"a").is_err() && cache.get(c"b").is_err());
    }

    #[test]
    fn the_cache_is_bounded() {
        let (cache, directory) = (DirectoryCache::default(), some_directory());
        for number in 0..3 * MAX_CACHED {
            let name = CString::new(number.to_string()).unwrap();
            let age = cache.get(&name).unwrap_err();
            cache.keep(&name, &directory, age);
            assert!(cache.get(&name).is_ok() && cache.read().known.len() <= MAX_CACHED);
        }
    }
}
