//! A file with the keys of objects that caches may store. A gateway purges the keys of an earlier
//! gateway at its start, because it does not know what has changed in between.
//!
//! A key is written by one system call before its response is sent, so it survives a killed
//! gateway. It is not synced, so it may not survive a power failure of the host. Keys are not
//! removed: a key that was purged since costs another PURGE at the next start. The file is
//! rewritten at each start, and when it contains twice the maximum number of remembered keys.
//!
//! A line is `UNTIL URL`, with UNTIL in seconds since 1970. A truncated line is ignored: its
//! response was not sent.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::keys::Name;

/// Added to the age of a key, because the age begins when the response has been sent.
const MARGIN_S: u64 = 3600;
/// Minimum number of keys at which the file is rewritten.
const MIN_FULL: usize = 10_000;
/// Maximum time for which a gateway that ends may hold its lock. A process that it has just started
/// also holds it until its execve(2).
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

/// The file, open for appending.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    /// For each key in the file, the time until which a cache may store its object, in seconds
    /// since 1970.
    until: HashMap<Name, u64>,
    /// Whether the last line may be truncated, because a write has failed.
    torn: bool,
    /// Held until this is dropped. Two gateways with the same file would remove each other's keys.
    _lock: File,
}

/// Locks the file. Returns an error if another gateway holds the lock.
fn acquire(lock: &File) -> io::Result<()> {
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(LOCK_INTERVAL),
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::other(
                    "another gateway uses this file: set a different keys_file for each gateway",
                ));
            }
        }
    }
}

impl Journal {
    /// Opens a file, which need not exist. Also returns the keys in it that are valid at `now`, and
    /// until when.
    pub(super) fn open(path: &Path, now: u64) -> io::Result<(Self, Vec<(Name, u64)>)> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let lock = with_suffix(path, "lock");
        let lock = OpenOptions::new().create(true).append(true).open(lock)?;
        acquire(&lock)?;
        let text = match std::fs::read(path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let mut until = HashMap::new();
        for (time, url) in text
            .lines()
            .filter_map(parse_line)
            .filter(|(time, _)| *time > now)
        {
            until.insert(Name::from(url), time);
        }
        let file = rewrite(path, &until)?;
        let keys = until.iter().map(|(url, time)| (url.clone(), *time)).collect();
        let journal = Self {
            path: path.to_owned(),
            file,
            until,
            torn: false,
            _lock: lock,
        };
        Ok((journal, keys))
    }

    /// Whether the file contains at least twice the maximum number `max` of remembered keys, and at
    /// least [`MIN_FULL`].
    pub(super) fn is_full(&self, max: usize) -> bool {
        self.until.len() >= max.saturating_mul(2).max(MIN_FULL)
    }

    /// Rewrites the file with the keys that are known.
    pub(super) fn shrink(&mut self, now: u64, is_known: impl Fn(&Name) -> bool) -> io::Result<()> {
        self.until.retain(|url, until| *until > now && is_known(url));
        self.file = rewrite(&self.path, &self.until)?;
        self.torn = false;
        Ok(())
    }

    /// Adds a key whose object caches may store for `age` seconds after its response, which is sent
    /// soon.
    pub(super) fn add(&mut self, url: &Name, age: u64, now: u64) -> io::Result<()> {
        let needed = now.saturating_add(age).saturating_add(MARGIN_S);
        if self.until.get(url).is_some_and(|until| *until >= needed) {
            return Ok(());
        }
        // Twice the age, so that an object that is requested repeatedly costs only one line per
        // age.
        let until = needed.saturating_add(age);
        let begin = if self.torn { "\n" } else { "" };
        self.torn = true;
        self.file
            .write_all(format!("{begin}{until} {url}\n").as_bytes())?;
        self.torn = false;
        self.until.insert(url.clone(), until);
        Ok(())
    }
}

