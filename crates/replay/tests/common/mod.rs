//! Scratch directories of tests, and snapshots of their contents.
#![allow(
    dead_code,
    reason = "each test is a separate program, and none uses all items"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of one test, removed with it.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("plimsoll-replay-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Creates a directory in it.
    pub fn make(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir(&path).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A failure here must not change the result of the test.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Everything beneath a directory: type, contents or target, by path.
#[derive(Debug, PartialEq, Eq)]
pub struct Snapshot(BTreeMap<PathBuf, String>);

impl Snapshot {
    pub fn of(root: &Path) -> Self {
        let mut all = BTreeMap::new();
        let mut open = vec![root.to_path_buf()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(&dir).unwrap() {
                let path = entry.unwrap().path();
                let metadata = fs::symlink_metadata(&path).unwrap();
                let description = if metadata.is_dir() {
                    open.push(path.clone());
                    "directory".into()
                } else if metadata.is_symlink() {
                    format!("-> {}", fs::read_link(&path).unwrap().display())
                } else {
                    format!("{:?}", fs::read(&path).unwrap())
                };
                all.insert(path, description);
            }
        }
        Self(all)
    }
}
