//! What the gateway can be told, with the servlet's names beside ours.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use plimsoll_wire::frontier::request::{Command, Ttl};
use serde::{Deserialize, Serialize};

use super::database::Dialect;
use super::invalidation::InvalidationConfig;
use super::modified::is_table;
use crate::ServiceError;

/// How long caches may keep answers, seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ages {
    /// Answers without `ttl` (`LongCacheExpireSeconds`).
    pub long: u64,
    /// `ttl=short` (`ShortCacheExpireSeconds`).
    pub short: u64,
    /// `ttl=forever` (`ForeverCacheExpireSeconds`).
    pub forever: u64,
    /// Errors; those of a payload, and 503, get `short` where that is less.
    pub error: u64,
    /// Hour of the day, 0 to 23 in UTC, at which answers without `ttl` end if that is sooner
    /// (`LongCacheExpireHourOfDay`, which is in the servlet's own time zone).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long_hour: Option<u8>,
    /// The same for `ttl=short` (`ShortCacheExpireHourOfDay`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_hour: Option<u8>,
}

impl Default for Ages {
    /// The servlet's defaults.
    fn default() -> Self {
        Self {
            long: 604_800,
            short: 0,
            forever: 31_536_000,
            error: 300,
            long_hour: None,
            short_hour: None,
        }
    }
}

impl Ages {
    /// Of the answer to these commands, at `now` seconds since 1970. As in the servlet, the last
    /// `ttl` in the URL that says anything counts for all payloads.
    pub(super) fn of(&self, commands: &[Command], now: u64) -> u64 {
        let said = commands.iter().rev().map(|command| command.ttl);
        let (seconds, hour) = match said.into_iter().find(|ttl| *ttl != Ttl::Long) {
            Some(Ttl::Short) => (self.short, self.short_hour),
            Some(Ttl::Forever) => (self.forever, None),
            _ => (self.long, self.long_hour),
        };
        hour.map_or(seconds, |hour| seconds.min(until_hour(hour, now)))
    }

    /// Of errors, those of the URL alone excepted.
    pub(super) fn of_errors(&self) -> u64 {
        self.error.min(self.short)
    }
}

/// Seconds to the next time that a clock shows this hour; a whole day where it shows it since this
/// very hour.
fn until_hour(hour: u8, now: u64) -> u64 {
    let (hour, of_day) = (u64::from(hour), now % 86_400);
    let tomorrow = hour <= of_day / 3600;
    hour * 3600 + if tomorrow { 86_400 } else { 0 } - of_day
}

/// Seconds since 1970.
pub(super) fn unix_now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs())
}

/// A host as it stands in a URL, perhaps with a port.
pub(super) fn is_host(text: &str) -> bool {
    let part = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'[' | b']');
    !text.is_empty() && text.bytes().all(part)
}

/// Configuration of `frontier`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrontierConfig {
    /// An `SQLite` file, opened read-only; or a URL,
    /// `postgresql://USER:PASSWORD@HOST:PORT/DATABASE` or `mysql://...`.
    pub database: PathBuf,
    /// Connections to the database, 1 to 1000.
    #[serde(default = "ten")]
    pub connections: usize,
    /// Requests in progress, waiting ones included, above which further ones are refused with 503;
    /// 1 or more (`MaxThreads`).
    #[serde(default = "hundred")]
    pub threads: usize,
    /// Cache ages.
    #[serde(default)]
    pub ages: Ages,
    /// Said at the start of every error (`ServerName`).
    #[serde(default = "server_name")]
    pub server_name: String,
    /// Seconds between keepalives while a client waits, above 0.
    #[serde(default = "five")]
    pub keepalive_s: f64,
    /// Seconds of waiting for a connection after which a request fails, above 0
    /// (`MaxDbAcquireSeconds`).
    #[serde(default = "three_hundred")]
    pub max_acquire_s: f64,
    /// Seconds of waiting for a query after which no more keepalives are sent; 0: none at all
    /// (`MaxDbExecuteSeconds`).
    #[serde(default = "ten_s")]
    pub max_execute_s: f64,
    /// Seconds after which a query is stopped, time for sending included, above 0.
    #[serde(default = "three_hundred")]
    pub query_timeout_s: f64,
    /// Answers `max-stale` of a client by `stale-if-error` (`SendStaleIfError`).
    #[serde(default = "yes")]
    pub stale_if_error: bool,
    /// Answers without rows get the age of errors (`ExpireEmptyQueriesLikeErrors`).
    #[serde(default)]
    pub expire_empty_like_errors: bool,
    /// Seconds for which the time of a table's last change may be remembered; above 0, answers
    /// carry `Last-Modified` where the query's tables are known (`ValidateLastModifiedSeconds`).
    #[serde(default)]
    pub validate_last_modified_s: u64,
    /// The table with the columns `table_owner`, `table_name` and `change_time` that says when
    /// tables changed; may be left out for `MariaDB`, which knows by itself
    /// (`LastModifiedTableName`).
    #[serde(default)]
    pub last_modified_table: Option<String>,
    /// The directory below which `frontier_file` reads (`FileBaseDirectory`).
    #[serde(default)]
    pub files: Option<PathBuf>,
    /// Files read at a time, 1 or more (`MaxFileConnections`).
    #[serde(default = "five_files")]
    pub file_connections: usize,
    /// The RSA key that signs answers, in PEM (`KeyFileName`).
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// The certificate by which clients verify them, in PEM (`CertFileName`).
    #[serde(default)]
    pub cert_file: Option<PathBuf>,
    /// The caches to be told when objects that they keep are old.
    #[serde(default)]
    pub invalidation: Option<InvalidationConfig>,
}

