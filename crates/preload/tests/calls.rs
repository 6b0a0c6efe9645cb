//! The recorder's table of calls agrees with the table of all system calls.

use plimsoll_trace::syscalls::{self, Argument};

#[path = "../src/calls.rs"]
#[allow(dead_code, reason = "the recorder uses the rest")]
mod calls;

use calls::{Kind, TABLE};

/// The reader of a log takes the kinds of the arguments from the table of all system calls.
#[test]
fn the_arguments_are_those_of_the_table_of_system_calls() {
    for row in TABLE {
        let known = syscalls::find(row.name.as_bytes()).expect(row.name);
        for (index, argument) in known.arguments.iter().enumerate() {
            let kind = row.kinds.get(index).copied().unwrap_or(Kind::Skip);
            let is_consistent = match argument {
                Argument::Path | Argument::Text => kind == Kind::Text,
                Argument::Pair => kind == Kind::Pair,
                Argument::Status => matches!(kind, Kind::Status | Kind::Statx),
                Argument::Data => kind == Kind::Skip,
                Argument::Ignored => matches!(kind, Kind::Skip | Kind::Number),
                _ => kind == Kind::Number,
            };
            assert!(
                is_consistent,
                "{}: argument {index} is {argument:?}, not {kind:?}",
                row.name
            );
        }
    }
}
