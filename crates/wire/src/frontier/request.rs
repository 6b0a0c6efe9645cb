//! The request URL:
//! `<base>/Frontier/type=frontier_request:1:DEFAULT&encoding=BLOBzip5&p1=...[&ttl=...][&freshkey=...]`.
//!
//! The order of the parameters is part of the protocol: `type`, then `encoding`, then the others up
//! to the next `type`.

use std::fmt;
use std::io::{Read, Write};

use base64::Engine;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use thiserror::Error;

use super::base64;

/// Most payloads that one URL may ask for: the limit of the C client's interface.
pub const MAX_PAYLOADS: usize = 32;
/// Longest SQL text that [`decode_p1`] yields, in bytes. A client's request head ends at 8192
/// bytes, and SQL shrinks by a factor of ten at most, so this refuses zip bombs and nothing else.
pub const MAX_SQL: usize = 256 * 1024;

/// What is wrong with a request URL or with the SQL inside it.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum RequestError {
    /// The path does not hold `/Frontier/type=...` or `/Frontier?type=...`.
    #[error("no Frontier command in the URL")]
    NoCommand,
    /// A group began with something else than `type`.
    #[error("Unsupported request type [{0}]")]
    Type(String),
    /// A parameter without `=value`, or a `type` without a name.
    #[error("parameter [{0}] has no value")]
    NoValue(String),
    /// `encoding` did not follow `type`.
    #[error("Unexpected parameter [{0}], expected encoding")]
    NotEncoding(String),
    /// The URL ended after `type`.
    #[error("command parse completed prematurely, encoding is missing")]
    Premature,
    /// More than [`MAX_PAYLOADS`] groups.
    #[error("more than {MAX_PAYLOADS} payloads in one request")]
    TooMany,
    /// `p1` is absent.
    #[error("parameter p1 is missing")]
    NoP1,
    /// `p1` is no base64 in the protocol's alphabet.
    #[error("p1 is not base64")]
    Base64,
    /// `p1` does not inflate as zlib data.
    #[error("p1 is not zlib data")]
    Zlib,
    /// The SQL is longer than [`MAX_SQL`].
    #[error("p1 inflates to more than {MAX_SQL} bytes")]
    TooLong,
    /// The SQL is not text.
    #[error("p1 does not hold text")]
    NotText,
}

/// How a payload is packed: `BLOB`, `BLOBzip` (level 5) or `BLOBzip1` to `BLOBzip9`.
///
/// `BLOBzip0` is no value: the servlet would send plain bytes under a name that makes clients
/// inflate them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Plain bytes.
    Blob,
    /// Zlib at the servlet's default level, 5.
    BlobZip,
    /// Zlib at this level, 1 to 9.
    BlobZipLevel(u8),
}

impl Encoding {
    /// The encoding for a zip level 0 (plain) to 9; `None` above.
    pub fn from_level(level: u8) -> Option<Self> {
        match level {
            0 => Some(Self::Blob),
            1..=9 => Some(Self::BlobZipLevel(level)),
            _ => None,
        }
    }

    /// Reads the name used in URLs and documents; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix("BLOB")? {
            "" => Some(Self::Blob),
            "zip" => Some(Self::BlobZip),
            zip => match zip.strip_prefix("zip")?.as_bytes() {
                [digit @ b'1'..=b'9'] => Some(Self::BlobZipLevel(digit - b'0')),
                _ => None,
            },
        }
    }

    /// The zlib level 1 to 9, or `None` for plain bytes.
    pub fn level(self) -> Option<u32> {
        match self {
            Self::Blob => None,
            Self::BlobZip => Some(5),
            Self::BlobZipLevel(level) => Some(u32::from(level)),
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blob => f.write_str("BLOB"),
            Self::BlobZip => f.write_str("BLOBzip"),
            Self::BlobZipLevel(level) => write!(f, "BLOBzip{level}"),
        }
    }
}

/// How long caches may keep an answer. What each means in seconds is the server's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ttl {
    /// Says nothing in the URL.
    #[default]
    Long,
    /// `&ttl=short`
    Short,
    /// `&ttl=forever`; an empty result is then an error.
    Forever,
}

/// Which of the two URL forms to write. Clients send the slash form; the servlet takes both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// `.../Frontier/type=...`
    #[default]
    Slash,
    /// `.../Frontier?type=...`
    Query,
}

