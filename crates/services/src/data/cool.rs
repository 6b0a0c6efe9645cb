//! A conditions database with the layout of COOL and synthetic content.
//!
//! The root folder set `/` contains `folders` folders `/F0001`, `/F0002`, ... Each folder has
//! `channels` channels, numbered from 0. Every channel has `iovs` intervals of validity without
//! gaps: interval j of a channel is valid from `j * 1000` to `(j + 1) * 1000`, the last one to the
//! end of time, 2^63 - 1. Objects are numbered in the order of time over all channels, the order in
//! which COOL would have stored them.
//!
//! The payload of an interval is inline, in columns `P_1`, `P_2`, ... of strings, or of the
//! configured types, as in [`super::table`]. A number counts as 8 bytes of the payload; the strings
//! share the rest.
//!
//! Multi-version folders have `tags` tags each. Each tag contains all intervals. A tag of the root
//! contains, by `TAG2TAG`, the tag with the same number of every folder. The tables, keys and
//! indexes are those of COOL:
//!
//! | table | rows |
//! |---|---|
//! | `P_DB_ATTRIBUTES` | names of the other tables, and the version |
//! | `P_NODES` | the root and the folders |
//! | `P_TAGS`, `P_TAG2TAG` | all tags; the tags of folders that each tag of the root contains |
//! | `P_F0001_CHANNELS` | channels |
//! | `P_F0001_IOVS` | channels x iovs, with the payload |
//! | `P_F0001_TAGS`, `P_F0001_IOV2TAG` | of multi-version folders: tags; tags x channels x iovs |
//!
//! `P` is the prefix. Without a prefix, the names do not begin with an underscore.

use rand::SeedableRng;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use super::columns::{Source, Type};
use super::out::{Out, ints, names};
use super::strings::{StringSpec, Strings};
use super::writer::{Column, Sql, Value, Writer};
use super::{TableReport, is_name, table};
use crate::ServiceError;

/// Length of an interval, in COOL's unit of time.
const INTERVAL: u64 = 1000;
/// The end of time.
const MAX_UNTIL: i64 = i64::MAX;
/// Time at which all rows were stored.
const STORED: &[u8] = b"2006-11-21_12:00:00.000000000 GMT";
/// Maximum length of a text in the most frequent column type of COOL, in characters.
const NAME: usize = 255;
/// Maximum number of payload columns if neither `columns` nor `types` is configured.
const MAX_DEFAULT_COLUMNS: usize = 16;
/// Length of a number or a time of the payload, in bytes.
const NUMBER: usize = 8;

/// Configuration of a conditions database: folders with channels, intervals and tags.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoolConfig {
    /// Prefix of the names of all tables: at most 40 letters, digits and `_`, or empty.
    #[serde(default)]
    pub prefix: String,
    /// Number of folders, 1 to 9,999.
    pub folders: u32,
    /// Number of channels of each folder, at least 1.
    pub channels: u32,
    /// Number of intervals of each channel, at least 1.
    pub iovs: u64,
    /// Number of tags of each multi-version folder, at least 1 (the default).
    #[serde(default = "one")]
    pub tags: u32,
    /// Versioning of the folders.
    #[serde(default)]
    pub versioning: Versioning,
    /// Length of the payload of an interval in bytes, 1 to 16,000,000.
    pub payload: usize,
    /// Number of columns of the payload, 1 to 1,000. None: one for each type; without types, the
    /// number of columns of 255 bytes that the payload needs, at most 16.
    #[serde(default)]
    pub columns: Option<usize>,
    /// Types of the columns of the payload, repeated for further columns. Empty: strings.
    #[serde(default)]
    pub types: Vec<Type>,
    /// Share of the payload that zlib level 5 saves, in percent: 0 to 95.
    #[serde(default)]
    pub compressibility: f64,
    /// Seed of the payload. The same seed produces the same payload.
    #[serde(default)]
    pub seed: u64,
}

fn one() -> u32 {
    1
}

/// Versioning of a folder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Versioning {
    /// One version of each interval.
    #[default]
    Single,
    /// Several versions, selected by tags.
    Multi,
}

