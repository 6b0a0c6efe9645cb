//! A conditions database with the layout that CMS and CREST use, and synthetic content.
//!
//! A global tag selects one tag for each record. A tag is a sequence of intervals of validity
//! (IOVs). An IOV has only a beginning, and lasts until the next one. It names its payload by a
//! hash. Every global tag contains all tags. Interval j of a tag begins at `j * 10`.
//!
//! | table | rows |
//! |---|---|
//! | `P_GLOBAL_TAG` | global tags `GT_0001`, `GT_0002`, ... |
//! | `P_GLOBAL_TAG_MAP` | global tags x tags: record `Record0001Rcd` has the tag `Tag0001_v1` |
//! | `P_TAG` | tags |
//! | `P_IOV` | tags x iovs |
//! | `P_PAYLOAD` | tags x payloads |
//!
//! `P` is the prefix. Without a prefix, the names do not begin with an underscore.
//!
//! The hash of a payload is the SHA-1 of `SEED/TAG/NUMBER`, with the numbers of the tag, from 1,
//! and of the payload in the tag, from 0. In production it is that of the content. The queries of
//! a workload contain hashes, and the lab, which writes these queries, does not have the content.

use std::fmt::Write as _;

use rand::SeedableRng;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};

use super::out::{Out, ints, names};
use super::strings::{StringSpec, Strings};
use super::writer::{Column, Sql, Value, Writer};
use super::{TableReport, is_name, table};
use crate::ServiceError;

/// Length of an interval: a number of runs of the detector.
const INTERVAL: u64 = 10;
/// The end of time.
const MAX_TIME: i64 = i64::MAX;
/// Time at which all rows were stored, in seconds since 1970: 2015-01-01.
const STORED: u64 = 1_420_070_400;
/// Time until which a global tag sees changes: 2020-01-01.
const SNAPSHOT: u64 = 1_577_836_800;
const STREAMER_INFO: &[u8] =
    br#"{"CMS release":"CMSSW_14_0_0","technology":"boost/serialization","tag_architecture":"el8_amd64_gcc12"}"#;

/// Configuration of a conditions database: global tags, tags, intervals of validity and payloads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CondDbConfig {
    /// Prefix of the names of all tables: at most 40 letters, digits and `_`, or empty.
    #[serde(default)]
    pub prefix: String,
    /// Number of global tags, 1 (the default) to 10,000.
    #[serde(default = "one")]
    pub global_tags: u32,
    /// Number of tags, 1 to 10,000.
    pub tags: u32,
    /// Number of intervals of each tag, at least 1.
    pub iovs: u64,
    /// Number of payloads of each tag, 1 to `iovs`: the intervals use them in turn. None: `iovs`.
    #[serde(default)]
    pub payloads: Option<u64>,
    /// Length of a payload in bytes, 1 to 16,000,000.
    pub payload: usize,
    /// Share of the payload that zlib level 5 saves, in percent: 0 to 95.
    #[serde(default)]
    pub compressibility: f64,
    /// Seed of the payloads and of their hashes. The same seed produces the same payloads.
    #[serde(default)]
    pub seed: u64,
}

fn one() -> u32 {
    1
}

impl CondDbConfig {
    pub(super) fn check(&self) -> Result<(), ServiceError> {
        let wrong = |key, why: String| Err(ServiceError::Config { key, why });
        if !self.prefix.is_empty() && (!is_name(&self.prefix) || self.prefix.len() > 40) {
            let why = format!(
                "expected at most 40 letters, digits and _, not beginning with a digit, got {:?}",
                self.prefix
            );
            return wrong("prefix", why);
        }
        for (key, count) in [("global_tags", self.global_tags), ("tags", self.tags)] {
            if !(1..=10_000).contains(&count) {
                return wrong(key, format!("expected 1 to 10,000, got {count}"));
            }
        }
        let max_iovs = MAX_TIME as u64 / INTERVAL;
        if !(1..=max_iovs).contains(&self.iovs) {
            return wrong("iovs", format!("expected 1 to {max_iovs}, got {}", self.iovs));
        }
        if !(1..=self.iovs).contains(&self.payloads()) {
            let why = format!(
                "expected 1 to the {} intervals, got {}",
                self.iovs,
                self.payloads()
            );
            return wrong("payloads", why);
        }
        if !(1..=table::MAX_ROW).contains(&self.payload) {
            let why = format!("expected 1 to 16,000,000 bytes, got {} bytes", self.payload);
            return wrong("payload", why);
        }
        if !(0.0..=95.0).contains(&self.compressibility) {
            let why = format!("expected 0 to 95 percent, got {}", self.compressibility);
            return wrong("compressibility", why);
        }
        Ok(())
    }

