//! Calls as a whole: where another thread spoke in between, strace writes the beginning and the end of a call on two lines.

use foldhash::HashMap;

use crate::text::line::{Ended, Line, Stamp, What};
use crate::text::scan::Cuts;

/// A call, or what is known of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Call<'a> {
    /// Of the thread.
    pub pid: u32,
    /// When it began, as it was written.
    pub stamp: Option<Stamp>,
    /// The same as the caller of [`Calls::take`] has told it, ns.
    pub at_ns: i64,
    /// Of the call.
    pub name: &'a [u8],
    /// Between the parentheses.
    pub arguments: &'a [u8],
    /// Where the arguments end; none where they came in two parts.
    pub cuts: Option<Cuts>,
    /// How it ended; none while it goes on.
    pub ended: Option<Ended<'a>>,
}

/// What a line has said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Said<'a> {
    /// A call has begun, and its end comes later.
    Began(Call<'a>),
    /// A call has ended, on one line or by a second one.
    Call(Call<'a>),
    /// The end of a call of whose beginning there is no line: arguments that are written first are missing.
    End(Call<'a>),
    /// A thread has ended by itself, with this status.
    Exited {
        /// Of the thread.
        pid: u32,
        /// As given to exit(2).
        status: i32,
    },
    /// A signal has ended a thread.
    Killed {
        /// Of the thread.
        pid: u32,
    },
    /// The thread `by` has executed a program, and goes on under the id of its process, whose other threads are gone.
    Superseded {
        /// Of the process.
        pid: u32,
        /// What the id of the thread was.
        by: u32,
    },
    /// A signal, a word of strace about itself, a line of a stack.
    Nothing,
}

/// Puts calls together, line by line. It holds one call for each thread at most.
#[derive(Debug, Default)]
pub struct Calls {
    begun: HashMap<u32, Begun>,
    /// Arguments of the call that was given out last, if it was cut in two.
    joined: Vec<u8>,
    endless: u64,
}

#[derive(Debug, Default)]
struct Begun {
    stamp: Option<Stamp>,
    at_ns: i64,
    name: Vec<u8>,
    arguments: Vec<u8>,
}

impl Calls {
    /// Of an empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in the next line; `pid` is the thread where the line does not tell, `at_ns` when it was written.
    pub fn take<'s>(&'s mut self, line: &Line<'s>, pid: u32, at_ns: i64) -> Said<'s> {
        let pid = line.pid.unwrap_or(pid);
        let whole = |name, arguments, cuts, ended| Call {
            pid,
            stamp: line.stamp,
            at_ns,
            name,
            arguments,
            cuts,
            ended,
        };
        match line.what {
            What::Call {
                name,
                arguments,
                cuts,
                ended,
            } => {
                self.forget(pid);
                Said::Call(whole(name, arguments, Some(cuts), Some(ended)))
            }
            What::Began { name, arguments } => {
                self.forget(pid);
                let begun = Begun {
                    stamp: line.stamp,
                    at_ns,
                    name: name.to_vec(),
                    arguments: arguments.to_vec(),
                };
                self.begun.insert(pid, begun);
                Said::Began(whole(name, arguments, None, None))
            }
            What::Resumed {
                name,
                arguments,
                ended,
            } => {
                let begun = self.begun.remove(&pid);
                let Some(begun) = begun.filter(|begun| begun.name == name) else {
                    return Said::End(whole(name, arguments, None, Some(ended)));
                };
                self.joined = begun.arguments;
                self.joined.extend_from_slice(arguments);
                Said::Call(Call {
                    pid,
                    stamp: begun.stamp,
                    at_ns: begun.at_ns,
                    name,
                    arguments: &self.joined,
                    cuts: None,
                    ended: Some(ended),
                })
            }
            What::Exited(status) => {
                self.begun.remove(&pid);
                Said::Exited { pid, status }
            }
            What::Killed => {
                self.begun.remove(&pid);
                Said::Killed { pid }
            }
            What::Superseded { by } => {
                let executing = self.begun.remove(&by);
                self.begun.remove(&pid);
                self.begun.extend(executing.map(|begun| (pid, begun)));
                Said::Superseded { pid, by }
            }
            What::Signal | What::Note => Said::Nothing,
        }
    }

    /// Calls whose end is missing although their thread went on: lines are lost.
    pub fn endless(&self) -> u64 {
        self.endless
    }

    /// Calls that go on now, in order of their threads.
    pub fn going_on(&self) -> Vec<Call<'_>> {
        let mut found: Vec<Call<'_>> = self
            .begun
            .iter()
            .map(|(&pid, begun)| Call {
                pid,
                stamp: begun.stamp,
                at_ns: begun.at_ns,
                name: &begun.name,
                arguments: &begun.arguments,
                cuts: None,
                ended: None,
            })
            .collect();
        found.sort_unstable_by_key(|call| call.pid);
        found
    }

    fn forget(&mut self, pid: u32) {
        if !self.begun.is_empty() {
            self.endless += u64::from(self.begun.remove(&pid).is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::line::parse;

    /// Each line with what it said, in a few words.
    fn told(log: &str) -> (Vec<String>, Calls) {
        let mut calls = Calls::new();
        let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = log
            .lines()
            .map(
                |line| match calls.take(&parse(line.as_bytes()).expect(line), 1, 0) {
                    Said::Began(call) => format!("{} begins {}", call.pid, words(call.name)),
                    Said::Call(call) | Said::End(call) => {
                        let value = call.ended.and_then(|ended| ended.value);
                        let value = value.map_or_else(|| "?".to_owned(), |value| value.to_string());
                        format!(
                            "{} {}({}) = {value}",
                            call.pid,
                            words(call.name),
                            words(call.arguments)
                        )
                    }
                    other => format!("{other:?}"),
                },
            )
            .collect();
        (said, calls)
    }

    #[test]
    fn calls_that_were_interrupted_are_whole_again() {
        let (said, calls) = told(
            "7 read(3,  <unfinished ...>\n\
             8 close(5) = 0\n\
             7 <... read resumed>\"\"..., 512) = 512\n\
             8 vfork( <unfinished ...>\n\
             9 exit_group(0) = ?\n\
             9 +++ exited with 0 +++\n\
             8 <... vfork resumed>) = 9\n\
             7 futex(0x7f, FUTEX_WAIT, 2, NULL <unfinished ...>",
        );
        assert_eq!(
            said,
            [
                "7 begins read",
                "8 close(5) = 0",
                "7 read(3, \"\"..., 512) = 512",
                "8 begins vfork",
                "9 exit_group(0) = ?",
                "Exited { pid: 9, status: 0 }",
                "8 vfork() = 9",
                "7 begins futex",
            ]
        );
        assert_eq!(calls.endless(), 0);
        let left: Vec<_> = calls
            .going_on()
            .iter()
            .map(|call| (call.pid, call.name))
            .collect();
        assert_eq!(left, [(7, b"futex".as_slice())]);
    }

    #[test]
    fn lines_that_are_lost_are_noticed() {
        let (said, calls) = told(
            "7 <... read resumed>\"\"..., 512) = 512\n\
             7 read(3,  <unfinished ...>\n\
             7 close(3) = 0\n\
             8 read(3,  <unfinished ...>\n\
             8 <... write resumed>\"\"..., 9) = 9",
        );
        assert_eq!(said[0], "7 read(\"\"..., 512) = 512");
        assert_eq!(said[4], "8 write(\"\"..., 9) = 9");
        assert_eq!(calls.endless(), 1);
        assert!(calls.going_on().is_empty());
    }

    #[test]
    fn a_thread_that_executes_a_program_goes_on_as_its_process() {
        let (said, calls) = told(
            "7 futex(0x7f, FUTEX_WAIT, 2, NULL <unfinished ...>\n\
             8 execve(\"/bin/true\", [\"true\"], 0x7ffe /* 24 vars */ <unfinished ...>\n\
             7 +++ superseded by execve in pid 8 +++\n\
             7 <... execve resumed>) = 0",
        );
        assert_eq!(said[2], "Superseded { pid: 7, by: 8 }");
        assert_eq!(
            said[3],
            "7 execve(\"/bin/true\", [\"true\"], 0x7ffe /* 24 vars */) = 0"
        );
        assert!(calls.going_on().is_empty() && calls.endless() == 0);
    }
}
