//! The directory of a preload recording: the library and the logs.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{CaptureError, at, system};
use crate::mapped_file::MappedFile;

/// The library; empty if this crate was built without it (see build.rs).
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));

/// Reports a build without the library.
pub(crate) fn check_library() -> Result<(), CaptureError> {
    if LIBRARY.is_empty() {
        return Err(CaptureError::NoRecorder);
    }
    Ok(())
}

/// A directory with the library and its logs, which is removed with this value.
pub(crate) struct RecorderDirectory {
    directory: PathBuf,
}

impl RecorderDirectory {
    /// Creates the directory next to `output`, an absolute path, because logs can be large.
    /// Writes the library into it.
    pub(crate) fn create_beside(output: &Path) -> Result<Self, CaptureError> {
        let mut name = OsString::from(".");
        name.push(output.file_name().ok_or(CaptureError::NoFileName)?);
        name.push(format!(".{}", std::process::id()));
        let directory = output.with_file_name(name);
        let created = fs::DirBuilder::new().mode(0o700).create(&directory);
        created.map_err(at("creating", &directory))?;
        let created = Self { directory };
        fs::create_dir(created.logs()).map_err(CaptureError::Io)?;
        let recorder = created.recorder();
        fs::write(&recorder, LIBRARY).map_err(at("writing", &recorder))?;
        Ok(created)
    }

    fn recorder(&self) -> PathBuf {
        self.directory.join("libplimsoll_preload.so")
    }

    fn logs(&self) -> PathBuf {
        self.directory.join("logs")
    }

    /// Sets the environment of a command so that it is recorded.
    pub(crate) fn arm<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let mut preload = self.recorder().into_os_string();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        command
            .env("LD_PRELOAD", preload)
            .env("PLIMSOLL_TRACE_DIR", self.logs())
    }

    /// Reads all logs.
    pub(crate) fn read(&self) -> Result<Vec<MappedFile>, CaptureError> {
        let entries = fs::read_dir(self.logs()).map_err(system("reading the logs of the recorder"))?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        paths
            .iter()
            .map(|path| MappedFile::open(path).map_err(at("reading", path)))
            .collect()
    }

    /// Removes all logs.
    pub(crate) fn clear(&self) -> Result<(), CaptureError> {
        fs::remove_dir_all(self.logs())
            .and_then(|()| fs::create_dir(self.logs()))
            .map_err(CaptureError::Io)
    }
}

impl Drop for RecorderDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}
