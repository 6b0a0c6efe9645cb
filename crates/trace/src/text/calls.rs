//! Calls as a whole: where another thread spoke in between, strace writes the beginning and the end
//! of a call on two lines.

use std::collections::HashMap;

use crate::mixed::Mixed;
use crate::text::line::{CallEnd, Line, What};
use crate::text::scan::Cuts;
use crate::text::time::Stamp;

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
    /// Where the arguments end; none where that was not noted.
    pub cuts: Option<Cuts>,
    /// How it ended; none while it goes on.
    pub ended: Option<CallEnd<'a>>,
}

/// What a line has said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LineContent<'a> {
    /// A call has begun, and its end comes later.
    Began(Call<'a>),
    /// A call has ended, on one line or by a second one.
    Call(Call<'a>),
    /// The end of a call of whose beginning there is no line: arguments that are written first are
    /// missing.
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
    /// The thread `by` has executed a program, and goes on under the id of its process, whose other
    /// threads are gone.
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
    /// By their threads; also those that have ended, whose memory the next one of the thread takes.
    begun: HashMap<u32, UnfinishedCall, Mixed>,
    /// Those that go on.
    open: usize,
    endless: u64,
}

#[derive(Debug, Default)]
struct UnfinishedCall {
    goes_on: bool,
    stamp: Option<Stamp>,
    at_ns: i64,
    name: Vec<u8>,
    arguments: Vec<u8>,
    cuts: Option<Cuts>,
}

impl UnfinishedCall {
    fn set(&mut self, call: &Call<'_>) {
        self.goes_on = true;
        self.stamp = call.stamp;
        self.at_ns = call.at_ns;
        self.name.clear();
        self.name.extend_from_slice(call.name);
        self.arguments.clear();
        self.arguments.extend_from_slice(call.arguments);
        self.cuts = call.cuts;
    }

    /// More of its arguments.
    fn join(&mut self, arguments: &[u8], cuts: Option<Cuts>) {
        // A name in angle brackets is told by what stands before it: then all is looked at again.
        let cuts = cuts.filter(|_| arguments.first() != Some(&b'<'));
        match (&mut self.cuts, cuts) {
            (Some(all), Some(cuts)) => all.append(self.arguments.len(), &cuts),
            (all, _) => *all = None,
        }
        self.arguments.extend_from_slice(arguments);
    }

    fn as_call(&self, pid: u32) -> Call<'_> {
        Call {
            pid,
            stamp: self.stamp,
            at_ns: self.at_ns,
            name: &self.name,
            arguments: &self.arguments,
            cuts: self.cuts,
            ended: None,
        }
    }
}

