//! Attempts to leave the sandbox, with resolution by the kernel and component by component.

#![allow(clippy::unwrap_used, reason = "a test")]
mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use common::Scratch;
use nix::errno::Errno;
use plimsoll_replay::root::{CallFailure, Name, Refusal, Root};

const LEAVES: CallFailure = CallFailure::Refused(Refusal::Leaves);
const MAKE: i32 = libc::O_CREAT | libc::O_RDWR | libc::O_TRUNC;

/// A root, and next to it a directory with a secret file.
struct Sandbox {
    _scratch: Scratch,
    inside: PathBuf,
    outside: PathBuf,
}

impl Sandbox {
    fn new() -> Self {
        let scratch = Scratch::new();
        let (inside, outside) = (scratch.make("inside"), scratch.make("outside"));
        fs::write(outside.join("secret"), b"secret").unwrap();
        fs::set_permissions(outside.join("secret"), fs::Permissions::from_mode(0o640)).unwrap();
        Self {
            _scratch: scratch,
            inside,
            outside,
        }
    }

    fn roots(&self) -> [Root; 2] {
        [
            Root::open(&self.inside).unwrap(),
            Root::open_walking(&self.inside).unwrap(),
        ]
    }

    /// Asserts that nothing outside has changed.
    fn assert_outside_unchanged(&self) {
        let names = listing(&self.outside);
        assert_eq!(names, ["secret"]);
        let secret = self.outside.join("secret");
        assert_eq!(fs::read(&secret).unwrap(), b"secret");
        let metadata = fs::metadata(&secret).unwrap();
        assert_eq!((metadata.mode() & 0o7777, metadata.nlink()), (0o640, 1));
        let beside = listing(self.inside.parent().unwrap());
        assert_eq!(beside, ["inside", "outside"]);
    }
}

fn listing(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

/// Makes every call that takes a name, on `at` and then on a link `spare`. Returns the result of
/// each.
fn try_all(root: &Root, at: &Name, spare: &Name) -> Vec<Result<(), CallFailure>> {
    let mut value = [0; 64];
    vec![
        root.open_file(at, libc::O_RDONLY, 0).map(drop),
        root.open_file(at, MAKE, 0o666).map(drop),
        root.open_file(at, libc::O_PATH, 0).map(drop),
        root.truncate(at, 0),
        root.chmod(at, 0o777, true),
        root.touch(at, true),
        root.stat(at, true).map(drop),
        root.statfs(at),
        root.access(at, libc::R_OK, true),
        root.link(at, spare, true),
        root.setxattr(at, c"user.a", b"b", 0, true),
        root.removexattr(at, c"user.a", true),
        root.getxattr(at, c"user.a", &mut value, true).map(drop),
        root.listxattr(at, &mut value, true).map(drop),
    ]
}

#[test]
fn dots_do_not_lead_out_of_the_root() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.inside.join("d")).unwrap();
    for root in sandbox.roots() {
        let spare = name("spare");
        for text in [
            "../outside/secret",
            "d/../../outside/secret",
            "d/../../../../../etc/passwd",
        ] {
            let at = name(text);
            for result in try_all(&root, &at, &spare) {
                assert_eq!(result, Err(LEAVES), "{text} {:?}", root.resolve());
            }
            for result in [
                root.unlink(&at),
                root.rmdir(&at),
                root.mkdir(&at, 0o777),
                root.mkfifo(&at, 0o666),
                root.rename(&at, &spare, 0),
                root.rename(&name("d"), &at, 0),
                root.link(&at, &spare, false),
                root.symlink(c"d", &at),
                root.symlink_beneath(&name("d"), &at),
                root.readlink(&at, &mut [0; 9]).map(drop),
                root.stat(&at, false).map(drop),
            ] {
                assert_eq!(result, Err(LEAVES), "{text} {:?}", root.resolve());
            }
        }
        // Inside the root, dots have their usual meaning.
        assert!(root.stat(&name("d/../d"), true).is_ok());
        for at in ["..", ".", "d/.."] {
            assert!(root.unlink(&name(at)).is_err() && root.rename(&name(at), &spare, 0).is_err());
        }
    }
    sandbox.assert_outside_unchanged();
}

