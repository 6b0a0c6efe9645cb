//! A small HTTP/1.1 server for all services.
//!
//! Rejected: hyper and axum. The gateway must send exact bytes (chunks only to HTTP/1.1,
//! `Content-Length` only for small complete bodies, an intentionally truncated body), and a
//! reference service must cost less than the load generator. Heads are parsed by httparse. Bodies
//! need a `Content-Length`: the response to a chunked request is 411.
//!
//! Limits: a head 64 KiB and 20 s, a body its configured length and 30 s, a response 30 s for each
//! piece, an idle connection 5 minutes.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::time::Duration;

use memchr::memchr;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

/// Maximum length of a request head in bytes: more than the 8 KiB of Frontier clients, and a head
/// of 1 MB is rejected early.
pub(crate) const MAX_HEAD: usize = 64 * 1024;
/// Maximum number of header fields.
const MAX_FIELDS: usize = 64;
/// Maximum time from the first byte of a head to its last.
const HEAD_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum time for a request body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time for a client to read one piece (at most about 100 kB) of a response.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time between requests, longer than usual think times.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum time and number of bytes that are read after a rejected request. Otherwise the close
/// would reset the connection before the client has read the response.
const LINGER: (Duration, usize) = (Duration::from_secs(2), 4 * 1024 * 1024);

/// A parsed request head. It is reused for the next request.
#[derive(Debug, Default)]
pub(crate) struct Head {
    raw: Vec<u8>,
    method: Range<usize>,
    target: Range<usize>,
    fields: Vec<(Range<usize>, Range<usize>)>,
    /// 0 for HTTP/1.0, 1 for 1.1.
    pub(crate) minor: u8,
    /// Whether the connection stays open after the response.
    pub(crate) keep_alive: bool,
    /// Length of the body, bytes.
    pub(crate) length: u64,
}

impl Head {
    fn text(&self, range: &Range<usize>) -> &str {
        // httparse accepts only ASCII in methods and only UTF-8 in targets.
        std::str::from_utf8(&self.raw[range.clone()]).unwrap_or_default()
    }

    pub(crate) fn method(&self) -> &str {
        self.text(&self.method)
    }

    pub(crate) fn target(&self) -> &str {
        self.text(&self.target)
    }

    /// Value of the first field of this name. A value that is not UTF-8 counts as absent.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(field, _)| self.raw[field.clone()].eq_ignore_ascii_case(name.as_bytes()))
            .and_then(|(_, value)| std::str::from_utf8(&self.raw[value.clone()]).ok())
    }

    /// Parses a head at the start of `bytes`. `Ok(None)`: it is incomplete. `Ok(Some(n))`: it has
    /// `n` bytes.
    pub(crate) fn parse(&mut self, bytes: &[u8]) -> Result<Option<usize>, Refusal> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        let length = match request.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(Refusal::HeadTooBig),
            Err(_) => return Err(Refusal::Malformed),
        };
        let base = bytes.as_ptr() as usize;
        let range = |part: &[u8]| {
            let start = part.as_ptr() as usize - base;
            start..start + part.len()
        };
        self.method = range(request.method.unwrap_or_default().as_bytes());
        self.target = range(request.path.unwrap_or_default().as_bytes());
        self.minor = request.version.unwrap_or(1);
        self.fields.clear();
        self.fields.extend(
            request
                .headers
                .iter()
                .map(|field| (range(field.name.as_bytes()), range(field.value))),
        );
        self.raw.clear();
        self.raw.extend_from_slice(&bytes[..length]);
        self.evaluate_fields()?;
        Ok(Some(length))
    }

    /// Sets `keep_alive` and `length` from the fields.
    fn evaluate_fields(&mut self) -> Result<(), Refusal> {
        self.keep_alive = match self.field("connection") {
            Some(value) if value.eq_ignore_ascii_case("close") => false,
            Some(value) if value.eq_ignore_ascii_case("keep-alive") => true,
            _ => self.minor == 1,
        };
        if self.field("transfer-encoding").is_some() {
            return Err(Refusal::NeedsLength);
        }
        self.length = match self.field("content-length") {
            Some(value) => value.trim().parse().map_err(|_| Refusal::Malformed)?,
            None => 0,
        };
        Ok(())
    }
}

/// Reason why a request is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Malformed,
    HeadTooBig,
    BodyTooBig,
    NeedsLength,
    TooSlow,
}

impl Refusal {
    pub(crate) fn answer(self) -> (u16, &'static str) {
        match self {
            Self::Malformed => (400, "the request is not valid HTTP/1.0 or HTTP/1.1\n"),
            Self::TooSlow => (
                408,
                "the request did not arrive in time: at most 20 s for the head and 30 s for the body\n",
            ),
            Self::NeedsLength => (411, "a request with a body needs a Content-Length\n"),
            Self::BodyTooBig => (413, "the request body is longer than this service accepts\n"),
            Self::HeadTooBig => (
                431,
                "the request head is longer than 64 KiB or has more than 64 fields\n",
            ),
        }
    }
}

