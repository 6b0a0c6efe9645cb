//! The state of the process: whether it is recorded, to which directory, and its pid.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use crate::kernel;

/// Maximum length of the path of the directory of logs, bytes.
pub const MAX_DIRECTORY: usize = 512;
/// The environment variable with that path.
const VARIABLE: &[u8] = b"PLIMSOLL_TRACE_DIR=";

/// The kernel fills this page with zeros in every child, so that a child is detected even if
/// fork(3) did not make it.
#[repr(C, align(65536))]
struct Page {
    pid: AtomicU32,
}

static PAGE: Page = Page {
    pid: AtomicU32::new(0),
};

const UNKNOWN: u8 = 0;
const BUSY: u8 = 1;
const ON: u8 = 2;
const OFF: u8 = 3;
/// State of the program (the image), which forked children inherit.
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
static IS_IMAGE_RECORDED: AtomicBool = AtomicBool::new(false);

struct Directory(UnsafeCell<[u8; MAX_DIRECTORY]>);
// SAFETY: the directory is written once, by the thread that has set STATE to `BUSY`, and read only
// when STATE is `ON`.
unsafe impl Sync for Directory {}
static DIRECTORY: Directory = Directory(UnsafeCell::new([0; MAX_DIRECTORY]));

/// Whether calls are certainly not recorded. False also if the environment has not been read yet.
#[inline]
pub fn is_off() -> bool {
    STATE.load(Ordering::Relaxed) == OFF
}

/// The id of the process, or 0 if it is not known yet, as in a new child.
#[inline]
pub fn pid() -> u32 {
    PAGE.pid.load(Ordering::Relaxed)
}

/// Returns true once for each program: its first head records the command line and the inherited
/// descriptors.
pub fn take_new_image() -> bool {
    !IS_IMAGE_RECORDED.swap(true, Ordering::Relaxed)
}

/// The directory of logs, without a slash at the end.
pub fn directory() -> &'static [u8] {
    // SAFETY: see `Directory`; it is called only after `begin` has returned true.
    let bytes = unsafe { &*DIRECTORY.0.get() };
    let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(0);
    &bytes[..length]
}

/// Reads the environment and the pid where they are not known yet. Returns whether calls are
/// recorded.
#[cold]
pub fn begin() -> bool {
    if STATE.load(Ordering::Acquire) == UNKNOWN && !find_directory() {
        return false;
    }
    if STATE.load(Ordering::Acquire) != ON {
        return false;
    }
    if pid() == 0 {
        PAGE.pid.store(kernel::ids().0, Ordering::Relaxed);
    }
    true
}

/// Reads the environment. Returns false if it is not available yet, if another thread is reading
/// it, or if it does not request a recording.
fn find_directory() -> bool {
    let environment = environment();
    if environment.is_null() {
        return false;
    }
    let begun = STATE.compare_exchange(UNKNOWN, BUSY, Ordering::Acquire, Ordering::Relaxed);
    if begun.is_err() {
        return false;
    }
    // SAFETY: a list of texts that ends with a null pointer.
    let value = unsafe { variable(environment) };
    let is_on = value.is_some_and(|path| {
        // SAFETY: only this thread has set STATE to `BUSY`.
        let buffer = unsafe { &mut *DIRECTORY.0.get() };
        let fits = path.first() == Some(&b'/') && path.len() < buffer.len();
        if fits {
            buffer[..path.len()].copy_from_slice(path);
        }
        // SAFETY: the page is aligned, contains only zeros and is not a mapping of a file.
        fits && unsafe { kernel::wipe_in_children((&raw const PAGE).cast(), size_of::<Page>()) }
    });
    STATE.store(if is_on { ON } else { OFF }, Ordering::Release);
    is_on
}

fn environment() -> *const *const c_char {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: every libc has this variable.
    unsafe { environ }
}

unsafe fn variable<'a>(mut entry: *const *const c_char) -> Option<&'a [u8]> {
    loop {
        // SAFETY: the caller guarantees it; the loop does not pass the null pointer.
        let text = unsafe { *entry };
        if text.is_null() {
            return None;
        }
        // SAFETY: the caller guarantees it.
        let text = unsafe { CStr::from_ptr(text) }.to_bytes();
        if let Some(value) = text.strip_prefix(VARIABLE) {
            return Some(value);
        }
        // SAFETY: the caller guarantees it.
        entry = unsafe { entry.add(1) };
    }
}
