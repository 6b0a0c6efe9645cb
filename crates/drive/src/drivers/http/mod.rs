//! `http`: HTTP/1.1 and HTTPS requests, on a kept connection or with one connection per request,
//! directly or through a forward proxy.
//!
//! Stamps: start before the first system call (connect, or write on a kept connection); connected
//! when a new connection can transfer the request (with TLS or a tunnel: after that is
//! established); first byte and end immediately after the reads that returned them. Wire bytes:
//! heads and bodies of both directions (with TLS: before encryption). Payload: the body without
//! transfer coding, not decompressed. TLS sessions are not resumed. Items: 1 for each correct
//! response.
//!
//! Metrics: numbers in the header of the response, if the settings name some (`metrics.rs`).
//!
//! Codes: the status; `unexpected body`; `refused`, `unreachable`, `reset`, `closed early`, `kept
//! connection closed`, `bad response`, `tls ...`, `proxy STATUS`; the code of a timeout states what
//! the tester waited for. Outcome `wrong`: a response whose status or body is not expected.

mod error;
mod metrics;
mod token;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use plimsoll_model::{Code, Codes, Endpoint, Outcome};
use plimsoll_schedule::{Fill, Template};
use regex::bytes::Regex;
use serde::Deserialize;
use tokio_rustls::TlsConnector;
use url::Url;

use crate::api::DriverInfo;
use crate::driver::{AsyncDriver, AsyncTester, Attempt, Request, Setup};
use crate::drivers::connection::Connection;
use crate::http1::connection::{Connections, Exchange, Replace, Route};
use crate::http1::timeouts::Timeouts;
use crate::lane::reactor::Io;
use crate::net::identity::Identity;
use crate::net::round_trips::Names;
use crate::net::tls::{self, TlsSettings};
use crate::net::{Host, source};
use crate::setup_error::{EndpointError, SetupError, UrlError};
use metrics::HeaderMetrics;
use token::Token;

pub use error::HttpError;

/// Description of the driver.
pub(crate) const INFO: DriverInfo = DriverInfo {
    schemes: &["http", "https"],
    file_keys: &["ca_file", "cert", "key", "token_file", "body_file"],
    ..DriverInfo::new("http", "HTTP/1.1 and HTTPS requests")
};

/// Methods whose requests may be sent again (RFC 9110, section 9.2.2; the last three are from
/// IANA's registry of methods).
const IDEMPOTENT: [&str; 9] = [
    "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", "PROPFIND", "REPORT", "SEARCH",
];

/// Maximum length of a body that is compared with an expectation, bytes. Each tester may store one.
const MAX_BODY: usize = 16 * 1024 * 1024;
/// Maximum capacity of the buffer for bodies that a tester keeps between requests, bytes.
const KEPT_BODY_CAPACITY: usize = 256 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    connection: Connection,
    tls: Option<TlsSettings>,
    token_file: Option<PathBuf>,
    proxies: Vec<String>,
    keep_body: bool,
    /// Names of metrics, each with the field of the response's header that contains it.
    #[serde(default)]
    metrics: Vec<(String, String)>,
    #[serde(default)]
    source_addresses: Vec<IpAddr>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestSettings {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
    body_file: Option<PathBuf>,
    expect: Expect,
    #[serde(default)]
    resend_non_idempotent: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    status: Vec<u16>,
    contains: Option<String>,
    regex: Option<String>,
}

/// The driver.
pub struct Http {
    targets: Vec<Target>,
    /// Of the connections with TLS.
    identity: Option<Identity>,
    operations: Vec<Operation>,
    keep: bool,
    token: Option<Token>,
    statuses: Statuses,
    unexpected: Code,
    names: Names,
    metrics: HeaderMetrics,
}

