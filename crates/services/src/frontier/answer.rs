//! Writes one response. A small response is held back, a larger one is streamed.
//!
//! This is the behaviour of the servlet, whose container has a buffer of 8 KiB. A response that
//! fits has a `Content-Length`, and its headers can change until it is complete (the age of an
//! error). A larger response, or one with a keepalive, is sent in chunks with HTTP/1.1 and up to
//! the end of the connection with HTTP/1.0. Its headers are then final.

use std::fmt::Write as _;
use std::time::Instant;

use plimsoll_wire::frontier::frame;

use super::config::unix_now;
use super::tally::{Step, StepParts};
use crate::date::date;
use crate::http::{Framing, Head, HttpConnection, Response};

/// Maximum number of bytes that are held back: the buffer of the servlet's container.
const HELD: usize = 8 * 1024;

/// A response that is being written.
pub(super) struct Answer<'a> {
    connection: &'a mut HttpConnection,
    head: &'a Head,
    /// Bytes of the body that were not sent. It stays small, because pieces of data are not copied
    /// to it.
    pub(super) held: Vec<u8>,
    /// The framing, after the headers were sent.
    committed: Option<Framing>,
    max_age: u64,
    /// Whether caches may store the response. Otherwise its age is 0.
    kept: bool,
    /// Value of `stale-if-error`: the `max-stale` of the client.
    stale: Option<String>,
    /// Time of the last change of the data, in seconds since 1970.
    last_modified: Option<u64>,
    sending: StepParts<'a>,
}

impl<'a> Answer<'a> {
    pub(super) fn new(
        connection: &'a mut HttpConnection,
        head: &'a Head,
        max_age: u64,
        stale_if_error: bool,
        sending: &'a Step,
    ) -> Self {
        let stale = if stale_if_error { max_stale(head) } else { None };
        Self {
            connection,
            head,
            held: Vec::with_capacity(1024),
            committed: None,
            max_age,
            kept: true,
            stale,
            last_modified: None,
            sending: StepParts::new(sending),
        }
    }

    async fn write(&mut self, parts: &[&[u8]]) -> bool {
        let begin = Instant::now();
        let sent = self.connection.write(parts).await;
        self.sending.add(begin.elapsed());
        sent
    }

    /// Whether the headers were sent. Later errors can then be reported only in the body.
    pub(super) fn is_committed(&self) -> bool {
        self.committed.is_some()
    }

    /// Sets the maximum age in caches. Without effect after the headers were sent.
    pub(super) fn set_max_age(&mut self, seconds: u64) {
        self.max_age = seconds;
    }

    /// Forbids caches to store the response, because they could not be notified of a change.
    pub(super) fn forbid_caching(&mut self) {
        self.kept = false;
        self.stale = None;
    }

    /// Sets the maximum age for a payload error. `Last-Modified` is then the oldest possible time,
    /// so that any later response replaces this one.
    pub(super) fn set_error_age(&mut self, seconds: u64) {
        self.max_age = seconds;
        self.last_modified = Some(0);
    }

    /// Sets `Last-Modified`. Without effect after the headers were sent.
    pub(super) fn set_last_modified(&mut self, seconds: u64) {
        self.last_modified = Some(seconds);
    }

    /// Whether the response has a `Last-Modified`.
    pub(super) fn has_last_modified(&self) -> bool {
        self.last_modified.is_some()
    }

    fn response(&self, status: u16, close: bool) -> Response {
        let mut fields = format!(
            "Date: {}\r\nCache-Control: max-age={}",
            date(unix_now()),
            if self.kept { self.max_age } else { 0 }
        );
        if let Some(stale) = &self.stale {
            // Writing to a String cannot fail.
            let _ = write!(fields, ", stale-if-error={stale}");
        }
        fields.push_str("\r\n");
        if let Some(seconds) = self.last_modified {
            let _ = write!(fields, "Last-Modified: {}\r\n", date(seconds));
        }
        Response {
            status,
            content_type: frame::CONTENT_TYPE,
            fields,
            close,
        }
    }

