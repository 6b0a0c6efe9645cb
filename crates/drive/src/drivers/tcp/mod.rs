//! `tcp`: sends a text and reads a number of bytes, a line, or everything to the end. For simple
//! protocols, and to measure the load generator itself with a minimal server.
//!
//! Stamps: start before the first system call; connected on a new connection; first byte and end
//! immediately after the reads that returned them. Payload: the bytes of the response (a line
//! without its end). Wire bytes: the bytes sent and read. Items: 1 for each correct response.
//!
//! Codes: none for a correct response; `too many bytes` (wrong: the response is longer than
//! expected); `line too long`, `refused`, `unreachable`, `reset`, `closed early`; the code of a
//! timeout states what the tester waited for.

use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, ready};

use plimsoll_model::{Code, Outcome};
use plimsoll_schedule::Template;
use serde::Deserialize;
use url::Url;

use crate::api::DriverInfo;
use crate::driver::{AsyncDriver, AsyncTester, Attempt, Request, Setup, Waiting};
use crate::drivers::connection::Connection;
use crate::lane::reactor::Io;
use crate::net::round_trips::{Names, RoundTrips};
use crate::net::{Host, Stream, source};
use crate::setup_error::{EndpointError, SetupError, UrlError};
use crate::tester::failure::Failure;

/// Description of the driver.
pub(crate) const INFO: DriverInfo = DriverInfo {
    schemes: &["tcp"],
    ..DriverInfo::new("tcp", "sends a text and reads bytes, a line, or to the end")
};

