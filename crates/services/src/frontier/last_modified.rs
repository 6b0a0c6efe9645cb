//! The time of the last change of the tables of a query, for `Last-Modified` and
//! `If-Modified-Since`.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of sets of tables that are remembered. A workload has a few hundred. If there are
/// more, all are forgotten.
const MAX_ENTRIES: usize = 10_000;

/// Owners and names of tables in upper case, sorted, without duplicates.
pub(super) type Tables = Vec<(String, String)>;

/// The remembered times of the last change.
pub(super) struct LastModifiedCache {
    /// Time for which an entry is valid.
    valid: Duration,
    /// For each set of tables, the time of its last change in seconds since 1970, and when it was
    /// read.
    known: Mutex<HashMap<Tables, (u64, Instant)>>,
}

impl LastModifiedCache {
    pub(super) fn new(valid_s: u64) -> Self {
        Self {
            valid: Duration::from_secs(valid_s),
            known: Mutex::new(HashMap::new()),
        }
    }

    /// Whether the configuration enables `Last-Modified`.
    pub(super) fn is_enabled(&self) -> bool {
        !self.valid.is_zero()
    }

    /// The remembered time in seconds since 1970, if it is valid.
    pub(super) fn of(&self, tables: &Tables) -> Option<u64> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (time, since) = known.get(tables)?;
        (since.elapsed() <= self.valid).then_some(*time)
    }

    /// Forgets all times, because a table has changed.
    pub(super) fn forget(&self) {
        if self.is_enabled() {
            self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    pub(super) fn remember(&self, tables: &Tables, time: u64) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_ENTRIES {
            known.retain(|_, (_, since)| since.elapsed() <= self.valid);
            if known.len() >= MAX_ENTRIES {
                known.clear();
            }
        }
        known.insert(tables.clone(), (time, Instant::now()));
    }
}

/// The names of the tables for a message.
pub(super) fn names(tables: &Tables) -> String {
    let names: Vec<String> = tables
        .iter()
        .map(|(owner, name)| format!("{owner}.{name}"))
        .collect();
    names.join(" and ")
}

/// Whether a text is a valid table name in a configuration. It is inserted into queries without
/// quotation marks.
pub(super) fn is_table(name: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$'))
    };
    name.split('.').count() <= 2 && name.split('.').all(part)
}

/// All tables that a query reads, if it has one of the forms that the servlet recognises: it begins
/// with `select`, and each `from` is followed by `owner.table [alias]`, by several of these with
/// commas, or by a nested select. None for a query with a join, or with a table without an owner.
///
/// The servlet reads only the first `from` (the second one if a nested select follows). A change of
/// a table in a later `from` is then not detected. Here every `from` counts.
pub(super) fn tables_of(sql: &str) -> Option<Tables> {
    // With these characters, the servers differ in where quotations and comments end.
    if sql.contains(['\\', '$', '#']) {
        return None;
    }
    let tokens = tokens(sql)?;
    if !tokens.first()?.eq_ignore_ascii_case("select") {
        return None;
    }
    let mut tables = Tables::new();
    for (index, token) in tokens.iter().enumerate() {
        if token.eq_ignore_ascii_case("join") {
            return None;
        }
        let is_from = token.eq_ignore_ascii_case("from");
        if is_from && !tokens[index - 1].eq_ignore_ascii_case("distinct") {
            add_list(&tokens[index + 1..], &mut tables)?;
        }
    }
    tables.sort();
    tables.dedup();
    (!tables.is_empty()).then_some(tables)
}

/// Adds the tables of the list that follows a `from`.
fn add_list(tokens: &[&str], tables: &mut Tables) -> Option<()> {
    let mut tokens = tokens.iter().copied().peekable();
    loop {
        let first = tokens.next()?;
        if first == "(" {
            // The text in brackets has its own `from`.
            let mut depth = 1;
            while depth > 0 {
                depth += match tokens.next()? {
                    "(" => 1,
                    ")" => -1,
                    _ => 0,
                };
            }
        } else {
            tables.push(table(first)?);
        }
        tokens.next_if(|token| token.eq_ignore_ascii_case("as"));
        tokens.next_if(|token| is_name(token) && !AFTER.iter().any(|word| token.eq_ignore_ascii_case(word)));
        match tokens.peek() {
            Some(&",") => tokens.next(),
            Some(&"(") => return None, // a function, or column names
            _ => return Some(()),
        };
    }
}

/// Words that may follow a table and are not an alias.
const AFTER: [&str; 13] = [
    "where",
    "group",
    "order",
    "having",
    "union",
    "limit",
    "intersect",
    "except",
    "minus",
    "for",
    "offset",
    "fetch",
    "window",
];

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '"' | '`'))
}

