//! A small HTTP client for requests between the services of a broker: POST with a JSON body, over
//! one kept connection.

use std::io;
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Maximum time of a request, with the time to connect.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of a response, bytes.
const MAX_RESPONSE: usize = 2 * 1024 * 1024;
/// Capacity of the buffer that is kept between requests, bytes.
const KEPT_CAPACITY: usize = 16 * 1024;

/// Why a request has no response.
#[derive(Debug, Error)]
pub(super) enum CallError {
    #[error("{address}: {source}")]
    Io { address: String, source: io::Error },
    #[error("{0}: no response within 10 s")]
    Late(String),
    #[error("{0}: the response is not HTTP with a Content-Length of at most 2 MiB")]
    Malformed(String),
}

/// A client of one server.
pub(super) struct Client {
    /// HOST:PORT.
    address: String,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

/// Why an attempt failed.
enum Trouble {
    /// The kept connection was closed before any byte of the response.
    Stale,
    Io(io::Error),
    Malformed,
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Client {
    pub(super) fn new(address: String) -> Self {
        Self {
            address,
            stream: None,
            buffer: Vec::new(),
        }
    }

    /// Sends a request, and returns the status and the body of the response. A kept connection that
    /// the server has closed is replaced once.
    pub(super) async fn post(&mut self, path: &str, body: &[u8]) -> Result<(u16, Vec<u8>), CallError> {
        let address = &self.address;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let request = [head.as_bytes(), body].concat();
        let result = timeout(TIMEOUT, async {
            match self.attempt(&request).await {
                Err(Trouble::Stale) => {
                    self.stream = None;
                    self.attempt(&request).await
                }
                result => result,
            }
        })
        .await;
        let address = || self.address.clone();
        let failure = match result {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(Trouble::Io(source))) => CallError::Io {
                address: address(),
                source,
            },
            Ok(Err(Trouble::Stale)) => CallError::Io {
                address: address(),
                source: io::ErrorKind::ConnectionReset.into(),
            },
            Ok(Err(Trouble::Malformed)) => CallError::Malformed(address()),
            Err(_) => CallError::Late(address()),
        };
        self.stream = None;
        Err(failure)
    }

    async fn attempt(&mut self, request: &[u8]) -> Result<(u16, Vec<u8>), Trouble> {
        let is_kept = self.stream.is_some();
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => self.stream.insert(connect(&self.address).await?),
        };
        self.buffer.clear();
        let stale = |error: io::Error| if is_kept { Trouble::Stale } else { error.into() };
        stream.write_all(request).await.map_err(stale)?;
        let (head, response) = loop {
            if let Some(found) = parse(&self.buffer)? {
                break found;
            }
            let is_first = self.buffer.is_empty();
            match stream.read_buf(&mut self.buffer).await {
                Ok(0) if is_first && is_kept => return Err(Trouble::Stale),
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(_) if self.buffer.len() > MAX_RESPONSE => return Err(Trouble::Malformed),
                Ok(_) => {}
                Err(error) if is_first => return Err(stale(error)),
                Err(error) => return Err(error.into()),
            }
        };
        while self.buffer.len() < head + response.length {
            if stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
        let body = self.buffer[head..head + response.length].to_vec();
        if response.closes || self.buffer.len() > head + response.length {
            self.stream = None;
        }
        self.buffer.clear();
        self.buffer.shrink_to(KEPT_CAPACITY);
        Ok((response.status, body))
    }
}

async fn connect(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The head of a response.
#[derive(Debug, PartialEq, Eq)]
struct Response {
    status: u16,
    length: usize,
    closes: bool,
}

/// Parses a head, and returns its length. None: it is incomplete.
fn parse(bytes: &[u8]) -> Result<Option<(usize, Response)>, Trouble> {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut fields);
    let length = match response.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(Trouble::Malformed),
    };
    let field = |name: &str| {
        let mut fields = response.headers.iter();
        let field = fields.find(|field| field.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(field.value).ok()
    };
    let body = field("content-length").and_then(|text| text.trim().parse().ok());
    let body = body.filter(|&body: &usize| body <= MAX_RESPONSE);
    let closes = field("connection").is_some_and(|text| text.eq_ignore_ascii_case("close"));
    let found = Response {
        status: response.code.ok_or(Trouble::Malformed)?,
        length: body.ok_or(Trouble::Malformed)?,
        closes,
    };
    Ok(Some((length, found)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_responses_are_parsed() {
        let parsed = |text: &str| parse(text.as_bytes()).map_err(|_| ());
        let found = parsed("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
        let response = Response {
            status: 200,
            length: 2,
            closes: false,
        };
        assert_eq!(found, Ok(Some((38, response))));
        assert_eq!(parsed("HTTP/1.1 200 OK\r\nContent-Le"), Ok(None));
        for text in [
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n",
        ] {
            assert_eq!(parsed(text), Err(()), "{text}");
        }
    }
}
