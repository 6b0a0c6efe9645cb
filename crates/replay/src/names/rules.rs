//! `--map`, `--ignore` and `copies`: read from files, and applied to a name.

use regex::bytes::Regex;
use serde::{Deserialize, Serialize};

use super::pattern::{Pattern, beneath, glob, regex_of, trimmed};
use super::{Copy, Reason};

/// What no file system to be measured has.
const SYSTEM: [&str; 3] = ["/proc", "/sys", "/dev"];

/// A line that makes no sense.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("line {line}: {text:?}: {why}")]
pub struct RuleError {
    /// From 1.
    pub line: usize,
    /// What it says.
    pub text: String,
    /// What is wrong with it, and what would be right.
    pub why: String,
}

/// Which names concurrent jobs have in common; globs as in [`Rules::read_ignore`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Copies {
    /// Names of which each job has its own. They win over `shared`.
    pub private: Vec<String>,
    /// Names that all jobs use together. What matches neither is private.
    pub shared: Vec<String>,
    /// Jobs may change what they share.
    pub write_shared: bool,
}

/// How names of a trace become names beneath the root.
#[derive(Debug, Clone)]
pub struct Rules {
    prefixes: Vec<(Vec<u8>, Vec<u8>)>,
    regexes: Vec<(Regex, Vec<u8>)>,
    /// In their order: the last one that matches decides; none: it is not ignored.
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
    /// Absolute names lie beneath the root as they are, `/proc`, `/sys` and `/dev` are ignored, and
    /// nothing is shared.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a file for `--map`: a rule a line, blank lines and those that begin with `#` left out.
    ///
    /// ```text
    /// /data => /scratch/data
    /// unknown:4711:3 => data/input
    /// regex: ^/home/[^/]+/(.*)$ => home/$1
    /// ```
    ///
    /// A rule ends at its first ` => `; what stands behind it lies beneath the root, with or
    /// without `/`. The first regex that matches wins and makes the whole name; else the longest
    /// prefix of whole components wins, and is replaced; else a name stays.
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
                return Err(wrong("`..` would leave the root".into()));
            }
            if let Some(regex) = from.strip_prefix("regex:") {
                let regex = regex_of(regex.trim()).map_err(wrong)?;
                self.regexes.push((regex, to.into()));
            } else if from.starts_with('/') || from.starts_with("unknown:") {
                let prefix = trimmed(from.as_bytes()).to_vec();
                self.prefixes.push((prefix, trimmed(to.as_bytes()).to_vec()));
            } else {
                return Err(wrong(
                    "names of a trace are absolute, or `unknown:PID:FD`; for others write `regex: ...`"
                        .into(),
                ));
            }
        }
        // Two rules for one prefix: the one that comes last, as a file that is read later is the
        // more special one.
        self.prefixes.sort_by_key(|(prefix, _)| prefix.len());
        Ok(())
    }

    /// Reads a file for `--ignore`: a pattern a line, blank lines and those that begin with `#`
    /// left out.
    ///
    /// ```text
    /// /usr/share/locale
    /// *.pyc
    /// regex: ^/home/[^/]+/\.cache/
    /// !/proc
    /// ```
    ///
    /// A prefix of whole components; a glob (`*`, `**`, `?`, `[ab]`), of any component where it has
    /// no `/`; or a regular expression. Prefixes and globs take with them what lies beneath. `!`
    /// takes names back, also those that are ignored by default; the last line that matches
    /// decides.
    pub fn read_ignore(&mut self, text: &str) -> Result<(), RuleError> {
        for (line, text) in lines(text) {
            let (pattern, reason) = match text.strip_prefix('!') {
                Some(pattern) => (pattern.trim(), None),
                None => (text, Some(Reason::Asked)),
            };
            let pattern = Pattern::read(pattern).map_err(|why| RuleError {
                line,
                text: text.into(),
                why,
            })?;
            self.ignore.push((pattern, reason));
        }
        Ok(())
    }

    /// Says what jobs share. The line of an error is the place of the glob in its list, from 1.
    pub fn set_copies(&mut self, copies: &Copies) -> Result<(), RuleError> {
        let compile = |globs: &[String]| {
            let one = |(at, text): (usize, &String)| {
                glob(text).map_err(|why| RuleError {
                    line: at + 1,
                    text: text.clone(),
                    why,
                })
            };
            globs.iter().enumerate().map(one).collect::<Result<Vec<_>, _>>()
        };
        self.private = compile(&copies.private)?;
        self.shared = compile(&copies.shared)?;
        self.write_shared = copies.write_shared;
        Ok(())
    }

    /// Jobs may change what they share.
    pub fn may_write_shared(&self) -> bool {
        self.write_shared
    }

    pub(super) fn ignores(&self, name: &[u8]) -> Option<Reason> {
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

    /// The name that a rule makes; none where there is no rule for it.
    pub(super) fn mapped(&self, name: &[u8]) -> Option<Vec<u8>> {
        for (regex, to) in &self.regexes {
            if let Some(found) = regex.captures(name) {
                let mut made = Vec::new();
                found.expand(to, &mut made);
                return Some(made);
            }
        }
        let longest = |(prefix, to): &(Vec<u8>, Vec<u8>)| {
            // The empty prefix is `/`, of which names that are not absolute are no part.
            let counts = !prefix.is_empty() || name.starts_with(b"/");
            let rest = beneath(name, prefix).filter(|_| counts)?;
            Some([to.as_slice(), rest].join(&b'/'))
        };
        self.prefixes.iter().rev().find_map(longest)
    }
}

/// Lines that say something, with their numbers from 1.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}
