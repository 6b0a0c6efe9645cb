//! A small HTTP/1.1 server side, shared by the services.
//!
//! Not hyper or axum: the gateway must send exact bytes (chunked only to 1.1, `Content-Length` for
//! small complete bodies only, a body cut off on purpose), and a reference service has to cost less
//! than the tool that loads it. Heads are parsed by httparse; bodies need a `Content-Length` (a
//! chunked request is answered with 411).
//!
//! Bounds: a head has 64 KiB and 20 s, a body its configured size and 30 s, an answer 30 s for each
//! piece, an idle connection 5 minutes.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::time::Duration;

use memchr::memchr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

/// Longest request head, bytes. Ours is roomier than the 8 KiB of Frontier clients, and a 1 MB head
/// is refused early.
const MAX_HEAD: usize = 64 * 1024;
/// Most header fields.
const MAX_FIELDS: usize = 64;
/// From the first byte of a head to its last.
const HEAD_TIMEOUT: Duration = Duration::from_secs(20);
/// For a request body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// For a client to take one piece (at most about 100 kB) of an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Between requests. Longer than the think times that people test with.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// After a refusal: how long, and how much, is read to let the answer arrive before the close
/// resets the connection.
const LINGER: (Duration, usize) = (Duration::from_secs(2), 4 * 1024 * 1024);

/// A parsed request head. Reused from request to request.
#[derive(Debug, Default)]
pub(crate) struct Head {
    raw: Vec<u8>,
    method: Range<usize>,
    target: Range<usize>,
    fields: Vec<(Range<usize>, Range<usize>)>,
    /// 0 for HTTP/1.0, 1 for 1.1.
    pub(crate) minor: u8,
    /// The connection stays open after the answer.
    pub(crate) keep_alive: bool,
    length: u64,
}

impl Head {
    fn text(&self, range: &Range<usize>) -> &str {
        // httparse lets only ASCII through for methods, and UTF-8 for targets.
        std::str::from_utf8(&self.raw[range.clone()]).unwrap_or_default()
    }

    pub(crate) fn method(&self) -> &str {
        self.text(&self.method)
    }

    pub(crate) fn target(&self) -> &str {
        self.text(&self.target)
    }

    /// The first field of this name; a value that is no text counts as absent.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(found, _)| self.raw[found.clone()].eq_ignore_ascii_case(name.as_bytes()))
            .and_then(|(_, value)| std::str::from_utf8(&self.raw[value.clone()]).ok())
    }

    /// Takes a head from the start of `bytes`. `Ok(None)`: not complete yet. `Ok(Some(n))`: it was
    /// `n` bytes.
    fn parse(&mut self, bytes: &[u8]) -> Result<Option<usize>, Refusal> {
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
        self.settle()?;
        Ok(Some(length))
    }

    /// What the fields mean for this connection.
    fn settle(&mut self) -> Result<(), Refusal> {
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

/// Why a request is not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    Malformed,
    HeadTooBig,
    BodyTooBig,
    NeedsLength,
    TooSlow,
}

impl Refusal {
    fn answer(self) -> (u16, &'static str) {
        match self {
            Self::Malformed => (400, "the request is not HTTP/1.x\n"),
            Self::TooSlow => (408, "the request did not arrive in time\n"),
            Self::NeedsLength => (411, "a request body needs Content-Length here\n"),
            Self::BodyTooBig => (413, "the request body is longer than this service accepts\n"),
            Self::HeadTooBig => (
                431,
                "the request head is longer than 64 KiB or has more than 64 fields\n",
            ),
        }
    }
}

/// What came of waiting for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Head and body are filled in.
    Request,
    /// Something else came; it has been answered, and the connection is done.
    Refused,
    /// The client left, or was idle for too long.
    Closed,
}

/// The head of an answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    /// Further fields, each ended by `\r\n`.
    pub(crate) fields: String,
    /// Ends the connection after this answer, whatever the client asked for.
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

/// How the end of an answer's body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// `Content-Length`.
    Length(usize),
    /// Chunks, for HTTP/1.1.
    Chunked,
    /// The end of the connection, for HTTP/1.0.
    Close,
    /// There is none, as with 304.
    None,
}

