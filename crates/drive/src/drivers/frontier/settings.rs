//! What the lab says of a workload and of its requests.

use plimsoll_model::{Choose, Order};
use plimsoll_wire::frontier::request::{Encoding, MAX_PAYLOADS, Ttl};
use serde::Deserialize;

use super::failover::{Balance, Fresh};
use crate::drivers::http::Connection;
use crate::drivers::versions::VersionSettings;

/// Longest value of `X-Frontier-Id`, bytes: that of the C client.
const MAX_ID: usize = 256;

/// Of a workload.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    pub(super) connection: Connection,
    pub(super) http: Version,
    pub(super) id: String,
    pub(super) proxies: Vec<String>,
    /// How the target says that one of several is chosen.
    pub(super) choose: Choose,
    pub(super) order: Order,
    pub(super) failover: FailoverSetting,
    pub(super) failover_to_server: bool,
    pub(super) load_balance: BalanceSetting,
    pub(super) connect_timeout_ns: u64,
    pub(super) read_timeout_ns: u64,
    /// 0 to 1.
    pub(super) uncached: f64,
    pub(super) chatter: Chatter,
}

/// Validation queries before each query of the user.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Chatter {
    pub(super) requests: u32,
    pub(super) queries: Vec<String>,
}

/// Of HTTP.
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

    /// What a connection that is kept, or not, is called in a request; nothing where it is the
    /// default.
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
    pub(super) fn check(&self) -> Result<(), String> {
        self.check_id()?;
        if self.connect_timeout_ns == 0 || self.read_timeout_ns == 0 {
            return Err("connect_timeout, read_timeout: they must be longer than 0s".to_owned());
        }
        if !(0.0..=1.0).contains(&self.uncached) {
            return Err(format!("uncached: {} is no share of 0 to 1", self.uncached));
        }
        if self.chatter.requests > 0 && self.chatter.queries.iter().all(|query| query.trim().is_empty()) {
            return Err("chatter: there is no query: give at least one".to_owned());
        }
        if self.load_balance != BalanceSetting::None && self.failover == FailoverSetting::None {
            return Err(
                "load_balance: it belongs to failover: client; else the target says how its endpoints and proxies are chosen"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn check_id(&self) -> Result<(), String> {
        let plain = |byte: u8| (b' '..0x7f).contains(&byte);
        if self.id.trim().is_empty() {
            Err("id: it is empty, and gateways refuse requests without X-Frontier-Id".to_owned())
        } else if self.id.len() > MAX_ID || !self.id.bytes().all(plain) {
            Err(format!(
                "id: X-Frontier-Id has at most {MAX_ID} characters of ASCII, and no line ends"
            ))
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

/// Of an operation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestSettings {
    /// One payload each.
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

impl RequestSettings {
    /// Checks the request of operation `index`; gives its encoding and ttl.
    pub(super) fn check(&self, index: usize) -> Result<(Encoding, Ttl), String> {
        if self.queries.is_empty() || self.queries.iter().any(|query| query.trim().is_empty()) {
            return Err(format!("query of operation {index}: it is empty"));
        }
        if self.queries.len() > MAX_PAYLOADS {
            let count = self.queries.len();
            return Err(format!(
                "queries of operation {index}: {count} are more than the {MAX_PAYLOADS} payloads of one request"
            ));
        }
        if self.version.is_some() && self.queries.len() > 1 {
            return Err(format!(
                "version of operation {index}: it is that of one query, and a batch has several: give batch: 1"
            ));
        }
        let zip = self.zip;
        let encoding = Encoding::from_level(zip)
            .ok_or_else(|| format!("zip of operation {index}: {zip} is no level; expected 0 to 9"))?;
        let ttl = match self.ttl {
            TtlSetting::Short => Ttl::Short,
            TtlSetting::Long => Ttl::Long,
            TtlSetting::Forever => Ttl::Forever,
        };
        Ok((encoding, ttl))
    }
}

/// What caches on the way are asked to do: `none`, `no-cache`, `max-age=N` (s).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) enum Refresh {
    None,
    NoCache,
    MaxAge(u64),
}

impl TryFrom<String> for Refresh {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let seconds = |text: &str| text.strip_prefix("max-age=")?.parse().ok();
        match text.as_str() {
            "none" => Ok(Self::None),
            "no-cache" => Ok(Self::NoCache),
            other => seconds(other)
                .map(Self::MaxAge)
                .ok_or_else(|| format!("refresh: \"{other}\"; expected none, no-cache or max-age=N")),
        }
    }
}

impl Refresh {
    /// Appends the value of Cache-Control. The C client always takes an answer that is one second
    /// too old, and so do we: it decides what a cache does, and what the gateway says of stale
    /// answers. `fresh`: what a failure asks for on top.
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
    fn cache_control_is_that_of_the_client() {
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
