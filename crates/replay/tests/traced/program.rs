//! A random program of file calls, which strace traces.

use std::ffi::CString;
use std::path::Path;
use std::sync::Mutex;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// Number of open files that all threads share.
const SLOTS: usize = 6;
const NAMES: [&str; 12] = [
    "f0", "f1", "f2", "d0", "d1", "d0/f0", "d0/f1", "d0/d2", "d1/f1", "d1/d2", "d0/d2/f0", "link",
];
/// Targets of links that no call renames.
const TARGETS: [&str; 4] = ["f0", "f1", "d0", "d1/f1"];

struct State {
    /// Whether links are made. The order of threads does not account for a link that makes two
    /// names one file. And if links exist, a trace takes the result of lstat(2) for that of the
    /// target.
    links: bool,
    random: Pcg64Mcg,
    slots: [i32; SLOTS],
}

/// Makes `calls` random calls in `directory` by this many threads, one after the other.
pub fn run(directory: &Path, seed: u64, threads: usize, calls: usize) {
    let state = Mutex::new(State {
        links: threads == 1,
        random: Pcg64Mcg::seed_from_u64(seed),
        slots: [-1; SLOTS],
    });
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut buffer = vec![0x5a_u8; 70_000];
                for _ in 0..calls / threads {
                    let mut state = state.lock().unwrap();
                    // SAFETY: see `call`; the buffer is longer than the maximum length.
                    unsafe { call(&mut state, directory, &mut buffer) };
                }
            });
        }
    });
}

