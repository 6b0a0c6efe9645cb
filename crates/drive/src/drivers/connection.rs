//! The setting `connection` of the drivers `catalogue`, `http`, `ldap`, `tcp` and `frontier`.

use serde::Deserialize;

/// Whether a tester keeps its connections for further requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Connection {
    Kept,
    PerRequest,
}
