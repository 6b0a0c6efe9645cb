//! Reads any bytes as a log of strace.

use plimsoll_trace::follow::Follower;
use plimsoll_trace::text::line::{self, LineKind};
use plimsoll_trace::text::value::{self, Arguments};

/// Parses each line and its arguments, and follows all lines.
pub fn run(data: &[u8]) {
    let mut follower = Follower::new();
    follower.on_one_core(); // covers more code than without it
    let mut events = 0;
    for text in data.split(|&byte| byte == b'\n') {
        if let Some(LineKind::Call { arguments, .. } | LineKind::Began { arguments, .. }) =
            line::parse(text).map(|line| line.kind)
        {
            parse_arguments(arguments);
        }
        follower.line(text, 1, &mut |_, _| events += 1);
    }
    follower.end(&mut |_, _| events += 1);
    assert!(follower.lines() <= data.len() as u64 + 1);
    let trouble = follower.trouble();
    assert!(trouble.odd_lines + trouble.unknown_calls + trouble.halves <= follower.lines());
}

fn parse_arguments(arguments: &[u8]) {
    for argument in Arguments::of(arguments) {
        let name = value::descriptor(argument).and_then(|descriptor| descriptor.name);
        let text = value::text(argument).map(|string| string.bytes.len());
        assert!(name.is_none_or(|name| name.len() < argument.len()));
        assert!(text.is_none_or(|length| length < argument.len()));
        let _ = (value::number(argument), value::field(argument, b"a"));
    }
}
