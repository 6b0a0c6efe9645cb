//! Rucio: its requests for the operations of a catalogue, their exchange, tokens, and what the
//! answers must be.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use plimsoll_model::Outcome;
use plimsoll_wire::catalogue::rucio::{
    Answer, Call, FoundFile, Login, MAX_ANSWER, NewFile, Session, adler32_of, element, name_of, token_of,
};
use plimsoll_wire::catalogue::{Key, Request, Status};

use super::connection::{Connection, Part};
use super::error::OperationError;
use super::message::Answered;
use super::steps::{Expected, KnownEntry};
use crate::driver::{Attempt, Waiting};
use crate::http1::response::Reader;
use crate::lane::reactor::Io;

/// Age at which a token is replaced. Those of Rucio are valid for one hour by default.
const MAX_AGE: Duration = Duration::from_secs(30 * 60);

/// What the requests to an endpoint have in common.
pub(super) struct RucioSettings {
    /// Host and port for the field `Host`.
    pub(super) host: String,
    pub(super) login: Login,
    pub(super) scope: String,
    /// Whether the connection is kept.
    pub(super) keep: bool,
}

/// A token of Rucio.
pub(super) struct Token {
    text: String,
    obtained: Instant,
}

impl Token {
    pub(super) fn new(text: String) -> Self {
        Self {
            text,
            obtained: Instant::now(),
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn is_fresh(&self) -> bool {
        self.obtained.elapsed() < MAX_AGE
    }
}

/// The request for an operation; none if Rucio has no such operation.
pub(super) fn call_of(request: &Request) -> Option<Call> {
    let names = |keys: &[Key]| {
        let name = |key: &Key| match key {
            Key::Path(path) => Some(name_of(path).to_owned()),
            Key::Guid(_) | Key::Replica(_) => None,
        };
        keys.iter().map(name).collect::<Option<Vec<_>>>()
    };
    Some(match request {
        Request::Register(entries) => {
            let files = entries.iter().map(|entry| NewFile {
                name: name_of(&entry.path).to_owned(),
                guid: entry.guid.clone(),
                size: entry.size,
            });
            Call::Add(files.collect())
        }
        Request::Lookup(keys) => Call::Find(names(keys)?),
        Request::Delete(keys) => Call::Delete(names(keys)?),
        Request::List { path, .. } => Call::List(name_of(path).to_owned()),
        _ => return None,
    })
}

impl Connection {
    /// Sends a request and reads its answer. Returns the answer and the length of its body.
    pub(super) async fn exchange_rucio(
        &mut self,
        io: &Io,
        settings: &RucioSettings,
        (call, token): (&Call, &str),
        part: Part,
        attempt: &mut Attempt,
    ) -> Result<(Answered, u64), OperationError> {
        attempt.waiting = Waiting::FirstByte;
        let session = Session {
            host: &settings.host,
            scope: &settings.scope,
            token,
            keep: settings.keep,
        };
        call.encode(&session, &mut self.output);
        self.send(part, attempt)
            .await
            .map_err(|error| self.lost(&error, true))?;
        let mut reader = Reader::new(false, MAX_ANSWER);
        let is_login = matches!(call, Call::Token(_));
        if is_login {
            reader = reader.keeping_head();
        }
        let (status, body) = self.receive_response(io, &mut reader, part, attempt).await?;
        self.is_used = true;
        self.is_spent |= !settings.keep;
        let answer = Answer::decode(call, status, &body)
            .map_err(|error| OperationError::error("bad response".into(), error.to_string()))?;
        let answered = match answer {
            Answer::Failed { message, .. } if is_login && (400..500).contains(&status) => {
                return Err(OperationError::Answer {
                    outcome: Outcome::Refused,
                    code: Status::FORBIDDEN.text().into(),
                    message,
                });
            }
            Answer::Failed { class, message } => return Err(failure(status, &class, message)),
            _ if is_login => {
                let head = reader.take_head();
                Answered::Token(token_of(&head).ok_or_else(OperationError::unexpected)?.to_owned())
            }
            answer => Answered::Rucio(answer),
        };
        Ok((answered, body.len() as u64))
    }
}

/// The error for an exception of Rucio, or for an answer of another server.
fn failure(status: u16, class: &str, message: String) -> OperationError {
    match class {
        "ReplicaNotFound" | "DataIdentifierNotFound" => OperationError::status(Status::NO_ENTRY, message),
        "AccessDenied" => OperationError::status(Status::FORBIDDEN, message),
        _ => OperationError::error(format!("http {status}").into(), message),
    }
}

/// Compares an answer with what it must be.
pub(super) fn judge(
    expected: Expected,
    answer: &Answer,
    entries: &[KnownEntry],
) -> Result<(), OperationError> {
    match (expected, answer) {
        (Expected::Done, Answer::Done) => Ok(()),
        (Expected::Entries, Answer::Files(files)) => all_found(files, entries),
        (Expected::Nothing, Answer::Files(files)) if files.is_empty() => Ok(()),
        (Expected::Nothing, Answer::Files(_)) => Err(OperationError::wrong("deleted entry found")),
        _ => Err(OperationError::unexpected()),
    }
}

/// Rucio returns a file once that was asked for twice.
fn all_found(files: &[FoundFile], entries: &[KnownEntry]) -> Result<(), OperationError> {
    let found: HashMap<&str, &FoundFile> = files.iter().map(|file| (file.name.as_str(), file)).collect();
    for entry in entries {
        let Some(file) = found.get(name_of(&entry.path)) else {
            return Err(OperationError::wrong("missing entry"));
        };
        if !is_entry(file, entry) {
            return Err(OperationError::wrong("wrong entry"));
        }
    }
    let asked: BTreeSet<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
    if files.len() == asked.len() {
        Ok(())
    } else {
        Err(OperationError::wrong("wrong entry"))
    }
}

fn is_entry(file: &FoundFile, entry: &KnownEntry) -> bool {
    let elements = (0..entry.replicas).map(element);
    file.adler32.as_deref() == Some(adler32_of(&entry.guid)) && elements.eq(file.elements.iter().cloned())
}

#[cfg(test)]
mod tests {
    use plimsoll_wire::catalogue::DataSet;

    use super::*;

    fn code(result: Result<(), OperationError>) -> Option<(Outcome, String)> {
        match result {
            Ok(()) => None,
            Err(OperationError::Answer { outcome, code, .. }) => Some((outcome, code.into_owned())),
            Err(OperationError::Stale | OperationError::Failure(_)) => panic!("not an answer"),
        }
    }

    fn file(entry: &KnownEntry, elements: &[&str]) -> FoundFile {
        FoundFile {
            name: name_of(&entry.path).into(),
            adler32: Some(entry.guid[..8].into()),
            elements: elements.iter().map(|element| (*element).into()).collect(),
        }
    }

    #[test]
    fn a_wrong_answer_is_detected() {
        let data = DataSet {
            entries: 10,
            directory: 5,
            replicas: 2,
            seed: 1,
        };
        let entry = |number| KnownEntry::of_data(&data, number);
        let both = ["SE01", "SE02"];
        let wrong = |code: &str| Some((Outcome::Wrong, code.to_owned()));
        // The third entry is one that was asked for twice.
        let entries = [entry(0), entry(1), entry(0)];
        let judged = |files| code(judge(Expected::Entries, &Answer::Files(files), &entries));
        let right = || vec![file(&entry(1), &both), file(&entry(0), &both)];
        assert_eq!(judged(right()), None);
        assert_eq!(judged(right()[..1].into()), wrong("missing entry"));
        let more = [right(), vec![file(&entry(2), &both)]].concat();
        assert_eq!(judged(more), wrong("wrong entry"));
        for elements in [&["SE01"][..], &["SE01", "SE03"], &["SE01", "SE02", "SE03"]] {
            let files = vec![file(&entry(0), elements), file(&entry(1), &both)];
            assert_eq!(judged(files), wrong("wrong entry"));
        }
        let mut files = right();
        files[0].adler32 = Some("00000000".into());
        assert_eq!(judged(files), wrong("wrong entry"));
        let nothing = |files| code(judge(Expected::Nothing, &Answer::Files(files), &entries));
        assert_eq!(nothing(vec![]), None);
        assert_eq!(nothing(right()), wrong("deleted entry found"));
        let done = code(judge(Expected::Done, &Answer::Names(vec![]), &entries));
        assert_eq!(done, Some((Outcome::Error, "bad response".into())));
    }

    #[test]
    fn operations_without_names_are_not_those_of_rucio() {
        let lookup = |key| call_of(&Request::Lookup(vec![key]));
        assert_eq!(
            lookup(Key::Path("/grid/a".into())),
            Some(Call::Find(vec!["grid/a".into()]))
        );
        assert_eq!(lookup(Key::Guid("g".into())), None);
        assert_eq!(call_of(&Request::StartTransaction), None);
    }
}
