//! Calls that start and end processes and threads.

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering};

use crate::calls::Call;
use crate::next::Next;
use crate::record::{self, CallEnd};
use crate::thread::Thread;
use crate::wrap::{Word, next, wrap, wrap_one};
use crate::{data, directory, names, next, stdio};

type Name = *const c_char;
type Texts = *const *const c_char;

wrap! {
    Wait4: waitpid (pid: c_int, status: *mut c_int, options: c_int) -> c_int, [pid];
    Wait4: wait (status: *mut c_int) -> c_int, [-1];
    Wait4: wait3 (status: *mut c_int, options: c_int, usage: *mut c_void) -> c_int, [-1];
    Wait4: wait4 (pid: c_int, status: *mut c_int, options: c_int, usage: *mut c_void) -> c_int, [pid];
    Waitid: waitid (kind: c_int, id: u32, status: *mut c_void, options: c_int) -> c_int, [kind];
}

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

/// Runs before the program, and in most cases before the constructors of all libraries except libc.
extern "C" fn begin() {
    if !crate::process::begin() {
        return;
    }
    data::look_up();
    names::look_up();
    directory::look_up();
    look_up();
    make_key();
    // Functions run in reverse order of registration. This one is registered first, so it runs
    // last.
    let register = Next::new("on_exit\0");
    if let Some(register) = register.find() {
        // SAFETY: the type of on_exit(3).
        unsafe {
            let register: unsafe extern "C" fn(extern "C" fn(c_int, *mut c_void), *mut c_void) -> c_int =
                core::mem::transmute(register);
            register(end, core::ptr::null_mut());
        }
    }
    stdio::begin();
    // The log is created when the program starts, not at its first call.
    let _ = record::begin();
}

/// Runs after a call of exit(3) or the return of main.
extern "C" fn end(status: c_int, _: *mut c_void) {
    stdio::end();
    // SAFETY: no pointers.
    unsafe { record::open(record::begin(), Call::ExitGroup, &[status.word()]) };
}

/// The key whose destructor libc calls when a thread ends.
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);
static SET: Next = Next::new("pthread_setspecific\0");

fn make_key() {
    let mut key = 0;
    // Without libpthread there are no threads that could end.
    if let (Some(make), Some(_)) = (Next::new("pthread_key_create\0").find(), SET.find()) {
        // SAFETY: the type of pthread_key_create(3).
        let failed = unsafe {
            let make: unsafe extern "C" fn(*mut u32, extern "C" fn(*mut c_void)) -> c_int =
                core::mem::transmute(make);
            make(&raw mut key, end_thread)
        };
        if failed == 0 {
            SET.get();
            KEY.store(key, Ordering::Release);
        }
    }
}

extern "C" fn end_thread(_: *mut c_void) {
    record::close_log();
}

/// Has libc call [`end_thread`] when this thread ends, which closes its log.
pub fn close_log_at_thread_end() {
    let key = KEY.load(Ordering::Acquire);
    if key != u32::MAX {
        // SAFETY: the type of pthread_setspecific(3). The value is not null, because libc calls the
        // destructor only then.
        unsafe {
            let set: unsafe extern "C" fn(u32, *const c_void) -> c_int = core::mem::transmute(SET.get());
            set(key, core::ptr::dangling());
        }
    }
}

macro_rules! fork {
    ($($name:ident)+) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() -> c_int {
            // SAFETY: the arguments are passed unchanged. The child has no log yet, and does not
            // use that of its parent.
            unsafe {
                let open = record::open(record::begin(), Call::Fork, &[]);
                let child = next!($name: fn() -> c_int)();
                if let Some(open) = open.filter(|_| child != 0) {
                    record::finish(&open, CallEnd::from_return(child.word()));
                }
                child
            }
        }
    )+};
}

fork! { fork _Fork __libc_fork }

/// The child runs on this stack and returns before the parent does, so it overwrites the return
/// address. The return address is therefore kept in a register, which the kernel saves for both.
/// libc does the same.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn vfork() -> c_int {
    core::arch::naked_asm!(
        "sub rsp, 8",
        "call {before}",
        "add rsp, 8",
        "pop rdi",
        "mov eax, 58",
        "syscall",
        "push rdi",
        "sub rsp, 8",
        "mov rdi, rax",
        "call {after}",
        "add rsp, 8",
        "ret",
        before = sym before_vfork,
        after = sym after_vfork,
    )
}

/// The same for aarch64. There vfork is `clone(CLONE_VM | CLONE_VFORK | SIGCHLD)`.
#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn vfork() -> c_int {
    core::arch::naked_asm!(
        "stp x29, x30, [sp, -16]!",
        "bl {before}",
        "ldp x29, x30, [sp], 16",
        "mov x0, 0x4111",
        "mov x1, 0",
        "mov x2, 0",
        "mov x3, 0",
        "mov x4, 0",
        "mov x8, 220",
        "svc 0",
        "stp x29, x30, [sp, -16]!",
        "bl {after}",
        "ldp x29, x30, [sp], 16",
        "ret",
        before = sym before_vfork,
        after = sym after_vfork,
    )
}