impl std::fmt::Debug for FrontierConfig {
    /// Without the database, whose URL may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrontierConfig")
            .field("connections", &self.connections)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

fn ten() -> usize {
    10
}
fn hundred() -> usize {
    100
}
fn five_files() -> usize {
    5
}
fn five() -> f64 {
    5.0
}
fn ten_s() -> f64 {
    10.0
}
fn three_hundred() -> f64 {
    300.0
}
fn yes() -> bool {
    true
}
fn server_name() -> String {
    "plimsoll".into()
}

impl FrontierConfig {
    /// The defaults of the servlet, for this database.
    pub fn new(database: impl Into<PathBuf>) -> Self {
        Self {
            database: database.into(),
            connections: ten(),
            threads: hundred(),
            ages: Ages::default(),
            server_name: server_name(),
            keepalive_s: five(),
            max_acquire_s: three_hundred(),
            max_execute_s: ten_s(),
            query_timeout_s: three_hundred(),
            stale_if_error: true,
            expire_empty_like_errors: false,
            validate_last_modified_s: 0,
            last_modified_table: None,
            files: None,
            file_connections: five_files(),
            key_file: None,
            cert_file: None,
            invalidation: None,
        }
    }

    pub(super) fn check(&self, dialect: Dialect) -> Result<(), ServiceError> {
        let wrong = |key, why: &str| Err(ServiceError::Config { key, why: why.into() });
        if !(1..=1000).contains(&self.connections) {
            return wrong("connections", "1 to 1000");
        }
        if self.threads == 0 {
            return wrong("threads", "1 or more");
        }
        if !(1..=1000).contains(&self.file_connections) {
            return wrong("file_connections", "1 to 1000");
        }
        for (key, seconds, least) in [
            ("keepalive_s", self.keepalive_s, 0.001),
            ("query_timeout_s", self.query_timeout_s, 0.001),
            ("max_acquire_s", self.max_acquire_s, 0.001),
            ("max_execute_s", self.max_execute_s, 0.0),
        ] {
            if !(least..=1e6).contains(&seconds) {
                return wrong(key, "0.001 to 1000000 seconds");
            }
        }
        let hours = [self.ages.long_hour, self.ages.short_hour];
        if hours.iter().flatten().any(|hour| *hour > 23) {
            return wrong("ages", "an hour of the day is 0 to 23");
        }
        if let Some(invalidation) = &self.invalidation {
            invalidation.check(dialect)?;
        }
        match &self.last_modified_table {
            Some(table) if !is_table(table) => wrong(
                "last_modified_table",
                "a table's name, perhaps with its owner and a dot",
            ),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_of_the_day() {
        let day = 20_000 * 86_400;
        assert_eq!(until_hour(5, day), 5 * 3600);
        assert_eq!(until_hour(5, day + 5 * 3600 - 1), 1);
        assert_eq!(until_hour(5, day + 5 * 3600), 86_400);
        assert_eq!(until_hour(5, day + 23 * 3600 + 59), 6 * 3600 - 59);
        assert_eq!(until_hour(0, day), 86_400);
    }

    #[test]
    fn a_password_is_not_printed() {
        let config = FrontierConfig::new("postgresql://u:hunter2@h/d");
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}
