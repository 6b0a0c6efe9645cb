//! Calls on descriptors: data, sizes, durability.

use std::os::fd::RawFd;

use libc::{c_int, c_long, c_uint, off64_t};
use nix::errno::Errno;

use super::buffer::MAX_CHUNK_BYTES;
use super::{ActionResult, Executor, flags};
use crate::action::{Action, Operation, mark};
use crate::root::{Refusal, expect_of_user};

/// Size of the reads that replace a map: its pages are read one by one, as accesses would load
/// them.
const PAGE: u64 = 4096;

impl Executor<'_> {
    pub(super) fn on_data(&mut self, action: &Action, file: RawFd) -> ActionResult {
        if action.has(mark::RESEEK) {
            // SAFETY: this call takes numbers only.
            unsafe { libc::lseek64(file, action.offset, libc::SEEK_SET) };
        }
        ActionResult::Returned(match action.operation {
            Operation::Read => self.read(action, |buffer, size, _| {
                // SAFETY: the buffer has at least `size` bytes. The same is true for all reads
                // below.
                unsafe { libc::read(file, buffer.cast(), size) as i64 }
            }),
            Operation::Readv => self.read(action, |buffer, size, _| {
                let part = vector(buffer, size);
                // SAFETY: as above; `part` lives as long as the call.
                unsafe { libc::readv(file, &raw const part, 1) as i64 }
            }),
            Operation::SendOut if action.has(mark::MOVES) => self.read(action, |buffer, size, _| {
                // SAFETY: as above.
                unsafe { libc::read(file, buffer.cast(), size) as i64 }
            }),
            Operation::Pread | Operation::SendOut => self.read(action, |buffer, size, at| {
                // SAFETY: as above.
                unsafe { libc::pread64(file, buffer.cast(), size, at) as i64 }
            }),
            Operation::Preadv => self.read(action, |buffer, size, at| {
                let part = vector(buffer, size);
                // SAFETY: as above.
                unsafe { libc::preadv64(file, &raw const part, 1, at) as i64 }
            }),
            Operation::Preadv2 => self.read(action, |buffer, size, at| {
                vectored2(
                    libc::SYS_preadv2,
                    file,
                    vector(buffer, size),
                    offset_argument(action, at),
                    action.flags,
                )
            }),
            Operation::Write
            | Operation::Writev
            | Operation::Pwrite
            | Operation::Pwritev
            | Operation::Pwritev2
            | Operation::TakeIn => self.write_any(action, file),
            Operation::Sendfile | Operation::CopyRange => return self.transfer(action, file),
            Operation::Clone => return self.clone_range(action, file),
            Operation::List => self.list(action, file),
            Operation::Map => self.map(action, file),
            _ => plain(action, file),
        })
    }

    fn write_any(&self, action: &Action, file: RawFd) -> Result<i64, Errno> {
        match action.operation {
            Operation::Writev => self.write(action.length, |data, size, _| {
                let part = vector(data.cast_mut(), size);
                // SAFETY: the kernel reads `size` bytes, which `data` has. The same is true for all
                // writes below.
                unsafe { libc::writev(file, &raw const part, 1) as i64 }
            }),
            Operation::Pwrite => self.write(action.length, |data, size, done| {
                // SAFETY: as above.
                unsafe { libc::pwrite64(file, data.cast(), size, action.offset + done) as i64 }
            }),
            Operation::Pwritev => self.write(action.length, |data, size, done| {
                let part = vector(data.cast_mut(), size);
                // SAFETY: as above.
                unsafe { libc::pwritev64(file, &raw const part, 1, action.offset + done) as i64 }
            }),
            Operation::Pwritev2 => self.write(action.length, |data, size, done| {
                let part = vector(data.cast_mut(), size);
                let at = offset_argument(action, action.offset + done);
                vectored2(libc::SYS_pwritev2, file, part, at, action.flags)
            }),
            Operation::TakeIn if !action.has(mark::MOVES2) => {
                self.write(action.length, |data, size, done| {
                    // SAFETY: as above.
                    unsafe { libc::pwrite64(file, data.cast(), size, action.offset2 + done) as i64 }
                })
            }
            _ => self.write(action.length, |data, size, _| {
                // SAFETY: as above.
                unsafe { libc::write(file, data.cast(), size) as i64 }
            }),
        }
    }

    /// Reads in pieces of the size of the buffer. `call` gets the address of the buffer, the number
    /// of bytes and the offset.
    fn read(
        &mut self,
        action: &Action,
        mut call: impl FnMut(*mut u8, usize, off64_t) -> i64,
    ) -> Result<i64, Errno> {
        let buffer = self.buffer.bytes_mut();
        let (start, size) = (buffer.as_mut_ptr(), buffer.len());
        in_pieces(action.length, size, |size, done| {
            call(start, size, action.offset + done)
        })
    }

    fn write(
        &self,
        length: u64,
        mut call: impl FnMut(*const u8, usize, off64_t) -> i64,
    ) -> Result<i64, Errno> {
        let content = &self.common.content;
        in_pieces(length, content.size(), |size, done| {
            call(content.start(), size, done)
        })
    }

    fn transfer(&mut self, action: &Action, from: RawFd) -> ActionResult {
        let Some(to) = self.common.get(action.open2) else {
            return ActionResult::Lost;
        };
        if action.has(mark::RESEEK2) {
            // SAFETY: this call takes numbers only.
            unsafe { libc::lseek64(to, action.offset2, libc::SEEK_SET) };
        }
        let (mut from_at, mut to_at) = (action.offset, action.offset2);
        let from_offset = pointer(&mut from_at, action.has(mark::MOVES));
        let to_offset = pointer(&mut to_at, action.has(mark::MOVES2));
        let size = usize::try_from(action.length).unwrap_or(usize::MAX);
        let moved = if action.operation == Operation::Sendfile {
            // SAFETY: the offset is null or points to a number that lives as long as the call.
            unsafe { libc::sendfile64(to, from, from_offset, size) as i64 }
        } else {
            let flags: c_uint = 0;
            // SAFETY: as above, for both offsets.
            unsafe {
                libc::syscall(
                    libc::SYS_copy_file_range,
                    from,
                    from_offset,
                    to,
                    to_offset,
                    size,
                    flags,
                ) as i64
            }
        };
        ActionResult::Returned(Errno::result(moved))
    }

    /// Clones a range. If the file system cannot share storage, the data are copied.
    fn clone_range(&mut self, action: &Action, from: RawFd) -> ActionResult {
        const CANNOT: [Errno; 3] = [Errno::EOPNOTSUPP, Errno::EINVAL, Errno::EXDEV];
        let Some(to) = self.common.get(action.open2) else {
            return ActionResult::Lost;
        };
        let range = libc::file_clone_range {
            src_fd: i64::from(from),
            src_offset: action.offset.max(0).unsigned_abs(),
            src_length: action.length,
            dest_offset: action.offset2.max(0).unsigned_abs(),
        };
        // SAFETY: the kernel reads the structure, which lives as long as the call.
        let done = unsafe { libc::ioctl(to, libc::FICLONERANGE, &raw const range) };
        match Errno::result(done) {
            Err(why) if CANNOT.contains(&why) => {
                ActionResult::Replaced(Operation::CloneByCopy, copy(from, to, &range))
            }
            done => ActionResult::Returned(done.map(i64::from)),
        }
    }

    fn list(&mut self, action: &Action, file: RawFd) -> Result<i64, Errno> {
        let buffer = self.buffer.bytes_mut();
        let size = usize::try_from(action.length)
            .unwrap_or(MAX_CHUNK_BYTES)
            .min(buffer.len());
        // SAFETY: the buffer has at least `size` bytes.
        let returned = unsafe { libc::syscall(libc::SYS_getdents64, file, buffer.as_mut_ptr(), size) };
        Errno::result(returned as i64)
    }

    fn map(&mut self, action: &Action, file: RawFd) -> Result<i64, Errno> {
        let buffer = self.buffer.bytes_mut().as_mut_ptr();
        let from = action.offset.max(0).unsigned_abs();
        let mut total = 0;
        for at in (from..from.saturating_add(action.length)).step_by(PAGE as usize) {
            // SAFETY: the buffer has at least one page.
            let returned = unsafe { libc::pread64(file, buffer.cast(), PAGE as usize, at as off64_t) as i64 };
            if Errno::result(returned)? == 0 {
                break;
            }
            total += returned;
        }
        Ok(total)
    }

    /// Calls on descriptors that have a variant for names.
    pub(super) fn on_open(&mut self, action: &Action, file: RawFd) -> ActionResult {
        let buffer = self.buffer.bytes_mut();
        let size = usize::try_from(action.length)
            .unwrap_or(MAX_CHUNK_BYTES)
            .min(buffer.len());
        let attribute = action.path2.and_then(|text| self.common.plan.texts.get(&text));
        let key = attribute.map_or(c"", |text| text.as_c_str());
        if matches!(action.operation, Operation::Setxattr | Operation::Removexattr)
            && expect_of_user(key).is_err()
        {
            return ActionResult::Refused(Refusal::Attribute);
        }
        let content = self.common.content.start();
        // SAFETY: structures have the size that the kernel fills in. Names end in a zero. The
        // buffer has at least `size` bytes, and `content` has as many as are passed.
        let result = unsafe {
            match action.operation {
                Operation::Stat => {
                    let mut status = std::mem::MaybeUninit::uninit();
                    i64::from(libc::fstat(file, status.as_mut_ptr()))
                }
                Operation::Statfs => {
                    let mut status = std::mem::MaybeUninit::uninit();
                    i64::from(libc::fstatfs(file, status.as_mut_ptr()))
                }
                Operation::Chmod => i64::from(libc::fchmod(file, action.mode & 0o777)),
                Operation::Touch => i64::from(libc::futimens(file, std::ptr::null())),
                Operation::Getxattr => {
                    libc::fgetxattr(file, key.as_ptr(), buffer.as_mut_ptr().cast(), size) as i64
                }
                Operation::Listxattr => libc::flistxattr(file, buffer.as_mut_ptr().cast(), size) as i64,
                Operation::Setxattr => {
                    let size = size.min(self.common.content.size());
                    let flags = action.flags as c_int;
                    i64::from(libc::fsetxattr(file, key.as_ptr(), content.cast(), size, flags))
                }
                Operation::Removexattr => i64::from(libc::fremovexattr(file, key.as_ptr())),
                Operation::SetFlags => {
                    i64::from(libc::fcntl(file, libc::F_SETFL, flags::of_status(action.flags)))
                }
                _ => return ActionResult::Nothing,
            }
        };
        ActionResult::Returned(Errno::result(result))
    }
}

