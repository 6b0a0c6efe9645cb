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

/// Maximum number of payloads in one URL: the limit of the interface of the C client.
pub const MAX_PAYLOADS: usize = 32;
/// Maximum length of the SQL that [`decode_p1`] returns, bytes. The request head of a client has at
/// most 8,192 bytes, and SQL is compressed by a factor of at most ten, so that only zip bombs are
/// refused.
pub const MAX_SQL: usize = 256 * 1024;

/// Why a request URL, or the SQL in it, is refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum RequestError {
    /// The path does not contain `/Frontier/type=...` or `/Frontier?type=...`.
    #[error("no Frontier command in the URL")]
    NoCommand,
    /// A group does not begin with `type`. The value is the name of its first parameter.
    #[error("Unsupported request type [{0}]")]
    Type(String),
    /// A parameter has no `=value`, or a `type` has no name. The value is the parameter.
    #[error("parameter [{0}] has no value")]
    NoValue(String),
    /// `type` is not followed by `encoding`. The value is the name of the parameter that follows.
    #[error("Unexpected parameter [{0}], expected encoding")]
    NotEncoding(String),
    /// The URL ends after `type`.
    #[error("command parse completed prematurely, encoding is missing")]
    Premature,
    /// The URL has more than [`MAX_PAYLOADS`] groups.
    #[error("more than {MAX_PAYLOADS} payloads in one request")]
    TooMany,
    /// The parameter `p1` is missing.
    #[error("parameter p1 is missing")]
    NoP1,
    /// `p1` is not base64 in the alphabet of the protocol.
    #[error("p1 is not base64")]
    Base64,
    /// `p1` is not zlib data.
    #[error("p1 is not zlib data")]
    Zlib,
    /// The SQL is longer than [`MAX_SQL`].
    #[error("p1 inflates to more than {MAX_SQL} bytes")]
    TooLong,
    /// The SQL is not UTF-8 text.
    #[error("p1 does not hold text")]
    NotText,
}

/// Encoding of a payload: `BLOB`, `BLOBzip` (level 5) or `BLOBzip1` to `BLOBzip9`.
///
/// `BLOBzip0` is not a valid encoding: the servlet would send plain bytes, but clients would
/// inflate them because of the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Not compressed.
    Blob,
    /// Zlib with the default level of the servlet, 5.
    BlobZip,
    /// Zlib with this level, 1 to 9.
    BlobZipLevel(u8),
}

impl Encoding {
    /// The encoding for a zlib level of 0 (not compressed) to 9; none for a greater level.
    pub fn from_level(level: u8) -> Option<Self> {
        match level {
            0 => Some(Self::Blob),
            1..=9 => Some(Self::BlobZipLevel(level)),
            _ => None,
        }
    }

    /// The encoding with this name in URLs and documents; none for any other text.
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

    /// The zlib level, 1 to 9; none if not compressed.
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

/// How long caches may keep a response. The configuration of the server defines the times in
/// seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ttl {
    /// The default, which is not in the URL.
    #[default]
    Long,
    /// The parameter `&ttl=short`.
    Short,
    /// The parameter `&ttl=forever`. An empty result is then an error.
    Forever,
}

/// Form of a URL. Clients send the slash form; the servlet accepts both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// `.../Frontier/type=...`
    #[default]
    Slash,
    /// `.../Frontier?type=...`
    Query,
}

/// Builds the URL that requests `queries`, one payload each, below `base` (a path such as
/// `/FrontierProd`, an absolute URL for a proxy, or empty). `freshkey` only makes the cache key
/// different.
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

/// One group of a request. Its values are not checked, because an unknown encoding is an error of
/// its payload, not of the whole request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Name of the object: `frontier_request` for SQL.
    pub object: String,
    /// Version of the object: `1` in every client.
    pub version: String,
    /// Name of the method; `DEFAULT` if the URL does not contain it.
    pub method: String,
    /// Name of the encoding as in the URL; see [`Encoding::parse`].
    pub encoding: String,
    /// The encoded SQL; see [`decode_p1`]. None if it is missing.
    pub p1: Option<String>,
    /// How long the response may be cached.
    pub ttl: Ttl,
    /// Whether a signed response is requested (`sec=sig`).
    pub signed: bool,
}