    /// Sends the bytes that are held, followed by `piece`. Returns false if the client does not
    /// read them.
    pub(super) async fn send(&mut self, piece: &[u8]) -> bool {
        let length = self.held.len() + piece.len();
        if length == 0 {
            return true;
        }
        let is_first = self.committed.is_none();
        let framing = *self.committed.get_or_insert(if self.head.minor == 0 {
            Framing::Close
        } else {
            Framing::Chunked
        });
        let mut out = if is_first {
            let response = self.response(200, false);
            self.connection.head_of(self.head, &response, framing)
        } else {
            Vec::with_capacity(16 + self.held.len())
        };
        let end: &[u8] = if framing == Framing::Chunked {
            out.extend_from_slice(format!("{length:x}\r\n").as_bytes());
            b"\r\n"
        } else {
            b""
        };
        out.extend_from_slice(&self.held);
        self.held.clear();
        let sent = self.write(&[&out, piece, end]).await;
        self.connection.recycle(out);
        sent
    }

    /// Returns when the client has closed the connection.
    pub(super) async fn client_left(&self) {
        self.connection.closed().await;
    }

    /// Adds a piece of data. It is held back if the whole response fits, otherwise sent.
    pub(super) async fn data(&mut self, piece: &[u8]) -> bool {
        if self.committed.is_none() && self.held.len() + piece.len() <= HELD {
            self.held.extend_from_slice(piece);
            return true;
        }
        self.send(piece).await
    }

    /// Adds the last piece of a payload. It is sent together with the following text, which saves a
    /// system call per response.
    pub(super) async fn last(&mut self, piece: &[u8]) -> bool {
        if self.committed.is_some() && self.held.len() + piece.len() <= 4 * HELD {
            self.held.extend_from_slice(piece);
            return true;
        }
        self.data(piece).await
    }

    /// Responds that the client has the current data (304), without body, type and length.
    pub(super) async fn not_modified(mut self) -> bool {
        let response = self.response(304, false);
        let out = self.connection.head_of(self.head, &response, Framing::None);
        let sent = self.write(&[&out]).await;
        self.connection.recycle(out);
        sent
    }

    /// Sends a text that is not a Frontier document.
    pub(super) async fn plain(mut self, text: &[u8]) -> bool {
        let response = Response {
            content_type: "text/plain;charset=US-ASCII",
            ..self.response(200, false)
        };
        let framing = Framing::Length(text.len());
        let out = self.connection.head_of(self.head, &response, framing);
        let sent = self.write(&[&out, text]).await;
        self.connection.recycle(out);
        sent
    }

    /// Sends the bytes that are held and ends the response. `cut` omits the end of the body, so
    /// that no cache stores the response.
    pub(super) async fn finish(mut self, status: u16, cut: bool) -> bool {
        if self.head.method() == "HEAD" {
            // This is always an error, and small, because the method is refused first.
            let response = self.response(status, false);
            let framing = Framing::Length(self.held.len());
            let out = self.connection.head_of(self.head, &response, framing);
            return self.write(&[&out]).await;
        }
        if self.committed.is_none() && self.held.len() <= HELD && !cut {
            let response = self.response(status, status == 503);
            let mut out = self
                .connection
                .head_of(self.head, &response, Framing::Length(self.held.len()));
            out.extend_from_slice(&self.held);
            let sent = self.write(&[&out]).await;
            self.connection.recycle(out);
            return sent;
        }
        if cut || self.head.minor == 0 {
            self.send(b"").await;
            return false;
        }
        // The last chunk is sent together with the bytes that are held, which saves a packet per
        // response.
        let held = std::mem::take(&mut self.held);
        let mut out = Vec::with_capacity(held.len() + 32);
        if self.committed.is_none() {
            self.committed = Some(Framing::Chunked);
            let response = self.response(status, false);
            out = self.connection.head_of(self.head, &response, Framing::Chunked);
        }
        if !held.is_empty() {
            out.extend_from_slice(format!("{:x}\r\n", held.len()).as_bytes());
            out.extend_from_slice(&held);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"0\r\n\r\n");
        self.write(&[&out]).await
    }
}

/// The number N of `max-stale=N` in the `Cache-Control` of the request.
fn max_stale(head: &Head) -> Option<String> {
    let field = head.field("cache-control")?;
    let value = field[field.find("max-stale")?..].split_once('=')?.1;
    let digits: String = value
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    (!digits.is_empty()).then_some(digits)
}
