//! The mounted hierarchies of control groups, and the groups of a process in them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::LimitError;

/// The version of a hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    One,
    Two,
}

/// A mounted hierarchy. `controllers`: those of version 1. `root`: where it is mounted. `own`: the
/// directory of the group of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    pub(crate) version: Version,
    pub(crate) controllers: Vec<String>,
    pub(crate) root: PathBuf,
    pub(crate) own: PathBuf,
}

/// The hierarchies with the groups of the process `pid` ("self", or a number) in them.
pub(crate) fn hierarchies_of(pid: &str) -> Result<Vec<Hierarchy>, LimitError> {
    let read =
        |path: String| fs::read_to_string(&path).map_err(LimitError::io(format!("cannot read {path}")));
    Ok(parse(
        &read("/proc/self/mountinfo".into())?,
        &read(format!("/proc/{pid}/cgroup"))?,
    ))
}

/// The hierarchies of the texts of `/proc/PID/mountinfo` and `/proc/PID/cgroup`.
fn parse(mounts: &str, groups: &str) -> Vec<Hierarchy> {
    mounts
        .lines()
        .filter_map(|line| {
            let (mount, file_system) = line.split_once(" - ")?;
            let words: Vec<&str> = mount.split(' ').collect();
            let (mounted, point) = (*words.get(3)?, *words.get(4)?);
            let words: Vec<&str> = file_system.split(' ').collect();
            let version = match *words.first()? {
                "cgroup" => Version::One,
                "cgroup2" => Version::Two,
                _ => return None,
            };
            let options: Vec<&str> = words.get(2)?.split(',').collect();
            let group = groups.lines().find_map(|line| {
                let mut fields = line.splitn(3, ':').skip(1);
                let (names, path) = (fields.next()?, fields.next()?);
                let matches = match version {
                    Version::Two => names.is_empty(),
                    Version::One => !names.is_empty() && names.split(',').all(|name| options.contains(&name)),
                };
                matches.then_some((names, path))
            })?;
            let (names, path) = group;
            let root = PathBuf::from(unescaped(point));
            // Outside of what is mounted (a group namespace), only the mounted group can be used.
            let below = Path::new(path)
                .strip_prefix(unescaped(mounted))
                .ok()
                .filter(|below| !below.starts_with(".."))
                .map(Path::to_path_buf)
                .unwrap_or_default();
            let own = if below.as_os_str().is_empty() {
                root.clone()
            } else {
                root.join(below)
            };
            Some(Hierarchy {
                version,
                controllers: names.split(',').map(str::to_owned).collect(),
                root,
                own,
            })
        })
        .collect()
}

/// A path of mountinfo, in which the kernel writes a blank as \040.
fn unescaped(path: &str) -> String {
    path.replace("\\040", " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIXED: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn controllers_of_version_1_have_their_own_groups() {
        let groups = "9:name=systemd:/\n4:memory:/api/7\n1:cpu,cpuacct:/\n0::/x y\n";
        let found = parse(MIXED, groups);
        let own: Vec<&str> = found.iter().map(|one| one.own.to_str().unwrap()).collect();
        assert_eq!(
            own,
            [
                "/sys/fs/cgroup/cpu,cpuacct",
                "/sys/fs/cgroup/memory/api/7",
                "/sys/fs/cgroup/systemd",
                "/sys/fs/cgroup/unified/x y"
            ]
        );
        assert_eq!(found[0].controllers, ["cpu", "cpuacct"]);
        assert_eq!(found[3].version, Version::Two);
    }

    #[test]
    fn a_container_has_only_the_mounted_part() {
        let mounts = "41 31 0:38 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw,nsdelegate\n";
        let own = |groups: &str| parse(mounts, groups)[0].own.clone();
        assert_eq!(own("0::/docker/abc\n"), Path::new("/sys/fs/cgroup"));
        assert_eq!(own("0::/docker/abc/job\n"), Path::new("/sys/fs/cgroup/job"));
        assert_eq!(own("0::/../other\n"), Path::new("/sys/fs/cgroup"));
    }

    #[test]
    fn no_hierarchy_is_found_without_a_mount() {
        assert_eq!(parse("", "0::/\n"), []);
        assert_eq!(parse("a line that is no mount\n", "0::/\n"), []);
    }
}