impl State {
    fn below(&mut self, bound: usize) -> usize {
        self.random.next_u32() as usize % bound
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn name(&mut self, directory: &Path) -> CString {
        let name = self.of(&NAMES);
        absolute(directory, name)
    }
}

fn absolute(directory: &Path, name: &str) -> CString {
    CString::new(directory.join(name).to_str().unwrap()).unwrap()
}

/// Makes one call. Its result is only recorded by strace.
///
/// # Safety
/// Names end in a zero, and `buffer` is longer than any length below: 65,536.
#[expect(clippy::too_many_lines, reason = "a list of calls")]
unsafe fn call(state: &mut State, directory: &Path, buffer: &mut [u8]) {
    let (slot, other) = (state.below(SLOTS), state.below(SLOTS));
    let (file, file2) = (state.slots[slot], state.slots[other]);
    let (name, mut name2) = (state.name(directory), state.name(directory));
    if !state.links {
        // If the directory of the second name is missing, a trace takes the first name for missing,
        // and the file for another one afterwards.
        name2 = absolute(directory, state.of(&NAMES[..5]));
    }
    let (path, path2) = (name.as_ptr(), name2.as_ptr());
    let size = state.of(&[0, 1, 100, 4096, 5000, 65_536]);
    let at = state.of(&[0_i64, 10, 4096, 50_000]);
    let mode = state.of(&[0o644_u32, 0o600, 0o755, 0o666]);
    let data = buffer.as_mut_ptr();
    let part = libc::iovec {
        iov_base: data.cast(),
        iov_len: size,
    };
    // SAFETY: the conditions are those of this function.
    unsafe {
        match state.below(38) {
            0..=4 => {
                let flags = state.of(&[
                    libc::O_RDONLY,
                    libc::O_RDWR | libc::O_CREAT,
                    libc::O_RDWR | libc::O_CREAT | libc::O_EXCL,
                    libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC,
                    libc::O_RDWR | libc::O_APPEND | libc::O_CREAT,
                    libc::O_RDONLY | libc::O_NOFOLLOW,
                    libc::O_RDONLY | libc::O_DIRECTORY,
                ]);
                let opened = libc::open(path, flags, mode);
                if opened >= 0 && file >= 0 {
                    libc::close(file);
                }
                if opened >= 0 {
                    state.slots[slot] = opened;
                }
            }
            5 => {
                libc::close(file);
                state.slots[slot] = -1;
            }
            6 | 7 => drop(libc::read(file, data.cast(), size)),
            8 | 9 => drop(libc::write(file, data.cast(), size)),
            10 => drop(libc::pread(file, data.cast(), size, at)),
            11 => drop(libc::pwrite(file, data.cast(), size, at)),
            12 => {
                let whence = state.of(&[libc::SEEK_SET, libc::SEEK_CUR, libc::SEEK_END]);
                libc::lseek(file, at - 10, whence);
            }
            13 if file >= 0 && slot != other => {
                if file2 >= 0 {
                    libc::close(file2);
                }
                state.slots[other] = libc::dup(file);
            }
            14 if file >= 0 && file2 >= 0 => drop(libc::dup2(file, file2)),
            15 => drop(libc::ftruncate(file, at)),
            16 => drop(libc::truncate(path, at)),
            17 => {
                let mut status = std::mem::zeroed();
                libc::stat(path, &raw mut status);
            }
            18 if !state.links => {
                let mut status = std::mem::zeroed();
                libc::lstat(path, &raw mut status);
            }
            19 | 20 => drop(libc::mkdir(path, mode | 0o111)),
            21 => drop(libc::rmdir(path)),
            22 => drop(libc::unlink(path)),
            23 | 24 => drop(libc::rename(path, path2)),
            25 => drop(libc::link(path, path2)),
            26 if state.links => {
                let target = CString::new(state.of(&TARGETS)).unwrap();
                libc::symlink(target.as_ptr(), path);
            }
            27 if state.links => {
                // An absolute target: the replay must write it differently. No call renames this
                // link.
                let target = absolute(directory, state.of(&TARGETS));
                let link = absolute(directory, "fixed");
                libc::unlink(link.as_ptr());
                libc::symlink(target.as_ptr(), link.as_ptr());
                let opened = libc::open(link.as_ptr(), libc::O_RDWR | libc::O_CREAT, mode);
                libc::close(opened);
            }
            28 if !state.links => drop(libc::readlink(path, data.cast(), 4096)),
            29 => drop(libc::chmod(path, mode | 0o100)),
            30 => {
                libc::fsync(file);
                libc::fchmod(file, mode);
            }
            31 => drop(libc::fallocate(
                file,
                state.of(&[0, libc::FALLOC_FL_KEEP_SIZE]),
                at,
                1000,
            )),
            32 if slot != other => {
                let (mut from, mut to) = (at, at);
                let from = state.of(&[std::ptr::null_mut(), &raw mut from]);
                let to = state.of(&[std::ptr::null_mut(), &raw mut to]);
                // Through a link, the output of strace may not show the offsets.
                let (from, to) = if state.links {
                    (std::ptr::null_mut(), std::ptr::null_mut())
                } else {
                    (from, to)
                };
                libc::copy_file_range(file, from, file2, to, size, 0);
            }
            33 if slot != other => {
                let mut from = at;
                let from = state.of(&[std::ptr::null_mut(), &raw mut from]);
                let from = if state.links { std::ptr::null_mut() } else { from };
                libc::sendfile(file2, file, from, size);
            }
            34 => {
                libc::setxattr(path, c"user.plimsoll".as_ptr(), data.cast(), size % 200, 0);
                libc::getxattr(path2, c"user.plimsoll".as_ptr(), data.cast(), 4096);
                libc::listxattr(path, data.cast(), 4096);
            }
            35 => {
                libc::utimensat(libc::AT_FDCWD, path, std::ptr::null(), 0);
                libc::access(path2, libc::R_OK);
            }
            36 => {
                libc::readv(file, &raw const part, 1);
                libc::pwritev(file2, &raw const part, 1, at);
                libc::syscall(libc::SYS_preadv2, file, &raw const part, 1, -1_i64, -1_i64, 0);
            }
            _ => {
                libc::syscall(libc::SYS_getdents64, file, data, 4096);
                libc::umask(state.of(&[0o022, 0o077, 0o002]));
            }
        }
    }
}
