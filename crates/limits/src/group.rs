//! A control group of one program.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::hierarchy::{Hierarchy, Version, hierarchies_of};
use crate::sweep::own_name;
use crate::{LimitError, Limits};

/// The period in which a share of processor time is granted, µs. Default of the kernel.
const PERIOD_US: f64 = 100_000.0;
/// How long the removal of a group is tried: the kernel releases ended processes a moment later.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The directory of a group in one hierarchy.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    version: Version,
    controllers: Vec<&'static str>,
}

/// A control group, in all hierarchies that its limits need. It is removed when it is dropped.
#[derive(Debug)]
pub struct Group {
    directories: Vec<Directory>,
    limits: Limits,
}

impl Group {
    /// Creates a group with these limits, without processes. Its name contains this process, so
    /// that [`crate::sweep`] finds the groups of processes that have ended.
    pub fn create(limits: &Limits) -> Result<Self, LimitError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = own_name(number).map_err(LimitError::io("cannot read /proc/self"))?;
        let hierarchies = hierarchies_of("self")?;
        let mut group = Self {
            directories: Vec::new(),
            limits: *limits,
        };
        for (first, second) in wanted(limits) {
            group.add(&hierarchies, first, second, &name)?;
        }
        group.add_pressure(&hierarchies, &name);
        group.set()?;
        Ok(group)
    }

    /// Adds the controller, called `first` in version 1 and `second` in version 2.
    fn add(
        &mut self,
        hierarchies: &[Hierarchy],
        first: &'static str,
        second: &'static str,
        name: &str,
    ) -> Result<(), LimitError> {
        let is_first = |one: &&Hierarchy| {
            one.version == Version::One && one.controllers.iter().any(|controller| controller == first)
        };
        if let Some(hierarchy) = hierarchies.iter().find(is_first) {
            return self.create_in(std::slice::from_ref(&hierarchy.own), Version::One, first, name);
        }
        let unified = hierarchies
            .iter()
            .find(|one| one.version == Version::Two)
            .ok_or(LimitError::NoController(second))?;
        let parents = parents_with(unified, second);
        if parents.is_empty() {
            return Err(LimitError::NoController(second));
        }
        self.create_in(&parents, Version::Two, second, name)
    }

    /// Creates the directory in the first of these parents in which this process may do so.
    fn create_in(
        &mut self,
        parents: &[PathBuf],
        version: Version,
        controller: &'static str,
        name: &str,
    ) -> Result<(), LimitError> {
        let mut refused = None;
        for parent in parents {
            let path = parent.join(name);
            if let Some(known) = self.directories.iter_mut().find(|known| known.path == path) {
                known.controllers.push(controller);
                return Ok(());
            }
            match fs::create_dir(&path) {
                Ok(()) => {
                    self.directories.push(Directory {
                        path,
                        version,
                        controllers: vec![controller],
                    });
                    return Ok(());
                }
                Err(source) => {
                    refused.get_or_insert(LimitError::Create {
                        path: parent.clone(),
                        source,
                    });
                }
            }
        }
        Err(refused.unwrap_or(LimitError::NoController(controller)))
    }

    /// Adds a group of version 2 without limits, for the pressure of the program: version 1 does
    /// not report it. An error is ignored.
    fn add_pressure(&mut self, hierarchies: &[Hierarchy], name: &str) {
        let has_second = self.directories.iter().any(|one| one.version == Version::Two);
        let Some(unified) = hierarchies.iter().find(|one| one.version == Version::Two) else {
            return;
        };
        let path = unified.own.join(name);
        if !has_second && fs::create_dir(&path).is_ok() {
            self.directories.push(Directory {
                path,
                version: Version::Two,
                controllers: Vec::new(),
            });
        }
    }

    fn set(&self) -> Result<(), LimitError> {
        let limits = &self.limits;
        for directory in &self.directories {
            let second = directory.version == Version::Two;
            for controller in &directory.controllers {
                match (*controller, limits) {
                    (
                        "memory",
                        Limits {
                            memory: Some(bytes), ..
                        },
                    ) => directory.limit_memory(*bytes)?,
                    ("cpu", Limits { cpu: Some(cores), .. }) => {
                        let quota = (cores * PERIOD_US).round();
                        if second {
                            directory.write("cpu.max", &format!("{quota} {PERIOD_US}"))?;
                        } else {
                            directory.write("cpu.cfs_period_us", &PERIOD_US.to_string())?;
                            directory.write("cpu.cfs_quota_us", &quota.to_string())?;
                        }
                    }
                    _ => directory.limit_disks(limits)?,
                }
            }
        }
        Ok(())
    }

    /// The files into which a process writes "0" to become a member. They are opened before a fork,
    /// so that the child only has to write, which is safe between fork and exec.
    pub fn entrances(&self) -> io::Result<Vec<OwnedFd>> {
        self.directories
            .iter()
            .map(|directory| {
                fs::OpenOptions::new()
                    .write(true)
                    .custom_flags(libc::O_CLOEXEC)
                    .open(directory.path.join("cgroup.procs"))
                    .map(OwnedFd::from)
            })
            .collect()
    }

    /// Its directories, for a reader.
    pub(crate) fn paths(&self) -> Vec<(PathBuf, Version)> {
        self.directories
            .iter()
            .map(|one| (one.path.clone(), one.version))
            .collect()
    }

    /// How many of its processes the kernel has killed for lack of memory.
    pub fn oom_kills(&self) -> u64 {
        let number = |directory: &Directory| {
            let file = match directory.version {
                Version::One => "memory.oom_control",
                Version::Two => "memory.events",
            };
            let text = fs::read_to_string(directory.path.join(file)).ok()?;
            text.lines()
                .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse::<u64>().ok())
        };
        self.directories
            .iter()
            .filter(|directory| directory.controllers.contains(&"memory"))
            .filter_map(number)
            .sum()
    }

    /// Whether its limits of disks cover only direct and synchronous I/O: version 1 charges a write
    /// to the process that submits it, which for cached data is the kernel.
    pub fn limits_only_direct_io(&self) -> bool {
        self.directories
            .iter()
            .any(|one| one.version == Version::One && one.controllers.contains(&"blkio"))
    }
}

