//! Parses a line of a log.

use memchr::memmem;

use crate::text::scan::{Cursor, Cuts, Mark};
use crate::text::time::{self, Stamp};
use crate::text::value::{self, Descriptor};

/// Maximum process id of Linux (`PID_MAX_LIMIT`). A first number above it is a time in whole
/// seconds.
const MAX_PID: u64 = 1 << 22;
/// Maximum length of the name of a command (`TASK_COMM_LEN` - 1).
const MAX_COMMAND: usize = 15;

/// A parsed line. Its parts are slices of the line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line<'a> {
    /// The id of the thread; None if strace followed one process only.
    pub pid: Option<u32>,
    /// The time of the line, or of the start of the call.
    pub stamp: Option<Stamp>,
    /// The kind and content of the line.
    pub kind: LineKind<'a>,
}

/// The kind and content of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LineKind<'a> {
    /// A call from its name to its result.
    Call {
        /// The name of the call.
        name: &'a [u8],
        /// The text between the parentheses.
        arguments: &'a [u8],
        /// Where the arguments end.
        cuts: Cuts,
        /// The end of the call.
        ended: CallEnd<'a>,
    },
    /// The start of a call that another thread interrupts.
    Began {
        /// The name of the call.
        name: &'a [u8],
        /// The arguments that were known at the start.
        arguments: &'a [u8],
        /// Where they end; None if the line breaks off within an argument.
        cuts: Option<Cuts>,
    },
    /// The end of an interrupted call.
    Resumed {
        /// The name of the call.
        name: &'a [u8],
        /// The arguments that were known only at the end.
        arguments: &'a [u8],
        /// Where the arguments end.
        cuts: Cuts,
        /// The end of the call.
        ended: CallEnd<'a>,
    },
    /// A signal arrived, or the thread stopped.
    Signal,
    /// The thread has exited with this status.
    Exited(i32),
    /// A signal has ended the thread.
    Killed,
    /// Another thread of the process has executed a program: this one has ended, and the other one
    /// has its id now.
    Superseded {
        /// The id of the other thread.
        by: u32,
    },
    /// A message of strace, a line of a stack trace, or an empty line.
    Note,
}

/// The end of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallEnd<'a> {
    /// The returned value; None for `?`: the call did not return, or its value is unknown.
    pub value: Option<i64>,
    /// The duration of option `-T`, ns.
    pub duration_ns: Option<i64>,
    /// The text after the value: the path of a descriptor, an error, or the result of poll(2).
    suffix: &'a [u8],
}

impl<'a> CallEnd<'a> {
    /// The returned descriptor with its path, if option `-y` was set.
    pub fn name(&self) -> Option<Descriptor<'a>> {
        let inner = self.suffix.strip_prefix(b"<")?;
        let (named, left) = self.suffix.split_at(crate::text::scan::name(self.suffix));
        Some(Descriptor {
            number: i32::try_from(self.value?).ok()?,
            name: Some(&inner[..named.strip_suffix(b">")?.len() - 1]),
            deleted: left.starts_with(b"(deleted)"),
        })
    }

    /// The name of the error, such as `ENOENT`; also for a restarted call (`ERESTARTSYS`).
    pub fn error(&self) -> Option<&'a [u8]> {
        if self.value.is_some_and(|value| value != -1) {
            return None;
        }
        let text = self.suffix.trim_ascii_start();
        let end = text.iter().position(|byte| !byte.is_ascii_alphanumeric());
        let word = &text[..end.unwrap_or(text.len())];
        word.starts_with(b"E").then_some(word)
    }

    /// Whether the kernel restarts the call, which then has a line of its own. The call has had no
    /// effect.
    pub fn restarts(&self) -> bool {
        self.error().is_some_and(|error| error.starts_with(b"ERESTART"))
    }
}

/// Parses a line without its line feed. None if strace does not write such a line, or if it is cut.
pub fn parse(text: &[u8]) -> Option<Line<'_>> {
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    let begins_with_number = text.first().is_some_and(u8::is_ascii_digit);
    if !begins_with_number && is_note(text) {
        return Some(Line {
            pid: None,
            stamp: None,
            kind: LineKind::Note,
        });
    }
    let (pid, rest) = pid(text);
    let (stamp, rest) = time::stamp(rest);
    let kind = kind(skip_numbers(rest))?;
    Some(Line { pid, stamp, kind })
}

