//! Determines from the text of a query that its response depends only on rows of one table whose
//! key is in a range.
//!
//! The query must have the form `SELECT ... FROM table [alias] WHERE a AND b ...` with one SELECT,
//! and at least one condition `key = 5`, `key > 5` and so on with a constant of integers, `+`, `-`
//! and `*`. A row outside the range then cannot be in the response. Every other condition can only
//! exclude further rows, so it need not be understood. A text in which this module could mistake
//! the part of another construct for a condition (OR, CASE, BETWEEN) is not accepted: the response
//! then depends on the whole table.

use super::dependents::KeyRange;

/// Words with which a query may read other rows, or in which AND does not join two conditions.
const UNSUITABLE: [&str; 14] = [
    "or",
    "case",
    "between",
    "union",
    "intersect",
    "except",
    "join",
    "with",
    "lateral",
    "table",
    "values",
    "into",
    "tablesample",
    "only",
];
/// Words that end the conditions.
const CLAUSES: [&str; 8] = [
    "group", "having", "window", "order", "limit", "offset", "fetch", "for",
];

/// The table of a query, and the conditions for its rows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Conditions<'a> {
    /// Name of the table without its schema, in lower case.
    pub(super) table: String,
    /// The conditions, each as its tokens.
    conditions: Vec<Vec<&'a str>>,
}

impl<'a> Conditions<'a> {
    /// Reads a query from its tokens without spaces and comments. None if it does not have the
    /// required form.
    pub(super) fn read(tokens: &[&'a str]) -> Option<Self> {
        let words: Vec<String> = tokens.iter().map(|token| token.to_ascii_lowercase()).collect();
        let is_unsuitable = |word: &String| UNSUITABLE.contains(&word.as_str());
        if words.iter().any(is_unsuitable)
            || words.first()? != "select"
            || words.iter().filter(|word| *word == "select").count() != 1
        {
            return None;
        }
        let depths = depths(tokens)?;
        let outside = |index: &usize| depths[*index] == 0;
        let position = |word: &str, from: usize| {
            let mut indices = (from..words.len()).filter(outside);
            indices.find(|index| words[*index] == word)
        };
        let from = position("from", 0)?;
        let start = position("where", from)?;
        let table = table(&words[from + 1..start])?;
        let end = (start..words.len())
            .filter(outside)
            .find(|index| CLAUSES.contains(&words[*index].as_str()))
            .unwrap_or(words.len());
        if position("where", start + 1).is_some() {
            return None;
        }
        let mut conditions = vec![Vec::new()];
        for index in start + 1..end {
            if depths[index] == 0 && words[index] == "and" {
                conditions.push(Vec::new());
            } else if let Some(condition) = conditions.last_mut() {
                condition.push(tokens[index]);
            }
        }
        Some(Self { table, conditions })
    }

    /// The range of the column `key`, a name in lower case. None if no condition limits it.
    pub(super) fn range(&self, key: &str) -> Option<KeyRange> {
        let limits = self
            .conditions
            .iter()
            .filter_map(|condition| limit(condition, key));
        limits.reduce(|one, other| KeyRange {
            first: one.first.max(other.first),
            last: one.last.min(other.last),
        })
    }
}

/// The depth of each token in brackets. None if a bracket is missing.
fn depths(tokens: &[&str]) -> Option<Vec<u32>> {
    let mut depth = 0_u32;
    let mut depths = Vec::with_capacity(tokens.len());
    for token in tokens {
        match *token {
            "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.checked_sub(1)?,
            _ => {}
        }
        // A closing bracket is within its brackets.
        depths.push(depth + u32::from(matches!(*token, ")" | "]")));
    }
    (depth == 0).then_some(depths)
}

/// The table in the tokens between FROM and WHERE: `[schema.]table [[AS] alias]`.
fn table(words: &[String]) -> Option<String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ([name] | [name, _] | [name, "as", _] | [_, ".", name] | [_, ".", name, _] | [_, ".", name, "as", _]) =
        words[..]
    else {
        return None;
    };
    words
        .iter()
        .all(|word| *word == "." || is_name(word))
        .then(|| name.to_owned())
}

