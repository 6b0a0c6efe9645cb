//! A simplified lexer of the servers, which recognises quotations and comments.

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
    /// A quotation or comment without an end. It is the last piece.
    Unclosed,
}

/// Iterates over the pieces of a text, in order.
pub(super) struct Lexer<'a> {
    rest: &'a str,
    dialect: Dialect,
    /// Whether a backslash is an escape character in the next quotation, because `PostgreSQL`'s `E`
    /// directly precedes it.
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

    /// A quotation up to its closing mark. A doubled mark does not close it.
    fn quotation(&mut self, mark: u8, backslashes: bool) -> Piece<'a> {
        let bytes = self.rest.as_bytes();
        let mut index = 1;
        while let Some(&byte) = bytes.get(index) {
            if byte == b'\\' && backslashes {
                index += 1;
            } else if byte == mark {
                if bytes.get(index + 1) != Some(&mark) {
                    return Piece::Other(self.take(index + 1));
                }
                index += 1;
            }
            index += 1;
        }
        self.unclosed()
    }

    fn comment(&mut self) -> Piece<'a> {
        let nests = self.dialect == Dialect::Postgres;
        let bytes = self.rest.as_bytes();
        let (mut index, mut depth) = (2, 1);
        while index + 1 < bytes.len() {
            match &bytes[index..index + 2] {
                b"*/" => {
                    depth -= 1;
                    index += 2;
                    if depth == 0 {
                        return Piece::Comment(self.take(index));
                    }
                }
                b"/*" if nests => {
                    depth += 1;
                    index += 2;
                }
                _ => index += 1,
            }
        }
        self.unclosed()
    }

    fn line_comment(&mut self) -> Piece<'a> {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        Piece::Comment(self.take(end))
    }

    /// A quotation `$tag$ ... $tag$`, if the text begins with one.
    fn dollar_quotation(&mut self) -> Option<Piece<'a>> {
        let inner = &self.rest[1..];
        let length = inner.find('$')?;
        let tag = &inner[..length];
        let is_tag = tag
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii());
        if !is_tag || tag.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let mark = &self.rest[..length + 2];
        Some(match self.rest[mark.len()..].find(mark) {
            Some(end) => Piece::Other(self.take(end + 2 * mark.len())),
            None => self.unclosed(),
        })
    }

    fn word(&mut self) -> Piece<'a> {
        // A name may contain $, so a$b$ does not begin a quotation.
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii();
        let word = self.take(self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len()));
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
        let is_mysql = self.dialect == Dialect::Mysql;
        let bytes = self.rest.as_bytes();
        Some(match (bytes.first()?, bytes.get(1)) {
            (byte, _) if byte.is_ascii_whitespace() || *byte == 0x0b => {
                let space = |c: char| c.is_ascii_whitespace() || c == '\x0b';
                let length = self.rest.find(|c| !space(c)).unwrap_or(self.rest.len());
                Piece::Space(self.take(length))
            }
            (b'\'', _) => self.quotation(b'\'', is_mysql || escapes),
            (b'"', _) => self.quotation(b'"', is_mysql),
            (b'`', _) if is_mysql => self.quotation(b'`', false),
            // MariaDB executes the text in these comments, so it is read as pieces of the
            // statement.
            (b'/', Some(b'*'))
                if is_mysql && (bytes[2..].starts_with(b"!") || bytes[2..].starts_with(b"M!")) =>
            {
                Piece::Other(self.take(2))
            }
            (b'/', Some(b'*')) => self.comment(),
            (b'-', Some(b'-')) if !is_mysql || bytes.get(2).is_none_or(|b| *b <= b' ') => self.line_comment(),
            (b'#', _) if is_mysql => self.line_comment(),
            (b'$', _) if self.dialect == Dialect::Postgres => match self.dollar_quotation() {
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