/// Makes this process a member, with files of [`Group::entrances`]. Async-signal-safe.
pub fn enter(entrances: &[OwnedFd]) -> io::Result<()> {
    for entrance in entrances {
        // SAFETY: the descriptor is open, and the buffer has the given length.
        if unsafe { libc::write(entrance.as_raw_fd(), c"0".as_ptr().cast(), 1) } != 1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

impl Drop for Group {
    fn drop(&mut self) {
        for directory in &self.directories {
            remove(&directory.path, REMOVAL_TIMEOUT);
        }
    }
}

impl Directory {
    fn write(&self, file: &str, value: &str) -> Result<(), LimitError> {
        let path = self.path.join(file);
        match fs::write(&path, value) {
            Ok(()) => Ok(()),
            Err(source) if source.kind() == io::ErrorKind::NotFound => Err(LimitError::NoFile(path)),
            Err(source) => Err(LimitError::Set {
                path,
                value: value.to_owned(),
                source,
            }),
        }
    }

    /// Limits memory without swap. Kernels that do not count swap have no file for it.
    fn limit_memory(&self, bytes: u64) -> Result<(), LimitError> {
        let bytes = bytes.to_string();
        let (file, swap_file, swap) = match self.version {
            Version::One => ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", &*bytes),
            Version::Two => ("memory.max", "memory.swap.max", "0"),
        };
        self.write(file, &bytes)?;
        match self.write(swap_file, swap) {
            Err(LimitError::NoFile(_)) => Ok(()),
            other => other,
        }
    }

    /// Limits each disk. A disk that refuses is left out if another one accepts: a device without
    /// a medium has no queue.
    fn limit_disks(&self, limits: &Limits) -> Result<(), LimitError> {
        let files = match self.version {
            Version::One => [
                ("blkio.throttle.read_bps_device", "", limits.disk_read),
                ("blkio.throttle.write_bps_device", "", limits.disk_write),
            ],
            Version::Two => [
                ("io.max", "rbps=", limits.disk_read),
                ("io.max", "wbps=", limits.disk_write),
            ],
        };
        for (file, prefix, limit) in files {
            let Some(bytes) = limit else { continue };
            let mut refused = Some(LimitError::NoController("io: there is no disk"));
            for device in disks(Path::new("/sys/block")) {
                match self.write(file, &format!("{device} {prefix}{bytes}")) {
                    Ok(()) => {
                        refused = None;
                        break;
                    }
                    Err(error) => refused = Some(error),
                }
            }
            if let Some(error) = refused {
                return Err(error);
            }
            for device in disks(Path::new("/sys/block")) {
                let _ = self.write(file, &format!("{device} {prefix}{bytes}"));
            }
        }
        Ok(())
    }
}

/// The names of the controllers that the limits need, in version 1 and in version 2.
fn wanted(limits: &Limits) -> Vec<(&'static str, &'static str)> {
    let mut names = Vec::new();
    if limits.memory.is_some() {
        names.push(("memory", "memory"));
    }
    if limits.cpu.is_some() {
        names.push(("cpu", "cpu"));
    }
    if limits.has_disks() {
        names.push(("blkio", "io"));
    }
    names
}

/// The groups of version 2, nearest first, whose children can have this controller: those that
/// already pass it on, then those that can be made to. A group with processes cannot, except the
/// first of all.
fn parents_with(unified: &Hierarchy, controller: &str) -> Vec<PathBuf> {
    let lists = |path: &Path, file: &str| {
        fs::read_to_string(path.join(file))
            .is_ok_and(|text| text.split_ascii_whitespace().any(|name| name == controller))
    };
    let above: Vec<&Path> = unified
        .own
        .ancestors()
        .take_while(|path| path.starts_with(&unified.root))
        .collect();
    let passing = above
        .iter()
        .filter(|path| lists(path, "cgroup.subtree_control"))
        .map(|path| path.to_path_buf());
    let mut found: Vec<PathBuf> = passing.collect();
    if found.is_empty() {
        let enabled = above.iter().find(|path| {
            lists(path, "cgroup.controllers")
                && fs::write(path.join("cgroup.subtree_control"), format!("+{controller}")).is_ok()
        });
        found.extend(enabled.map(|path| path.to_path_buf()));
    }
    found
}

/// The numbers (MAJOR:MINOR) of the disks that are not partitions, and not in memory.
fn disks(block: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(block) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            !["loop", "ram", "zram", "sr", "fd"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
        })
        .filter_map(|entry| fs::read_to_string(entry.path().join("dev")).ok())
        .map(|text| text.trim().to_owned())
        .collect()
}

/// Kills the processes of a group, and removes it. Returns whether it no longer exists.
pub(crate) fn remove(path: &Path, timeout: Duration) -> bool {
    let deadline = Instant::now() + timeout;
    loop {
        match fs::remove_dir(path) {
            Ok(()) => return true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
            Err(_) if Instant::now() > deadline => return false,
            Err(_) => {}
        }
        kill_members(path);
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn kill_members(path: &Path) {
    let Ok(text) = fs::read_to_string(path.join("cgroup.procs")) else {
        return;
    };
    for pid in text
        .lines()
        .filter_map(|line| line.trim().parse::<libc::pid_t>().ok())
    {
        // 0: a process of another PID namespace. As a PID, it would be the group of this process.
        if pid > 0 {
            // SAFETY: kill has no memory effects.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directories and files in place of a hierarchy of version 2: it shows which files are
    /// written, and not that the kernel keeps to them.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, groups: &[(&str, &str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("plimsoll-group-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            for (path, controllers, passed) in groups {
                let path = root.join(path);
                fs::create_dir_all(&path).unwrap();
                fs::write(path.join("cgroup.controllers"), controllers).unwrap();
                fs::write(path.join("cgroup.subtree_control"), passed).unwrap();
            }
            Self(root)
        }

        fn hierarchy(&self, own: &str) -> Hierarchy {
            Hierarchy {
                version: Version::Two,
                controllers: vec![String::new()],
                root: self.0.clone(),
                own: self.0.join(own),
            }
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_group_of_version_2_is_created_where_the_controller_is_passed_on() {
        let groups = [
            ("", "cpu io memory", "cpu io memory"),
            ("user", "cpu io memory", "memory"),
            ("user/session", "memory", ""),
        ];
        let tree = Tree::new("passed", &groups);
        let unified = tree.hierarchy("user/session");
        assert_eq!(
            parents_with(&unified, "memory"),
            [tree.0.join("user"), tree.0.clone()]
        );
        assert_eq!(parents_with(&unified, "cpu"), std::slice::from_ref(&tree.0));
        assert_eq!(parents_with(&unified, "rdma"), Vec::<PathBuf>::new());
    }

    #[test]
    fn limits_of_version_2_are_one_line_each() {
        let tree = Tree::new("limits", &[("", "cpu io memory", "cpu io memory")]);
        for file in ["memory.max", "memory.swap.max", "cpu.max"] {
            fs::write(tree.0.join(file), "").unwrap();
        }
        let group = Group {
            directories: vec![Directory {
                path: tree.0.clone(),
                version: Version::Two,
                controllers: vec!["memory", "cpu"],
            }],
            limits: Limits {
                memory: Some(64_000_000),
                cpu: Some(1.5),
                ..Limits::default()
            },
        };
        group.set().unwrap();
        let text = |file: &str| fs::read_to_string(tree.0.join(file)).unwrap();
        assert_eq!(text("memory.max"), "64000000");
        assert_eq!(text("memory.swap.max"), "0");
        assert_eq!(text("cpu.max"), "150000 100000");
        fs::write(tree.0.join("memory.events"), "low 0\nmax 7\noom 2\noom_kill 2\n").unwrap();
        assert_eq!(group.oom_kills(), 2);
        std::mem::forget(group); // these are not groups: nothing is to be removed as one
    }
}