impl CoolConfig {
    pub(super) fn check(&self) -> Result<(), ServiceError> {
        let wrong = |key, why: String| Err(ServiceError::Config { key, why });
        if !self.prefix.is_empty() && (!is_name(&self.prefix) || self.prefix.len() > 40) {
            let why = format!(
                "expected at most 40 letters, digits and _, not beginning with a digit, got {:?}",
                self.prefix
            );
            return wrong("prefix", why);
        }
        if !(1..=9999).contains(&self.folders) {
            return wrong("folders", format!("expected 1 to 9,999, got {}", self.folders));
        }
        if self.channels == 0 {
            return wrong("channels", "expected at least 1, got 0".into());
        }
        let max_iovs = MAX_UNTIL as u64 / INTERVAL - 1;
        if !(1..=max_iovs).contains(&self.iovs) {
            return wrong("iovs", format!("expected 1 to {max_iovs}, got {}", self.iovs));
        }
        if self.versioning == Versioning::Multi && self.tags == 0 {
            let why = "expected at least 1 for multi-version folders, got 0";
            return wrong("tags", why.into());
        }
        if !(1..=table::MAX_ROW).contains(&self.payload) {
            let why = format!("expected 1 to 16,000,000 bytes, got {} bytes", self.payload);
            return wrong("payload", why);
        }
        let columns = self.payload_columns();
        if !(1..=1000).contains(&columns) {
            return wrong("columns", format!("expected 1 to 1,000, got {columns}"));
        }
        let (strings, numbers) = (self.string_columns(), columns - self.string_columns());
        let rest = self.payload.checked_sub(NUMBER * numbers);
        let fits = rest.is_some_and(|rest| if strings == 0 { rest == 0 } else { rest >= strings });
        if !fits {
            let why = format!(
                "expected {} bytes for {numbers} numbers and times{}, got {} bytes",
                NUMBER * numbers,
                match strings {
                    0 => String::new(),
                    _ => format!(" and at least {strings} for the strings"),
                },
                self.payload
            );
            return wrong("payload", why);
        }
        if !(0.0..=95.0).contains(&self.compressibility) {
            let why = format!("expected 0 to 95 percent, got {}", self.compressibility);
            return wrong("compressibility", why);
        }
        Ok(())
    }

    fn payload_columns(&self) -> usize {
        self.columns.unwrap_or(match self.types.len() {
            0 => self.payload.div_ceil(NAME).min(MAX_DEFAULT_COLUMNS),
            types => types,
        })
    }

    /// Type of the payload column with this index. None: a string without a configured type.
    fn payload_type(&self, index: usize) -> Option<Type> {
        self.types.get(index % self.types.len().max(1)).copied()
    }

    fn is_string(&self, index: usize) -> bool {
        self.payload_type(index).is_none_or(Type::is_string)
    }

    fn string_columns(&self) -> usize {
        (0..self.payload_columns())
            .filter(|index| self.is_string(*index))
            .count()
    }

    /// Length in bytes of each payload column. All strings have the same length, except that the
    /// remainder is distributed over the first ones.
    fn payload_bytes(&self) -> Vec<usize> {
        let columns = self.payload_columns();
        let strings = self.string_columns();
        let rest = self.payload - NUMBER * (columns - strings);
        let mut string = 0..strings;
        let mut length = |index| {
            if !self.is_string(index) {
                return NUMBER;
            }
            // There are as many numbers in the range as there are columns of strings.
            let number = string.next().unwrap_or_default();
            rest / strings + usize::from(number < rest % strings)
        };
        (0..columns).map(&mut length).collect()
    }

    /// The payload columns. `any_text`: whether the database accepts any bytes except 0 as text.
    fn payload(&self, any_text: bool) -> Vec<Payload> {
        let lengths = self.payload_bytes();
        let strings = |length, text| {
            Strings::calibrated(StringSpec {
                rows: self.iovs * u64::from(self.channels),
                length,
                compressibility: self.compressibility,
                text,
                any_text,
                seed: self.seed,
            })
        };
        // A calibration compresses much data, so its result is used for all columns of a type.
        let mut known: Vec<(Option<Type>, Source)> = Vec::new();
        let payload = |(index, length): (usize, usize)| {
            let kind = self.payload_type(index);
            let existing = known.iter().find(|(other, _)| *other == kind);
            let source = existing.map_or_else(
                || Source::new(kind, |text| strings(length, text)),
                |(_, source)| source.clone(),
            );
            known.push((kind, source.clone()));
            let is_name = source.strings().is_some_and(|strings| strings.text) && length <= NAME;
            let sql = if is_name {
                Sql::Name
            } else {
                source.sql(kind, length)
            };
            Payload {
                column: Column::new(format!("P_{}", index + 1), sql),
                source,
                length,
            }
        };
        lengths.into_iter().enumerate().map(payload).collect()
    }

