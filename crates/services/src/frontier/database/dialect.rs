//! Where the databases' SQL differs: literals, values bound into a text, the time of a table's last
//! change.

use super::super::modified::Tables;
use super::Failure;

mod lexer;

use lexer::{Lexer, Piece};

/// Whose SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
    Mysql,
}

impl Dialect {
    /// A string literal. `PostgreSQL` is told to take backslashes as they are, and `MariaDB` not
    /// to.
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
    /// A semicolon is taken at the end and inside plain quotations only, and there only where
    /// nothing in the text (an escape, a comment, a dollar) could make the server see the end of a
    /// quotation elsewhere than we do.
    pub(crate) fn statement(self, sql: &str, values: &[&str]) -> Result<String, Failure> {
        self.is_one_question(sql)?;
        self.forbidden(sql)?;
        if values.is_empty() {
            return Ok(sql.to_owned());
        }
        let mut text = String::with_capacity(sql.len() + 64);
        let mut left = values.iter();
        for piece in Lexer::new(self, sql) {
            match piece {
                Piece::Space(part) | Piece::Comment(part) | Piece::Word(part) | Piece::Other(part) => {
                    text.push_str(part);
                }
                Piece::Parameter => match left.next() {
                    Some(value) => text.push_str(&self.literal(value)),
                    None => return Err(Failure::database("there are fewer values than ?")),
                },
                Piece::End | Piece::Unclosed => {}
            }
        }
        match left.next() {
            Some(_) => Err(Failure::database("there are more values than ?")),
            None => Ok(text),
        }
    }

    /// Puts before a question what makes its very transaction read-only. `PostgreSQL`'s functions
    /// can change the settings of a session, for later queries too, and can hardly be found all;
    /// the transaction's own cannot be changed once it has begun to read. It costs gateway and
    /// server 15 us together.
    pub(crate) fn read_only(self, text: String) -> String {
        match self {
            Self::Postgres => "SET TRANSACTION READ ONLY; ".to_owned() + &text,
            Self::Sqlite | Self::Mysql => text,
        }
    }

    /// What could be the name of a table in a text, in lower case and in order: words and
    /// quotations outside of literals and comments. `None` where one may be hidden.
    pub(crate) fn names(self, sql: &str) -> Option<Vec<String>> {
        // A name by the numbers of its letters.
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
                    // MariaDB takes the first for a literal, unless it is told otherwise.
                    names.extend(name('"').or_else(|| name('`')).map(|name| name.to_lowercase()));
                }
                Piece::Space(_) | Piece::Comment(_) | Piece::Parameter | Piece::End => {}
            }
        }
        Some(names)
    }

    fn is_one_question(self, sql: &str) -> Result<(), Failure> {
        let several = || Failure::refused("Query cancelled: it has several statements");
        let inner = sql.trim_end_matches(|c: char| c == ';' || c.is_ascii_whitespace());
        let doubtful = ["\\", "$", "#", "--", "/*"];
        if inner.contains(';') && doubtful.iter().any(|mark| inner.contains(mark)) {
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
                // An opening parenthesis may stand before a SELECT.
                Piece::Word(word) | Piece::Other(word) if first_word.is_empty() && word != "(" => {
                    first_word = word;
                }
                _ => {}
            }
        }
        if reads(first_word) {
            return Ok(());
        }
        let why = "Query cancelled: only SELECT, WITH, VALUES, TABLE, SHOW and EXPLAIN are answered";
        Err(Failure::refused(why))
    }

    /// What a read-only session could still be made to do by a SELECT: write files, or stop being
    /// what others rely on.
    fn forbidden(self, text: &str) -> Result<(), Failure> {
        let words: &[&str] = match self {
            Self::Mysql => &["outfile", "dumpfile"],
            Self::Postgres => &["set_config"],
            Self::Sqlite => &[],
        };
        let lower = text.to_ascii_lowercase();
        match words.iter().find(|word| lower.contains(*word)) {
            Some(word) => Err(Failure::refused(&format!("Query cancelled: {word}"))),
            None => Ok(()),
        }
    }

    /// A query for the time of the last change of any of these tables, in whole seconds since 1970;
    /// NULL if one of them is not known. `book` is the table that says it.
    ///
    /// The servlet takes the greatest text of the form month/day/year, which is wrong across years:
    /// this takes the latest time.
    pub(crate) fn changed(self, tables: &Tables, book: Option<&str>) -> String {
        let one = |(owner, name): &(String, String)| {
            let (owner, name) = (self.literal(owner), self.literal(name));
            match book {
                Some(book) => format!(
                    "SELECT (SELECT max({}) FROM {book} WHERE upper(table_owner) = {owner} AND upper(table_name) = \
                     {name}) AS t",
                    self.seconds()
                ),
                None => format!(
                    "SELECT (SELECT max(unix_timestamp(update_time)) FROM information_schema.tables WHERE \
                     upper(table_schema) = {owner} AND upper(table_name) = {name}) AS t"
                ),
            }
        };
        let all: Vec<String> = tables.iter().map(one).collect();
        format!(
            "SELECT CASE WHEN count(*) = count(t) THEN max(t) END FROM ({}) AS changes",
            all.join(" UNION ALL ")
        )
    }

    /// `change_time` in seconds since 1970. A time without a zone is UTC.
    fn seconds(self) -> &'static str {
        match self {
            // A number is seconds already; a text is what SQLite's functions take.
            Self::Sqlite => {
                "CAST(CASE typeof(change_time) WHEN 'text' THEN strftime('%s', change_time) ELSE change_time END AS \
                 INTEGER)"
            }
            Self::Postgres => "floor(extract(epoch from change_time))::int8",
            Self::Mysql => "timestampdiff(second, '1970-01-01', change_time)",
        }
    }
}

/// First words of statements that have a result and change nothing.
fn reads(word: &str) -> bool {
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
            Ok(text) => panic!("{sql} was taken: {text}"),
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
    fn one_statement_that_reads() {
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

    /// Each of these is two statements to a server that reads its quotations and comments otherwise
    /// than we do.
    #[test]
    fn statements_do_not_hide_in_quotations() {
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
    fn quotations_are_the_servers() {
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
    fn names_stand_outside_of_literals_and_comments() {
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
    fn what_a_select_could_still_do() {
        assert!(refused(Dialect::Mysql, "SELECT 1 INTO OUTFILE '/tmp/x'").contains("outfile"));
        assert!(refused(Dialect::Postgres, "SELECT Set_Config('x','y',false)").contains("set_config"));
    }
}
