//! A second opinion: the same lists on a directory of this host, evaluated by the kernel.
//!
//! Needs root, to act as other users, and a file system with ACLs below `/tmp`.

use std::ffi::CString;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use plimsoll_wire::catalogue::AclTag;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::super::groups::User;
use super::*;

const OWNER: u32 = 60_001;
const GROUP: u32 = 60_010;
const USERS: [u32; 3] = [OWNER, 60_002, 60_003];
const GROUPS: [u32; 3] = [GROUP, 60_011, 60_012];
/// Attributes with the access list, and the list to inherit.
const ATTRIBUTES: [&str; 2] = ["system.posix_acl_access", "system.posix_acl_default"];
/// Version of their form.
const VERSION: u32 = 2;
/// Tags in this form, in the order of [`AclTag`].
const TAGS: [u16; 6] = [0x01, 0x02, 0x04, 0x08, 0x10, 0x20];
/// Number of an entry without a name.
const NO_NAME: u32 = u32::MAX;

/// The list in the form of the kernel.
fn to_kernel(entries: &[Entry], is_default: bool) -> Vec<u8> {
    let mut bytes = VERSION.to_le_bytes().to_vec();
    let mut entries: Vec<&Entry> = entries
        .iter()
        .filter(|entry| entry.is_default == is_default)
        .collect();
    entries.sort_unstable();
    for entry in entries {
        let (tag, number) = match entry.tag {
            AclTag::Owner => (0, NO_NAME),
            AclTag::User(number) => (1, number as u32),
            AclTag::OwningGroup => (2, NO_NAME),
            AclTag::Group(number) => (3, number as u32),
            AclTag::Mask => (4, NO_NAME),
            AclTag::Other => (5, NO_NAME),
        };
        bytes.extend(TAGS[tag].to_le_bytes());
        bytes.extend((entry.permissions as u16).to_le_bytes());
        bytes.extend(number.to_le_bytes());
    }
    bytes
}

fn name(text: &[u8]) -> CString {
    CString::new(text).unwrap()
}

fn result(code: libc::c_long) -> io::Result<usize> {
    usize::try_from(code).map_err(|_| io::Error::last_os_error())
}

fn set_acl(path: &Path, entries: &[Entry], is_default: bool) -> io::Result<()> {
    let (path, attribute) = (
        name(path.as_os_str().as_bytes()),
        name(ATTRIBUTES[usize::from(is_default)].as_bytes()),
    );
    let value = to_kernel(entries, is_default);
    // SAFETY: the pointers are those of values that live longer than the call.
    let code = unsafe {
        libc::setxattr(
            path.as_ptr(),
            attribute.as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            0,
        )
    };
    result(code.into()).map(drop)
}

/// The list in the form of the kernel; empty: it has none.
fn get_acl(path: &Path, is_default: bool) -> Vec<u8> {
    let (path, attribute) = (
        name(path.as_os_str().as_bytes()),
        name(ATTRIBUTES[usize::from(is_default)].as_bytes()),
    );
    let mut value = vec![0; 4096];
    // SAFETY: the pointers are those of values that live longer than the call.
    let code = unsafe {
        libc::getxattr(
            path.as_ptr(),
            attribute.as_ptr(),
            value.as_mut_ptr().cast(),
            value.len(),
        )
    };
    value.truncate(result(code as libc::c_long).unwrap_or(0));
    value
}

/// Makes this thread, and no other one, act as a user. The C library would change all threads.
fn act_as(user: u32, groups: &[u32]) {
    let root = 0;
    let group = groups.first().copied().unwrap_or(NO_NAME - 1);
    // SAFETY: the calls have no pointers, except one to `groups`, which lives longer than they do.
    let codes = unsafe {
        [
            libc::syscall(libc::SYS_setresuid, root, root, root),
            libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()),
            libc::syscall(libc::SYS_setresgid, group, group, root),
            libc::syscall(libc::SYS_setresuid, user, user, root),
        ]
    };
    assert_eq!(codes, [0; 4], "{}", io::Error::last_os_error());
}

fn may(path: &Path, wanted: u32) -> bool {
    let path = name(path.as_os_str().as_bytes());
    // SAFETY: the pointer is that of a value that lives longer than the call.
    let code = unsafe {
        libc::syscall(
            libc::SYS_faccessat2,
            libc::AT_FDCWD,
            path.as_ptr(),
            wanted,
            libc::AT_EACCESS,
        )
    };
    match result(code) {
        Ok(_) => true,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => false,
        Err(error) => panic!("{error}"),
    }
}

