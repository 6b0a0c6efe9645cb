//! The functions that this library stands before: libc's, or those of another library that does the
//! same.

use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    // By the version that every glibc has: the newest one here would be missing there.
    ".symver plimsoll_dlsym_of_libc, dlsym@GLIBC_2.2.5",
    ".hidden plimsoll_dlsym",
    ".globl plimsoll_dlsym",
    ".type plimsoll_dlsym, @function",
    "plimsoll_dlsym: jmp *plimsoll_dlsym_of_libc@GOTPCREL(%rip)",
    options(att_syntax)
);

#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    ".symver plimsoll_dlsym_of_libc, dlsym@GLIBC_2.17",
    ".hidden plimsoll_dlsym",
    ".globl plimsoll_dlsym",
    ".type plimsoll_dlsym, %function",
    "plimsoll_dlsym: b plimsoll_dlsym_of_libc",
);

// The standard library, where it is there, brings libc with it.
#[link(name = "c")]
unsafe extern "C" {
    fn plimsoll_dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn __errno_location() -> *mut c_int;
}

/// errno of this thread.
pub fn errno() -> c_int {
    // SAFETY: libc's own, always there.
    unsafe { *__errno_location() }
}

/// Sets errno of this thread.
pub fn set_errno(value: c_int) {
    // SAFETY: libc's own, always there.
    unsafe { *__errno_location() = value }
}

/// One such function.
pub struct Next {
    /// With a 0 at its end.
    name: &'static str,
    found: AtomicPtr<c_void>,
}

impl Next {
    /// `name` ends with a 0.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            found: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Its address. A function that this libc does not have fails with ENOSYS.
    #[inline]
    pub fn get(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() { self.look() } else { found }
    }

    /// Its address, if there is one.
    pub fn find(&self) -> Option<*mut c_void> {
        self.find_in(libc::RTLD_NEXT)
    }

    /// Its address in a library that is loaded.
    pub fn find_in(&self, library: *mut c_void) -> Option<*mut c_void> {
        // SAFETY: the name ends with 0.
        let found = unsafe { plimsoll_dlsym(library, self.name.as_ptr().cast()) };
        (!found.is_null()).then_some(found)
    }

    #[cold]
    fn look(&self) -> *mut c_void {
        let found = self.find().unwrap_or(absent as *mut c_void);
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

extern "C" fn absent() -> isize {
    set_errno(libc::ENOSYS);
    -1
}
