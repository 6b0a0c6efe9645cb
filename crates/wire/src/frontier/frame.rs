//! The XML around the payloads, exact to the byte (servlet 3.42).
//!
//! Every function appends to a buffer, in the order of a document: [`begin`], [`transaction`], then
//! for each payload [`payload`], its data, [`quality`], then [`end_transaction`], perhaps
//! [`global_error`], and [`end`].

use super::armor::{Digest, Seal};

/// Media type of every document.
pub const CONTENT_TYPE: &str = "text/xml;charset=US-ASCII";
/// The version that the frame claims: that of the servlet whose bytes it copies.
pub const VERSION: &str = "3.42";
/// Said inside `<data>` while a client waits, before any base64.
pub const KEEPALIVE: &[u8] = b"\n   <keepalive />";
/// The last bytes of every document.
pub const END: &[u8] = b"</frontier>\n";

/// Opens the document.
pub fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(
        b"<?xml version=\"1.0\" encoding=\"US-ASCII\"?>\n\
          <!DOCTYPE frontier SYSTEM \"http://frontier.fnal.gov/frontier.dtd\">\n\
          <frontier version=\"",
    );
    out.extend_from_slice(VERSION.as_bytes());
    out.extend_from_slice(b"\" xmlversion=\"1.0\">\n");
}

/// Opens the transaction that holds `payloads` payloads.
pub fn transaction(out: &mut Vec<u8>, payloads: usize) {
    text(
        out,
        &[" <transaction payloads=\"", &payloads.to_string(), "\">\n"],
    );
}

/// Opens a payload and its data. The three values are echoed as asked for.
pub fn payload(out: &mut Vec<u8>, object: &str, version: &str, encoding: &str) {
    // The servlet writes them raw. Escaping changes nothing for honest values and keeps hostile
    // ones inside quotes.
    out.extend_from_slice(b"  <payload type=\"");
    escape(out, object);
    out.extend_from_slice(b"\" version=\"");
    escape(out, version);
    out.extend_from_slice(b"\" encoding=\"");
    escape(out, encoding);
    out.extend_from_slice(b"\">\n   <data>");
}

/// What the `<quality>` element says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quality {
    /// `Some(text)` makes this a payload error; the text follows the server's name.
    pub error: Option<String>,
    /// Seconds, when the HTTP header came too late to say it; 0 says nothing.
    pub max_age: u64,
    /// Absent when the payload failed before its encoder existed.
    pub seal: Option<Seal>,
    /// Base64, in place of the digest, of an answer whose seal is for signing.
    pub signature: Option<String>,
    /// Rows; absent for errors.
    pub records: Option<u64>,
}

/// Closes the data and the payload. Attributes stand in the servlet's order.
pub fn quality(out: &mut Vec<u8>, server: &str, quality: &Quality) {
    out.extend_from_slice(b"</data>\n   <quality error=\"");
    out.push(if quality.error.is_some() { b'1' } else { b'0' });
    out.extend_from_slice(b"\" ");
    if let Some(message) = &quality.error {
        out.extend_from_slice(b"message=\"");
        escape(out, server);
        out.push(b' ');
        escape(out, message);
        out.extend_from_slice(b"\" ");
    }
    if quality.max_age > 0 {
        text(out, &["max_age=\"", &quality.max_age.to_string(), "\" "]);
    }
    match (&quality.seal, &quality.signature) {
        (_, Some(signature)) => text(out, &["sig=\"", signature, "\" "]),
        (
            Some(Seal {
                digest: Digest::Md5(md5),
                ..
            }),
            None,
        ) => {
            out.extend_from_slice(b"md5=\"");
            for byte in md5 {
                out.extend([byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]));
            }
            out.extend_from_slice(b"\" ");
        }
        _ => {}
    }
    if let Some(records) = quality.records {
        text(out, &["records=\"", &records.to_string(), "\" "]);
    }
    let full_size = match (&quality.error, &quality.seal) {
        (None, Some(seal)) => seal.full_size,
        _ => 0,
    };
    text(
        out,
        &["full_size=\"", &full_size.to_string(), "\"/>\n  </payload>\n"],
    );
}

/// Closes the transaction.
pub fn end_transaction(out: &mut Vec<u8>) {
    out.extend_from_slice(b" </transaction>\n");
}

/// An error of the whole document; stands after a transaction, or instead of one.
pub fn global_error(out: &mut Vec<u8>, server: &str, message: &str) {
    out.extend_from_slice(b"\n  <global_error msg=\"");
    escape(out, server);
    out.push(b' ');
    escape(out, message);
    out.extend_from_slice(b"\"/>\n");
}

/// Closes the document.
pub fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(END);
}

fn text(out: &mut Vec<u8>, parts: &[&str]) {
    for part in parts {
        out.extend_from_slice(part.as_bytes());
    }
}

/// XML-escapes into US-ASCII: what the encoding cannot say becomes `?`, as Java's encoder does;
/// newlines stay raw.
fn escape(out: &mut Vec<u8>, value: &str) {
    for c in value.chars() {
        match c {
            '&' => out.extend_from_slice(b"&amp;"),
            '\'' => out.extend_from_slice(b"&apos;"),
            '"' => out.extend_from_slice(b"&quot;"),
            '>' => out.extend_from_slice(b"&gt;"),
            '<' => out.extend_from_slice(b"&lt;"),
            c if c.is_ascii() && (c == '\n' || c == '\t' || !c.is_ascii_control()) => out.push(c as u8),
            _ => out.push(b'?'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontier::example;

    #[test]
    fn the_worked_example_plain_is_byte_for_byte() {
        let document = example::document("BLOB", &example::plain());
        assert_eq!(document.len(), 563);
        assert_eq!(String::from_utf8(document).unwrap(), example::BLOB_DOCUMENT);
    }

    /// The compressed bytes of the facts inside our frame: the frame is exact whatever our own zlib
    /// would make of them.
    #[test]
    fn the_worked_example_zipped_is_byte_for_byte() {
        let document = example::zipped_document();
        assert_eq!(document.len(), 522);
        assert!(
            String::from_utf8(document)
                .unwrap()
                .contains("md5=\"c8b48c2418a513b0631198280ddab653\" records=\"2\" ")
        );
    }

    #[test]
    fn errors_are_escaped_and_ordered() {
        let mut out = Vec::new();
        let seal = Seal {
            digest: Digest::Md5([0xab; 16]),
            full_size: 9,
        };
        let error = Quality {
            error: Some("a<b>&\"'\n\u{e9}\u{1}".into()),
            max_age: 7,
            seal: Some(seal),
            signature: None,
            records: None,
        };
        quality(&mut out, "S", &error);
        let expected = format!(
            "</data>\n   <quality error=\"1\" message=\"S a&lt;b&gt;&amp;&quot;&apos;\n??\" max_age=\"7\" md5=\"{}\" \
             full_size=\"0\"/>\n  </payload>\n",
            "ab".repeat(16)
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let mut out = Vec::new();
        global_error(&mut out, "S", "no");
        assert_eq!(out, b"\n  <global_error msg=\"S no\"/>\n");
    }
}