    fn is_multi(&self) -> bool {
        self.versioning == Versioning::Multi
    }

    /// Name of a table, with the prefix.
    fn table(&self, name: &str) -> String {
        if self.prefix.is_empty() {
            name.to_owned()
        } else {
            format!("{}_{name}", self.prefix)
        }
    }

    fn tag_count(&self) -> u32 {
        if self.is_multi() { self.tags } else { 0 }
    }

    pub(super) fn write(&self, writer: &mut dyn Writer) -> Result<Vec<TableReport>, ServiceError> {
        let payload = self.payload(writer.takes_any_text());
        let mut out = Out::new(writer);
        self.attributes(&mut out)?;
        self.nodes(&mut out)?;
        self.tags(&mut out)?;
        for folder in 1..=self.folders {
            let folder = Folder {
                name: format!("F{folder:04}"),
                node: folder,
                cool: self,
            };
            folder.channels(&mut out)?;
            folder.iovs(&mut out, &payload)?;
            if self.is_multi() {
                folder.tags(&mut out)?;
                folder.iov2tag(&mut out)?;
            }
        }
        Ok(out.into_reports())
    }

    fn attributes(&self, out: &mut Out<'_>) -> Result<(), ServiceError> {
        let columns = names(&["DB_ATTRIBUTE_NAME", "DB_ATTRIBUTE_VALUE"]);
        out.begin(self.table("DB_ATTRIBUTES"), columns, &[0], &[])?;
        for (name, value) in [
            ("DEFAULT_TABLE_PREFIX", self.table("")),
            ("NODE_TABLE_NAME", self.table("NODES")),
            ("TAG_TABLE_NAME", self.table("TAGS")),
            ("TAG2TAG_TABLE_NAME", self.table("TAG2TAG")),
            ("IOV_SHAREDSEQ_NAME", self.table("IOVS_SEQ")),
            ("SCHEMA_VERSION", "2.2.38".to_owned()),
        ] {
            out.row(&[Value::Text(name.as_bytes()), Value::Text(value.as_bytes())])?;
        }
        out.end()
    }

    fn nodes(&self, out: &mut Out<'_>) -> Result<(), ServiceError> {
        let columns = [
            ints(&["NODE_ID", "NODE_PARENTID"]),
            names(&["NODE_NAME", "NODE_FULLPATH", "NODE_DESCRIPTION"]),
            ints(&["NODE_ISLEAF"]),
            names(&["NODE_SCHEMA_VERSION", "NODE_INSTIME", "LASTMOD_DATE"]),
            vec![Column::new("FOLDER_PAYLOADSPEC", Sql::Long)],
            ints(&["FOLDER_PAYLOAD_INLINE"]),
            names(&["FOLDER_PAYLOAD_EXTREF"]),
            vec![Column::new("FOLDER_CHANNELSPEC", Sql::Long)],
            names(&["FOLDER_CHANNEL_EXTREF"]),
            ints(&["FOLDER_VERSIONING"]),
            names(&[
                "FOLDER_IOVTABLENAME",
                "FOLDER_TAGTABLENAME",
                "FOLDER_IOV2TAGTABLENAME",
                "FOLDER_CHANNELTABLENAME",
            ]),
        ];
        out.begin(self.table("NODES"), columns.concat(), &[0], &[])?;
        let spec: Vec<String> = (1..=self.payload_columns())
            .map(|number| format!("P_{number}:{}", cool_type(self.payload_type(number - 1))))
            .collect();
        for node in 0..=self.folders {
            let name = format!("F{node:04}");
            let path = format!("/{name}");
            let of = |table: &str| self.table(&format!("{name}_{table}"));
            let (iovs, tags, iov2tag, channels) = (of("IOVS"), of("TAGS"), of("IOV2TAG"), of("CHANNELS"));
            let text = |text: &'static str| Value::Text(text.as_bytes());
            let is_leaf = node > 0;
            let leaf_text = |text| if is_leaf { Value::Text(text) } else { Value::Null };
            let tagged = |text| {
                if is_leaf && self.is_multi() {
                    Value::Text(text)
                } else {
                    Value::Null
                }
            };
            out.row(&[
                Value::Int(i64::from(node)),
                Value::Int(0),
                if is_leaf {
                    Value::Text(name.as_bytes())
                } else {
                    text("/")
                },
                if is_leaf {
                    Value::Text(path.as_bytes())
                } else {
                    text("/")
                },
                text("made by plimsoll"),
                Value::Int(i64::from(is_leaf)),
                text("2.0.0"),
                Value::Text(STORED),
                Value::Text(STORED),
                leaf_text(spec.join(",").as_bytes()),
                Value::Int(0),
                Value::Null,
                leaf_text(b""),
                Value::Null,
                Value::Int(i64::from(self.is_multi())),
                leaf_text(iovs.as_bytes()),
                tagged(tags.as_bytes()),
                tagged(iov2tag.as_bytes()),
                leaf_text(channels.as_bytes()),
            ])?;
        }
        out.end()
    }