fn parse_line(line: &str) -> Option<(u64, &str)> {
    let (until, url) = line.split_once(' ')?;
    Some((until.parse().ok()?, url)).filter(|(_, url)| url.starts_with("http://"))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(suffix);
    path.with_file_name(name)
}

/// Replaces the file atomically. Returns it open for appending.
fn rewrite(path: &Path, until: &HashMap<Name, u64>) -> io::Result<File> {
    let temporary = with_suffix(path, "new");
    let mut out = BufWriter::new(File::create(&temporary)?);
    for (url, until) in until {
        writeln!(out, "{until} {url}")?;
    }
    out.into_inner()?.sync_all()?;
    std::fs::rename(&temporary, path)?;
    OpenOptions::new().append(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("plimsoll-journal-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        path
    }

    fn url(number: usize) -> Name {
        format!("http://h/{number}").into()
    }

    fn reopened(path: &Path, now: u64) -> Vec<Name> {
        let (_, keys) = Journal::open(path, now).unwrap();
        let mut urls: Vec<Name> = keys.into_iter().map(|(url, _)| url).collect();
        urls.sort();
        urls
    }

    #[test]
    fn keys_survive_their_gateway_until_no_cache_may_store_them() {
        let directory = directory("life");
        let path = directory.join("below/keys");
        let (mut journal, keys) = Journal::open(&path, 1000).unwrap();
        assert!(keys.is_empty());
        for number in [1, 2, 1] {
            journal.add(&url(number), 100, 1000).unwrap();
        }
        journal.add(&url(3), 100_000, 1000).unwrap();
        let error = Journal::open(&path, 1000).err().unwrap().to_string();
        assert!(error.contains("another gateway uses this file"), "{error}");
        drop(journal);
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert_eq!(
            lines, 3,
            "a key that is valid for long enough is not written again"
        );
        assert_eq!(reopened(&path, 1000 + 100 + MARGIN_S), [url(1), url(2), url(3)]);
        assert_eq!(reopened(&path, 1000 + 200 + MARGIN_S), [url(3)]);
        assert_eq!(reopened(&path, 1001), [url(3)], "the others were removed");
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn truncated_lines_are_ignored() {
        let directory = directory("torn");
        let path = directory.join("keys");
        std::fs::create_dir_all(&directory).unwrap();
        let text = "9000 http://h/1\n90\n9000 http\nrubbish\n\u{0}\n9000 http://h/2\n9000 htt";
        std::fs::write(&path, text).unwrap();
        assert_eq!(reopened(&path, 1000), [url(1), url(2)]);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_failed_write_is_reported_and_does_not_damage_the_next_line() {
        assert!(Journal::open(Path::new("/proc/version/keys"), 1).is_err());
        let directory = directory("full");
        let path = directory.join("keys");
        let (mut journal, _) = Journal::open(&path, 1000).unwrap();
        let good = std::mem::replace(
            &mut journal.file,
            OpenOptions::new().append(true).open("/dev/full").unwrap(),
        );
        assert!(journal.add(&url(1), 100, 1000).is_err());
        journal.file = good;
        journal.file.write_all(b"90").unwrap();
        journal.add(&url(2), 100, 1000).unwrap();
        drop(journal);
        assert_eq!(reopened(&path, 1000), [url(2)]);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_full_file_is_rewritten_with_the_known_keys() {
        let directory = directory("grown");
        let path = directory.join("keys");
        let (mut journal, _) = Journal::open(&path, 1000).unwrap();
        for number in 0..MIN_FULL {
            assert!(!journal.is_full(10));
            journal.add(&url(number), 100, 1000).unwrap();
        }
        assert!(journal.is_full(10) && !journal.is_full(MIN_FULL));
        journal.shrink(1000, |known| *known == url(7)).unwrap();
        journal.add(&url(MIN_FULL), 100, 1000).unwrap();
        drop(journal);
        assert_eq!(reopened(&path, 1000), [url(MIN_FULL), url(7)]);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
