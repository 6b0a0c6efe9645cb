//! The file that a command makes: it takes its place when it is whole.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::linkat;

/// Refuses an output that is one of the inputs, by whatever names, or that no file can take the
/// place of.
pub(super) fn check<'p>(output: &Path, inputs: impl IntoIterator<Item = &'p Path>) -> anyhow::Result<()> {
    let Ok(there) = fs::metadata(output) else {
        return Ok(());
    };
    let is_it = |input: &&Path| {
        fs::metadata(input).is_ok_and(|input| (input.dev(), input.ino()) == (there.dev(), there.ino()))
    };
    if let Some(input) = inputs.into_iter().find(is_it) {
        bail!(
            "the output {} is the input {}: give another name with -o",
            output.display(),
            input.display()
        );
    }
    if !there.is_file() {
        bail!(
            "{} is no regular file: give another name with -o",
            output.display()
        );
    }
    Ok(())
}

/// Refuses an output that is there: a recording cannot be made again from anything.
pub(super) fn check_new(output: &Path) -> anyhow::Result<()> {
    if fs::symlink_metadata(output).is_ok() {
        bail!(
            "{}: the file exists: give another name with -o, or --force to overwrite it",
            output.display()
        );
    }
    Ok(())
}

/// Writes a file under a temporary name, `job.trace.part`, and renames it into place: of a
/// recording that is killed, what it has written can be read there. `work` gives the file back, and
/// what is to be told of it.
pub(super) fn visibly<T>(
    output: &Path,
    work: impl FnOnce(File) -> anyhow::Result<(File, T)>,
) -> anyhow::Result<T> {
    let part = part(output);
    let file = File::create(&part).with_context(|| format!("creating {}", part.display()))?;
    let done = work(file)
        .and_then(|(file, told)| {
            file.sync_all()?;
            fs::rename(&part, output)?;
            Ok(told)
        })
        .with_context(|| format!("writing {}", output.display()));
    if done.is_err() {
        let _ = fs::remove_file(&part);
    }
    done
}

/// The same for what is made of a file that stays: it has no name until it is whole, so that
/// whatever ends the command leaves nothing. Where the file system has no such files, as
/// [`visibly`].
pub(super) fn write<T>(
    output: &Path,
    work: impl FnOnce(File) -> anyhow::Result<(File, T)>,
) -> anyhow::Result<T> {
    let Some(file) = nameless(output) else {
        return visibly(output, work);
    };
    work(file)
        .and_then(|(file, told)| {
            file.sync_all()?;
            name(&file, output)?;
            Ok(told)
        })
        .with_context(|| format!("writing {}", output.display()))
}

/// A file without a name on the file system of `output`, where it can get one later.
fn nameless(output: &Path) -> Option<File> {
    let directory = output.parent().filter(|parent| !parent.as_os_str().is_empty());
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .mode(0o666)
        .open(directory.unwrap_or(Path::new(".")))
        .ok()?;
    fs::symlink_metadata(by_number(&file)).is_ok().then_some(file)
}

/// Puts it in the place of whatever is there. linkat(2) replaces nothing, rename(2) does.
fn name(file: &File, output: &Path) -> anyhow::Result<()> {
    let part = part(output);
    let _ = fs::remove_file(&part);
    linkat(
        AT_FDCWD,
        &by_number(file),
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

/// How linkat(2) finds an open file without `CAP_DAC_READ_SEARCH`.
fn by_number(file: &File) -> PathBuf {
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
    fn an_input_is_known_by_all_of_its_names() {
        let place = std::env::temp_dir().join(format!("plimsoll-output-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let [input, other, link, hard, new] =
            ["input", "other", "link", "hard", "new"].map(|name| place.join(name));
        fs::write(&input, "kept").unwrap();
        fs::write(&other, "").unwrap();
        std::os::unix::fs::symlink(&input, &link).unwrap();
        fs::hard_link(&input, &hard).unwrap();
        let inputs = [other.as_path(), input.as_path()];
        for output in [&input, &link, &hard] {
            let said = check(output, inputs).unwrap_err().to_string();
            assert!(said.contains("is the input"), "{said}");
        }
        assert!(
            check(&place, inputs)
                .unwrap_err()
                .to_string()
                .contains("no regular file")
        );
        check(&new, inputs).unwrap();
        check(&other, [input.as_path()]).unwrap();
        check_new(&new).unwrap();
        assert!(check_new(&other).unwrap_err().to_string().contains("--force"));
        fs::remove_dir_all(place).unwrap();
    }
}