    /// Writes the tags of all nodes, and the relations between them.
    fn tags(&self, out: &mut Out<'_>) -> Result<(), ServiceError> {
        let columns = [
            ints(&["NODE_ID", "TAG_ID"]),
            names(&["TAG_NAME"]),
            ints(&["TAG_LOCK_STATUS"]),
            names(&["TAG_DESCRIPTION", "SYS_INSTIME"]),
        ];
        out.begin(self.table("TAGS"), columns.concat(), &[0, 1], &[])?;
        let nodes = if self.is_multi() {
            0..self.folders + 1
        } else {
            0..0
        };
        for node in nodes {
            for tag in 1..=self.tags {
                out.row(&[
                    Value::Int(i64::from(node)),
                    Value::Int(i64::from(tag)),
                    Value::Text(tag_name(node, tag).as_bytes()),
                    Value::Int(0),
                    Value::Text(b""),
                    Value::Text(STORED),
                ])?;
            }
        }
        out.end()?;
        let ids = ["PARENT_NODEID", "PARENT_TAGID", "CHILD_NODEID", "CHILD_TAGID"];
        let columns = [ints(&ids), names(&["SYS_INSTIME"])].concat();
        out.begin(self.table("TAG2TAG"), columns, &[0, 1, 2], &[])?;
        for tag in 1..=self.tag_count() {
            for node in 1..=self.folders {
                let [tag, node] = [tag, node].map(|id| Value::Int(i64::from(id)));
                out.row(&[Value::Int(0), tag, node, tag, Value::Text(STORED)])?;
            }
        }
        out.end()
    }
}

/// A column of the payload. `length`: of its values, in bytes.
struct Payload {
    column: Column,
    source: Source,
    length: usize,
}

/// Name of a type in the specification of a payload.
fn cool_type(kind: Option<Type>) -> &'static str {
    match kind {
        None | Some(Type::Text) => "String255",
        Some(Type::Int | Type::Time) => "Int64",
        Some(Type::Float | Type::Double) => "Double",
        Some(Type::Blob) => "Blob64k",
    }
}

/// Name of a tag of a node. Node 0 is the root, whose tags are global.
fn tag_name(node: u32, tag: u32) -> String {
    match node {
        0 => format!("TAG-{tag:02}"),
        _ => format!("F{node:04}-TAG-{tag:02}"),
    }
}

/// One folder.
struct Folder<'a> {
    name: String,
    node: u32,
    cool: &'a CoolConfig,
}

