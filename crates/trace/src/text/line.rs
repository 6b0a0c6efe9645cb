//! What one line of a log is.

use memchr::memmem;

use crate::text::scan::{Cursor, Cuts, Mark};
use crate::text::time::{self, Stamp};
use crate::text::value::{self, Descriptor};

/// Largest process id of Linux (`PID_MAX_LIMIT`). A first number above it is a time in whole
/// seconds.
const MAX_PID: u64 = 1 << 22;
/// Longest name of a command (`TASK_COMM_LEN` less its end).
const COMMAND: usize = 15;

/// One line, told apart and otherwise as it stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line<'a> {
    /// Of the thread; none where strace followed one process only.
    pub pid: Option<u32>,
    /// When it was written, or the call began.
    pub stamp: Option<Stamp>,
    /// The rest.
    pub what: What<'a>,
}

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum What<'a> {
    /// A call from its name to its result.
    Call {
        /// Of the call.
        name: &'a [u8],
        /// Between the parentheses.
        arguments: &'a [u8],
        /// Where they end.
        cuts: Cuts,
        /// How it ended.
        ended: CallEnd<'a>,
    },
    /// The beginning of a call, which another thread interrupts.
    Began {
        /// Of the call.
        name: &'a [u8],
        /// As far as they were known.
        arguments: &'a [u8],
        /// Where they end; none where the line breaks off within one.
        cuts: Option<Cuts>,
    },
    /// The rest of such a call.
    Resumed {
        /// Of the call.
        name: &'a [u8],
        /// What is known at its end only.
        arguments: &'a [u8],
        /// Where they end.
        cuts: Cuts,
        /// How it ended.
        ended: CallEnd<'a>,
    },
    /// A signal has come, or the thread has stopped.
    Signal,
    /// The thread has ended by itself, with this status.
    Exited(i32),
    /// A signal has ended the thread.
    Killed,
    /// Another thread of the process has executed a program: this one is gone, and that one has its
    /// id now.
    Superseded {
        /// By whom.
        by: u32,
    },
    /// A word of strace about itself, a line of a stack, or nothing.
    Note,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallEnd<'a> {
    /// What it returned; none for `?`: it never returned, or nobody knows.
    pub value: Option<i64>,
    /// `-T`: ns.
    pub duration_ns: Option<i64>,
    /// What stands behind the value: a name, an error, or what poll(2) has found.
    behind: &'a [u8],
}

impl<'a> CallEnd<'a> {
    /// Where it returned a descriptor and `-y` tells: its name.
    pub fn name(&self) -> Option<Descriptor<'a>> {
        let inner = self.behind.strip_prefix(b"<")?;
        let (named, left) = self.behind.split_at(crate::text::scan::name(self.behind));
        Some(Descriptor {
            number: i32::try_from(self.value?).ok()?,
            name: Some(&inner[..named.strip_suffix(b">")?.len() - 1]),
            deleted: left.starts_with(b"(deleted)"),
        })
    }

    /// `ENOENT`; also of one that is restarted (`ERESTARTSYS`).
    pub fn error(&self) -> Option<&'a [u8]> {
        if self.value.is_some_and(|value| value != -1) {
            return None;
        }
        let text = self.behind.trim_ascii_start();
        let end = text.iter().position(|byte| !byte.is_ascii_alphanumeric());
        let word = &text[..end.unwrap_or(text.len())];
        word.starts_with(b"E").then_some(word)
    }

    /// The kernel goes back to the same call later, which is a line of its own then: nothing was
    /// done yet.
    pub fn restarts(&self) -> bool {
        self.error().is_some_and(|error| error.starts_with(b"ERESTART"))
    }
}

/// Tells what a line is, without its end; none where it is nothing that strace writes, or cut off.
pub fn parse(text: &[u8]) -> Option<Line<'_>> {
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    let begins_with_number = text.first().is_some_and(u8::is_ascii_digit);
    if !begins_with_number && is_note(text) {
        return Some(Line {
            pid: None,
            stamp: None,
            what: What::Note,
        });
    }
    let (pid, rest) = pid(text);
    let (stamp, rest) = time::stamp(rest);
    let what = what(numbers(rest))?;
    Some(Line { pid, stamp, what })
}

fn is_note(text: &[u8]) -> bool {
    text.trim_ascii().is_empty() || text.starts_with(b" > ") || is_word_of_strace(text)
}

/// `strace: Process 7 attached`, `[ Process PID=7 runs in 32 bit mode. ]`.
fn is_word_of_strace(text: &[u8]) -> bool {
    text.starts_with(b"strace: ") || text.starts_with(b"[ Process ")
}

