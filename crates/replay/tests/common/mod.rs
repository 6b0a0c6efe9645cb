//! Directories that tests work in, and what is in them.
#![allow(
    dead_code,
    reason = "each test is a program of its own, and none uses all of it"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of a test's own, gone with it.
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

    /// A directory in it.
    pub fn make(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir(&path).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing can be done about what stays behind, and the test has its own verdict.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// All that is beneath a directory: kind, size or target.
#[derive(Debug, PartialEq, Eq)]
pub struct Snapshot(BTreeMap<PathBuf, String>);

impl Snapshot {
    pub fn of(root: &Path) -> Self {
        let mut all = BTreeMap::new();
        let mut open = vec![root.to_path_buf()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(&dir).unwrap() {
                let path = entry.unwrap().path();
                let found = fs::symlink_metadata(&path).unwrap();
                let what = if found.is_dir() {
                    open.push(path.clone());
                    "directory".into()
                } else if found.is_symlink() {
                    format!("-> {}", fs::read_link(&path).unwrap().display())
                } else {
                    format!("{:?}", fs::read(&path).unwrap())
                };
                all.insert(path, what);
            }
        }
        Self(all)
    }
}
