//! The head of a log: the process and thread, and in the first log of a program its command,
//! directory, host and open descriptors.

use core::ffi::{CStr, c_int};

use plimsoll_preload_log::{MAGIC, VERSION, part};

use crate::calls::TABLE;
use crate::log::Text;
use crate::{clock, kernel};

/// Maximum length of the recorded command line, bytes. The rest is cut.
const MAX_COMMAND: usize = 16 * 1024;

/// Writes the head. Returns its length in bytes: a multiple of 8, at most `capacity`.
///
/// # Safety
/// `start` must point to `capacity` zero bytes, aligned to 8, to which no other code has access.
pub unsafe fn write(start: *mut u8, capacity: usize, is_image: bool) -> usize {
    // SAFETY: the caller guarantees it.
    let bytes = unsafe { core::slice::from_raw_parts_mut(start, capacity) };
    let mut out = Out { bytes, used: 8 };
    let ids = kernel::ids();
    for number in [VERSION, 0, ids.0, ids.1, ids.2, u32::from(is_image)] {
        out.put(&number.to_ne_bytes());
    }
    for number in [clock::monotonic(), clock::real()] {
        out.put(&number.to_ne_bytes());
    }
    out.part(part::CALLS, |out| {
        for row in TABLE {
            out.put(row.name.as_bytes());
            out.put(b"\n");
        }
    });
    if is_image {
        put_image(&mut out);
    }
    let used = out.used;
    out.bytes[12..16].copy_from_slice(&(used as u32).to_ne_bytes());
    // Written last, see `MAGIC`.
    out.bytes[..8].copy_from_slice(MAGIC);
    used
}

fn put_image(out: &mut Out<'_>) {
    out.part(part::COMMAND, |out| {
        if let Ok(number) = kernel::open(c"/proc/self/cmdline", libc::O_RDONLY, 0) {
            let buffer = out.free(MAX_COMMAND);
            out.used += kernel::read(number, buffer).unwrap_or(0);
            kernel::close(number);
        }
    });
    out.part(part::DIRECTORY, |out| {
        let buffer = out.free(libc::PATH_MAX as usize);
        let length = kernel::current_directory(buffer).unwrap_or(0);
        // Without the terminating 0.
        out.used += length.saturating_sub(1);
    });
    out.part(part::HOST, |out| {
        // SAFETY: the structure contains only characters, for which 0 is valid.
        let mut names: libc::utsname = unsafe { core::mem::zeroed() };
        let words = [(&raw mut names) as usize, 0, 0, 0, 0, 0];
        // SAFETY: the kernel writes the structure.
        let _ = unsafe { kernel::call(libc::SYS_uname, words) };
        for name in [&names.nodename, &names.release, &names.machine] {
            // SAFETY: the kernel ends each text with 0.
            out.put(unsafe { CStr::from_ptr(name.as_ptr()) }.to_bytes_with_nul());
        }
    });
    put_descriptors(out);
}

/// Writes a part for each descriptor that the program has inherited.
fn put_descriptors(out: &mut Out<'_>) {
    let Ok(list) = kernel::open(c"/proc/self/fd", libc::O_RDONLY | libc::O_DIRECTORY, 0) else {
        return;
    };
    let mut entries = [0; 4096];
    while let Ok(length) = kernel::entries(list, &mut entries) {
        if length == 0 {
            break;
        }
        let mut remaining = &entries[..length];
        // struct linux_dirent64: u64 inode, i64 offset, u16 length, u8 type, name.
        while let Some(&[low, high]) = remaining.get(16..18) {
            let next = usize::from(u16::from_ne_bytes([low, high]));
            let name = remaining.get(19..next).unwrap_or_default();
            let number = CStr::from_bytes_until_nul(name)
                .ok()
                .and_then(|name| parse_number(name.to_bytes()));
            if let Some(number) = number.filter(|&number| number != list) {
                put_descriptor(out, number);
            }
            remaining = remaining.get(next.max(1)..).unwrap_or_default();
        }
    }
    kernel::close(list);
}

fn put_descriptor(out: &mut Out<'_>, number: c_int) {
    if out.bytes.len() - out.used < libc::PATH_MAX as usize + 64 {
        return;
    }
    out.part(part::DESCRIPTOR, |out| {
        let query = |command| kernel::fcntl(number, command).unwrap_or(0) as u32;
        let close_on_exec = query(libc::F_GETFD) & libc::FD_CLOEXEC as u32;
        for value in [number as u32, query(libc::F_GETFL), close_on_exec, 0] {
            out.put(&value.to_ne_bytes());
        }
        out.put(&kernel::position(number).unwrap_or(-1).to_ne_bytes());
        let mut path = Text::new(b"/proc/self/fd/");
        path.number(number as u64);
        let buffer = out.free(libc::PATH_MAX as usize);
        out.used += kernel::readlink(path.as_c(), buffer).unwrap_or(0);
    });
}

fn parse_number(text: &[u8]) -> Option<c_int> {
    let digit = |value: Option<c_int>, &byte: &u8| {
        let digit = c_int::from(byte.checked_sub(b'0').filter(|&digit| digit < 10)?);
        value?.checked_mul(10)?.checked_add(digit)
    };
    Some(text)
        .filter(|text| !text.is_empty())?
        .iter()
        .fold(Some(0), digit)
}

struct Out<'a> {
    bytes: &'a mut [u8],
    used: usize,
}

impl Out<'_> {
    /// Appends bytes. If they do not fit, none of them is appended.
    fn put(&mut self, bytes: &[u8]) {
        if let Some(target) = self.bytes.get_mut(self.used..self.used + bytes.len()) {
            target.copy_from_slice(bytes);
            self.used += bytes.len();
        }
    }

    /// The free bytes, at most `max_length` of them.
    fn free(&mut self, max_length: usize) -> &mut [u8] {
        let end = self.bytes.len().min(self.used + max_length);
        &mut self.bytes[self.used..end]
    }

    /// Writes a part: u32 kind, u32 length, the bytes, and zeros up to a multiple of 8.
    fn part(&mut self, kind: u32, fill: impl FnOnce(&mut Self)) {
        let begin = self.used;
        self.put(&kind.to_ne_bytes());
        self.put(&0_u32.to_ne_bytes());
        fill(self);
        let length = (self.used - begin - 8) as u32;
        self.bytes[begin + 4..begin + 8].copy_from_slice(&length.to_ne_bytes());
        self.used = self.used.next_multiple_of(8);
    }
}
