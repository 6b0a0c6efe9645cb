//! The setting `connection` of the drivers `broker`, `catalogue`, `frontier`, `ftp`, `http`, `ldap`
//! and `tcp`.

use serde::Deserialize;

/// Whether a tester keeps its connections for further requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Connection {
    Kept,
    PerRequest,
}