/// One client's connection.
pub(crate) struct HttpConnection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Start of what is not consumed yet: a pipelined request may follow.
    from: usize,
    max_body: usize,
    /// An answer has announced that it is the last.
    done: bool,
    out: Vec<u8>,
}

impl HttpConnection {
    pub(crate) fn new(stream: TcpStream, max_body: usize) -> Self {
        Self {
            stream,
            buffer: Vec::with_capacity(4096),
            from: 0,
            max_body,
            done: false,
            out: Vec::new(),
        }
    }

    /// Waits for the next request and reads it whole. A refusal has been answered when this
    /// returns.
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
        let mut seen = 0;
        loop {
            // A head ends with a newline: no need to parse before one has come.
            if memchr(b'\n', &self.buffer[seen..]).is_some()
                && let Some(length) = head.parse(&self.buffer)?
            {
                self.from = length;
                break;
            }
            seen = self.buffer.len();
            if seen > MAX_HEAD {
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
        // One large body must not keep its memory for the life of the connection.
        if self.buffer.capacity() > MAX_HEAD && self.buffer.len() == self.from {
            self.buffer = Vec::with_capacity(4096);
            self.from = 0;
        }
        Ok(true)
    }

    async fn fill(&mut self) -> io::Result<usize> {
        self.stream.read_buf(&mut self.buffer).await
    }

    /// Writes a whole answer. False when the connection is of no further use.
    pub(crate) async fn respond(&mut self, head: &Head, response: &Response, body: &[u8]) -> bool {
        let mut out = self.head_of(head, response, Framing::Length(body.len()));
        let sent = if head.method() == "HEAD" {
            self.write(&[&out]).await
        } else if body.len() <= 16 * 1024 {
            out.extend_from_slice(body); // one small copy is cheaper than a second slice for the kernel
            self.write(&[&out]).await
        } else {
            self.write(&[&out, body]).await
        };
        self.out = out;
        sent && !self.done
    }

    /// The bytes of an answer's head, in a buffer to be given back by [`HttpConnection::recycle`]
    /// where speed matters.
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

    /// Takes back the buffer of [`HttpConnection::head_of`].
    pub(crate) fn recycle(&mut self, out: Vec<u8>) {
        self.out = out;
    }

    /// Writes pieces one after the other, in as few system calls as the kernel allows.
    pub(crate) async fn write(&mut self, pieces: &[&[u8]]) -> bool {
        let write = async {
            let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
            let mut left = slices.as_mut_slice();
            IoSlice::advance_slices(&mut left, 0); // drops empty ones
            while !left.is_empty() {
                let written = self.stream.write_vectored(left).await?;
                if written == 0 {
                    return Err(io::Error::from(io::ErrorKind::WriteZero));
                }
                IoSlice::advance_slices(&mut left, written);
            }
            Ok(())
        };
        let taken = matches!(timeout(WRITE_TIMEOUT, write).await, Ok(Ok(())));
        self.done |= !taken;
        taken
    }

    /// Returns when the client has closed its side, and takes no bytes.
    pub(crate) async fn closed(&self) {
        let mut byte = [0];
        // peek never takes bytes away. A pipelined request makes it return at once for ever: then
        // nobody watches.
        if let Ok(1..) = self.stream.peek(&mut byte).await {
            std::future::pending::<()>().await;
        }
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
        let _ = self.stream.shutdown().await;
        let mut left = LINGER.1;
        let mut scratch = vec![0; 16 * 1024];
        let drain = async {
            while let Ok(read @ 1..) = self.stream.read(&mut scratch).await
                && left > 0
            {
                left = left.saturating_sub(read);
            }
        };
        let _ = timeout(LINGER.0, drain).await;
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        304 => "Not Modified",
        400 => "Bad Request",
        404 => "Not Found",
        408 => "Request Timeout",
        411 => "Length Required",
        413 => "Content Too Large",
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
    fn heads() {
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
    fn refused_heads() {
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
