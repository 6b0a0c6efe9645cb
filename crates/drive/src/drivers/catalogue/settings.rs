//! The settings and requests of `catalogue`, checked and compiled.

use std::collections::BTreeMap;

use plimsoll_model::{Endpoint, Generator};
use plimsoll_schedule::Values;
use plimsoll_wire::catalogue::rucio::Login;
use plimsoll_wire::catalogue::{DataSet, MAX_BULK};
use serde::Deserialize;

use super::CatalogueError;
use super::message::{Protocol, SoapSettings};
use super::rucio::RucioSettings;
use crate::driver::Setup;
use crate::drivers::connection::Connection;
use crate::net::Host;
use crate::net::identity::{Identity, ServerTls};
use crate::net::tls::{ServiceUrl, TlsSettings};
use crate::setup_error::{EndpointError, SetupError, UrlError};

/// Forms of the URLs of endpoints.
const FORMS: &str =
    "catalogue://HOST:PORT, soap://HOST:PORT or rucio://HOST:PORT (with TLS: catalogues, soaps or rucios)";
/// Port of LFC.
const PORT: u16 = 5010;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    pub(super) connection: Connection,
    data: DataSettings,
    keys: KeySettings,
    pub(super) round_trips: RoundTripMode,
    pub(super) transactions: bool,
    /// Who the client is, for a catalogue without security.
    pub(super) subject: String,
    /// Share of the changes that are verified, 0 to 1.
    verify: f64,
    tls: Option<TlsSettings>,
    /// Who the client is, for Rucio.
    rucio: Option<AccountSettings>,
}

/// An account of Rucio, and the scope of all names.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountSettings {
    account: String,
    user: String,
    password: String,
    scope: String,
}

impl AccountSettings {
    /// Whether the values can be fields of a request.
    fn is_valid(&self) -> bool {
        let fields = [&self.account, &self.user, &self.password, &self.scope];
        fields.iter().all(|field| !field.contains(['\r', '\n']))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DataSettings {
    entries: u64,
    directory: u64,
    replicas: u32,
    seed: u64,
}

/// Popularity of the entries.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum KeySettings {
    Uniform,
    Zipf { s: f64 },
    Single,
}

/// Number of round trips of an operation on one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RoundTripMode {
    One,
    Lfc,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestSettings {
    operation: Operation,
    by: By,
    bulk: usize,
    page: u16,
}

/// What a transaction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Operation {
    Insert,
    Query,
    List,
    Delete,
    Chmod,
    Forbidden,
    Link,
    GetAcl,
    SetAcl,
    ForbiddenAcl,
}

impl Operation {
    pub(super) fn is_change(self) -> bool {
        !matches!(self, Self::Query | Self::List | Self::GetAcl)
    }

    /// Whether a query can show that it was carried out.
    pub(super) fn is_verifiable(self) -> bool {
        self.is_change() && !matches!(self, Self::Forbidden | Self::ForbiddenAcl)
    }
}

/// How entries are named in queries and deletions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum By {
    Name,
    Guid,
    Replica,
    /// The path of a link to the entry, in queries only.
    Link,
}

/// An operation of the workload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub(super) operation: Operation,
    pub(super) by: By,
    /// Number of entries of a transaction.
    pub(super) bulk: usize,
    /// Number of names of a page.
    pub(super) page: u16,
}

/// A server: addresses, TLS if it uses it, and its protocol.
pub(super) struct Server {
    pub(super) host: Host,
    pub(super) tls: Option<ServerTls>,
    pub(super) protocol: Protocol,
}

impl Settings {
    pub(super) fn data(&self) -> Result<DataSet, CatalogueError> {
        let data = &self.data;
        for (key, number) in [
            ("data.entries", data.entries),
            ("data.directory", data.directory),
            ("data.replicas", u64::from(data.replicas)),
        ] {
            if number == 0 {
                return Err(CatalogueError::Range {
                    key,
                    expected: "at least 1",
                    found: 0,
                });
            }
        }
        Ok(DataSet {
            entries: data.entries,
            directory: data.directory,
            replicas: data.replicas,
            seed: data.seed,
        })
    }

    /// The generator of the numbers of entries, from 1.
    pub(super) fn keys(&self) -> Values {
        let entries = self.data.entries;
        let last = i64::try_from(entries).unwrap_or(i64::MAX);
        let generator = match self.keys {
            KeySettings::Uniform => Generator::Uniform { from: 1, to: last },
            KeySettings::Zipf { s } => Generator::Zipf { n: entries, s },
            KeySettings::Single => Generator::Uniform { from: 1, to: 1 },
        };
        Values::new(&BTreeMap::from([("key".to_owned(), generator)]))
    }

    /// Every change of this number is verified; none: no change is.
    pub(super) fn verify_every(&self) -> Option<u64> {
        (self.verify > 0.0).then(|| (1.0 / self.verify).round().max(1.0) as u64)
    }

    /// The servers of the endpoints. Opens no connection.
    pub(super) fn servers(&self, setup: &Setup<'_>) -> Result<Vec<Server>, SetupError> {
        if self.transactions && self.connection == Connection::PerRequest {
            return Err(CatalogueError::NoSession.into());
        }
        let server = |endpoint: &Endpoint| {
            let identity = self.identity(endpoint)?;
            server(setup, endpoint, identity, self)
        };
        let servers: Vec<Server> = setup.endpoints.iter().map(server).collect::<Result<_, _>>()?;
        if servers
            .iter()
            .any(|server| !matches!(server.protocol, Protocol::Stateful))
        {
            if self.transactions {
                return Err(CatalogueError::Stateless("transactions: true").into());
            }
            if self.round_trips == RoundTripMode::Lfc {
                return Err(CatalogueError::Stateless("round_trips: lfc").into());
            }
        }
        Ok(servers)
    }

