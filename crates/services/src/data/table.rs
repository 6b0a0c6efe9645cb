//! One table: `id`, a number from 1 on, and columns of seeded values.
//!
//! Without `types` there is one column `string`, or several (`string`, `string_2`, `string_3`,
//! ...), of exactly `row` bytes each: random bytes, then a filler. How many are random is
//! calibrated, so that zlib at level 5 saves the share asked for on the strings put one after the
//! other. (Base64 and the framing of a protocol come on top, and are not counted.)
//!
//! With `versions` there is a column `version` behind `id`, 0 in each row: what changes it, and
//! sees it change, is not ours.
//!
//! With `types`, these are gone through again and again for all columns. A column is called by its
//! type and place (`int_2`); the first one `string`, if it is text or bytes. Numbers and times have
//! the same text in all databases.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use super::strings::{StringSpec, Strings};
use super::writer::{Column, Layout, Sql, Value, Writer};
use super::{TableReport, is_name};
use crate::ServiceError;

/// Greatest length of a string, bytes.
pub(super) const MAX_ROW: usize = 16_000_000;
/// Most columns: `MariaDB` has 1017 at most, each other database more.
const MAX_COLUMNS: usize = 1000;
/// Most tables of one kind.
const MAX_TABLES: u64 = 10_000;
/// Seconds since 1970 of the first time that occurs: 2000-01-01.
const FIRST_TIME: u64 = 946_684_800;

/// One table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableConfig {
    /// Letters, digits and `_`, not beginning with a digit, at most 64.
    pub name: String,
    /// Number of rows.
    pub rows: u64,
    /// Bytes of each string, 1 to 16,000,000.
    pub row: usize,
    /// Percent of the bytes that zlib level 5 saves, 0 to 95; hit within 3. (Where `types` says
    /// text, that saves 18 at least; bytes that `PostgreSQL` keeps as `bytea` travel as twice as
    /// many digits: see [`super::strings`].)
    #[serde(default)]
    pub compressibility: f64,
    /// The same seed makes the same table.
    #[serde(default)]
    pub seed: u64,
    /// Number of columns beside `id`, 1 to 1000.
    #[serde(default = "one")]
    pub columns: usize,
    /// Their types, over and over; strings where empty.
    #[serde(default)]
    pub types: Vec<Type>,
    /// More than one: so many tables of other rows, called by name and number from 1 on (`t_1`).
    #[serde(default = "one_table")]
    pub tables: u64,
    /// Whether there is a column `version`.
    #[serde(default)]
    pub versions: bool,
}

fn one() -> usize {
    1
}

fn one_table() -> u64 {
    1
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    /// Printable characters.
    Text,
    /// Whole numbers from 0 to 999,999,999.
    Int,
    /// Numbers below 1,000,000 with three digits behind the point.
    Float,
    /// Seconds of the years 2000 to 2031.
    Time,
    /// Bytes of all values.
    Blob,
}

/// How a column is filled.
#[derive(Clone)]
enum Source {
    Strings(Strings),
    Int,
    Float,
    Time,
}

impl TableConfig {
    pub(super) fn check(&self) -> Result<(), ServiceError> {
        let wrong = |key, why: String| Err(ServiceError::Config { key, why });
        if !(1..=MAX_TABLES).contains(&self.tables) {
            return wrong("tables", format!("1 to {MAX_TABLES}, not {}", self.tables));
        }
        let name = self.called(self.tables);
        if !is_name(&name) {
            return wrong("name", format!("letters, digits and _, at most 64, not {name:?}"));
        }
        if !(1..=MAX_ROW).contains(&self.row) {
            return wrong("row", format!("1 to {MAX_ROW} bytes, not {}", self.row));
        }
        if !(1..=MAX_COLUMNS).contains(&self.columns) {
            return wrong("columns", format!("1 to {MAX_COLUMNS}, not {}", self.columns));
        }
        if !(0.0..=95.0).contains(&self.compressibility) {
            let why = format!("0 to 95 percent, not {}", self.compressibility);
            return wrong("compressibility", why);
        }
        Ok(())
    }

    /// The name of the table of this number.
    fn called(&self, number: u64) -> String {
        if self.tables == 1 {
            self.name.clone()
        } else {
            format!("{}_{number}", self.name)
        }
    }

    /// The columns of values, with what fills them. `any_text`: whether the database takes any
    /// bytes for text.
    fn columns(&self, any_text: bool) -> Vec<(Column, Source)> {
        let source = |kind| match kind {
            None => self.strings(None, any_text),
            Some(Type::Text) => self.strings(Some(true), any_text),
            Some(Type::Blob) => self.strings(Some(false), any_text),
            Some(Type::Int) => Source::Int,
            Some(Type::Float) => Source::Float,
            Some(Type::Time) => Source::Time,
        };
        // Calibrating compresses megabytes: once for each kind is enough.
        let mut known: Vec<(Option<Type>, Source)> = Vec::new();
        let mut columns = Vec::with_capacity(self.columns);
        for at in 0..self.columns {
            let kind = self.types.get(at % self.types.len().max(1)).copied();
            let found = known.iter().find(|(known, _)| *known == kind);
            let source = found.map_or_else(|| source(kind), |(_, source)| source.clone());
            known.push((kind, source.clone()));
            let sql = match (&source, kind) {
                (Source::Int, _) => Sql::Int,
                (Source::Float, _) => Sql::Float,
                (Source::Time, _) => Sql::Time,
                (Source::Strings(strings), Some(_)) if !strings.text => Sql::Blob(self.row),
                // Declared as text in SQLite, whose columns take anything.
                (Source::Strings(strings), _) => Sql::Strings(self.row, strings.text),
            };
            columns.push((Column::new(column_name(at, kind), sql), source));
        }
        columns
    }