impl Calls {
    /// Of an empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in the next line; `pid` is the thread where the line does not tell, `at_ns` when it
    /// was written.
    #[inline]
    pub fn take<'s>(&'s mut self, line: &Line<'s>, pid: u32, at_ns: i64) -> LineContent<'s> {
        let pid = line.pid.unwrap_or(pid);
        let call = |name, arguments, cuts, ended| Call {
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
                if self.open > 0 {
                    let lost = self.begun.get_mut(&pid);
                    let lost = lost.is_some_and(|begun| std::mem::take(&mut begun.goes_on));
                    self.count_lost(lost);
                }
                LineContent::Call(call(name, arguments, Some(cuts), Some(ended)))
            }
            What::Began {
                name,
                arguments,
                cuts,
            } => {
                let call = call(name, arguments, cuts, None);
                let begun = self.begun.entry(pid).or_default();
                let lost = begun.goes_on;
                begun.set(&call);
                self.open += 1;
                self.count_lost(lost);
                LineContent::Began(call)
            }
            What::Resumed {
                name,
                arguments,
                cuts,
                ended,
            } => self.resumed(call(name, arguments, Some(cuts), Some(ended))),
            What::Exited(status) => {
                self.take_out(pid);
                LineContent::Exited { pid, status }
            }
            What::Killed => {
                self.take_out(pid);
                LineContent::Killed { pid }
            }
            What::Superseded { by } => {
                let executing = self.take_out(by);
                self.take_out(pid);
                if let Some(begun) = executing {
                    self.open += 1;
                    self.begun.insert(pid, begun);
                }
                LineContent::Superseded { pid, by }
            }
            What::Signal | What::Note => LineContent::Nothing,
        }
    }

    /// The end of a call, with what was told of it at its beginning.
    fn resumed<'s>(&'s mut self, end: Call<'s>) -> LineContent<'s> {
        let begun = self.begun.get_mut(&end.pid).filter(|begun| begun.goes_on);
        let Some(begun) = begun else {
            return LineContent::End(end);
        };
        begun.goes_on = false;
        self.open -= 1;
        if begun.name != end.name {
            return LineContent::End(end);
        }
        begun.join(end.arguments, end.cuts);
        LineContent::Call(Call {
            ended: end.ended,
            ..begun.as_call(end.pid)
        })
    }

    /// What a thread that is gone, or has another id now, was about.
    fn take_out(&mut self, pid: u32) -> Option<UnfinishedCall> {
        let begun = self.begun.remove(&pid).filter(|begun| begun.goes_on)?;
        self.open -= 1;
        Some(begun)
    }

    fn count_lost(&mut self, lost: bool) {
        self.open -= usize::from(lost);
        self.endless += u64::from(lost);
    }

    /// Calls whose end is missing although their thread went on: lines are lost.
    pub fn endless(&self) -> u64 {
        self.endless
    }

    /// Calls that go on now, in order of their threads.
    pub fn going_on(&self) -> Vec<Call<'_>> {
        let open = self.begun.iter().filter(|(_, begun)| begun.goes_on);
        let mut found: Vec<Call<'_>> = open.map(|(&pid, begun)| begun.as_call(pid)).collect();
        found.sort_unstable_by_key(|call| call.pid);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::line::parse;
    use crate::text::scan::MAX_ARGUMENTS;
    use crate::text::value::Arguments;

    /// Each line with what it said, in a few words.
    fn told(log: &str) -> (Vec<String>, Calls) {
        let mut calls = Calls::new();
        let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = log
            .lines()
            .map(
                |line| match calls.take(&parse(line.as_bytes()).expect(line), 1, 0) {
                    LineContent::Began(call) => format!("{} begins {}", call.pid, words(call.name)),
                    LineContent::Call(call) | LineContent::End(call) => {
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

    /// Where arguments end that came in two parts is where they end in the whole.
    #[test]
    fn arguments_in_two_parts_are_cut_as_one() {
        for (first, second) in [
            ("3, ", r#""a, b", 512"#),
            ("", ""),
            ("", "[{fd=3, revents=POLLIN}], 1"),
            (r#"3</a, b>, "x", {y=1, z=[2, 3]}, "#, "4, 5"),
            ("1, 2, 3, 4, ", "5, 6, 7, 8"),
            ("[{fd=3, ", ""),
            ("3", "</a, b>, 4"),
        ] {
            let log = format!("7 it({first} <unfinished ...>\n7 <... it resumed>{second}) = 0");
            let mut calls = Calls::new();
            for line in log.lines() {
                let line = parse(line.as_bytes()).expect(line);
                if let LineContent::Call(call) = calls.take(&line, 1, 0) {
                    let whole: Vec<_> = Arguments::of(call.arguments).take(MAX_ARGUMENTS).collect();
                    let mut parts = Vec::new();
                    if let Some(cuts) = call.cuts {
                        cuts.each(call.arguments, MAX_ARGUMENTS, |_, part| parts.push(part));
                        assert_eq!(parts, whole, "{log}");
                    }
                    let noted = !first.starts_with('[') && !second.starts_with('<');
                    assert_eq!(call.cuts.is_some(), noted, "{log}");
                }
            }
            assert!(calls.going_on().is_empty());
        }
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