/// Calls that take numbers only.
fn plain(action: &Action, file: RawFd) -> Result<i64, Errno> {
    let length = i64::try_from(action.length).unwrap_or(i64::MAX);
    // SAFETY: none of them takes an address.
    let result = unsafe {
        match action.operation {
            Operation::Seek => libc::lseek64(file, action.offset, action.flags as c_int),
            Operation::Truncate => i64::from(libc::ftruncate64(file, length)),
            Operation::Allocate => i64::from(libc::fallocate64(
                file,
                action.flags as c_int,
                action.offset,
                length,
            )),
            Operation::Fsync => i64::from(libc::fsync(file)),
            Operation::Fdatasync => i64::from(libc::fdatasync(file)),
            Operation::Syncfs => i64::from(libc::syncfs(file)),
            Operation::SyncRange => i64::from(libc::sync_file_range(
                file,
                action.offset.max(0),
                length,
                action.flags,
            )),
            Operation::Advise => {
                // The call returns its error.
                let advice = action.flags as c_int;
                let errno = libc::posix_fadvise64(file, action.offset.max(0), length, advice);
                return if errno == 0 {
                    Ok(0)
                } else {
                    Err(Errno::from_raw(errno))
                };
            }
            Operation::Readahead => {
                libc::readahead(file, action.offset.max(0), action.length as usize) as i64
            }
            _ => 0,
        }
    };
    Errno::result(result)
}

