//! Writes groups of related tables, and reports on each of them.

use super::TableReport;
use super::strings::Strings;
use super::writer::{Column, Layout, Sql, Value, Writer};
use crate::ServiceError;

/// A writer, and the reports on its tables.
pub(super) struct Out<'a> {
    writer: &'a mut dyn Writer,
    reports: Vec<TableReport>,
    bytewise: bool,
}

impl<'a> Out<'a> {
    pub(super) fn new(writer: &'a mut dyn Writer) -> Self {
        Self {
            writer,
            reports: Vec::new(),
            bytewise: false,
        }
    }

    /// Writes tables whose texts are compared as bytes.
    pub(super) fn bytewise(self) -> Self {
        Self {
            bytewise: true,
            ..self
        }
    }

    /// `key` and `indexes`: the indices of their columns.
    pub(super) fn begin(
        &mut self,
        name: String,
        columns: Vec<Column>,
        key: &[usize],
        indexes: &[&[usize]],
    ) -> Result<(), ServiceError> {
        self.begin_unique(name, columns, key, (indexes, &[]))
    }

    /// As [`Self::begin`], with `unique`: further keys.
    pub(super) fn begin_unique(
        &mut self,
        name: String,
        columns: Vec<Column>,
        key: &[usize],
        (indexes, unique): (&[&[usize]], &[&[usize]]),
    ) -> Result<(), ServiceError> {
        self.writer.begin(&Layout {
            name: name.clone(),
            columns,
            key: key.to_vec(),
            indexes: indexes.iter().map(|columns| columns.to_vec()).collect(),
            unique: unique.iter().map(|columns| columns.to_vec()).collect(),
            watched: false,
            bytewise: self.bytewise,
        })?;
        self.reports.push(TableReport {
            name,
            rows: 0,
            bytes: 0,
            saved_percent: 0.0,
            kind: "none",
        });
        Ok(())
    }

    pub(super) fn row(&mut self, values: &[Value<'_>]) -> Result<(), ServiceError> {
        if let Some(report) = self.reports.last_mut() {
            report.rows += 1;
        }
        self.writer.row(values)
    }

    pub(super) fn end(&mut self) -> Result<(), ServiceError> {
        self.writer.end()
    }

    /// Ends a table with a payload. `bytes`: length of the strings of a row.
    pub(super) fn end_payload(
        &mut self,
        strings: Option<&Strings>,
        bytes: usize,
    ) -> Result<(), ServiceError> {
        if let Some(report) = self.reports.last_mut() {
            report.bytes = report.rows * bytes as u64;
            report.saved_percent = strings.map_or(0.0, |strings| strings.saved_percent);
            report.kind = strings.map_or("none", Strings::kind);
        }
        self.end()
    }

    pub(super) fn into_reports(self) -> Vec<TableReport> {
        self.reports
    }
}

pub(super) fn ints(columns: &[&str]) -> Vec<Column> {
    columns.iter().map(|name| Column::new(*name, Sql::Int)).collect()
}

pub(super) fn names(columns: &[&str]) -> Vec<Column> {
    columns.iter().map(|name| Column::new(*name, Sql::Name)).collect()
}
