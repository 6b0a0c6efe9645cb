//! The catalogue's answers to messages.

use super::NAMESPACE;
use super::call::Operation;
use super::envelope;
use super::fault::Fault;
use super::paths;
use super::xml::{Space, Tag, Xml, XmlError, items, once, put_text, put_value};
use crate::catalogue::{DirectoryEntry, EntryData, MAX_BULK, Reply, Status};

/// Maximum number of replicas of an entry.
const MAX_REPLICAS: usize = 1000;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The message was carried out. The reply is that of the stateful protocol: results for a
    /// change and for the question whether there are entries ([`Status::NO_ENTRY`]: there is none).
    Done(Reply),
    /// Nothing of the message was carried out.
    Fault(Fault),
}

/// The first operation that failed in the reply to a request of a message, with its index in this
/// request. An entry that was not found is a failure, except where the message asks for it.
pub fn failure(operation: Operation, reply: &Reply) -> Option<(Status, usize)> {
    match reply {
        Reply::Result(Status::OK, _) => None,
        Reply::Result(status, _) => Some((*status, 0)),
        Reply::Results(results) => {
            let index = results.iter().position(|status| *status != Status::OK)?;
            Some((results[index], index))
        }
        Reply::Entries(entries) if operation == Operation::ListReplicas => {
            let index = entries.iter().position(Option::is_none)?;
            Some((Status::NO_ENTRY, index))
        }
        _ => None,
    }
}

impl Answer {
    /// Appends the answer to a message of this kind; `count` is the number of its operations.
    pub fn encode(&self, operation: Operation, count: usize, out: &mut String) {
        envelope::put(out, "", |out| match self {
            Self::Fault(fault) => fault.put(out),
            Self::Done(reply) => {
                let name = operation.name();
                out.extend(["<", name, "Response xmlns=\"", NAMESPACE, "\">"]);
                put(reply, operation, count, out);
                out.extend(["</", name, "Response>"]);
            }
        });
    }

    /// The answer to a message of this kind.
    ///
    /// # Errors
    /// The text is not an answer to it.
    pub fn decode(operation: Operation, message: &[u8]) -> Result<Self, XmlError> {
        let header = |xml: &mut Xml<'_>, tag: &Tag| {
            if tag.must_understand {
                return Err(XmlError::MustUnderstand(tag.name.clone()));
            }
            xml.skip()
        };
        envelope::read(message, header, |xml, tag| {
            if tag.is(Space::Envelope, "Fault") {
                return Fault::take(xml).map(Self::Fault);
            }
            let is_own =
                tag.space == Space::Catalogue && tag.name.strip_suffix("Response") == Some(operation.name());
            if is_own {
                take(operation, xml).map(Self::Done)
            } else {
                Err(tag.unexpected())
            }
        })
    }
}

fn put(reply: &Reply, operation: Operation, count: usize, out: &mut String) {
    match reply {
        Reply::Entries(entries) if operation == Operation::HasEntry => {
            for entry in entries {
                put_value(out, "found", entry.is_some());
            }
        }
        Reply::Entries(entries) => {
            for entry in entries.iter().flatten() {
                out.push_str("<entry>");
                put_value(out, "number", entry.file);
                put_text(out, "guid", &entry.guid);
                put_value(out, "mode", entry.mode);
                put_value(out, "size", entry.size);
                put_value(out, "owner", entry.owner);
                for replica in &entry.replicas {
                    put_text(out, "replica", replica);
                }
                out.push_str("</entry>");
            }
        }
        Reply::Directory { entries, is_last } => {
            for entry in entries {
                out.push_str("<entry>");
                put_text(out, "name", &entry.name);
                put_text(out, "guid", &entry.guid);
                put_value(out, "mode", entry.mode);
                put_value(out, "size", entry.size);
                out.push_str("</entry>");
            }
            put_value(out, "isLast", is_last);
        }
        Reply::Link(target) => paths::put_target(target, out),
        Reply::Acl { owner, group, acl } => paths::put_acl(owner, group, acl, out),
        // A change succeeds as a whole.
        _ => put_value(out, "count", count),
    }
}

