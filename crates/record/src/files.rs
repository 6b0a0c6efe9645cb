//! Files that are either complete or absent.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::RecordError;

/// Path of a file until it is complete.
pub(crate) fn temporary(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    path.with_file_name(name)
}

/// Writes `value` as JSON under a temporary name, syncs it, and renames it into place.
///
/// # Errors
/// [`RecordError::Io`]; an existing file is unchanged.
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), RecordError> {
    replace(path, value, true)
}

/// As [`write_json`], without waiting for the disk: for files that are written during a load, when
/// a sync could stall the disk that is measured. The file survives a kill of the process; a power
/// failure ends the run in any case.
///
/// # Errors
/// [`RecordError::Io`].
pub fn write_json_soon<T: Serialize>(path: &Path, value: &T) -> Result<(), RecordError> {
    replace(path, value, false)
}

fn replace<T: Serialize>(path: &Path, value: &T, sync: bool) -> Result<(), RecordError> {
    let part = temporary(path);
    let mut text = serde_json::to_vec_pretty(value).map_err(|error| RecordError::broken(path, error))?;
    text.push(b'\n');
    let written = File::create(&part).and_then(|mut file| {
        file.write_all(&text)?;
        if sync { file.sync_all() } else { Ok(()) }
    });
    if let Err(error) = written.and_then(|()| fs::rename(&part, path)) {
        let _ = fs::remove_file(&part);
        return Err(RecordError::io("writing", path, error));
    }
    if sync {
        sync_directory(path.parent().unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

/// Syncs `directory`, so that renames and removals in it are permanent.
///
/// # Errors
/// [`RecordError::Io`].
pub fn sync_directory(directory: &Path) -> Result<(), RecordError> {
    File::open(directory)
        .and_then(|file| file.sync_all())
        .map_err(|error| RecordError::io("syncing", directory, error))
}
