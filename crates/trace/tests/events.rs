//! Paths, offsets and sizes, followed call by call: small logs with known results.

use plimsoll_trace::event::{Event, Outcome};
use plimsoll_trace::follow::{Follower, Observation};
use plimsoll_trace::kernel::Kernel;

/// Events as text: `call path[ -> path2][ @offset][ +length][ =result]`, with the first path of the
/// file in brackets if it differs.
fn events_of(log: &str) -> Vec<String> {
    let mut follower = Follower::new();
    follower.kernel().set_directory(7, b"/w");
    let mut events = Vec::new();
    let mut hear = |kernel: &mut Kernel, seen: &Observation<'_>| events.push(event_text(kernel, seen.event));
    for line in log.lines() {
        follower.line(line.trim_start().as_bytes(), 7, &mut hear);
    }
    follower.end(&mut hear);
    assert_eq!((follower.trouble().odd_lines, follower.trouble().halves), (0, 0));
    events
}

fn event_text(kernel: &Kernel, event: &Event) -> String {
    let names = kernel.names();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut words = vec![event.call.name.to_owned()];
    let own = event.path.map(|path| text(names.path(path)));
    let file = event
        .file
        .map(|file| text(names.path(names.files()[file.index()].path)));
    let second = event.path2.map(|path| text(names.path(path)));
    words.extend(own.clone());
    if let Some(file) = file.filter(|file| Some(file) != own.as_ref()) {
        words.push(format!("[{file}]"));
    }
    if let Some(second) = second {
        words.push(format!("-> {second}"));
    }
    if let Some(offset) = event.offset {
        words.push(format!("@{offset}"));
    }
    if let Some(offset) = event.offset2 {
        words.push(format!("to @{offset}"));
    }
    if let Some(length) = event.length {
        words.push(format!("+{length}"));
    }
    words.push(match event.outcome {
        Outcome::Returned(value) => format!("={value}"),
        Outcome::Failed(error) => format!("!{error}"),
        Outcome::Restarted => "again".into(),
        Outcome::Unknown => "?".into(),
    });
    words.join(" ")
}

#[test]
fn offsets_move_with_the_open_file() {
    let log = r#"openat(AT_FDCWD, "a", O_RDWR) = 3
        read(3, ""..., 100) = 100
        dup(3) = 4
        read(4, ""..., 100) = 50
        pread64(3, ""..., 10, 7) = 10
        preadv2(3, [{iov_base=""..., iov_len=10}, {iov_base="", iov_len=20}], 2, -1, 0) = 30
        lseek(3, -20, SEEK_END) = 980
        read(3, "", 100) = 20
        read(3, "", 100) = 0
        read(3, 0x7ffe, 100) = -1 EFAULT (Bad address)
        write(3, ""..., 5) = 5
        close(4) = 0
        close(3) = 0
        openat(AT_FDCWD, "a", O_WRONLY|O_APPEND) = 3
        write(3, ""..., 5) = 5
        pwrite64(3, ""..., 5, 0) = 5
        openat(AT_FDCWD, "a", O_WRONLY|O_TRUNC) = 4
        write(4, ""..., 3) = 3
        write(3, ""..., 5) = 5"#;
    assert_eq!(
        events_of(log),
        [
            "openat /w/a =3",
            "read [/w/a] @0 +100 =100",
            "dup [/w/a] =4",
            "read [/w/a] @100 +100 =50",
            "pread64 [/w/a] @7 +10 =10",
            "preadv2 [/w/a] @150 +30 =30",
            "lseek [/w/a] @-20 =980",
            "read [/w/a] @980 +100 =20",
            "read [/w/a] @1000 +100 =0",
            "read [/w/a] +100 !14",
            "write [/w/a] @1000 +5 =5",
            "close [/w/a] +1 =0",
            "close [/w/a] +0 =0",
            "openat /w/a =3",
            "write [/w/a] @1005 +5 =5",
            // Linux appends and ignores the offset of pwrite (pwrite(2), "BUGS").
            "pwrite64 [/w/a] @1010 +5 =5",
            "openat /w/a =4",
            "write [/w/a] @0 +3 =3",
            "write [/w/a] @3 +5 =5",
        ]
    );
}

