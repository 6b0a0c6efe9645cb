//! Any bytes as a log of strace.

use plimsoll_trace::follow::Follower;
use plimsoll_trace::text::line::{self, What};
use plimsoll_trace::text::value::{self, Arguments};

/// Each line and its arguments by themselves, and all of them followed.
pub fn run(data: &[u8]) {
    let mut follower = Follower::new();
    follower.on_one_core(); // follows more than without
    let mut events = 0;
    for text in data.split(|&byte| byte == b'\n') {
        if let Some(What::Call { arguments, .. } | What::Began { arguments, .. }) =
            line::parse(text).map(|line| line.what)
        {
            arguments_are_read(arguments);
        }
        follower.line(text, 1, &mut |_, _| events += 1);
    }
    follower.end(&mut |_, _| events += 1);
    assert!(follower.lines() <= data.len() as u64 + 1);
    let trouble = follower.trouble();
    assert!(trouble.odd_lines + trouble.unknown_calls + trouble.halves <= follower.lines());
}

fn arguments_are_read(arguments: &[u8]) {
    for argument in Arguments::of(arguments) {
        let name = value::descriptor(argument).and_then(|found| found.name);
        let text = value::text(argument).map(|found| found.bytes.len());
        assert!(name.is_none_or(|name| name.len() < argument.len()));
        assert!(text.is_none_or(|length| length < argument.len()));
        let _ = (value::number(argument), value::field(argument, b"a"));
    }
}
