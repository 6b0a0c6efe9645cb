//! Writing one answer: held back while it is small, streamed once it is not.
//!
//! As in the servlet, whose container has a buffer of 8 KiB: an answer that fits gets a
//! `Content-Length`, and its headers can still change until then (the age of an error); anything
//! larger, or with a keepalive in it, is sent in chunks to HTTP/1.1 and up to the close to
//! HTTP/1.0, and its headers are final.

use std::fmt::Write as _;

use plimsoll_wire::frontier::frame;

use super::config::unix_now;
use crate::date::date;
use crate::http::{Framing, Head, HttpConnection, Response};

/// Bytes held back: the servlet container's buffer.
const HELD: usize = 8 * 1024;

/// One answer under way.
pub(super) struct Answer<'a> {
    connection: &'a mut HttpConnection,
    head: &'a Head,
    /// Body bytes that are not sent yet. Small: pieces of data do not pass through it.
    pub(super) held: Vec<u8>,
    committed: Option<Framing>,
    max_age: u64,
    /// Caches may keep nothing, whatever else is said.
    kept: bool,
    /// `stale-if-error` in the header, as the client's `max-stale` asked for.
    stale: Option<String>,
    /// When what is answered changed last, seconds since 1970.
    last_modified: Option<u64>,
}

impl<'a> Answer<'a> {
    pub(super) fn new(
        connection: &'a mut HttpConnection,
        head: &'a Head,
        max_age: u64,
        stale_if_error: bool,
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
        }
    }

    /// Headers have left: later errors can only be told in the body.
    pub(super) fn is_committed(&self) -> bool {
        self.committed.is_some()
    }

    /// The age that caches are told, while that is still possible.
    pub(super) fn set_max_age(&mut self, seconds: u64) {
        self.max_age = seconds;
    }

    /// Caches may not keep the answer: nobody could tell them when it is old.
    pub(super) fn keep_nowhere(&mut self) {
        self.kept = false;
        self.stale = None;
    }

    /// A payload error: its age, and the oldest possible `Last-Modified`, so that any later answer
    /// replaces it.
    pub(super) fn set_error_age(&mut self, seconds: u64) {
        self.max_age = seconds;
        self.last_modified = Some(0);
    }

    /// What `Last-Modified` says, while that is still possible.
    pub(super) fn set_last_modified(&mut self, seconds: u64) {
        self.last_modified = Some(seconds);
    }

    /// The answer carries `Last-Modified`.
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

    /// Sends what is held, followed by `piece`. False when the client does not take it.
    pub(super) async fn send(&mut self, piece: &[u8]) -> bool {
        let length = self.held.len() + piece.len();
        if length == 0 {
            return true;
        }
        let first = self.committed.is_none();
        let framing = *self.committed.get_or_insert(if self.head.minor == 0 {
            Framing::Close
        } else {
            Framing::Chunked
        });
        let mut out = if first {
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
        let taken = self.connection.write(&[&out, piece, end]).await;
        self.connection.recycle(out);
        taken
    }

    /// Returns when the client has closed the connection.
    pub(super) async fn client_left(&self) {
        self.connection.closed().await;
    }

    /// Adds a piece of data: held while everything fits, else sent.
    pub(super) async fn data(&mut self, piece: &[u8]) -> bool {
        if self.committed.is_none() && self.held.len() + piece.len() <= HELD {
            self.held.extend_from_slice(piece);
            return true;
        }
        self.send(piece).await
    }

    /// Adds the last piece of a payload: it travels with what is said of it, one system call less
    /// for every answer.
    pub(super) async fn last(&mut self, piece: &[u8]) -> bool {
        if self.committed.is_some() && self.held.len() + piece.len() <= 4 * HELD {
            self.held.extend_from_slice(piece);
            return true;
        }
        self.data(piece).await
    }

    /// Instead of an answer: what the client has is as good. Without body, type and length.
    pub(super) async fn not_modified(self) -> bool {
        let response = self.response(304, false);
        let out = self.connection.head_of(self.head, &response, Framing::None);
        let taken = self.connection.write(&[&out]).await;
        self.connection.recycle(out);
        taken
    }

    /// Sends a text that is no document.
    pub(super) async fn plain(self, text: &[u8]) -> bool {
        let response = Response {
            content_type: "text/plain;charset=US-ASCII",
            ..self.response(200, false)
        };
        let framing = Framing::Length(text.len());
        let out = self.connection.head_of(self.head, &response, framing);
        let taken = self.connection.write(&[&out, text]).await;
        self.connection.recycle(out);
        taken
    }

    /// Sends what is left and ends the answer. `cut` leaves the end out, so that no cache keeps the
    /// answer.
    pub(super) async fn finish(mut self, status: u16, cut: bool) -> bool {
        if self.head.method() == "HEAD" {
            // An error always, and small: the method is refused before anything is sent.
            let response = self.response(status, false);
            let framing = Framing::Length(self.held.len());
            let out = self.connection.head_of(self.head, &response, framing);
            return self.connection.write(&[&out]).await;
        }
        if self.committed.is_none() && self.held.len() <= HELD && !cut {
            let response = self.response(status, status == 503);
            let mut out = self
                .connection
                .head_of(self.head, &response, Framing::Length(self.held.len()));
            out.extend_from_slice(&self.held);
            let taken = self.connection.write(&[&out]).await;
            self.connection.recycle(out);
            return taken;
        }
        if cut || self.head.minor == 0 {
            self.send(b"").await;
            return false;
        }
        // The last chunk travels with what is held: one packet less for every answer.
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
        self.connection.write(&[&out]).await
    }
}

/// The number of `max-stale=N` in the request's `Cache-Control`.
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
