//! The table of calls, which is the one of the recorder and agrees with that of all system calls.

use plimsoll_trace::syscalls::{self, Argument};

#[path = "../src/calls.rs"]
#[allow(dead_code, reason = "the recorder uses it all")]
mod calls;

use calls::{Kind, TABLE};

/// Who reads a log takes the table of all system calls for what the arguments are.
#[test]
fn the_arguments_are_those_of_the_table_of_system_calls() {
    for row in TABLE {
        let known = syscalls::find(row.name.as_bytes()).expect(row.name);
        for (place, argument) in known.arguments.iter().enumerate() {
            let kind = row.kinds.get(place).copied().unwrap_or(Kind::Skip);
            let right = match argument {
                Argument::Path | Argument::Text => kind == Kind::Text,
                Argument::Pair => kind == Kind::Pair,
                Argument::Status => matches!(kind, Kind::Status | Kind::Statx),
                Argument::Data => kind == Kind::Skip,
                Argument::Ignored => matches!(kind, Kind::Skip | Kind::Number),
                _ => kind == Kind::Number,
            };
            assert!(
                right,
                "{}: argument {place} is {argument:?}, not {kind:?}",
                row.name
            );
        }
    }
}