/// An endpoint.
pub(super) struct Target {
    /// Value of the header Host.
    pub(super) authority: String,
    /// `http://host:port` for a request line that a proxy reads; empty otherwise.
    pub(super) origin: String,
    /// Path (and query) of the endpoint's URL; empty if it has none.
    pub(super) base: String,
    /// One route, or one per proxy.
    pub(super) routes: Vec<Route>,
}

struct Operation {
    /// Constant, or a value: the requests of a log have methods of their own.
    method: Template,
    path: Template,
    headers: Vec<(String, Template)>,
    body: Body,
    status: Vec<u16>,
    contains: Option<memchr::memmem::Finder<'static>>,
    regex: Option<Regex>,
    keep_body: bool,
    replace: Replace,
    /// Per endpoint: the whole request, if it is constant.
    ready: Vec<Option<Vec<u8>>>,
}

enum Body {
    None,
    Text(Template),
    Bytes(Vec<u8>),
}

impl AsyncDriver for Http {
    type Tester = Tester;

    fn prepare(setup: &Setup<'_>) -> Result<Self, SetupError> {
        let settings: Settings = setup.settings()?;
        let sources = &settings.source_addresses;
        source::check_local(sources)?;
        let proxies = settings
            .proxies
            .iter()
            .map(|url| proxy(setup, url, sources))
            .collect::<Result<Vec<_>, _>>()?;
        let secure = setup
            .endpoints
            .iter()
            .any(|endpoint| endpoint.url.starts_with("https:"));
        let identity = match (secure, &settings.tls) {
            (false, None) => None,
            (_, tls) => Some(Identity::new(tls.as_ref())?),
        };
        let connector = identity.as_ref().map(Identity::shared);
        let target = |endpoint| target(setup, endpoint, &proxies, connector, sources);
        let targets = setup
            .endpoints
            .iter()
            .map(target)
            .collect::<Result<Vec<_>, _>>()?;
        let routes = targets.iter().flat_map(|target| &target.routes);
        source::check_families(sources, &routes.map(|route| &*route.host))?;
        let operations = (0..setup.requests.len())
            .map(|index| operation(setup, index, settings.keep_body))
            .collect::<Result<Vec<_>, _>>()?;
        let token = settings.token_file.map(Token::open).transpose()?;
        let mut http = Self {
            targets,
            identity,
            operations,
            keep: settings.connection == Connection::Kept,
            token,
            statuses: Statuses::new(setup.codes),
            unexpected: setup.codes.number("unexpected body"),
            names: Names::new(setup.codes),
            metrics: HeaderMetrics::new(&settings.metrics, setup.codes)?,
        };
        http.render_constants(setup);
        Ok(http)
    }

    fn tester(self: &Arc<Self>, io: &Io, number: u32) -> Tester {
        let routes = self.targets.first().map_or(1, |target| target.routes.len());
        let own_tls = self
            .identity
            .as_ref()
            .and_then(|identity| identity.of_tester(number));
        Tester {
            connections: Connections::new(io, self.targets.len(), self.names, own_tls),
            route: number as usize % routes.max(1),
            driver: Arc::clone(self),
            request: Vec::new(),
            body: Vec::new(),
            head: Vec::new(),
        }
    }
}

