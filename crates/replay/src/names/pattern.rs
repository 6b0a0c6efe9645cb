//! Patterns for names: a prefix, a glob, or a regular expression.

use regex::Error;
use regex::bytes::Regex;

/// A pattern that matches names and everything beneath them.
#[derive(Debug, Clone)]
pub(super) enum Pattern {
    /// A prefix of whole components: `/a` matches `/a` and `/a/b`, not `/ab`.
    Prefix(Vec<u8>),
    Regex(Regex),
}

impl Pattern {
    /// Parses a pattern: `regex: ...`, a glob if it contains one of `*?[`, otherwise a prefix.
    pub(super) fn read(text: &str) -> Result<Self, Error> {
        if let Some(regex) = text.strip_prefix("regex:") {
            return regex_of(regex.trim()).map(Self::Regex);
        }
        if text.contains(['*', '?', '[']) {
            return glob(text).map(Self::Regex);
        }
        Ok(Self::Prefix(trimmed(text.as_bytes()).to_vec()))
    }

    pub(super) fn matches(&self, name: &[u8]) -> bool {
        match self {
            Self::Prefix(prefix) => beneath(name, prefix).is_some(),
            Self::Regex(regex) => regex.is_match(name),
        }
    }
}

/// A glob that matches a whole name, or a directory above it. A glob without `/` matches any
/// component.
///
/// `*` matches any characters except `/`, `**` any characters, `?` one character except `/`, `[ab]`
/// one of the characters, and `[!ab]` a character that is not one of them.
pub(super) fn glob(text: &str) -> Result<Regex, Error> {
    let mut regex = String::from(if text.contains('/') { "^" } else { "(?:^|/)" });
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            '*' if rest.next_if_eq(&'*').is_some() => regex.push_str(".*"),
            '*' => regex.push_str("[^/]*"),
            '?' => regex.push_str("[^/]"),
            '[' => {
                let inner: String = rest.by_ref().take_while(|&letter| letter != ']').collect();
                let (not, letters) = match inner.strip_prefix('!') {
                    Some(letters) => ("^/", letters),
                    None => ("", inner.as_str()),
                };
                let letters = letters
                    .replace('\\', r"\\")
                    .replace('[', r"\[")
                    .replace('^', r"\^");
                regex.extend(["[", not, &letters, "]"]);
            }
            letter => regex.push_str(&regex::escape(letter.encode_utf8(&mut [0; 4]))),
        }
    }
    regex.push_str("(?:/|$)");
    regex_of(&regex)
}

/// A regular expression on bytes, because names need not be UTF-8. `.` matches any byte.
pub(super) fn regex_of(text: &str) -> Result<Regex, Error> {
    Regex::new(&format!("(?s-u){text}")).or_else(|_| Regex::new(&format!("(?s){text}")))
}

/// Rest of a name after a prefix of whole components, without its `/`.
pub(super) fn beneath<'a>(name: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let rest = name.strip_prefix(prefix)?;
    match rest {
        [] => Some(rest),
        [b'/', rest @ ..] => Some(rest),
        _ if prefix.is_empty() => Some(rest),
        _ => None,
    }
}

/// A prefix without `/` at its end. `/` becomes empty, the prefix of all absolute names.
pub(super) fn trimmed(prefix: &[u8]) -> &[u8] {
    let end = prefix
        .iter()
        .rposition(|&byte| byte != b'/')
        .map_or(0, |last| last + 1);
    &prefix[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_names_and_everything_beneath_them() {
        let cases: [(&str, &str, bool); 17] = [
            ("/proc", "/proc", true),
            ("/proc", "/proc/self/stat", true),
            ("/proc/", "/proc/self/stat", true),
            ("/proc", "/process", false),
            ("*.pyc", "/a/b.pyc", true),
            ("*.pyc", "/a/b.pyc/c", true),
            ("*.pyc", "/a/b.pycx", false),
            ("/home/*/x", "/home/me/x", true),
            ("/home/*/x", "/home/me/a/x", false),
            ("/home/**/x", "/home/me/a/x", true),
            ("/lib?", "/lib6", true),
            ("/lib?", "/lib", false),
            ("/lib[67]", "/lib6/a", true),
            ("/lib[!67]", "/lib6", false),
            ("/a+(b)*", "/a+(b)c", true),
            ("regex: ^/tmp/[0-9]+$", "/tmp/12", true),
            ("regex: ^/tmp/[0-9]+$", "/tmp/12/a", false),
        ];
        for (pattern, name, matches) in cases {
            let result = Pattern::read(pattern).unwrap().matches(name.as_bytes());
            assert_eq!(result, matches, "{pattern} on {name}");
        }
        assert!(Pattern::read("regex: (").is_err());
        let star = Pattern::read("/a/*").unwrap();
        assert!(star.matches(b"/a/\xff\xfe"), "names need not be UTF-8");
    }
}
