//! As much of a server's lexer as it takes to know what stands inside quotations and comments.

use super::Dialect;

/// A piece of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Space(&'a str),
    Comment(&'a str),
    /// A keyword or name without quotation marks, or a number.
    Word(&'a str),
    /// `?`
    Parameter,
    /// `;`
    End,
    /// A quotation, or one character.
    Other(&'a str),
    /// A quotation or comment that does not end; nothing follows.
    Unclosed,
}

/// The pieces of a text, in order.
pub(super) struct Lexer<'a> {
    rest: &'a str,
    dialect: Dialect,
    /// The next quotation takes backslashes: `PostgreSQL`'s `E` stands right before it.
    escapes: bool,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(dialect: Dialect, sql: &'a str) -> Self {
        Self {
            rest: sql,
            dialect,
            escapes: false,
        }
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn unclosed(&mut self) -> Piece<'a> {
        self.rest = "";
        Piece::Unclosed
    }

    /// A quotation that ends at its mark; a doubled mark stands for itself.
    fn quotation(&mut self, mark: u8, backslashes: bool) -> Piece<'a> {
        let bytes = self.rest.as_bytes();
        let mut at = 1;
        while let Some(&byte) = bytes.get(at) {
            if byte == b'\\' && backslashes {
                at += 1;
            } else if byte == mark {
                if bytes.get(at + 1) != Some(&mark) {
                    return Piece::Other(self.take(at + 1));
                }
                at += 1;
            }
            at += 1;
        }
        self.unclosed()
    }

    fn comment(&mut self) -> Piece<'a> {
        let nests = self.dialect == Dialect::Postgres;
        let bytes = self.rest.as_bytes();
        let (mut at, mut depth) = (2, 1);
        while at + 1 < bytes.len() {
            match &bytes[at..at + 2] {
                b"*/" => {
                    depth -= 1;
                    at += 2;
                    if depth == 0 {
                        return Piece::Comment(self.take(at));
                    }
                }
                b"/*" if nests => {
                    depth += 1;
                    at += 2;
                }
                _ => at += 1,
            }
        }
        self.unclosed()
    }

    fn line_comment(&mut self) -> Piece<'a> {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        Piece::Comment(self.take(end))
    }

    /// `$tag$ ... $tag$`, if there is one here.
    fn dollars(&mut self) -> Option<Piece<'a>> {
        let inner = &self.rest[1..];
        let length = inner.find('$')?;
        let tag = &inner[..length];
        let letters = tag
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii());
        if !letters || tag.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let mark = &self.rest[..length + 2];
        Some(match self.rest[mark.len()..].find(mark) {
            Some(end) => Piece::Other(self.take(end + 2 * mark.len())),
            None => self.unclosed(),
        })
    }

    fn word(&mut self) -> Piece<'a> {
        // A name may hold $, so that a$b$ begins no quotation.
        let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii();
        let word = self.take(self.rest.find(|c| !part(c)).unwrap_or(self.rest.len()));
        self.escapes = self.dialect == Dialect::Postgres
            && word.eq_ignore_ascii_case("e")
            && self.rest.starts_with('\'');
        Piece::Word(word)
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let escapes = std::mem::take(&mut self.escapes);
        let mysql = self.dialect == Dialect::Mysql;
        let bytes = self.rest.as_bytes();
        Some(match (bytes.first()?, bytes.get(1)) {
            (byte, _) if byte.is_ascii_whitespace() || *byte == 0x0b => {
                let space = |c: char| c.is_ascii_whitespace() || c == '\x0b';
                let length = self.rest.find(|c| !space(c)).unwrap_or(self.rest.len());
                Piece::Space(self.take(length))
            }
            (b'\'', _) => self.quotation(b'\'', mysql || escapes),
            (b'"', _) => self.quotation(b'"', mysql),
            (b'`', _) if mysql => self.quotation(b'`', false),
            // MariaDB runs what stands in these: they are left in the text, character by character.
            (b'/', Some(b'*'))
                if mysql && (bytes[2..].starts_with(b"!") || bytes[2..].starts_with(b"M!")) =>
            {
                Piece::Other(self.take(2))
            }
            (b'/', Some(b'*')) => self.comment(),
            (b'-', Some(b'-')) if !mysql || bytes.get(2).is_none_or(|b| *b <= b' ') => self.line_comment(),
            (b'#', _) if mysql => self.line_comment(),
            (b'$', _) if self.dialect == Dialect::Postgres => match self.dollars() {
                Some(piece) => piece,
                None => Piece::Other(self.take(1)),
            },
            (b'?', _) => {
                self.take(1);
                Piece::Parameter
            }
            (b';', _) => {
                self.take(1);
                Piece::End
            }
            (byte, _) if byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii() => self.word(),
            _ => Piece::Other(self.take(1)),
        })
    }
}
