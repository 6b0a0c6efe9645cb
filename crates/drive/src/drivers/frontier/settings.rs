//! Settings of a workload and of its requests.

use plimsoll_model::{Choose, Order};
use plimsoll_wire::frontier::request::{Encoding, MAX_PAYLOADS, Ttl};
use serde::Deserialize;

use super::error::FrontierError;
use super::failover::{Balance, Fresh};
use crate::drivers::connection::Connection;
use crate::drivers::versions::VersionSettings;
use crate::setup_error::SetupError;

/// Maximum length of the value of `X-Frontier-Id`, bytes, as in the C client.
pub(super) const MAX_ID: usize = 256;

/// Settings of a workload.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    pub(super) connection: Connection,
    pub(super) http: Version,
    pub(super) id: String,
    pub(super) proxies: Vec<String>,
    /// When and in which order proxies are chosen, as the target specifies.
    pub(super) choose: Choose,
    pub(super) order: Order,
    pub(super) failover: FailoverSetting,
    pub(super) failover_to_server: bool,
    pub(super) load_balance: BalanceSetting,
    pub(super) connect_timeout_ns: u64,
    pub(super) read_timeout_ns: u64,
    /// Fraction of the requests that must miss every cache, 0 to 1.
    pub(super) uncached: f64,
    pub(super) chatter: Chatter,
}

/// Validation queries before each query of the user.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Chatter {
    pub(super) requests: u32,
    pub(super) queries: Vec<String>,
    /// Time to live of their responses in caches; none: that of the query of the user.
    ttl: Option<TtlSetting>,
    /// What they ask of caches; none: as the query of the user.
    pub(super) refresh: Option<Refresh>,
}

impl Chatter {
    /// The TTL of a validation query before a query with this one.
    pub(super) fn ttl(&self, query: Ttl) -> Ttl {
        self.ttl.map_or(query, Ttl::from)
    }
}

/// Version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum Version {
    #[serde(rename = "1.0")]
    V1_0,
    #[serde(rename = "1.1")]
    V1_1,
}