#[test]
fn transfers_move_the_offsets_of_both_files() {
    let log = r#"openat(AT_FDCWD, "a", O_RDONLY) = 3
        openat(AT_FDCWD, "b", O_RDWR|O_CREAT|O_TRUNC, 0644) = 4
        sendfile(4, 3, NULL, 100) = 100
        sendfile(4, 3, [500] => [600], 100) = 100
        copy_file_range(3, NULL, 4, NULL, 1000, 0) = 300
        copy_file_range(3, [5] => [8], 4, [0] => [3], 3, 0) = 3
        pipe2([5, 6], O_CLOEXEC) = 0
        splice(3, NULL, 6, NULL, 64, 0) = 64
        read(5, ""..., 64) = 64
        sendfile(4, 3, NULL, 100) = 0"#;
    assert_eq!(
        events_of(log),
        [
            "openat /w/a =3",
            "openat /w/b =4",
            "sendfile [/w/a] @0 to @0 +100 =100",
            "sendfile [/w/a] @500 to @100 +100 =100",
            "copy_file_range [/w/a] @100 to @200 +1000 =300",
            "copy_file_range [/w/a] @5 to @0 +3 =3",
            "pipe2 [pipe2:] =0",
            "splice [/w/a] @400 +64 =64",
            "read [pipe2:] +64 =64",
            "sendfile [/w/a] @464 to @500 +100 =0",
        ]
    );
}

#[test]
fn relative_paths_are_joined_with_the_directory_of_the_process_or_descriptor() {
    let log = r#"openat(AT_FDCWD, "./d//e", O_RDONLY|O_DIRECTORY) = 3
        openat(3, "../f", O_RDONLY) = 4
        newfstatat(3, "", {st_mode=S_IFDIR|0755, st_size=4096, ...}, AT_EMPTY_PATH) = 0
        newfstatat(AT_FDCWD, "g", {st_mode=S_IFREG|0644, st_size=17, ...}, 0) = 0
        chdir("d") = 0
        access("h", R_OK) = -1 ENOENT (No such file or directory)
        fchdir(3) = 0
        mkdir("i", 0777) = 0
        getcwd("/w/d/e", 4096) = 7
        symlink("../../target", "l") = 0
        readlink("l", ""..., 64) = 12
        readlink("l", "../../target", 64) = 12
        setxattr("g", "user.a", ""..., 5, 0) = 0
        statx(AT_FDCWD, "/abs/../j", AT_STATX_SYNC_AS_STAT, STATX_ALL, {stx_mask=STATX_ALL, stx_mode=S_IFREG|0600, stx_size=9, ...}) = 0"#;
    assert_eq!(
        events_of(log),
        [
            "openat /w/d/e =3",
            "openat /w/d/e/../f =4",
            "newfstatat [/w/d/e] +4096 =0",
            "newfstatat /w/g +17 =0",
            "chdir /w/d =0",
            "access /w/d/h !2",
            "fchdir [/w/d/e] =0",
            "mkdir /w/d/e/i =0",
            "getcwd =7",
            "symlink /w/d/e/l -> ../../target =0",
            "readlink /w/d/e/l +64 =12",
            "readlink /w/d/e/l -> ../../target +64 =12",
            "setxattr /w/d/e/g -> user.a +5 =0",
            "statx /abs/../j +9 =0",
        ]
    );
}

