//! Parser of the heads of responses.

use plimsoll_model::Cache;

/// Maximum length of a head, bytes.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 128;

/// How the end of a body is determined (RFC 9112, section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// By its length, bytes.
    Length(u64),
    /// By the chunked coding.
    Chunked,
    /// By the end of the connection.
    ToEnd,
}

/// The values of a head that a client needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// HTTP status, three digits.
    pub status: u16,
    /// Length of the head, bytes.
    pub length: usize,
    /// Framing of the body.
    pub framing: Framing,
    /// Whether the connection can be used for another request.
    pub keep: bool,
    /// What caches reported.
    pub cache: Cache,
    /// Time for which the response was in caches, s; none if they did not report it.
    pub age: Option<u64>,
}

/// A head or a chunk is not valid HTTP, or too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyntaxError;

/// Whether `bytes` may contain a complete head. The first `seen` bytes were searched before.
pub fn may_be_whole(bytes: &[u8], seen: usize) -> bool {
    let from = seen.saturating_sub(3);
    memchr::memmem::find(&bytes[from..], b"\n\r\n").is_some()
        || memchr::memmem::find(&bytes[from..], b"\n\n").is_some()
}

/// Parses a head; none if it is not complete. `head_only`: the request was HEAD.
pub fn parse(bytes: &[u8], head_only: bool) -> Result<Option<Head>, SyntaxError> {
    let mut headers = [const { std::mem::MaybeUninit::uninit() }; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        bytes,
        &mut headers,
    );
    let length = match parsed {
        Ok(httparse::Status::Complete(length)) if length <= MAX_HEAD_BYTES => length,
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD_BYTES => return Ok(None),
        Ok(_) | Err(_) => return Err(SyntaxError),
    };
    // A status below 100 has no class (RFC 9110, section 15), so that the framing is not defined.
    let status = response.code.filter(|status| *status >= 100).ok_or(SyntaxError)?;
    let mut headers = Headers {
        keep: response.version == Some(1),
        ..Headers::default()
    };
    for header in response.headers.iter() {
        headers.add(header.name, header.value)?;
    }
    let no_body = head_only || status == 204 || status == 304 || (100..200).contains(&status);
    let framing = if no_body {
        Framing::Length(0)
    } else {
        headers
            .coded
            .or(headers.length.map(Framing::Length))
            .unwrap_or(Framing::ToEnd)
    };
    Ok(Some(Head {
        status,
        length,
        framing,
        keep: headers.keep && framing != Framing::ToEnd,
        cache: headers.cache(),
        age: headers.age,
    }))
}

/// The values of the headers that are read.
#[derive(Default)]
struct Headers {
    keep: bool,
    length: Option<u64>,
    /// From Transfer-Encoding, which has precedence over the length.
    coded: Option<Framing>,
    x_cache: Option<Cache>,
    cache_status: Option<Cache>,
    has_age: bool,
    age: Option<u64>,
}

impl Headers {
    fn add(&mut self, name: &str, value: &[u8]) -> Result<(), SyntaxError> {
        // Comparing the lengths of names first excludes most headers at low cost.
        match name.len() {
            3 if name.eq_ignore_ascii_case("age") => (self.has_age, self.age) = (true, number(value)),
            7 if name.eq_ignore_ascii_case("x-cache") => self.x_cache = x_cache(value).or(self.x_cache),
            10 if name.eq_ignore_ascii_case("connection") => {
                if contains(value, b"close") {
                    self.keep = false;
                } else if contains(value, b"keep-alive") {
                    self.keep = true;
                }
            }
            12 if name.eq_ignore_ascii_case("cache-status") => self.cache_status = cache_status(value),
            14 if name.eq_ignore_ascii_case("content-length") => {
                // A list of equal lengths counts as that length (RFC 9110, section 8.6).
                for value in value.split(|&byte| byte == b',') {
                    let length = number(value).ok_or(SyntaxError)?;
                    if self.length.is_some_and(|known| known != length) {
                        return Err(SyntaxError);
                    }
                    self.length = Some(length);
                }
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                let chunked = value.trim_ascii().to_ascii_lowercase().ends_with(b"chunked");
                self.coded = Some(if chunked { Framing::Chunked } else { Framing::ToEnd });
            }
            _ => {}
        }
        Ok(())
    }

    fn cache(&self) -> Cache {
        self.cache_status
            .or(self.x_cache)
            .unwrap_or(if self.has_age { Cache::Hit } else { Cache::None })
    }
}

