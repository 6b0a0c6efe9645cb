//! Configuration of the catalogue.

use std::path::PathBuf;

use plimsoll_wire::sql::Server;
use serde::{Deserialize, Serialize};

use super::database;
use crate::ServiceError;
use crate::tls::{SecurityMode, TlsKeys};

/// The protocol of the service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// That of [`plimsoll_wire::catalogue`]: sessions, transactions, bulk with a result for each
    /// entry.
    #[default]
    Stateful,
    /// That of [`plimsoll_wire::catalogue::soap`]: a message succeeds or fails as a whole.
    Soap,
}

/// Where the logic of operations is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Logic {
    /// In the service, which sends several statements for an operation.
    #[default]
    Server,
    /// In functions of the database, with one statement for an operation. `PostgreSQL` only.
    Database,
}

/// Configuration of `catalogue`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueConfig {
    /// Path of an `SQLite` file, or URL of a `PostgreSQL` or `MariaDB` database, with the tables of
    /// the data set `catalogue`.
    pub database: PathBuf,
    /// Where the logic of `Register`, `Lookup` and `Delete` is. That of the other operations is in
    /// the service.
    #[serde(default)]
    pub logic: Logic,
    /// The protocol of the service.
    #[serde(default)]
    pub protocol: Protocol,
    /// Number of threads, 1 to 1,000. A thread serves one connection at a time, with a session of
    /// its own with the database. Further connections wait.
    #[serde(default = "twenty")]
    pub threads: usize,
    /// How clients are identified.
    #[serde(default)]
    pub security: SecurityMode,
    /// Path of the certificate of the service with its chain, in PEM.
    #[serde(default)]
    pub cert_file: Option<PathBuf>,
    /// Path of its key, in PEM.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// Path of the certificates of the authorities that sign those of clients, in PEM.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// Maximum time between two requests of a session, in seconds.
    #[serde(default = "sixty")]
    pub idle_timeout_s: f64,
}

impl std::fmt::Debug for CatalogueConfig {
    /// Formats without the database, whose URL may contain a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CatalogueConfig")
            .field("threads", &self.threads)
            .field("security", &self.security)
            .finish_non_exhaustive()
    }
}

fn twenty() -> usize {
    20
}
fn sixty() -> f64 {
    60.0
}

impl CatalogueConfig {
    /// A configuration with the defaults, without security.
    pub fn new(database: impl Into<PathBuf>) -> Self {
        Self {
            database: database.into(),
            logic: Logic::default(),
            protocol: Protocol::default(),
            threads: twenty(),
            security: SecurityMode::default(),
            cert_file: None,
            key_file: None,
            ca_file: None,
            idle_timeout_s: sixty(),
        }
    }

    pub(super) fn check(&self) -> Result<(), ServiceError> {
        let wrong = |key, why: String| Err(ServiceError::Config { key, why });
        let server = database::check(&self.database)?.map(|address| address.server);
        if self.logic == Logic::Database && server != Some(Server::Postgres) {
            let why = "expected server: only PostgreSQL has the functions";
            return wrong("logic", why.into());
        }
        if !(1..=1000).contains(&self.threads) {
            return wrong("threads", format!("expected 1 to 1,000, got {}", self.threads));
        }
        if !(0.001..=86_400.0).contains(&self.idle_timeout_s) {
            let why = format!("expected 0.001 to 86,400 s, got {}", self.idle_timeout_s);
            return wrong("idle_timeout_s", why);
        }
        self.tls().check()
    }

    pub(super) fn tls(&self) -> TlsKeys<'_> {
        TlsKeys {
            mode: self.security,
            cert: self.cert_file.as_deref(),
            key: self.key_file.as_deref(),
            ca: self.ca_file.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_that_cannot_be_used_is_refused() {
        let valid = || CatalogueConfig::new("/tmp/a.db");
        assert!(valid().check().is_ok());
        for wrong in [
            CatalogueConfig {
                threads: 0,
                ..valid()
            },
            CatalogueConfig {
                idle_timeout_s: f64::NAN,
                ..valid()
            },
            CatalogueConfig {
                security: SecurityMode::Tls,
                ..valid()
            },
            CatalogueConfig {
                ca_file: Some("ca.pem".into()),
                ..valid()
            },
            CatalogueConfig::new("oracle://u@h/d"),
            CatalogueConfig {
                logic: Logic::Database,
                ..CatalogueConfig::new("mysql://u@h/d")
            },
            CatalogueConfig {
                logic: Logic::Database,
                ..valid()
            },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
        let functions = CatalogueConfig {
            logic: Logic::Database,
            ..CatalogueConfig::new("postgresql://u@h/d")
        };
        assert!(functions.check().is_ok());
        assert!(!format!("{:?}", CatalogueConfig::new("postgresql://u:pw@h/d")).contains("pw"));
    }
}
