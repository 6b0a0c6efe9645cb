//! What of a trace was asked for.

use std::sync::Arc;

use regex::Regex;

use super::called::Called;
use super::json::Chosen;
use super::shown::shown;
use crate::event::{FileId, PathId};
use crate::names::{Kind, Names};

/// What was asked for; without anything, all.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Files of which a name, as it is shown, matches; without it also what is about no file.
    pub file: Option<Regex>,
    /// What files are called in all of the trace; without it, a file is chosen by its first name
    /// alone.
    pub called: Option<Arc<Called>>,
    /// Calls that began at this time or later, ns since the zero of the trace.
    pub from_ns: Option<i64>,
    /// Calls that began before this time.
    pub to_ns: Option<i64>,
}

impl Choice {
    /// As a profile tells it.
    pub(super) fn told(&self) -> Chosen {
        let seconds = |ns: i64| ns as f64 / 1e9;
        Chosen {
            file: self.file.as_ref().map(|file| file.as_str().to_owned()),
            from_s: self.from_ns.map(seconds),
            to_s: self.to_ns.map(seconds),
        }
    }
}

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// A file.
    File(FileId),
    /// A name under which there was no file.
    Name(PathId),
    /// A pipe, a socket, or whatever else is no file.
    Elsewhere,
    /// Nothing.
    None,
    /// A file or a name that nobody asked for.
    LeftOut,
}

/// A choice, with what was found of names.
#[derive(Debug)]
pub(super) struct Chooser {
    pub(super) choice: Choice,
    /// By [`PathId`]: whether it matches.
    matches: Vec<Option<bool>>,
}

impl Chooser {
    pub(super) fn new(choice: Choice) -> Self {
        Self {
            choice,
            matches: Vec::new(),
        }
    }

    /// Whether a call that began then was asked for.
    pub(super) fn is_in_time(&self, start_ns: i64) -> bool {
        self.choice.from_ns.is_none_or(|from| from <= start_ns)
            && self.choice.to_ns.is_none_or(|to| start_ns < to)
    }

    /// What a call of this file, or else of this name, is about.
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

    /// Whether a call about these two was not asked for.
    pub(super) fn leaves_out(&self, subject: Subject, target: Subject) -> bool {
        let is_asked_for = |one| matches!(one, Subject::File(_) | Subject::Name(_));
        self.choice.file.is_some() && !is_asked_for(subject) && !is_asked_for(target)
    }

    fn matches_any_name(&mut self, names: &Names, file: FileId, first: PathId) -> bool {
        if self.matches(names, first) {
            return true;
        }
        let called = self.choice.called.clone();
        called.is_some_and(|called| called.all(file).iter().any(|&path| self.matches(names, path)))
    }

    fn matches(&mut self, names: &Names, path: PathId) -> bool {
        let Some(file) = &self.choice.file else {
            return true;
        };
        let place = path.index();
        if place >= self.matches.len() {
            self.matches.resize(place + 1, None);
        }
        *self.matches[place].get_or_insert_with(|| file.is_match(&shown(names.path(path))))
    }
}
