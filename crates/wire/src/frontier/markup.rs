//! The part of XML that Frontier documents use: tags and their attributes. They are read in one
//! pass and borrow from the text.

use memchr::memchr;

/// Maximum length of an error text, in characters.
const MAX_MESSAGE: usize = 1000;

/// The tags of a document, in order.
pub(super) struct Tags<'a> {
    body: &'a [u8],
    offset: usize,
}

/// One tag: `<name attributes>`.
pub(super) struct Tag<'a> {
    /// Name, with the leading `/` of an end tag.
    pub(super) name: &'a [u8],
    attributes: &'a [u8],
    /// Whether the element is empty: `<name/>`.
    pub(super) empty: bool,
    /// Offset of `<`.
    pub(super) start: usize,
    /// Offset after `>`.
    pub(super) end: usize,
}

impl<'a> Tags<'a> {
    pub(super) fn new(body: &'a [u8]) -> Self {
        Self { body, offset: 0 }
    }

    pub(super) fn next(&mut self) -> Option<Tag<'a>> {
        let start = self.offset + memchr(b'<', self.body.get(self.offset..)?)?;
        // Values are escaped, so that the next '>' ends the tag.
        let end = start + memchr(b'>', &self.body[start..])? + 1;
        self.offset = end;
        let inner = &self.body[start + 1..end - 1];
        let (inner, empty) = match inner.strip_suffix(b"/") {
            Some(rest) => (rest, true),
            None => (inner, false),
        };
        let split = inner
            .iter()
            .position(u8::is_ascii_whitespace)
            .unwrap_or(inner.len());
        Some(Tag {
            name: &inner[..split],
            attributes: &inner[split..],
            empty,
            start,
            end,
        })
    }
}

impl<'a> Tag<'a> {
    /// The raw value of an attribute, in either kind of quotes.
    pub(super) fn attribute(&self, name: &str) -> Option<&'a [u8]> {
        let mut rest = self.attributes.trim_ascii_start();
        while !rest.is_empty() {
            let equals = memchr(b'=', rest)?;
            let key = rest[..equals].trim_ascii();
            rest = rest[equals + 1..].trim_ascii_start();
            let &quote = rest.first().filter(|b| matches!(b, b'"' | b'\''))?;
            let close = 1 + memchr(quote, &rest[1..])?;
            if key == name.as_bytes() {
                return Some(&rest[1..close]);
            }
            rest = rest[close + 1..].trim_ascii_start();
        }
        None
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        std::str::from_utf8(self.attribute(name)?)
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    /// The value of an attribute as text, unescaped and cut to [`MAX_MESSAGE`]; empty if the
    /// attribute is missing.
    pub(super) fn text(&self, name: &str) -> String {
        let raw = String::from_utf8_lossy(self.attribute(name).unwrap_or_default());
        let mut plain = String::with_capacity(raw.len().min(MAX_MESSAGE));
        let mut rest = raw.as_ref();
        for _ in 0..MAX_MESSAGE {
            let Some(c) = rest.chars().next() else { break };
            let entity = [
                ("&lt;", '<'),
                ("&gt;", '>'),
                ("&quot;", '"'),
                ("&apos;", '\''),
                ("&amp;", '&'),
            ];
            let (length, c) = entity
                .iter()
                .find(|(name, _)| rest.starts_with(name))
                .map_or((c.len_utf8(), c), |&(name, plain)| (name.len(), plain));
            plain.push(c);
            rest = &rest[length..];
        }
        plain
    }
}
