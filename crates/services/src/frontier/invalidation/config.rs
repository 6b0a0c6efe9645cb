//! Configuration of the caches in front of the gateway, and of the detection of outdated objects.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::super::config::is_host;
use super::super::database::Dialect;
use crate::ServiceError;

/// Maximum of `most_keys`. Each key needs a few hundred bytes and its URL.
const MAX_KEYS: usize = 10_000_000;

/// Configuration of `frontier.invalidation`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvalidationConfig {
    /// The caches, in the order in which they are purged. The cache nearest the gateway is first,
    /// because a cache must not load an object again from a parent that was not purged yet.
    pub caches: Vec<CacheConfig>,
    /// Prefix of the path in the keys of the caches, `http://HOST:PORT`. None: the `Host` of each
    /// request, which is correct unless a cache sends another `Host` than that of its key.
    #[serde(default)]
    pub base: Option<String>,
    /// When objects are purged.
    #[serde(default)]
    pub on: On,
    /// Which objects are purged after a change.
    #[serde(default)]
    pub scope: Scope,
    /// How `PostgreSQL` reports changes.
    #[serde(default)]
    pub detection: Detection,
    /// With `on: every`, the time between two purges of all objects in seconds, 0.01 to 1,000,000.
    #[serde(default)]
    pub every_s: Option<f64>,
    /// Time in ms after a change was reported during which queries may still return the old data,
    /// at most 600,000. Default: 0 for triggers, which report a change when all sessions can see
    /// it; 100 for logical decoding and `MariaDB`, whose logs are ahead of the data.
    #[serde(default)]
    pub settle_ms: Option<u64>,
    /// Time in ms that a response may need to reach every cache, at most 600,000. Objects that were
    /// sent within this time before a purge are purged again.
    #[serde(default = "again_ms")]
    pub again_ms: u64,
    /// Maximum number of objects that are remembered, 1 to 10,000,000. Caches must not store
    /// further responses.
    #[serde(default = "most_keys")]
    pub most_keys: usize,
    /// Path of the file that stores the keys for the next gateway, which purges them at its start.
    /// None: the next gateway does not purge the objects that caches store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys_file: Option<PathBuf>,
    /// Who creates the triggers with which `PostgreSQL` reports changes.
    #[serde(default)]
    pub triggers: Triggers,
}

/// A cache that is notified of changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheConfig {
    /// Address at which the cache accepts `PURGE` with a complete URL, `http://HOST:PORT`.
    pub proxy: String,
}

impl CacheConfig {
    /// `HOST:PORT`. None if `proxy` is invalid.
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
    /// The objects of a table, when it has changed.
    #[default]
    Change,
    /// All objects, at a fixed interval.
    Every,
}

/// Which objects are purged after a change of a table.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// All objects that depend on any table.
    Everything,
    /// The objects that depend on the table.
    #[default]
    Table,
    /// The objects that depend on the changed rows, where the key of the rows is in the query, and
    /// those that depend on the whole table. Only `PostgreSQL`.
    Row,
}

/// How `PostgreSQL` reports changes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Detection {
    /// By triggers on the tables.
    #[default]
    Triggers,
    /// By logical decoding of its write-ahead log, without triggers.
    LogicalDecoding,
}

/// Who creates the triggers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Triggers {
    /// The gateway creates the trigger of a table before the first query on it.
    #[default]
    Install,
    /// An administrator has created the triggers. Caches must not store responses from tables
    /// without a trigger.
    Present,
}

fn again_ms() -> u64 {
    1000
}
fn most_keys() -> usize {
    200_000
}

impl InvalidationConfig {
    /// A configuration with the default values for these caches.
    pub fn new(proxies: &[String]) -> Self {
        let caches = proxies.iter().cloned().map(|proxy| CacheConfig { proxy });
        Self {
            caches: caches.collect(),
            base: None,
            on: On::Change,
            scope: Scope::Table,
            detection: Detection::Triggers,
            every_s: None,
            settle_ms: None,
            again_ms: again_ms(),
            most_keys: most_keys(),
            keys_file: None,
            triggers: Triggers::Install,
        }
    }

    pub(in super::super) fn check(&self, dialect: Dialect) -> Result<(), ServiceError> {
        let wrong = |why: String| {
            Err(ServiceError::Config {
                key: "invalidation",
                why,
            })
        };
        if self.caches.is_empty() {
            return wrong("caches: expected at least one {\"proxy\": \"http://HOST:PORT\"}".into());
        }
        if let Some(cache) = self.caches.iter().find(|cache| cache.address().is_none()) {
            return wrong(format!(
                "caches: expected {{\"proxy\": \"http://HOST:PORT\"}}, got {:?}",
                cache.proxy
            ));
        }
        if let Some(base) = &self.base
            && !base.strip_prefix("http://").is_some_and(is_host)
        {
            return wrong(format!(
                "base: expected http://HOST:PORT without a path, got {base:?}"
            ));
        }
        match (self.on, self.every_s) {
            (On::Change, None) => {}
            (On::Every, Some(seconds)) if (0.01..=1e6).contains(&seconds) => {}
            (On::Every, Some(seconds)) => {
                return wrong(format!("every_s: expected 0.01 to 1,000,000 s, got {seconds}"));
            }
            (On::Every, None) => {
                return wrong("every_s is required with \"on\": \"every\": set 0.01 to 1,000,000 s".into());
            }
            (On::Change, Some(_)) => {
                return wrong("every_s is allowed only with \"on\": \"every\": remove it or set on".into());
            }
        }
        if self.on == On::Change && dialect == Dialect::Sqlite {
            return wrong(
                "\"on\": \"change\" needs PostgreSQL or MariaDB: use \"on\": \"every\" with SQLite".into(),
            );
        }
        if self.on == On::Every && (self.scope, self.detection) != (Scope::Table, Detection::Triggers) {
            return wrong(
                "scope and detection are allowed only with \"on\": \"change\": remove them or set on".into(),
            );
        }
        if self.scope == Scope::Row && dialect == Dialect::Mysql {
            return wrong(
                "\"scope\": \"row\" needs PostgreSQL: use \"scope\": \"table\" with MariaDB".into(),
            );
        }
        if self.detection == Detection::LogicalDecoding && dialect == Dialect::Mysql {
            return wrong(
                "\"detection\": \"logical-decoding\" needs PostgreSQL: remove it, the gateway reads the binary log of \
                 MariaDB"
                    .into(),
            );
        }
        for (key, ms) in [
            ("settle_ms", self.settle_ms.unwrap_or(0)),
            ("again_ms", self.again_ms),
        ] {
            if ms > 600_000 {
                return wrong(format!("{key}: expected at most 600,000 ms, got {ms}"));
            }
        }
        if !(1..=MAX_KEYS).contains(&self.most_keys) {
            return wrong(format!(
                "most_keys: expected 1 to 10,000,000, got {}",
                self.most_keys
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_configuration_is_rejected_with_its_key() {
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
            (|config| config.scope = Scope::Row, "scope"),
            (
                |config| config.detection = Detection::LogicalDecoding,
                "detection",
            ),
        ] {
            let why = refused(change, Dialect::Mysql);
            assert!(why.starts_with("invalidation: ") && why.contains(part), "{why}");
        }
        assert!(refused(|_| {}, Dialect::Sqlite).contains("needs PostgreSQL or MariaDB"));
        let mut every = good.clone();
        (every.on, every.every_s) = (On::Every, Some(10.0));
        assert!(every.check(Dialect::Sqlite).is_ok());
        every.scope = Scope::Everything;
        assert!(every.check(Dialect::Postgres).is_err());
    }
}
