//! What a root lacks for a replay.

use std::borrow::Cow;

use serde::{Serialize, Serializer};

use super::disk::Kind;

/// What a file must be for a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Need {
    /// What it is; a file where nothing tells.
    pub kind: Kind,
    /// Of a file, bytes: the end of what was read of it, or the size that a call has found.
    pub size: u64,
    /// Permissions that were found, of the owner so that what succeeded succeeds and what was
    /// refused is refused. None: nothing tells, and nothing is to be refused.
    pub mode: Option<u32>,
    /// Of a link: what it holds. It leads to nowhere else than beneath the root.
    #[serde(serialize_with = "optional")]
    pub target: Option<Box<[u8]>>,
}

/// What is wrong with a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
pub enum What {
    /// It is not there.
    Missing(Need),
    /// It is there, although a call was told that it is not, or has made it.
    MustNotExist,
    /// Calls have read, or found, more of it than there is: bytes.
    TooSmall {
        /// Its size.
        has: u64,
        /// The one that is needed.
        needs: u64,
    },
    /// It is something else.
    WrongKind {
        /// What it is.
        is: Kind,
        /// What it must be.
        needs: Need,
    },
    /// Calls have read it, and this process may not.
    NotReadable,
    /// Calls have written it, or made or removed names in it, and this process may not.
    NotWritable,
    /// Calls have used names in it, or have executed it, and this process may not.
    NotSearchable,
    /// Calls were refused, and this process would not be: root never is.
    TooOpen,
    /// The directory was removed, and holds what no call has removed.
    NotEmpty,
    /// The symbolic link leads out of the root, or in circles: the sandbox does not follow it.
    Leaves,
    /// Jobs would change what they share. `write_shared` allows it, `private` gives each its own.
    SharedIsWritten,
    /// A call moves or links a name between what a job has for itself and what is shared.
    AcrossCopies,
}

/// Something that keeps a replay from doing what the trace did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Beneath the root, without links on its way.
    #[serde(serialize_with = "lossy")]
    pub path: Box<[u8]>,
    /// A name of the trace that led there.
    #[serde(serialize_with = "lossy")]
    pub recorded: Box<[u8]>,
    /// What is wrong.
    #[serde(flatten)]
    pub what: What,
    /// The first call that fails by it: its place among the events, from 0.
    pub event: u64,
    /// It is the consequence of this other finding, by place: a directory above it is missing, or
    /// is none.
    pub within: Option<usize>,
    /// The trace changes it.
    pub changed: bool,
}

/// A name that the trace makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Created {
    /// Beneath the root.
    #[serde(serialize_with = "lossy")]
    pub path: Box<[u8]>,
    /// What it is.
    pub kind: Kind,
    /// What was under this name before the replay is moved to it, or linked.
    #[serde(serialize_with = "optional")]
    pub of: Option<Box<[u8]>>,
}

/// A call that no state of the root explains: something that was not traced has changed files, or
/// the order of calls that overlap is not as recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unexplained {
    /// Its place among the events, from 0.
    pub event: u64,
    /// The name beneath the root.
    #[serde(serialize_with = "lossy")]
    pub path: Box<[u8]>,
    /// Why.
    pub why: &'static str,
}

/// What a root lacks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// In the order of the calls that fail by them; directories before what they hold.
    pub findings: Vec<Finding>,
    /// Names that the trace makes, in no order, each once.
    pub creates: Vec<Created>,
    /// Calls that no state explains.
    pub unexplained: u64,
    /// The first of them.
    pub examples: Vec<Unexplained>,
    /// Calls that were looked at.
    pub events: u64,
}

impl Report {
    /// The findings that are no consequences of others, each with the number of those that are its,
    /// and the bytes that they and it need.
    pub fn causes(&self) -> Vec<(&Finding, usize, u64)> {
        let mut sums = vec![(0, 0); self.findings.len()];
        for (at, finding) in self.findings.iter().enumerate() {
            let sum = &mut sums[finding.within.unwrap_or(at)];
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
                write!(out, "the file is missing ({} B are needed)", need.size)
            }
            What::Missing(need) => write!(out, "the {} is missing", noun(need.kind)),
            What::MustNotExist => write!(out, "must not be there"),
            What::TooSmall { has, needs } => write!(out, "has {has} B, and {needs} B are needed"),
            What::WrongKind { is, needs } => {
                write!(out, "is a {}, and must be a {}", noun(*is), noun(needs.kind))
            }
            What::NotReadable => write!(out, "cannot be read"),
            What::NotWritable => write!(out, "cannot be written"),
            What::NotSearchable => write!(out, "cannot be searched or executed"),
            What::TooOpen => write!(out, "must be refused, and is not"),
            What::NotEmpty => write!(out, "must be empty, and is not"),
            What::Leaves => write!(out, "the link leads out of the root, or in circles"),
            What::SharedIsWritten => write!(out, "is shared by all jobs, and would be changed"),
            What::AcrossCopies => write!(
                out,
                "is moved or linked between a job's own files and shared ones"
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

/// For people, and for programs that only show it..
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