/// Copies the bytes of a clone. A length of 0 means up to the end of the file.
fn copy(from: RawFd, to: RawFd, range: &libc::file_clone_range) -> Result<i64, Errno> {
    let (mut from_at, mut to_at) = (range.src_offset.cast_signed(), range.dest_offset.cast_signed());
    let mut remaining = if range.src_length > 0 {
        range.src_length
    } else {
        u64::MAX
    };
    while remaining > 0 {
        let size = usize::try_from(remaining)
            .unwrap_or(MAX_CHUNK_BYTES)
            .min(MAX_CHUNK_BYTES);
        let (from_offset, to_offset) = (&raw mut from_at, &raw mut to_at);
        // SAFETY: both offsets live as long as the call, which advances them.
        let moved = unsafe { libc::copy_file_range(from, from_offset, to, to_offset, size, 0) };
        match Errno::result(moved)? {
            0 => break,
            moved => remaining -= moved.unsigned_abs() as u64,
        }
    }
    Ok(to_at - range.dest_offset.cast_signed())
}

/// Moves `length` bytes by calls of at most `max_size` bytes. Ends after a call that moves less
/// than requested.
fn in_pieces(length: u64, max_size: usize, mut call: impl FnMut(usize, i64) -> i64) -> Result<i64, Errno> {
    let mut done = 0_u64;
    loop {
        let size = usize::try_from(length - done).unwrap_or(max_size).min(max_size);
        let moved = call(size, done as i64);
        if moved < 0 {
            // Bytes that were moved before count, as in a single call.
            return if done > 0 {
                Ok(done as i64)
            } else {
                Err(Errno::last())
            };
        }
        done += moved.unsigned_abs();
        if done >= length || moved.unsigned_abs() < size as u64 {
            return Ok(done as i64);
        }
    }
}

fn vector(start: *mut u8, size: usize) -> libc::iovec {
    libc::iovec {
        iov_base: start.cast(),
        iov_len: size,
    }
}

/// Offset argument of preadv2 and pwritev2: -1 uses the offset of the open file.
fn offset_argument(action: &Action, at: off64_t) -> off64_t {
    if action.has(mark::MOVES) { -1 } else { at }
}

fn vectored2(call: c_long, file: RawFd, part: libc::iovec, at: off64_t, flags: u32) -> i64 {
    // The kernel accepts the offset in two halves; on 64 bits the first one is the whole offset.
    // SAFETY: `part` lives as long as the call and contains the length of the data.
    unsafe { libc::syscall(call, file, &raw const part, 1_usize, at, at >> 32, flags as c_int) as i64 }
}

fn pointer(at: &mut off64_t, moves: bool) -> *mut off64_t {
    if moves { std::ptr::null_mut() } else { at }
}