/// `7 `, `7<cat> `, `[pid 7] `, `[pid 7<cat>] `. Narrow ids are filled up with blanks.
fn pid(text: &[u8]) -> (Option<u32>, &[u8]) {
    // What most lines begin with, in one step: strace fills up to five places, and ids of
    // containers have fewer digits.
    let (length, number) = time::digits(text);
    let blanks = text[length..].iter().take_while(|&&byte| byte == b' ').count();
    let rest = &text[length + blanks..];
    if blanks > 0
        && rest.first().is_some_and(|&next| next > b' ')
        && (1..=9).contains(&length)
        && (1..=MAX_PID).contains(&number)
    {
        return (Some(number as u32), rest);
    }
    let (start, end) = match text.strip_prefix(b"[pid ") {
        Some(rest) => (rest, b"]".as_slice()),
        None => (text, b" ".as_slice()),
    };
    let (length, number) = time::digits(start.trim_ascii_start());
    let rest = &start.trim_ascii_start()[length..];
    if !(1..=MAX_PID).contains(&number) || length > 9 {
        return (None, text);
    }
    let rest = if rest.starts_with(b"<") {
        // A command may be called anything, in fifteen bytes.
        let near = &rest[..rest.len().min(COMMAND + 2 + end.len())];
        let close = memmem::rfind(near, &[b">", end].concat());
        close.map(|at| &rest[at + 1..])
    } else {
        Some(rest)
    };
    match rest.and_then(|rest| rest.strip_prefix(end)) {
        Some(rest) => (Some(number as u32), rest.trim_ascii_start()),
        None => (None, text),
    }
}

/// Without `[00007f1c2a5e4b1e] ` (`-i`) and `[   0] ` (`-n`).
fn numbers(mut text: &[u8]) -> &[u8] {
    while let Some(rest) = text.strip_prefix(b"[") {
        let Some(close) = memmem::find(rest, b"] ") else {
            break;
        };
        let is_number = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b' ' | b'?');
        if !rest[..close].iter().all(is_number) {
            break;
        }
        text = &rest[close + 2..];
    }
    text
}

fn what(text: &[u8]) -> Option<What<'_>> {
    match text {
        [b'-', b'-', b'-', b' ', rest @ ..] => rest.ends_with(b" ---").then_some(What::Signal),
        [b'+', b'+', b'+', b' ', rest @ ..] => end_of_thread(rest.strip_suffix(b" +++")?),
        [b'<', b'.', b'.', b'.', b' ', rest @ ..] => resumed(rest),
        _ if is_word_of_strace(text) => Some(What::Note),
        _ => call(text),
    }
}

fn end_of_thread(text: &[u8]) -> Option<What<'_>> {
    if let Some(status) = text.strip_prefix(b"exited with ") {
        return Some(What::Exited(i32::try_from(value::number(status)?).ok()?));
    }
    if let Some(by) = text.strip_prefix(b"superseded by execve in pid ") {
        let length = by.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let by = u32::try_from(value::number(&by[..length])?).ok()?;
        return Some(What::Superseded { by });
    }
    text.starts_with(b"killed by ").then_some(What::Killed)
}

/// Behind `<... `: `read resumed>"", 5) = 0 <0.1>`.
fn resumed(text: &[u8]) -> Option<What<'_>> {
    let (name, rest) = name(text)?;
    let rest = rest.strip_prefix(b" resumed>")?;
    let (arguments, cuts, ended) = arguments(rest)?;
    Some(What::Resumed {
        name,
        arguments,
        cuts: cuts?,
        ended: ended?,
    })
}

fn call(text: &[u8]) -> Option<What<'_>> {
    let (name, rest) = name(text)?;
    let (arguments, cuts, ended) = arguments(rest.strip_prefix(b"(")?)?;
    Some(match ended {
        Some(ended) => What::Call {
            name,
            arguments,
            cuts: cuts?,
            ended,
        },
        None => What::Began {
            name,
            arguments,
            cuts,
        },
    })
}

/// What names of calls are made of.
const IN_NAMES: [bool; 256] = {
    let mut is_in = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        is_in[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'?');
        byte += 1;
    }
    is_in
};

/// A name of a call, and what follows it. Calls that strace does not know are `syscall_0x1c3`; of
/// one that was under way when it attached it knows nothing: `???`.
fn name(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|&byte| !IN_NAMES[usize::from(byte)]);
    let length = end.unwrap_or(text.len());
    (length > 0).then(|| text.split_at(length))
}

/// Arguments, where they end unless the line breaks off within one, and how the call ended; no end
/// where it is unfinished. None where the line is cut off.
fn arguments(text: &[u8]) -> Option<(&[u8], Option<Cuts>, Option<CallEnd<'_>>)> {
    let mut cuts = Cuts::default();
    let mut cursor = Cursor::new(text);
    while let Some((at, mark)) = cursor.next() {
        match mark {
            Mark::Comma => cuts.push(at),
            Mark::Unfinished => {
                let before = &text[..at];
                let before = before.strip_suffix(b" ").unwrap_or(before);
                return Some((before, (!cursor.is_within()).then_some(cuts), None));
            }
            Mark::Close => {
                let rest = text[at + 1..].trim_ascii_start();
                let ended = ended(rest.strip_prefix(b"=")?.trim_ascii())?;
                return Some((&text[..at], Some(cuts), Some(ended)));
            }
        }
    }
    None
}

fn ended(text: &[u8]) -> Option<CallEnd<'_>> {
    let (text, duration_ns) = time::duration(text);
    let end = text.iter().position(|byte| matches!(byte, b' ' | b'<'));
    let (token, behind) = text.split_at(end.unwrap_or(text.len()));
    let value = match token {
        b"?" => None,
        _ => Some(value::number(token)?),
    };
    Some(CallEnd {
        value,
        duration_ns,
        behind,
    })
}

#[cfg(test)]
mod tests;
