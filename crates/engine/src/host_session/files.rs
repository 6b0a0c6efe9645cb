//! Facts, files and ports of this host.

use std::fs;
use std::io::{Read as _, Seek, SeekFrom, Write as _};
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

/// The maximum number of bytes of one answer.
const MAX_READ: u64 = 4 * 1024 * 1024;

/// The account of this process, its limits, and the addresses of the connection over which the lab
/// reached this host.
#[allow(clippy::unnecessary_wraps)] // all operations have one form
pub(super) fn facts() -> Result<Value> {
    let variable = |name: &str| std::env::var(name).ok();
    let connection = variable("SSH_CONNECTION").unwrap_or_default();
    let parts: Vec<&str> = connection.split_ascii_whitespace().collect();
    // SAFETY: the calls have no preconditions.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    Ok(json!({
        "uid": uid,
        "gid": gid,
        "path": variable("PATH"),
        "programs": variable("PLIMSOLL_PROGRAMS"),
        "open_files": open_files(),
        "cpus": usable_cores(),
        "client": parts.first(),
        "server": parts.get(2),
    }))
}

/// The hard limit of open files; None: unlimited.
fn open_files() -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for the call.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    (result == 0 && limit.rlim_max != libc::RLIM_INFINITY).then_some(limit.rlim_max)
}

fn usable_cores() -> Vec<usize> {
    // SAFETY: the set is plain data, for which zero is a valid value, and is valid for the calls.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        (0..libc::CPU_SETSIZE as usize)
            .filter(|&core| libc::CPU_ISSET(core, &set))
            .collect()
    }
}

/// Owner, mode and size of paths; null for a path that does not exist.
#[derive(Deserialize)]
pub(super) struct Stat {
    paths: Vec<PathBuf>,
}

impl Stat {
    pub(super) fn run(&self) -> Value {
        let statuses = self.paths.iter().map(|path| {
            fs::metadata(path).ok().map(|status| {
                json!({
                    "uid": status.uid(),
                    "gid": status.gid(),
                    "mode": status.mode(),
                    "size": status.size(),
                })
            })
        });
        json!({ "statuses": statuses.collect::<Vec<_>>() })
    }
}

/// Creates a directory, with its parents. `owner`: user and group.
#[derive(Deserialize)]
pub(super) struct MakeDirectory {
    path: PathBuf,
    mode: u32,
    owner: Option<(u32, u32)>,
}

impl MakeDirectory {
    pub(super) fn run(&self) -> Result<Value> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(self.mode)
            .create(&self.path)?;
        finish(&self.path, Some(self.mode), self.owner)
    }
}

/// Writes or appends to a file, and then sets its mode (independent of the umask) and its owner.
#[derive(Deserialize)]
pub(super) struct Write {
    path: PathBuf,
    data: String,
    #[serde(default)]
    append: bool,
    mode: Option<u32>,
    owner: Option<(u32, u32)>,
}

impl Write {
    pub(super) fn run(&self) -> Result<Value> {
        let data = STANDARD.decode(&self.data).context("the data is not base64")?;
        let mut file = fs::OpenOptions::new()
            .create(true)
            .write(true)
            .append(self.append)
            .truncate(!self.append)
            .mode(self.mode.unwrap_or(0o600) & 0o700)
            .open(&self.path)?;
        file.write_all(&data)?;
        finish(&self.path, self.mode, self.owner)
    }
}

fn finish(path: &Path, mode: Option<u32>, owner: Option<(u32, u32)>) -> Result<Value> {
    if let Some(mode) = mode {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    }
    if let Some((uid, gid)) = owner {
        std::os::unix::fs::chown(path, Some(uid), Some(gid))?;
    }
    Ok(json!({}))
}

/// Reads a part of a file.
#[derive(Deserialize)]
pub(super) struct Read {
    path: PathBuf,
    offset: u64,
    limit: u64,
}

impl Read {
    pub(super) fn run(&self) -> Result<Value> {
        let mut file = fs::File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut data = Vec::new();
        file.take(self.limit.min(MAX_READ)).read_to_end(&mut data)?;
        Ok(json!({ "data": STANDARD.encode(data) }))
    }
}

/// The names in a directory.
#[derive(Deserialize)]
pub(super) struct List {
    directory: PathBuf,
}

impl List {
    pub(super) fn run(&self) -> Result<Value> {
        let mut names: Vec<String> = fs::read_dir(&self.directory)?
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        Ok(json!({ "names": names }))
    }
}

/// Removes files and directories with their contents. Missing ones are ignored. Answers with those
/// that remain.
#[derive(Deserialize)]
pub(super) struct Remove {
    paths: Vec<PathBuf>,
}

impl Remove {
    pub(super) fn run(&self) -> Value {
        let left: Vec<String> = self
            .paths
            .iter()
            .filter(|path| {
                let _ = match fs::symlink_metadata(path) {
                    Ok(status) if status.is_dir() => fs::remove_dir_all(path),
                    _ => fs::remove_file(path),
                };
                fs::symlink_metadata(path).is_ok()
            })
            .map(|path| path.display().to_string())
            .collect();
        json!({ "left": left })
    }
}

/// A port of an address of this host on which no process listens now.
#[derive(Deserialize)]
pub(super) struct Port {
    address: IpAddr,
    #[serde(default)]
    datagram: bool,
}

impl Port {
    pub(super) fn run(&self) -> Result<Value> {
        let bound = if self.datagram {
            UdpSocket::bind((self.address, 0))?.local_addr()?
        } else {
            TcpListener::bind((self.address, 0))?.local_addr()?
        };
        Ok(json!({ "port": bound.port() }))
    }
}