#[test]
fn a_renamed_file_stays_the_same_and_a_reused_path_is_another_file() {
    let log = r#"openat(AT_FDCWD, "a", O_RDWR|O_CREAT, 0600) = 3
        rename("a", "b") = 0
        openat(AT_FDCWD, "b", O_RDONLY) = 4
        openat(AT_FDCWD, "a", O_RDWR|O_CREAT|O_EXCL, 0600) = 5
        link("b", "c") = 0
        unlink("b") = 0
        newfstatat(AT_FDCWD, "c", {st_mode=S_IFREG|0600, st_size=0, ...}, 0) = 0
        write(3, ""..., 5) = 5
        unlink("c") = 0
        openat(AT_FDCWD, "c", O_WRONLY|O_CREAT, 0600) = 6
        renameat2(AT_FDCWD, "a", AT_FDCWD, "c", RENAME_EXCHANGE) = 0
        openat(AT_FDCWD, ".", O_RDWR|O_TMPFILE, 0600) = 7
        write(7, ""..., 5) = 5"#;
    let events = events_of(log);
    assert_eq!(
        events[1..],
        [
            "rename /w/a -> /w/b =0",
            "openat /w/b [/w/a] =4",
            "openat /w/a =5",
            "link /w/b [/w/a] -> /w/c =0",
            "unlink /w/b [/w/a] =0",
            "newfstatat /w/c [/w/a] +0 =0",
            "write [/w/a] @0 +5 =5",
            "unlink /w/c [/w/a] =0",
            "openat /w/c =6",
            "renameat2 /w/a -> /w/c =0",
            "openat /w =7",
            "write [/w] @0 +5 =5",
        ]
    );
}

#[test]
fn linkat_gives_a_path_to_a_file_without_one() {
    let log = r#"openat(AT_FDCWD, ".", O_RDWR|O_TMPFILE, 0600) = 3
        write(3, ""..., 5) = 5
        linkat(3, "", AT_FDCWD, "a", AT_EMPTY_PATH) = 0
        openat(AT_FDCWD, ".", O_RDWR|O_TMPFILE, 0600) = 4
        linkat(AT_FDCWD, "/proc/self/fd/4", AT_FDCWD, "b", AT_SYMLINK_FOLLOW) = 0
        linkat(AT_FDCWD, "/proc/7/fd/4", AT_FDCWD, "c", AT_SYMLINK_FOLLOW) = 0
        linkat(AT_FDCWD, "/proc/8/fd/4", AT_FDCWD, "d", AT_SYMLINK_FOLLOW) = 0
        write(4, ""..., 5) = 5
        openat(AT_FDCWD, "a", O_RDONLY) = 5
        openat(AT_FDCWD, "c", O_RDONLY) = 6"#;
    assert_eq!(
        events_of(log)[1..],
        [
            "write [/w] @0 +5 =5",
            "linkat [/w/a] -> /w/a =0",
            "openat /w =4",
            "linkat [/w/b] -> /w/b =0",
            "linkat [/w/b] -> /w/c =0",
            "linkat /proc/8/fd/4 -> /w/d =0",
            "write [/w/b] @0 +5 =5",
            "openat /w/a =5",
            "openat /w/c [/w/b] =6",
        ]
    );
}

#[test]
fn enoent_for_a_path_with_dots_does_not_remove_the_file() {
    let log = r#"openat(AT_FDCWD, "a", O_RDONLY) = 3
        newfstatat(AT_FDCWD, "none/../a", 0x7ff, 0) = -1 ENOENT (No such file or directory)
        rename("a", "b") = 0
        openat(AT_FDCWD, "b", O_RDONLY) = 4"#;
    assert_eq!(events_of(log)[3], "openat /w/b [/w/a] =4");
}

#[test]
fn absolute_paths_are_relative_to_the_root_of_the_thread() {
    let log = r#"mkdir("jail", 0777) = 0
        chroot("jail") = 0
        openat(AT_FDCWD, "/x/inside", O_RDONLY) = 3
        openat(AT_FDCWD, "outside", O_RDONLY) = 4
        chdir("/") = 0
        openat(AT_FDCWD, "x/inside", O_RDONLY) = 5
        openat(AT_FDCWD, "/../x/./inside", O_RDONLY) = 6
        getcwd("/x", 4096) = 3
        openat(AT_FDCWD, "inside", O_RDONLY) = 7
        rename("/x", "/y") = 0
        fork() = 8
        chroot("y") = 0"#;
    assert_eq!(
        events_of(log)[2..],
        [
            "openat /w/jail/x/inside =3",
            "openat /w/outside =4",
            "chdir /w/jail =0",
            "openat /w/jail/x/inside =5",
            "openat /w/jail/x/inside =6",
            "getcwd =3",
            "openat /w/jail/x/inside =7",
            "rename /w/jail/x -> /w/jail/y =0",
            "fork =8",
            "chroot /w/jail/y/y =0",
        ]
    );
}

