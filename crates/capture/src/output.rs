//! Writes the output file of a command, which appears under its name only when it is complete.

use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::linkat;

/// Any error of a function that writes the contents of a file.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The reason why an output is refused or was not written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The output is one of the inputs.
    #[error("the output {output} is the input {input}: pass another name with -o")]
    IsInput {
        /// The output.
        output: PathBuf,
        /// The name of the same file as an input.
        input: PathBuf,
    },
    /// The output exists and is not a regular file.
    #[error("{0} is not a regular file: pass another name with -o")]
    NotRegular(PathBuf),
    /// The output exists.
    #[error("{0}: the file exists: pass another name with -o, or --force to overwrite it")]
    Exists(PathBuf),
    /// The file with the temporary name cannot be created.
    #[error("creating {path}")]
    Create {
        /// The temporary name.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The contents could not be determined or written, or the file could not be named.
    #[error("writing {path}")]
    Write {
        /// The output.
        path: PathBuf,
        /// The error of the system, or of the function that writes the contents.
        source: BoxError,
    },
}

/// Refuses an output that is one of the inputs, under any name, or that is not a regular file. An
/// output that does not exist is accepted.
///
/// # Errors
/// [`OutputError::IsInput`], [`OutputError::NotRegular`].
pub fn check<'p>(output: &Path, inputs: impl IntoIterator<Item = &'p Path>) -> Result<(), OutputError> {
    let Ok(existing) = fs::metadata(output) else {
        return Ok(());
    };
    let is_same = |input: &&Path| {
        fs::metadata(input).is_ok_and(|input| (input.dev(), input.ino()) == (existing.dev(), existing.ino()))
    };
    if let Some(input) = inputs.into_iter().find(is_same) {
        return Err(OutputError::IsInput {
            output: output.into(),
            input: input.into(),
        });
    }
    if !existing.is_file() {
        return Err(OutputError::NotRegular(output.into()));
    }
    Ok(())
}

/// Refuses an existing output: a recording cannot be repeated.
pub(crate) fn check_new(output: &Path) -> Result<(), OutputError> {
    if fs::symlink_metadata(output).is_ok() {
        return Err(OutputError::Exists(output.into()));
    }
    Ok(())
}

/// Writes a file under a temporary name, `job.trace.part`, and renames it when it is complete. If a
/// recording is killed, its data can be read from there. `work` returns the file and its result.
pub(crate) fn visibly<T, E: Into<BoxError>>(
    output: &Path,
    work: impl FnOnce(File) -> Result<(File, T), E>,
) -> Result<T, OutputError> {
    let part = part(output);
    let file = File::create(&part).map_err(|source| OutputError::Create {
        path: part.clone(),
        source,
    })?;
    let result = finish(output, work(file), |_| Ok(fs::rename(&part, output)?));
    if result.is_err() {
        let _ = fs::remove_file(&part);
    }
    result
}

/// Writes a file that can be written again from its input: it has no name until it is complete, so
/// that nothing remains if the command is killed. If the file system does not support files without
/// a name, it is written under a temporary name, `job.trace.part`.
///
/// `work` receives the empty file, and returns the file and its result, which this function
/// returns.
///
/// # Errors
/// [`OutputError::Create`]; [`OutputError::Write`] also with an error of `work`. An existing output
/// is not changed then.
pub fn write<T, E: Into<BoxError>>(
    output: &Path,
    work: impl FnOnce(File) -> Result<(File, T), E>,
) -> Result<T, OutputError> {
    let Some(file) = nameless(output) else {
        return visibly(output, work);
    };
    finish(output, work(file), |file| name(file, output))
}

/// Syncs a written file and names it.
fn finish<T, E: Into<BoxError>>(
    output: &Path,
    written: Result<(File, T), E>,
    name: impl FnOnce(&File) -> Result<(), BoxError>,
) -> Result<T, OutputError> {
    written
        .map_err(Into::into)
        .and_then(|(file, result)| {
            file.sync_all()?;
            name(&file)?;
            Ok(result)
        })
        .map_err(|source| OutputError::Write {
            path: output.into(),
            source,
        })
}

/// A file without a name on the file system of `output`, if it can get a name later.
fn nameless(output: &Path) -> Option<File> {
    let directory = output.parent().filter(|parent| !parent.as_os_str().is_empty());
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .mode(0o666)
        .open(directory.unwrap_or(Path::new(".")))
        .ok()?;
    fs::symlink_metadata(descriptor_path(&file))
        .is_ok()
        .then_some(file)
}

/// Links the file to its name and replaces an existing one. linkat(2) cannot replace a file,
/// rename(2) can.
fn name(file: &File, output: &Path) -> Result<(), BoxError> {
    let part = part(output);
    let _ = fs::remove_file(&part);
    linkat(
        AT_FDCWD,
        &descriptor_path(file),
        AT_FDCWD,
        &part,
        AtFlags::AT_SYMLINK_FOLLOW,
    )?;
    let renamed = fs::rename(&part, output);
    if renamed.is_err() {
        let _ = fs::remove_file(&part);
    }
    Ok(renamed?)
}

/// The path by which linkat(2) refers to an open file without `CAP_DAC_READ_SEARCH`.
fn descriptor_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn part(output: &Path) -> PathBuf {
    let mut part = output.as_os_str().to_owned();
    part.push(".part");
    PathBuf::from(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_detected_under_each_of_its_names() {
        let directory = std::env::temp_dir().join(format!("plimsoll-output-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let [input, other, link, hard, new] =
            ["input", "other", "link", "hard", "new"].map(|name| directory.join(name));
        fs::write(&input, "kept").unwrap();
        fs::write(&other, "").unwrap();
        std::os::unix::fs::symlink(&input, &link).unwrap();
        fs::hard_link(&input, &hard).unwrap();
        let inputs = [other.as_path(), input.as_path()];
        for output in [&input, &link, &hard] {
            let message = check(output, inputs).unwrap_err().to_string();
            assert!(message.contains("is the input"), "{message}");
        }
        assert!(
            check(&directory, inputs)
                .unwrap_err()
                .to_string()
                .contains("not a regular file")
        );
        check(&new, inputs).unwrap();
        check(&other, [input.as_path()]).unwrap();
        check_new(&new).unwrap();
        assert!(check_new(&other).unwrap_err().to_string().contains("--force"));
        fs::remove_dir_all(directory).unwrap();
    }
}
