//! `frontier`: SQL through a `FroNtier` gateway, or through a cache in front of it, over the same HTTP/1.1 as `http`. Each
//! answer is verified as a client must: base64, zlib, MD5, size and number of records.
//!
//! Stamps as in `http`: start before the first system call, connected when a new connection is ready, first byte and end
//! right after the reads that brought them. **Verification comes after the end**: it is the tester's own work, not the
//! service's. It is no part of any request or response time; the tester is free again, and its next planned start is
//! counted, when it is done. What it does cost is a part of the tester's core, and of the rate of a closed load; while one
//! answer is verified, the other testers of that core wait to read theirs.
//!
//! Items: records. Payload: bytes of the result set, decoded and inflated. Wire bytes: heads and bodies of both directions.
//! Cache: what `Cache-Status`, `X-Cache` or `Age` say.
//!
//! Outcome `wrong` is an answer that fails its verification; codes `not frontier`, `truncated`, `misplaced`, `payloads`,
//! `encoding`, `quality`, `base64`, `md5`, `inflate`, `too big`, `size`, `records`, `result set`. Outcome `error`:
//! `frontier error` (the gateway says so in a good document; the first messages become notes), any status but 200 (the
//! code), and the codes of broken exchanges as in `http`.
//!
//! With several proxies a tester uses the first alone.

use std::cell::RefCell;
use std::sync::Arc;

use plimsoll_model::{Code, Codes, Outcome};
use plimsoll_schedule::{Fill, Template};
use plimsoll_wire::frontier::document::{DocumentError, Reader, Summary};
use plimsoll_wire::frontier::request::{Encoding, Form, Ttl, build_url};
use serde::Deserialize;
use tokio_rustls::TlsConnector;

use super::http::{self, Connection, Statuses, Target};
use crate::driver::{AsyncDriver, AsyncTester, Attempt, Request, Setup};
use crate::http1::connection::{Connections, Exchange};
use crate::http1::tls;
use crate::reactor::Io;

/// Largest result set that is accepted, bytes after inflating.
const LARGEST_PAYLOAD: u64 = 256 * 1024 * 1024;
/// Longest value of `X-Frontier-Id`, bytes: that of the C client.
const LONGEST_ID: usize = 256;

thread_local! {
    /// One for all testers of a lane, as no verification is ever interrupted: its buffers (three times an answer) stay in
    /// the cache, and memory does not grow with the number of testers.
    static READER: RefCell<Reader> = RefCell::new(Reader::new(LARGEST_PAYLOAD));
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    connection: Connection,
    id: String,
    proxies: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestSettings {
    query: String,
    zip: u8,
    ttl: TtlSetting,
    refresh: Refresh,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum TtlSetting {
    Short,
    Long,
    Forever,
}

/// What caches on the way are asked to do.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Refresh {
    None,
    NoCache,
    MaxAge,
}

impl Refresh {
    /// Value of Cache-Control. The C client always takes an answer that is one second too old, and so do we: it decides
    /// what a cache does, and what the gateway says of stale answers.
    fn header(self) -> &'static str {
        match self {
            Self::None => "max-stale=1",
            Self::NoCache => "max-stale=1,no-cache",
            Self::MaxAge => "max-stale=1,max-age=0",
        }
    }
}

/// The driver.
pub struct Frontier {
    targets: Vec<Target>,
    operations: Vec<Operation>,
    keep: bool,
    id: String,
    statuses: Statuses,
    wrong: Wrong,
}

struct Operation {
    query: Template,
    encoding: Encoding,
    ttl: Ttl,
    refresh: Refresh,
    /// Per endpoint: the whole request, if it is always the same. Packing SQL into a URL costs more than sending it.
    ready: Vec<Option<Vec<u8>>>,
}

impl AsyncDriver for Frontier {
    type Tester = Tester;

    fn prepare(setup: &Setup<'_>) -> Result<Self, String> {
        let settings: Settings = setup.settings()?;
        check_id(&settings.id)?;
        let proxies = settings
            .proxies
            .iter()
            .map(|url| http::proxy(url))
            .collect::<Result<Vec<_>, _>>()?;
        let secure = setup
            .endpoints
            .iter()
            .any(|endpoint| endpoint.url.starts_with("https:"));
        let connector = if secure {
            Some(TlsConnector::from(tls::client(None)?))
        } else {
            None
        };
        let target = |endpoint| {
            let target = http::target(endpoint, &proxies, connector.as_ref())?;
            if target.base.contains('?') {
                let (name, url) = (&endpoint.name, &endpoint.url);
                return Err(format!("endpoint {name}: {url}: a gateway's URL has no query"));
            }
            Ok(target)
        };
        let mut frontier = Self {
            targets: setup
                .endpoints
                .iter()
                .map(target)
                .collect::<Result<Vec<_>, String>>()?,
            operations: (0..setup.requests.len())
                .map(|index| operation(setup, index))
                .collect::<Result<Vec<_>, _>>()?,
            keep: settings.connection == Connection::Kept,
            id: settings.id,
            statuses: Statuses::new(setup.codes),
            wrong: Wrong::new(setup.codes),
        };
        frontier.render_constants(setup);
        Ok(frontier)
    }

    fn tester(self: &Arc<Self>, io: &Io, _: u32) -> Tester {
        Tester {
            connections: Connections::new(io, self.targets.len()),
            driver: Arc::clone(self),
            request: Vec::new(),
            query: Vec::new(),
            body: Vec::new(),
        }
    }
}

fn check_id(id: &str) -> Result<(), String> {
    let plain = |byte: u8| (b' '..0x7f).contains(&byte);
    if id.trim().is_empty() {
        Err("id: it is empty, and gateways refuse requests without X-Frontier-Id".to_owned())
    } else if id.len() > LONGEST_ID || !id.bytes().all(plain) {
        Err(format!(
            "id: X-Frontier-Id has at most {LONGEST_ID} characters of ASCII, and no line ends"
        ))
    } else {
        Ok(())
    }
}

