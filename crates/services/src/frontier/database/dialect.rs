//! Differences between the SQL of the databases: literals, parameters, the time of a table's last
//! change.

use super::super::last_modified::Tables;
use super::Failure;

mod lexer;

use lexer::{Lexer, Piece};

/// The database whose SQL is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
    Mysql,
}

impl Dialect {
    /// A string literal. The sessions are configured so that a backslash is an ordinary character
    /// in `PostgreSQL` and an escape character in `MariaDB`.
    pub(crate) fn literal(self, text: &str) -> String {
        let doubled = text.replace('\'', "''");
        match self {
            Self::Sqlite | Self::Postgres => format!("'{doubled}'"),
            Self::Mysql => format!("'{}'", doubled.replace('\\', "\\\\")),
        }
    }

    /// The text to send to a server for a client's query: one statement that reads, with the values
    /// in place of its `?`.
    ///
    /// A semicolon is accepted only at the end and inside plain quotations. Inside quotations it is
    /// accepted only if the text contains no escape, comment or dollar sign: with these, the server
    /// may see the end of a quotation at another position than this lexer.
    pub(crate) fn statement(self, sql: &str, values: &[&str]) -> Result<String, Failure> {
        self.check_single_read(sql)?;
        self.check_forbidden(sql)?;
        if values.is_empty() {
            return Ok(sql.to_owned());
        }
        let mut text = String::with_capacity(sql.len() + 64);
        let mut unused = values.iter();
        for piece in Lexer::new(self, sql) {
            match piece {
                Piece::Space(part) | Piece::Comment(part) | Piece::Word(part) | Piece::Other(part) => {
                    text.push_str(part);
                }
                Piece::Parameter => match unused.next() {
                    Some(value) => text.push_str(&self.literal(value)),
                    None => return Err(Failure::database("the query has more ? than values")),
                },
                Piece::End | Piece::Unclosed => {}
            }
        }
        match unused.next() {
            Some(_) => Err(Failure::database("the query has fewer ? than values")),
            None => Ok(text),
        }
    }

    /// Prefixes a query with the statement that makes its transaction read-only. Functions of
    /// `PostgreSQL` can change the settings of a session, also for later queries, and it is hardly
    /// possible to list all of them. The setting of a transaction cannot be changed after its first
    /// read. It costs gateway and server 15 us together.
    pub(crate) fn read_only(self, text: String) -> String {
        match self {
            Self::Postgres => "SET TRANSACTION READ ONLY; ".to_owned() + &text,
            Self::Sqlite | Self::Mysql => text,
        }
    }

    /// All words of a text that may be the name of a table, in lower case and in order: words and
    /// quotations outside literals and comments. `None` if the text may contain further names.
    pub(crate) fn names(self, sql: &str) -> Option<Vec<String>> {
        // A name written as code points.
        if self == Self::Postgres && sql.to_ascii_lowercase().contains("u&\"") {
            return None;
        }
        let mut names = Vec::new();
        for piece in Lexer::new(self, sql) {
            match piece {
                Piece::Word(word) => names.push(word.to_lowercase()),
                Piece::Unclosed => return None,
                Piece::Other(quotation) => {
                    let inner = |mark: char| quotation.strip_prefix(mark)?.strip_suffix(mark);
                    let name =
                        |mark: char| Some(inner(mark)?.replace(&format!("{mark}{mark}"), &mark.to_string()));
                    // In MariaDB, double quotation marks enclose a literal, unless sql_mode
                    // contains ANSI_QUOTES.
                    names.extend(name('"').or_else(|| name('`')).map(|name| name.to_lowercase()));
                }
                Piece::Space(_) | Piece::Comment(_) | Piece::Parameter | Piece::End => {}
            }
        }
        Some(names)
    }

    /// The words, quotations and other characters of a single statement, without spaces and
    /// comments. `None` if it has a parameter, a semicolon, or a quotation without an end.
    pub(crate) fn tokens(self, sql: &str) -> Option<Vec<&str>> {
        let mut tokens = Vec::new();
        for piece in Lexer::new(self, sql) {
            match piece {
                Piece::Space(_) | Piece::Comment(_) => {}
                Piece::Word(token) | Piece::Other(token) => tokens.push(token),
                Piece::Parameter | Piece::End | Piece::Unclosed => return None,
            }
        }
        Some(tokens)
    }

    /// Accepts a single statement that reads.
    fn check_single_read(self, sql: &str) -> Result<(), Failure> {
        let several = || Failure::refused("Query cancelled: it has several statements");
        let inner = sql.trim_end_matches(|c: char| c == ';' || c.is_ascii_whitespace());
        let ambiguous = ["\\", "$", "#", "--", "/*"];
        if inner.contains(';') && ambiguous.iter().any(|mark| inner.contains(mark)) {
            return Err(several());
        }
        let mut first_word = "";
        for piece in Lexer::new(self, inner) {
            match piece {
                Piece::End => return Err(several()),
                Piece::Unclosed => {
                    let why = "Query cancelled: a quotation or comment has no end";
                    return Err(Failure::refused(why));
                }
                // A SELECT may be preceded by an opening parenthesis.
                Piece::Word(word) | Piece::Other(word) if first_word.is_empty() && word != "(" => {
                    first_word = word;
                }
                _ => {}
            }
        }
        if is_read(first_word) {
            return Ok(());
        }
        let why = "Query cancelled: only SELECT, WITH, VALUES, TABLE, SHOW and EXPLAIN are allowed";
        Err(Failure::refused(why))
    }