#[test]
fn links_do_not_lead_out_of_the_root() {
    let sandbox = Sandbox::new();
    let secret = sandbox.outside.join("secret");
    fs::create_dir(sandbox.inside.join("d")).unwrap();
    symlink(&secret, sandbox.inside.join("absolute")).unwrap();
    symlink("../outside/secret", sandbox.inside.join("relative")).unwrap();
    symlink("../../outside", sandbox.inside.join("d/up")).unwrap();
    symlink("d/up", sandbox.inside.join("twice")).unwrap();
    symlink("/proc/self/root", sandbox.inside.join("magic")).unwrap();
    symlink("../outside/new", sandbox.inside.join("dangling")).unwrap();
    for root in sandbox.roots() {
        let spare = name("spare");
        for text in [
            "absolute",
            "relative",
            "d/up/secret",
            "twice/secret",
            "magic/etc/passwd",
            "dangling",
        ] {
            for result in try_all(&root, &name(text), &spare) {
                assert_eq!(result, Err(LEAVES), "{text} {:?}", root.resolve());
            }
        }
        for result in [
            root.unlink(&name("d/up/secret")),
            root.rename(&name("twice/secret"), &spare, 0),
            root.rename(&name("d"), &name("twice/d"), 0),
            root.mkdir(&name("twice/new"), 0o777),
            root.link(&name("twice/secret"), &spare, false),
            root.symlink(c"x", &name("twice/new")),
        ] {
            assert_eq!(result, Err(LEAVES), "{:?}", root.resolve());
        }
    }
    sandbox.assert_outside_unchanged();
}

#[test]
fn links_inside_the_root_are_followed() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.inside.join("a/b")).unwrap();
    fs::write(sandbox.inside.join("a/file"), b"1234").unwrap();
    symlink("..", sandbox.inside.join("a/b/up")).unwrap();
    symlink("a/b", sandbox.inside.join("short")).unwrap();
    symlink("round", sandbox.inside.join("round")).unwrap();
    for root in sandbox.roots() {
        let size = |text| root.stat(&name(text), true).map(|metadata| metadata.st_size);
        assert_eq!(size("short/up/file"), Ok(4));
        assert_eq!(size("round"), Err(Errno::ELOOP.into()));
        assert_eq!(size("a/file/x"), Err(Errno::ENOTDIR.into()));
        assert_eq!(size("a/none"), Err(Errno::ENOENT.into()));
        root.open_file(&name("short/made"), MAKE, 0o4666).unwrap();
        let made = sandbox.inside.join("a/b/made");
        assert_eq!(fs::metadata(&made).unwrap().mode() & 0o7000, 0);
        let is_there = root.open_file(&name("short/made"), MAKE | libc::O_EXCL, 0o666);
        assert_eq!(is_there.map(drop), Err(Errno::EEXIST.into()));
        root.unlink(&name("short/made")).unwrap();
        assert!(!made.exists());
    }
}

#[test]
fn created_links_stay_beneath_the_root() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.inside.join("a/b")).unwrap();
    fs::write(sandbox.inside.join("file"), b"12").unwrap();
    // The real directory of the link counts, not its name.
    symlink("..", sandbox.inside.join("a/up")).unwrap();
    for root in sandbox.roots() {
        root.symlink_beneath(&name("file"), &name("a/b/link")).unwrap();
        let target = fs::read_link(sandbox.inside.join("a/b/link")).unwrap();
        assert_eq!(target, Path::new("../../file"));
        assert_eq!(root.stat(&name("a/b/link"), true).unwrap().st_size, 2);
        for (target, at) in [
            (c"../x", "out"),
            (c"/etc", "out"),
            (c"../x", "a/up/out"),
            (c"../../../x", "a/b/out"),
        ] {
            assert_eq!(root.symlink(target, &name(at)), Err(LEAVES), "{at}");
        }
        root.symlink(c"../file", &name("a/good")).unwrap();
        for at in ["a/b/link", "a/good"] {
            root.unlink(&name(at)).unwrap();
        }
    }
    sandbox.assert_outside_unchanged();
}