#[test]
fn chmod_of_a_path_in_proc_self_fd_concerns_the_open_file() {
    let log = r#"openat(AT_FDCWD, "a", O_RDONLY|O_NOFOLLOW|O_PATH) = 3
        rename("a", "b") = 0
        chmod("/proc/self/fd/3", 0755) = 0
        chmod("/proc/self/fd/9", 0755) = -1 ENOENT (No such file or directory)
        readlink("/proc/self/fd/3", "/w/b", 4095) = 4"#;
    assert_eq!(
        events_of(log)[2..],
        [
            "chmod /w/b [/w/a] =0",
            "chmod /proc/self/fd/9 !2",
            "readlink /proc/self/fd/3 -> /w/b +4095 =4",
        ]
    );
}

#[test]
fn open_files_that_are_released_without_a_close_have_events() {
    let log = r#"7 openat(AT_FDCWD, "a", O_RDONLY|O_CLOEXEC) = 3
        7 openat(AT_FDCWD, "b", O_RDONLY) = 4
        7 dup2(4, 3) = 3
        7 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD) = 8
        7 close(4) = 0
        8 execve("/bin/x", ["x"], 0x7ffe /* 2 vars */) = 0
        8 openat(AT_FDCWD, "c", O_RDONLY) = 5
        8 exit_group(3) = ?
        8 +++ exited with 3 +++
        7 wait4(-1, [{WIFEXITED(s) && WEXITSTATUS(s) == 3}], 0, NULL) = 8
        7 close_range(3, 4294967295, 0) = 0
        7 +++ killed by SIGKILL +++"#;
    assert_eq!(
        events_of(log),
        [
            "openat /w/a =3",
            "openat /w/b =4",
            "dup2 [/w/b] =3",
            "+released [/w/a] =0",
            "clone =8",
            "close [/w/b] +3 =0",
            "execve /bin/x =0",
            "openat /w/c =5",
            "exit_group ?",
            "+released [/w/c] =0",
            "+exited =3",
            "wait4 =8",
            "close_range =0",
            "+released [/w/b] =0",
            "+exited ?",
        ]
    );
}

#[test]
fn each_block_of_io_submit_has_an_event() {
    let log = r#"openat(AT_FDCWD, "a", O_RDWR|O_TRUNC) = 3
        io_submit(0x7f00, 2, [{aio_data=0, aio_lio_opcode=IOCB_CMD_PWRITE, aio_fildes=3, aio_buf="}, {"..., aio_nbytes=4096, aio_offset=8192}, {aio_data=0, aio_lio_opcode=IOCB_CMD_PWRITEV, aio_fildes=3, aio_buf=[{iov_base=""..., iov_len=10}, {iov_base=""..., iov_len=20}], aio_offset=0}]) = 2
        io_submit(0x7f00, 3, [{aio_data=0, aio_lio_opcode=IOCB_CMD_PREAD, aio_fildes=3, aio_buf=0x7f10, aio_nbytes=4096, aio_offset=12000}, {aio_data=0, aio_lio_opcode=IOCB_CMD_FDSYNC, aio_fildes=3</w/a>}, {aio_data=0, aio_lio_opcode=IOCB_CMD_PREAD, aio_fildes=99, aio_buf=0x7f10, aio_nbytes=4096, aio_offset=0}]) = 2
        io_submit(0x7f00, 1, [{aio_data=0, aio_lio_opcode=IOCB_CMD_POLL, aio_fildes=3, aio_buf=POLLIN}]) = 1
        io_submit(0x7f00, 1, [...]) = 1
        read(3, ""..., 5) = 5
        io_submit(0x7f00, 1, [{aio_data=0, aio_lio_opcode=IOCB_CMD_PREAD, aio_fildes=99, aio_nbytes=1, aio_offset=0}]) = -1 EBADF (Bad file descriptor)"#;
    assert_eq!(
        events_of(log),
        [
            "openat /w/a =3",
            "io_submit +2 =2",
            "+write [/w/a] @8192 +4096 =4096",
            "+write [/w/a] @0 +30 =30",
            "io_submit +2 =2",
            // To the end of the file, whose size is known.
            "+read [/w/a] @12000 +4096 =288",
            "+fdatasync [/w/a] =0",
            "io_submit +0 =1",
            "io_submit +0 =1",
            "read [/w/a] @0 +5 =5",
            "io_submit !9",
        ]
    );
}

