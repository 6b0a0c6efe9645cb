//! Reads and writes the XML of messages.

use quick_xml::NsReader;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::name::{Namespace, ResolveResult};

use super::NAMESPACE;
use crate::catalogue::MAX_BULK;

/// Name space of the envelope of SOAP 1.1.
pub(super) const ENVELOPE: &str = "http://schemas.xmlsoap.org/soap/envelope/";
/// Maximum depth of elements. The deepest of the catalogue is at 6.
const MAX_DEPTH: usize = 16;
/// Maximum length of a start tag, bytes. It bounds the number of attributes and of name spaces: the
/// time to resolve a name grows with both.
const MAX_TAG: usize = 4096;
/// Maximum length of the text of an element, bytes: that of the stateful protocol.
const MAX_TEXT: usize = u16::MAX as usize;

/// Why bytes are not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum XmlError {
    /// The text is not well-formed.
    #[error("the message is not well-formed XML: {0}")]
    Syntax(String),
    /// The text is not UTF-8, or its declaration states another encoding.
    #[error("expected a message in UTF-8")]
    Encoding,
    /// The message has a document type.
    #[error("the message has a document type, which SOAP does not permit")]
    DocType,
    /// The message has a processing instruction.
    #[error("the message has a processing instruction, which SOAP does not permit")]
    Instruction,
    /// The message has a reference that XML does not define.
    #[error("the message has a reference to the unknown entity &{0};")]
    Entity(String),
    /// The message has a character that XML does not permit.
    #[error("the message has a character that XML does not permit")]
    Character,
    /// Elements are nested too deeply.
    #[error("elements are nested more than {MAX_DEPTH} deep")]
    Depth,
    /// A start tag is too long.
    #[error("a start tag is longer than {MAX_TAG} bytes")]
    Tag,
    /// A text is too long.
    #[error("the text of an element is longer than {MAX_TEXT} bytes")]
    Text,
    /// An element or a text that the schema does not have at this place.
    #[error("unexpected {0}")]
    Unexpected(String),
    /// An element is missing.
    #[error("the element {0} is missing")]
    Missing(&'static str),
    /// The text of an element does not have the form of its type.
    #[error("the element {0} does not have the form of its type")]
    Value(String),
    /// There are too many elements, or none.
    #[error("expected 1 to 1,000 operations")]
    Count,
    /// The envelope is not that of SOAP 1.1.
    #[error("expected an envelope of SOAP 1.1")]
    Version,
    /// A header block that must be understood is not.
    #[error("the header block {0} is not understood")]
    MustUnderstand(String),
}

/// Name space of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Space {
    Envelope,
    Catalogue,
    None,
    Other,
}

impl Space {
    fn of(found: &ResolveResult<'_>) -> Self {
        match found {
            ResolveResult::Bound(Namespace(name)) if *name == ENVELOPE.as_bytes() => Self::Envelope,
            ResolveResult::Bound(Namespace(name)) if *name == NAMESPACE.as_bytes() => Self::Catalogue,
            ResolveResult::Unbound => Self::None,
            _ => Self::Other,
        }
    }
}

/// A start tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) space: Space,
    pub(super) name: String,
    /// Whether it has the attribute `mustUnderstand` of SOAP.
    pub(super) must_understand: bool,
}

impl Tag {
    pub(super) fn is(&self, space: Space, name: &str) -> bool {
        self.space == space && self.name == name
    }

    pub(super) fn unexpected(&self) -> XmlError {
        XmlError::Unexpected(format!("element {}", self.name))
    }
}

/// A part of a text.
enum Token {
    Start(Tag),
    End,
    Text(String),
    Eof,
}

/// Reads a text, element by element.
pub(super) struct Xml<'a> {
    reader: NsReader<&'a [u8]>,
    depth: usize,
    is_begun: bool,
}