/// Writes the URL that asks for `queries`, one payload each, below `base` (a path such as
/// `/FrontierProd`, an absolute URL for a proxy, or nothing). `freshkey` makes a distinct cache key
/// and means nothing else.
pub fn build_url(
    base: &str,
    form: Form,
    queries: &[impl AsRef<str>],
    encoding: Encoding,
    ttl: Ttl,
    freshkey: Option<&str>,
) -> String {
    let mut url = String::with_capacity(base.len() + 160 * queries.len().max(1));
    url.push_str(base.trim_end_matches('/'));
    url.push_str("/Frontier");
    let mut separator = match form {
        Form::Slash => '/',
        Form::Query => '?',
    };
    for sql in queries {
        url.push(separator);
        url.push_str("type=frontier_request:1:DEFAULT&encoding=");
        url.push_str(&encoding.to_string());
        url.push_str("&p1=");
        url.push_str(&encode_p1(sql.as_ref()));
        match ttl {
            Ttl::Long => {}
            Ttl::Short => url.push_str("&ttl=short"),
            Ttl::Forever => url.push_str("&ttl=forever"),
        }
        separator = '&';
    }
    if let Some(key) = freshkey {
        url.push_str("&freshkey=");
        url.push_str(key);
    }
    url
}

/// One group of a request: what is asked for, not yet judged (an unknown encoding is an error of
/// its payload, not of the whole request).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// `frontier_request` for SQL.
    pub object: String,
    /// `1` in every client.
    pub version: String,
    /// `DEFAULT` where the URL does not say.
    pub method: String,
    /// As written in the URL; see [`Encoding::parse`].
    pub encoding: String,
    /// The packed SQL; see [`decode_p1`].
    pub p1: Option<String>,
    /// How long the answer may be cached.
    pub ttl: Ttl,
    /// A signed answer was asked for (`sec=sig`).
    pub signed: bool,
}

/// Takes apart the target of a request line (a path or an absolute URL, either form).
pub fn parse_target(target: &str) -> Result<Vec<Command>, RequestError> {
    let at = target
        .find("/Frontier/")
        .or_else(|| target.find("/Frontier?"))
        .ok_or(RequestError::NoCommand)?;
    let text = &target[at + "/Frontier/".len()..];
    if text.is_empty() {
        return Err(RequestError::NoCommand);
    }
    let mut commands: Vec<Command> = Vec::new();
    let mut tokens = text
        .split('&')
        .filter(|token| !token.is_empty())
        .map(parameter)
        .peekable();
    while let Some(token) = tokens.next() {
        let (name, value) = token?;
        if name != "type" {
            return Err(RequestError::Type(name));
        }
        if commands.len() == MAX_PAYLOADS {
            return Err(RequestError::TooMany);
        }
        let mut command = named(&value)?;
        let (name, value) = tokens.next().ok_or(RequestError::Premature)??;
        if name != "encoding" {
            return Err(RequestError::NotEncoding(name));
        }
        command.encoding = value;
        while let Some(token) = tokens.next_if(|next| !matches!(next, Ok((name, _)) if name == "type")) {
            let (name, value) = token?;
            match name.as_str() {
                "p1" => command.p1 = Some(value),
                "ttl" if value == "short" => command.ttl = Ttl::Short,
                "ttl" if value == "forever" => command.ttl = Ttl::Forever,
                "sec" => command.signed = value == "sig",
                _ => {} // freshkey, and whatever a later client adds: only part of the cache key
            }
        }
        commands.push(command);
    }
    if commands.is_empty() {
        Err(RequestError::NoCommand)
    } else {
        Ok(commands)
    }
}

/// What a signature covers of a request, beside the answer: the path from the last slash before the
/// first `&` on, as the servlet sees it, that is percent-decoded.
pub fn signed_part(target: &str) -> Vec<u8> {
    let names = target.find('&').unwrap_or(target.len());
    let from = target[..names].rfind('/').unwrap_or(0);
    percent_encoding::percent_decode_str(&target[from..]).collect()
}

/// `object:version:method` of a `type` parameter.
fn named(value: &str) -> Result<Command, RequestError> {
    let mut parts = value.split(':').filter(|part| !part.is_empty());
    let object = parts.next().ok_or_else(|| RequestError::NoValue("type".into()))?;
    Ok(Command {
        object: object.to_owned(),
        version: parts.next().unwrap_or_default().to_owned(),
        method: parts.next().unwrap_or("DEFAULT").to_owned(),
        encoding: String::new(),
        p1: None,
        ttl: Ttl::Long,
        signed: false,
    })
}