impl Version {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::V1_0 => "HTTP/1.0",
            Self::V1_1 => "HTTP/1.1",
        }
    }

    /// The header that requests to keep or close the connection; empty if that is the default of
    /// this version.
    pub(super) fn connection(self, keep: bool) -> &'static str {
        match (self, keep) {
            (Self::V1_0, true) => "Connection: keep-alive\r\n",
            (Self::V1_1, false) => "Connection: close\r\n",
            _ => "",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FailoverSetting {
    None,
    Client,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum BalanceSetting {
    None,
    Proxies,
    Servers,
}

impl Settings {
    pub(super) fn check(&self) -> Result<(), FrontierError> {
        self.check_id()?;
        if self.connect_timeout_ns == 0 || self.read_timeout_ns == 0 {
            return Err(FrontierError::NoTimeout);
        }
        if !(0.0..=1.0).contains(&self.uncached) {
            return Err(FrontierError::Uncached(self.uncached));
        }
        if self.chatter.requests > 0 && self.chatter.queries.iter().all(|query| query.trim().is_empty()) {
            return Err(FrontierError::NoChatter);
        }
        if self.load_balance != BalanceSetting::None && self.failover == FailoverSetting::None {
            return Err(FrontierError::BalanceWithoutFailover);
        }
        Ok(())
    }

    fn check_id(&self) -> Result<(), FrontierError> {
        let plain = |byte: u8| (b' '..0x7f).contains(&byte);
        if self.id.trim().is_empty() {
            Err(FrontierError::NoId)
        } else if self.id.len() > MAX_ID || !self.id.bytes().all(plain) {
            Err(FrontierError::Id(self.id.clone()))
        } else {
            Ok(())
        }
    }

    pub(super) fn balance(&self) -> Balance {
        match self.load_balance {
            BalanceSetting::None => Balance::None,
            BalanceSetting::Proxies => Balance::Proxies,
            BalanceSetting::Servers => Balance::Servers,
        }
    }
}

/// Settings of an operation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestSettings {
    /// The queries, one payload each.
    pub(super) queries: Vec<String>,
    zip: u8,
    ttl: TtlSetting,
    pub(super) refresh: Refresh,
    pub(super) freshkey: Option<String>,
    pub(super) version: Option<VersionSettings>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum TtlSetting {
    Short,
    Long,
    Forever,
}

impl From<TtlSetting> for Ttl {
    fn from(setting: TtlSetting) -> Self {
        match setting {
            TtlSetting::Short => Self::Short,
            TtlSetting::Long => Self::Long,
            TtlSetting::Forever => Self::Forever,
        }
    }
}

impl RequestSettings {
    /// Checks the request of operation `index`. Returns its encoding and TTL.
    pub(super) fn check(&self, index: usize) -> Result<(Encoding, Ttl), SetupError> {
        if self.queries.is_empty() || self.queries.iter().any(|query| query.trim().is_empty()) {
            return Err(SetupError::EmptyQuery { operation: index });
        }
        let (operation, count) = (index, self.queries.len());
        if count > MAX_PAYLOADS {
            return Err(FrontierError::TooManyQueries { operation, count }.into());
        }
        if self.version.is_some() && count > 1 {
            return Err(FrontierError::VersionOfBatch { operation, count }.into());
        }
        let level = self.zip;
        let encoding = Encoding::from_level(level).ok_or(FrontierError::Zip { operation, level })?;
        Ok((encoding, self.ttl.into()))
    }
}

/// What a request asks of caches: `none`, `no-cache`, `max-age=N` (s).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) enum Refresh {
    None,
    NoCache,
    MaxAge(u64),
}

/// The text is not a [`Refresh`].
#[derive(Debug, thiserror::Error)]
#[error("refresh: expected none, no-cache or max-age=N, got \"{0}\"")]
pub(super) struct RefreshError(String);

impl TryFrom<String> for Refresh {
    type Error = RefreshError;

    fn try_from(text: String) -> Result<Self, RefreshError> {
        let seconds = |text: &str| text.strip_prefix("max-age=")?.parse().ok();
        match text.as_str() {
            "none" => Ok(Self::None),
            "no-cache" => Ok(Self::NoCache),
            other => seconds(other).map(Self::MaxAge).ok_or(RefreshError(text)),
        }
    }
}

impl Refresh {
    /// Appends the value of Cache-Control. As the C client does, it always accepts a response that
    /// is one second too old: this determines what a cache does, and what the gateway reports about
    /// stale responses. `fresh`: what the try after a failure requires in addition.
    pub(super) fn write(self, fresh: Fresh, out: &mut Vec<u8>) {
        out.extend_from_slice(b"max-stale=1");
        let age = match (self, fresh) {
            (Self::NoCache, Fresh::AsAsked) | (_, Fresh::NoCache) => {
                out.extend_from_slice(b",no-cache");
                return;
            }
            (Self::None, Fresh::AsAsked) => return,
            (Self::MaxAge(age), Fresh::AsAsked) | (Self::None | Self::NoCache, Fresh::MaxAge(age)) => age,
            (Self::MaxAge(asked), Fresh::MaxAge(age)) => age.min(asked),
        };
        out.extend_from_slice(format!(",max-age={age}").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_control_is_that_of_the_public_client() {
        for (refresh, fresh, expected) in [
            ("none", Fresh::AsAsked, "max-stale=1"),
            ("no-cache", Fresh::AsAsked, "max-stale=1,no-cache"),
            ("max-age=0", Fresh::AsAsked, "max-stale=1,max-age=0"),
            ("max-age=60", Fresh::AsAsked, "max-stale=1,max-age=60"),
            ("none", Fresh::MaxAge(300), "max-stale=1,max-age=300"),
            ("max-age=60", Fresh::MaxAge(300), "max-stale=1,max-age=60"),
            ("max-age=600", Fresh::MaxAge(300), "max-stale=1,max-age=300"),
            ("max-age=60", Fresh::NoCache, "max-stale=1,no-cache"),
        ] {
            let mut out = Vec::new();
            Refresh::try_from(refresh.to_owned())
                .unwrap()
                .write(fresh, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{refresh} {fresh:?}");
        }
        for wrong in ["", "max-age", "max-age=", "max-age=-1", "max-age=1.5", "No-Cache"] {
            assert!(Refresh::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
