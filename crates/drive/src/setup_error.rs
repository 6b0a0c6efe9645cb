//! Why a driver cannot be prepared. Drivers with several errors of their own have an enum in their
//! folder.

use std::io;
use std::path::PathBuf;

use plimsoll_model::Endpoint;
use plimsoll_wire::sql::AddressError;

use crate::drivers::broker::BrokerError;
use crate::drivers::catalogue::CatalogueError;
use crate::drivers::exec::ExecError;
use crate::drivers::frontier::FrontierError;
use crate::drivers::ftp::FtpError;
use crate::drivers::http::HttpError;
use crate::drivers::ldap::LdapError;
use crate::drivers::replay::ReplayError;
use crate::drivers::sql::SqlError;
use crate::net::error::{HostError, ServerNameError, SourceError, TlsError};

/// Why a driver cannot be prepared, or why a blocking tester cannot be created or cannot continue.
/// The text begins with the key and states the problem and what to do.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The settings of the workload are not those that the driver reads.
    #[error("settings: {0}")]
    Settings(#[source] serde_json::Error),
    /// The request of an operation is not one that the driver reads.
    #[error("request of operation {operation}: {source}")]
    Request {
        /// Index of the operation, from 0.
        operation: usize,
        /// Error of the parser.
        source: serde_json::Error,
    },
    /// The query of an operation is empty.
    #[error("query of operation {operation}: expected an SQL statement, got an empty text")]
    EmptyQuery {
        /// Index of the operation, from 0.
        operation: usize,
    },
    /// The key `version` of an operation contains both of two exclusive keys, or none of them.
    #[error(
        "version of operation {operation}: expected exactly one of column (for a request that reads) \
         and written (for a request that writes)"
    )]
    VersionSource {
        /// Index of the operation, from 0.
        operation: usize,
    },
    /// The URL of an endpoint cannot be used.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The URL of a proxy cannot be used.
    #[error("proxies: {0}")]
    Proxy(#[source] UrlError),
    /// Connections cannot come from a local address of the settings.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The settings of TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A file cannot be read.
    #[error("{key}: cannot read {path}: {source}")]
    File {
        /// Key that contains the path.
        key: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A regular expression cannot be compiled.
    #[error("{key}: {source}")]
    Regex {
        /// Key that contains the regular expression.
        key: &'static str,
        /// Error of the parser, with the regular expression.
        source: regex::Error,
    },
    /// An error of the driver `exec`.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// An error of the driver `frontier`.
    #[error(transparent)]
    Frontier(#[from] FrontierError),
    /// An error of the driver `broker`.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// An error of the driver `catalogue`.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// An error of the driver `ftp`.
    #[error(transparent)]
    Ftp(#[from] FtpError),
    /// An error of the driver `http`.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// An error of the driver `ldap`.
    #[error(transparent)]
    Ldap(#[from] LdapError),
    /// An error of the driver `replay`.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// An error of the driver `sql`.
    #[error(transparent)]
    Sql(#[from] SqlError),
}

/// Why an endpoint cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("endpoint {endpoint}: {source}")]
pub struct EndpointError {
    /// Name of the endpoint.
    pub endpoint: String,
    /// What is wrong with its URL.
    pub source: UrlError,
}

impl EndpointError {
    pub(crate) fn new(endpoint: &Endpoint, source: impl Into<UrlError>) -> Self {
        Self {
            endpoint: endpoint.name.clone(),
            source: source.into(),
        }
    }
}

/// Why a URL of an endpoint or of a proxy cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    /// The text is not a URL.
    #[error("expected a URL, got \"{found}\" ({source})")]
    Syntax {
        /// The text.
        found: String,
        /// Error of the parser.
        source: url::ParseError,
    },
    /// The URL does not have the form that the driver requires.
    #[error("expected {expected}, got \"{found}\"")]
    Form {
        /// The required form, such as `tcp://HOST:PORT`.
        expected: &'static str,
        /// The URL.
        found: String,
    },
    /// The URL is not that of a database server. The text does not contain the URL, which may
    /// contain a password.
    #[error(transparent)]
    Database(#[from] AddressError),
    /// The host cannot be looked up.
    #[error(transparent)]
    Host(#[from] HostError),
    /// No connection to the host can come from the local addresses of the settings.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The host cannot be the name in a certificate.
    #[error(transparent)]
    ServerName(#[from] ServerNameError),
}

impl UrlError {
    pub(crate) fn form(expected: &'static str, found: &str) -> Self {
        Self::Form {
            expected,
            found: found.to_owned(),
        }
    }
}
