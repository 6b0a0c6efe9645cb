//! The requests of a transaction, and what their replies must be.

use plimsoll_wire::catalogue::{DataSet, EntryData, Key, NewEntry, Reply, Request, Status, guid_of};

use super::error::OperationError;
use super::message::{Answered, Message};
use super::rucio;
use super::settings::{By, Operation, RoundTripMode, Work};

/// Permissions of new entries, before and after a change.
pub(super) const MODES: [u32; 2] = [0o644, 0o640];
/// ACL of entries with the first of these permissions.
const ACL: &str = "user::rw-\ngroup::r--\nother::r--";
/// ACLs that a change sets in turn, with their permissions in `st_mode`. They name a group that
/// every data set has.
const ACLS: [(&str, u32); 2] = [
    (
        "user::rw-\ngroup::r--\ngroup:plimsoll:rw-\nmask::rw-\nother::r--",
        0o664,
    ),
    (
        "user::rw-\ngroup::r--\ngroup:plimsoll:r--\nmask::r--\nother::---",
        0o640,
    ),
];
/// Permissions in `st_mode`.
const PERMISSIONS: u32 = 0o7777;
/// Size of new entries, bytes.
const SIZE: u64 = 1_000_000;

/// An entry whose content is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownEntry {
    pub(super) path: String,
    pub(super) guid: String,
    /// Number of replicas; the first one is that of the data set for this GUID.
    pub(super) replicas: u32,
    /// Permissions.
    pub(super) mode: u32,
    /// The ACL that it had when it was made, or that was set last.
    acl: &'static str,
    /// The path to which a link with the path of this entry leads; empty: there is no link.
    target: String,
}

impl KnownEntry {
    /// Entry `number` of the data set.
    pub(super) fn of_data(data: &DataSet, number: u64) -> Self {
        let guid = data.guid(number);
        Self {
            path: data.path(number, &guid),
            guid,
            replicas: data.replicas,
            mode: MODES[0],
            acl: ACL,
            target: String::new(),
        }
    }

    /// A new entry with this path.
    pub(super) fn new(path: String) -> Self {
        Self {
            guid: guid_of(&path),
            path,
            replicas: 1,
            mode: MODES[0],
            acl: ACL,
            target: String::new(),
        }
    }

    /// The entry that a new link with this path leads to.
    pub(super) fn through_link(self, path: String) -> Self {
        Self {
            target: self.path,
            path,
            ..self
        }
    }

    /// Changes the ACL that it must have after the transaction.
    pub(super) fn change_acl(&mut self) {
        let index = usize::from(self.acl == ACLS[0].0);
        (self.acl, self.mode) = ACLS[index];
    }

    fn replica(&self) -> String {
        DataSet::replica(&self.guid, 0)
    }

    fn key(&self, by: By) -> Key {
        match by {
            By::Name | By::Link => Key::Path(self.path.clone()),
            By::Guid => Key::Guid(self.guid.clone()),
            By::Replica => Key::Replica(self.replica()),
        }
    }

    fn to_register(&self) -> NewEntry {
        NewEntry {
            path: self.path.clone(),
            guid: self.guid.clone(),
            size: SIZE,
            mode: self.mode,
            replica: self.replica(),
        }
    }

    fn has_replicas(&self, replicas: &[String]) -> bool {
        replicas.len() == self.replicas as usize && replicas.contains(&self.replica())
    }

    fn is(&self, found: &EntryData) -> bool {
        found.guid == self.guid && found.mode & PERMISSIONS == self.mode
    }
}

/// What the reply must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// Success of every entry.
    Done,
    /// A refusal.
    Refusal,
    /// The entry, without its replicas.
    Entry,
    /// The replicas of the entry.
    Replicas,
    /// All entries with their replicas.
    Entries,
    /// No entry.
    Nothing,
    /// The ACL of the entry.
    Acl,
}

/// A request and its reply.
pub(super) struct Step {
    pub(super) message: Message,
    pub(super) expected: Expected,
}

impl Step {
    pub(super) fn new(request: Request, expected: Expected) -> Self {
        Self {
            message: Message::Stateful(request),
            expected,
        }
    }
}