#[test]
fn clone_ranges_and_msync_refer_to_files() {
    let log = r#"7 openat(AT_FDCWD, "a", O_RDWR|O_TRUNC) = 3
        7 pwrite64(3, ""..., 1, 99999) = 1
        7 openat(AT_FDCWD, "b", O_RDWR|O_CREAT|O_EXCL, 0600) = 4
        7 ioctl(4, BTRFS_IOC_CLONE or FICLONE, 3) = 0
        7 ioctl(4, BTRFS_IOC_CLONE_RANGE or FICLONERANGE, {src_fd=3</w/a>, src_offset=4096, src_length=8192, dest_offset=200000}) = 0
        7 lseek(4, 0, SEEK_END) = 208192
        7 mmap(NULL, 65536, PROT_READ|PROT_WRITE, MAP_SHARED, 3, 0x4000) = 0x7f0000000000
        7 close(3) = 0
        7 munmap(0x7f0000001000, 4096) = 0
        7 msync(0x7f0000002000, 4096, MS_SYNC) = 0
        7 msync(0x7f0000001000, 4096, MS_SYNC) = -1 ENOMEM (Cannot allocate memory)
        7 mremap(0x7f0000002000, 57344, 114688, MREMAP_MAYMOVE) = 0x7f1000000000
        7 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD) = 8
        8 msync(0x7f1000000000, 4096, MS_ASYNC) = 0
        8 execve("/bin/x", ["x"], 0x7ffe /* 2 vars */) = 0
        8 msync(0x7f1000000000, 4096, MS_ASYNC) = 0
        7 mmap(0x7f1000000000, 4096, PROT_NONE, MAP_PRIVATE|MAP_FIXED|MAP_ANONYMOUS, -1, 0) = 0x7f1000000000
        7 msync(0x7f1000000000, 4096, MS_SYNC) = 0
        7 msync(0x7f1000001000, 4096, MS_SYNC) = 0"#;
    let events = events_of(log);
    let some = |name: &str| {
        let lines = events.iter().filter(|line| line.starts_with(name));
        lines.map(String::as_str).collect::<Vec<_>>()
    };
    assert_eq!(
        some("ioctl"),
        [
            "ioctl [/w/a] @0 to @0 =0",
            "ioctl [/w/a] @4096 to @200000 +8192 =0"
        ]
    );
    assert_eq!(
        some("msync"),
        [
            "msync [/w/a] @24576 +4096 =0",
            "msync +4096 !12",
            "msync [/w/a] @24576 +4096 =0",
            "msync +4096 =0",
            "msync +4096 =0",
            "msync [/w/a] @28672 +4096 =0",
        ]
    );
}

#[test]
fn names_of_attributes_are_known_or_not() {
    let log = r#"setxattr("a", "user.colour", ""..., 40, 0) = 0
        getxattr("a", ""..., ""..., 128) = 40
        lgetxattr("a", "security.selinux", 0x7f6e2b978890, 128) = -1 ENODATA (No data available)
        symlink("target", "b") = 0"#;
    assert_eq!(
        events_of(log),
        [
            "setxattr /w/a -> user.colour +40 =0",
            "getxattr /w/a +128 =40",
            "lgetxattr /w/a -> security.selinux +128 !61",
            "symlink /w/b -> target =0",
        ]
    );
}