impl Folder<'_> {
    fn table(&self, name: &str) -> String {
        self.cool.table(&format!("{}_{name}", self.name))
    }

    /// Number of the object with interval `iov` of a channel.
    fn object(&self, iov: u64, channel: u32) -> i64 {
        (iov * u64::from(self.cool.channels) + u64::from(channel) + 1) as i64
    }

    /// Start and end of interval `iov`.
    fn validity(&self, iov: u64) -> [i64; 2] {
        let since = (iov * INTERVAL) as i64;
        let is_last = iov + 1 == self.cool.iovs;
        [
            since,
            if is_last {
                MAX_UNTIL
            } else {
                since + INTERVAL as i64
            },
        ]
    }

    fn channels(&self, out: &mut Out<'_>) -> Result<(), ServiceError> {
        let columns = [
            ints(&["CHANNEL_ID", "LAST_OBJECT_ID", "HAS_NEW_DATA"]),
            names(&["CHANNEL_NAME", "DESCRIPTION"]),
        ];
        out.begin(self.table("CHANNELS"), columns.concat(), &[0], &[])?;
        for channel in 0..self.cool.channels {
            out.row(&[
                Value::Int(i64::from(channel)),
                Value::Int(self.object(self.cool.iovs - 1, channel)),
                Value::Int(0),
                Value::Text(format!("CH{channel:04}").as_bytes()),
                Value::Text(b""),
            ])?;
        }
        out.end()
    }

    fn iovs(&self, out: &mut Out<'_>, payload: &[Payload]) -> Result<(), ServiceError> {
        let cool = self.cool;
        let mut columns = [
            ints(&["OBJECT_ID", "CHANNEL_ID", "IOV_SINCE", "IOV_UNTIL", "USER_TAG_ID"]),
            names(&["SYS_INSTIME", "LASTMOD_DATE"]),
            ints(&["ORIGINAL_ID", "NEW_HEAD_ID"]),
        ]
        .concat();
        columns.extend(payload.iter().map(|payload| payload.column.clone()));
        let indexes: [&[usize]; 2] = [&[1, 2, 3], &[4, 8, 1, 2, 3]];
        out.begin(self.table("IOVS"), columns, &[0], &indexes)?;
        let mut rng = Pcg64::seed_from_u64(cool.seed.wrapping_add(u64::from(self.node)));
        let mut buffers: Vec<Vec<u8>> = vec![Vec::new(); payload.len()];
        for iov in 0..cool.iovs {
            let [since, until] = self.validity(iov).map(Value::Int);
            for channel in 0..cool.channels {
                let mut row = vec![
                    Value::Int(self.object(iov, channel)),
                    Value::Int(i64::from(channel)),
                    since,
                    until,
                    Value::Int(0),
                    Value::Text(STORED),
                    Value::Text(STORED),
                    Value::Int(0),
                    Value::Int(0),
                ];
                for (payload, buffer) in payload.iter().zip(&mut buffers) {
                    row.push(payload.source.value(&mut rng, payload.length, buffer));
                }
                out.row(&row)?;
            }
        }
        let strings: Vec<&Payload> = payload
            .iter()
            .filter(|payload| payload.source.strings().is_some())
            .collect();
        out.end_payload(
            strings.first().and_then(|payload| payload.source.strings()),
            strings.iter().map(|payload| payload.length).sum(),
        )
    }

    fn tags(&self, out: &mut Out<'_>) -> Result<(), ServiceError> {
        let columns = [
            ints(&["TAG_ID"]),
            names(&["TAG_NAME", "TAG_DESCRIPTION", "SYS_INSTIME"]),
        ];
        out.begin(self.table("TAGS"), columns.concat(), &[0], &[])?;
        for tag in 1..=self.cool.tags {
            out.row(&[
                Value::Int(i64::from(tag)),
                Value::Text(tag_name(self.node, tag).as_bytes()),
                Value::Text(b""),
                Value::Text(STORED),
            ])?;
        }
        out.end()
    }

    fn iov2tag(&self, out: &mut Out<'_>) -> Result<(), ServiceError> {
        let columns = [
            ints(&["TAG_ID", "OBJECT_ID", "CHANNEL_ID", "IOV_SINCE", "IOV_UNTIL"]),
            names(&["SYS_INSTIME"]),
        ];
        out.begin(self.table("IOV2TAG"), columns.concat(), &[1, 0], &[&[0, 2, 3, 4]])?;
        for tag in 1..=self.cool.tags {
            for iov in 0..self.cool.iovs {
                let [since, until] = self.validity(iov).map(Value::Int);
                for channel in 0..self.cool.channels {
                    out.row(&[
                        Value::Int(i64::from(tag)),
                        Value::Int(self.object(iov, channel)),
                        Value::Int(i64::from(channel)),
                        since,
                        until,
                        Value::Text(STORED),
                    ])?;
                }
            }
        }
        out.end()
    }
}
