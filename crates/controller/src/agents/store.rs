//! Files that are being fetched from agents: assembles pieces to files.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::input::Input;

/// Files that are being fetched, by ticket.
#[derive(Default)]
pub(crate) struct Store(Mutex<Transfers>);

#[derive(Default)]
struct Transfers {
    next: u32,
    files: HashMap<u32, IncomingFile>,
}

struct IncomingFile {
    file: File,
    part: PathBuf,
    path: PathBuf,
    written: u64,
    bytes: u64,
}

impl Store {
    fn transfers(&self) -> MutexGuard<'_, Transfers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a file for `path` that will have `bytes` bytes, and returns its ticket.
    ///
    /// # Errors
    /// The file cannot be created.
    pub(crate) fn expect(&self, path: &Path, bytes: u64) -> std::io::Result<u32> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = File::create(&part)?;
        let mut transfers = self.transfers();
        transfers.next += 1;
        let ticket = transfers.next;
        transfers.files.insert(
            ticket,
            IncomingFile {
                file,
                part,
                path: path.to_owned(),
                written: 0,
                bytes,
            },
        );
        Ok(ticket)
    }

    /// Number of bytes that were written: the offset at which to continue over a new link.
    pub(crate) fn written(&self, ticket: u32) -> Option<u64> {
        self.transfers().files.get(&ticket).map(|file| file.written)
    }

    /// Writes a piece. Returns an input for the deciding thread if it was the last piece or could
    /// not be written. Pieces that were not requested, or that are repeated, are ignored.
    pub(crate) fn take(&self, ticket: u32, offset: u64, bytes: &[u8]) -> Option<Input> {
        let mut transfers = self.transfers();
        let incoming = transfers.files.get_mut(&ticket)?;
        if offset != incoming.written || incoming.written + bytes.len() as u64 > incoming.bytes {
            return None;
        }
        let outcome = incoming.file.write_all(bytes);
        incoming.written += bytes.len() as u64;
        if outcome.is_ok() && incoming.written < incoming.bytes {
            return None;
        }
        let incoming = transfers.files.remove(&ticket)?;
        drop(transfers);
        Some(Input::Stored {
            ticket,
            outcome: outcome.and_then(|()| incoming.finish()),
        })
    }

    /// Completes a file without bytes.
    pub(crate) fn finish_empty(&self, ticket: u32) -> std::io::Result<()> {
        match self.transfers().files.remove(&ticket) {
            Some(incoming) => incoming.finish(),
            None => Ok(()),
        }
    }

    /// Removes an incomplete file.
    pub(crate) fn forget(&self, ticket: u32) {
        if let Some(incoming) = self.transfers().files.remove(&ticket) {
            let _ = fs::remove_file(incoming.part);
        }
    }
}

impl IncomingFile {
    /// Renames the complete file. It is not synced: the agent keeps its own file until the Parquet
    /// file with this content is on disk.
    fn finish(self) -> std::io::Result<()> {
        fs::rename(&self.part, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complete_file_gets_its_name_and_unexpected_pieces_are_ignored() {
        let directory = std::env::temp_dir().join(format!("plimsoll-store-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("a.arrow");
        let store = Store::default();
        let ticket = store.expect(&path, 6).unwrap();
        assert!(store.take(ticket, 0, b"abc").is_none());
        assert!(store.take(ticket, 0, b"xyz").is_none(), "repeated");
        assert!(store.take(ticket, 4, b"x").is_none(), "a gap");
        assert!(store.take(ticket, 3, b"defg").is_none(), "too long");
        assert!(store.take(ticket + 1, 3, b"def").is_none(), "not requested");
        assert_eq!(store.written(ticket), Some(3));
        assert!(!path.exists());
        let Some(Input::Stored { outcome: Ok(()), .. }) = store.take(ticket, 3, b"def") else {
            panic!("incomplete");
        };
        assert_eq!(fs::read(&path).unwrap(), b"abcdef");
        assert_eq!(store.written(ticket), None);
        fs::remove_dir_all(&directory).unwrap();
    }
}
