//! The functions that this library replaces: those of libc, or of another library that also
//! replaces them.

use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    // The symbol version that every glibc has. The newest one of the build host would be missing on
    // older hosts.
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

// If the standard library is linked, it links libc, too.
#[link(name = "c")]
unsafe extern "C" {
    fn plimsoll_dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn __errno_location() -> *mut c_int;
}

/// errno of this thread.
pub fn errno() -> c_int {
    // SAFETY: every libc has this function.
    unsafe { *__errno_location() }
}

/// Sets errno of this thread.
pub fn set_errno(value: c_int) {
    // SAFETY: every libc has this function.
    unsafe { *__errno_location() = value }
}

/// A replaced function.
pub struct Next {
    /// Ends with 0.
    name: &'static str,
    address: AtomicPtr<c_void>,
}

impl Next {
    /// `name` must end with 0.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            address: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The address of the function. If this libc does not have it: of a function that fails with
    /// ENOSYS.
    #[inline]
    pub fn get(&self) -> *mut c_void {
        let address = self.address.load(Ordering::Relaxed);
        if address.is_null() {
            self.resolve()
        } else {
            address
        }
    }

    /// The address of the function, if it exists.
    pub fn find(&self) -> Option<*mut c_void> {
        self.find_in(libc::RTLD_NEXT)
    }

    /// The address of the function in a loaded library, if it exists there.
    pub fn find_in(&self, library: *mut c_void) -> Option<*mut c_void> {
        // SAFETY: the name ends with 0.
        let address = unsafe { plimsoll_dlsym(library, self.name.as_ptr().cast()) };
        (!address.is_null()).then_some(address)
    }

    #[cold]
    fn resolve(&self) -> *mut c_void {
        let address = self.find().unwrap_or(absent as *mut c_void);
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

extern "C" fn absent() -> isize {
    set_errno(libc::ENOSYS);
    -1
}
