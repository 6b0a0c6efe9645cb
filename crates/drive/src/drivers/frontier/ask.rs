//! Requests to a gateway: the SQL statements encoded in a URL, and the head around it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use plimsoll_schedule::{Fill, Template};
use plimsoll_wire::frontier::request::{Encoding, Form, Ttl, build_url};

use super::failover::Fresh;
use super::settings::{Refresh, Version};
use crate::drivers::http::Target;
use crate::drivers::versions::Versions;

/// Maximum number of paths that an [`Ask`] stores.
const MAX_PATHS: usize = 10_000;

/// The queries of one request, and the settings of their URL.
pub(super) struct Ask {
    /// The queries, one payload each.
    queries: Vec<Template>,
    encoding: Encoding,
    ttl: Ttl,
    refresh: Refresh,
    freshkey: Option<Template>,
    /// Versions in the response, which then has one payload.
    versions: Option<Versions>,
    /// The path below the server's own path, if it is constant: encoding SQL in a URL costs more
    /// than sending it.
    ready: Option<String>,
    paths: Paths,
}

impl Ask {
    pub(super) fn new(
        queries: Vec<Template>,
        (encoding, ttl): (Encoding, Ttl),
        refresh: Refresh,
        (freshkey, versions): (Option<Template>, Option<Versions>),
        fill: &Fill<'_>,
    ) -> Self {
        let mut ask = Self {
            queries,
            encoding,
            ttl,
            refresh,
            freshkey,
            versions,
            ready: None,
            paths: Paths::default(),
        };
        let constant = |template: &Template| template.constant().is_some();
        if ask.queries.iter().all(constant) && ask.freshkey.as_ref().is_none_or(constant) {
            ask.ready = Some(ask.encode(fill, None));
        }
        ask
    }

    /// Number of payloads in a correct response.
    pub(super) fn payloads(&self) -> u32 {
        self.queries.len() as u32
    }

    /// Versions in a correct response; none if they are not read.
    pub(super) fn versions(&self) -> Option<&Versions> {
        self.versions.as_ref()
    }

    /// The path below the server's own path. `unique`: a key that no cache has stored, which
    /// replaces the key of the workload.
    pub(super) fn path(&self, fill: &Fill<'_>, unique: Option<&str>) -> Cow<'_, str> {
        match (&self.ready, unique) {
            (Some(ready), None) => Cow::Borrowed(ready),
            (Some(ready), Some(key)) if self.freshkey.is_none() => {
                Cow::Owned(format!("{ready}&freshkey={key}"))
            }
            _ => Cow::Owned(self.encode(fill, unique)),
        }
    }

    fn encode(&self, fill: &Fill<'_>, unique: Option<&str>) -> String {
        let filled = |template: &Template| {
            let mut text = Vec::new();
            template.fill(fill, &mut text);
            // Values are numbers and texts, so that the filled template is valid UTF-8.
            String::from_utf8(text).unwrap_or_default()
        };
        let queries: Vec<String> = self.queries.iter().map(filled).collect();
        let path = self.paths.get_or_encode(queries.join("\0"), || {
            build_url("", Form::Slash, &queries, self.encoding, self.ttl, None)
        });
        let key = match unique {
            Some(key) => Some(key.to_owned()),
            None => self.freshkey.as_ref().map(|template| escape(&filled(template))),
        };
        match key {
            Some(key) => format!("{path}&freshkey={key}"),
            None => path.to_string(),
        }
    }

    /// Appends the whole request for `path` to `out`.
    pub(super) fn write(&self, path: &str, to: &Head<'_>, out: &mut Vec<u8>) {
        let target = to.target;
        let host = match to.version {
            // Without the port, as the public client sends it.
            Version::V1_0 => without_port(&target.authority),
            Version::V1_1 => &target.authority,
        };
        for part in [
            "GET ",
            &target.origin,
            target.base.trim_end_matches('/'),
            path,
            " ",
            to.version.text(),
            "\r\nHost: ",
            host,
            "\r\nX-Frontier-Id: ",
            to.id,
            "\r\nCache-Control: ",
        ] {
            out.extend_from_slice(part.as_bytes());
        }
        self.refresh.write(to.fresh, out);
        for part in ["\r\n", to.version.connection(to.keep), "\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
    }
}

/// Paths of queries that were encoded before, at most [`MAX_PATHS`]. Encoding takes longer than
/// most responses, and queries from lists are repeated. If the map is full, a new query is encoded
/// each time.
#[derive(Default)]
struct Paths(RwLock<HashMap<String, Arc<str>>>);

impl Paths {
    fn get_or_encode(&self, queries: String, encode: impl FnOnce() -> String) -> Arc<str> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = known.get(&queries) {
            return Arc::clone(path);
        }
        let has_capacity = known.len() < MAX_PATHS;
        drop(known);
        let path: Arc<str> = encode().into();
        if has_capacity {
            let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
            known.insert(queries, Arc::clone(&path));
        }
        path
    }
}

/// The parts of the head of a request around the path.
pub(super) struct Head<'a> {
    pub(super) target: &'a Target,
    pub(super) id: &'a str,
    pub(super) version: Version,
    pub(super) keep: bool,
    pub(super) fresh: Fresh,
}

fn without_port(authority: &str) -> &str {
    // An IPv6 address is in brackets and contains colons.
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// Escapes a key for a URL.
fn escape(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Creates keys that no cache has stored, from the time at which the run was prepared, the number
/// of the tester, and the number of its request.
pub(super) struct UniqueKeys(String);

impl UniqueKeys {
    pub(super) fn new() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(format!("{:x}", since.as_nanos()))
    }

    pub(super) fn of(&self, fill: &Fill<'_>) -> String {
        format!("{}-{}-{}", self.0, fill.tester, fill.n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_paths_are_stored_up_to_a_limit() {
        let paths = Paths::default();
        for turn in 0..2 {
            for number in 0..MAX_PATHS + 2 {
                let mut encoded = false;
                let path = paths.get_or_encode(number.to_string(), || {
                    encoded = true;
                    format!("/{number}")
                });
                assert_eq!(*path, *format!("/{number}"));
                assert_eq!(encoded, turn == 0 || number >= MAX_PATHS);
            }
        }
    }

    #[test]
    fn the_port_of_a_host_is_removed_and_keys_are_escaped() {
        for (authority, host) in [
            ("h:8000", "h"),
            ("h", "h"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("10.0.0.1:3128", "10.0.0.1"),
        ] {
            assert_eq!(without_port(authority), host);
        }
        assert_eq!(escape("a-1.b_c~"), "a-1.b_c~");
        assert_eq!(escape("a&b=c d/é"), "a%26b%3Dc%20d%2F%C3%A9");
    }
}