extern "C" fn before_vfork() {
    // SAFETY: no pointers.
    let open = unsafe { record::open(record::begin(), Call::Vfork, &[]) };
    Thread::own().lending.set(open);
}

extern "C" fn after_vfork(value: isize) -> c_int {
    if value == 0 {
        record::lend(crate::kernel::thread());
        return 0;
    }
    record::lend(0);
    let ended = if value < 0 {
        let errno = -value as c_int;
        next::set_errno(errno);
        CallEnd::failed(errno)
    } else {
        CallEnd::returned(value as i64)
    };
    if let Some(open) = Thread::own().lending.take() {
        // SAFETY: `before_vfork` has opened the record in this thread.
        unsafe { record::finish(&open, ended) };
    }
    if value < 0 { -1 } else { value as c_int }
}

/// execve and its variants. If they succeed, they do not return.
macro_rules! execute {
    ($($call:ident: $name:ident ($($argument:ident: $kind:ty),*) [$($word:expr),*];)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            // SAFETY: the arguments are passed unchanged.
            unsafe {
                let open = record::open(record::begin(), Call::$call, &[$($word.word()),*]);
                let failed = next!($name: fn($($kind),*) -> c_int)($($argument),*);
                if let Some(open) = open {
                    record::finish(&open, CallEnd::from_return(failed.word()));
                }
                failed
            }
        }
    )*};
}

execute! {
    Execve: execve (path: Name, arguments: Texts, environment: Texts) [path];
    Execve: execv (path: Name, arguments: Texts) [path];
    Execve: execvp (path: Name, arguments: Texts) [path];
    Execve: execvpe (path: Name, arguments: Texts, environment: Texts) [path];
    Execveat: fexecve (fd: c_int, arguments: Texts, environment: Texts) [fd, c"".as_ptr(), 0_i32, 0_i32, libc::AT_EMPTY_PATH];
    Execveat: execveat (at: c_int, path: Name, arguments: Texts, environment: Texts, flags: c_int) [at, path, 0_i32, 0_i32, flags];
}

/// Calls `before` with all arguments preserved, then jumps to the address that it returns.
#[cfg(target_arch = "x86_64")]
macro_rules! call_and_jump {
    ($before:ident) => {
        core::arch::naked_asm!(
            "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
            "call {before}",
            "mov r11, rax",
            "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
            "jmp r11",
            before = sym $before,
        )
    };
}

/// The same for aarch64.
#[cfg(target_arch = "aarch64")]
macro_rules! call_and_jump {
    ($before:ident) => {
        core::arch::naked_asm!(
            "stp x29, x30, [sp, -80]!",
            "stp x0, x1, [sp, 16]", "stp x2, x3, [sp, 32]", "stp x4, x5, [sp, 48]", "stp x6, x7, [sp, 64]",
            "bl {before}",
            "mov x16, x0",
            "ldp x0, x1, [sp, 16]", "ldp x2, x3, [sp, 32]", "ldp x4, x5, [sp, 48]", "ldp x6, x7, [sp, 64]",
            "ldp x29, x30, [sp], 80",
            "br x16",
            before = sym $before,
        )
    };
}

/// The variants with a variable number of arguments: the call is recorded, then libc's function
/// continues with the arguments unchanged.
macro_rules! execute_list {
    ($($name:ident)+) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() -> c_int {
            extern "C" fn before(path: Name) -> *mut c_void {
                static NEXT: Next = Next::new(concat!(stringify!($name), "\0"));
                // SAFETY: the caller passes a path.
                unsafe { record::open(record::begin(), Call::Execve, &[path.word()]) };
                NEXT.get()
            }
            call_and_jump!(before)
        }
    )+};
}

execute_list! { execl execlp execle }

macro_rules! exit {
    ($($name:ident)+) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(status: c_int) -> ! {
            // SAFETY: the arguments are passed unchanged.
            unsafe {
                record::open(record::begin(), Call::ExitGroup, &[status.word()]);
                next!($name: fn(c_int) -> !)(status)
            }
        }
    )+};
}

exit! { _exit _Exit }

/// `posix_spawn`: libc makes the first calls of the child itself. The descriptors that they open
/// are in the head of the child's log.
macro_rules! spawn {
    ($($name:ident)+) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            pid: *mut c_int,
            path: Name,
            actions: *const c_void,
            attributes: *const c_void,
            arguments: Texts,
            environment: Texts,
        ) -> c_int {
            let mut child = 0;
            // SAFETY: the arguments are passed unchanged, except the address for the child's id,
            // which may be null in the call.
            unsafe {
                let next = next!($name: fn(*mut c_int, Name, *const c_void, *const c_void, Texts, Texts) -> c_int);
                let open = record::open(record::begin(), Call::Vfork, &[]);
                let errno = next(&raw mut child, path, actions, attributes, arguments, environment);
                if errno == 0 && !pid.is_null() {
                    *pid = child;
                }
                if let Some(open) = open {
                    let ended = if errno == 0 { CallEnd::returned(child.word()) } else { CallEnd::failed(errno) };
                    record::finish(&open, ended);
                }
                errno
            }
        }
    )+};
}

spawn! { posix_spawn posix_spawnp }
