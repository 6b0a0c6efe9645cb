//! `frontier_file`: files below a directory, each as one record of one field.

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

/// Bytes read in one go.
const STEP: usize = 16 * 1024;
/// Pieces of text under way to the client.
const PIECES: usize = 3;

/// What to send and how to pack it.
#[derive(Debug, Clone)]
pub(super) struct FileRequest {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) encoding: Encoding,
    /// What a signature covers of the request, where the answer is to be signed.
    pub(super) signed: Option<Arc<[u8]>>,
}

/// The directory, and how many of its files are read at a time.
pub(super) struct Files {
    base: Option<PathBuf>,
    permits: Arc<Semaphore>,
}

/// A file that may be sent.
#[derive(Debug)]
pub(super) struct SendableFile {
    file: File,
    length: u32,
    /// Seconds since 1970.
    pub(super) changed: u64,
}

impl Files {
    pub(super) fn new(base: Option<PathBuf>, connections: usize) -> Self {
        Self {
            base,
            permits: Arc::new(Semaphore::new(connections)),
        }
    }

    /// Opens a file. The message of what is wrong is that of a global error, as in the servlet,
    /// which looks at files before it has begun its answer.
    pub(super) async fn find(&self, path: &str) -> Result<SendableFile, String> {
        let base = self.base.clone().ok_or("FileBaseDirectory not defined")?;
        let path = path.to_owned();
        tokio::task::spawn_blocking(move || find(&base, &path))
            .await
            .unwrap_or_else(|_| Err("the file could not be read".into()))
    }

    /// Waits until it may be read, first come, first served.
    pub(super) async fn acquire(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let permit = self.permits.clone().acquire_owned().await;
        permit.map_err(|_| Failure::refused("the gateway ends"))
    }

    /// Reads it on a thread of the blocking pool, as fast as the client takes it.
    pub(super) fn start(
        found: SendableFile,
        wanted: FileRequest,
        permit: OwnedSemaphorePermit,
    ) -> mpsc::Receiver<Part> {
        let (parts, received) = mpsc::channel(PIECES);
        tokio::task::spawn_blocking(move || {
            let mut packer = Packer::new(wanted.encoding, wanted.signed.as_deref());
            let emit = |piece| parts.blocking_send(Part::Piece(piece)).is_ok();
            let outcome = match wanted.method.as_str() {
                "DEFAULT" => pack(found, &mut packer, emit),
                other => Err(Some(Failure::refused(&format!("Unknown method {other}")))),
            };
            drop(permit);
            let outcome = match outcome {
                Err(None) => return, // the client has gone
                Err(Some(failure)) => Err(failure),
                Ok(()) => Ok(()),
            };
            let _ = parts.blocking_send(Part::End(End::new(packer, outcome, Ttl::Long)));
        });
        received
    }
}

/// `Err(None)`: nobody takes it any more.
fn pack(
    found: SendableFile,
    packer: &mut Packer,
    mut emit: impl FnMut(Vec<u8>) -> bool,
) -> Result<(), Option<Failure>> {
    let mut file = found.file.take(u64::from(found.length));
    let mut left = found.length as usize;
    let mut bytes = vec![0; STEP];
    packer.head(found.length);
    while left > 0 {
        let read = match file.read(&mut bytes) {
            Ok(0) => return Err(Some(Failure::refused("the file has become shorter"))),
            Ok(read) => read,
            Err(error) => {
                return Err(Some(Failure::refused(&format!(
                    "the file cannot be read: {error}"
                ))));
            }
        };
        packer.raw(&bytes[..read]);
        left -= read;
        if packer.is_full() && !emit(packer.take()) {
            return Err(None);
        }
    }
    packer.end_row();
    Ok(())
}

/// Nothing outside of the directory is ever opened for reading, whatever names and links say: the
/// path may not go up, and what has been opened is looked at again by its descriptor, which no
/// later change of a link can mislead.
fn find(base: &Path, path: &str) -> Result<SendableFile, String> {
    if path.contains("..") {
        return Err(format!("'..' not allowed in file path {path}"));
    }
    let unreadable = || format!("Cannot read file {path}");
    // As in the servlet, a leading slash is no way out: the path is put behind the directory.
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
    let about = file.metadata().map_err(|_| unreadable())?;
    if !about.is_file() {
        return Err(unreadable());
    }
    let length = u32::try_from(about.len()).map_err(|_| format!("File {path} has more than 4 GiB"))?;
    let changed = about
        .modified()
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok(SendableFile {
        file,
        length,
        changed: changed.map_or(0, |elapsed| elapsed.as_secs()),
    })
}
