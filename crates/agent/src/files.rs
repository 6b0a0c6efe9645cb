//! The segments of an agent that has a directory of its own: listed, sent piece by piece, removed
//! when they are safe.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use plimsoll_link::codec::MAX_PIECE_BYTES;
use plimsoll_link::message::is_name;
use plimsoll_link::{FileInfo, Line, RunKey, ToController};

/// The directory, `DIR/runs/EXPERIMENT/RUN/FILE`.
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

    /// An empty directory for the segments of a run.
    ///
    /// # Errors
    /// A text for people: a name that is none, a full disk, a run that is there already.
    pub(crate) fn create(&self, run: &RunKey) -> Result<PathBuf, String> {
        let path = self.path(run).map_err(|error| error.to_string())?;
        let wrong = |error: io::Error| format!("creating {}: {error}", path.display());
        fs::create_dir_all(&path).map_err(wrong)?;
        if fs::read_dir(&path).map_err(wrong)?.next().is_some() {
            return Err(format!(
                "{} holds a measurement already: collect it first",
                path.display()
            ));
        }
        Ok(path)
    }

    fn path(&self, run: &RunKey) -> io::Result<PathBuf> {
        let path = run.path().ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.runs.join(path))
    }

    /// What is there of a run, by name. Nothing is no error.
    pub(crate) fn list(&self, run: &RunKey) -> Vec<FileInfo> {
        let entries = self.path(run).and_then(fs::read_dir);
        let mut found: Vec<FileInfo> = entries
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
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }

    /// Sends a file from `offset` to its end, from a thread of its own: a slow link must not keep
    /// the agent from hearing.
    pub(crate) fn send(&self, line: &Line, ticket: u32, run: &RunKey, name: &str, offset: u64) {
        let Some(number) = line.link() else { return };
        let opened = self.open(run, name, offset);
        let sending = line.clone();
        let work = move || {
            let sent = opened.and_then(|file| {
                pieces(file, offset, |offset, bytes| {
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

    /// Removes a run, and directories that are empty then.
    pub(crate) fn forget(&self, run: &RunKey) {
        if let Ok(path) = self.path(run) {
            let _ = fs::remove_dir_all(&path);
            let _ = path.parent().map(fs::remove_dir);
            let _ = fs::remove_dir(&self.runs);
        }
    }

    /// Whether there is anything that nobody has collected.
    pub(crate) fn is_empty(&self) -> bool {
        !self.runs.exists()
    }
}

/// Gives the rest of `file` in pieces until `give` says that nobody takes them.
fn pieces(mut file: File, mut offset: u64, send: impl Fn(u64, Bytes) -> bool) -> io::Result<()> {
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
    fn files_are_listed_and_cut_into_pieces_and_nothing_outside_is_reached() {
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
        assert!(files.create(&run).unwrap_err().contains("collect it first"));
        let gathered = std::cell::RefCell::new(Vec::new());
        let send = |offset: u64, bytes: Bytes| {
            assert_eq!(offset as usize, 7 + gathered.borrow().len());
            gathered.borrow_mut().extend_from_slice(&bytes);
            true
        };
        pieces(files.open(&run, "a.arrow", 7).unwrap(), 7, send).unwrap();
        assert_eq!(*gathered.borrow(), content[7..]);
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