impl<'a> Xml<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, XmlError> {
        let text = std::str::from_utf8(bytes).map_err(|_| XmlError::Encoding)?;
        let mut reader = NsReader::from_str(text.trim_start_matches('\u{feff}'));
        reader.config_mut().expand_empty_elements = true;
        Ok(Self {
            reader,
            depth: 0,
            is_begun: false,
        })
    }

    fn next(&mut self) -> Result<Token, XmlError> {
        loop {
            let is_first = !std::mem::replace(&mut self.is_begun, true);
            let (space, event) = self.reader.read_resolved_event().map_err(syntax)?;
            match event {
                Event::Start(tag) => {
                    let space = Space::of(&space);
                    return self.start_tag(&tag, space).map(Token::Start);
                }
                Event::End(_) => {
                    self.depth = self.depth.saturating_sub(1);
                    return Ok(Token::End);
                }
                Event::Text(text) => {
                    return Ok(Token::Text(text.xml10_content().map_err(syntax)?.into_owned()));
                }
                Event::CData(text) => {
                    return Ok(Token::Text(text.xml10_content().map_err(syntax)?.into_owned()));
                }
                Event::GeneralRef(reference) => {
                    return resolve(&reference).map(|found| Token::Text(found.into()));
                }
                Event::Decl(declaration) if is_first => {
                    let encoding = declaration.encoding().transpose().map_err(syntax)?;
                    if encoding.is_some_and(|name| !name.eq_ignore_ascii_case(b"utf-8")) {
                        return Err(XmlError::Encoding);
                    }
                }
                Event::Comment(_) => {}
                Event::DocType(_) => return Err(XmlError::DocType),
                Event::Decl(_) | Event::PI(_) => return Err(XmlError::Instruction),
                Event::Eof => return Ok(Token::Eof),
                // The reader expands empty elements.
                Event::Empty(_) => return Err(XmlError::Syntax("an empty element".into())),
            }
        }
    }

    fn start_tag(&mut self, tag: &BytesStart<'_>, space: Space) -> Result<Tag, XmlError> {
        if tag.len() > MAX_TAG {
            return Err(XmlError::Tag);
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(XmlError::Depth);
        }
        let mut must_understand = false;
        for attribute in tag.attributes() {
            let attribute = attribute.map_err(syntax)?;
            let (found, name) = self.reader.resolver().resolve_attribute(attribute.key);
            let is_named = name.as_ref() == b"mustUnderstand" && Space::of(&found) == Space::Envelope;
            must_understand |= is_named && matches!(attribute.value.as_ref(), b"1" | b"true");
        }
        Ok(Tag {
            space,
            name: String::from_utf8_lossy(tag.local_name().as_ref()).into_owned(),
            must_understand,
        })
    }

    /// The next element within the current one; none: the current one has ended.
    pub(super) fn start(&mut self) -> Result<Option<Tag>, XmlError> {
        loop {
            match self.next()? {
                Token::Start(tag) => return Ok(Some(tag)),
                Token::End => return Ok(None),
                Token::Text(text) if is_space(&text) => {}
                Token::Text(_) => return Err(XmlError::Unexpected("text between elements".into())),
                Token::Eof => return Err(ended()),
            }
        }
    }

    /// As [`Self::start`], for elements of the catalogue.
    pub(super) fn child(&mut self) -> Result<Option<Tag>, XmlError> {
        match self.start()? {
            Some(tag) if tag.space != Space::Catalogue => Err(tag.unexpected()),
            found => Ok(found),
        }
    }

    /// The text of the current element, which has no elements, and its end.
    pub(super) fn text(&mut self) -> Result<String, XmlError> {
        let mut text = String::new();
        loop {
            match self.next()? {
                Token::Text(piece) => text.push_str(&piece),
                Token::Start(tag) => return Err(tag.unexpected()),
                Token::End => break,
                Token::Eof => return Err(ended()),
            }
            if text.len() > MAX_TEXT {
                return Err(XmlError::Text);
            }
        }
        if text.chars().all(is_permitted) {
            Ok(text)
        } else {
            Err(XmlError::Character)
        }
    }

    /// The value of the current element, a number or a truth value.
    pub(super) fn value<T: std::str::FromStr>(&mut self, tag: &Tag) -> Result<T, XmlError> {
        let text = self.text()?;
        text.trim().parse().map_err(|_| XmlError::Value(tag.name.clone()))
    }

    /// Skips the rest of the current element.
    pub(super) fn skip(&mut self) -> Result<(), XmlError> {
        let outside = self.depth.saturating_sub(1);
        while self.depth > outside {
            if let Token::Eof = self.next()? {
                return Err(ended());
            }
        }
        Ok(())
    }

    /// Checks that nothing follows the last element.
    pub(super) fn finish(&mut self) -> Result<(), XmlError> {
        loop {
            match self.next()? {
                Token::Eof => return Ok(()),
                Token::Text(text) if is_space(&text) => {}
                _ => return Err(XmlError::Unexpected("content after the envelope".into())),
            }
        }
    }
}

/// The children of an element, all of this name.
pub(super) fn items<T>(
    xml: &mut Xml<'_>,
    name: &str,
    mut item: impl FnMut(&mut Xml<'_>, &Tag) -> Result<T, XmlError>,
) -> Result<Vec<T>, XmlError> {
    let mut items = Vec::new();
    while let Some(tag) = xml.child()? {
        if tag.name != name {
            return Err(tag.unexpected());
        }
        if items.len() == MAX_BULK {
            return Err(XmlError::Count);
        }
        items.push(item(xml, &tag)?);
    }
    Ok(items)
}

/// Sets a field of an element that must have it once.
pub(super) fn once<T>(field: &mut Option<T>, value: T, tag: &Tag) -> Result<(), XmlError> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(tag.unexpected()),
    }
}

