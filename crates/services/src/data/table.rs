//! One table: a column `id` with the numbers from 1, and columns of random values.
//!
//! Without `types` there is one column `string`, or several (`string`, `string_2`, `string_3`,
//! ...), of exactly `row` bytes each: random bytes, then a filler. The number of random bytes is
//! calibrated, so that zlib level 5 saves the configured share of the concatenated strings. Base64
//! and the framing of a protocol are not included.
//!
//! With `versions` there is a column `version` after `id`, which is 0 in each row. Clients of the
//! table change it.
//!
//! With `types`, these are repeated until all columns have a type. The name of a column consists of
//! its type and number (`int_2`); the first column is called `string` if it contains text or bytes.
//! Numbers and times have the same text in all databases.

use rand::SeedableRng;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use super::columns::{Source, Type};
use super::strings::{StringSpec, Strings};
use super::writer::{Column, Layout, Sql, Value, Writer};
use super::{TableReport, is_name};
use crate::ServiceError;

/// Maximum length of a string, in bytes.
pub(super) const MAX_ROW: usize = 16_000_000;
/// Maximum number of columns. The limit of `MariaDB` is 1,017; those of the others are greater.
const MAX_COLUMNS: usize = 1000;
/// Maximum number of tables of one configuration.
const MAX_TABLES: u64 = 10_000;

/// Configuration of one table, or of several similar tables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableConfig {
    /// Name of the table: 1 to 64 letters, digits and `_`, without a digit at the beginning.
    pub name: String,
    /// Number of rows.
    pub rows: u64,
    /// Length of each string in bytes, 1 to 16,000,000.
    pub row: usize,
    /// Share of the bytes of the strings that zlib level 5 saves, in percent: 0 to 95, with an
    /// error of at most 3. The minimum for the type text is 18. Bytes that `PostgreSQL` stores as
    /// `bytea` are transferred as twice the number of digits. See [`super::strings`].
    #[serde(default)]
    pub compressibility: f64,
    /// Seed of the values. The same seed produces the same table.
    #[serde(default)]
    pub seed: u64,
    /// Number of columns in addition to `id`, 1 to 1,000.
    #[serde(default = "one")]
    pub columns: usize,
    /// Types of the columns, repeated for further columns. Empty: strings.
    #[serde(default)]
    pub types: Vec<Type>,
    /// Number of tables, 1 to 10,000. Several tables have different rows, and names with a number
    /// from 1 (`t_1`).
    #[serde(default = "one_table")]
    pub tables: u64,
    /// Whether the table has a column `version`.
    #[serde(default)]
    pub versions: bool,
}

fn one() -> usize {
    1
}

fn one_table() -> u64 {
    1
}

impl TableConfig {
    pub(super) fn check(&self) -> Result<(), ServiceError> {
        let wrong = |key, why: String| Err(ServiceError::Config { key, why });
        if !(1..=MAX_TABLES).contains(&self.tables) {
            return wrong("tables", format!("expected 1 to 10,000, got {}", self.tables));
        }
        let name = self.table_name(self.tables);
        if !is_name(&name) {
            let why =
                format!("expected 1 to 64 letters, digits and _, not beginning with a digit, got {name:?}");
            return wrong("name", why);
        }
        if !(1..=MAX_ROW).contains(&self.row) {
            let why = format!("expected 1 to 16,000,000 bytes, got {} bytes", self.row);
            return wrong("row", why);
        }
        if !(1..=MAX_COLUMNS).contains(&self.columns) {
            return wrong("columns", format!("expected 1 to 1,000, got {}", self.columns));
        }
        if !(0.0..=95.0).contains(&self.compressibility) {
            let why = format!("expected 0 to 95 percent, got {}", self.compressibility);
            return wrong("compressibility", why);
        }
        Ok(())
    }

    /// Name of the table with this number.
    fn table_name(&self, number: u64) -> String {
        if self.tables == 1 {
            self.name.clone()
        } else {
            format!("{}_{number}", self.name)
        }
    }

    /// The columns of values with their generators. `any_text`: whether the database accepts any
    /// bytes except 0 as text.
    fn columns(&self, any_text: bool) -> Vec<(Column, Source)> {
        let source = |kind| Source::new(kind, |text| self.strings(text, any_text));
        // A calibration compresses megabytes, so its result is used for all columns of a type.
        let mut sources: Vec<(Option<Type>, Source)> = Vec::new();
        let mut columns = Vec::with_capacity(self.columns);
        for index in 0..self.columns {
            let kind = self.types.get(index % self.types.len().max(1)).copied();
            let existing = sources.iter().find(|(known, _)| *known == kind);
            let source = existing.map_or_else(|| source(kind), |(_, source)| source.clone());
            sources.push((kind, source.clone()));
            let sql = source.sql(kind, self.row);
            columns.push((Column::new(column_name(index, kind), sql), source));
        }
        columns
    }

    fn strings(&self, text: Option<bool>, any_text: bool) -> Strings {
        Strings::calibrated(StringSpec {
            rows: self.rows,
            length: self.row,
            compressibility: self.compressibility,
            text,
            any_text,
            seed: self.seed,
        })
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
            unique: Vec::new(),
            watched: self.versions,
            bytewise: false,
        };
        let write = |number| {
            layout.name = self.table_name(number);
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
        let payload: Vec<&Strings> = sources.iter().filter_map(Source::strings).collect();
        Ok(TableReport {
            name: layout.name.clone(),
            rows: self.rows,
            bytes: self.rows * (self.row * payload.len()) as u64,
            saved_percent: payload.first().map_or(0.0, |strings| strings.saved_percent),
            kind: payload.first().map_or("none", |strings| strings.kind()),
        })
    }
}

fn column_name(index: usize, kind: Option<Type>) -> String {
    let name = match kind {
        None => "string",
        Some(Type::Text | Type::Blob) if index == 0 => "string",
        Some(Type::Text) => "text",
        Some(Type::Int) => "int",
        Some(Type::Float) => "float",
        Some(Type::Double) => "double",
        Some(Type::Time) => "time",
        Some(Type::Blob) => "blob",
    };
    if name == "string" && index == 0 {
        name.to_owned()
    } else {
        format!("{name}_{}", index + 1)
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
    fn invalid_tables_are_rejected() {
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
    fn the_name_of_a_column_consists_of_type_and_number() {
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
