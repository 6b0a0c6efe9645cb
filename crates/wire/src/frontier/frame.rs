//! The XML around the payloads, exact to the byte (servlet 3.42).
//!
//! Every function appends to a buffer, in the order of a document: [`begin`], [`transaction`], then
//! for each payload [`payload`], its data and [`quality`], then [`end_transaction`],
//! [`global_error`] if there is an error, and [`end`].

use super::armor::{Digest, Seal};

/// Media type of every document.
pub const CONTENT_TYPE: &str = "text/xml;charset=US-ASCII";
/// Version in the document: that of the servlet whose format it has.
pub const VERSION: &str = "3.42";
/// Sent in `<data>` before any base64, while the client waits.
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

/// Opens the transaction, which contains `payloads` payloads.
pub fn transaction(out: &mut Vec<u8>, payloads: usize) {
    text(
        out,
        &[" <transaction payloads=\"", &payloads.to_string(), "\">\n"],
    );
}

/// Opens a payload and its data. The three values are those of the request.
pub fn payload(out: &mut Vec<u8>, object: &str, version: &str, encoding: &str) {
    // The servlet does not escape them. Escaping does not change valid values, and keeps hostile
    // values within the quotes.
    out.extend_from_slice(b"  <payload type=\"");
    escape(out, object);
    out.extend_from_slice(b"\" version=\"");
    escape(out, version);
    out.extend_from_slice(b"\" encoding=\"");
    escape(out, encoding);
    out.extend_from_slice(b"\">\n   <data>");
}

/// Values of the `<quality>` element.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quality {
    /// Error of the payload, which follows the name of the server; none for a correct payload.
    pub error: Option<String>,
    /// Time for which the response may be cached, s, if the HTTP header was sent before it was
    /// known; 0: not stated.
    pub max_age: u64,
    /// Digest and size; none if the payload failed before its encoder was created.
    pub seal: Option<Seal>,
    /// Signature in base64, which replaces the digest of a signed response.
    pub signature: Option<String>,
    /// Number of rows; none for an error.
    pub records: Option<u64>,
}

/// Closes the data and the payload. The attributes are in the order of the servlet.
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

/// Appends an error of the whole document, after a transaction or instead of one.
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

/// XML-escapes into US-ASCII. Characters that US-ASCII does not contain become `?`, as with Java's
/// encoder; newlines are not escaped.
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
    fn the_document_of_the_worked_example_without_compression_is_exact() {
        let document = example::document("BLOB", &example::plain());
        assert_eq!(document.len(), 563);
        assert_eq!(String::from_utf8(document).unwrap(), example::BLOB_DOCUMENT);
    }

    /// The compressed bytes are those of the servlet, so that the test does not depend on the zlib
    /// library.
    #[test]
    fn the_document_of_the_worked_example_with_compression_is_exact() {
        let document = example::zipped_document();
        assert_eq!(document.len(), 522);
        assert!(
            String::from_utf8(document)
                .unwrap()
                .contains("md5=\"c8b48c2418a513b0631198280ddab653\" records=\"2\" ")
        );
    }

    #[test]
    fn errors_are_escaped_and_their_attributes_are_in_order() {
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