    /// TLS with an endpoint; none without it. Without a certificate in the settings, the files are
    /// those that the service has made for its clients, in the directory that its URL contains.
    fn identity(&self, endpoint: &Endpoint) -> Result<Option<Identity>, SetupError> {
        let scheme = endpoint.url.split(':').next().unwrap_or_default();
        if !["catalogues", "soaps", "rucios"].contains(&scheme) {
            return Ok(None);
        }
        let certified = TlsSettings::certified(self.tls.as_ref(), &endpoint.url);
        // Clients of Rucio are identified by their tokens.
        if certified.is_none() && scheme != "rucios" {
            return Err(CatalogueError::NoCertificate(endpoint.name.clone()).into());
        }
        Ok(Some(Identity::new(certified.as_ref().or(self.tls.as_ref()))?))
    }
}

fn server(
    setup: &Setup<'_>,
    endpoint: &Endpoint,
    identity: Option<Identity>,
    settings: &Settings,
) -> Result<Server, SetupError> {
    let wrong = |error| SetupError::from(EndpointError::new(endpoint, error));
    let place = ServiceUrl::parse(&endpoint.url, FORMS).map_err(wrong)?;
    let (name, is_secure) = (place.host.as_str(), place.is_secure);
    let scheme = place.url.scheme();
    let protocol = scheme.strip_suffix('s').unwrap_or(scheme);
    let default_port = match (protocol, is_secure) {
        ("rucio", false) => 80,
        ("rucio", true) => 443,
        _ => PORT,
    };
    let port = place.url.port().unwrap_or(default_port);
    let at = format!("{name}:{port}");
    let protocol = match protocol {
        "catalogue" => Protocol::Stateful,
        "soap" => Protocol::Soap(settings.soap(at, is_secure)),
        "rucio" => Protocol::Rucio(settings.rucio(at)?),
        _ => return Err(wrong(UrlError::form(FORMS, &endpoint.url))),
    };
    let tls = match identity {
        Some(identity) => {
            let name = place.server_name().map_err(|error| wrong(error.into()))?;
            Some(ServerTls { identity, name })
        }
        None => None,
    };
    Ok(Server {
        host: setup.host(name, port).map_err(|error| wrong(error.into()))?,
        tls,
        protocol,
    })
}

impl Settings {
    fn soap(&self, host: String, is_secure: bool) -> SoapSettings {
        SoapSettings {
            host,
            // The certificate states who the tester is.
            subject: if is_secure {
                String::new()
            } else {
                self.subject.clone()
            },
            keep: self.connection == Connection::Kept,
        }
    }

    fn rucio(&self, host: String) -> Result<RucioSettings, CatalogueError> {
        let account = self.rucio.as_ref().filter(|account| account.is_valid());
        let account = account.ok_or(CatalogueError::RucioAccount)?;
        Ok(RucioSettings {
            host,
            login: Login {
                account: account.account.clone(),
                user: account.user.clone(),
                password: account.password.clone(),
            },
            scope: account.scope.clone(),
            keep: self.connection == Connection::Kept,
        })
    }
}

/// Reports operations that Rucio does not have.
pub(super) fn check_rucio(servers: &[Server], work: &[Work]) -> Result<(), CatalogueError> {
    if !servers
        .iter()
        .any(|server| matches!(server.protocol, Protocol::Rucio(_)))
    {
        return Ok(());
    }
    for one in work {
        let missing = match (one.operation, one.by) {
            (Operation::Chmod, _) => "operation: chmod",
            (Operation::Forbidden, _) => "operation: forbidden",
            (Operation::Link, _) => "operation: link",
            (Operation::GetAcl, _) => "operation: get-acl",
            (Operation::SetAcl, _) => "operation: set-acl",
            (Operation::ForbiddenAcl, _) => "operation: forbidden-acl",
            (_, By::Guid) => "by: guid",
            (_, By::Replica) => "by: replica",
            (_, By::Link) => "by: link",
            (_, By::Name) => continue,
        };
        return Err(CatalogueError::NotInRucio(missing));
    }
    Ok(())
}

/// The operation `index` of the workload.
pub(super) fn work(setup: &Setup<'_>, index: usize) -> Result<Work, SetupError> {
    let request: RequestSettings = setup.request(index)?;
    if !(1..=MAX_BULK).contains(&request.bulk) {
        return Err(CatalogueError::Range {
            key: "bulk",
            expected: "1 to 1,000",
            found: request.bulk as u64,
        }
        .into());
    }
    if request.operation == Operation::GetAcl && request.bulk > 1 {
        return Err(CatalogueError::Range {
            key: "bulk",
            expected: "1 with the operation get-acl",
            found: request.bulk as u64,
        }
        .into());
    }
    if request.by == By::Link && request.operation != Operation::Query {
        return Err(CatalogueError::ByLink.into());
    }
    if !(1..=MAX_BULK).contains(&usize::from(request.page)) {
        return Err(CatalogueError::Range {
            key: "page",
            expected: "1 to 1,000",
            found: u64::from(request.page),
        }
        .into());
    }
    Ok(Work {
        operation: request.operation,
        by: request.by,
        bulk: request.bulk,
        page: request.page,
    })
}
