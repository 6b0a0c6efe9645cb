//! A trace and its replay: reading the trace, mapping its names beneath a root, the check of the
//! root, and the plan.

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

/// A trace in memory: about 110 bytes per call, and its names.
pub struct Trace {
    /// Header of the trace file.
    pub header: Header,
    /// Tables of names.
    pub names: Names,
    /// All events.
    pub events: Vec<Event>,
    /// Symbolic links in the trace.
    pub links: Links,
    /// Whether the file has no end, because it was truncated or its recorder was killed. The events
    /// before are complete.
    pub is_cut: bool,
}

impl Trace {
    /// Reads a trace file.
    ///
    /// # Errors
    /// [`FileError`]: the file cannot be read, or is not a valid trace.
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

    /// Maps the names of the trace beneath a root.
    pub fn place(&self, rules: &Rules) -> Table {
        Table::new(rules, &self.names, &self.links)
    }

    /// Checks whether the root contains what the replay needs.
    ///
    /// # Errors
    /// [`CheckError`]: a file beneath the root cannot be read.
    pub fn check(
        &self,
        table: &Table,
        root: &Beneath,
        options: check::Options,
    ) -> Result<Report, CheckError> {
        check::check(&self.events, &self.names, table, &self.links, root, options)
    }

    /// The plan of the replay. `private` and `shared` are the directories beneath the root for
    /// private and shared files; empty for the root itself.
    ///
    /// # Errors
    /// [`PlanError`]: the trace has too many calls.
    pub fn plan(
        &self,
        table: &Table,
        private: &[u8],
        shared: &[u8],
        options: Options,
    ) -> Result<Plan, PlanError> {
        let path_beneath = |id| {
            let within = |copy, directory: &[u8]| Some(beneath(directory, table.path(id, copy)?));
            within(Copy::Private, private).or_else(|| within(Copy::Shared, shared))
        };
        Plan::new(
            &self.header,
            self.events.iter().copied(),
            &self.names,
            path_beneath,
            options,
        )
    }
}

/// Numbers open files from 0 without gaps. Tables that are indexed by them are then at most as
/// large as the trace, for any numbers in the file.
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
        let event = |first, second| Event {
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
            event(open(4_000_000_000), None),
            event(open(7), open(4_000_000_000)),
            event(None, open(8)),
        ];
        number_opens(&mut events);
        let numbers = events.map(|event| (event.open, event.open2));
        assert_eq!(numbers, [(open(0), None), (open(1), open(0)), (None, open(2))]);
    }
}
