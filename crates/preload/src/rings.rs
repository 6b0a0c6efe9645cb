//! Asynchronous requests: that some were submitted, and how many. What they do is in no call, so it
//! is not recorded.
//!
//! These are functions of other libraries, which may be loaded for one part of a program only
//! (dlopen). `RTLD_NEXT` does not find such a library, so it is then looked up by its name. If the
//! function is still not found, this library does what the function would do, or fails as it would.

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};

use plimsoll_preload_log::ABSENT;

use crate::calls::Call;
use crate::kernel;
use crate::next::Next;
use crate::record::{self, CallEnd};
use crate::wrap::Word;

type Ring = *mut c_void;

const LIBRARIES: [&[u8]; 2] = [b"liburing.so.2\0", b"liburing.so.1\0"];

/// The address of a function of liburing.
fn find(next: &Next) -> Option<*mut c_void> {
    next.find().or_else(|| {
        static DLOPEN: Next = Next::new("dlopen\0");
        let open = DLOPEN.find()?;
        // SAFETY: the type of dlopen(3). `RTLD_NOLOAD` returns a loaded library and loads none.
        let open: unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void =
            unsafe { core::mem::transmute(open) };
        LIBRARIES.iter().find_map(|name| {
            // SAFETY: the name ends with 0.
            let library = unsafe { open(name.as_ptr().cast(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
            (!library.is_null()).then(|| next.find_in(library))?
        })
    })
}

/// The result of a function that returns a number, or an error as a negative number.
fn ended(value: i64) -> CallEnd {
    match value {
        -4095..0 => CallEnd::failed(-value as c_int),
        value => CallEnd::returned(value),
    }
}

/// `Call: name (arguments);` of liburing.
macro_rules! wrap {
    ($($call:ident: $name:ident ($($argument:ident: $kind:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            static NEXT: Next = Next::new(concat!(stringify!($name), "\0"));
            let Some(next) = find(&NEXT) else {
                return -libc::ENOSYS;
            };
            let begun = record::begin();
            // SAFETY: the caller passes the arguments of the function of liburing; they are passed
            // unchanged.
            unsafe {
                let next: unsafe extern "C" fn($($kind),*) -> c_int = core::mem::transmute(next);
                let value = next($($argument),*);
                record::end(begun, Call::$call, &[ABSENT], ended(value.word()));
                value
            }
        }
    )*};
}

wrap! {
    // The descriptor of a new ring is in a private structure of the library. So the record is one
    // of a call that returns no descriptor.
    IoUringRegister: io_uring_queue_init (entries: c_uint, ring: Ring, flags: c_uint);
    IoUringRegister: io_uring_queue_init_params (entries: c_uint, ring: Ring, params: Ring);
    IoUringEnter: io_uring_submit (ring: Ring);
    IoUringEnter: io_uring_submit_and_wait (ring: Ring, count: c_uint);
    IoUringEnter: io_uring_submit_and_wait_timeout (ring: Ring, done: Ring, count: c_uint, time: Ring, mask: Ring);
}

/// The function of libaio, which only makes the system call.
#[unsafe(no_mangle)]
unsafe extern "C" fn io_submit(context: *mut c_void, count: c_long, list: *mut *mut c_void) -> c_int {
    let begun = record::begin();
    let words = [context as usize, count as usize, list as usize, 0, 0, 0];
    // SAFETY: the caller guarantees it.
    let value = match unsafe { kernel::call(libc::SYS_io_submit, words) } {
        Ok(count) => count as c_int,
        Err(errno) => -c_int::from(errno),
    };
    // SAFETY: there are no texts.
    unsafe { record::end(begun, Call::IoSubmit, &[0, 0, list.word()], ended(value.word())) };
    value
}