/// Parses `owner.table`, with or without quotation marks.
fn table(token: &str) -> Option<(String, String)> {
    let (owner, name) = token.split_once('.')?;
    let plain = |part: &str| {
        let part = part.trim_matches(['"', '`']);
        let is_valid = !part.is_empty() && !part.contains(['.', '"', '`']);
        is_valid.then(|| part.to_uppercase())
    };
    Some((plain(owner)?, plain(name)?))
}

/// The tokens of a query: names (with dots and quoted parts), numbers and single characters,
/// without comments. Each literal becomes `''`. `None` if a quotation or comment has no end.
fn tokens(sql: &str) -> Option<Vec<&str>> {
    let mut tokens = Vec::new();
    let mut rest = sql.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' => {
                let end = 2 + rest[1..].find('\'')?;
                tokens.push("''");
                rest = rest[end..].trim_start();
                continue;
            }
            '/' if rest.starts_with("/*") => {
                rest = rest[rest.find("*/")? + 2..].trim_start();
                continue;
            }
            '-' if rest.starts_with("--") => {
                rest = rest[rest.find('\n').unwrap_or(rest.len())..].trim_start();
                continue;
            }
            c if is_part(c) => name_length(rest)?,
            c => c.len_utf8(),
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    Some(tokens)
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '"' | '`')
}

fn name_length(text: &str) -> Option<usize> {
    let mut at = 0;
    while let Some(c) = text[at..].chars().next().filter(|c| is_part(*c)) {
        at += c.len_utf8();
        if matches!(c, '"' | '`') {
            at += text[at..].find(c)? + 1;
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table_names(sql: &str) -> String {
        tables_of(sql).map_or_else(|| "none".into(), |tables| names(&tables))
    }

    #[test]
    fn the_forms_of_the_servlet_have_tables() {
        assert_eq!(table_names("select a from o.t"), "O.T");
        assert_eq!(table_names("SELECT a, b FROM o.t x WHERE a=1"), "O.T");
        assert_eq!(
            table_names("SELECT a FROM o.t, p.u y,\n\"Q\".\"V\" ORDER BY 1"),
            "O.T and P.U and Q.V"
        );
        assert_eq!(table_names("SELECT a FROM (SELECT a FROM o.t WHERE b=2)"), "O.T");
        assert_eq!(
            table_names("SELECT a FROM (SELECT a FROM o.t) x, p.u"),
            "O.T and P.U"
        );
        assert_eq!(table_names("SELECT a FROM o.t AS x, p.u AS y"), "O.T and P.U");
        let cool = "SELECT /*+ HINT */ I3.OBJECT_ID AS \"OBJECT_ID\" FROM COOL.F1_CHANNELS C2, COOL.F1_IOVS I3 \
                    WHERE C2.CHANNEL_ID>=0 AND I3.IOV_SINCE>=COALESCE(( SELECT MAX(I1.IOV_SINCE) FROM COOL.F1_IOVS I1 \
                    WHERE I1.IOV_SINCE<=5 ),0) AND I3.X='it''s from a.b' ORDER BY 1";
        assert_eq!(table_names(cool), "COOL.F1_CHANNELS and COOL.F1_IOVS");
    }

    #[test]
    fn other_forms_have_no_tables() {
        for sql in [
            "",
            "WITH a AS (SELECT 1) SELECT * FROM o.t",
            "SELECT 1",
            "SELECT a FROM t",
            "SELECT a FROM o.t, u",
            "SELECT a FROM o.t JOIN p.u ON a=b",
            "SELECT a FROM o.f(1)",
            "SELECT a FROM o.p.t",
            "SELECT extract(epoch from x) FROM o.t",
            "SELECT a FROM",
            "SELECT a FROM (SELECT",
            "SELECT 'a FROM o.t",
            "SELECT \"a FROM o.t",
            "SELECT a FROM .t",
            "SELECT a FROM \"\".\"\"",
            "SELECT 'it\\'s' FROM o.t",
        ] {
            assert_eq!(table_names(sql), "none", "{sql}");
        }
        assert_eq!(table_names("SELECT a IS DISTINCT FROM b.c FROM o.t"), "O.T");
    }

    #[test]
    fn a_table_name_has_at_most_one_owner_and_no_quotation_marks() {
        assert!(is_table("t") && is_table("o.t_1"));
        assert!(
            !is_table("") && !is_table("o.") && !is_table("a.b.c") && !is_table("t; x") && !is_table("\"t\"")
        );
    }

    #[test]
    fn the_number_of_remembered_times_is_limited() {
        let cache = LastModifiedCache::new(3600);
        let tables = tables_of("SELECT a FROM o.t").unwrap();
        assert_eq!(cache.of(&tables), None);
        cache.remember(&tables, 7);
        assert_eq!(cache.of(&tables), Some(7));
        for number in 0..=MAX_ENTRIES {
            cache.remember(&vec![("O".into(), number.to_string())], 1);
        }
        assert!(cache.known.lock().unwrap().len() <= MAX_ENTRIES);
    }
}
