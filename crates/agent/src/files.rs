//! The spool of an agent with its own directory: segments are listed, sent in pieces, and removed
//! when the controller has stored them.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use plimsoll_link::codec::MAX_PIECE_BYTES;
use plimsoll_link::message::is_name;
use plimsoll_link::{FileInfo, Line, RunKey, ToController};

/// Why the directory for the segments of a run cannot be created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpoolError {
    /// The name of the run is invalid.
    #[error("{0}")]
    Name(#[source] io::Error),
    /// The directory cannot be created or read.
    #[error("creating {path}: {source}")]
    Create { path: PathBuf, source: io::Error },
    /// The directory contains segments.
    #[error("{0} already contains a measurement: run `plimsoll collect` first")]
    Measured(PathBuf),
}

/// The spool. Segments are in `DIRECTORY/runs/EXPERIMENT/RUN/FILE`.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    runs: PathBuf,
}

impl Files {
    pub(crate) fn below(directory: &Path) -> Self {
        Self {
            runs: directory.join("runs"),
        }
    }

    /// Creates an empty directory for the segments of a run.
    ///
    /// # Errors
    /// [`SpoolError`].
    pub(crate) fn create(&self, run: &RunKey) -> Result<PathBuf, SpoolError> {
        let path = self.path(run).map_err(SpoolError::Name)?;
        let failed = |source| SpoolError::Create {
            path: path.clone(),
            source,
        };
        fs::create_dir_all(&path).map_err(failed)?;
        if fs::read_dir(&path).map_err(failed)?.next().is_some() {
            return Err(SpoolError::Measured(path));
        }
        Ok(path)
    }

    fn path(&self, run: &RunKey) -> io::Result<PathBuf> {
        let path = run.path().ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.runs.join(path))
    }

    /// The files of a run, sorted by name; empty if there is no directory.
    pub(crate) fn list(&self, run: &RunKey) -> Vec<FileInfo> {
        let entries = self.path(run).and_then(fs::read_dir);
        let mut files: Vec<FileInfo> = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let name = entry
                    .file_name()
                    .into_string()
                    .ok()
                    .filter(|name| is_name(name))?;
                let bytes = entry.metadata().ok().filter(fs::Metadata::is_file)?.len();
                Some(FileInfo { name, bytes })
            })
            .collect();
        files.sort_by(|a, b| a.name.cmp(&b.name));
        files
    }

    /// Sends a file from `offset` to its end in a separate thread, so that the agent handles
    /// messages also while a slow link transfers a file.
    pub(crate) fn send(&self, line: &Line, ticket: u32, run: &RunKey, name: &str, offset: u64) {
        let Some(number) = line.link() else { return };
        let opened = self.open(run, name, offset);
        let sending = line.clone();
        let work = move || {
            let sent = opened.and_then(|file| {
                send_pieces(file, offset, |offset, bytes| {
                    sending.send_piece(number, ticket, offset, bytes)
                })
            });
            if let Err(error) = sent {
                let error = error.to_string();
                let _ = sending.send(&ToController::Unsent { ticket, error });
            }
        };
        if let Err(error) = std::thread::Builder::new().name("files".into()).spawn(work) {
            let error = error.to_string();
            let _ = line.send(&ToController::Unsent { ticket, error });
        }
    }

    fn open(&self, run: &RunKey, name: &str, offset: u64) -> io::Result<File> {
        if !is_name(name) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut file = File::open(self.path(run)?.join(name))?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(file)
    }

    /// Removes the files of a run, and the directories that are empty then.
    pub(crate) fn forget(&self, run: &RunKey) {
        if let Ok(path) = self.path(run) {
            let _ = fs::remove_dir_all(&path);
            let _ = path.parent().map(fs::remove_dir);
            let _ = fs::remove_dir(&self.runs);
        }
    }

    /// Whether all runs were collected.
    pub(crate) fn is_empty(&self) -> bool {
        !self.runs.exists()
    }
}

/// Passes `file` from its present position, which is `offset`, to `send` in pieces, until the end
/// or until `send` returns false.
fn send_pieces(mut file: File, mut offset: u64, send: impl Fn(u64, Bytes) -> bool) -> io::Result<()> {
    loop {
        let mut bytes = vec![0; MAX_PIECE_BYTES];
        let count = file.read(&mut bytes)?;
        bytes.truncate(count);
        if count == 0 || !send(offset, bytes.into()) {
            return Ok(());
        }
        offset += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_listed_and_sent_and_paths_outside_are_refused() {
        let directory = std::env::temp_dir().join(format!("plimsoll-files-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        let files = Files::below(&directory);
        let run = RunKey {
            experiment: "e-1".into(),
            run: "0001".into(),
        };
        let directory_of_run = files.create(&run).unwrap();
        assert!(files.list(&run).is_empty() && !files.is_empty());
        let content: Vec<u8> = (0..MAX_PIECE_BYTES * 2 + 5).map(|offset| offset as u8).collect();
        fs::write(directory_of_run.join("a.arrow"), &content).unwrap();
        fs::create_dir(directory_of_run.join("directory")).unwrap();
        assert_eq!(
            files.list(&run),
            [FileInfo {
                name: "a.arrow".into(),
                bytes: content.len() as u64
            }]
        );
        let error = files.create(&run).unwrap_err().to_string();
        assert!(error.contains("plimsoll collect"), "{error}");
        let received = std::cell::RefCell::new(Vec::new());
        let send = |offset: u64, bytes: Bytes| {
            assert_eq!(offset as usize, 7 + received.borrow().len());
            received.borrow_mut().extend_from_slice(&bytes);
            true
        };
        send_pieces(files.open(&run, "a.arrow", 7).unwrap(), 7, send).unwrap();
        assert_eq!(*received.borrow(), content[7..]);
        let outside = RunKey {
            experiment: "..".into(),
            run: "..".into(),
        };
        assert!(files.open(&run, "../a.arrow", 0).is_err() && files.create(&outside).is_err());
        files.forget(&outside);
        files.forget(&run);
        assert!(files.is_empty() && directory.exists());
        fs::remove_dir_all(&directory).unwrap();
    }
}