#[test]
fn special_files_and_bits_are_refused() {
    let sandbox = Sandbox::new();
    for root in sandbox.roots() {
        let pipe = name("pipe");
        root.mkfifo(&pipe, 0o666).unwrap();
        for flags in [libc::O_RDONLY, libc::O_WRONLY, MAKE] {
            let result = root.open_file(&pipe, flags, 0o666).map(drop);
            assert_eq!(result, Err(Refusal::Special.into()), "{:?}", root.resolve());
        }
        assert!(root.open_file(&pipe, libc::O_PATH, 0).is_ok());
        root.unlink(&pipe).unwrap();
        root.mkdir(&name("d"), 0o7777).unwrap();
        assert_eq!(fs::metadata(sandbox.inside.join("d")).unwrap().mode() & 0o7000, 0);
        root.chmod(&name("d"), 0o7700, true).unwrap();
        assert_eq!(
            fs::metadata(sandbox.inside.join("d")).unwrap().mode() & 0o7777,
            0o700
        );
        let whiteout = root.rename(&name("d"), &name("e"), libc::RENAME_WHITEOUT);
        assert_eq!(whiteout, Err(Refusal::Device.into()));
        let foreign = root.setxattr(&name("d"), c"trusted.a", b"b", 0, true);
        assert_eq!(foreign, Err(Refusal::Attribute.into()));
        root.rmdir(&name("d")).unwrap();
    }
}

/// One thread swaps a directory and a link that leads out, as fast as possible. Others make, write
/// and delete files through them.
#[test]
fn no_race_leads_out_of_the_root() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.inside.join("real/deep")).unwrap();
    symlink("../outside", sandbox.inside.join("trap")).unwrap();
    let roots = sandbox.roots();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (roots, stop) = (&roots, &stop);
        // For this root, another process makes the swaps: it continues in the cached directory.
        let other_root = Root::open(&sandbox.inside).unwrap();
        scope.spawn(move || {
            for round in 0..20_000 {
                let at = name(&format!("real/s{}", round % 7));
                let _ = other_root.open_file(&at, MAKE, 0o666);
                let _ = other_root.truncate(&name("real/secret"), 0);
                let _ = other_root.unlink(&at);
            }
        });
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                roots[0]
                    .rename(&name("real"), &name("trap"), libc::RENAME_EXCHANGE)
                    .unwrap();
            }
        });
        let workers: Vec<_> = roots
            .iter()
            .map(|root| {
                scope.spawn(move || {
                    let (mut made, mut left, mut round) = (0, 0, 0_u32);
                    // Long enough to meet both states, for any scheduling of the threads.
                    while round < 20_000 || ((made == 0 || left == 0) && round < 5_000_000) {
                        round += 1;
                        let at = name(&format!("real/f{}", round % 7));
                        match root.open_file(&at, MAKE, 0o666) {
                            Ok(_) => made += 1,
                            Err(LEAVES) => left += 1,
                            Err(_) => {}
                        }
                        for secret in [name("real/secret"), name("real/deep/../secret")] {
                            let _ = root.chmod(&secret, 0o777, true);
                            let _ = root.truncate(&secret, 0);
                            let _ = root.unlink(&secret);
                        }
                        let _ = root.unlink(&at);
                    }
                    (made, left)
                })
            })
            .collect();
        let counts: Vec<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
        stop.store(true, Ordering::Relaxed);
        for (made, left) in counts {
            assert!(
                made > 0 && left > 0,
                "the race was not one: {made} in, {left} out"
            );
        }
    });
    sandbox.assert_outside_unchanged();
}

