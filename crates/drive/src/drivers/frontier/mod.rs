//! `frontier`: SQL queries through a `FroNtier` gateway, or through caches in front of it, with the
//! same HTTP client as `http`. Each response is verified, as a client must do: base64, zlib, MD5,
//! size and number of records.
//!
//! Stamps as in `http`: start before the first system call, connected when a new connection is
//! ready, first byte and end immediately after the reads that returned them. **A response is
//! verified after the end**: this is work of the tester, not of the service. It is not part of the
//! request time or the response time: when it is done, the tester is free, and its next start is
//! planned from then. It uses CPU time of the tester's core, and so reduces the rate of a closed
//! load: while one response is verified, the other testers of that core wait to read theirs.
//!
//! A transaction is one request of the user, with the requests that a client sends for it:
//! `chatter` before it, and further tries after a failure (`failover`). First byte, cache, items,
//! payload, outcome and code are those of its last exchange. Bytes and time are those of all
//! exchanges: the responses of chatter and of failed tries are verified within the transaction.
//!
//! Items: records. Payload: bytes of the result sets, decoded and inflated. Wire bytes: heads and
//! bodies of both directions. Cache: as `Cache-Status`, `X-Cache` or `Age` report.
//!
//! Outcome `wrong`: a response whose verification fails; codes `not frontier`, `truncated`,
//! `misplaced`, `payloads`, `encoding`, `quality`, `base64`, `md5`, `inflate`, `too big`, `size`,
//! `records`, `result set`. Outcome `error`: `frontier error` (the gateway reports an error in a
//! valid document; the first messages become notes), every status except 200 (the code), and the
//! codes of failed exchanges as in `http`.
//!
//! Metrics: `chatter requests`; `uncached` (1); `tries` (if more than one), `failed_tries_s`,
//! `direct` (1: without proxies); `object` and `version` ([`super::versions`]), the latter read
//! during the verification.

mod ask;
mod error;
mod failover;
mod settings;
mod tester;
mod uncached_choice;
mod verdict;

use std::sync::Arc;

use plimsoll_model::{Choose, Code, Codes, Endpoint, Order};
use plimsoll_schedule::{Stream, Template, rng, uniform};

use self::ask::{Ask, UniqueKeys};
use self::failover::{Balance, Failover, Way};
use self::settings::{FailoverSetting, RequestSettings, Settings, Version};
use self::uncached_choice::UncachedChoice;
use self::verdict::Verifier;
use super::connection::Connection;
use super::http::{self, Target};
use super::versions::Versions;
use crate::api::DriverInfo;
use crate::driver::{AsyncDriver, Request, Setup};
use crate::http1::timeouts::Timeouts;
use crate::lane::reactor::Io;
use crate::net::Host;
use crate::net::identity::Identity;
use crate::net::round_trips;
use crate::setup_error::{EndpointError, SetupError, UrlError};

pub use self::error::FrontierError;
pub use self::tester::Tester;

/// Description of the driver.
pub(crate) const INFO: DriverInfo = DriverInfo {
    schemes: &["http", "https"],
    ..DriverInfo::new(
        "frontier",
        "SQL queries through a Frontier gateway, with verified responses",
    )
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
    timeouts: Timeouts,
    choose: Choose,
    order: Order,
    /// Failover as in the public client; none: a failure ends the transaction.
    client: Option<Client>,
    uncached: Option<(UncachedChoice, UniqueKeys)>,
    seed: u64,
    workload: u64,
    verifier: Verifier,
    metrics: Metrics,
    trips: round_trips::Names,
}

/// A server, through proxies and directly, where these are used.
struct Server {
    name: String,
    secure: bool,
    by_proxy: Option<Target>,
    direct: Option<Target>,
}

struct Operation {
    ask: Ask,
    /// The validation queries, sent in turn.
    chatter: Vec<Ask>,
}

/// Configuration of the public client.
#[derive(Clone, Copy)]
struct Client {
    balance: Balance,
    to_server: bool,
}

/// Codes of the names of metrics.
struct Metrics {
    chatter: Code,
    uncached: Code,
    tries: Code,
    failed_tries: Code,
    direct: Code,
}

impl AsyncDriver for Frontier {
    type Tester = Tester;