fn take(operation: Operation, xml: &mut Xml<'_>) -> Result<Reply, XmlError> {
    match operation {
        Operation::ListReplicas => items(xml, "entry", |xml, _| found(xml).map(Some)).map(Reply::Entries),
        Operation::HasEntry => items(xml, "found", |xml, tag| {
            Ok(if xml.value(tag)? {
                Status::OK
            } else {
                Status::NO_ENTRY
            })
        })
        .map(Reply::Results),
        Operation::ReadDirectory => directory(xml),
        Operation::ReadLink => paths::target(xml),
        Operation::GetAcl => paths::found_acl(xml),
        _ => {
            let mut count = None;
            while let Some(tag) = xml.child()? {
                match tag.name.as_str() {
                    "count" => once(&mut count, xml.value::<usize>(&tag)?, &tag)?,
                    _ => return Err(tag.unexpected()),
                }
            }
            match count.ok_or(XmlError::Missing("count"))? {
                count @ 0..=MAX_BULK => Ok(Reply::Results(vec![Status::OK; count])),
                _ => Err(XmlError::Value("count".into())),
            }
        }
    }
}

fn found(xml: &mut Xml<'_>) -> Result<EntryData, XmlError> {
    let (mut file, mut guid, mut mode, mut size, mut owner) = (None, None, None, None, None);
    let mut replicas = Vec::new();
    while let Some(tag) = xml.child()? {
        match tag.name.as_str() {
            "number" => once(&mut file, xml.value(&tag)?, &tag)?,
            "guid" => once(&mut guid, xml.text()?, &tag)?,
            "mode" => once(&mut mode, xml.value(&tag)?, &tag)?,
            "size" => once(&mut size, xml.value(&tag)?, &tag)?,
            "owner" => once(&mut owner, xml.value(&tag)?, &tag)?,
            "replica" if replicas.len() < MAX_REPLICAS => replicas.push(xml.text()?),
            _ => return Err(tag.unexpected()),
        }
    }
    Ok(EntryData {
        file: file.ok_or(XmlError::Missing("number"))?,
        guid: guid.ok_or(XmlError::Missing("guid"))?,
        mode: mode.ok_or(XmlError::Missing("mode"))?,
        size: size.ok_or(XmlError::Missing("size"))?,
        owner: owner.ok_or(XmlError::Missing("owner"))?,
        replicas,
    })
}

fn directory(xml: &mut Xml<'_>) -> Result<Reply, XmlError> {
    let (mut entries, mut is_last) = (Vec::new(), None);
    while let Some(tag) = xml.child()? {
        match tag.name.as_str() {
            "entry" if entries.len() < MAX_BULK => entries.push(name(xml)?),
            "isLast" => once(&mut is_last, xml.value(&tag)?, &tag)?,
            _ => return Err(tag.unexpected()),
        }
    }
    Ok(Reply::Directory {
        entries,
        is_last: is_last.ok_or(XmlError::Missing("isLast"))?,
    })
}

