//! Any bytes as a log of strace: each line by itself, and all of them followed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_trace::follow::Follower;
use plimsoll_trace::text::line;

fuzz_target!(|data: &[u8]| {
    let mut follower = Follower::new();
    for text in data.split(|&byte| byte == b'\n') {
        let _ = line::parse(text);
        follower.line(text, 1, &mut |_, _| {});
    }
    follower.end(&mut |_, _| {});
});