fn parse_url(text: &str) -> Result<Url, UrlError> {
    let url = Url::parse(text).map_err(|source| UrlError::Syntax {
        found: text.to_owned(),
        source,
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(UrlError::form("http:// or https://", text));
    }
    if url.host_str().is_none() {
        return Err(UrlError::form("a URL with a host", text));
    }
    Ok(url)
}

/// Looks up the host of a URL. Connections to it come from `sources`, if there are any.
fn resolve(setup: &Setup<'_>, url: &Url, sources: &[IpAddr]) -> Result<Host, UrlError> {
    let mut host = setup.host(
        url.host_str().unwrap_or_default(),
        url.port_or_known_default().unwrap_or(80),
    )?;
    host.connect_from(sources)?;
    Ok(host)
}

pub(super) fn proxy(setup: &Setup<'_>, text: &str, sources: &[IpAddr]) -> Result<Arc<Host>, SetupError> {
    let url = parse_url(text).map_err(SetupError::Proxy)?;
    if url.scheme() != "http" {
        return Err(SetupError::Proxy(UrlError::form("http://HOST:PORT", text)));
    }
    resolve(setup, &url, sources)
        .map(Arc::new)
        .map_err(SetupError::Proxy)
}

pub(super) fn target(
    setup: &Setup<'_>,
    endpoint: &Endpoint,
    proxies: &[Arc<Host>],
    connector: Option<&TlsConnector>,
    sources: &[IpAddr],
) -> Result<Target, EndpointError> {
    let wrong = |error: UrlError| EndpointError::new(endpoint, error);
    let url = parse_url(&endpoint.url).map_err(wrong)?;
    let host = url.host_str().unwrap_or_default().to_owned();
    let port = url.port_or_known_default().unwrap_or(80);
    let authority = url
        .port()
        .map_or_else(|| host.clone(), |port| format!("{host}:{port}"));
    let secure = url.scheme() == "https";
    let tls = match connector.filter(|_| secure) {
        Some(connector) => {
            let bare = host.trim_start_matches('[').trim_end_matches(']');
            let name = tls::server_name(bare).map_err(|error| wrong(error.into()))?;
            Some((connector.clone(), name))
        }
        None => None,
    };
    let tunnel = (secure && !proxies.is_empty())
        .then(|| format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n").into_bytes());
    let hosts = if proxies.is_empty() {
        let host = resolve(setup, &url, sources).map_err(wrong)?;
        vec![Arc::new(host)]
    } else {
        proxies.to_vec()
    };
    let routes = hosts
        .into_iter()
        .map(|host| Route {
            host,
            tunnel: tunnel.clone(),
            tls: tls.clone(),
        })
        .collect();
    // A URL without a path has the path "/"; the path of the operation replaces it.
    let base = if url.path() == "/" { "" } else { url.path() };
    let base = url
        .query()
        .map_or_else(|| base.to_owned(), |query| format!("{}?{query}", url.path()));
    let origin = if secure || proxies.is_empty() {
        String::new()
    } else {
        format!("http://{authority}")
    };
    Ok(Target {
        authority,
        origin,
        base,
        routes,
    })
}

fn operation(setup: &Setup<'_>, index: usize, keep_body: bool) -> Result<Operation, SetupError> {
    let request: RequestSettings = setup.request(index)?;
    let is_token = |text: &str| !text.is_empty() && text.bytes().all(is_token_byte);
    let method = setup.template(index, &request.method);
    // The lab checks the values of a method that is not constant; `render` sends only their tokens.
    if method.constant().is_some_and(|text| !is_token(text)) {
        return Err(HttpError::Method(request.method).into());
    }
    let mut headers = Vec::new();
    for (name, text) in &request.headers {
        if !is_token(name) || text.contains(['\r', '\n', '\0']) {
            return Err(HttpError::Header(name.clone()).into());
        }
        headers.push((name.clone(), setup.template(index, text)));
    }
    let body = match (request.body, request.body_file) {
        (None, None) => Body::None,
        (Some(text), None) => Body::Text(setup.template(index, &text)),
        (None, Some(file)) => Body::Bytes(std::fs::read(&file).map_err(|source| SetupError::File {
            key: "body_file",
            path: file,
            source,
        })?),
        (Some(_), Some(_)) => return Err(HttpError::TwoBodies.into()),
    };
    let regex = request.expect.regex.as_deref().map(Regex::new).transpose();
    let regex = regex.map_err(|source| SetupError::Regex {
        key: "expect.regex",
        source,
    })?;
    let contains = request
        .expect
        .contains
        .map(|text| memchr::memmem::Finder::new(text.as_bytes()).into_owned());
    let idempotent = method.constant().is_some_and(|text| IDEMPOTENT.contains(&text));
    let resend = request.resend_non_idempotent || idempotent;
    Ok(Operation {
        replace: if resend { Replace::Kept } else { Replace::Never },
        method,
        path: setup.template(index, &request.path),
        headers,
        body,
        status: request.expect.status,
        keep_body: keep_body || contains.is_some() || regex.is_some(),
        contains,
        regex,
        ready: vec![None; setup.endpoints.len()],
    })
}

impl Operation {
    fn is_constant(&self) -> bool {
        self.method.constant().is_some()
            && self.path.constant().is_some()
            && self.headers.iter().all(|(_, text)| text.constant().is_some())
            && !matches!(&self.body, Body::Text(text) if text.constant().is_none())
    }

    fn has_header(&self, name: &str) -> bool {
        self.headers
            .iter()
            .any(|(header, _)| header.eq_ignore_ascii_case(name))
    }

    fn expects(&self, status: u16) -> bool {
        if self.status.is_empty() {
            (200..400).contains(&status)
        } else {
            self.status.contains(&status)
        }
    }

    fn expects_body(&self, body: &[u8]) -> bool {
        self.contains
            .as_ref()
            .is_none_or(|text| text.find(body).is_some())
            && self.regex.as_ref().is_none_or(|regex| regex.is_match(body))
    }
}

impl Http {
    fn render_constants(&mut self, setup: &Setup<'_>) {
        if self.token.is_some() {
            return;
        }
        let fill = setup.constant_fill();
        for index in 0..self.operations.len() {
            if self.operations[index].is_constant() {
                let ready = self
                    .targets
                    .iter()
                    .map(|target| {
                        let mut out = Vec::new();
                        self.render(&self.operations[index], target, &fill, &mut out);
                        Some(out)
                    })
                    .collect();
                self.operations[index].ready = ready;
            }
        }
    }

    /// Appends the whole request to `out`.
    fn render(&self, operation: &Operation, target: &Target, fill: &Fill<'_>, out: &mut Vec<u8>) {
        let mut text = Vec::new();
        operation.path.fill(fill, &mut text);
        // A request without a path has the path "/", too: the URL of the endpoint is then requested
        // as it is written.
        if text == b"/" && !target.base.is_empty() {
            text.clear();
        }
        let mut method = Vec::new();
        operation.method.fill(fill, &mut method);
        method.retain(|&byte| is_token_byte(byte));
        out.extend_from_slice(&method);
        out.push(b' ');
        out.extend_from_slice(target.origin.as_bytes());
        let base = target.base.as_str();
        let base = if text.starts_with(b"/") {
            base.strip_suffix('/').unwrap_or(base)
        } else {
            base
        };
        if base.is_empty() && !text.starts_with(b"/") {
            out.push(b'/');
        }
        out.extend_from_slice(base.as_bytes());
        for &byte in &text {
            push_escaped(out, byte);
        }
        out.extend_from_slice(b" HTTP/1.1\r\n");
        let mut header = |name: &str, value: &[u8]| {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            // A value of a list may contain a line end, which would begin another header.
            out.extend(value.iter().map(|&byte| {
                if matches!(byte, b'\r' | b'\n' | 0) {
                    b' '
                } else {
                    byte
                }
            }));
            out.extend_from_slice(b"\r\n");
        };
        for (name, value) in [
            ("Host", target.authority.as_str()),
            ("User-Agent", concat!("plimsoll/", env!("CARGO_PKG_VERSION"))),
            ("Accept", "*/*"),
        ] {
            if !operation.has_header(name) {
                header(name, value.as_bytes());
            }
        }
        if !self.keep && !operation.has_header("Connection") {
            header("Connection", b"close");
        }
        for (name, value) in &operation.headers {
            text.clear();
            value.fill(fill, &mut text);
            header(name, &text);
        }
        if let Some(token) = &self.token {
            header("Authorization", &token.header());
        }
        text.clear();
        match &operation.body {
            Body::None => {}
            Body::Text(template) => template.fill(fill, &mut text),
            Body::Bytes(bytes) => text.extend_from_slice(bytes),
        }
        let has_body = !matches!(operation.body, Body::None);
        if has_body || matches!(method.as_slice(), b"POST" | b"PUT" | b"PATCH") {
            header("Content-Length", text.len().to_string().as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&text);
    }
}

/// Whether a method, or the name of a header, may contain the byte (RFC 9110, section 5.6.2).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Appends a byte of a path. Bytes that are not allowed in a request line are escaped; `%` is not,
/// so that a path can contain escapes.
fn push_escaped(out: &mut Vec<u8>, byte: u8) {
    if byte <= b' ' || byte >= 0x7f {
        out.extend_from_slice(format!("%{byte:02X}").as_bytes());
    } else {
        out.push(byte);
    }
}

/// Codes of HTTP statuses, each looked up once.
pub(super) struct Statuses {
    codes: Codes,
    /// Per status: number of the code plus one; 0: not looked up yet.
    known: Vec<AtomicU32>,
}

impl Statuses {
    pub(super) fn new(codes: &Codes) -> Self {
        Self {
            codes: codes.clone(),
            known: (0..1000).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    pub(super) fn code(&self, status: u16) -> Code {
        let Some(known) = self.known.get(usize::from(status)) else {
            return self.codes.number("bad status");
        };
        match known.load(Ordering::Relaxed) {
            0 => {
                let code = self.codes.number(&status.to_string());
                known.store(u32::from(code.0) + 1, Ordering::Relaxed);
                code
            }
            number => Code((number - 1) as u16),
        }
    }
}

/// A tester: its connections and buffers.
pub struct Tester {
    driver: Arc<Http>,
    connections: Connections,
    route: usize,
    request: Vec<u8>,
    body: Vec<u8>,
    /// Head of the last response, if it contains metrics.
    head: Vec<u8>,
}

impl AsyncTester for Tester {
    async fn operate(&mut self, request: &Request<'_>, attempt: &mut Attempt) {
        let driver = &*self.driver;
        let operation = &driver.operations[request.operation];
        let target = &driver.targets[request.endpoint];
        let bytes = if let Some(ready) = &operation.ready[request.endpoint] {
            ready
        } else {
            self.request.clear();
            driver.render(operation, target, &request.fill, &mut self.request);
            attempt.begin();
            &self.request
        };
        self.body.clear();
        let exchange = Exchange {
            route: &target.routes[self.route],
            way: request.endpoint,
            request: bytes,
            head_only: bytes.starts_with(b"HEAD "),
            keep: driver.keep,
            body: operation.keep_body.then_some(&mut self.body),
            head: (!driver.metrics.is_empty()).then_some(&mut self.head),
            max_kept: MAX_BODY,
            timeouts: Timeouts::NONE,
            replace: operation.replace,
        };
        match self.connections.exchange(exchange, attempt).await {
            Ok(response) => {
                attempt.payload = response.body;
                attempt.cache = response.cache;
                driver.metrics.read(&self.head, &mut attempt.metrics);
                let code = driver.statuses.code(response.status);
                if !operation.expects(response.status) {
                    attempt.conclude(Outcome::Wrong, code);
                } else if operation.keep_body && !operation.expects_body(&self.body) {
                    attempt.conclude(Outcome::Wrong, driver.unexpected);
                } else {
                    attempt.items = 1;
                    attempt.conclude(Outcome::Ok, code);
                }
            }
            Err(failure) => attempt.fail(&failure),
        }
        self.body.clear();
        self.body.shrink_to(KEPT_BODY_CAPACITY);
        self.connections.ended(attempt);
    }

    fn reset(&mut self) {
        self.connections.close();
    }
}
