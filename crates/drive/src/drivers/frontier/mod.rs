//! `frontier`: SQL through a `FroNtier` gateway, or through caches in front of it, over the same
//! HTTP as `http`. Each answer is verified as a client must: base64, zlib, MD5, size and number of
//! records.
//!
//! Stamps as in `http`: start before the first system call, connected when a new connection is
//! ready, first byte and end right after the reads that brought them. **Verification comes after
//! the end**: it is the tester's own work, not the service's. It is no part of any request or
//! response time; the tester is free again, and its next planned start is counted, when it is done.
//! What it does cost is a part of the tester's core, and of the rate of a closed load; while one
//! answer is verified, the other testers of that core wait to read theirs.
//!
//! A transaction is one request of the user, with what a client does for it: `chatter` before it,
//! further tries after a failure (`failover`). First byte, cache, items, payload, outcome and code
//! are those of its last exchange; bytes are those of all, and so is the time: the answers of
//! chatter and of tries that failed are verified within it.
//!
//! Items: records. Payload: bytes of the result sets, decoded and inflated. Wire bytes: heads and
//! bodies of both directions. Cache: what `Cache-Status`, `X-Cache` or `Age` say.
//!
//! Outcome `wrong` is an answer that fails its verification; codes `not frontier`, `truncated`,
//! `misplaced`, `payloads`, `encoding`, `quality`, `base64`, `md5`, `inflate`, `too big`, `size`,
//! `records`, `result set`. Outcome `error`: `frontier error` (the gateway says so in a good
//! document; the first messages become notes), any status but 200 (the code), and the codes of
//! broken exchanges as in `http`.
//!
//! Metrics: `chatter requests`; `uncached` (1); `tries` (if more than one), `failed_tries_s`,
//! `direct` (1: past proxies); `object` and `version` ([`super::versions`]), the latter read during
//! the verification.

mod ask;
mod failover;
mod settings;
mod tester;
mod uncached;
mod verdict;

use std::sync::Arc;

use plimsoll_model::{Choose, Code, Codes, Endpoint, Order};
use plimsoll_schedule::{Fill, Stream, Template, rng, uniform};
use tokio_rustls::TlsConnector;

use self::ask::{Ask, UniqueKeys};
use self::failover::{Balance, Failover, Way};
use self::settings::{FailoverSetting, RequestSettings, Settings, Version};
use self::uncached::Uncached;
use self::verdict::Judge;
use super::http::{self, Connection, Target};
use super::versions::Versions;
use crate::api::DriverInfo;
use crate::driver::{AsyncDriver, Request, Setup};
use crate::http1::patience::Patience;
use crate::net::Host;
use crate::net::tls;
use crate::reactor::Io;
use crate::round_trips;

pub use self::tester::Tester;

/// See [`DriverInfo`].
pub(crate) const INFO: DriverInfo = DriverInfo {
    schemes: &["http", "https"],
    ..DriverInfo::new("frontier", "SQL through a Frontier gateway, answers verified")
};

/// The driver.
pub struct Frontier {
    servers: Vec<Server>,
    proxies: usize,
    operations: Vec<Operation>,
    chatter: u32,
    keep: bool,
    version: Version,
    id: String,
    patience: Patience,
    choose: Choose,
    order: Order,
    /// The public client's ways around failures; none: a failure is one.
    client: Option<Client>,
    uncached: Option<(Uncached, UniqueKeys)>,
    seed: u64,
    workload: u64,
    judge: Judge,
    metrics: Metrics,
    trips: round_trips::Names,
}

/// A server, by proxies and directly, as far as either is used.
struct Server {
    name: String,
    secure: bool,
    by_proxy: Option<Target>,
    direct: Option<Target>,
}

struct Operation {
    ask: Ask,
    /// As many as there are queries to choose from.
    chatter: Vec<Ask>,
}

/// How the public client is configured.
#[derive(Clone, Copy)]
struct Client {
    balance: Balance,
    to_server: bool,
}

/// Names of metrics.
struct Metrics {
    chatter: Code,
    uncached: Code,
    tries: Code,
    failed_tries: Code,
    direct: Code,
}

impl AsyncDriver for Frontier {
    type Tester = Tester;

    fn prepare(setup: &Setup<'_>) -> Result<Self, String> {
        let settings: Settings = setup.settings()?;
        settings.check()?;
        let servers = servers(setup, &settings)?;
        let operations = (0..setup.requests.len())
            .map(|index| operation(setup, &settings, index))
            .collect::<Result<Vec<_>, _>>()?;
        let uncached = (settings.uncached > 0.0).then(|| {
            let uncached = Uncached::new(settings.uncached, setup.seed, setup.workload);
            (uncached, UniqueKeys::new())
        });
        let limit = |ns| i64::try_from(ns).unwrap_or(i64::MAX);
        Ok(Self {
            servers,
            proxies: settings.proxies.len(),
            operations,
            chatter: settings.chatter.requests,
            keep: settings.connection == Connection::Kept,
            version: settings.http,
            choose: settings.choose,
            order: settings.order,
            client: (settings.failover == FailoverSetting::Client).then(|| Client {
                balance: settings.balance(),
                to_server: settings.failover_to_server,
            }),
            id: settings.id,
            patience: Patience {
                connect_ns: limit(settings.connect_timeout_ns),
                read_ns: limit(settings.read_timeout_ns),
            },
            uncached,
            seed: setup.seed,
            workload: setup.workload,
            judge: Judge::new(setup.codes),
            metrics: Metrics::new(setup.codes),
            trips: round_trips::Names::new(setup.codes),
        })
    }

    fn tester(self: &Arc<Self>, io: &Io, number: u32) -> Tester {
        Tester::new(self, io, number)
    }
}

