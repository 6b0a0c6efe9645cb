//! What the gateway is told of the caches before it, and of how it learns that their objects are
//! old.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::super::config::is_host;
use super::super::database::Dialect;
use crate::ServiceError;

/// Most keys that can be asked for; each costs a few hundred bytes and its URL.
const MAX_KEYS: usize = 10_000_000;

/// Configuration of `frontier.invalidation`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvalidationConfig {
    /// In the order in which they are told: nearest the gateway first, as a cache must not fill
    /// itself again from a parent that has not been told yet.
    pub caches: Vec<CacheConfig>,
    /// What stands before the path in the caches' keys, `http://HOST:PORT`. Left out: what each
    /// request's `Host` says, which is what a cache keeps its object under, unless it hides that.
    #[serde(default)]
    pub base: Option<String>,
    /// When objects are purged.
    #[serde(default)]
    pub on: On,
    /// With `on: every`, seconds between two purges of everything.
    #[serde(default)]
    pub every_s: Option<f64>,
    /// Milliseconds after a change has been seen in which queries may not see it yet: 0 for
    /// `PostgreSQL`, which tells of a change once everybody can see it, and 100 for `MariaDB`,
    /// whose log is ahead of the data.
    #[serde(default)]
    pub settle_ms: Option<u64>,
    /// Milliseconds that an answer may need to arrive in every cache: objects that left so shortly
    /// before a purge are purged once more.
    #[serde(default = "again_ms")]
    pub again_ms: u64,
    /// Most objects to remember, 1 or more. What is answered beyond them may not be kept by caches.
    #[serde(default = "most_keys")]
    pub most_keys: usize,
    /// Where keys are kept for the next gateway, which purges them when it starts. Left out:
    /// objects that caches hold when a gateway ends are not purged by the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys_file: Option<PathBuf>,
    /// Who makes the triggers by which `PostgreSQL` tells of changes.
    #[serde(default)]
    pub triggers: Triggers,
}

/// A cache to be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheConfig {
    /// Where it takes `PURGE` with a whole URL, `http://HOST:PORT`.
    pub proxy: String,
}

impl CacheConfig {
    /// `HOST:PORT`.
    pub(super) fn address(&self) -> Option<&str> {
        let address = self.proxy.strip_prefix("http://")?;
        let address = address.strip_suffix('/').unwrap_or(address);
        let port = address.rsplit_once(':')?.1;
        (is_host(address) && port.parse::<u16>().is_ok_and(|port| port > 0)).then_some(address)
    }
}

/// When objects are purged.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum On {
    /// Those of a table, when it has changed.
    #[default]
    Change,
    /// All, every so often.
    Every,
}

/// Who makes the triggers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Triggers {
    /// The gateway, when a table is first asked for.
    #[default]
    Install,
    /// Somebody else has made them; answers from tables without may not be kept.
    Present,
}

fn again_ms() -> u64 {
    1000
}
fn most_keys() -> usize {
    200_000
}

impl InvalidationConfig {
    /// The defaults, for these caches.
    pub fn new(proxies: &[String]) -> Self {
        let caches = proxies.iter().cloned().map(|proxy| CacheConfig { proxy });
        Self {
            caches: caches.collect(),
            base: None,
            on: On::Change,
            every_s: None,
            settle_ms: None,
            again_ms: again_ms(),
            most_keys: most_keys(),
            keys_file: None,
            triggers: Triggers::Install,
        }
    }

    pub(in super::super) fn check(&self, dialect: Dialect) -> Result<(), ServiceError> {
        let wrong = |why: &str| {
            Err(ServiceError::Config {
                key: "invalidation",
                why: why.into(),
            })
        };
        if self.caches.is_empty() || self.caches.iter().any(|cache| cache.address().is_none()) {
            return wrong("caches: at least one, each as {\"proxy\": \"http://HOST:PORT\"}");
        }
        if let Some(base) = &self.base
            && !base.strip_prefix("http://").is_some_and(is_host)
        {
            return wrong("base: http://HOST:PORT, without a path");
        }
        match (self.on, self.every_s) {
            (On::Change, None) => {}
            (On::Every, Some(seconds)) if (0.01..=1e6).contains(&seconds) => {}
            (On::Every, _) => {
                return wrong("every_s: needed with \"on\": \"every\", 0.01 to 1000000 seconds");
            }
            (On::Change, Some(_)) => return wrong("every_s: only with \"on\": \"every\""),
        }
        if self.on == On::Change && dialect == Dialect::Sqlite {
            return wrong("\"on\": \"change\" needs PostgreSQL or MariaDB; \"every\" works with SQLite too");
        }
        if self.settle_ms.is_some_and(|ms| ms > 600_000) || self.again_ms > 600_000 {
            return wrong("settle_ms and again_ms: at most 600000");
        }
        if !(1..=MAX_KEYS).contains(&self.most_keys) {
            return wrong("most_keys: 1 to 10000000");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused() {
        let good = InvalidationConfig::new(&["http://127.0.0.1:3128".into(), "http://[::1]:80/".into()]);
        assert!(good.check(Dialect::Postgres).is_ok());
        let refused = |change: fn(&mut InvalidationConfig), dialect| {
            let mut config = good.clone();
            change(&mut config);
            config.check(dialect).unwrap_err().to_string()
        };
        for (change, part) in [
            (
                (|config| config.caches.clear()) as fn(&mut InvalidationConfig),
                "caches",
            ),
            (|config| config.caches[0].proxy = "squid:3128".into(), "caches"),
            (|config| config.caches[0].proxy = "http://squid".into(), "caches"),
            (|config| config.base = Some("http://h/path".into()), "base"),
            (|config| config.on = On::Every, "every_s"),
            (|config| config.every_s = Some(1.0), "every_s"),
            (|config| config.most_keys = 0, "most_keys"),
        ] {
            let why = refused(change, Dialect::Mysql);
            assert!(why.starts_with("invalidation: ") && why.contains(part), "{why}");
        }
        assert!(refused(|_| {}, Dialect::Sqlite).contains("needs PostgreSQL or MariaDB"));
        let mut every = good.clone();
        (every.on, every.every_s) = (On::Every, Some(10.0));
        assert!(every.check(Dialect::Sqlite).is_ok());
    }
}