    fn prepare(setup: &Setup<'_>) -> Result<Self, SetupError> {
        let settings: Settings = setup.settings()?;
        settings.check()?;
        let servers = servers(setup, &settings)?;
        let operations = (0..setup.requests.len())
            .map(|index| operation(setup, &settings, index))
            .collect::<Result<Vec<_>, _>>()?;
        let uncached = (settings.uncached > 0.0).then(|| {
            let uncached = UncachedChoice::new(settings.uncached, setup.seed, setup.workload);
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
            timeouts: Timeouts {
                connect_ns: limit(settings.connect_timeout_ns),
                read_ns: limit(settings.read_timeout_ns),
            },
            uncached,
            seed: setup.seed,
            workload: setup.workload,
            verifier: Verifier::new(setup.codes),
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

fn servers(setup: &Setup<'_>, settings: &Settings) -> Result<Vec<Server>, SetupError> {
    let proxies: Vec<Arc<Host>> = settings
        .proxies
        .iter()
        .map(|url| http::proxy(setup, url, &[]))
        .collect::<Result<_, _>>()?;
    let is_secure = |url: &str| url.starts_with("https:");
    let identity = if setup.endpoints.iter().any(|endpoint| is_secure(&endpoint.url)) {
        Some(Identity::new(None)?)
    } else {
        None
    };
    let connector = identity.as_ref().map(Identity::shared);
    let is_direct =
        proxies.is_empty() || settings.failover == FailoverSetting::Client && settings.failover_to_server;
    let server = |endpoint: &Endpoint| -> Result<Server, SetupError> {
        let by_proxy = if proxies.is_empty() {
            None
        } else {
            Some(http::target(setup, endpoint, &proxies, connector, &[])?)
        };
        let direct = if is_direct {
            let target = http::target(setup, endpoint, &[], connector, &[]);
            Some(target.map_err(|error| match &by_proxy {
                Some(_) => FrontierError::Direct(error).into(),
                None => SetupError::from(error),
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
            let url = UrlError::form("a URL without a query", url);
            return Err(EndpointError::new(endpoint, url).into());
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

fn operation(setup: &Setup<'_>, settings: &Settings, index: usize) -> Result<Operation, SetupError> {
    let request: RequestSettings = setup.request(index)?;
    let form = request.check(index)?;
    let template = |text: &String| setup.template(index, text);
    let fill = setup.constant_fill();
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
        return Err(FrontierError::Written { operation: index }.into());
    }
    let (encoding, ttl) = form;
    let chatter_form = (encoding, settings.chatter.ttl(ttl));
    let chatter_refresh = settings.chatter.refresh.unwrap_or(request.refresh);
    let chatter = chatter.iter().map(|text| {
        let queries = vec![template(text)];
        Ask::new(queries, chatter_form, chatter_refresh, (None, None), &fill)
    });
    Ok(Operation {
        chatter: chatter.collect(),
        ask: Ask::new(queries, form, request.refresh, (freshkey, versions), &fill),
    })
}

impl Frontier {
    /// The failover of one tester; none if the workload has no failover.
    fn failover(&self, number: u32) -> Option<Failover> {
        let Client { balance, to_server } = self.client?;
        // Differs from the members of `UncachedChoice`, which consist of a tester and the small
        // number of a span.
        let member = u64::from(number) << 40 | ((1 << 40) - 1);
        let rng = rng(self.seed, Stream::Driver, self.workload, member);
        let servers = self.servers.len();
        Some(Failover::new(servers, self.proxies, balance, to_server, rng))
    }

    /// The route of a request without failover, by the settings of the target.
    fn way(&self, request: &Request<'_>) -> Way {
        let fill = &request.fill;
        let n = match self.choose {
            Choose::PerTester => 0,
            Choose::PerRequest => fill.n,
        };
        let proxy = (self.proxies > 0).then(|| match self.order {
            // The endpoint changes first. Otherwise, with as many proxies as endpoints, each
            // endpoint would be used with one proxy only.
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
        #[allow(
            clippy::expect_used,
            reason = "`servers` has created the target of every route"
        )]
        target.expect("the target of a route exists")
    }

    /// Number of the connection of a route. Without TLS, one connection to a proxy transfers
    /// requests for all servers.
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

    /// Description of a route for messages. It does not contain the URL of a proxy, which may
    /// contain a secret.
    fn describe(&self, way: Way) -> String {
        let server = &self.servers[way.server].name;
        match way.proxy {
            Some(proxy) => format!("{server} through proxy {}", proxy + 1),
            None => format!("{server} directly"),
        }
    }
}
