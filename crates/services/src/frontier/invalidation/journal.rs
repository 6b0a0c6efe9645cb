//! The keys of objects that caches may hold, in a file: a gateway that is started anew purges what
//! an earlier one has answered, as it does not know what has changed meanwhile.
//!
//! A key is written before its answer leaves, by one system call, so that it survives a gateway
//! that is killed; it is not synced, so that it may not survive a host that loses its power.
//! Nothing is taken out: a key that was purged since costs one more PURGE at the next start. The
//! file is written anew at each start, and when it holds twice as many keys as are remembered.
//!
//! A line is `UNTIL URL`, UNTIL in seconds since 1970. One that was cut off is passed over: its
//! answer never left.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::keys::Name;

/// Added to the age of a key, which begins when the answer has left.
const MARGIN_S: u64 = 3600;
/// Lines below which a file is not written anew.
const FEW: usize = 10_000;
/// How long a gateway that ends may still hold its lock. A process that it has just started holds
/// it, too, until its execve(2).
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

/// The file, open for appending.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    /// Until when each key in the file counts.
    until: HashMap<Name, u64>,
    /// A line may have been cut off by an error.
    torn: bool,
    /// Held as long as this: two gateways with one file would take each other's keys out.
    _lock: File,
}

/// Locks the file. An error where another gateway goes on holding it.
fn take(lock: &File) -> io::Result<()> {
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(LOCK_INTERVAL),
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::other(
                    "another gateway uses it: give each a file of its own",
                ));
            }
        }
    }
}

impl Journal {
    /// Opens a file, which may not be there yet; also the keys in it that count at `now`, and until
    /// when.
    pub(super) fn open(path: &Path, now: u64) -> io::Result<(Self, Vec<(Name, u64)>)> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let lock = beside(path, "lock");
        let lock = OpenOptions::new().create(true).append(true).open(lock)?;
        take(&lock)?;
        let text = match std::fs::read(path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let mut until = HashMap::new();
        for (at, url) in text.lines().filter_map(parsed).filter(|(at, _)| *at > now) {
            until.insert(Name::from(url), at);
        }
        let file = write_anew(path, &until)?;
        let found = until.iter().map(|(url, at)| (url.clone(), *at)).collect();
        let journal = Self {
            path: path.to_owned(),
            file,
            until,
            torn: false,
            _lock: lock,
        };
        Ok((journal, found))
    }

    /// Whether it holds far more keys than the `most` that are remembered.
    pub(super) fn is_full(&self, most: usize) -> bool {
        self.until.len() >= most.saturating_mul(2).max(FEW)
    }

    /// Writes the file anew, with those keys only that are known.
    pub(super) fn shrink(&mut self, now: u64, is_known: impl Fn(&Name) -> bool) -> io::Result<()> {
        self.until.retain(|url, until| *until > now && is_known(url));
        self.file = write_anew(&self.path, &self.until)?;
        self.torn = false;
        Ok(())
    }

    /// Caches may keep this for `age` seconds from some time soon on.
    pub(super) fn note(&mut self, url: &Name, age: u64, now: u64) -> io::Result<()> {
        let needed = now.saturating_add(age).saturating_add(MARGIN_S);
        if self.until.get(url).is_some_and(|until| *until >= needed) {
            return Ok(());
        }
        // Twice the age, so that an object that is asked for again and again costs a line for each
        // of its lives.
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

fn parsed(line: &str) -> Option<(u64, &str)> {
    let (until, url) = line.split_once(' ')?;
    Some((until.parse().ok()?, url)).filter(|(_, url)| url.starts_with("http://"))
}

fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(what);
    path.with_file_name(name)
}

/// Replaces the file as a whole; gives it open for appending.
fn write_anew(path: &Path, until: &HashMap<Name, u64>) -> io::Result<File> {
    let temporary = beside(path, "new");
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
        let (_, found) = Journal::open(path, now).unwrap();
        let mut found: Vec<Name> = found.into_iter().map(|(url, _)| url).collect();
        found.sort();
        found
    }

    #[test]
    fn keys_outlive_their_gateway_until_no_cache_may_hold_them() {
        let place = directory("life");
        let path = place.join("below/keys");
        let (mut journal, found) = Journal::open(&path, 1000).unwrap();
        assert!(found.is_empty());
        for number in [1, 2, 1] {
            journal.note(&url(number), 100, 1000).unwrap();
        }
        journal.note(&url(3), 100_000, 1000).unwrap();
        let again = Journal::open(&path, 1000).err().unwrap().to_string();
        assert!(again.contains("another gateway uses it"), "{again}");
        drop(journal);
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert_eq!(lines, 3, "a key that counts for long enough is not written again");
        assert_eq!(reopened(&path, 1000 + 100 + MARGIN_S), [url(1), url(2), url(3)]);
        assert_eq!(reopened(&path, 1000 + 200 + MARGIN_S), [url(3)]);
        assert_eq!(reopened(&path, 1001), [url(3)], "the others have been taken out");
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn lines_that_were_cut_off_are_passed_over() {
        let place = directory("torn");
        let path = place.join("keys");
        std::fs::create_dir_all(&place).unwrap();
        let text = "9000 http://h/1\n90\n9000 http\nrubbish\n\u{0}\n9000 http://h/2\n9000 htt";
        std::fs::write(&path, text).unwrap();
        assert_eq!(reopened(&path, 1000), [url(1), url(2)]);
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn what_cannot_be_written_is_said_and_does_not_spoil_what_follows() {
        assert!(Journal::open(Path::new("/proc/version/keys"), 1).is_err());
        let place = directory("full");
        let path = place.join("keys");
        let (mut journal, _) = Journal::open(&path, 1000).unwrap();
        let good = std::mem::replace(
            &mut journal.file,
            OpenOptions::new().append(true).open("/dev/full").unwrap(),
        );
        assert!(journal.note(&url(1), 100, 1000).is_err());
        journal.file = good;
        journal.file.write_all(b"90").unwrap();
        journal.note(&url(2), 100, 1000).unwrap();
        drop(journal);
        assert_eq!(reopened(&path, 1000), [url(2)]);
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_file_that_grows_is_written_anew_with_what_is_known() {
        let place = directory("grown");
        let path = place.join("keys");
        let (mut journal, _) = Journal::open(&path, 1000).unwrap();
        for number in 0..FEW {
            assert!(!journal.is_full(10));
            journal.note(&url(number), 100, 1000).unwrap();
        }
        assert!(journal.is_full(10) && !journal.is_full(FEW));
        journal.shrink(1000, |one| *one == url(7)).unwrap();
        journal.note(&url(FEW), 100, 1000).unwrap();
        drop(journal);
        assert_eq!(reopened(&path, 1000), [url(FEW), url(7)]);
        std::fs::remove_dir_all(place).unwrap();
    }
}