/// A valid list with random entries.
fn random(draws: &mut Pcg64, is_default: bool) -> Vec<Entry> {
    let mut tags = vec![AclTag::Owner, AclTag::OwningGroup, AclTag::Other];
    tags.extend(USERS.map(|user| AclTag::User(user.into())));
    tags.extend(GROUPS.map(|group| AclTag::Group(group.into())));
    for index in (3..tags.len()).rev() {
        if draws.random_range(0..2) == 0 {
            tags.remove(index);
        }
    }
    if tags.len() > 3 || draws.random_range(0..4) == 0 {
        tags.push(AclTag::Mask);
    }
    let entry = |tag| {
        // Linux does not read the list if the mask has no permissions, so that users and groups in
        // it have those of others. In acl(5), they have none.
        let least = u32::from(tag == AclTag::Mask);
        Entry {
            is_default,
            permissions: draws.random_range(least..=ALL),
            tag,
        }
    };
    tags.into_iter().map(entry).collect()
}

/// A directory below `/tmp` that all users can search. None: there are no ACLs, or this is not
/// root.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Option<Self> {
        // SAFETY: the call has no arguments, and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            return None;
        }
        let path = PathBuf::from(format!("/tmp/plimsoll-acl-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        let this = Self(path);
        set_acl(&this.0, &of_mode(0o755), false).is_ok().then_some(this)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn check_access(path: &Path, draws: &mut Pcg64) {
    let entries = random(draws, false);
    set_acl(path, &entries, false).unwrap();
    let mode = fs::metadata(path).unwrap().mode();
    assert_eq!(mode_of(0o40_000, &entries), mode, "{entries:?}");
    let (owner, group) = (OWNER.into(), GROUP.into());
    let acl = column(&entries, owner, group);
    let protection = Protection {
        owner,
        group,
        mode,
        acl: &acl,
    };
    for number in USERS {
        for chosen in 0..1 << GROUPS.len() {
            let groups: Vec<u32> = (0..GROUPS.len())
                .filter(|bit| chosen >> bit & 1 == 1)
                .map(|bit| GROUPS[bit])
                .collect();
            act_as(number, &groups);
            let user = User {
                number: number.into(),
                groups: groups.iter().map(|group| i64::from(*group)).collect(),
            };
            for wanted in 1..=ALL {
                let case = (&acl, mode, &user, wanted);
                assert_eq!(protection.permits(&user, wanted), may(path, wanted), "{case:?}");
            }
        }
    }
    act_as(0, &[]);
    let changed = draws.random_range(0..=0o777);
    fs::set_permissions(path, Permissions::from_mode(changed)).unwrap();
    let after = Protection {
        mode: 0o40_000 | changed,
        acl: &protection.with_mode(changed),
        ..protection
    };
    let expected = to_kernel(&after.entries().unwrap(), false);
    let found = get_acl(path, false);
    // A list that the mode contains is not stored.
    assert_eq!(
        found,
        if after.acl.is_empty() {
            Vec::new()
        } else {
            expected
        }
    );
}

fn check_inheritance(parent: &Path, draws: &mut Pcg64) {
    let entries = random(draws, true);
    set_acl(parent, &entries, true).unwrap();
    let mode = draws.random_range(0..=0o777);
    let child = parent.join("child");
    DirBuilder::new().mode(mode).create(&child).unwrap();
    let whole = [of_mode(0o755), entries].concat();
    let acl = column(&whole, 0, 0);
    let (expected, acl) = inherited(&acl, 0o40_000 | mode, true, 0, 0);
    assert_eq!(
        fs::metadata(&child).unwrap().mode(),
        expected,
        "{whole:?} {mode:o}"
    );
    let list = parse(&acl).unwrap();
    assert_eq!(get_acl(&child, true), to_kernel(&list, true));
    let is_extended = list
        .iter()
        .any(|entry| !entry.is_default && entry.tag == AclTag::Mask);
    let access = if is_extended {
        to_kernel(&list, false)
    } else {
        Vec::new()
    };
    assert_eq!(get_acl(&child, false), access, "{whole:?} {mode:o}");
    fs::remove_dir(child).unwrap();
}

#[test]
fn the_kernel_has_the_same_opinion() {
    let Some(directory) = Directory::new() else {
        eprintln!("skipped: only root can act as other users");
        return;
    };
    let base = directory.0.clone();
    let check = move || {
        let mut draws = Pcg64::seed_from_u64(5);
        let path = base.join("checked");
        DirBuilder::new().create(&path).unwrap();
        chown(&path, Some(OWNER), Some(GROUP)).unwrap();
        for _ in 0..100 {
            check_access(&path, &mut draws);
        }
        let parent = base.join("parent");
        DirBuilder::new().create(&parent).unwrap();
        for _ in 0..100 {
            check_inheritance(&parent, &mut draws);
        }
    };
    // A thread of its own: it changes its user.
    std::thread::spawn(check).join().unwrap();
}
