//! Reads the texts of `PostgreSQL`'s output plugin `test_decoding`.
//!
//! It is preferred to `pgoutput`, which needs a publication: to add a table to one is DDL by the
//! owner of the table, and the server then refuses updates of published tables without a replica
//! identity.

use std::collections::HashSet;

use super::super::super::dependents::Change;

/// A text of the plugin.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decoded<'a> {
    /// A transaction begins, or a message that changes nothing.
    Nothing,
    Commit,
    /// Full names of the tables (one, except for TRUNCATE), and the text of the changed row; none
    /// for TRUNCATE.
    Tables(Vec<String>, Option<&'a str>),
}

/// Reads a text. None if it does not have the expected form.
pub(super) fn read(text: &str) -> Option<Decoded<'_>> {
    if text == "COMMIT" || text.starts_with("COMMIT ") {
        return Some(Decoded::Commit);
    }
    if text == "BEGIN" || text.starts_with("BEGIN ") || text.starts_with("message: ") {
        return Some(Decoded::Nothing);
    }
    let mut rest = text.strip_prefix("table ")?;
    let mut tables = Vec::new();
    loop {
        let (schema, after) = identifier(rest)?;
        let (name, after) = identifier(after.strip_prefix('.')?)?;
        tables.push(format!("{schema}.{name}"));
        let Some(next) = after.strip_prefix(", ") else {
            rest = after.strip_prefix(": ")?;
            break;
        };
        rest = next;
    }
    let (action, row) = rest.split_once(':')?;
    let row = ["INSERT", "UPDATE", "DELETE"].contains(&action).then_some(row);
    Some(Decoded::Tables(tables, row))
}

/// The change of a row: the values of the key column before and after it. The whole table if they
/// are not in the text.
pub(super) fn change(row: &str, key: &str) -> Change {
    match keys(row, key) {
        Some(keys) if !keys.is_empty() => Change::Rows(keys),
        _ => Change::Table,
    }
}

/// All values of a column in the text of a row:
/// `[ old-key:] name[type]:value ... [ new-tuple: ...]`.
fn keys(row: &str, key: &str) -> Option<HashSet<i64>> {
    let mut keys = HashSet::new();
    let mut rest = row;
    while let Some(part) = rest.strip_prefix(' ') {
        if let Some(after) = part
            .strip_prefix("old-key:")
            .or_else(|| part.strip_prefix("new-tuple:"))
        {
            rest = after;
            continue;
        }
        let (name, after) = identifier(part)?;
        let (type_name, after) = after.strip_prefix('[')?.split_once("]:")?;
        // The name of such a type may itself contain the end of a type.
        if type_name.contains('"') {
            return None;
        }
        let (value, after) = value(after)?;
        if name == key {
            keys.insert(value.parse().ok()?);
        }
        rest = after;
    }
    rest.is_empty().then_some(keys)
}

/// A name at the start of a text, without its quotation marks, and the text after it.
fn identifier(text: &str) -> Option<(String, &str)> {
    if text.starts_with('"') {
        let (quoted, rest) = quotation(text, '"')?;
        return Some((quoted.replace("\"\"", "\""), rest));
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    (end > 0).then(|| (text[..end].to_owned(), &text[end..]))
}

/// A value at the start of a text, and the text after it.
fn value(text: &str) -> Option<(&str, &str)> {
    if text.starts_with('\'') {
        return quotation(text, '\'');
    }
    if let Some(bits) = text.strip_prefix('B').filter(|bits| bits.starts_with('\'')) {
        return quotation(bits, '\'');
    }
    Some(text.split_at(text.find(' ').unwrap_or(text.len())))
}

/// The contents of a quotation at the start of a text, with doubled marks, and the text after it.
fn quotation(text: &str, mark: char) -> Option<(&str, &str)> {
    let inner = text.strip_prefix(mark)?;
    let mut from = 0;
    loop {
        let end = from + inner[from..].find(mark)?;
        match inner[end + 1..].strip_prefix(mark) {
            Some(_) => from = end + 2,
            None => return Some((&inner[..end], &inner[end + 1..])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables<'a>(names: &[&str], row: Option<&'a str>) -> Decoded<'a> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Decoded::Tables(names, row)
    }

    #[test]
    fn texts_contain_the_tables() {
        assert_eq!(read("BEGIN"), Some(Decoded::Nothing));
        assert_eq!(
            read("message: transactional: 1 prefix: x, sz: 6 content:COMMIT"),
            Some(Decoded::Nothing)
        );
        assert_eq!(read("COMMIT"), Some(Decoded::Commit));
        assert_eq!(
            read("table public.one: INSERT: id[integer]:1"),
            Some(tables(&["public.one"], Some(" id[integer]:1")))
        );
        assert_eq!(
            read("table \"S: .x\".\"a\"\"b\": DELETE: (no-tuple-data)"),
            Some(tables(&["S: .x.a\"b"], Some(" (no-tuple-data)")))
        );
        assert_eq!(
            read("table s.a, s.\"B, c\": TRUNCATE: restart_seqs cascade"),
            Some(tables(&["s.a", "s.B, c"], None))
        );
        for text in [
            "",
            "table ",
            "table a: INSERT:",
            "table a.b INSERT",
            "table \"a.b: INSERT: x",
            "x",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn rows_contain_their_keys_before_and_after_the_change() {
        let rows = |keys: &[i64]| Change::Rows(keys.iter().copied().collect());
        for (row, expected) in [
            (
                " id[integer]:1 text[character varying]:'id[integer]:2'",
                rows(&[1]),
            ),
            (
                " a[text]:'it''s id[integer]:9 ' b[bit]:B'01' c[integer[]]:'{1}' id[bigint]:-5",
                rows(&[-5]),
            ),
            (
                " old-key: id[integer]:7 new-tuple: id[integer]:8 text[text]:null",
                rows(&[7, 8]),
            ),
            (
                " \"old-key\"[integer]:4 id[integer]:5 t[text]:unchanged-toast-datum",
                rows(&[5]),
            ),
            (" id[integer]:1 \"q\"\"\"[boolean]:true", rows(&[1])),
            (" (no-tuple-data)", Change::Table),
            ("", Change::Table),
            (" other[integer]:1", Change::Table),
            (" id[text]:'x'", Change::Table),
            (" id[integer]:null", Change::Table),
            (" id[integer]:1 t[text]:'open", Change::Table),
            (" t[\"x]:1 id\"]:1 id[integer]:2", Change::Table),
        ] {
            assert_eq!(change(row, "id"), expected, "{row}");
        }
    }
}