/// The requests of an operation on these entries. A list has its requests in `list`.
pub(super) fn steps(work: Work, mode: RoundTripMode, entries: &[KnownEntry]) -> Vec<Step> {
    let single = entries
        .first()
        .filter(|_| entries.len() == 1 && mode == RoundTripMode::Lfc);
    let keys = |by| entries.iter().map(|entry| entry.key(by)).collect();
    match (work.operation, single) {
        (Operation::Query, Some(entry)) => vec![
            Step::new(Request::Stat(entry.key(work.by)), Expected::Entry),
            Step::new(Request::ListReplicas(entry.key(work.by)), Expected::Replicas),
        ],
        (Operation::Query, None) => {
            vec![Step::new(Request::Lookup(keys(work.by)), Expected::Entries)]
        }
        (Operation::Insert, Some(entry)) => vec![
            Step::new(
                Request::Create {
                    path: entry.path.clone(),
                    guid: entry.guid.clone(),
                    mode: entry.mode,
                    size: SIZE,
                },
                Expected::Done,
            ),
            Step::new(
                Request::AddReplica {
                    guid: entry.guid.clone(),
                    replica: entry.replica(),
                },
                Expected::Done,
            ),
        ],
        (Operation::Insert, None) => vec![register(entries, Expected::Done)],
        (Operation::Delete, Some(entry)) => vec![
            Step::new(
                Request::DeleteReplica {
                    replica: entry.replica(),
                },
                Expected::Done,
            ),
            Step::new(
                Request::Delete(vec![Key::Path(entry.path.clone())]),
                Expected::Done,
            ),
        ],
        (Operation::Delete, None) => vec![Step::new(Request::Delete(keys(work.by)), Expected::Done)],
        (Operation::Chmod, _) => entries
            .iter()
            .map(|entry| Step::new(set_mode(entry), Expected::Done))
            .collect(),
        (Operation::Forbidden, _) => vec![register(entries, Expected::Refusal)],
        (Operation::Link, _) => links(entries),
        (Operation::SetAcl, _) => set_acls(entries, Expected::Done),
        (Operation::ForbiddenAcl, _) => set_acls(entries, Expected::Refusal),
        (Operation::GetAcl, _) => entries.iter().map(get_acl).collect(),
        (Operation::List, _) => Vec::new(),
    }
}

fn register(entries: &[KnownEntry], expected: Expected) -> Step {
    let entries = entries.iter().map(KnownEntry::to_register).collect();
    Step::new(Request::Register(entries), expected)
}

fn set_mode(entry: &KnownEntry) -> Request {
    Request::SetMode {
        path: entry.path.clone(),
        mode: entry.mode,
    }
}

fn set_acls(entries: &[KnownEntry], expected: Expected) -> Vec<Step> {
    let request = |entry: &KnownEntry| Request::SetAcl {
        path: entry.path.clone(),
        acl: entry.acl.to_owned(),
    };
    let requests = entries.iter().map(request);
    requests.map(|request| Step::new(request, expected)).collect()
}

fn get_acl(entry: &KnownEntry) -> Step {
    let path = entry.path.clone();
    Step::new(Request::GetAcl { path }, Expected::Acl)
}

/// The requests that make links.
pub(super) fn links(entries: &[KnownEntry]) -> Vec<Step> {
    let request = |entry: &KnownEntry| Request::MakeLink {
        path: entry.path.clone(),
        target: entry.target.clone(),
    };
    let requests = entries.iter().map(request);
    requests
        .map(|request| Step::new(request, Expected::Done))
        .collect()
}

/// The request that makes new entries.
pub(super) fn insertion(entries: &[KnownEntry]) -> Step {
    register(entries, Expected::Done)
}

