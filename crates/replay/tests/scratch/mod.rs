//! Directories of a test, and what is in them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A directory that is gone with the test.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("plimsoll-check-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn make(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir(&path).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
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