/// Maximum length of a line, bytes.
const MAX_LINE: u64 = 16 * 1024 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    connection: Connection,
    #[serde(default)]
    source_addresses: Vec<IpAddr>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestSettings {
    send: String,
    expect: Expect,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum Expect {
    Bytes { count: u64 },
    Line,
    Close,
}

/// The driver.
pub struct Tcp {
    hosts: Vec<Host>,
    operations: Vec<(Template, Expect)>,
    keep: bool,
    names: Names,
}

impl AsyncDriver for Tcp {
    type Tester = Tester;

    fn prepare(setup: &Setup<'_>) -> Result<Self, SetupError> {
        let settings: Settings = setup.settings()?;
        source::check_local(&settings.source_addresses)?;
        let mut hosts = Vec::new();
        for endpoint in setup.endpoints {
            let url = Url::parse(&endpoint.url).ok().filter(|url| url.scheme() == "tcp");
            let address = url.as_ref().and_then(|url| Some((url.host_str()?, url.port()?)));
            let (host, port) = address.ok_or_else(|| {
                EndpointError::new(endpoint, UrlError::form("tcp://HOST:PORT", &endpoint.url))
            })?;
            let mut host = setup
                .host(host, port)
                .map_err(|error| EndpointError::new(endpoint, error))?;
            host.connect_from(&settings.source_addresses)
                .map_err(|error| EndpointError::new(endpoint, error))?;
            hosts.push(host);
        }
        source::check_families(&settings.source_addresses, &hosts.iter())?;
        let mut operations = Vec::new();
        for index in 0..setup.requests.len() {
            let request: RequestSettings = setup.request(index)?;
            operations.push((setup.template(index, &request.send), request.expect));
        }
        Ok(Self {
            hosts,
            operations,
            keep: settings.connection == Connection::Kept,
            names: Names::new(setup.codes),
        })
    }

    fn tester(self: &Arc<Self>, io: &Io, _: u32) -> Tester {
        Tester {
            kept: self.hosts.iter().map(|_| None).collect(),
            trips: RoundTrips::new(self.names, self.hosts.len()),
            driver: Arc::clone(self),
            io: Rc::clone(io),
            sessions: 0,
            request: Vec::new(),
        }
    }
}

/// A tester: its connections, one per endpoint.
pub struct Tester {
    driver: Arc<Tcp>,
    io: Io,
    kept: Vec<Option<(Stream, u32)>>,
    sessions: u32,
    trips: RoundTrips,
    request: Vec<u8>,
}

impl AsyncTester for Tester {
    async fn operate(&mut self, request: &Request<'_>, attempt: &mut Attempt) {
        let driver = Arc::clone(&self.driver);
        let (template, expect) = &driver.operations[request.operation];
        self.request.clear();
        template.fill(&request.fill, &mut self.request);
        attempt.begin();
        match self
            .exchange(
                &driver.hosts[request.endpoint],
                request.endpoint,
                *expect,
                attempt,
            )
            .await
        {
            Ok(outcome) => {
                let code = if outcome == Outcome::Ok {
                    Code::NONE
                } else {
                    attempt.code_of("too many bytes")
                };
                attempt.items = u64::from(outcome == Outcome::Ok);
                attempt.conclude(outcome, code);
            }
            Err(failure) => attempt.fail(&failure),
        }
    }

    fn reset(&mut self) {
        self.kept.fill_with(|| None);
    }
}

impl Tester {
    /// Sends the request and reads the response. A kept connection that the peer has closed is
    /// replaced once.
    async fn exchange(
        &mut self,
        host: &Host,
        endpoint: usize,
        expect: Expect,
        attempt: &mut Attempt,
    ) -> Result<Outcome, Failure> {
        let mut kept = self.kept[endpoint]
            .take()
            .filter(|(stream, _)| !stream.is_closed());
        loop {
            let reused = kept.is_some();
            let (mut stream, session) = if let Some(kept) = kept.take() {
                kept
            } else {
                attempt.waiting = Waiting::Connect;
                let stream = self
                    .driver
                    .names
                    .connect(host, &self.io, attempt)
                    .await
                    .map_err(|error| Failure::connecting(&error))?;
                attempt.connected = attempt.now();
                self.sessions += 1;
                (stream, self.sessions)
            };
            attempt.session = if self.driver.keep { session } else { 0 };
            attempt.waiting = Waiting::FirstByte;
            let result = round_trip(&self.io, &mut stream, &self.request, expect, attempt).await;
            let is_unanswered = attempt.received == 0;
            match result {
                Ok(outcome) => {
                    self.trips.ended(endpoint, &stream, attempt);
                    if self.driver.keep && outcome == Outcome::Ok && !matches!(expect, Expect::Close) {
                        self.kept[endpoint] = Some((stream, session));
                    }
                    return Ok(outcome);
                }
                Err(_) if reused && is_unanswered => attempt.attempt = 1,
                Err(failure) => return Err(failure),
            }
        }
    }
}

async fn round_trip(
    io: &Io,
    stream: &mut Stream,
    request: &[u8],
    expect: Expect,
    attempt: &mut Attempt,
) -> Result<Outcome, Failure> {
    let talking = |error: std::io::Error| Failure::talking(&error);
    let mut sent = 0;
    while sent < request.len() {
        let count = poll_fn(|_| stream.poll_send(&request[sent..]))
            .await
            .map_err(talking)?;
        sent += count;
        attempt.sent += count as u64;
    }
    if matches!(expect, Expect::Bytes { count: 0 }) {
        attempt.end = attempt.now();
        return Ok(Outcome::Ok);
    }
    let mut length = 0_u64;
    loop {
        let read = poll_fn(|_| {
            let mut buffer = io.buffer();
            let count = ready!(stream.poll_recv(&mut buffer))?;
            let line = matches!(expect, Expect::Line).then(|| memchr::memchr(b'\n', &buffer[..count]));
            Poll::Ready(std::io::Result::Ok((count, line.flatten())))
        });
        let (count, line) = read.await.map_err(talking)?;
        if count == 0 {
            return match expect {
                Expect::Close => {
                    attempt.end = attempt.now();
                    attempt.payload = length;
                    Ok(Outcome::Ok)
                }
                Expect::Bytes { .. } | Expect::Line => Err(Failure::closed_early()),
            };
        }
        attempt.read(count);
        length += count as u64;
        let complete = match expect {
            Expect::Close => None,
            Expect::Bytes { count } => (length >= count).then_some((count, count)),
            Expect::Line => line.map(|index| {
                let line = length - count as u64 + index as u64;
                (line, line + 1)
            }),
        };
        if let Some((payload, end)) = complete {
            attempt.payload = payload;
            return Ok(if length == end {
                Outcome::Ok
            } else {
                Outcome::Wrong
            });
        }
        if matches!(expect, Expect::Line) && length > MAX_LINE {
            return Err(Failure::error("line too long"));
        }
    }
}
