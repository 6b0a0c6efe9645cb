//! Why the settings of `exec` cannot be used.

use std::path::PathBuf;

/// Why the settings or a request cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The working directory does not exist.
    #[error("cwd: {0} is not a directory on this host: create it, or correct the path")]
    NoDirectory(PathBuf),
    /// A file that the programs need does not exist.
    #[error("files: {0} is not on this host: copy it there")]
    NoFile(PathBuf),
    /// The text cannot be the name of an environment variable.
    #[error("env: expected the name of an environment variable, got \"{0}\"")]
    Variable(String),
    /// The command is empty.
    #[error("command: expected a program and its arguments, got an empty list")]
    NoCommand,
    /// The regular expression has no group. Contains the regular expression.
    #[error("bytes: expected a pattern with a group (...) around the number, got \"{0}\": it has no group")]
    NoGroup(String),
    /// The limits of the programs cannot be set, or do not hold.
    #[error("limits: {0}")]
    Limits(String),
    /// A request to a long-lived program has a standard input of its own.
    #[error("stdin: a long-lived program receives its requests on standard input: remove this key")]
    LongLivedInput,
    /// The output of a long-lived program is to be matched with a regular expression.
    #[error("bytes: a long-lived program reports in JSON lines: use json or a fixed number")]
    LongLivedPattern,
}