    /// Rejects words with which a SELECT in a read-only session could write files or change the
    /// settings of the session.
    fn check_forbidden(self, text: &str) -> Result<(), Failure> {
        let words: &[&str] = match self {
            Self::Mysql => &["outfile", "dumpfile"],
            Self::Postgres => &["set_config"],
            Self::Sqlite => &[],
        };
        let lower = text.to_ascii_lowercase();
        match words.iter().find(|word| lower.contains(*word)) {
            Some(word) => Err(Failure::refused(&format!(
                "Query cancelled: {word} is not allowed"
            ))),
            None => Ok(()),
        }
    }

    /// A query for the time of the last change of any of these tables, in whole seconds since 1970.
    /// Its result is NULL if one of them is unknown. `change_table` is the table that contains the
    /// times.
    ///
    /// The servlet uses the greatest text of the form month/day/year, which is wrong across years.
    /// This query returns the latest time.
    pub(crate) fn changed(self, tables: &Tables, change_table: Option<&str>) -> String {
        let query = |(owner, name): &(String, String)| {
            let (owner, name) = (self.literal(owner), self.literal(name));
            match change_table {
                Some(change_table) => format!(
                    "SELECT (SELECT max({}) FROM {change_table} WHERE upper(table_owner) = {owner} AND upper(table_name) = \
                     {name}) AS t",
                    self.seconds()
                ),
                None => format!(
                    "SELECT (SELECT max(unix_timestamp(update_time)) FROM information_schema.tables WHERE \
                     upper(table_schema) = {owner} AND upper(table_name) = {name}) AS t"
                ),
            }
        };
        let queries: Vec<String> = tables.iter().map(query).collect();
        format!(
            "SELECT CASE WHEN count(*) = count(t) THEN max(t) END FROM ({}) AS changes",
            queries.join(" UNION ALL ")
        )
    }

    /// The expression for `change_time` in seconds since 1970. A time without a time zone is in
    /// UTC.
    fn seconds(self) -> &'static str {
        match self {
            // A number is in seconds. A text has a format of SQLite's date functions.
            Self::Sqlite => {
                "CAST(CASE typeof(change_time) WHEN 'text' THEN strftime('%s', change_time) ELSE change_time END AS \
                 INTEGER)"
            }
            Self::Postgres => "floor(extract(epoch from change_time))::int8",
            Self::Mysql => "timestampdiff(second, '1970-01-01', change_time)",
        }
    }
}

