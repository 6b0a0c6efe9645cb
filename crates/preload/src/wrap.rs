//! Macros that define the replacement of a function of libc.

use core::ffi::c_int;

use plimsoll_preload_log::ABSENT;

/// A type that can be a word of a record.
pub trait Word: Copy {
    /// The value, sign-extended; of a pointer its address.
    fn word(self) -> i64;
}

macro_rules! words {
    ($($kind:ty)*) => {$(
        impl Word for $kind {
            #[inline]
            #[allow(clippy::cast_lossless, reason = "of some kinds only")]
            fn word(self) -> i64 {
                self as i64
            }
        }
    )*};
}

words!(i32 u32 i64 u64 usize isize);

impl<T> Word for *const T {
    #[inline]
    fn word(self) -> i64 {
        self as i64
    }
}

impl<T> Word for *mut T {
    #[inline]
    fn word(self) -> i64 {
        self as i64
    }
}

/// The permissions, if the flags of an open require them; otherwise the argument has no meaning.
pub fn mode_of(flags: c_int, mode: u32) -> i64 {
    let makes = flags & libc::O_CREAT != 0 || flags & libc::O_TMPFILE == libc::O_TMPFILE;
    if makes { i64::from(mode) } else { ABSENT }
}

/// The offset to which a pointer points; absent if it is null.
///
/// # Safety
/// `offset` must be null or point to an offset.
pub unsafe fn offset_at(offset: *const i64) -> i64 {
    if offset.is_null() {
        ABSENT
    } else {
        // SAFETY: the caller guarantees it.
        unsafe { offset.read_unaligned() }
    }
}

/// The total length of a list of buffers, bytes; absent if the count is invalid.
///
/// # Safety
/// `buffers` must be null or point to `count` buffers.
pub unsafe fn total(buffers: *const libc::iovec, count: c_int) -> i64 {
    if buffers.is_null() || !(0..=1024).contains(&count) {
        return ABSENT;
    }
    let length = |index| {
        // SAFETY: within the list.
        unsafe { (*buffers.add(index)).iov_len as i64 }
    };
    (0..count as usize).map(length).fold(0, i64::wrapping_add)
}

/// Functions that make one system call each: `Call: names (arguments) -> type [words of the system
/// call];`
macro_rules! wrap {
    ($($call:ident: $($name:ident)+ ($($argument:tt)*) -> $returns:ty, $words:tt;)*) => {
        $(wrap_one! { @ $call [$($name)+] ($($argument)*) $returns, $words })*

        /// Looks up the replaced functions now, so that no signal handler has to.
        pub fn look_up() {
            $($($name::NEXT.get();)+)*
        }
    };
}

macro_rules! wrap_one {
    (@ $call:ident [$($name:ident)+] $arguments:tt $returns:ty, $words:tt) => {
        $(wrap_one! { $call $name $arguments $returns, $words })+
    };
    ($call:ident $name:ident ($($argument:ident: $kind:ty),*) $returns:ty, [$($word:expr),*]) => {
        mod $name {
            pub static NEXT: crate::next::Next = crate::next::Next::new(concat!(stringify!($name), "\0"));
        }

        #[unsafe(no_mangle)]
        #[allow(unused_variables, reason = "some functions have more arguments than their system call")]
        unsafe extern "C" fn $name($($argument: $kind),*) -> $returns {
            // SAFETY: the caller passes the arguments of the function of libc; they are passed
            // unchanged.
            #[allow(unused_unsafe, reason = "some words follow a pointer")]
            unsafe {
                let next: unsafe extern "C" fn($($kind),*) -> $returns = core::mem::transmute($name::NEXT.get());
                let words = [$(crate::wrap::Word::word($word)),*];
                crate::record::around(crate::calls::Call::$call, &words, || next($($argument),*))
            }
        }
    };
}

/// The replaced function, with its type.
macro_rules! next {
    ($name:ident: fn($($kind:ty),*) $(-> $returns:ty)?) => {{
        static NEXT: crate::next::Next = crate::next::Next::new(concat!(stringify!($name), "\0"));
        core::mem::transmute::<*mut core::ffi::c_void, unsafe extern "C" fn($($kind),*) $(-> $returns)?>(NEXT.get())
    }};
}

pub(crate) use {next, wrap, wrap_one};
