//! The settings and requests of `catalogue`, checked and compiled.

use std::collections::BTreeMap;
use std::path::PathBuf;

use plimsoll_model::{Endpoint, Generator};
use plimsoll_schedule::Values;
use plimsoll_wire::catalogue::{DataSet, MAX_BULK};
use rustls::pki_types::ServerName;
use serde::Deserialize;
use tokio_rustls::TlsConnector;
use url::Url;

use super::CatalogueError;
use super::message::SoapSettings;
use crate::driver::Setup;
use crate::drivers::connection::Connection;
use crate::net::Host;
use crate::net::identity::TesterProxies;
use crate::net::tls::{self, TlsSettings};
use crate::net::transport::Security;
use crate::setup_error::{EndpointError, SetupError, UrlError};

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
}

/// How entries are named in queries and deletions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum By {
    Name,
    Guid,
    Replica,
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
    tls: Option<(Identity, ServerName<'static>)>,
    /// For SOAP: what its requests have in common. None: the stateful protocol.
    pub(super) soap: Option<SoapSettings>,
}

/// Who the testers are in TLS.
enum Identity {
    /// All of them present the same certificate or proxy.
    Shared(TlsConnector),
    /// Each has a proxy of its own.
    Own(Box<TesterProxies>),
}

impl Server {
    /// TLS of a tester; none without it.
    pub(super) fn security(&self, tester: u32) -> Option<Security> {
        let (identity, name) = self.tls.as_ref()?;
        let connector = match identity {
            Identity::Shared(connector) => connector.clone(),
            Identity::Own(proxies) => TlsConnector::from(proxies.of_tester(tester)),
        };
        Some((connector, name.clone()))
    }
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
                .map_err(|error| SetupError::from(EndpointError::new(endpoint, error)))
        };
        let servers: Vec<Server> = setup.endpoints.iter().map(server).collect::<Result<_, _>>()?;
        if servers.iter().any(|server| server.soap.is_some()) {
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
        let secure = ["catalogues://", "soaps://"];
        let Some(address) = secure.iter().find_map(|scheme| endpoint.url.strip_prefix(scheme)) else {
            return Ok(None);
        };
        let made = address.find('/').map(|at| PathBuf::from(&address[at..]));
        let made = made.filter(|directory| directory.as_os_str().len() > 1);
        let settings = match (self.tls.clone(), made) {
            (Some(settings), _) if settings.cert.is_some() => settings,
            (settings, Some(directory)) => TlsSettings {
                ca_file: Some(directory.join("ca.pem")),
                ca_dir: None,
                cert: Some(directory.join("user.pem")),
                key: Some(directory.join("user.key")),
                verify: settings.as_ref().is_none_or(|settings| settings.verify),
                proxy: settings.and_then(|settings| settings.proxy),
            },
            _ => return Err(CatalogueError::NoCertificate(endpoint.name.clone()).into()),
        };
        Ok(Some(match tls::tester_proxies(&settings)? {
            Some(proxies) => Identity::Own(Box::new(proxies)),
            None => Identity::Shared(TlsConnector::from(tls::client(Some(&settings))?)),
        }))
    }
}

fn server(
    setup: &Setup<'_>,
    endpoint: &Endpoint,
    identity: Option<Identity>,
    settings: &Settings,
) -> Result<Server, UrlError> {
    let form = || {
        let forms = "catalogue://HOST:PORT, catalogues://HOST:PORT, soap://HOST:PORT or soaps://HOST:PORT";
        UrlError::form(forms, &endpoint.url)
    };
    let url = Url::parse(&endpoint.url).map_err(|source| UrlError::Syntax {
        found: endpoint.url.clone(),
        source,
    })?;
    let (is_secure, is_soap) = match url.scheme() {
        "catalogue" => (false, false),
        "catalogues" => (true, false),
        "soap" => (false, true),
        "soaps" => (true, true),
        _ => return Err(form()),
    };
    let name = url.host_str().filter(|name| !name.is_empty()).ok_or_else(form)?;
    // With TLS, a path is the directory of certificates.
    let has_path = !matches!(url.path(), "" | "/");
    if (has_path && !is_secure) || url.query().is_some() {
        return Err(form());
    }
    let port = url.port().unwrap_or(PORT);
    let host = setup.host(name, port)?;
    let soap = is_soap.then(|| SoapSettings {
        host: format!("{name}:{port}"),
        // The certificate states who the tester is.
        subject: if is_secure {
            String::new()
        } else {
            settings.subject.clone()
        },
        keep: settings.connection == Connection::Kept,
    });
    let tls = match identity {
        Some(identity) => {
            let bare = name.trim_start_matches('[').trim_end_matches(']');
            Some((identity, tls::server_name(bare)?))
        }
        None => None,
    };
    Ok(Server { host, tls, soap })
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
