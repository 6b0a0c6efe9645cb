//! `frontier_file`: files in a directory and its subdirectories, each as one record with one field.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use plimsoll_wire::frontier::request::{Encoding, Ttl};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::database::{End, Failure, Packer, Part};

/// Number of bytes per read.
const STEP: usize = 16 * 1024;
/// Maximum number of pieces of text in the channel to the client.
const PIECES: usize = 3;

/// Why a file is not sent: the messages of the servlet's global errors.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// No directory is configured.
    #[error("FileBaseDirectory not defined")]
    NoDirectory,
    /// The path may lead out of the directory.
    #[error("'..' not allowed in file path {0}")]
    Parent(String),
    /// The file does not exist in the directory, or cannot be read. The client does not receive the
    /// cause.
    #[error("Cannot read file {0}")]
    Unreadable(String),
    /// The length does not fit into the response.
    #[error("File {0} has more than 4 GiB")]
    TooLarge(String),
    /// The thread that opens the file did not complete.
    #[error("the file could not be read")]
    Incomplete,
}

/// A requested file, and how to pack it.
#[derive(Debug, Clone)]
pub(super) struct FileRequest {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) encoding: Encoding,
    /// Part of the request that the signature covers. None: the response is not signed.
    pub(super) signed: Option<Arc<[u8]>>,
}

/// The directory, and a limit of the number of files that are read at the same time.
pub(super) struct Files {
    base: Option<PathBuf>,
    permits: Arc<Semaphore>,
}

/// An open file that may be sent.
#[derive(Debug)]
pub(super) struct SendableFile {
    file: File,
    length: u32,
    /// Time of the last change, in seconds since 1970.
    pub(super) changed: u64,
}

impl Files {
    pub(super) fn new(base: Option<PathBuf>, connections: usize) -> Self {
        Self {
            base,
            permits: Arc::new(Semaphore::new(connections)),
        }
    }

    /// Opens a file. The error becomes a global error, as in the servlet, which opens files before
    /// it begins the response.
    ///
    /// # Errors
    /// [`FileError`].
    pub(super) async fn find(&self, path: &str) -> Result<SendableFile, FileError> {
        let base = self.base.clone().ok_or(FileError::NoDirectory)?;
        let path = path.to_owned();
        tokio::task::spawn_blocking(move || find(&base, &path))
            .await
            .unwrap_or(Err(FileError::Incomplete))
    }

    /// Waits for the permit to read a file, in order of arrival.
    pub(super) async fn acquire(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let permit = self.permits.clone().acquire_owned().await;
        permit.map_err(|_| Failure::refused("the gateway is shutting down"))
    }

    /// Reads a file on a thread of the blocking pool, as fast as the client reads the response.
    pub(super) fn start(
        file: SendableFile,
        request: FileRequest,
        permit: OwnedSemaphorePermit,
    ) -> mpsc::Receiver<Part> {
        let (parts, received) = mpsc::channel(PIECES);
        tokio::task::spawn_blocking(move || {
            let mut packer = Packer::new(request.encoding, request.signed.as_deref());
            let emit = |piece| parts.blocking_send(Part::Piece(piece)).is_ok();
            let outcome = match request.method.as_str() {
                "DEFAULT" => pack(file, &mut packer, emit),
                other => Err(Some(Failure::refused(&format!("Unknown method {other}")))),
            };
            drop(permit);
            let outcome = match outcome {
                Err(None) => return, // the client has closed the connection
                Err(Some(failure)) => Err(failure),
                Ok(()) => Ok(()),
            };
            let _ = parts.blocking_send(Part::End(End::new(packer, outcome, Ttl::Long, None)));
        });
        received
    }
}

/// Packs a file. `Err(None)`: `emit` has returned false, because the client has closed the
/// connection.
fn pack(
    source: SendableFile,
    packer: &mut Packer,
    mut emit: impl FnMut(Vec<u8>) -> bool,
) -> Result<(), Option<Failure>> {
    let mut file = source.file.take(u64::from(source.length));
    let mut remaining = source.length as usize;
    let mut bytes = vec![0; STEP];
    packer.head(source.length);
    while remaining > 0 {
        let read = match file.read(&mut bytes) {
            Ok(0) => {
                return Err(Some(Failure::refused(
                    "the file became shorter while it was read",
                )));
            }
            Ok(read) => read,
            Err(error) => {
                return Err(Some(Failure::refused(&format!(
                    "the file cannot be read: {error}"
                ))));
            }
        };
        packer.raw(&bytes[..read]);
        remaining -= read;
        if packer.is_full() && !emit(packer.take()) {
            return Err(None);
        }
    }
    packer.end_row();
    Ok(())
}

/// Opens a file of the directory. No file outside it is sent, also with symbolic links: the path
/// must not contain `..`, and the location of the open file is checked again by its descriptor. A
/// later change of a link does not affect that check.
fn find(base: &Path, path: &str) -> Result<SendableFile, FileError> {
    if path.contains("..") {
        return Err(FileError::Parent(path.to_owned()));
    }
    let unreadable = || FileError::Unreadable(path.to_owned());
    // As in the servlet, a path with a leading slash is relative to the directory too.
    let relative: PathBuf = Path::new(path)
        .components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .collect();
    let base = base.canonicalize().map_err(|_| unreadable())?;
    let within = |path: PathBuf| path.starts_with(&base).then_some(path).ok_or_else(unreadable);
    let full = within(base.join(relative).canonicalize().map_err(|_| unreadable())?)?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY) // a FIFO must not hold a thread
        .open(full)
        .map_err(|_| unreadable())?;
    let opened =
        std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(|_| unreadable())?;
    within(opened)?;
    let metadata = file.metadata().map_err(|_| unreadable())?;
    if !metadata.is_file() {
        return Err(unreadable());
    }
    let length = u32::try_from(metadata.len()).map_err(|_| FileError::TooLarge(path.to_owned()))?;
    let changed = metadata
        .modified()
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok(SendableFile {
        file,
        length,
        changed: changed.map_or(0, |elapsed| elapsed.as_secs()),
    })
}
