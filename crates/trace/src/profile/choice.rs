//! The selection of files and times of a profile.

use std::sync::Arc;

use regex::Regex;

use super::file_names::FileNames;
use super::json::Selection;
use super::shown::shown;
use crate::event::{FileId, PathId};
use crate::names::{Kind, Names};

/// A selection of files and times. The default selects everything.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Selects files that have a matching path, as shown. Without it, calls that concern no file
    /// are selected, too.
    pub file: Option<Regex>,
    /// The paths of files in the whole trace. Without it, a file is selected by its first path
    /// only.
    pub file_names: Option<Arc<FileNames>>,
    /// Selects calls that began at this time or later, ns since the zero of the trace.
    pub from_ns: Option<i64>,
    /// Selects calls that began before this time, ns since the zero of the trace.
    pub to_ns: Option<i64>,
}

impl Choice {
    /// The selection as in a profile.
    pub(super) fn to_json(&self) -> Selection {
        let seconds = |ns: i64| ns as f64 / 1e9;
        Selection {
            file: self.file.as_ref().map(|file| file.as_str().to_owned()),
            from_s: self.from_ns.map(seconds),
            to_s: self.to_ns.map(seconds),
        }
    }
}

/// The subject of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// A file.
    File(FileId),
    /// A path at which there was no file.
    Name(PathId),
    /// A pipe, a socket, or another object that is not a file.
    Elsewhere,
    /// No file and no path.
    None,
    /// A file or a path that is not selected.
    LeftOut,
}

/// A selection, with a cache of the paths that match.
#[derive(Debug)]
pub(super) struct Chooser {
    pub(super) choice: Choice,
    /// Whether the path matches, by [`PathId`].
    matches: Vec<Option<bool>>,
}

impl Chooser {
    pub(super) fn new(choice: Choice) -> Self {
        Self {
            choice,
            matches: Vec::new(),
        }
    }

    /// Whether a call that began at this time is selected.
    pub(super) fn is_in_time(&self, start_ns: i64) -> bool {
        self.choice.from_ns.is_none_or(|from| from <= start_ns)
            && self.choice.to_ns.is_none_or(|to| start_ns < to)
    }

    /// The subject of a call on this file, or otherwise on this path.
    pub(super) fn subject(&mut self, names: &Names, file: Option<FileId>, path: Option<PathId>) -> Subject {
        let entry = file.and_then(|id| Some((id, names.files().get(id.index())?)));
        match (entry, path) {
            (Some((_, entry)), _) if matches!(entry.kind, Kind::Pipe | Kind::Socket | Kind::Other) => {
                Subject::Elsewhere
            }
            (Some((id, entry)), _) if self.matches_any_name(names, id, entry.path) => Subject::File(id),
            (None, Some(path)) if self.matches(names, path) => Subject::Name(path),
            (None, None) => Subject::None,
            _ => Subject::LeftOut,
        }
    }

    /// Whether a call with these subjects is not selected.
    pub(super) fn is_left_out(&self, subject: Subject, target: Subject) -> bool {
        let is_selected = |subject| matches!(subject, Subject::File(_) | Subject::Name(_));
        self.choice.file.is_some() && !is_selected(subject) && !is_selected(target)
    }

    fn matches_any_name(&mut self, names: &Names, file: FileId, first: PathId) -> bool {
        if self.matches(names, first) {
            return true;
        }
        let file_names = self.choice.file_names.clone();
        file_names
            .is_some_and(|file_names| file_names.all(file).iter().any(|&path| self.matches(names, path)))
    }

    fn matches(&mut self, names: &Names, path: PathId) -> bool {
        let Some(file) = &self.choice.file else {
            return true;
        };
        let index = path.index();
        if index >= self.matches.len() {
            self.matches.resize(index + 1, None);
        }
        *self.matches[index].get_or_insert_with(|| file.is_match(&shown(names.path(path))))
    }
}
