//! The envelope of a message.

use super::xml::{ENVELOPE, Space, Tag, Xml, XmlError};

/// Reads an envelope. `header` reads each header block, `body` the only element of the body; both
/// read the element to its end.
pub(super) fn read<'a, T>(
    message: &'a [u8],
    mut header: impl FnMut(&mut Xml<'a>, &Tag) -> Result<(), XmlError>,
    body: impl FnOnce(&mut Xml<'a>, &Tag) -> Result<T, XmlError>,
) -> Result<T, XmlError> {
    let mut xml = Xml::new(message)?;
    match xml.start()? {
        Some(tag) if tag.is(Space::Envelope, "Envelope") => {}
        Some(tag) if tag.name == "Envelope" => return Err(XmlError::Version),
        Some(tag) => return Err(tag.unexpected()),
        None => return Err(XmlError::Missing("Envelope")),
    }
    let mut part = xml.start()?;
    if part.as_ref().is_some_and(|tag| tag.is(Space::Envelope, "Header")) {
        while let Some(block) = xml.start()? {
            header(&mut xml, &block)?;
        }
        part = xml.start()?;
    }
    match part {
        Some(tag) if tag.is(Space::Envelope, "Body") => {}
        Some(tag) => return Err(tag.unexpected()),
        None => return Err(XmlError::Missing("Body")),
    }
    let first = xml.start()?.ok_or(XmlError::Missing("Body/*"))?;
    let content = body(&mut xml, &first)?;
    // The end of the body, and that of the envelope.
    for _ in 0..2 {
        if let Some(tag) = xml.start()? {
            return Err(tag.unexpected());
        }
    }
    xml.finish()?;
    Ok(content)
}

/// Appends an envelope. `header` and `body` append their contents; an empty header is left out.
pub(super) fn put(out: &mut String, header: &str, body: impl FnOnce(&mut String)) {
    out.push_str("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<S:Envelope xmlns:S=\"");
    out.extend([ENVELOPE, "\">"]);
    if !header.is_empty() {
        out.extend(["<S:Header>", header, "</S:Header>"]);
    }
    out.push_str("<S:Body>");
    body(out);
    out.push_str("</S:Body></S:Envelope>");
}
