//! `sql`: queries to a database, on a kept connection or one per query.
//!
//! The scheme of the endpoints says which: `sqlite:/absolute/path` (testers are threads),
//! `postgresql://` (or `postgres://`), `mariadb://` (or `mysql://`) with
//! `USER:PASSWORD@HOST:PORT/DATABASE` (testers are tasks). All endpoints of a workload are of one
//! kind.

mod broken;
mod cancel;
mod code;
mod connection;
mod network;
mod read_only;
mod sqlite;

use plimsoll_model::Endpoint;
use plimsoll_schedule::Template;
use serde::Deserialize;

use super::versions::{VersionSettings, Versions};
use crate::api::DriverInfo;
use crate::driver::Setup;
use crate::net::tls::TlsSettings;

pub use network::Network;
pub use sqlite::Sqlite;

/// See [`DriverInfo`].
pub(crate) const INFO: DriverInfo = DriverInfo {
    schemes: &["sqlite", "postgresql", "postgres", "mysql", "mariadb"],
    file_keys: &["ca_file", "cert", "key"],
    blocking: true,
    ..DriverInfo::new("sql", "queries to SQLite, PostgreSQL and MariaDB")
};

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    Sqlite,
    /// `PostgreSQL`.
    Postgres,
    /// `MariaDB` and `MySQL`.
    Mariadb,
}

impl Kind {
    fn of(endpoint: &Endpoint) -> Option<Self> {
        match endpoint.url.split(':').next() {
            Some("sqlite") => Some(Self::Sqlite),
            Some("postgresql" | "postgres") => Some(Self::Postgres),
            Some("mysql" | "mariadb") => Some(Self::Mariadb),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Keeping {
    Kept,
    PerQuery,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    connection: Keeping,
    /// For endpoints whose URL has none.
    #[serde(default)]
    password: Option<String>,
    /// None: without TLS.
    #[serde(default)]
    tls: Option<TlsSettings>,
}

impl Settings {
    fn keeps(&self) -> bool {
        self.connection == Keeping::Kept
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestSettings {
    query: String,
    version: Option<VersionSettings>,
}

/// What an operation asks.
struct Query {
    text: Template,
    versions: Option<Versions>,
}

impl Query {
    /// The column of versions that it reads.
    fn column(&self) -> Option<&str> {
        self.versions.as_ref()?.column()
    }
}

/// Whether testers of these endpoints are threads.
pub fn blocks(endpoints: &[Endpoint]) -> bool {
    matches!(kind(endpoints), Ok(Kind::Sqlite))
}

/// The one kind of all endpoints. An error names no URL: there may be a password in it.
pub fn kind(endpoints: &[Endpoint]) -> Result<Kind, String> {
    let of = |endpoint: &Endpoint| {
        Kind::of(endpoint).ok_or_else(|| {
            format!(
                "endpoint {}: expected sqlite:/absolute/path, postgresql://USER:PASSWORD@HOST:PORT/DATABASE or \
                 mariadb://USER:PASSWORD@HOST:PORT/DATABASE",
                endpoint.name
            )
        })
    };
    let (first, others) = endpoints.split_first().ok_or("there is no endpoint")?;
    let kind = of(first)?;
    for other in others {
        if of(other)? != kind {
            return Err(format!(
                "endpoints {} and {} are different databases: give each a workload of its own",
                first.name, other.name
            ));
        }
    }
    Ok(kind)
}

fn keeps(setup: &Setup<'_>) -> Result<bool, String> {
    let settings: Settings = setup.settings()?;
    Ok(settings.keeps())
}

/// The queries, per operation.
fn queries(setup: &Setup<'_>) -> Result<Vec<Query>, String> {
    let query = |index| {
        let request: RequestSettings = setup.request(index)?;
        if request.query.trim().is_empty() {
            return Err(format!("query of operation {index}: it is empty"));
        }
        Ok(Query {
            text: setup.template(index, &request.query),
            versions: Versions::new(setup, index, request.version.as_ref())?,
        })
    };
    (0..setup.requests.len()).map(query).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(urls: &[&str]) -> Result<Kind, String> {
        let endpoint = |(number, url): (usize, &&str)| Endpoint {
            name: format!("e{number}"),
            url: (*url).to_owned(),
        };
        let endpoints: Vec<Endpoint> = urls.iter().enumerate().map(endpoint).collect();
        assert_eq!(blocks(&endpoints), kind(&endpoints) == Ok(Kind::Sqlite));
        kind(&endpoints)
    }

    #[test]
    fn endpoints_of_a_workload_are_of_one_kind() {
        assert_eq!(of(&["sqlite:/a", "sqlite:/b"]), Ok(Kind::Sqlite));
        assert_eq!(
            of(&["postgres://a@h/x", "postgresql://b@h/y"]),
            Ok(Kind::Postgres)
        );
        assert_eq!(of(&["mysql://a@h/x", "mariadb://a@g/x"]), Ok(Kind::Mariadb));
        let message = of(&["mysql://a@h/x", "postgres://a@h/x"]).unwrap_err();
        assert!(message.contains("e0 and e1 are different"), "{message}");
        let message = of(&["oracle://a:secret@h/x"]).unwrap_err();
        assert!(message.contains("endpoint e0: expected sqlite:"), "{message}");
        assert!(!message.contains("secret"), "{message}");
        assert!(of(&[]).is_err());
    }
}