impl Metrics {
    fn new(codes: &Codes) -> Self {
        Self {
            chatter: codes.number("chatter requests"),
            uncached: codes.number("uncached"),
            tries: codes.number("tries"),
            failed_tries: codes.number("failed_tries_s"),
            direct: codes.number("direct"),
        }
    }
}

fn servers(setup: &Setup<'_>, settings: &Settings) -> Result<Vec<Server>, String> {
    let proxies: Vec<Arc<Host>> = settings
        .proxies
        .iter()
        .map(|url| http::proxy(setup, url))
        .collect::<Result<_, _>>()?;
    let is_secure = |url: &str| url.starts_with("https:");
    let connector = if setup.endpoints.iter().any(|endpoint| is_secure(&endpoint.url)) {
        Some(TlsConnector::from(tls::client(None)?))
    } else {
        None
    };
    let directly =
        proxies.is_empty() || settings.failover == FailoverSetting::Client && settings.failover_to_server;
    let server = |endpoint: &Endpoint| {
        let by_proxy = if proxies.is_empty() {
            None
        } else {
            Some(http::target(setup, endpoint, &proxies, connector.as_ref())?)
        };
        let direct = if directly {
            let target = http::target(setup, endpoint, &[], connector.as_ref());
            Some(target.map_err(|error| match &by_proxy {
                Some(_) => format!("{error}; or set failover_to_server: false"),
                None => error,
            })?)
        } else {
            None
        };
        let (name, url) = (endpoint.name.clone(), &endpoint.url);
        if [&by_proxy, &direct]
            .into_iter()
            .flatten()
            .any(|target| target.base.contains('?'))
        {
            return Err(format!("endpoint {name}: {url}: a gateway's URL has no query"));
        }
        Ok(Server {
            name,
            secure: is_secure(url),
            by_proxy,
            direct,
        })
    };
    setup.endpoints.iter().map(server).collect()
}

fn operation(setup: &Setup<'_>, settings: &Settings, index: usize) -> Result<Operation, String> {
    let request: RequestSettings = setup.request(index)?;
    let form = request.check(index)?;
    let template = |text: &String| setup.template(index, text);
    // Fills templates that hold nothing to fill.
    let fill = Fill {
        tester: 0,
        n: 0,
        endpoint: "",
        now_us: 0,
        values: setup.values,
        drawn: &[],
    };
    let queries: Vec<Template> = request.queries.iter().map(template).collect();
    let freshkey = request.freshkey.as_ref().map(template);
    let chatter: &[String] = match settings.chatter.requests {
        0 => &[],
        _ => &settings.chatter.queries,
    };
    let versions = Versions::new(setup, index, request.version.as_ref())?;
    if versions
        .as_ref()
        .is_some_and(|versions| versions.column().is_none())
    {
        return Err(format!(
            "version of operation {index}: a gateway writes nothing: give column, and write by the driver sql"
        ));
    }
    let ask = |queries, own| Ask::new(queries, form, request.refresh, own, &fill);
    Ok(Operation {
        chatter: chatter
            .iter()
            .map(|text| ask(vec![template(text)], (None, None)))
            .collect(),
        ask: ask(queries, (freshkey, versions)),
    })
}

impl Frontier {
    /// The failures of one tester; none if they are none of the driver's.
    fn failover(&self, number: u32) -> Option<Failover> {
        let Client { balance, to_server } = self.client?;
        // Above all those of `Uncached`, which are made of a tester and a number below 2^40.
        let member = u64::from(number) << 40 | ((1 << 40) - 1);
        let rng = rng(self.seed, Stream::Driver, self.workload, member);
        let servers = self.servers.len();
        Some(Failover::new(servers, self.proxies, balance, to_server, rng))
    }

    /// The way that the target says.
    fn way(&self, request: &Request<'_>) -> Way {
        let fill = &request.fill;
        let n = match self.choose {
            Choose::PerTester => 0,
            Choose::PerRequest => fill.n,
        };
        let proxy = (self.proxies > 0).then(|| match self.order {
            // The endpoints go round first: with as many of both, each would else meet but one of
            // the others.
            Order::RoundRobin => {
                let turn = u64::from(fill.tester) + n;
                (turn / self.servers.len() as u64 % self.proxies as u64) as usize
            }
            Order::Random => {
                let member = u64::from(fill.tester) << 40 | (1 << 39) | n;
                let mut rng = rng(self.seed, Stream::Driver, self.workload, member);
                uniform(&mut rng, self.proxies as u64) as usize
            }
        });
        Way {
            server: request.endpoint,
            proxy,
        }
    }

    fn target(&self, way: Way) -> &Target {
        let server = &self.servers[way.server];
        let target = match way.proxy {
            Some(_) => server.by_proxy.as_ref(),
            None => server.direct.as_ref(),
        };
        #[allow(clippy::expect_used, reason = "ways lead by what `servers` has made")]
        target.expect("a way is one that was prepared")
    }

    /// Number of the connection that a way uses: a plain proxy takes requests for every server on
    /// one.
    fn connection(&self, way: Way) -> usize {
        match way.proxy {
            None => self.proxies + way.server,
            Some(proxy) if self.servers[way.server].secure => {
                self.proxies + self.servers.len() + way.server * self.proxies + proxy
            }
            Some(proxy) => proxy,
        }
    }

    fn connections(&self) -> usize {
        self.proxies + self.servers.len() + self.servers.len() * self.proxies
    }

    /// For messages. The URL of a proxy may hold a secret.
    fn named(&self, way: Way) -> String {
        let server = &self.servers[way.server].name;
        match way.proxy {
            Some(proxy) => format!("{server} by proxy {}", proxy + 1),
            None => format!("{server} directly"),
        }
    }
}
