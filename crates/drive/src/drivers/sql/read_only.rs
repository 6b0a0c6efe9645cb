//! Which queries may be sent again.

/// First words of statements that only read.
const READ_WORDS: [&str; 8] = [
    "select", "values", "table", "with", "show", "explain", "describe", "desc",
];
/// Words with which such a statement can write, lock, or change the session. Some are names of
/// functions.
const WRITE_WORDS: [&str; 26] = [
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

/// Whether a query only reads, apart from the effects of functions that it calls.
///
/// Returns false in case of doubt. Quoted texts and comments are not recognized, because servers
/// differ in their syntax: one of [`WRITE_WORDS`] anywhere in the query makes the result false.
pub(super) fn is_read_only(sql: &str) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let is_any = |words: &[&str], word: &str| words.iter().any(|known| known.eq_ignore_ascii_case(word));
    let is_read = |statement: &str| {
        let statement = statement.trim_start_matches(|sign: char| sign.is_whitespace() || sign == '(');
        let end = statement.find(|sign| !is_word(sign)).unwrap_or(statement.len());
        is_any(&READ_WORDS, &statement[..end])
    };
    let mut statements = sql.split(';').filter(|statement| !statement.trim().is_empty());
    let mut words = sql.split(|sign| !is_word(sign));
    // Some servers execute the text of a comment that begins with /*!.
    statements.all(is_read) && !words.any(|word| is_any(&WRITE_WORDS, word)) && !sql.contains("/*!")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_that_can_write_is_not_read_only() {
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