fn is_note(text: &[u8]) -> bool {
    text.trim_ascii().is_empty() || text.starts_with(b" > ") || is_message_of_strace(text)
}

/// `strace: Process 7 attached`, `[ Process PID=7 runs in 32 bit mode. ]`.
fn is_message_of_strace(text: &[u8]) -> bool {
    text.starts_with(b"strace: ") || text.starts_with(b"[ Process ")
}

/// Parses `7 `, `7<cat> `, `[pid 7] ` and `[pid 7<cat>] `. Short ids are padded with blanks.
fn pid(text: &[u8]) -> (Option<u32>, &[u8]) {
    // Fast path for most lines: strace pads to five digits, and ids in containers have fewer.
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
        // The name of a command may contain any bytes, at most 15.
        let near = &rest[..rest.len().min(MAX_COMMAND + 2 + end.len())];
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

/// Skips `[00007f1c2a5e4b1e] ` (`-i`) and `[   0] ` (`-n`).
fn skip_numbers(mut text: &[u8]) -> &[u8] {
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

fn kind(text: &[u8]) -> Option<LineKind<'_>> {
    match text {
        [b'-', b'-', b'-', b' ', rest @ ..] => rest.ends_with(b" ---").then_some(LineKind::Signal),
        [b'+', b'+', b'+', b' ', rest @ ..] => end_of_thread(rest.strip_suffix(b" +++")?),
        [b'<', b'.', b'.', b'.', b' ', rest @ ..] => resumed(rest),
        _ if is_message_of_strace(text) => Some(LineKind::Note),
        _ => call(text),
    }
}

fn end_of_thread(text: &[u8]) -> Option<LineKind<'_>> {
    if let Some(status) = text.strip_prefix(b"exited with ") {
        return Some(LineKind::Exited(i32::try_from(value::number(status)?).ok()?));
    }
    if let Some(by) = text.strip_prefix(b"superseded by execve in pid ") {
        let length = by.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let by = u32::try_from(value::number(&by[..length])?).ok()?;
        return Some(LineKind::Superseded { by });
    }
    text.starts_with(b"killed by ").then_some(LineKind::Killed)
}

/// Parses the text after `<... `: `read resumed>"", 5) = 0 <0.1>`.
fn resumed(text: &[u8]) -> Option<LineKind<'_>> {
    let (name, rest) = name(text)?;
    let rest = rest.strip_prefix(b" resumed>")?;
    let (arguments, cuts, ended) = arguments(rest)?;
    Some(LineKind::Resumed {
        name,
        arguments,
        cuts: cuts?,
        ended: ended?,
    })
}

fn call(text: &[u8]) -> Option<LineKind<'_>> {
    let (name, rest) = name(text)?;
    let (arguments, cuts, ended) = arguments(rest.strip_prefix(b"(")?)?;
    Some(match ended {
        Some(ended) => LineKind::Call {
            name,
            arguments,
            cuts: cuts?,
            ended,
        },
        None => LineKind::Began {
            name,
            arguments,
            cuts,
        },
    })
}

/// The bytes that names of calls consist of.
const IN_NAMES: [bool; 256] = {
    let mut is_in = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        is_in[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'?');
        byte += 1;
    }
    is_in
};

/// Splits off the name of a call. Calls that strace does not know are `syscall_0x1c3`; a call that
/// was in progress when strace attached is `???`.
fn name(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|&byte| !IN_NAMES[usize::from(byte)]);
    let length = end.unwrap_or(text.len());
    (length > 0).then(|| text.split_at(length))
}

/// Parses the arguments, where they end (None if the line breaks off within one), and the end of
/// the call (None if it is unfinished). None if the line is cut.
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
    let (token, suffix) = text.split_at(end.unwrap_or(text.len()));
    let value = match token {
        b"?" => None,
        _ => Some(value::number(token)?),
    };
    Some(CallEnd {
        value,
        duration_ns,
        suffix,
    })
}

#[cfg(test)]
mod tests;