fn is_name(word: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    word.bytes().all(is_part) && word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// The range to which one condition limits the key: `[qualifier.]key OPERATOR constant`.
fn limit(condition: &[&str], key: &str) -> Option<KeyRange> {
    let is_key = |word: &&str| is_name(word) && word.to_ascii_lowercase() == key;
    let rest = match condition {
        [qualifier, ".", column, rest @ ..] if is_name(qualifier) && is_key(column) => rest,
        [column, rest @ ..] if is_key(column) => rest,
        _ => return None,
    };
    let all = KeyRange::ALL;
    Some(match rest {
        ["=", value @ ..] => {
            let value = constant(value)?;
            KeyRange {
                first: value,
                last: value,
            }
        }
        [">", "=", value @ ..] => KeyRange {
            first: constant(value)?,
            ..all
        },
        ["<", "=", value @ ..] => KeyRange {
            last: constant(value)?,
            ..all
        },
        [">", value @ ..] => KeyRange {
            first: constant(value)?.checked_add(1)?,
            ..all
        },
        ["<", value @ ..] => KeyRange {
            last: constant(value)?.checked_sub(1)?,
            ..all
        },
        _ => return None,
    })
}

/// The value of integers with `+`, `-` and `*`. None for everything else.
fn constant(tokens: &[&str]) -> Option<i64> {
    let (mut sum, mut sign, mut product) = (0_i64, 1_i64, None);
    for (index, token) in tokens.iter().enumerate() {
        if index % 2 == 0 {
            let is_number = token.bytes().all(|byte| byte.is_ascii_digit());
            let number: i64 = is_number.then(|| token.parse().ok())??;
            product = Some(product.unwrap_or(1_i64).checked_mul(number)?);
        } else if *token != "*" {
            sum = sum.checked_add(sign.checked_mul(product.take()?)?)?;
            sign = match *token {
                "+" => 1,
                "-" => -1,
                _ => return None,
            };
        } else if index + 1 == tokens.len() {
            return None;
        }
    }
    sum.checked_add(sign.checked_mul(product?)?)
}

#[cfg(test)]
mod tests {
    use super::super::super::database::Dialect;
    use super::*;

    fn range(sql: &str) -> Option<(String, i64, i64)> {
        let tokens = Dialect::Postgres.tokens(sql)?;
        let conditions = Conditions::read(&tokens)?;
        let range = conditions.range("id")?;
        Some((conditions.table, range.first, range.last))
    }

    #[test]
    fn conditions_limit_the_key() {
        let (min, max) = (i64::MIN, i64::MAX);
        for (sql, table, first, last) in [
            ("SELECT text FROM one WHERE id = 5", "one", 5, 5),
            ("select * from S.One as o where o.ID=5 limit 1", "one", 5, 5),
            (
                "SELECT a FROM t x WHERE x.id > 7*100 AND id<=7*100+100 ORDER BY a",
                "t",
                701,
                800,
            ),
            ("SELECT a FROM t WHERE id >= 10-2*3 AND id < 9", "t", 4, 8),
            (
                "SELECT a FROM t WHERE (a = 1 AND b = 2) AND id=3 FOR SHARE",
                "t",
                3,
                3,
            ),
            (
                "SELECT count(*) FROM t WHERE NOT a AND id=3 GROUP BY b HAVING id = 4 AND id = 5",
                "t",
                3,
                3,
            ),
            (
                "SELECT extract(year FROM a) FROM t WHERE a IS DISTINCT FROM b AND id = 1",
                "t",
                1,
                1,
            ),
            ("SELECT a FROM t WHERE id = 1 AND id = 2", "t", 2, 1),
            (
                "SELECT a /* x */ FROM t WHERE id = 007 AND 'or' <> a -- or",
                "t",
                7,
                7,
            ),
            ("SELECT a FROM t WHERE id > 1 AND id = other", "t", 2, max),
            ("SELECT a FROM t WHERE id < 1", "t", min, 0),
        ] {
            assert_eq!(range(sql), Some((table.to_owned(), first, last)), "{sql}");
        }
    }

    /// These read other rows, or this module cannot exclude it.
    #[test]
    fn every_other_query_depends_on_the_whole_table() {
        for sql in [
            "SELECT a FROM t",
            "SELECT a FROM t WHERE a = 5",
            "SELECT a FROM t WHERE id = 5 OR a = 1",
            "SELECT a FROM t WHERE (id = 5)",
            "SELECT a FROM t WHERE NOT id = 5",
            "SELECT a FROM t WHERE id <> 5",
            "SELECT a FROM t WHERE id = 5.0",
            "SELECT a FROM t WHERE id = '5'",
            "SELECT a FROM t WHERE id = 5::int",
            "SELECT a FROM t WHERE id = 5 IS NULL",
            "SELECT a FROM t WHERE id = 5 % 2",
            "SELECT a FROM t WHERE id = 10 / 3",
            "SELECT a FROM t WHERE id = 5 *",
            "SELECT a FROM t WHERE id = - 5",
            "SELECT a FROM t WHERE id =",
            "SELECT a FROM t WHERE id = ?",
            "SELECT a FROM t WHERE id = 99999999999999999999",
            "SELECT a FROM t WHERE id = 9223372036854775807 + 1",
            "SELECT a FROM t WHERE id > 9223372036854775807",
            "SELECT a FROM t WHERE id = 1e2",
            "SELECT a FROM t WHERE id = 0x10",
            "SELECT a FROM t WHERE (t).id = 5",
            "SELECT a FROM t WHERE \"id\" = 5",
            "SELECT a FROM t WHERE s.t.id = 5",
            "SELECT a FROM t WHERE a BETWEEN 1 AND id = 5",
            "SELECT a FROM t WHERE CASE WHEN a AND id = 5 AND b THEN c END",
            "SELECT a FROM t WHERE a = ARRAY[b AND id = 5 AND c]",
            "SELECT a FROM t, u WHERE id = 5",
            "SELECT a FROM t JOIN u ON true WHERE id = 5",
            "SELECT a FROM t WHERE id = 5 AND a IN (SELECT b FROM t)",
            "SELECT a FROM t WHERE id = 5 AND a IN (TABLE t)",
            "SELECT a, (SELECT max(id) FROM t) FROM t WHERE id = 5",
            "SELECT a FROM t WHERE id = 5 UNION SELECT a FROM t",
            "WITH x AS (SELECT 1) SELECT a FROM t WHERE id = 5",
            "SELECT a FROM ONLY t WHERE id = 5",
            "SELECT a FROM t TABLESAMPLE SYSTEM (1) WHERE id = 5",
            "SELECT a FROM f(1) WHERE id = 5",
            "SELECT a FROM (t) WHERE id = 5",
            "SELECT a FROM \"t\" WHERE id = 5",
            "SELECT a IS DISTINCT FROM b FROM t WHERE id = 5",
            "SELECT sum(a) FILTER (WHERE id = 5) FROM t",
            "SELECT a FROM t WHERE b) AND id = 5",
            "EXPLAIN SELECT a FROM t WHERE id = 5",
            "SELECT a FROM t WHERE b = 1; SELECT 2 AND id = 5",
            "VALUES (1)",
            "",
        ] {
            assert_eq!(range(sql), None, "{sql}");
        }
    }
}
