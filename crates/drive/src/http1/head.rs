//! Heads of answers: bytes in, values out.

use plimsoll_model::Cache;

/// Longest head, bytes.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 128;

/// How the end of a body is found (RFC 9112, section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// So many bytes.
    Length(u64),
    /// Chunks.
    Chunked,
    /// The peer closes.
    ToEnd,
}

/// What of a head matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Three digits.
    pub status: u16,
    /// Bytes of the head.
    pub length: usize,
    /// Of the body.
    pub framing: Framing,
    /// Whether the connection may carry another request.
    pub keep: bool,
    /// What caches said.
    pub cache: Cache,
    /// Seconds that the answer has been in caches, where they say so.
    pub age: Option<u64>,
}

/// Not HTTP, or too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bad;

/// Whether `bytes`, of which the first `seen` were looked at before, may hold a whole head.
pub fn may_be_whole(bytes: &[u8], seen: usize) -> bool {
    let from = seen.saturating_sub(3);
    memchr::memmem::find(&bytes[from..], b"\n\r\n").is_some()
        || memchr::memmem::find(&bytes[from..], b"\n\n").is_some()
}

/// Parses a head; none if it is not whole yet. `head_only`: the request was HEAD.
pub fn parse(bytes: &[u8], head_only: bool) -> Result<Option<Head>, Bad> {
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
        Ok(_) | Err(_) => return Err(Bad),
    };
    // Below 100 there is no class (RFC 9110, section 15), and what follows could not be framed.
    let status = response.code.filter(|status| *status >= 100).ok_or(Bad)?;
    let mut facts = Facts {
        keep: response.version == Some(1),
        ..Facts::default()
    };
    for header in response.headers.iter() {
        facts.take(header.name, header.value)?;
    }
    let no_body = head_only || status == 204 || status == 304 || (100..200).contains(&status);
    let framing = if no_body {
        Framing::Length(0)
    } else {
        facts
            .coded
            .or(facts.length.map(Framing::Length))
            .unwrap_or(Framing::ToEnd)
    };
    Ok(Some(Head {
        status,
        length,
        framing,
        keep: facts.keep && framing != Framing::ToEnd,
        cache: facts.cache(),
        age: facts.age,
    }))
}

#[derive(Default)]
struct Facts {
    keep: bool,
    length: Option<u64>,
    /// By Transfer-Encoding, which outranks the length.
    coded: Option<Framing>,
    x_cache: Option<Cache>,
    status: Option<Cache>,
    aged: bool,
    age: Option<u64>,
}

impl Facts {
    fn take(&mut self, name: &str, value: &[u8]) -> Result<(), Bad> {
        // The length of a name tells most headers apart without looking at them.
        match name.len() {
            3 if name.eq_ignore_ascii_case("age") => (self.aged, self.age) = (true, number(value)),
            7 if name.eq_ignore_ascii_case("x-cache") => self.x_cache = said(value).or(self.x_cache),
            10 if name.eq_ignore_ascii_case("connection") => {
                if has(value, b"close") {
                    self.keep = false;
                } else if has(value, b"keep-alive") {
                    self.keep = true;
                }
            }
            12 if name.eq_ignore_ascii_case("cache-status") => self.status = cache_status(value),
            14 if name.eq_ignore_ascii_case("content-length") => {
                // A list of the same length is that length (RFC 9110, section 8.6).
                for value in value.split(|&byte| byte == b',') {
                    let length = number(value).ok_or(Bad)?;
                    if self.length.is_some_and(|known| known != length) {
                        return Err(Bad);
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
        self.status
            .or(self.x_cache)
            .unwrap_or(if self.aged { Cache::Hit } else { Cache::None })
    }
}

fn number(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii();
    // `parse` takes a sign, which has no place here.
    (value.first()?.is_ascii_digit()).then_some(())?;
    std::str::from_utf8(value).ok()?.parse().ok()
}

fn has(value: &[u8], word: &[u8]) -> bool {
    value
        .windows(word.len())
        .any(|window| window.eq_ignore_ascii_case(word))
}

/// `X-Cache: HIT from proxy.example`, `RefreshHit from ...`, `TCP_REFRESH_UNMODIFIED_HIT`, `MISS
/// from ...`.
fn said(value: &[u8]) -> Option<Cache> {
    if has(value, b"refresh") && (has(value, b"hit") || has(value, b"unmodified")) {
        Some(Cache::Revalidated)
    } else if has(value, b"hit") {
        Some(Cache::Hit)
    } else if has(value, b"miss") {
        Some(Cache::Miss)
    } else {
        None
    }
}

/// RFC 9211: the last member is the cache nearest to us.
fn cache_status(value: &[u8]) -> Option<Cache> {
    let nearest = value.rsplit(|&byte| byte == b',').next()?;
    if has(nearest, b"fwd=stale") && has(nearest, b"fwd-status=304") {
        Some(Cache::Revalidated)
    } else if has(nearest, b"fwd=") {
        Some(Cache::Miss)
    } else if has(nearest, b"hit") {
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
    fn framings() {
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
            let found = head(&format!("{headers}\r\n"));
            assert_eq!((found.framing, found.keep), (framing, keep), "{headers}");
        }
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(
            parse(text, true).unwrap().unwrap().framing,
            Framing::Length(0),
            "HEAD"
        );
    }

    #[test]
    fn rubbish_is_bad_and_halves_are_none() {
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
            assert_eq!(parse(text.as_bytes(), false), Err(Bad), "{text}");
        }
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole[..cut], false), Ok(None), "first {cut} bytes");
        }
        let long = format!("HTTP/1.1 200 OK\r\nX: {}", "a".repeat(MAX_HEAD_BYTES));
        assert_eq!(parse(long.as_bytes(), false), Err(Bad));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(1000));
        assert_eq!(parse(many.as_bytes(), false), Err(Bad));
    }

    #[test]
    fn caches_speak_in_many_tongues() {
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
