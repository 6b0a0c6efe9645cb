//! From the text of strace to the profile.

use plimsoll_trace::follow::Follower;
use plimsoll_trace::profile::{Choice, Profiler};

use crate::scene::{Scene, assert_close, file};

const LOG: &str = r#"10 1795000100.000000 execve("/usr/bin/analysis", ["analysis"], 0x7ffe /* 2 vars */) = 0 <0.000300>
10 1795000100.001000 openat(AT_FDCWD, "/opt/lib/libx.so", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory) <0.000010>
10 1795000100.002000 openat(AT_FDCWD, "/data/ev.root", O_RDONLY) = 3 <0.000020>
10 1795000100.003000 fstat(3, {st_mode=S_IFREG|0644, st_size=4000000, ...}) = 0 <0.000005>
10 1795000100.004000 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD, exit_signal=0, stack=0x7f, stack_size=0x7fff80} => {parent_tid=[11]}, 88) = 11 <0.000050>
11 1795000100.005000 lseek(3, 1000000, SEEK_SET) = 1000000 <0.000004>
11 1795000100.006000 read(3, ""..., 4096) = 4096 <0.000030>
10 1795000100.006500 pread64(3, ""..., 100, 0) = 100 <0.000010>
11 1795000100.007000 lseek(3, 0, SEEK_CUR) = 1004096 <0.000004>
11 1795000100.008000 read(3, ""..., 4096) = 4096 <0.000030>
11 1795000100.009000 lseek(3, 9, SEEK_SET) = 9 <0.000004>
10 1795000100.010000 close(3) = 0 <0.000004>
10 1795000100.011000 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f <0.000004>
10 1795000100.012000 exit_group(0) = ?
11 1795000100.012100 +++ exited with 0 +++
10 1795000100.012200 +++ exited with 0 +++
"#;

#[test]
fn a_log_becomes_a_profile() {
    let mut follower = Follower::new();
    let scene = Scene::new();
    let mut events = Vec::new();
    for line in LOG.lines() {
        follower.line(line.as_bytes(), 1, &mut |_, seen| events.push(*seen.event));
    }
    let mut profiler = Profiler::new(&scene.header, Choice::default());
    profiler.take(follower.kernel().names(), &events);
    let profile = profiler.finish(follower.kernel().names(), None);

    let data = file(&profile, "/data/ev.root");
    let io = &data.io;
    assert_eq!(
        (io.opens, io.reads, io.read_bytes, io.unique_read_bytes),
        (1, 3, 8292, 8292)
    );
    assert_eq!((io.seeks, io.useless_seeks, io.still_seeks), (3, 2, 1));
    assert_eq!(
        (data.size, data.threads, data.process_count),
        (Some(4_000_000), 2, 1)
    );
    assert_eq!(
        io.sequential_share,
        Some(0.0),
        "no request begins where the previous one of the same open file ended"
    );
    assert_close(data.open_s, 0.010_004 - 0.002_020);
    assert_close(io.read_s.unwrap(), 70e-6);
    assert_eq!(profile.missing[0].path, "/opt/lib/libx.so");
    let process = &profile.processes[0];
    assert_eq!(
        (process.program.as_deref(), process.threads.len()),
        (Some("/usr/bin/analysis"), 2)
    );
    assert_eq!((profile.totals.threads, profile.totals.processes), (2, 1));
    assert_close(profile.time.wall.recorded_s, 0.012);
}
