//! Joins the parts of interrupted calls: if another thread wrote a line in between, strace writes
//! the start and the end of a call on two lines.

use std::collections::HashMap;

use crate::hash::BuildMixer;
use crate::text::line::{CallEnd, Line, LineKind};
use crate::text::scan::Cuts;
use crate::text::time::Stamp;

/// A call, or its known part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Call<'a> {
    /// The id of the thread.
    pub pid: u32,
    /// The stamp of its start, as written.
    pub stamp: Option<Stamp>,
    /// Start according to the caller of [`Calls::take`], ns.
    pub at_ns: i64,
    /// The name of the call.
    pub name: &'a [u8],
    /// The text between the parentheses.
    pub arguments: &'a [u8],
    /// Where the arguments end; None if that was not noted.
    pub cuts: Option<Cuts>,
    /// The end of the call; None if it is unfinished.
    pub ended: Option<CallEnd<'a>>,
}

/// The content of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LineContent<'a> {
    /// A call has begun; its end follows on a later line.
    Began(Call<'a>),
    /// A call has ended, on one line or on its second one.
    Call(Call<'a>),
    /// The end of a call whose start is missing, and with it the first arguments.
    End(Call<'a>),
    /// A thread has exited.
    Exited {
        /// The id of the thread.
        pid: u32,
        /// The argument of exit(2).
        status: i32,
    },
    /// A signal has ended a thread.
    Killed {
        /// Of the thread.
        pid: u32,
    },
    /// The thread `by` has executed a program and continues under the id of its process. The other
    /// threads of the process have ended.
    Superseded {
        /// The id of the process.
        pid: u32,
        /// The previous id of the thread.
        by: u32,
    },
    /// A signal, a message of strace, or a line of a stack trace.
    Nothing,
}

/// Joins the parts of calls, line by line. It holds at most one call for each thread.
#[derive(Debug, Default)]
pub struct Calls {
    /// Calls by thread, including those that have ended: the next call of the thread reuses their
    /// memory.
    begun: HashMap<u32, UnfinishedCall, BuildMixer>,
    /// Number of unfinished calls.
    unfinished_count: usize,
    endless: u64,
}

#[derive(Debug, Default)]
struct UnfinishedCall {
    is_unfinished: bool,
    stamp: Option<Stamp>,
    at_ns: i64,
    name: Vec<u8>,
    arguments: Vec<u8>,
    cuts: Option<Cuts>,
}

impl UnfinishedCall {
    fn set(&mut self, call: &Call<'_>) {
        self.is_unfinished = true;
        self.stamp = call.stamp;
        self.at_ns = call.at_ns;
        self.name.clear();
        self.name.extend_from_slice(call.name);
        self.arguments.clear();
        self.arguments.extend_from_slice(call.arguments);
        self.cuts = call.cuts;
    }

    /// Appends the second part of the arguments.
    fn join(&mut self, arguments: &[u8], cuts: Option<Cuts>) {
        // Text in angle brackets is interpreted by the byte before it. So such arguments are
        // scanned again as a whole.
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
    /// A state before the first line.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the next line. `pid` is the thread if the line does not contain it; `at_ns` is the
    /// time of the line.
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
        match line.kind {
            LineKind::Call {
                name,
                arguments,
                cuts,
                ended,
            } => {
                if self.unfinished_count > 0 {
                    let lost = self.begun.get_mut(&pid);
                    let lost = lost.is_some_and(|begun| std::mem::take(&mut begun.is_unfinished));
                    self.count_lost(lost);
                }
                LineContent::Call(call(name, arguments, Some(cuts), Some(ended)))
            }
            LineKind::Began {
                name,
                arguments,
                cuts,
            } => {
                let call = call(name, arguments, cuts, None);
                let begun = self.begun.entry(pid).or_default();
                let lost = begun.is_unfinished;
                begun.set(&call);
                self.unfinished_count += 1;
                self.count_lost(lost);
                LineContent::Began(call)
            }
            LineKind::Resumed {
                name,
                arguments,
                cuts,
                ended,
            } => self.resumed(call(name, arguments, Some(cuts), Some(ended))),
            LineKind::Exited(status) => {
                self.remove(pid);
                LineContent::Exited { pid, status }
            }
            LineKind::Killed => {
                self.remove(pid);
                LineContent::Killed { pid }
            }
            LineKind::Superseded { by } => {
                let executing = self.remove(by);
                self.remove(pid);
                if let Some(begun) = executing {
                    self.unfinished_count += 1;
                    self.begun.insert(pid, begun);
                }
                LineContent::Superseded { pid, by }
            }
            LineKind::Signal | LineKind::Note => LineContent::Nothing,
        }
    }

    /// Joins the end of a call with its start.
    fn resumed<'s>(&'s mut self, end: Call<'s>) -> LineContent<'s> {
        let begun = self.begun.get_mut(&end.pid).filter(|begun| begun.is_unfinished);
        let Some(begun) = begun else {
            return LineContent::End(end);
        };
        begun.is_unfinished = false;
        self.unfinished_count -= 1;
        if begun.name != end.name {
            return LineContent::End(end);
        }
        begun.join(end.arguments, end.cuts);
        LineContent::Call(Call {
            ended: end.ended,
            ..begun.as_call(end.pid)
        })
    }

    /// Removes the unfinished call of a thread that has ended or changed its id.
    fn remove(&mut self, pid: u32) -> Option<UnfinishedCall> {
        let begun = self.begun.remove(&pid).filter(|begun| begun.is_unfinished)?;
        self.unfinished_count -= 1;
        Some(begun)
    }

    fn count_lost(&mut self, lost: bool) {
        self.unfinished_count -= usize::from(lost);
        self.endless += u64::from(lost);
    }

    /// Number of calls whose end is missing although their thread made further calls: lines are
    /// lost.
    pub fn endless(&self) -> u64 {
        self.endless
    }

    /// The unfinished calls, in the order of their threads.
    pub fn unfinished(&self) -> Vec<Call<'_>> {
        let unfinished = self.begun.iter().filter(|(_, begun)| begun.is_unfinished);
        let mut calls: Vec<Call<'_>> = unfinished.map(|(&pid, begun)| begun.as_call(pid)).collect();
        calls.sort_unstable_by_key(|call| call.pid);
        calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::line::parse;
    use crate::text::scan::MAX_ARGUMENTS;
    use crate::text::value::Arguments;

    /// The content of each line, as short text.
    fn contents_of(log: &str) -> (Vec<String>, Calls) {
        let mut calls = Calls::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let contents = log
            .lines()
            .map(
                |line| match calls.take(&parse(line.as_bytes()).expect(line), 1, 0) {
                    LineContent::Began(call) => format!("{} begins {}", call.pid, text(call.name)),
                    LineContent::Call(call) | LineContent::End(call) => {
                        let value = call.ended.and_then(|ended| ended.value);
                        let value = value.map_or_else(|| "?".to_owned(), |value| value.to_string());
                        format!(
                            "{} {}({}) = {value}",
                            call.pid,
                            text(call.name),
                            text(call.arguments)
                        )
                    }
                    other => format!("{other:?}"),
                },
            )
            .collect();
        (contents, calls)
    }

    #[test]
    fn the_parts_of_an_interrupted_call_are_joined() {
        let (contents, calls) = contents_of(
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
            contents,
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
        let unfinished: Vec<_> = calls
            .unfinished()
            .iter()
            .map(|call| (call.pid, call.name))
            .collect();
        assert_eq!(unfinished, [(7, b"futex".as_slice())]);
    }

    /// The arguments of a call in two parts end where those of the whole call end.
    #[test]
    fn arguments_in_two_parts_end_as_in_one() {
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
                    let has_cuts = !first.starts_with('[') && !second.starts_with('<');
                    assert_eq!(call.cuts.is_some(), has_cuts, "{log}");
                }
            }
            assert!(calls.unfinished().is_empty());
        }
    }

    #[test]
    fn lost_lines_are_counted() {
        let (contents, calls) = contents_of(
            "7 <... read resumed>\"\"..., 512) = 512\n\
             7 read(3,  <unfinished ...>\n\
             7 close(3) = 0\n\
             8 read(3,  <unfinished ...>\n\
             8 <... write resumed>\"\"..., 9) = 9",
        );
        assert_eq!(contents[0], "7 read(\"\"..., 512) = 512");
        assert_eq!(contents[4], "8 write(\"\"..., 9) = 9");
        assert_eq!(calls.endless(), 1);
        assert!(calls.unfinished().is_empty());
    }

    #[test]
    fn a_thread_that_executes_a_program_gets_the_id_of_its_process() {
        let (contents, calls) = contents_of(
            "7 futex(0x7f, FUTEX_WAIT, 2, NULL <unfinished ...>\n\
             8 execve(\"/bin/true\", [\"true\"], 0x7ffe /* 24 vars */ <unfinished ...>\n\
             7 +++ superseded by execve in pid 8 +++\n\
             7 <... execve resumed>) = 0",
        );
        assert_eq!(contents[2], "Superseded { pid: 7, by: 8 }");
        assert_eq!(
            contents[3],
            "7 execve(\"/bin/true\", [\"true\"], 0x7ffe /* 24 vars */) = 0"
        );
        assert!(calls.unfinished().is_empty() && calls.endless() == 0);
    }
}