/// The requests that show whether a change was carried out, each with its entries; none if nothing
/// was changed.
pub(super) fn verification(operation: Operation, entries: &[KnownEntry]) -> Vec<(Step, &[KnownEntry])> {
    let expected = match operation {
        Operation::SetAcl => {
            let steps = entries.iter().map(get_acl);
            return steps.zip(entries.chunks(1)).collect();
        }
        // A query through a link finds the entry to which it leads.
        Operation::Insert | Operation::Chmod | Operation::Link => Expected::Entries,
        Operation::Delete => Expected::Nothing,
        _ => return Vec::new(),
    };
    let keys = entries.iter().map(|entry| entry.key(By::Name)).collect();
    vec![(Step::new(Request::Lookup(keys), expected), entries)]
}

/// Compares an answer with what it must be.
pub(super) fn judge(
    expected: Expected,
    answered: Answered,
    entries: &[KnownEntry],
) -> Result<(), OperationError> {
    match answered {
        Answered::Catalogue(reply) => judge_reply(expected, reply, entries),
        Answered::Rucio(answer) => rucio::judge(expected, &answer, entries),
        Answered::Token(_) => Err(OperationError::unexpected()),
    }
}

fn judge_reply(expected: Expected, reply: Reply, entries: &[KnownEntry]) -> Result<(), OperationError> {
    match (expected, reply) {
        (Expected::Done, Reply::Result(Status::OK, _))
        | (Expected::Refusal, Reply::Result(Status::FORBIDDEN, _)) => Ok(()),
        (Expected::Done, Reply::Results(statuses)) => {
            match statuses.iter().find(|status| **status != Status::OK) {
                Some(status) => Err(OperationError::status(*status, String::new())),
                None if statuses.len() == entries.len() => Ok(()),
                None => Err(OperationError::unexpected()),
            }
        }
        (Expected::Refusal, Reply::Result(status, message)) => Err(not_refused(status, message)),
        (Expected::Refusal, Reply::Results(statuses)) => {
            let other = statuses.into_iter().find(|status| *status != Status::FORBIDDEN);
            other.map_or(Ok(()), |status| Err(not_refused(status, String::new())))
        }
        (Expected::Acl, Reply::Acl { acl, .. }) => match entries {
            [entry] if entry.acl == acl => Ok(()),
            _ => Err(OperationError::wrong("wrong ACL")),
        },
        (Expected::Entry, Reply::Entries(found)) => match (found.as_slice(), entries) {
            ([Some(found)], [entry]) if entry.is(found) => Ok(()),
            _ => Err(OperationError::wrong("wrong entry")),
        },
        (Expected::Replicas, Reply::Replicas(names)) => match entries {
            [entry] if entry.has_replicas(&names) => Ok(()),
            _ => Err(OperationError::wrong("wrong entry")),
        },
        (Expected::Entries, Reply::Entries(found)) => all_found(&found, entries),
        (Expected::Nothing, Reply::Entries(found)) => {
            if found.iter().any(Option::is_some) {
                Err(OperationError::wrong("deleted entry found"))
            } else {
                Ok(())
            }
        }
        (Expected::Nothing, Reply::Results(statuses)) => {
            if statuses.contains(&Status::OK) {
                Err(OperationError::wrong("deleted entry found"))
            } else if statuses.len() == entries.len() {
                Ok(())
            } else {
                Err(OperationError::unexpected())
            }
        }
        (_, Reply::Result(status, message)) if status != Status::OK => {
            Err(OperationError::status(status, message))
        }
        _ => Err(OperationError::unexpected()),
    }
}

/// The result of an operation that the catalogue must refuse as forbidden.
fn not_refused(status: Status, message: String) -> OperationError {
    match status {
        // The catalogue could not decide.
        Status::BUSY | Status::INTERNAL => OperationError::status(status, message),
        _ => OperationError::wrong("not refused"),
    }
}