/// Parses the target of a request line: a path or an absolute URL, in either form.
pub fn parse_target(target: &str) -> Result<Vec<Command>, RequestError> {
    let start = target
        .find("/Frontier/")
        .or_else(|| target.find("/Frontier?"))
        .ok_or(RequestError::NoCommand)?;
    let text = &target[start + "/Frontier/".len()..];
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
        let mut command = parse_type(&value)?;
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
                _ => {} // freshkey and parameters of later clients: only part of the cache key
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

/// The part of a request that a signature covers in addition to the response: the path from the
/// last slash before the first `&` on, percent-decoded as in the servlet.
pub fn signed_part(target: &str) -> Vec<u8> {
    let names = target.find('&').unwrap_or(target.len());
    let from = target[..names].rfind('/').unwrap_or(0);
    percent_encoding::percent_decode_str(&target[from..]).collect()
}

/// Parses `object:version:method`, the value of a `type` parameter.
fn parse_type(value: &str) -> Result<Command, RequestError> {
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

/// Parses one parameter into name and value, percent-decoded. As in the servlet, a second `=` ends
/// the value.
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
    let mut index = 0;
    while index < bytes.len() {
        let hex = |offset: usize| {
            bytes
                .get(index + offset)
                .and_then(|&b| char::from(b).to_digit(16))
        };
        match (bytes[index], hex(1), hex(2)) {
            (b'%', Some(high), Some(low)) => {
                plain.push((high * 16 + low) as u8);
                index += 2;
            }
            (b'+', ..) => plain.push(b' '),
            (other, ..) => plain.push(other),
        }
        index += 1;
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// Encodes SQL for a URL: zlib level 9, base64, and `. - _` instead of `+ / =`.
pub fn encode_p1(sql: &str) -> String {
    let mut zlib = ZlibEncoder::new(Vec::with_capacity(sql.len()), Compression::new(9));
    // Writing to a Vec cannot fail, so that the function returns no error.
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

/// Decodes the output of [`encode_p1`], at most [`MAX_SQL`] bytes.
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

/// Splits the bind form: a text that contains both `?` and `:` consists of SQL and, after each `:`,
/// one value that is bound as text. The protocol has no escape for `:`. As in the servlet, empty
/// values at the end are omitted.
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
    fn the_url_of_the_worked_example_is_parsed_to_its_values() {
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
    fn urls_with_several_payloads_ttl_and_freshkey_are_parsed_to_their_values() {
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
    fn the_signed_part_begins_at_the_last_slash_before_the_parameters() {
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
    fn escapes_and_unknown_values_are_accepted_and_invalid_urls_are_refused() {
        let parse = |text: &str| parse_target(text);
        let commands =
            parse("/a/Frontier/type=frontier_request:1&encoding=B%4cOB&sec=sig&p1=A%2eB&ttl=never").unwrap();
        assert_eq!(
            (commands[0].method.as_str(), commands[0].encoding.as_str()),
            ("DEFAULT", "BLOB")
        );
        assert_eq!(
            (commands[0].p1.as_deref(), commands[0].ttl, commands[0].signed),
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
    fn encodings_have_their_names_and_levels() {
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
    fn the_bind_form_is_split_into_sql_and_values() {
        assert_eq!(split_binds("SELECT 1"), ("SELECT 1", vec![]));
        assert_eq!(split_binds("SELECT ':'"), ("SELECT ':'", vec![]));
        assert_eq!(
            split_binds("S WHERE a=? AND b=?:x:7:"),
            ("S WHERE a=? AND b=?", vec!["x", "7"])
        );
    }
}
