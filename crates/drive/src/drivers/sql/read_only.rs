//! Which queries may be sent a second time.

/// Words that begin a statement that only reads.
const BEGIN: [&str; 8] = [
    "select", "values", "table", "with", "show", "explain", "describe", "desc",
];
/// Words with which such a statement writes, locks, or acts on the session nevertheless, also as
/// names of functions.
const ACT: [&str; 26] = [
    "alter",
    "analyze",
    "call",
    "copy",
    "create",
    "delete",
    "do",
    "drop",
    "execute",
    "get_lock",
    "grant",
    "insert",
    "into",
    "lock",
    "merge",
    "nextval",
    "notify",
    "outfile",
    "pg_notify",
    "replace",
    "revoke",
    "set",
    "setval",
    "share",
    "truncate",
    "update",
];

/// Whether nothing in the text can change anything but what a function does that it calls.
///
/// Errs to false. Quotes and comments are not told apart from the rest: servers differ in what they
/// take for one, so that such a word makes a query one that writes wherever it stands.
pub(super) fn is_read_only(sql: &str) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let is_any = |words: &[&str], word: &str| words.iter().any(|one| one.eq_ignore_ascii_case(word));
    let begins_well = |statement: &str| {
        let statement = statement.trim_start_matches(|sign: char| sign.is_whitespace() || sign == '(');
        let end = statement.find(|sign| !is_word(sign)).unwrap_or(statement.len());
        is_any(&BEGIN, &statement[..end])
    };
    let mut statements = sql.split(';').filter(|statement| !statement.trim().is_empty());
    let mut words = sql.split(|sign| !is_word(sign));
    // What stands in such a comment is executed by one server and not by the other.
    statements.all(begins_well) && !words.any(|word| is_any(&ACT, word)) && !sql.contains("/*!")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_write_is_not_read_only() {
        for sql in [
            "SELECT 1",
            " (select a from t) union select b from u; ",
            "WITH x AS (SELECT 1) SELECT * FROM x",
            "SHOW TABLES; VALUES (1)",
            "explain SELECT updated, reset FROM t",
        ] {
            assert!(is_read_only(sql), "{sql}");
        }
        for sql in [
            "UPDATE t SET a = 1",
            "SELECT 1; UPDATE t SET a = 1",
            "BEGIN; SELECT 1; COMMIT",
            "SELECT * FROM t FOR UPDATE",
            "SELECT * FROM t LOCK IN SHARE MODE",
            "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x",
            "SELECT nextval('s')",
            "SELECT * INTO u FROM t",
            "EXPLAIN ANALYZE SELECT 1",
            "CALL p()",
            "SELECT 'a\\'; DELETE FROM t; -- '",
            "SELECT 1 /*! + f() */",
            "/* a comment */ SELECT 1",
        ] {
            assert!(!is_read_only(sql), "{sql}");
        }
    }
}
