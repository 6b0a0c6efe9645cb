//! The report of a check.

use std::borrow::Cow;

use serde::{Serialize, Serializer};

use super::disk::Kind;

/// Requirements on a file for a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Requirements {
    /// Type; a file if it is unknown.
    pub kind: Kind,
    /// Size of a file, bytes: the end of the bytes that were read, or the size that a call
    /// reported.
    pub size: u64,
    /// Permissions that calls reported. The bits of the owner are set so that calls that succeeded
    /// succeed, and calls that were refused are refused. None if they are unknown and nothing must
    /// be refused.
    pub mode: Option<u32>,
    /// Target of a link. It leads to a name beneath the root.
    #[serde(serialize_with = "optional")]
    pub target: Option<Box<[u8]>>,
}

/// The fault of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
pub enum What {
    /// It does not exist.
    Missing(Requirements),
    /// It exists, although a call found that it does not, or made it.
    MustNotExist,
    /// It has fewer bytes than calls read or reported.
    TooSmall {
        /// Actual size, bytes.
        has: u64,
        /// Required size, bytes.
        needs: u64,
    },
    /// It has another type.
    WrongKind {
        /// Actual type.
        is: Kind,
        /// Requirements.
        needs: Requirements,
    },
    /// Calls have read it, but this process may not.
    NotReadable,
    /// Calls have written it, or made or removed names in it, but this process may not.
    NotWritable,
    /// Calls have used names in it, or have executed it, but this process may not.
    NotSearchable,
    /// Calls were not permitted, but this process is. For root, everything is permitted.
    TooOpen,
    /// The directory was removed, but contains names that no call has removed.
    NotEmpty,
    /// The symbolic link leads out of the root or to itself: the sandbox does not follow it.
    Leaves,
    /// Jobs would change a shared file. `write_shared` permits it; `private` gives each job its own
    /// file.
    SharedIsWritten,
    /// A call moves or links a name between private and shared files of a job.
    AcrossCopies,
}

/// A reason why a replay would not do what the trace did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Path beneath the root, without links before the last component.
    #[serde(serialize_with = "lossy")]
    pub path: Box<[u8]>,
    /// A name in the trace that led to this path.
    #[serde(serialize_with = "lossy")]
    pub recorded: Box<[u8]>,
    /// The fault.
    #[serde(flatten)]
    pub what: What,
    /// The first call that fails because of it: its index among the events, from 0.
    pub event: u64,
    /// Index of the finding that causes this one: a directory above it is missing or has another
    /// type.
    pub within: Option<usize>,
    /// Whether the trace changes it.
    pub changed: bool,
}

/// A name that the trace makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CreatedName {
    /// Path beneath the root.
    #[serde(serialize_with = "lossy")]
    pub path: Box<[u8]>,
    /// Type.
    pub kind: Kind,
    /// Path of the existing file that the replay moves or links to this name.
    #[serde(serialize_with = "optional")]
    pub of: Option<Box<[u8]>>,
}

/// A call that no initial state of the root explains: a process outside the trace changed files, or
/// overlapping calls happened in another order than recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnexplainedCall {
    /// Index among the events, from 0.
    pub event: u64,
    /// Path beneath the root.
    #[serde(serialize_with = "lossy")]
    pub path: Box<[u8]>,
    /// Explanation.
    pub why: &'static str,
}

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Findings in the order of the calls that fail because of them; directories before their
    /// contents.
    pub findings: Vec<Finding>,
    /// Names that the trace makes, in no particular order, each once.
    pub creates: Vec<CreatedName>,
    /// Number of calls that no initial state explains.
    pub unexplained: u64,
    /// The first unexplained calls.
    pub examples: Vec<UnexplainedCall>,
    /// Number of events that were checked.
    pub events: u64,
}

impl Report {
    /// The findings that are not consequences of others, each with the number of its consequences,
    /// and with the bytes that it and they need.
    pub fn causes(&self) -> Vec<(&Finding, usize, u64)> {
        let mut sums = vec![(0, 0); self.findings.len()];
        for (index, finding) in self.findings.iter().enumerate() {
            let sum = &mut sums[finding.within.unwrap_or(index)];
            sum.0 += usize::from(finding.within.is_some());
            sum.1 += match &finding.what {
                What::Missing(need) | What::WrongKind { needs: need, .. } => need.size,
                What::TooSmall { has, needs } => needs - has,
                _ => 0,
            };
        }
        let all = self.findings.iter().zip(sums);
        all.filter(|(finding, _)| finding.within.is_none())
            .map(|(finding, (files, bytes))| (finding, files, bytes))
            .collect()
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: ", text(&self.path))?;
        match &self.what {
            What::Missing(need) if need.kind == Kind::File => {
                write!(out, "the file is missing (it needs {} B)", need.size)
            }
            What::Missing(need) => write!(out, "the {} is missing", noun(need.kind)),
            What::MustNotExist => write!(out, "must not exist"),
            What::TooSmall { has, needs } => write!(out, "has {has} B, but needs {needs} B"),
            What::WrongKind { is, needs } => {
                write!(out, "is a {}, but must be a {}", noun(*is), noun(needs.kind))
            }
            What::NotReadable => write!(out, "cannot be read"),
            What::NotWritable => write!(out, "cannot be written"),
            What::NotSearchable => write!(out, "cannot be searched or executed"),
            What::TooOpen => write!(out, "must not be accessible, but is"),
            What::NotEmpty => write!(out, "must be empty, but is not"),
            What::Leaves => write!(out, "the link leads out of the root or to itself"),
            What::SharedIsWritten => write!(out, "is shared by all jobs, but a call would change it"),
            What::AcrossCopies => write!(
                out,
                "is moved or linked between private and shared files of a job"
            ),
        }
    }
}

fn noun(kind: Kind) -> &'static str {
    match kind {
        Kind::Unknown | Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Link => "symbolic link",
        Kind::Other => "device, FIFO or socket",
    }
}

fn text(path: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(path)
}

/// A path as text for display; bytes that are not UTF-8 are replaced.
#[expect(clippy::borrowed_box, reason = "the field is one")]
fn lossy<S: Serializer>(path: &Box<[u8]>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&text(path))
}

#[expect(clippy::ref_option, reason = "the field is one")]
fn optional<S: Serializer>(path: &Option<Box<[u8]>>, to: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => lossy(path, to),
        None => to.serialize_none(),
    }
}