fn name(xml: &mut Xml<'_>) -> Result<DirectoryEntry, XmlError> {
    let (mut name, mut guid, mut mode, mut size) = (None, None, None, None);
    while let Some(tag) = xml.child()? {
        match tag.name.as_str() {
            "name" => once(&mut name, xml.text()?, &tag)?,
            "guid" => once(&mut guid, xml.text()?, &tag)?,
            "mode" => once(&mut mode, xml.value(&tag)?, &tag)?,
            "size" => once(&mut size, xml.value(&tag)?, &tag)?,
            _ => return Err(tag.unexpected()),
        }
    }
    Ok(DirectoryEntry {
        name: name.ok_or(XmlError::Missing("name"))?,
        guid: guid.ok_or(XmlError::Missing("guid"))?,
        mode: mode.ok_or(XmlError::Missing("mode"))?,
        size: size.ok_or(XmlError::Missing("size"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::FaultCode;
    use super::*;

    fn found() -> EntryData {
        EntryData {
            file: 7,
            guid: "g".into(),
            mode: 0o100_644,
            size: 1 << 40,
            owner: 101,
            replicas: vec!["srm://h/a&b".into(), "r".into()],
        }
    }

    fn read_back(operation: Operation, answer: &Answer, count: usize) -> Answer {
        let mut text = String::new();
        answer.encode(operation, count, &mut text);
        for length in 0..text.len() {
            assert!(Answer::decode(operation, &text.as_bytes()[..length]).is_err());
        }
        Answer::decode(operation, text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let entries = Answer::Done(Reply::Entries(vec![Some(found()), Some(found())]));
        assert_eq!(read_back(Operation::ListReplicas, &entries, 2), entries);
        let name = DirectoryEntry {
            name: "<a>".into(),
            guid: String::new(),
            mode: 0o40_755,
            size: 0,
        };
        for entries in [vec![], vec![name]] {
            let page = Answer::Done(Reply::Directory {
                entries,
                is_last: false,
            });
            assert_eq!(read_back(Operation::ReadDirectory, &page, 1), page);
        }
        let link = Answer::Done(Reply::Link("../a&b".into()));
        assert_eq!(read_back(Operation::ReadLink, &link, 1), link);
        let acl = Answer::Done(Reply::Acl {
            owner: "/O=a&b".into(),
            group: String::new(),
            acl: "user::rw-\ngroup::r--\nother::---".into(),
        });
        assert_eq!(read_back(Operation::GetAcl, &acl, 1), acl);
        let exist = Answer::Done(Reply::Entries(vec![Some(found()), None]));
        let results = Reply::Results(vec![Status::OK, Status::NO_ENTRY]);
        assert_eq!(read_back(Operation::HasEntry, &exist, 2), Answer::Done(results));
        let done = Answer::Done(Reply::Result(Status::OK, String::new()));
        let results = Reply::Results(vec![Status::OK; 3]);
        for operation in Operation::ALL
            .into_iter()
            .filter(|operation| operation.is_change())
        {
            assert_eq!(read_back(operation, &done, 3), Answer::Done(results.clone()));
        }
    }

    #[test]
    fn a_fault_has_a_code_and_the_operation_that_failed() {
        for (status, code) in [
            (Status::FORBIDDEN, FaultCode::Client),
            (Status::INTERNAL, FaultCode::Server),
            (Status::BUSY, FaultCode::Server),
        ] {
            let fault = Fault::of(status, 3, "a < b".into());
            assert_eq!(fault.code, code);
            let answer = Answer::Fault(fault);
            assert_eq!(read_back(Operation::Create, &answer, 1), answer);
        }
        let unreadable = Answer::Fault(Fault::from(XmlError::DocType));
        assert_eq!(read_back(Operation::Create, &unreadable, 1), unreadable);
        // From another server: a code with a suffix, an actor, another detail.
        let other = "<E:Envelope xmlns:E='http://schemas.xmlsoap.org/soap/envelope/'><E:Body><E:Fault>\
                     <faultcode>E:Server.Busy</faultcode><faultstring>no</faultstring><faultactor>a</faultactor>\
                     <detail><x><y/></x></detail></E:Fault></E:Body></E:Envelope>";
        let Ok(Answer::Fault(fault)) = Answer::decode(Operation::Remove, other.as_bytes()) else {
            panic!();
        };
        assert_eq!(
            (fault.code, fault.text.as_str(), fault.failed),
            (FaultCode::Server, "no", None)
        );
    }

    #[test]
    fn an_answer_to_another_message_is_refused() {
        let mut text = String::new();
        Answer::Done(Reply::Result(Status::OK, String::new())).encode(Operation::Create, 1, &mut text);
        assert!(Answer::decode(Operation::Remove, text.as_bytes()).is_err());
        let many = text.replace("<count>1<", "<count>1001<");
        assert!(Answer::decode(Operation::Create, many.as_bytes()).is_err());
    }

    #[test]
    fn the_first_operation_that_failed_decides() {
        let results = Reply::Results(vec![Status::OK, Status::EXISTS, Status::INVALID]);
        assert_eq!(failure(Operation::Create, &results), Some((Status::EXISTS, 1)));
        let entries = Reply::Entries(vec![Some(found()), None]);
        let missing = Some((Status::NO_ENTRY, 1));
        assert_eq!(failure(Operation::ListReplicas, &entries), missing);
        assert_eq!(failure(Operation::HasEntry, &entries), None);
        let result = Reply::Result(Status::FORBIDDEN, String::new());
        assert_eq!(
            failure(Operation::MakeDirectory, &result),
            Some((Status::FORBIDDEN, 0))
        );
    }
}