/// A directory in use is moved inside the root: `..` from within it never leads outside.
#[test]
fn a_directory_in_use_that_is_moved_does_not_lead_out() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.inside.join("a/b/c")).unwrap();
    fs::create_dir(sandbox.inside.join("other")).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let root = Root::open(&sandbox.inside).unwrap();
        let stop = &stop;
        scope.spawn(move || {
            let (deep, shallow) = (name("a/b/c"), name("c"));
            while !stop.load(Ordering::Relaxed) {
                root.rename(&deep, &shallow, 0).unwrap();
                root.rename(&shallow, &deep, 0).unwrap();
            }
        });
        for root in sandbox.roots() {
            // Three levels above the deep path is the root; above the shallow one it would be
            // outside.
            let at = name("a/b/c/../../../../outside/secret");
            let near = name("c/../../outside/secret");
            for _ in 0..20_000 {
                for at in [&at, &near] {
                    assert!(root.open_file(at, libc::O_RDWR, 0).is_err());
                    assert!(root.unlink(at).is_err());
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    sandbox.assert_outside_unchanged();
}

/// A cached directory is not used after it was renamed or removed.
#[test]
fn a_moved_or_removed_directory_is_looked_up_again() {
    let sandbox = Sandbox::new();
    for root in sandbox.roots() {
        fs::create_dir_all(sandbox.inside.join("a/b")).unwrap();
        root.open_file(&name("a/b/one"), MAKE, 0o666).unwrap();
        root.rename(&name("a"), &name("c"), 0).unwrap();
        assert_eq!(
            root.stat(&name("a/b/one"), true).err(),
            Some(CallFailure::Failed(Errno::ENOENT))
        );
        assert!(root.stat(&name("c/b/one"), true).is_ok());
        root.unlink(&name("c/b/one")).unwrap();
        root.rmdir(&name("c/b")).unwrap();
        root.mkdir(&name("c/b"), 0o777).unwrap();
        root.open_file(&name("c/b/two"), MAKE, 0o666).unwrap();
        assert!(sandbox.inside.join("c/b/two").is_file());
        fs::remove_dir_all(sandbox.inside.join("c")).unwrap();
        fs::create_dir_all(sandbox.inside.join("c/b")).unwrap();
        root.forget();
        root.open_file(&name("c/b/three"), MAKE, 0o666).unwrap();
        assert!(sandbox.inside.join("c/b/three").is_file());
        fs::remove_dir_all(sandbox.inside.join("c")).unwrap();
        assert_eq!(
            root.stat(&name("c/b/two"), true).err(),
            Some(CallFailure::Failed(Errno::ENOENT))
        );
    }
}

/// The target of a link may change between two calls, so directories beneath a link are not cached.
#[test]
fn a_link_in_a_path_is_followed_each_time() {
    let sandbox = Sandbox::new();
    for root in sandbox.roots() {
        for directory in ["a", "b"] {
            fs::create_dir_all(sandbox.inside.join(directory)).unwrap();
        }
        for (target, made_in) in [("a", Some("a/f")), ("b", Some("b/f")), ("../outside", None)] {
            let _ = fs::remove_file(sandbox.inside.join("link"));
            symlink(target, sandbox.inside.join("link")).unwrap();
            assert!(made_in.is_none_or(|file| !sandbox.inside.join(file).exists()));
            let made = root.open_file(&name("link/f"), MAKE, 0o666);
            assert_eq!(made.is_ok(), made_in.is_some());
            assert!(made_in.is_none_or(|file| sandbox.inside.join(file).is_file()));
        }
        fs::remove_dir_all(sandbox.inside.join("a")).unwrap();
        fs::remove_dir_all(sandbox.inside.join("b")).unwrap();
        fs::remove_file(sandbox.inside.join("link")).unwrap();
    }
    sandbox.assert_outside_unchanged();
}
