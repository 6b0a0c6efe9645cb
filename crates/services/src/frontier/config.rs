//! Configuration of the gateway, with the names of the servlet's keys in brackets.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use plimsoll_wire::frontier::request::{Command, Ttl};
use serde::{Deserialize, Serialize};

use super::database::Dialect;
use super::invalidation::InvalidationConfig;
use super::last_modified::is_table;
use crate::ServiceError;

/// Maximum ages of responses in caches, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ages {
    /// Age of responses without `ttl` (`LongCacheExpireSeconds`).
    pub long: u64,
    /// Age of responses with `ttl=short` (`ShortCacheExpireSeconds`).
    pub short: u64,
    /// Age of responses with `ttl=forever` (`ForeverCacheExpireSeconds`).
    pub forever: u64,
    /// Age of errors. The age of payload errors and of 503 is `short` if that is less.
    pub error: u64,
    /// Hour of the day, 0 to 23 in UTC, at which responses without `ttl` expire if that is earlier
    /// (`LongCacheExpireHourOfDay`, which is in the time zone of the servlet).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long_hour: Option<u8>,
    /// Hour of the day, 0 to 23 in UTC, at which responses with `ttl=short` expire if that is
    /// earlier (`ShortCacheExpireHourOfDay`).
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
    /// Maximum age of the response to these commands, at `now` seconds since 1970. As in the
    /// servlet, the last `ttl` in the URL determines the age of all payloads.
    pub(super) fn of(&self, commands: &[Command], now: u64) -> u64 {
        let mut ttls = commands.iter().rev().map(|command| command.ttl);
        let (seconds, hour) = match ttls.find(|ttl| *ttl != Ttl::Long) {
            Some(Ttl::Short) => (self.short, self.short_hour),
            Some(Ttl::Forever) => (self.forever, None),
            _ => (self.long, self.long_hour),
        };
        hour.map_or(seconds, |hour| seconds.min(until_hour(hour, now)))
    }

    /// Maximum age of errors, except for those of the URL, whose age is `error`.
    pub(super) fn of_errors(&self) -> u64 {
        self.error.min(self.short)
    }
}

/// Seconds to the next beginning of this hour of the day, up to a whole day if it begins now.
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

/// Whether a text is a host as in a URL, with or without a port.
pub(super) fn is_host(text: &str) -> bool {
    let part = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'[' | b']');
    !text.is_empty() && text.bytes().all(part)
}

/// Configuration of `frontier`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrontierConfig {
    /// Path of an `SQLite` file, which is opened read-only; or a URL,
    /// `postgresql://USER:PASSWORD@HOST:PORT/DATABASE` or `mysql://...`.
    pub database: PathBuf,
    /// Number of connections to the database, 1 to 1,000.
    #[serde(default = "ten")]
    pub connections: usize,
    /// Maximum number of requests in progress, including those that wait for a connection; at least
    /// 1. Further requests are refused with 503 (`MaxThreads`).
    #[serde(default = "hundred")]
    pub threads: usize,
    /// Maximum ages of responses in caches.
    #[serde(default)]
    pub ages: Ages,
    /// First word of every error message (`ServerName`).
    #[serde(default = "server_name")]
    pub server_name: String,
    /// Time between keepalives while a client waits, in seconds, at least 0.001. 0: none, as in the
    /// servers before they had them: clients then time out while they wait for a long query.
    #[serde(default = "five")]
    pub keepalive_s: f64,
    /// Maximum time in seconds that a request waits for a connection, at least 0.001. Then it fails
    /// (`MaxDbAcquireSeconds`).
    #[serde(default = "three_hundred")]
    pub max_acquire_s: f64,
    /// Time in seconds for which keepalives are sent while a query runs. 0: none
    /// (`MaxDbExecuteSeconds`).
    #[serde(default = "ten_s")]
    pub max_execute_s: f64,
    /// Maximum time of a query in seconds, including the transfer of its result; at least 0.001.
    /// Then it is stopped.
    #[serde(default = "three_hundred")]
    pub query_timeout_s: f64,
    /// Whether the response to a request with `max-stale` contains `stale-if-error`
    /// (`SendStaleIfError`).
    #[serde(default = "yes")]
    pub stale_if_error: bool,
    /// Whether responses without rows have the age of errors (`ExpireEmptyQueriesLikeErrors`).
    #[serde(default)]
    pub expire_empty_like_errors: bool,
    /// Time in seconds for which the time of a table's last change is remembered. If it is greater
    /// than 0, responses contain `Last-Modified`, provided that the tables of the query are known
    /// (`ValidateLastModifiedSeconds`).
    #[serde(default)]
    pub validate_last_modified_s: u64,
    /// Name of the table with the columns `table_owner`, `table_name` and `change_time`, which
    /// contains the times of changes. Not required for `MariaDB`, which stores them itself
    /// (`LastModifiedTableName`).
    #[serde(default)]
    pub last_modified_table: Option<String>,
    /// Directory that contains the files for `frontier_file` (`FileBaseDirectory`).
    #[serde(default)]
    pub files: Option<PathBuf>,
    /// Maximum number of files that are read at the same time, 1 to 1,000 (`MaxFileConnections`).
    #[serde(default = "five_files")]
    pub file_connections: usize,
    /// Path of the RSA key that signs responses, in PEM (`KeyFileName`).
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// Path of the certificate with which clients verify signatures, in PEM (`CertFileName`).
    #[serde(default)]
    pub cert_file: Option<PathBuf>,
    /// Caches that are notified when the objects that they store are outdated.
    #[serde(default)]
    pub invalidation: Option<InvalidationConfig>,
}

impl std::fmt::Debug for FrontierConfig {
    /// Formats without the database, whose URL may contain a password.
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
    /// A configuration with the defaults of the servlet for this database.
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
        let wrong = |key, why: String| Err(ServiceError::Config { key, why });
        for (key, number) in [
            ("connections", self.connections),
            ("file_connections", self.file_connections),
        ] {
            if !(1..=1000).contains(&number) {
                return wrong(key, format!("expected 1 to 1,000, got {number}"));
            }
        }
        if self.threads == 0 {
            return wrong("threads", "expected at least 1, got 0".into());
        }
        for (key, seconds, min) in [
            (
                "keepalive_s",
                self.keepalive_s,
                if self.keepalive_s == 0.0 { 0.0 } else { 0.001 },
            ),
            ("query_timeout_s", self.query_timeout_s, 0.001),
            ("max_acquire_s", self.max_acquire_s, 0.001),
            ("max_execute_s", self.max_execute_s, 0.0),
        ] {
            if !(min..=1e6).contains(&seconds) {
                return wrong(key, format!("expected {min} to 1,000,000 s, got {seconds}"));
            }
        }
        let hours = [self.ages.long_hour, self.ages.short_hour];
        if let Some(hour) = hours.iter().flatten().find(|hour| **hour > 23) {
            let why = format!("expected an hour of the day from 0 to 23, got {hour}");
            return wrong("ages", why);
        }
        if let Some(invalidation) = &self.invalidation {
            invalidation.check(dialect)?;
        }
        match &self.last_modified_table {
            Some(table) if !is_table(table) => wrong(
                "last_modified_table",
                format!("expected TABLE or OWNER.TABLE of letters, digits, _ and $, got {table:?}"),
            ),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_until_an_hour_of_the_day_is_at_most_a_day() {
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