#[test]
fn flags_are_numbers_and_locks_have_ranges() {
    let log = r#"openat(AT_FDCWD, "a", O_RDWR|O_CREAT|O_EXCL|O_CLOEXEC, 0640) = 3
        fcntl(3, F_SETLKW, {l_type=F_WRLCK, l_whence=SEEK_SET, l_start=100, l_len=8}) = 0
        fallocate(3, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 4096, 8192) = 0
        mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_SHARED, 3, 0x1000) = 0x7f0000000000
        fadvise64(3, 0, 0, POSIX_FADV_SEQUENTIAL) = 0
        openat2(AT_FDCWD, "b", {flags=O_RDONLY|O_NOFOLLOW, mode=0, resolve=RESOLVE_BENEATH}, 24) = 4
        ftruncate(3, 77) = 0
        lseek(3, 0, SEEK_END) = 77
        futex(0x7f00, FUTEX_WAIT_BITSET_PRIVATE|FUTEX_CLOCK_REALTIME, 2, NULL, FUTEX_BITSET_MATCH_ANY) = 0
        futex(0x7f00, FUTEX_WAKE_PRIVATE, 1) = 1"#;
    let mut follower = Follower::new();
    let mut found = Vec::new();
    for line in log.lines() {
        follower.line(
            line.trim_start().as_bytes(),
            7,
            &mut |_: &mut Kernel, seen: &Observation<'_>| {
                let event = seen.event;
                found.push((event.flags, event.mode, event.offset, event.length));
            },
        );
    }
    assert_eq!(
        found,
        [
            (Some(0x8_00c2), Some(0o640), None, None),
            (Some(7), Some(1), Some(100), Some(8)),
            (Some(3), None, Some(4096), Some(8192)),
            (Some(1), Some(3), Some(4096), Some(8192)),
            (Some(2), None, Some(0), Some(0)),
            (Some(0x2_0000), Some(0), None, None),
            (None, None, None, Some(77)),
            (Some(2), None, Some(0), None),
            (Some(0x189), None, Some(0x7f00), None),
            (Some(0x81), None, Some(0x7f00), None),
        ]
    );
}

/// Two threads on one core: the time in which one computes while the other one sleeps, and the time
/// in which it then waits for the core.
#[test]
fn on_one_core_computing_is_distinguished_from_waiting_for_the_core() {
    let log = r"7 1700000001.000000 clone(flags=CLONE_VM|CLONE_FILES|CLONE_FS|CLONE_SIGHAND|CLONE_THREAD) = 8 <0.000010>
        8 1700000001.000100 clock_nanosleep(CLOCK_REALTIME, 0, {tv_sec=0, tv_nsec=5000000}, NULL <unfinished ...>
        7 1700000001.003000 close(9) = -1 EBADF (Bad file descriptor) <0.000010>
        8 1700000001.005000 <... clock_nanosleep resumed>) = 0 <0.004900>
        8 1700000001.005200 close(9) = -1 EBADF (Bad file descriptor) <0.000010>
        8 1700000001.007000 close(9) = -1 EBADF (Bad file descriptor) <0.000010>
        7 1700000001.008000 close(9) = -1 EBADF (Bad file descriptor) <0.000010>
        8 1700000001.009000 exit(0) = ?
        8 1700000001.009000 +++ exited with 0 +++
        7 1700000001.010000 close(9) = -1 EBADF (Bad file descriptor) <0.000010>";
    let cpu_times = |on_one_core: bool| {
        let mut follower = Follower::new();
        if on_one_core {
            follower.on_one_core();
        }
        let mut times = Vec::new();
        for line in log.lines() {
            follower.line(
                line.trim_start().as_bytes(),
                7,
                &mut |_: &mut Kernel, seen: &Observation<'_>| {
                    times.push((seen.event.start_ns / 1000, seen.event.cpu_ns.map(|ns| ns / 1000)));
                },
            );
        }
        assert_eq!(follower.trouble(), &plimsoll_trace::follow::Trouble::default());
        times
    };
    assert!(cpu_times(false).iter().all(|(_, cpu)| cpu.is_none()));
    let times = cpu_times(true);
    assert_eq!(times.len(), 9);
    assert_eq!(
        times
            .into_iter()
            .filter_map(|(start, cpu)| Some((start, cpu?)))
            .collect::<Vec<_>>(),
        [
            // The other thread made its first call in this time.
            (3_000, 2_900),
            // 1.79 ms; for the part above 1 ms both wanted the core.
            (7_000, 1_395),
            // All of the time until the other thread woke up, half of the next interval, and all
            // since the last call of the other thread.
            (8_000, 1_990 + 395 + 990),
            (9_000, 990),
            (10_000, 1_000),
        ]
    );
}
