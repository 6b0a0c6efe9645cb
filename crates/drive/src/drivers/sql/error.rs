//! Why endpoints cannot be used by `sql`.

/// Why endpoints cannot be used. The texts contain no URL, which may contain a password.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SqlError {
    /// The workload has no endpoint.
    #[error("expected at least one endpoint")]
    NoEndpoint,
    /// The scheme of an endpoint is not that of a database.
    #[error(
        "endpoint {endpoint}: expected sqlite:/absolute/path, postgresql://USER:PASSWORD@HOST:PORT/DATABASE or \
         mariadb://USER:PASSWORD@HOST:PORT/DATABASE"
    )]
    Scheme {
        /// Name of the endpoint.
        endpoint: String,
    },
    /// Two endpoints are different kinds of databases.
    #[error(
        "endpoints {first} and {other} are different kinds of databases: use a separate workload for each kind"
    )]
    Kinds {
        /// Name of the first endpoint.
        first: String,
        /// Name of the endpoint that differs from it.
        other: String,
    },
}
