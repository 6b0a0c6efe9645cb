//! Writes the output file of a command, which appears under its name only when it is complete.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::linkat;

/// Refuses an output that is one of the inputs, under any name, or that is not a regular file.
pub(super) fn check<'p>(output: &Path, inputs: impl IntoIterator<Item = &'p Path>) -> anyhow::Result<()> {
    let Ok(existing) = fs::metadata(output) else {
        return Ok(());
    };
    let is_same = |input: &&Path| {
        fs::metadata(input).is_ok_and(|input| (input.dev(), input.ino()) == (existing.dev(), existing.ino()))
    };
    if let Some(input) = inputs.into_iter().find(is_same) {
        bail!(
            "the output {} is the input {}: pass another name with -o",
            output.display(),
            input.display()
        );
    }
    if !existing.is_file() {
        bail!(
            "{} is not a regular file: pass another name with -o",
            output.display()
        );
    }
    Ok(())
}

/// Refuses an existing output: a recording cannot be repeated.
pub(super) fn check_new(output: &Path) -> anyhow::Result<()> {
    if fs::symlink_metadata(output).is_ok() {
        bail!(
            "{}: the file exists: pass another name with -o, or --force to overwrite it",
            output.display()
        );
    }
    Ok(())
}

/// Writes a file under a temporary name, `job.trace.part`, and renames it when it is complete. If a
/// recording is killed, its data can be read from there. `work` returns the file and its result.
pub(super) fn visibly<T>(
    output: &Path,
    work: impl FnOnce(File) -> anyhow::Result<(File, T)>,
) -> anyhow::Result<T> {
    let part = part(output);
    let file = File::create(&part).with_context(|| format!("creating {}", part.display()))?;
    let result = work(file)
        .and_then(|(file, result)| {
            file.sync_all()?;
            fs::rename(&part, output)?;
            Ok(result)
        })
        .with_context(|| format!("writing {}", output.display()));
    if result.is_err() {
        let _ = fs::remove_file(&part);
    }
    result
}

/// Writes a file that can be written again from its input: it has no name until it is complete, so
/// that nothing remains if the command is killed. If the file system does not support files without
/// a name, it works as [`visibly`].
pub(super) fn write<T>(
    output: &Path,
    work: impl FnOnce(File) -> anyhow::Result<(File, T)>,
) -> anyhow::Result<T> {
    let Some(file) = nameless(output) else {
        return visibly(output, work);
    };
    work(file)
        .and_then(|(file, result)| {
            file.sync_all()?;
            name(&file, output)?;
            Ok(result)
        })
        .with_context(|| format!("writing {}", output.display()))
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
fn name(file: &File, output: &Path) -> anyhow::Result<()> {
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
