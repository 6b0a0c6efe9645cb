//! Proof that limits hold on this host: a small program that would exceed each of them.
//!
//! | resource | program | holds if |
//! |---|---|---|
//! | memory | touches 64 MiB, limit 32 MiB | the kernel kills it, and counts that in its group |
//! | cpu | computes for 0.4 s, limit 10 % | it got less than 20 % of a core, and was throttled |
//! | disk | reads or writes 2 MiB without the page cache, limit 4 MiB/s | it takes 0.35 s or longer, and at most half as long without the limit |

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::{Group, LimitError, Limits, Resource};

const MEMORY_LIMIT: u64 = 32 << 20;
const MEMORY_USE: usize = 64 << 20;
const CPU_LIMIT: f64 = 0.1;
const CPU_TIME: Duration = Duration::from_millis(400);
const DISK_LIMIT: u64 = 4 << 20;
const DISK_BYTES: usize = 2 << 20;
const PIECE: usize = 256 << 10;
/// Alignment of the pieces in memory: `O_DIRECT` needs that of a disk's blocks.
const ALIGNMENT: usize = 4096;
/// How often the test of processor time is repeated on a busy host, where the program would not get
/// more than its limit in any case.
const CPU_ATTEMPTS: u32 = 5;

/// Whether a limit holds on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Proof {
    /// Name of the resource.
    pub resource: &'static str,
    /// Why it does not hold, or cannot be proven; empty if it holds.
    pub reason: String,
    /// What the limit does not cover; empty: nothing.
    pub remark: String,
}

/// Tests a limit of each resource. `program`: with its arguments, runs [`load`] of the arguments
/// that are added. `directory`: where the disks are tested.
pub fn self_test(program: &[PathBuf], resources: &[Resource], directory: &Path) -> Vec<Proof> {
    resources
        .iter()
        .map(|&resource| {
            let mut remark = "";
            let result = match resource {
                Resource::Memory => memory_holds(program),
                Resource::Cpu => cpu_holds(program),
                Resource::DiskRead | Resource::DiskWrite => {
                    disk_holds(program, resource, directory).map(|(reason, only_direct)| {
                        if only_direct {
                            remark = "control groups of version 1: limits of disks cover direct and synchronous I/O \
                                      only, not cached data that the kernel writes later";
                        }
                        reason
                    })
                }
            };
            Proof {
                resource: resource.name(),
                reason: result.unwrap_or_else(|error| error.to_string()),
                remark: remark.to_owned(),
            }
        })
        .collect()
}

fn memory_holds(program: &[PathBuf]) -> Result<String, LimitError> {
    let group = Group::create(&Limits {
        memory: Some(MEMORY_LIMIT),
        ..Limits::default()
    })?;
    let output = run(program, &["memory"], Some(&group))?;
    if output.status.signal() == Some(libc::SIGKILL) && group.oom_kills() > 0 {
        return Ok(String::new());
    }
    Ok(format!(
        "a program that used {MEMORY_USE} bytes with a limit of {MEMORY_LIMIT} bytes was not killed"
    ))
}

fn cpu_holds(program: &[PathBuf]) -> Result<String, LimitError> {
    let mut share = 0.0;
    for _ in 0..CPU_ATTEMPTS {
        let group = Group::create(&Limits {
            cpu: Some(CPU_LIMIT),
            ..Limits::default()
        })?;
        // The throttled time is counted when the group is entered again: read while it exists.
        let output = run(program, &["cpu"], Some(&group))?;
        share = number(&output)? / CPU_TIME.as_secs_f64();
        if share > 2.0 * CPU_LIMIT {
            return Ok(format!(
                "a program with a limit of {CPU_LIMIT} cores used {share:.2} cores"
            ));
        }
        if group.throttled() {
            return Ok(String::new());
        }
    }
    Ok(format!(
        "the limit cannot be proven: this host is so busy that a program without one gets {share:.2} cores"
    ))
}

fn disk_holds(
    program: &[PathBuf],
    resource: Resource,
    directory: &Path,
) -> Result<(String, bool), LimitError> {
    let limits = Limits {
        disk_read: (resource == Resource::DiskRead).then_some(DISK_LIMIT),
        disk_write: (resource == Resource::DiskWrite).then_some(DISK_LIMIT),
        ..Limits::default()
    };
    let group = Group::create(&limits)?;
    let file = directory.join(format!("plimsoll-limit-{}", std::process::id()));
    let name = file.to_string_lossy();
    let result = (|| {
        let seconds = |kind: &str, group: Option<&Group>| {
            let output = run(program, &[kind, &name], group)?;
            number(&output)
        };
        // Written first, so that there is something to read.
        let mut free = seconds("disk_write", None)?;
        if resource == Resource::DiskRead {
            free = seconds("disk_read", None)?;
        }
        Ok((free, seconds(resource.name(), Some(&group))?))
    })();
    let _ = fs::remove_file(&file);
    let (free, limited) = result?;
    let bytes = DISK_BYTES as f64;
    let least = 0.7 * bytes / DISK_LIMIT as f64;
    let reason = if limited < least {
        format!(
            "{} of {DISK_BYTES} bytes with a limit of {DISK_LIMIT} bytes/s took {limited:.3} s in {}: the file \
             system may be in memory, or behind a network",
            if resource == Resource::DiskRead {
                "a read"
            } else {
                "a write"
            },
            directory.display()
        )
    } else if 2.0 * free > limited {
        format!(
            "the limit cannot be proven: without it, the same takes {free:.2} s instead of {limited:.2} s"
        )
    } else {
        String::new()
    };
    Ok((reason, group.limits_only_direct_io()))
}

