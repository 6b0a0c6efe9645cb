//! A trace to be replayed: read, its names placed beneath a root, the root checked and prepared,
//! the plan carried out.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use plimsoll_trace::event::{Event, OpenId};
use plimsoll_trace::file::{FileError, Reader};
use plimsoll_trace::header::Header;
use plimsoll_trace::names::Names;

use crate::check::{self, Beneath, CheckError, Report};
use crate::names::{Copy, Links, Rules, Table};
use crate::plan::{Options, Plan, PlanError};

/// A trace in memory: about 110 bytes a call, and its names.
pub struct Trace {
    /// What it says of itself.
    pub header: Header,
    /// Its tables.
    pub names: Names,
    /// All that has happened.
    pub events: Vec<Event>,
    /// Its symbolic links.
    pub links: Links,
    /// The file has no end: it was cut, or its recorder was killed. What is there is whole.
    pub is_cut: bool,
}

impl Trace {
    /// Reads a trace file.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let mut reader = Reader::new(File::open(path)?)?;
        let mut events = Vec::new();
        while let Some(block) = reader.next()? {
            events.extend_from_slice(block);
        }
        number_opens(&mut events);
        let header = reader.header().clone();
        let is_cut = reader.footer().is_none();
        let names = reader.into_names();
        let links = Links::of(&events, &names);
        Ok(Self {
            header,
            names,
            events,
            links,
            is_cut,
        })
    }

    /// Places its names beneath a root.
    pub fn place(&self, rules: &Rules) -> Table {
        Table::new(rules, &self.names, &self.links)
    }

    /// What the root lacks.
    ///
    /// # Errors
    /// [`CheckError`]: something beneath it cannot be looked at.
    pub fn check(
        &self,
        table: &Table,
        root: &Beneath,
        options: check::Options,
    ) -> Result<Report, CheckError> {
        check::check(&self.events, &self.names, table, &self.links, root, options)
    }

    /// What each worker does. `private` and `shared` are the directories beneath the root for files
    /// of either kind; empty for the root itself.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn plan(
        &self,
        table: &Table,
        private: &[u8],
        shared: &[u8],
        options: Options,
    ) -> Result<Plan, PlanError> {
        let place = |id| {
            let within = |copy, directory: &[u8]| Some(beneath(directory, table.path(id, copy)?));
            within(Copy::Private, private).or_else(|| within(Copy::Shared, shared))
        };
        Plan::new(
            &self.header,
            self.events.iter().copied(),
            &self.names,
            place,
            options,
        )
    }
}

/// Numbers open files from 0 without gaps: those who index by them have tables as large as the
/// trace, whatever its file says.
fn number_opens(events: &mut [Event]) {
    let mut numbers: HashMap<OpenId, Option<OpenId>> = HashMap::new();
    for event in events {
        for open in [&mut event.open, &mut event.open2] {
            *open = open.and_then(|id| {
                let next = OpenId::new(numbers.len());
                *numbers.entry(id).or_insert(next)
            });
        }
    }
}

fn beneath(directory: &[u8], path: &[u8]) -> Vec<u8> {
    if directory.is_empty() {
        return path.to_vec();
    }
    [directory, b"/", path].concat()
}

#[cfg(test)]
mod tests {
    use plimsoll_trace::event::{Outcome, ThreadId};
    use plimsoll_trace::syscalls;

    use super::*;

    #[test]
    fn open_files_are_numbered_without_gaps() {
        let open = |index| OpenId::new(index);
        let of = |first, second| Event {
            open: first,
            open2: second,
            ..Event::new(
                ThreadId::new(0).unwrap(),
                syscalls::find(b"read").unwrap(),
                0,
                Outcome::Returned(0),
            )
        };
        let mut events = [
            of(open(4_000_000_000), None),
            of(open(7), open(4_000_000_000)),
            of(None, open(8)),
        ];
        number_opens(&mut events);
        let numbers = events.map(|event| (event.open, event.open2));
        assert_eq!(numbers, [(open(0), None), (open(1), open(0)), (None, open(2))]);
    }
}