fn operation(setup: &Setup<'_>, index: usize) -> Result<Operation, String> {
    let request: RequestSettings = setup.request(index)?;
    if request.query.trim().is_empty() {
        return Err(format!("query of operation {index}: it is empty"));
    }
    let zip = request.zip;
    let encoding = Encoding::from_level(zip)
        .ok_or_else(|| format!("zip of operation {index}: {zip} is no level; expected 0 to 9"))?;
    Ok(Operation {
        query: setup.template(index, &request.query),
        encoding,
        ttl: match request.ttl {
            TtlSetting::Short => Ttl::Short,
            TtlSetting::Long => Ttl::Long,
            TtlSetting::Forever => Ttl::Forever,
        },
        refresh: request.refresh,
        ready: vec![None; setup.endpoints.len()],
    })
}

impl Frontier {
    fn render_constants(&mut self, setup: &Setup<'_>) {
        let fill = Fill {
            tester: 0,
            n: 0,
            endpoint: "",
            values: setup.values,
            drawn: &[],
        };
        for index in 0..self.operations.len() {
            if self.operations[index].query.constant().is_some() {
                let render = |target: &Target| {
                    let mut out = Vec::new();
                    self.render(&self.operations[index], target, &fill, &mut Vec::new(), &mut out);
                    Some(out)
                };
                self.operations[index].ready = self.targets.iter().map(render).collect();
            }
        }
    }

    /// Appends the whole request to `out`. `query` is a buffer to use.
    fn render(
        &self,
        operation: &Operation,
        target: &Target,
        fill: &Fill<'_>,
        query: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) {
        query.clear();
        operation.query.fill(fill, query);
        // Values are numbers and texts, so that what is filled in is text as well.
        let sql = std::str::from_utf8(query).unwrap_or_default();
        let url = build_url(
            &target.base,
            Form::Slash,
            &[sql],
            operation.encoding,
            operation.ttl,
            None,
        );
        let connection = if self.keep { "" } else { "Connection: close\r\n" };
        for part in [
            "GET ",
            target.origin.as_str(),
            &url,
            " HTTP/1.1\r\nHost: ",
            &target.authority,
            "\r\nX-Frontier-Id: ",
            &self.id,
            "\r\nCache-Control: ",
            operation.refresh.header(),
            "\r\n",
            connection,
            "\r\n",
        ] {
            out.extend_from_slice(part.as_bytes());
        }
    }
}

/// Codes of answers that are no good.
#[derive(Debug, Clone, Copy)]
struct Wrong {
    error: Code,
    payloads: Code,
}

impl Wrong {
    fn new(codes: &Codes) -> Self {
        Self {
            error: codes.number("frontier error"),
            payloads: codes.number("payloads"),
        }
    }
}

fn word(error: &DocumentError) -> &'static str {
    match error {
        DocumentError::NotFrontier => "not frontier",
        DocumentError::Truncated => "truncated",
        DocumentError::Misplaced { .. } => "misplaced",
        DocumentError::Payloads { .. } => "payloads",
        DocumentError::Encoding(_) => "encoding",
        DocumentError::Quality { .. } => "quality",
        DocumentError::Base64(_) => "base64",
        DocumentError::Md5(_) => "md5",
        DocumentError::Inflate(_) => "inflate",
        DocumentError::TooBig { .. } => "too big",
        DocumentError::Size { .. } => "size",
        DocumentError::Records { .. } => "records",
        DocumentError::Payload { .. } => "result set",
    }
}

/// A tester: its connections and buffers.
pub struct Tester {
    driver: Arc<Frontier>,
    connections: Connections,
    request: Vec<u8>,
    query: Vec<u8>,
    body: Vec<u8>,
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
            driver.render(
                operation,
                target,
                &request.fill,
                &mut self.query,
                &mut self.request,
            );
            attempt.begin();
            &self.request
        };
        self.body.clear();
        let exchange = Exchange {
            route: &target.routes[0],
            way: request.endpoint,
            request: bytes,
            head_only: false,
            keep: driver.keep,
            body: Some(&mut self.body),
        };
        match self.connections.exchange(exchange, attempt).await {
            Ok(answer) => {
                attempt.cache = answer.cache;
                if answer.status == 200 {
                    let verified = READER.with_borrow_mut(|reader| reader.verify(&self.body));
                    judge(driver.wrong, verified, attempt);
                } else {
                    attempt.conclude(Outcome::Error, driver.statuses.code(answer.status));
                }
                attempt.freed();
            }
            Err(failure) => attempt.fail(&failure),
        }
    }

    fn reset(&mut self) {
        self.connections.close();
    }
}

fn judge(wrong: Wrong, verified: Result<Summary, DocumentError>, attempt: &mut Attempt) {
    match verified {
        Ok(Summary {
            error: Some(error), ..
        }) => {
            attempt.note = Some(format!("frontier: the gateway says: {}", error.message));
            attempt.conclude(Outcome::Error, wrong.error);
        }
        Ok(Summary {
            payloads: 1,
            rows,
            payload_bytes,
            ..
        }) => {
            attempt.items = rows;
            attempt.payload = payload_bytes;
            attempt.conclude(Outcome::Ok, Code::NONE);
        }
        // A good document, and an answer to another question.
        Ok(_) => attempt.conclude(Outcome::Wrong, wrong.payloads),
        Err(error) => {
            let code = attempt.code_of(word(&error));
            attempt.note = Some(format!("frontier: {error}"));
            attempt.conclude(Outcome::Wrong, code);
        }
    }
}
