//! Lines told apart by one thread and used by another: what a [`Line`] borrows, as places in the piece of text that both have.

use crate::text::line::{Ended, Line, Stamp, What};
use crate::text::scan::Cuts;
use crate::text::value::Descriptor;

/// Bytes of a piece of text, which is shorter than 4 GiB.
#[derive(Debug, Clone, Copy)]
struct Span {
    from: u32,
    to: u32,
}

impl Span {
    /// Of a part of `piece`. One that is no part of it (an empty constant) is empty.
    fn of(part: &[u8], piece: &[u8]) -> Self {
        let from = (part.as_ptr() as usize).wrapping_sub(piece.as_ptr() as usize);
        if part.is_empty() || from > piece.len() {
            return Self { from: 0, to: 0 };
        }
        Self {
            from: from as u32,
            to: (from + part.len()) as u32,
        }
    }

    fn part(self, piece: &[u8]) -> &[u8] {
        piece
            .get(self.from as usize..self.to as usize)
            .unwrap_or_default()
    }
}

/// A [`Line`] without the text that it borrows.
#[derive(Debug, Clone, Copy)]
pub struct Told {
    whole: Span,
    line: Option<Apart>,
}

#[derive(Debug, Clone, Copy)]
struct Apart {
    pid: Option<u32>,
    stamp: Option<Stamp>,
    kind: Kind,
    name: Span,
    arguments: Span,
    cuts: Cuts,
    ended: End,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Call,
    Began,
    Resumed,
    Signal,
    Exited(i32),
    Killed,
    Superseded(u32),
    Note,
}

#[derive(Debug, Clone, Copy)]
struct End {
    value: Option<i64>,
    number: Option<i32>,
    deleted: bool,
    name: Option<Span>,
    error: Option<Span>,
    more: Span,
    duration_ns: Option<i64>,
}

const NOTHING: Span = Span { from: 0, to: 0 };
const NO_END: End = End {
    value: None,
    number: None,
    deleted: false,
    name: None,
    error: None,
    more: NOTHING,
    duration_ns: None,
};

impl Told {
    /// Of a line of `piece`, and what it was found to be.
    pub fn new(text: &[u8], line: Option<&Line<'_>>, piece: &[u8]) -> Self {
        Self {
            whole: Span::of(text, piece),
            line: line.map(|line| apart(line, piece)),
        }
    }

    /// The text of the line.
    pub fn text(self, piece: &[u8]) -> &[u8] {
        self.whole.part(piece)
    }

    /// What it was found to be; none where it is nothing that strace writes.
    pub fn line(self, piece: &[u8]) -> Option<Line<'_>> {
        self.line.map(|apart| together(&apart, piece))
    }
}

fn apart(line: &Line<'_>, piece: &[u8]) -> Apart {
    let span = |part: &[u8]| Span::of(part, piece);
    let end = |ended: &Ended<'_>| End {
        value: ended.value,
        number: ended.name.map(|name| name.number),
        deleted: ended.name.is_some_and(|name| name.deleted),
        name: ended.name.and_then(|name| name.name).map(span),
        error: ended.error.map(span),
        more: span(ended.more),
        duration_ns: ended.duration_ns,
    };
    let mut noted = Cuts::default();
    let (kind, name, arguments, ended) = match &line.what {
        What::Call {
            name,
            arguments,
            cuts,
            ended,
        } => {
            noted = *cuts;
            (Kind::Call, span(name), span(arguments), end(ended))
        }
        What::Began { name, arguments } => (Kind::Began, span(name), span(arguments), NO_END),
        What::Resumed {
            name,
            arguments,
            ended,
        } => (Kind::Resumed, span(name), span(arguments), end(ended)),
        What::Signal => (Kind::Signal, NOTHING, NOTHING, NO_END),
        What::Exited(status) => (Kind::Exited(*status), NOTHING, NOTHING, NO_END),
        What::Killed => (Kind::Killed, NOTHING, NOTHING, NO_END),
        What::Superseded { by } => (Kind::Superseded(*by), NOTHING, NOTHING, NO_END),
        What::Note => (Kind::Note, NOTHING, NOTHING, NO_END),
    };
    Apart {
        pid: line.pid,
        stamp: line.stamp,
        kind,
        name,
        arguments,
        cuts: noted,
        ended,
    }
}

fn together<'a>(apart: &Apart, piece: &'a [u8]) -> Line<'a> {
    let (name, arguments) = (apart.name.part(piece), apart.arguments.part(piece));
    let end = &apart.ended;
    let ended = Ended {
        value: end.value,
        name: end.number.map(|number| Descriptor {
            number,
            name: end.name.map(|name| name.part(piece)),
            deleted: end.deleted,
        }),
        error: end.error.map(|error| error.part(piece)),
        more: end.more.part(piece),
        duration_ns: end.duration_ns,
    };
    let what = match apart.kind {
        Kind::Call => What::Call {
            name,
            arguments,
            cuts: apart.cuts,
            ended,
        },
        Kind::Began => What::Began { name, arguments },
        Kind::Resumed => What::Resumed {
            name,
            arguments,
            ended,
        },
        Kind::Signal => What::Signal,
        Kind::Exited(status) => What::Exited(status),
        Kind::Killed => What::Killed,
        Kind::Superseded(by) => What::Superseded { by },
        Kind::Note => What::Note,
    };
    Line {
        pid: apart.pid,
        stamp: apart.stamp,
        what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::line::parse;

    #[test]
    fn a_line_is_the_same_after_it() {
        let piece = br#"7 1700000000.123456 openat(AT_FDCWD</w>, "a, b", O_RDONLY) = 3</w/a, b> <0.000012>
7 read(3, ""..., 5) = -1 EINTR (Interrupted system call)
8 12:00:01 vfork( <unfinished ...>
7 <... read resumed>"", 5) = ? ERESTARTSYS (To be restarted)
--- SIGCHLD {si_signo=SIGCHLD} ---
8 +++ exited with 3 +++
8 +++ killed by SIGKILL +++
7 +++ superseded by execve in pid 8 +++
close(9</d/#9>(deleted)) = 0
dup(3) = 4</d/#9>(deleted)
strace: Process 7 attached

no line of strace"#;
        let mut odd = 0;
        for text in piece.split(|&byte| byte == b'\n') {
            let line = parse(text);
            let told = Told::new(text, line.as_ref(), piece);
            assert_eq!(told.text(piece), text);
            assert_eq!(told.line(piece), line);
            odd += u32::from(line.is_none());
        }
        assert_eq!(odd, 1);
    }
}
