//! Files of agents on their way to our disk: pieces in, whole files out.

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

    /// A ticket for the file that will be `path` and has so many bytes.
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

    /// How much of it is here: where to go on after a broken link.
    pub(crate) fn written(&self, ticket: u32) -> Option<u64> {
        self.transfers().files.get(&ticket).map(|file| file.written)
    }

    /// Takes a piece. Gives what the deciding thread must hear when that was the last one, or when
    /// it could not be written. Pieces that were not asked for, or come twice, are let fall.
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
            outcome: outcome
                .and_then(|()| incoming.finish())
                .map_err(|error| error.to_string()),
        })
    }

    /// An empty file is whole as soon as it is expected.
    pub(crate) fn finish_empty(&self, ticket: u32) -> std::io::Result<()> {
        match self.transfers().files.remove(&ticket) {
            Some(incoming) => incoming.finish(),
            None => Ok(()),
        }
    }

    /// Gives up a file.
    pub(crate) fn forget(&self, ticket: u32) {
        if let Some(incoming) = self.transfers().files.remove(&ticket) {
            let _ = fs::remove_file(incoming.part);
        }
    }
}

impl IncomingFile {
    /// Not synced: the agent keeps its own until the Parquet that holds this is safe.
    fn finish(self) -> std::io::Result<()> {
        fs::rename(&self.part, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_when_it_is_whole_and_pieces_that_do_not_fit_change_nothing() {
        let directory = std::env::temp_dir().join(format!("plimsoll-store-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("a.arrow");
        let store = Store::default();
        let ticket = store.expect(&path, 6).unwrap();
        assert!(store.take(ticket, 0, b"abc").is_none());
        assert!(store.take(ticket, 0, b"xyz").is_none(), "twice");
        assert!(store.take(ticket, 4, b"x").is_none(), "a gap");
        assert!(store.take(ticket, 3, b"defg").is_none(), "too much");
        assert!(store.take(ticket + 1, 3, b"def").is_none(), "never asked for");
        assert_eq!(store.written(ticket), Some(3));
        assert!(!path.exists());
        let Some(Input::Stored { outcome: Ok(()), .. }) = store.take(ticket, 3, b"def") else {
            panic!("not whole");
        };
        assert_eq!(fs::read(&path).unwrap(), b"abcdef");
        assert_eq!(store.written(ticket), None);
        fs::remove_dir_all(&directory).unwrap();
    }
}
