//! A program that submits requests by `io_submit(2)`, which libc does not provide.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const FDSYNC: u16 = 3;

/// `struct iocb` of the kernel's `aio_abi.h`, little-endian.
#[repr(C)]
#[derive(Default)]
struct Block {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    length: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event: u32,
}

/// Writes a new file in two pieces, syncs it, and reads within the file and beyond its end.
pub fn run(directory: &Path) {
    let path = directory.join("blocks");
    let file = File::options().read(true).write(true).create_new(true).open(path);
    let file = file.unwrap();
    let mut context = 0_u64;
    // SAFETY: the kernel fills in the number.
    let made = unsafe { libc::syscall(libc::SYS_io_setup, 16, &raw mut context) };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    submit_and_wait(context, &file, &[(PWRITE, 5000, 0), (PWRITE, 3000, 20_000)]);
    submit_and_wait(context, &file, &[(FDSYNC, 0, 0)]);
    submit_and_wait(
        context,
        &file,
        &[(PREAD, 4096, 0), (PREAD, 4096, 22_000), (PREAD, 10, 50_000)],
    );
    // SAFETY: this function owns the context, which has no requests in progress.
    unsafe { libc::syscall(libc::SYS_io_destroy, context) };
}

/// Submits requests, given as opcode, length and offset, and waits for them.
fn submit_and_wait(context: u64, file: &File, requests: &[(u16, u64, i64)]) {
    let mut buffer = vec![0_u8; 4096 * 8];
    let mut blocks: Vec<Block> = requests
        .iter()
        .map(|&(opcode, length, offset)| Block {
            opcode,
            file: file.as_raw_fd().cast_unsigned(),
            buffer: if opcode == FDSYNC {
                0
            } else {
                buffer.as_mut_ptr() as u64
            },
            length,
            offset,
            ..Block::default()
        })
        .collect();
    let pointers: Vec<*mut Block> = blocks.iter_mut().map(std::ptr::from_mut).collect();
    let mut done = vec![[0_u64; 4]; requests.len()];
    // SAFETY: blocks, their buffer and the memory for their results outlive the requests, which the
    // second call waits for.
    unsafe {
        let submitted = libc::syscall(libc::SYS_io_submit, context, pointers.len(), pointers.as_ptr());
        assert_eq!(
            submitted,
            pointers.len() as i64,
            "{}",
            std::io::Error::last_os_error()
        );
        let null = std::ptr::null_mut::<libc::timespec>();
        let ended = libc::syscall(
            libc::SYS_io_getevents,
            context,
            submitted,
            submitted,
            done.as_mut_ptr(),
            null,
        );
        assert_eq!(ended, submitted);
    }
}
