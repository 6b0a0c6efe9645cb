//! When the tables behind a query changed last: what `Last-Modified` says, and `If-Modified-Since`
//! asks.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Sets of tables remembered. A workload has some hundred; whoever asks for more begins anew.
const MAX_ENTRIES: usize = 10_000;

/// Owners and names of tables in upper case, sorted, each once.
pub(super) type Tables = Vec<(String, String)>;

/// The times that are known.
pub(super) struct Modified {
    /// How long a time may be relied on.
    valid: Duration,
    known: Mutex<HashMap<Tables, (u64, Instant)>>,
}

impl Modified {
    pub(super) fn new(valid_s: u64) -> Self {
        Self {
            valid: Duration::from_secs(valid_s),
            known: Mutex::new(HashMap::new()),
        }
    }

    /// Where the gateway is told to look at all.
    pub(super) fn wanted(&self) -> bool {
        !self.valid.is_zero()
    }

    /// Seconds since 1970, if they are known well enough.
    pub(super) fn of(&self, tables: &Tables) -> Option<u64> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (time, since) = known.get(tables)?;
        (since.elapsed() <= self.valid).then_some(*time)
    }

    /// A table has changed: the times of all of them may be others.
    pub(super) fn forget(&self) {
        if self.wanted() {
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

/// The names as messages say them.
pub(super) fn names(tables: &Tables) -> String {
    let names: Vec<String> = tables
        .iter()
        .map(|(owner, name)| format!("{owner}.{name}"))
        .collect();
    names.join(" and ")
}

/// A table's name as a configuration may give it: it is put into queries as it is.
pub(super) fn is_table(name: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$'))
    };
    name.split('.').count() <= 2 && name.split('.').all(part)
}

/// All tables that a query reads, where it is one of the forms that the servlet knows: it begins
/// with `select`, and each `from` in it is followed by `owner.table [alias]`, by several of these
/// with commas, or by a nested select. A query with a join in it, or a table without owner, has
/// none.
///
/// The servlet looks at the first `from` alone (at the second where a nested select follows), so
/// that a change of a table that only a later one names would go unnoticed; here all count.
pub(super) fn tables_of(sql: &str) -> Option<Tables> {
    // Where these are, each server sees quotations and comments in its own way.
    if sql.contains(['\\', '$', '#']) {
        return None;
    }
    let tokens = tokens(sql)?;
    if !tokens.first()?.eq_ignore_ascii_case("select") {
        return None;
    }
    let mut tables = Tables::new();
    for (at, token) in tokens.iter().enumerate() {
        if token.eq_ignore_ascii_case("join") {
            return None;
        }
        let from = token.eq_ignore_ascii_case("from");
        if from && !tokens[at - 1].eq_ignore_ascii_case("distinct") {
            list(&tokens[at + 1..], &mut tables)?;
        }
    }
    tables.sort();
    tables.dedup();
    (!tables.is_empty()).then_some(tables)
}

/// The list behind one `from`.
fn list(tokens: &[&str], tables: &mut Tables) -> Option<()> {
    let mut tokens = tokens.iter().copied().peekable();
    loop {
        let first = tokens.next()?;
        if first == "(" {
            // What is inside has a `from` of its own.
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
            Some(&"(") => return None, // a function, or names of columns
            _ => return Some(()),
        };
    }
}

/// What may follow a table where an alias could stand.
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

/// `owner.table`, either perhaps in quotation marks.
fn table(token: &str) -> Option<(String, String)> {
    let (owner, name) = token.split_once('.')?;
    let plain = |part: &str| {
        let part = part.trim_matches(['"', '`']);
        let good = !part.is_empty() && !part.contains(['.', '"', '`']);
        good.then(|| part.to_uppercase())
    };
    Some((plain(owner)?, plain(name)?))
}

/// Names (dots and quoted parts included), numbers and single marks; no comments and no literals.
/// `None` where a quotation or comment does not end.
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

    fn found(sql: &str) -> String {
        tables_of(sql).map_or_else(|| "none".into(), |tables| names(&tables))
    }

    #[test]
    fn forms_of_the_servlet() {
        assert_eq!(found("select a from o.t"), "O.T");
        assert_eq!(found("SELECT a, b FROM o.t x WHERE a=1"), "O.T");
        assert_eq!(
            found("SELECT a FROM o.t, p.u y,\n\"Q\".\"V\" ORDER BY 1"),
            "O.T and P.U and Q.V"
        );
        assert_eq!(found("SELECT a FROM (SELECT a FROM o.t WHERE b=2)"), "O.T");
        assert_eq!(found("SELECT a FROM (SELECT a FROM o.t) x, p.u"), "O.T and P.U");
        assert_eq!(found("SELECT a FROM o.t AS x, p.u AS y"), "O.T and P.U");
        let cool = "SELECT /*+ HINT */ I3.OBJECT_ID AS \"OBJECT_ID\" FROM COOL.F1_CHANNELS C2, COOL.F1_IOVS I3 \
                    WHERE C2.CHANNEL_ID>=0 AND I3.IOV_SINCE>=COALESCE(( SELECT MAX(I1.IOV_SINCE) FROM COOL.F1_IOVS I1 \
                    WHERE I1.IOV_SINCE<=5 ),0) AND I3.X='it''s from a.b' ORDER BY 1";
        assert_eq!(found(cool), "COOL.F1_CHANNELS and COOL.F1_IOVS");
    }

    #[test]
    fn other_forms_have_no_time() {
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
            assert_eq!(found(sql), "none", "{sql}");
        }
        assert_eq!(found("SELECT a IS DISTINCT FROM b.c FROM o.t"), "O.T");
    }

    #[test]
    fn names_of_tables() {
        assert!(is_table("t") && is_table("o.t_1"));
        assert!(
            !is_table("") && !is_table("o.") && !is_table("a.b.c") && !is_table("t; x") && !is_table("\"t\"")
        );
    }

    #[test]
    fn times_are_forgotten() {
        let modified = Modified::new(3600);
        let tables = tables_of("SELECT a FROM o.t").unwrap();
        assert_eq!(modified.of(&tables), None);
        modified.remember(&tables, 7);
        assert_eq!(modified.of(&tables), Some(7));
        for number in 0..=MAX_ENTRIES {
            modified.remember(&vec![("O".into(), number.to_string())], 1);
        }
        assert!(modified.known.lock().unwrap().len() <= MAX_ENTRIES);
    }
}