fn all_found(found: &[Option<EntryData>], entries: &[KnownEntry]) -> Result<(), OperationError> {
    if found.len() != entries.len() {
        return Err(OperationError::unexpected());
    }
    for (found, entry) in found.iter().zip(entries) {
        let Some(found) = found else {
            return Err(OperationError::wrong("missing entry"));
        };
        if !entry.is(found) || !entry.has_replicas(&found.replicas) {
            return Err(OperationError::wrong("wrong entry"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use plimsoll_model::Outcome;

    use super::*;

    fn code(result: Result<(), OperationError>) -> Option<(Outcome, String)> {
        match result {
            Ok(()) => None,
            Err(OperationError::Answer { outcome, code, .. }) => Some((outcome, code.into_owned())),
            Err(OperationError::Stale | OperationError::Failure(_)) => panic!("not an answer"),
        }
    }

    #[test]
    fn a_wrong_answer_is_detected() {
        let entry = KnownEntry::new("/grid/new/a".into());
        let found = |replica: &str| EntryData {
            file: 1,
            guid: entry.guid.clone(),
            mode: 0o100_644,
            size: 0,
            owner: 1,
            replicas: vec![replica.into()],
        };
        let entries = std::slice::from_ref(&entry);
        let judged = |expected, reply| code(judge_reply(expected, reply, entries));
        let right = found(&entry.replica());
        let wrong = |code: &str| Some((Outcome::Wrong, code.to_owned()));
        let reply = Reply::Entries(vec![Some(right.clone())]);
        assert_eq!(judged(Expected::Entries, reply.clone()), None);
        assert_eq!(judged(Expected::Nothing, reply), wrong("deleted entry found"));
        let other = Reply::Entries(vec![Some(found("srm://other"))]);
        assert_eq!(judged(Expected::Entries, other), wrong("wrong entry"));
        let none = Reply::Entries(vec![None]);
        assert_eq!(judged(Expected::Entries, none.clone()), wrong("missing entry"));
        assert_eq!(judged(Expected::Nothing, none), None);
        let results = |status| Reply::Results(vec![status]);
        assert_eq!(judged(Expected::Refusal, results(Status::FORBIDDEN)), None);
        assert_eq!(
            judged(Expected::Refusal, results(Status::OK)),
            wrong("not refused")
        );
        let error = |code: &str| Some((Outcome::Error, code.to_owned()));
        assert_eq!(
            judged(Expected::Refusal, Reply::Result(Status::NO_ENTRY, String::new())),
            wrong("not refused")
        );
        assert_eq!(judged(Expected::Refusal, results(Status::BUSY)), error("busy"));
        let acl = |acl: &str| Reply::Acl {
            owner: String::new(),
            group: String::new(),
            acl: acl.into(),
        };
        assert_eq!(judged(Expected::Acl, acl(ACL)), None);
        assert_eq!(judged(Expected::Acl, acl(ACLS[0].0)), wrong("wrong ACL"));
        assert_eq!(
            judged(Expected::Done, results(Status::EXISTS)),
            error("entry exists")
        );
        let busy = Reply::Result(Status::BUSY, "busy".into());
        assert_eq!(judged(Expected::Done, busy), error("busy"));
    }

    #[test]
    fn acls_are_set_in_turn_and_verified_one_by_one() {
        let mut entries = [KnownEntry::new("/a".into()), KnownEntry::new("/b".into())];
        for (acl, mode) in [ACLS[0], ACLS[1], ACLS[0]] {
            entries[1].change_acl();
            assert_eq!((entries[1].acl, entries[1].mode), (acl, mode));
        }
        let steps = verification(Operation::SetAcl, &entries);
        let paths: Vec<&str> = steps
            .iter()
            .map(|(_, entries)| entries[0].path.as_str())
            .collect();
        assert_eq!(paths, ["/a", "/b"]);
        assert!(verification(Operation::ForbiddenAcl, &entries).is_empty());
    }

    #[test]
    fn an_operation_of_lfc_has_several_round_trips_for_one_entry() {
        let entries = [KnownEntry::new("/a".into()), KnownEntry::new("/b".into())];
        let work = |operation| Work {
            operation,
            by: By::Name,
            bulk: 1,
            page: 100,
        };
        for operation in [Operation::Query, Operation::Insert, Operation::Delete] {
            let count = |mode, entries: &[KnownEntry]| steps(work(operation), mode, entries).len();
            assert_eq!(count(RoundTripMode::One, &entries[..1]), 1);
            assert_eq!(count(RoundTripMode::Lfc, &entries[..1]), 2);
            assert_eq!(count(RoundTripMode::Lfc, &entries), 1);
        }
    }
}