/// Result of waiting for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// A request has arrived: head and body are set.
    Request,
    /// An invalid request has arrived. The response was sent, and the connection must be closed.
    Refused,
    /// The client has closed the connection, or was idle for too long.
    Closed,
}

/// The head of a response.
#[derive(Debug, Clone, Default)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    /// Further fields, each with `\r\n` at its end.
    pub(crate) fields: String,
    /// Closes the connection after this response, even if the client asked for keep-alive.
    pub(crate) close: bool,
}

impl Response {
    pub(crate) fn text(status: u16) -> Self {
        Self {
            status,
            content_type: "text/plain",
            ..Self::default()
        }
    }
}

/// How the client detects the end of a response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// By the `Content-Length`.
    Length(usize),
    /// By the last chunk, with HTTP/1.1.
    Chunked,
    /// By the end of the connection, with HTTP/1.0.
    Close,
    /// The response has no body (304).
    None,
}

/// A connection from a client.
pub(crate) struct HttpConnection<S = TcpStream> {
    stream: S,
    buffer: Vec<u8>,
    /// Index of the first byte that was not consumed: a pipelined request may follow.
    from: usize,
    max_body: usize,
    /// The connection closes after the current response.
    done: bool,
    out: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> HttpConnection<S> {
    pub(crate) fn new(stream: S, max_body: usize) -> Self {
        Self {
            stream,
            buffer: Vec::with_capacity(4096),
            from: 0,
            max_body,
            done: false,
            out: Vec::new(),
        }
    }

    /// Waits for the next request and reads head and body. An invalid request has been answered
    /// when this returns.
    pub(crate) async fn next(&mut self, head: &mut Head, body: &mut Vec<u8>) -> Next {
        body.clear();
        if self.done {
            return Next::Closed;
        }
        match self.read(head, body).await {
            Ok(true) => Next::Request,
            Ok(false) => Next::Closed,
            Err(refusal) => {
                self.refuse(refusal).await;
                Next::Refused
            }
        }
    }

    async fn read(&mut self, head: &mut Head, body: &mut Vec<u8>) -> Result<bool, Refusal> {
        self.buffer.drain(..self.from);
        self.from = 0;
        if self.buffer.is_empty()
            && !matches!(timeout(IDLE_TIMEOUT, self.fill()).await, Ok(Ok(read)) if read > 0)
        {
            return Ok(false);
        }
        let deadline = Instant::now() + HEAD_TIMEOUT;
        let mut searched = 0;
        loop {
            // A head ends with a newline, so it is parsed only when another newline has arrived.
            if memchr(b'\n', &self.buffer[searched..]).is_some()
                && let Some(length) = head.parse(&self.buffer)?
            {
                self.from = length;
                break;
            }
            searched = self.buffer.len();
            if searched > MAX_HEAD {
                return Err(Refusal::HeadTooBig);
            }
            match timeout_at(deadline, self.fill()).await {
                Ok(Ok(1..)) => {}
                Ok(_) => return Ok(false),
                Err(_) => return Err(Refusal::TooSlow),
            }
        }
        if head.length == 0 {
            Ok(true)
        } else {
            self.read_body(head, body).await
        }
    }

    async fn read_body(&mut self, head: &Head, body: &mut Vec<u8>) -> Result<bool, Refusal> {
        if head.length > self.max_body as u64 {
            return Err(Refusal::BodyTooBig);
        }
        let length = head.length as usize;
        if head
            .field("expect")
            .is_some_and(|value| value.eq_ignore_ascii_case("100-continue"))
            && self
                .stream
                .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
                .await
                .is_err()
        {
            return Ok(false);
        }
        let deadline = Instant::now() + BODY_TIMEOUT;
        while self.buffer.len() - self.from < length {
            match timeout_at(deadline, self.fill()).await {
                Ok(Ok(1..)) => {}
                Ok(_) => return Ok(false),
                Err(_) => return Err(Refusal::TooSlow),
            }
        }
        body.extend_from_slice(&self.buffer[self.from..self.from + length]);
        self.from += length;
        // The memory of a large body is released before the end of the connection.
        if self.buffer.capacity() > MAX_HEAD && self.buffer.len() == self.from {
            self.buffer = Vec::with_capacity(4096);
            self.from = 0;
        }
        Ok(true)
    }

    async fn fill(&mut self) -> io::Result<usize> {
        self.stream.read_buf(&mut self.buffer).await
    }

    /// Writes a complete response. Returns false if the connection must be closed.
    pub(crate) async fn respond(&mut self, head: &Head, response: &Response, body: &[u8]) -> bool {
        let mut out = self.head_of(head, response, Framing::Length(body.len()));
        let sent = if head.method() == "HEAD" {
            self.write(&[&out]).await
        } else if body.len() <= 16 * 1024 {
            out.extend_from_slice(body); // a small copy costs less than a second slice in the kernel
            self.write(&[&out]).await
        } else {
            self.write(&[&out, body]).await
        };
        self.out = out;
        sent && !self.done
    }

    /// The bytes of a response head. [`HttpConnection::recycle`] returns their buffer, to save an
    /// allocation.
    pub(crate) fn head_of(&mut self, head: &Head, response: &Response, framing: Framing) -> Vec<u8> {
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        self.done = response.close || !head.keep_alive || framing == Framing::Close;
        let status = response.status.to_string();
        let mut put = |parts: &[&str]| {
            for part in parts {
                out.extend_from_slice(part.as_bytes());
            }
        };
        put(&["HTTP/1.1 ", &status, " ", reason(response.status), "\r\n"]);
        if framing != Framing::None {
            put(&["Content-Type: ", response.content_type, "\r\n"]);
        }
        put(&[&response.fields]);
        match framing {
            Framing::Length(length) => put(&["Content-Length: ", &length.to_string(), "\r\n"]),
            Framing::Chunked => put(&["Transfer-Encoding: chunked\r\n"]),
            Framing::Close | Framing::None => {}
        }
        if self.done {
            put(&["Connection: close\r\n"]);
        } else if head.minor == 0 {
            put(&["Connection: keep-alive\r\n"]);
        }
        put(&["\r\n"]);
        out
    }

    /// Stores the buffer of [`HttpConnection::head_of`] for the next response.
    pub(crate) fn recycle(&mut self, out: Vec<u8>) {
        self.out = out;
    }

    /// Writes the pieces in order, in as few system calls as possible. Returns false if the client
    /// does not read them.
    pub(crate) async fn write(&mut self, pieces: &[&[u8]]) -> bool {
        let write = async {
            let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
            let mut unsent = slices.as_mut_slice();
            IoSlice::advance_slices(&mut unsent, 0); // removes empty slices
            while !unsent.is_empty() {
                let written = self.stream.write_vectored(unsent).await?;
                if written == 0 {
                    return Err(io::Error::from(io::ErrorKind::WriteZero));
                }
                IoSlice::advance_slices(&mut unsent, written);
            }
            Ok(())
        };
        let sent = matches!(timeout(WRITE_TIMEOUT, write).await, Ok(Ok(())));
        self.done |= !sent;
        sent
    }

    async fn refuse(&mut self, refusal: Refusal) {
        let (status, text) = refusal.answer();
        let head = Head {
            minor: 1,
            ..Head::default()
        };
        let response = Response {
            close: true,
            ..Response::text(status)
        };
        self.respond(&head, &response, text.as_bytes()).await;
        close_refused(&mut self.stream).await;
    }
}

impl HttpConnection {
    /// Returns when the client has closed its side. Consumes no bytes.
    pub(crate) async fn closed(&self) {
        let mut byte = [0];
        // peek consumes no bytes. After a pipelined request it would return immediately each time:
        // the end of such a connection is not detected here.
        if let Ok(1..) = self.stream.peek(&mut byte).await {
            std::future::pending::<()>().await;
        }
    }
}

/// Closes a connection whose client may still be sending a request that was refused, so that it
/// can read the reason.
pub(crate) async fn close_refused<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) {
    let _ = stream.shutdown().await;
    let mut remaining = LINGER.1;
    let mut scratch = vec![0; 16 * 1024];
    let drain = async {
        while let Ok(read @ 1..) = stream.read(&mut scratch).await
            && remaining > 0
        {
            remaining = remaining.saturating_sub(read);
        }
    };
    let _ = timeout(LINGER.0, drain).await;
}

pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        304 => "Not Modified",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        411 => "Length Required",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<Head>, Refusal> {
        let mut head = Head::default();
        Ok(head.parse(text.as_bytes())?.map(|_| head))
    }

    #[test]
    fn heads_are_parsed() {
        let head = parse("GET /a HTTP/1.0\r\nHost: h\r\nX-Frontier-Id: me\r\n\r\nrest")
            .unwrap()
            .unwrap();
        assert_eq!(
            (head.method(), head.target(), head.minor, head.keep_alive),
            ("GET", "/a", 0, false)
        );
        assert_eq!(head.field("x-frontier-id"), Some("me"));
        assert_eq!(head.field("x-frontier"), None);
        assert!(parse("GET / HTTP/1.1\r\n\r\n").unwrap().unwrap().keep_alive);
        assert!(
            !parse("GET / HTTP/1.1\r\nConnection: Close\r\n\r\n")
                .unwrap()
                .unwrap()
                .keep_alive
        );
        assert!(
            parse("GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
                .unwrap()
                .unwrap()
                .keep_alive
        );
        assert!(parse("GET / HTTP/1.1\r\nHost").unwrap().is_none());
    }

    #[test]
    fn invalid_heads_are_rejected() {
        assert_eq!(parse("\u{16}\u{3}\u{1}\n\n").err(), Some(Refusal::Malformed));
        assert_eq!(
            parse("GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n").err(),
            Some(Refusal::Malformed)
        );
        assert_eq!(
            parse("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").err(),
            Some(Refusal::NeedsLength)
        );
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(65));
        assert_eq!(parse(&many).err(), Some(Refusal::HeadTooBig));
    }
}