    fn payloads(&self) -> u64 {
        self.payloads.unwrap_or(self.iovs)
    }

    /// Name of a table, with the prefix.
    fn table(&self, name: &str) -> String {
        if self.prefix.is_empty() {
            name.to_owned()
        } else {
            format!("{}_{name}", self.prefix)
        }
    }

    /// Hash of a payload: 40 hexadecimal digits.
    fn hash(&self, tag: u32, payload: u64) -> String {
        let digest = Sha1::digest(format!("{}/{tag}/{payload}", self.seed));
        digest.iter().fold(String::with_capacity(40), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    pub(super) fn write(&self, writer: &mut dyn Writer) -> Result<Vec<TableReport>, ServiceError> {
        let strings = Strings::calibrated(StringSpec {
            rows: u64::from(self.tags).saturating_mul(self.payloads()),
            length: self.payload,
            compressibility: self.compressibility,
            text: None,
            any_text: writer.takes_any_text(),
            seed: self.seed,
        });
        let mut out = Out::new(writer);
        self.global_tags(&mut out)?;
        self.tags(&mut out)?;
        self.iovs(&mut out)?;
        self.write_payloads(&mut out, &strings)?;
        Ok(out.into_reports())
    }

    /// Writes the global tags, and the tags that they contain.
    fn global_tags(&self, out: &mut Out<'_>) -> Result<(), ServiceError> {
        let columns = [
            names(&["NAME"]),
            ints(&["VALIDITY"]),
            names(&["DESCRIPTION", "RELEASE"]),
            times(&["SNAPSHOT_TIME", "INSERTION_TIME"]),
        ];
        out.begin(self.table("GLOBAL_TAG"), columns.concat(), &[0], &[])?;
        for global in 1..=self.global_tags {
            out.row(&[
                Value::Text(global_name(global).as_bytes()),
                Value::Int(MAX_TIME),
                Value::Text(b"made by plimsoll"),
                Value::Text(b"CMSSW_14_0_0"),
                Value::Time(SNAPSHOT),
                Value::Time(STORED),
            ])?;
        }
        out.end()?;
        let columns = names(&["GLOBAL_TAG_NAME", "RECORD", "LABEL", "TAG_NAME"]);
        out.begin(self.table("GLOBAL_TAG_MAP"), columns, &[0, 1, 2], &[])?;
        for global in 1..=self.global_tags {
            for tag in 1..=self.tags {
                out.row(&[
                    Value::Text(global_name(global).as_bytes()),
                    Value::Text(format!("Record{tag:04}Rcd").as_bytes()),
                    Value::Text(b"-"),
                    Value::Text(tag_name(tag).as_bytes()),
                ])?;
            }
        }
        out.end()
    }

    fn tags(&self, out: &mut Out<'_>) -> Result<(), ServiceError> {
        let columns = [
            names(&["NAME", "TIME_TYPE", "OBJECT_TYPE", "SYNCHRONIZATION"]),
            ints(&["END_OF_VALIDITY"]),
            names(&["DESCRIPTION"]),
            ints(&["LAST_VALIDATED_TIME"]),
            times(&["INSERTION_TIME", "MODIFICATION_TIME"]),
        ];
        out.begin(self.table("TAG"), columns.concat(), &[0], &[])?;
        for tag in 1..=self.tags {
            out.row(&[
                Value::Text(tag_name(tag).as_bytes()),
                Value::Text(b"Run"),
                Value::Text(object_type(tag).as_bytes()),
                Value::Text(b"any"),
                Value::Int(MAX_TIME),
                Value::Text(b"made by plimsoll"),
                Value::Int(0),
                Value::Time(STORED),
                Value::Time(STORED),
            ])?;
        }
        out.end()
    }

    fn iovs(&self, out: &mut Out<'_>) -> Result<(), ServiceError> {
        let columns = [
            names(&["TAG_NAME"]),
            ints(&["SINCE"]),
            names(&["PAYLOAD_HASH"]),
            times(&["INSERTION_TIME"]),
        ];
        out.begin(self.table("IOV"), columns.concat(), &[0, 1, 3], &[])?;
        for tag in 1..=self.tags {
            for iov in 0..self.iovs {
                out.row(&[
                    Value::Text(tag_name(tag).as_bytes()),
                    Value::Int((iov * INTERVAL) as i64),
                    Value::Text(self.hash(tag, iov % self.payloads()).as_bytes()),
                    Value::Time(STORED),
                ])?;
            }
        }
        out.end()
    }

    fn write_payloads(&self, out: &mut Out<'_>, strings: &Strings) -> Result<(), ServiceError> {
        let columns = [
            names(&["HASH", "OBJECT_TYPE"]),
            vec![Column::new("DATA", Sql::Strings(self.payload, strings.text))],
            names(&["STREAMER_INFO", "VERSION"]),
            times(&["INSERTION_TIME"]),
        ];
        out.begin(self.table("PAYLOAD"), columns.concat(), &[0], &[])?;
        let mut content = vec![0; self.payload];
        for tag in 1..=self.tags {
            // The payloads of a tag do not depend on the number of tags.
            let mut rng = Pcg64::seed_from_u64(self.seed.wrapping_add(u64::from(tag)));
            for payload in 0..self.payloads() {
                strings.fill(&mut rng, &mut content);
                out.row(&[
                    Value::Text(self.hash(tag, payload).as_bytes()),
                    Value::Text(object_type(tag).as_bytes()),
                    Value::strings(strings.text, &content),
                    Value::Text(STREAMER_INFO),
                    Value::Text(b"dummy"),
                    Value::Time(STORED),
                ])?;
            }
        }
        out.end_payload(Some(strings), self.payload)
    }
}

fn global_name(number: u32) -> String {
    format!("GT_{number:04}")
}

fn tag_name(number: u32) -> String {
    format!("Tag{number:04}_v1")
}

fn object_type(tag: u32) -> String {
    format!("Object{tag:04}")
}

fn times(columns: &[&str]) -> Vec<Column> {
    columns.iter().map(|name| Column::new(*name, Sql::Time)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions() -> CondDbConfig {
        CondDbConfig {
            prefix: String::new(),
            global_tags: 1,
            tags: 2,
            iovs: 10,
            payloads: None,
            payload: 100,
            compressibility: 0.0,
            seed: 1,
        }
    }

    #[test]
    fn invalid_databases_are_rejected() {
        assert!(conditions().check().is_ok());
        let valid = conditions;
        for wrong in [
            CondDbConfig {
                prefix: "1".into(),
                ..valid()
            },
            CondDbConfig { tags: 0, ..valid() },
            CondDbConfig {
                global_tags: 10_001,
                ..valid()
            },
            CondDbConfig { iovs: 0, ..valid() },
            CondDbConfig {
                payloads: Some(11),
                ..valid()
            },
            CondDbConfig {
                payloads: Some(0),
                ..valid()
            },
            CondDbConfig {
                payload: 0,
                ..valid()
            },
            CondDbConfig {
                compressibility: 96.0,
                ..valid()
            },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }

    /// The lab computes the same hashes: `tests/unit/plan/test_conddb.py` has this one too.
    #[test]
    fn the_hash_of_a_payload_follows_from_its_numbers() {
        assert_eq!(
            conditions().hash(2, 7),
            "6fd6ada1ec2fa0bb4437e22ce89193c69a138acc"
        );
    }
}