/// Whether a statement with this first word only reads and has a result.
fn is_read(word: &str) -> bool {
    ["select", "with", "values", "table", "show", "explain"]
        .iter()
        .any(|known| word.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(dialect: Dialect, sql: &str) -> String {
        match dialect.statement(sql, &[]) {
            Err(Failure::Refused(why) | Failure::Database(why)) => why,
            Ok(text) => panic!("{sql} was accepted: {text}"),
        }
    }

    #[test]
    fn values_become_literals() {
        let bound = |dialect: Dialect, sql, values: &[&str]| dialect.statement(sql, values);
        let sql = "SELECT '?', \"?\", /* ? */ a -- ?\n FROM t WHERE b=? AND c = ?";
        let expected = "SELECT '?', \"?\", /* ? */ a -- ?\n FROM t WHERE b='o''brien' AND c = 'x\\y'";
        assert_eq!(
            bound(Dialect::Postgres, sql, &["o'brien", "x\\y"]).as_deref(),
            Ok(expected)
        );
        let expected = "SELECT '?', \"?\", /* ? */ a -- ?\n FROM t WHERE b='\\\\'' OR 1=1 -- ' AND c = ''";
        assert_eq!(
            bound(Dialect::Mysql, sql, &["\\' OR 1=1 -- ", ""]).as_deref(),
            Ok(expected)
        );
        assert!(bound(Dialect::Mysql, "SELECT ?, ?", &["1"]).is_err());
        assert!(bound(Dialect::Mysql, "SELECT ?", &["1", "2"]).is_err());
        assert_eq!(
            bound(Dialect::Postgres, "SELECT a ? 'k'", &[]).as_deref(),
            Ok("SELECT a ? 'k'")
        );
    }

    #[test]
    fn only_a_single_statement_that_reads_is_accepted() {
        for sql in [
            "SELECT 1",
            "  select 1 ; \n",
            "(SELECT 1) UNION (SELECT 2)",
            "WITH a AS (SELECT ';') SELECT * FROM a",
            "/* x */ SELECT 1 -- x",
            "SELECT ';', \";\" ;",
            "EXPLAIN SELECT 1",
        ] {
            for dialect in [Dialect::Postgres, Dialect::Mysql] {
                assert!(dialect.statement(sql, &[]).is_ok(), "{sql}");
            }
        }
        for sql in [
            "",
            ";",
            "UPDATE t SET a=1",
            "SET x = 1",
            "COMMIT",
            "COPY t TO STDOUT",
            "'x'",
            "1",
        ] {
            for dialect in [Dialect::Postgres, Dialect::Mysql] {
                assert!(refused(dialect, sql).contains("only SELECT"), "{sql}");
            }
        }
        for sql in ["SELECT 1; SELECT 2", "SELECT 1;; COMMIT", "SELECT ''';'; SET x=1"] {
            for dialect in [Dialect::Postgres, Dialect::Mysql] {
                assert!(refused(dialect, sql).contains("several"), "{sql}");
            }
        }
    }

    /// Each of these is two statements for a server whose rules for quotations and comments differ
    /// from those of this lexer.
    #[test]
    fn a_second_statement_hidden_in_a_quotation_is_refused() {
        for sql in [
            "SELECT '\\'; SET x=1; --'",
            "SELECT E'\\''; SET x=1",
            "SELECT 1e'\\''; SET x=1 --'",
            "SELECT $a$ ' $a$; SET x=1; SELECT $a$ ' $a$",
            "SELECT $\u{2192}$ ' $\u{2192}$; SET x=1; SELECT $\u{2192}$ ' $\u{2192}$",
            "SELECT 1 # ' \n ; SET x=1 # '",
            "SELECT /* /* */ ; SET x=1 */",
            "SELECT 1 /*! ; SET x=1 */",
            "SELECT 1 --' \n; SET x=1 --'",
        ] {
            for dialect in [Dialect::Postgres, Dialect::Mysql] {
                assert!(refused(dialect, sql).contains("several"), "{sql}");
            }
        }
        for sql in ["SELECT 'a", "SELECT \"a", "SELECT /* a", "SELECT $$ a"] {
            assert!(refused(Dialect::Postgres, sql).contains("no end"), "{sql}");
        }
    }

    #[test]
    fn quotations_follow_the_rules_of_the_server() {
        let bound = |dialect: Dialect, sql: &str| dialect.statement(sql, &["v"]).unwrap();
        assert_eq!(bound(Dialect::Postgres, "SELECT '\\', ?"), "SELECT '\\', 'v'");
        assert_eq!(
            bound(Dialect::Postgres, "SELECT E'\\'?', ?"),
            "SELECT E'\\'?', 'v'"
        );
        assert_eq!(bound(Dialect::Mysql, "SELECT '\\'?', ?"), "SELECT '\\'?', 'v'");
        assert_eq!(bound(Dialect::Mysql, "SELECT `?`, ?"), "SELECT `?`, 'v'");
        assert_eq!(
            bound(Dialect::Postgres, "SELECT $a$?$a$, ?"),
            "SELECT $a$?$a$, 'v'"
        );
        assert_eq!(
            bound(Dialect::Postgres, "SELECT a$b$, ?, c$b$"),
            "SELECT a$b$, 'v', c$b$"
        );
        assert_eq!(
            bound(Dialect::Postgres, "SELECT /* /* */ ? */ ?"),
            "SELECT /* /* */ ? */ 'v'"
        );
        assert_eq!(
            bound(Dialect::Mysql, "SELECT /* /* ? */ ?"),
            "SELECT /* /* ? */ 'v'"
        );
        assert_eq!(bound(Dialect::Mysql, "SELECT 1--1, ?"), "SELECT 1--1, 'v'");
    }

    #[test]
    fn names_are_outside_literals_and_comments() {
        let names = |dialect: Dialect, sql: &str| dialect.names(sql).map(|names| names.join(" "));
        let sql = "SELECT A.\"b\"\"C\", 'd' /* e */ FROM s.T -- f\n JOIN \"Ü\" WHERE x=1";
        let expected = "select a b\"c from s t join ü where x 1";
        assert_eq!(names(Dialect::Postgres, sql).as_deref(), Some(expected));
        assert_eq!(
            names(Dialect::Mysql, "SELECT `a``B`.c /*! FROM d */ # e\n").as_deref(),
            Some("select a`b c from d")
        );
        assert_eq!(
            names(Dialect::Postgres, "SELECT $$ a $$, E'\\' b', c").as_deref(),
            Some("select e c")
        );
        assert_eq!(names(Dialect::Postgres, "SELECT U&\"\\0061\""), None);
        assert_eq!(names(Dialect::Mysql, "SELECT 'a"), None);
    }

    #[test]
    fn a_select_that_writes_a_file_or_changes_a_setting_is_refused() {
        assert!(refused(Dialect::Mysql, "SELECT 1 INTO OUTFILE '/tmp/x'").contains("outfile"));
        assert!(refused(Dialect::Postgres, "SELECT Set_Config('x','y',false)").contains("set_config"));
    }
}