fn number(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii();
    // `parse` accepts a sign, which is not allowed here.
    (value.first()?.is_ascii_digit()).then_some(())?;
    std::str::from_utf8(value).ok()?.parse().ok()
}

fn contains(value: &[u8], word: &[u8]) -> bool {
    value
        .windows(word.len())
        .any(|window| window.eq_ignore_ascii_case(word))
}

/// `X-Cache: HIT from proxy.example`, `RefreshHit from ...`, `TCP_REFRESH_UNMODIFIED_HIT`, `MISS
/// from ...`.
fn x_cache(value: &[u8]) -> Option<Cache> {
    if contains(value, b"refresh") && (contains(value, b"hit") || contains(value, b"unmodified")) {
        Some(Cache::Revalidated)
    } else if contains(value, b"hit") {
        Some(Cache::Hit)
    } else if contains(value, b"miss") {
        Some(Cache::Miss)
    } else {
        None
    }
}

/// Value of the header Cache-Status (RFC 9211). The last member is the cache nearest to the client.
fn cache_status(value: &[u8]) -> Option<Cache> {
    let nearest = value.rsplit(|&byte| byte == b',').next()?;
    if contains(nearest, b"fwd=stale") && contains(nearest, b"fwd-status=304") {
        Some(Cache::Revalidated)
    } else if contains(nearest, b"fwd=") {
        Some(Cache::Miss)
    } else if contains(nearest, b"hit") {
        Some(Cache::Hit)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        parse(text.as_bytes(), false).unwrap().unwrap()
    }

    #[test]
    fn the_headers_determine_framing_and_reuse() {
        for (headers, framing, keep) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
                Framing::Length(5),
                true,
            ),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nContent-Length: 5\r\n",
                Framing::Length(5),
                true,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\nContent-Length: 5\r\n",
                Framing::Chunked,
                true,
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n",
                Framing::Length(5),
                true,
            ),
            ("HTTP/1.1 200 OK\r\n", Framing::ToEnd, false),
            ("HTTP/1.1 204 No\r\n", Framing::Length(0), true),
            (
                "HTTP/1.1 304 Not\r\nContent-Length: 9\r\n",
                Framing::Length(0),
                true,
            ),
            (
                "HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n",
                Framing::Length(0),
                false,
            ),
            (
                "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n",
                Framing::Length(0),
                false,
            ),
            (
                "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n",
                Framing::Length(0),
                true,
            ),
        ] {
            let head = head(&format!("{headers}\r\n"));
            assert_eq!((head.framing, head.keep), (framing, keep), "{headers}");
        }
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(
            parse(text, true).unwrap().unwrap().framing,
            Framing::Length(0),
            "HEAD"
        );
    }

    #[test]
    fn invalid_heads_are_bad_and_incomplete_heads_are_none() {
        for text in [
            "SSH-2.0-OpenSSH_9.2\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5,\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
            "HTTP/1.1 099 Odd\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
            "HTTP/1.1 xx\r\n\r\n",
            "\0\0\0\0",
        ] {
            assert_eq!(parse(text.as_bytes(), false), Err(SyntaxError), "{text}");
        }
        let complete = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        for length in 0..complete.len() {
            assert_eq!(
                parse(&complete[..length], false),
                Ok(None),
                "first {length} bytes"
            );
        }
        let long = format!("HTTP/1.1 200 OK\r\nX: {}", "a".repeat(MAX_HEAD_BYTES));
        assert_eq!(parse(long.as_bytes(), false), Err(SyntaxError));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(1000));
        assert_eq!(parse(many.as_bytes(), false), Err(SyntaxError));
    }

    #[test]
    fn the_reports_of_different_caches_are_recognized() {
        for (header, cache) in [
            ("Server: x", Cache::None),
            ("X-Cache: HIT from squid", Cache::Hit),
            ("X-Cache: MISS from squid", Cache::Miss),
            ("X-Cache: RefreshHit from cloudfront", Cache::Revalidated),
            ("Age: 3", Cache::Hit),
            ("X-Cache: MISS from a\r\nAge: 3", Cache::Miss),
            ("Cache-Status: Origin; hit, Near; fwd=uri-miss", Cache::Miss),
            ("Cache-Status: Near; hit; ttl=30", Cache::Hit),
            (
                "Cache-Status: Near; fwd=stale; fwd-status=304",
                Cache::Revalidated,
            ),
        ] {
            let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{header}\r\n\r\n");
            assert_eq!(head(&text).cache, cache, "{header}");
        }
    }
}