impl Group {
    fn throttled(&self) -> bool {
        crate::GroupReader::of_group(self)
            .read()
            .throttled_us
            .is_some_and(|us| us > 0)
    }
}

/// Runs the program as a member of a group, to its end.
fn run(program: &[PathBuf], arguments: &[&str], group: Option<&Group>) -> Result<Output, LimitError> {
    let failed = || LimitError::io("a program of the self-test cannot run");
    let entrances = group
        .map(Group::entrances)
        .transpose()
        .map_err(failed())?
        .unwrap_or_default();
    let Some((first, rest)) = program.split_first() else {
        return Err(failed()(io::ErrorKind::InvalidInput.into()));
    };
    let mut command = Command::new(first);
    command
        .args(rest)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SAFETY: only `write` is called between fork and exec. It is async-signal-safe.
    unsafe {
        command.pre_exec(move || crate::group::enter(&entrances));
    }
    command.output().map_err(failed())
}

fn number(output: &Output) -> Result<f64, LimitError> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| {
        let errors = String::from_utf8_lossy(&output.stderr);
        let reason = errors
            .trim()
            .lines()
            .last()
            .unwrap_or("it printed nothing")
            .to_owned();
        LimitError::io("a program of the self-test failed")(io::Error::other(reason))
    })
}

/// What the program of the self-test does: `memory`, `cpu`, `disk_read FILE` or `disk_write FILE`.
/// Returns the processor time or the time that it took, s.
pub fn load(kind: &str, file: Option<&Path>) -> io::Result<f64> {
    match (kind, file) {
        ("memory", _) => {
            let mut bytes = vec![0_u8; MEMORY_USE];
            for page in bytes.chunks_mut(ALIGNMENT) {
                page[0] = 1;
            }
            Ok(f64::from(std::hint::black_box(&bytes)[ALIGNMENT]))
        }
        ("cpu", _) => {
            let begin = Instant::now();
            let mut value = 1_u64;
            while begin.elapsed() < CPU_TIME {
                value = std::hint::black_box(value.wrapping_mul(3));
            }
            cpu_time()
        }
        ("disk_write", Some(file)) => {
            let mut opened = open(file, true)?;
            time(|piece| opened.write_all(piece))
        }
        ("disk_read", Some(file)) => {
            let mut opened = open(file, false)?;
            time(|piece| opened.read_exact(piece))
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "unknown load")),
    }
}

/// Opens a file for I/O without the page cache. File systems without `O_DIRECT` are refused: a read
/// from their cache would not reach a disk.
fn open(file: &Path, write: bool) -> io::Result<fs::File> {
    let opened = fs::OpenOptions::new()
        .read(!write)
        .write(write)
        .create(write)
        .truncate(write)
        .custom_flags(libc::O_DIRECT)
        .mode(0o600)
        .open(file);
    match opened {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Err(io::Error::other(format!(
            "{} is in a file system without direct I/O",
            file.display()
        ))),
        Ok(file) => {
            if write {
                // The blocks exist before the time begins.
                // SAFETY: fallocate has no memory effects; an error only costs accuracy.
                unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, DISK_BYTES as libc::off_t) };
            }
            Ok(file)
        }
        other => other,
    }
}

/// The time of all pieces of a file, s.
fn time(mut transfer: impl FnMut(&mut [u8]) -> io::Result<()>) -> io::Result<f64> {
    let mut space = vec![0_u8; PIECE + ALIGNMENT];
    let offset = space.as_ptr().align_offset(ALIGNMENT);
    let piece = &mut space[offset..offset + PIECE];
    let begin = Instant::now();
    for _ in 0..DISK_BYTES / PIECE {
        transfer(piece)?;
    }
    Ok(begin.elapsed().as_secs_f64())
}

fn cpu_time() -> io::Result<f64> {
    // SAFETY: the structure is plain data, which the call fills.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        if libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) != 0 {
            return Err(io::Error::last_os_error());
        }
        time
    };
    Ok(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}