/// Name and value of one parameter, percent-decoded. As in the servlet, a second `=` ends the
/// value.
fn parameter(token: &str) -> Result<(String, String), RequestError> {
    let mut parts = token.split('=').filter(|part| !part.is_empty());
    match (parts.next(), parts.next()) {
        (Some(name), Some(value)) => Ok((unescape(name), unescape(value))),
        _ => Err(RequestError::NoValue(token.chars().take(64).collect())),
    }
}

fn unescape(text: &str) -> String {
    if !text.contains(['%', '+']) {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = |offset: usize| bytes.get(at + offset).and_then(|&b| char::from(b).to_digit(16));
        match (bytes[at], hex(1), hex(2)) {
            (b'%', Some(high), Some(low)) => {
                plain.push((high * 16 + low) as u8);
                at += 2;
            }
            (b'+', ..) => plain.push(b' '),
            (other, ..) => plain.push(other),
        }
        at += 1;
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// Packs SQL for a URL: zlib level 9, base64, and `+ / =` written as `. - _`.
pub fn encode_p1(sql: &str) -> String {
    let mut zlib = ZlibEncoder::new(Vec::with_capacity(sql.len()), Compression::new(9));
    // Writing to a Vec cannot fail; what cannot fail needs no error for every caller to carry.
    let packed = zlib
        .write_all(sql.as_bytes())
        .and_then(|()| zlib.finish())
        .unwrap_or_default();
    let text = base64().encode(packed);
    text.chars()
        .map(|c| match c {
            '+' => '.',
            '/' => '-',
            '=' => '_',
            other => other,
        })
        .collect()
}

/// Unpacks what [`encode_p1`] made; at most [`MAX_SQL`] bytes.
pub fn decode_p1(p1: &str) -> Result<String, RequestError> {
    let standard: Vec<u8> = p1
        .bytes()
        .map(|b| match b {
            b'.' => b'+',
            b'-' => b'/',
            b'_' => b'=',
            other => other,
        })
        .collect();
    let packed = base64().decode(standard).map_err(|_| RequestError::Base64)?;
    let mut sql = Vec::new();
    ZlibDecoder::new(packed.as_slice())
        .take(MAX_SQL as u64 + 1)
        .read_to_end(&mut sql)
        .map_err(|_| RequestError::Zlib)?;
    if sql.len() > MAX_SQL {
        return Err(RequestError::TooLong);
    }
    String::from_utf8(sql).map_err(|_| RequestError::NotText)
}

/// Splits the bind form: a text with both `?` and `:` is SQL and, after each `:`, one value bound
/// as text. There is no escape for `:` in the protocol. As in the servlet, empty values at the end
/// are dropped.
pub fn split_binds(text: &str) -> (&str, Vec<&str>) {
    if !(text.contains('?') && text.contains(':')) {
        return (text, Vec::new());
    }
    let mut parts = text.split(':');
    let sql = parts.next().unwrap_or_default();
    let mut values: Vec<&str> = parts.collect();
    while values.last().is_some_and(|value| value.is_empty()) {
        values.pop();
    }
    (sql, values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontier::example;

    #[test]
    fn url_of_the_worked_example_reads_back() {
        let url = build_url(
            "/FrontierLab/",
            Form::Slash,
            &[example::SQL],
            Encoding::BlobZipLevel(5),
            Ttl::Long,
            None,
        );
        let (head, p1) = url.split_once("&p1=").unwrap();
        assert_eq!(
            head,
            "/FrontierLab/Frontier/type=frontier_request:1:DEFAULT&encoding=BLOBzip5"
        );
        assert_eq!(decode_p1(p1).unwrap(), example::SQL);
        assert_eq!(decode_p1(example::P1).unwrap(), example::SQL);
        let command = &parse_target(&url).unwrap()[0];
        assert_eq!(
            (command.object.as_str(), command.version.as_str()),
            ("frontier_request", "1")
        );
        assert_eq!(
            (command.method.as_str(), command.encoding.as_str()),
            ("DEFAULT", "BLOBzip5")
        );
        assert_eq!(decode_p1(command.p1.as_deref().unwrap()).unwrap(), example::SQL);
    }

    #[test]
    fn several_payloads_ttl_and_freshkey() {
        for form in [Form::Slash, Form::Query] {
            let url = build_url(
                "http://h:1/X",
                form,
                &["SELECT 1", "SELECT 2"],
                Encoding::Blob,
                Ttl::Forever,
                Some("k"),
            );
            let commands = parse_target(&url).unwrap();
            assert_eq!(commands.len(), 2);
            assert!(
                commands
                    .iter()
                    .all(|c| c.ttl == Ttl::Forever && c.encoding == "BLOB" && !c.signed)
            );
            assert!(url.ends_with("&freshkey=k"));
        }
        let short = build_url("", Form::Slash, &["S"], Encoding::BlobZip, Ttl::Short, None);
        assert!(short.starts_with("/Frontier/type=") && short.contains("encoding=BLOBzip&"));
        assert_eq!(parse_target(&short).unwrap()[0].ttl, Ttl::Short);
    }

    #[test]
    fn what_is_signed_of_a_request() {
        for (target, part) in [
            (
                "http://h:8/a/Frontier/type=f:1:DEFAULT&encoding=BLOB&p1=a/b",
                "/type=f:1:DEFAULT&encoding=BLOB&p1=a/b",
            ),
            (
                "/a/Frontier/type=f%3A1&encoding=BLOB&p1=a+b%2b%zz",
                "/type=f:1&encoding=BLOB&p1=a+b+%zz",
            ),
            ("type=f", "type=f"),
            ("", ""),
        ] {
            assert_eq!(signed_part(target), part.as_bytes(), "{target}");
        }
    }

    #[test]
    fn tolerance_and_refusals() {
        let parse = |text: &str| parse_target(text);
        let one =
            parse("/a/Frontier/type=frontier_request:1&encoding=B%4cOB&sec=sig&p1=A%2eB&ttl=never").unwrap();
        assert_eq!(
            (one[0].method.as_str(), one[0].encoding.as_str()),
            ("DEFAULT", "BLOB")
        );
        assert_eq!(
            (one[0].p1.as_deref(), one[0].ttl, one[0].signed),
            (Some("A.B"), Ttl::Long, true)
        );
        assert_eq!(parse("/index.html"), Err(RequestError::NoCommand));
        assert_eq!(parse("/Frontier/"), Err(RequestError::NoCommand));
        assert_eq!(parse("/Frontier/&&"), Err(RequestError::NoCommand));
        assert_eq!(
            parse("/Frontier/meta=x:1"),
            Err(RequestError::Type("meta".into()))
        );
        assert_eq!(parse("/Frontier/type=x:1"), Err(RequestError::Premature));
        assert_eq!(
            parse("/Frontier/type=x:1&p1=3"),
            Err(RequestError::NotEncoding("p1".into()))
        );
        assert_eq!(
            parse("/Frontier/type=x:1&encoding"),
            Err(RequestError::NoValue("encoding".into()))
        );
        assert_eq!(
            parse("/Frontier/type=:::&encoding=BLOB"),
            Err(RequestError::NoValue("type".into()))
        );
        let many = format!("/Frontier/{}", "type=x:1&encoding=BLOB&".repeat(33));
        assert_eq!(parse(&many), Err(RequestError::TooMany));
    }

    #[test]
    fn encodings() {
        for (text, level) in [
            ("BLOB", None),
            ("BLOBzip", Some(5)),
            ("BLOBzip1", Some(1)),
            ("BLOBzip9", Some(9)),
        ] {
            let encoding = Encoding::parse(text).unwrap();
            assert_eq!((encoding.level(), encoding.to_string().as_str()), (level, text));
        }
        for text in ["", "blob", "BLOBx", "BLOBzip0", "BLOBzip10", "BLOBzipx"] {
            assert_eq!(Encoding::parse(text), None, "{text}");
        }
        assert_eq!(Encoding::from_level(0), Some(Encoding::Blob));
        assert_eq!(Encoding::from_level(10), None);
    }

    #[test]
    fn a_zip_bomb_is_refused() {
        let bomb = encode_p1(&" ".repeat(50_000_000));
        assert_eq!(decode_p1(&bomb), Err(RequestError::TooLong));
        assert_eq!(
            decode_p1(&encode_p1(&" ".repeat(MAX_SQL))).map(|s| s.len()),
            Ok(MAX_SQL)
        );
        assert_eq!(decode_p1("!!"), Err(RequestError::Base64));
        assert_eq!(decode_p1("AAAA"), Err(RequestError::Zlib));
    }

    #[test]
    fn bind_form() {
        assert_eq!(split_binds("SELECT 1"), ("SELECT 1", vec![]));
        assert_eq!(split_binds("SELECT ':'"), ("SELECT ':'", vec![]));
        assert_eq!(
            split_binds("S WHERE a=? AND b=?:x:7:"),
            ("S WHERE a=? AND b=?", vec!["x", "7"])
        );
    }
}