    fn strings(&self, text: Option<bool>, any_text: bool) -> Source {
        Source::Strings(Strings::calibrated(StringSpec {
            rows: self.rows,
            length: self.row,
            compressibility: self.compressibility,
            text,
            any_text,
            seed: self.seed,
        }))
    }

    pub(super) fn write(&self, writer: &mut dyn Writer) -> Result<Vec<TableReport>, ServiceError> {
        let values = self.columns(writer.takes_any_text());
        let (values, sources): (Vec<Column>, Vec<Source>) = values.into_iter().unzip();
        let mut columns = vec![Column::new("id", Sql::Int)];
        columns.extend(self.versions.then(|| Column::new("version", Sql::Version)));
        columns.extend(values);
        let mut layout = Layout {
            name: String::new(),
            columns,
            key: vec![0],
            indexes: Vec::new(),
            watched: self.versions,
        };
        let write = |number| {
            layout.name = self.called(number);
            self.fill(&layout, &sources, number, writer)
        };
        (1..=self.tables).map(write).collect()
    }

    fn fill(
        &self,
        layout: &Layout,
        sources: &[Source],
        number: u64,
        writer: &mut dyn Writer,
    ) -> Result<TableReport, ServiceError> {
        writer.begin(layout)?;
        let mut rng = Pcg64::seed_from_u64(self.seed.wrapping_add(number - 1));
        let mut strings = vec![Vec::new(); sources.len()];
        for id in 1..=self.rows {
            let mut values = vec![Value::Int(id as i64)];
            values.extend(self.versions.then_some(Value::Int(0)));
            for (source, buffer) in sources.iter().zip(&mut strings) {
                values.push(source.value(&mut rng, self.row, buffer));
            }
            writer.row(&values)?;
        }
        writer.end()?;
        let packed: Vec<&Strings> = sources.iter().filter_map(Source::strings).collect();
        Ok(TableReport {
            name: layout.name.clone(),
            rows: self.rows,
            bytes: self.rows * (self.row * packed.len()) as u64,
            saved_percent: packed.first().map_or(0.0, |strings| strings.saved_percent),
            kind: packed.first().map_or("none", |strings| strings.kind()),
        })
    }
}

fn column_name(at: usize, kind: Option<Type>) -> String {
    let name = match kind {
        None => "string",
        Some(Type::Text | Type::Blob) if at == 0 => "string",
        Some(Type::Text) => "text",
        Some(Type::Int) => "int",
        Some(Type::Float) => "float",
        Some(Type::Time) => "time",
        Some(Type::Blob) => "blob",
    };
    if name == "string" && at == 0 {
        name.to_owned()
    } else {
        format!("{name}_{}", at + 1)
    }
}

impl Source {
    fn strings(&self) -> Option<&Strings> {
        match self {
            Self::Strings(strings) => Some(strings),
            _ => None,
        }
    }

    fn value<'a>(&self, rng: &mut Pcg64, length: usize, buffer: &'a mut Vec<u8>) -> Value<'a> {
        match self {
            Self::Strings(strings) => {
                buffer.resize(length, 0);
                strings.fill(rng, buffer);
                Value::strings(strings.text, buffer)
            }
            Self::Int => Value::Int(rng.random_range(0..1_000_000_000)),
            Self::Float => {
                // Never whole: databases differ in whether they write the point then.
                let number: u32 = rng.random_range(0..1_000_000) * 1000 + rng.random_range(1..1000);
                Value::Float(f64::from(number) / 1000.0)
            }
            Self::Time => Value::Time(FIRST_TIME + rng.random_range(0..1_000_000_000_u64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str, row: usize, compressibility: f64) -> TableConfig {
        TableConfig {
            name: name.into(),
            rows: 1,
            row,
            compressibility,
            seed: 1,
            columns: 1,
            types: Vec::new(),
            tables: 1,
            versions: false,
        }
    }

    #[test]
    fn wrong_tables_are_refused() {
        for wrong in [
            table("1t", 1, 0.0),
            table("t; DROP", 1, 0.0),
            table("", 1, 0.0),
            table("t", 0, 0.0),
            table("t", 1, 96.0),
            table("t", 1, f64::NAN),
            TableConfig {
                columns: 0,
                ..table("t", 1, 0.0)
            },
            TableConfig {
                tables: 0,
                ..table("t", 1, 0.0)
            },
            TableConfig {
                tables: 10,
                ..table(&"t".repeat(62), 1, 0.0)
            },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn columns_are_called_by_type_and_place() {
        let names = |columns, types: &[Type]| {
            let table = TableConfig {
                columns,
                types: types.to_vec(),
                ..table("t", 10, 50.0)
            };
            let names: Vec<String> = table
                .columns(false)
                .into_iter()
                .map(|(column, _)| column.name)
                .collect();
            names.join(" ")
        };
        assert_eq!(names(3, &[]), "string string_2 string_3");
        assert_eq!(names(1, &[Type::Blob]), "string");
        assert_eq!(
            names(5, &[Type::Int, Type::Text, Type::Time]),
            "int_1 text_2 time_3 int_4 text_5"
        );
    }
}
