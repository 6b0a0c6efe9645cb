//! The rules of `--map`, `--ignore` and `copies`: read from files, and applied to names.

use regex::bytes::Regex;
use serde::{Deserialize, Serialize};

use super::pattern::{Pattern, beneath, glob, regex_of, trimmed};
use super::{Copy, Reason};

/// Directories that no measured file system contains.
const SYSTEM: [&str; 3] = ["/proc", "/sys", "/dev"];

/// An invalid line of a file of rules.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("line {line}: {text:?}: {why}")]
pub struct RuleError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Text of the line.
    pub text: String,
    /// Description of the fault, and what is expected.
    pub why: String,
}

/// Names that concurrent jobs share; globs as in [`Rules::read_ignore`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Copies {
    /// Names that each job copies for itself. They have precedence over `shared`.
    pub private: Vec<String>,
    /// Names that all jobs share. A name that matches neither list is private.
    pub shared: Vec<String>,
    /// Whether jobs may change shared files.
    pub write_shared: bool,
}

/// Rules that map names of a trace to names beneath the root.
#[derive(Debug, Clone)]
pub struct Rules {
    prefixes: Vec<(Vec<u8>, Vec<u8>)>,
    regexes: Vec<(Regex, Vec<u8>)>,
    /// Patterns in order: the last match decides. None: the name is not ignored.
    ignore: Vec<(Pattern, Option<Reason>)>,
    private: Vec<Regex>,
    shared: Vec<Regex>,
    write_shared: bool,
}

impl Default for Rules {
    fn default() -> Self {
        let system = |name: &str| (Pattern::Prefix(name.into()), Some(Reason::System));
        Self {
            prefixes: Vec::new(),
            regexes: Vec::new(),
            ignore: SYSTEM.into_iter().map(system).collect(),
            private: Vec::new(),
            shared: Vec::new(),
            write_shared: false,
        }
    }
}

impl Rules {
    /// Rules without entries: absolute names are unchanged beneath the root, `/proc`, `/sys` and
    /// `/dev` are ignored, and no file is shared.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a file for `--map`: one rule per line. Blank lines and lines that begin with `#` are
    /// ignored.
    ///
    /// ```text
    /// /data => /scratch/data
    /// unknown:4711:3 => data/input
    /// regex: ^/home/[^/]+/(.*)$ => home/$1
    /// ```
    ///
    /// The first ` => ` separates name and result. The result is a path beneath the root, with or
    /// without `/` at its beginning. The first regular expression that matches determines the whole
    /// name. Otherwise the longest matching prefix of whole components is replaced. A name without
    /// a match is unchanged.
    pub fn read_map(&mut self, text: &str) -> Result<(), RuleError> {
        for (line, text) in lines(text) {
            let wrong = |why: String| RuleError {
                line,
                text: text.into(),
                why,
            };
            let Some((from, to)) = text.split_once(" => ") else {
                return Err(wrong("expected `NAME => NAME BENEATH THE ROOT`".into()));
            };
            let (from, to) = (from.trim(), to.trim().trim_start_matches('/'));
            if to.split('/').any(|part| part == "..") {
                return Err(wrong(
                    "`..` would lead out of the root: write a name without `..`".into(),
                ));
            }
            if let Some(regex) = from.strip_prefix("regex:") {
                let regex = regex_of(regex.trim()).map_err(|error| wrong(error.to_string()))?;
                self.regexes.push((regex, to.into()));
            } else if from.starts_with('/') || from.starts_with("unknown:") {
                let prefix = trimmed(from.as_bytes()).to_vec();
                self.prefixes.push((prefix, trimmed(to.as_bytes()).to_vec()));
            } else {
                return Err(wrong(
                    "expected an absolute name or `unknown:PID:FD`; for other names write `regex: ...`"
                        .into(),
                ));
            }
        }
        // Two rules for one prefix: the one that comes last, as a file that is read later is the
        // more special one.
        self.prefixes.sort_by_key(|(prefix, _)| prefix.len());
        Ok(())
    }

    /// Reads a file for `--ignore`: one pattern per line. Blank lines and lines that begin with `#`
    /// are ignored.
    ///
    /// ```text
    /// /usr/share/locale
    /// *.pyc
    /// regex: ^/home/[^/]+/\.cache/
    /// !/proc
    /// ```
    ///
    /// A pattern is a prefix of whole components, a glob (`*`, `**`, `?`, `[ab]`; a glob without
    /// `/` matches any component), or a regular expression. Prefixes and globs also match
    /// everything beneath. `!` includes names again, also those that are ignored by default. The
    /// last line that matches decides.
    pub fn read_ignore(&mut self, text: &str) -> Result<(), RuleError> {
        for (line, text) in lines(text) {
            let (pattern, reason) = match text.strip_prefix('!') {
                Some(pattern) => (pattern.trim(), None),
                None => (text, Some(Reason::Asked)),
            };
            let pattern = Pattern::read(pattern).map_err(|error| RuleError {
                line,
                text: text.into(),
                why: error.to_string(),
            })?;
            self.ignore.push((pattern, reason));
        }
        Ok(())
    }

    /// Sets the names that jobs share. The line of an error is the index of the glob in its list,
    /// from 1.
    pub fn set_copies(&mut self, copies: &Copies) -> Result<(), RuleError> {
        let compile = |globs: &[String]| {
            let compile_glob = |(index, text): (usize, &String)| {
                glob(text).map_err(|error| RuleError {
                    line: index + 1,
                    text: text.clone(),
                    why: error.to_string(),
                })
            };
            globs
                .iter()
                .enumerate()
                .map(compile_glob)
                .collect::<Result<Vec<_>, _>>()
        };
        self.private = compile(&copies.private)?;
        self.shared = compile(&copies.shared)?;
        self.write_shared = copies.write_shared;
        Ok(())
    }

    /// Whether jobs may change shared files.
    pub fn may_write_shared(&self) -> bool {
        self.write_shared
    }

    pub(super) fn ignore_reason(&self, name: &[u8]) -> Option<Reason> {
        let last = self
            .ignore
            .iter()
            .rev()
            .find(|(pattern, _)| pattern.matches(name));
        last.and_then(|&(_, reason)| reason)
    }

    pub(super) fn copy(&self, name: &[u8]) -> Copy {
        let any = |globs: &[Regex]| globs.iter().any(|glob| glob.is_match(name));
        if any(&self.shared) && !any(&self.private) {
            Copy::Shared
        } else {
            Copy::Private
        }
    }

    /// Result of the rule for a name; none if no rule applies.
    pub(super) fn mapped(&self, name: &[u8]) -> Option<Vec<u8>> {
        for (regex, to) in &self.regexes {
            if let Some(captures) = regex.captures(name) {
                let mut made = Vec::new();
                captures.expand(to, &mut made);
                return Some(made);
            }
        }
        let longest = |(prefix, to): &(Vec<u8>, Vec<u8>)| {
            // The empty prefix is `/`, which does not match relative names.
            let counts = !prefix.is_empty() || name.starts_with(b"/");
            let rest = beneath(name, prefix).filter(|_| counts)?;
            Some([to.as_slice(), rest].join(&b'/'))
        };
        self.prefixes.iter().rev().find_map(longest)
    }
}

/// Lines that are neither blank nor comments, with their numbers from 1.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}