fn syntax(error: impl std::fmt::Display) -> XmlError {
    XmlError::Syntax(error.to_string())
}

fn ended() -> XmlError {
    XmlError::Syntax("it ends within an element".into())
}

fn resolve(reference: &BytesRef<'_>) -> Result<char, XmlError> {
    if let Some(character) = reference.resolve_char_ref().map_err(syntax)? {
        return Ok(character);
    }
    let name: &[u8] = reference;
    Ok(match name {
        b"amp" => '&',
        b"lt" => '<',
        b"gt" => '>',
        b"quot" => '"',
        b"apos" => '\'',
        other => {
            let name = String::from_utf8_lossy(&other[..other.len().min(40)]).into_owned();
            return Err(XmlError::Entity(name));
        }
    })
}

fn is_space(text: &str) -> bool {
    text.bytes()
        .all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
}

/// Whether XML 1.0 permits a character. NUL is none of them: no database stores it.
fn is_permitted(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..)
}

/// Appends a text. A character that XML cannot express is replaced.
pub(super) fn put_escaped(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // A reader would replace it by a newline.
            '\r' => out.push_str("&#13;"),
            _ if is_permitted(character) => out.push(character),
            _ => out.push('\u{fffd}'),
        }
    }
}

/// Appends an element with a text.
pub(super) fn put_text(out: &mut String, name: &str, text: &str) {
    out.extend(["<", name, ">"]);
    put_escaped(out, text);
    out.extend(["</", name, ">"]);
}

/// Appends an element with a value that needs no escapes.
pub(super) fn put_value(out: &mut String, name: &str, value: impl std::fmt::Display) {
    use std::fmt::Write as _;
    // Writing to a String cannot fail.
    let _ = write!(out, "<{name}>{value}</{name}>");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of the first element, whose end must be the end of the message.
    fn text(message: &str) -> Result<String, XmlError> {
        let mut xml = Xml::new(message.as_bytes())?;
        xml.start()?.ok_or(XmlError::Missing("root"))?;
        let text = xml.text()?;
        xml.finish()?;
        Ok(text)
    }

    #[test]
    fn a_text_is_read_as_it_was_written() {
        for written in [
            "a",
            "a & b < c > \"d\" 'e'",
            "",
            " a ",
            "a\tb\nc\rd",
            "\u{fffd}\u{1f600}ä",
            "]]>",
        ] {
            let mut out = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<!-- - -->");
            put_text(&mut out, "r", written);
            assert_eq!(text(&out).as_deref(), Ok(written), "{out}");
        }
        let mut out = String::new();
        put_escaped(&mut out, "a\0\u{1}\u{ffff}");
        assert_eq!(out, "a\u{fffd}\u{fffd}\u{fffd}");
        assert_eq!(
            text("<r>a<![CDATA[<&>]]>&#66;&#x43;</r>").as_deref(),
            Ok("a<&>BC")
        );
    }

    #[test]
    fn what_a_message_must_not_contain_is_refused() {
        let entity = |name: &str| XmlError::Entity(name.into());
        for (message, why) in [
            ("<!DOCTYPE r [<!ENTITY a 'b'>]><r>&a;</r>", XmlError::DocType),
            ("<!DOCTYPE r SYSTEM 'file:///etc/passwd'><r/>", XmlError::DocType),
            ("<r>&a;</r>", entity("a")),
            ("<?x y?><r/>", XmlError::Instruction),
            ("<r><?xml version='1.0'?></r>", XmlError::Instruction),
            (
                "<?xml version='1.0' encoding='ISO-8859-1'?><r/>",
                XmlError::Encoding,
            ),
            ("<r>\u{1}</r>", XmlError::Character),
            ("<r>&#1;</r>", XmlError::Character),
        ] {
            assert_eq!(text(message), Err(why), "{message}");
        }
        for message in [
            "",
            "<r>",
            "<r></s>",
            "r",
            "<r/><s/>",
            "<r/>x",
            "<r a='1' a='2'/>",
            "<r>&</r>",
            "<r>&#0;</r>",
        ] {
            assert!(text(message).is_err(), "{message}");
        }
        assert_eq!(Xml::new(b"<r>\xff</r>").err(), Some(XmlError::Encoding));
    }

    #[test]
    fn depth_tags_and_texts_are_bounded() {
        let deep = "<r>".repeat(100_000);
        let mut reader = Xml::new(deep.as_bytes()).unwrap();
        let levels = std::iter::from_fn(|| reader.start().ok().flatten()).count();
        assert_eq!(levels, MAX_DEPTH);
        let attributes = " xmlns:a='u'".repeat(100_000);
        assert_eq!(text(&format!("<r{attributes}/>")), Err(XmlError::Tag));
        let long = "a".repeat(MAX_TEXT + 1);
        assert_eq!(text(&format!("<r>{long}</r>")), Err(XmlError::Text));
    }
}
