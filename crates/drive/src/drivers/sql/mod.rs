//! `sql`: queries to a database, on a kept connection or with one connection per query.
//!
//! The scheme of the endpoints determines the database: `sqlite:/absolute/path` (testers are
//! threads), `postgresql://` (or `postgres://`), `mariadb://` (or `mysql://`) with
//! `USER:PASSWORD@HOST:PORT/DATABASE` (testers are tasks). All endpoints of a workload have the
//! same kind of database.

mod cancel;
mod code;
mod connection;
mod database_error;
mod error;
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
use crate::setup_error::SetupError;

pub use error::SqlError;
pub use network::Network;
pub use sqlite::Sqlite;

/// Description of the driver.
pub(crate) const INFO: DriverInfo = DriverInfo {
    schemes: &["sqlite", "postgresql", "postgres", "mysql", "mariadb"],
    file_keys: &["ca_file", "cert", "key"],
    blocking: true,
    ..DriverInfo::new("sql", "queries to SQLite, PostgreSQL and MariaDB")
};

/// Kind of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `SQLite`: a file.
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
enum ConnectionMode {
    Kept,
    PerQuery,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    connection: ConnectionMode,
    /// Password for endpoints whose URL contains none.
    #[serde(default)]
    password: Option<String>,
    /// Settings of TLS; none: without TLS.
    #[serde(default)]
    tls: Option<TlsSettings>,
}

impl Settings {
    fn keeps_connections(&self) -> bool {
        self.connection == ConnectionMode::Kept
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestSettings {
    query: String,
    version: Option<VersionSettings>,
}

/// The query of an operation.
struct Query {
    text: Template,
    versions: Option<Versions>,
}

impl Query {
    /// The column of the versions that the query reads; none if it reads none.
    fn column(&self) -> Option<&str> {
        self.versions.as_ref()?.column()
    }
}

/// Whether the testers for these endpoints are threads.
pub fn blocks(endpoints: &[Endpoint]) -> bool {
    matches!(kind(endpoints), Ok(Kind::Sqlite))
}

/// The kind of database of all endpoints.
pub fn kind(endpoints: &[Endpoint]) -> Result<Kind, SqlError> {
    let of = |endpoint: &Endpoint| {
        Kind::of(endpoint).ok_or_else(|| SqlError::Scheme {
            endpoint: endpoint.name.clone(),
        })
    };
    let (first, others) = endpoints.split_first().ok_or(SqlError::NoEndpoint)?;
    let kind = of(first)?;
    for other in others {
        if of(other)? != kind {
            return Err(SqlError::Kinds {
                first: first.name.clone(),
                other: other.name.clone(),
            });
        }
    }
    Ok(kind)
}

fn keeps_connections(setup: &Setup<'_>) -> Result<bool, SetupError> {
    let settings: Settings = setup.settings()?;
    Ok(settings.keeps_connections())
}

/// The queries of the operations.
fn queries(setup: &Setup<'_>) -> Result<Vec<Query>, SetupError> {
    let query = |index| {
        let request: RequestSettings = setup.request(index)?;
        if request.query.trim().is_empty() {
            return Err(SetupError::EmptyQuery { operation: index });
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

    fn of(urls: &[&str]) -> Result<Kind, SqlError> {
        let endpoint = |(number, url): (usize, &&str)| Endpoint {
            name: format!("e{number}"),
            url: (*url).to_owned(),
        };
        let endpoints: Vec<Endpoint> = urls.iter().enumerate().map(endpoint).collect();
        assert_eq!(blocks(&endpoints), kind(&endpoints) == Ok(Kind::Sqlite));
        kind(&endpoints)
    }

    #[test]
    fn endpoints_of_a_workload_must_have_one_kind_of_database() {
        assert_eq!(of(&["sqlite:/a", "sqlite:/b"]), Ok(Kind::Sqlite));
        assert_eq!(
            of(&["postgres://a@h/x", "postgresql://b@h/y"]),
            Ok(Kind::Postgres)
        );
        assert_eq!(of(&["mysql://a@h/x", "mariadb://a@g/x"]), Ok(Kind::Mariadb));
        let message = of(&["mysql://a@h/x", "postgres://a@h/x"])
            .unwrap_err()
            .to_string();
        assert!(message.contains("e0 and e1 are different kinds"), "{message}");
        let message = of(&["oracle://a:secret@h/x"]).unwrap_err().to_string();
        assert!(message.contains("endpoint e0: expected sqlite:"), "{message}");
        assert!(!message.contains("secret"), "{message}");
        assert!(of(&[]).is_err());
    }
}
