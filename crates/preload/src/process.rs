//! What a process knows: whether it is recorded, where to, and that it is not its parent.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use crate::kernel;

/// The longest name of a directory that is recorded to, bytes.
pub const MAX_DIRECTORY: usize = 512;
/// The variable that names it.
const VARIABLE: &[u8] = b"PLIMSOLL_TRACE_DIR=";

/// The kernel empties this page in every child, so that a child knows that it is one, whether
/// fork(3) has made it or not.
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
/// Of the program that runs, whichever process it is.
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
static IMAGE_IS_TOLD: AtomicBool = AtomicBool::new(false);

struct Directory(UnsafeCell<[u8; MAX_DIRECTORY]>);
// SAFETY: it is written once, by the thread that has made STATE `BUSY`, and read when that is `ON`.
unsafe impl Sync for Directory {}
static DIRECTORY: Directory = Directory(UnsafeCell::new([0; MAX_DIRECTORY]));

/// Whether calls are recorded, as far as is known now.
#[inline]
pub fn is_off() -> bool {
    STATE.load(Ordering::Relaxed) == OFF
}

/// The process, or 0 where nobody has asked in it yet.
#[inline]
pub fn pid() -> u32 {
    PAGE.pid.load(Ordering::Relaxed)
}

/// Whether the program that runs is to be told in a head: its command line, what it has inherited.
/// Once.
pub fn is_new_image() -> bool {
    !IMAGE_IS_TOLD.swap(true, Ordering::Relaxed)
}

/// Where logs go, without the slash at its end.
pub fn directory() -> &'static [u8] {
    // SAFETY: see `Directory`; it is asked for where `begin` has said yes.
    let bytes = unsafe { &*DIRECTORY.0.get() };
    let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(0);
    &bytes[..length]
}

/// Finds out who and where we are. Whether calls are recorded.
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

/// Reads the environment. False where it is not there yet, another thread is at it, or it does not
/// ask for a recording.
fn find_directory() -> bool {
    let environment = environment();
    if environment.is_null() {
        return false;
    }
    let begun = STATE.compare_exchange(UNKNOWN, BUSY, Ordering::Acquire, Ordering::Relaxed);
    if begun.is_err() {
        return false;
    }
    // SAFETY: a list of texts that ends with a null.
    let found = unsafe { variable(environment) };
    let is_on = found.is_some_and(|name| {
        // SAFETY: this thread alone has made STATE `BUSY`.
        let place = unsafe { &mut *DIRECTORY.0.get() };
        let fits = name.first() == Some(&b'/') && name.len() < place.len();
        if fits {
            place[..name.len()].copy_from_slice(name);
        }
        // SAFETY: the page is whole, and nothing but zeros that no file holds.
        fits && unsafe { kernel::wipe_in_children((&raw const PAGE).cast(), size_of::<Page>()) }
    });
    STATE.store(if is_on { ON } else { OFF }, Ordering::Release);
    is_on
}

fn environment() -> *const *const c_char {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: libc's own, always there.
    unsafe { environ }
}

unsafe fn variable<'a>(mut entry: *const *const c_char) -> Option<&'a [u8]> {
    loop {
        // SAFETY: the caller's: not past the null.
        let text = unsafe { *entry };
        if text.is_null() {
            return None;
        }
        // SAFETY: the caller's.
        let text = unsafe { CStr::from_ptr(text) }.to_bytes();
        if let Some(value) = text.strip_prefix(VARIABLE) {
            return Some(value);
        }
        // SAFETY: the caller's.
        entry = unsafe { entry.add(1) };
    }
}
