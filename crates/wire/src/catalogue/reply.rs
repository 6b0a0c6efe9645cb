//! Replies.

use super::error::{CatalogueProtocolError, Status};
use super::fields::{Fields, Put};
use super::frame::{self, Frame};
use super::request::MAX_BULK;

/// Types of replies. The first two are those of LFC.
mod kind {
    pub(super) const RESULT: u32 = 3;
    pub(super) const RESULTS: u32 = 11;
    pub(super) const ENTRIES: u32 = 2001;
    pub(super) const REPLICAS: u32 = 2002;
    pub(super) const DIRECTORY: u32 = 2003;
    pub(super) const LINK: u32 = 2004;
    pub(super) const ACL: u32 = 2005;
}

/// Maximum number of replicas of an entry in a reply.
const MAX_REPLICAS: usize = 1000;

/// An entry of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryData {
    /// Its number.
    pub file: u64,
    /// Its GUID; empty for a directory.
    pub guid: String,
    /// Type and permissions, as in `st_mode`.
    pub mode: u32,
    /// Size of the file, bytes.
    pub size: u64,
    /// Number of its owner.
    pub owner: u32,
    /// Names of its replicas. Empty in the reply to a request that does not ask for them.
    pub replicas: Vec<String>,
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name.
    pub name: String,
    /// Its GUID; empty for a directory.
    pub guid: String,
    /// Type and permissions.
    pub mode: u32,
    /// Size of the file, bytes.
    pub size: u64,
}

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The result of a request, with a text for people.
    Result(Status, String),
    /// The results of the entries of a request.
    Results(Vec<Status>),
    /// The entries of a request; none: there is no such entry, or the client may not read it.
    Entries(Vec<Option<EntryData>>),
    /// Names of replicas.
    Replicas(Vec<String>),
    /// A page of a directory. `is_last`: there are no further names.
    Directory {
        /// The names.
        entries: Vec<DirectoryEntry>,
        /// Whether this is the last page.
        is_last: bool,
    },
    /// The path to which a symbolic link leads.
    Link(String),
    /// An ACL.
    Acl {
        /// Subject of the owner.
        owner: String,
        /// Name of the group; empty: none.
        group: String,
        /// The ACL in its text form.
        acl: String,
    },
}

impl Reply {
    /// Appends the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let kind = match self {
            Self::Result(..) => kind::RESULT,
            Self::Results(_) => kind::RESULTS,
            Self::Entries(_) => kind::ENTRIES,
            Self::Replicas(_) => kind::REPLICAS,
            Self::Directory { .. } => kind::DIRECTORY,
            Self::Link(_) => kind::LINK,
            Self::Acl { .. } => kind::ACL,
        };
        frame::put(out, kind, |body| self.put(body));
    }

    fn put(&self, body: &mut Vec<u8>) {
        match self {
            Self::Result(status, text) => {
                body.number(status.0);
                body.text(text);
            }
            Self::Results(results) => {
                body.count(results.len());
                for status in results {
                    body.number(status.0);
                }
            }
            Self::Entries(entries) => {
                body.count(entries.len());
                for entry in entries {
                    body.byte(u8::from(entry.is_some()));
                    if let Some(found) = entry {
                        put_found(found, body);
                    }
                }
            }
            Self::Replicas(replicas) => {
                put_names(replicas, body);
            }
            Self::Directory { entries, is_last } => {
                body.byte(u8::from(*is_last));
                body.count(entries.len());
                for entry in entries {
                    body.text(&entry.name);
                    body.text(&entry.guid);
                    body.number(entry.mode);
                    body.long(entry.size);
                }
            }
            Self::Link(target) => body.text(target),
            Self::Acl { owner, group, acl } => {
                body.text(owner);
                body.text(group);
                body.text(acl);
            }
        }
    }

    /// The reply in a message.
    ///
    /// # Errors
    /// The type is unknown, or the body does not have its form.
    pub fn decode(frame: Frame<'_>) -> Result<Self, CatalogueProtocolError> {
        let mut fields = Fields(frame.body);
        let reply = match frame.kind {
            kind::RESULT => result(&mut fields),
            kind::RESULTS => fields
                .list(MAX_BULK, |fields| fields.number().map(Status))
                .map(Self::Results),
            kind::ENTRIES => entries(&mut fields).map(Self::Entries),
            kind::REPLICAS => fields.list(MAX_REPLICAS, Fields::text).map(Self::Replicas),
            kind::DIRECTORY => directory(&mut fields),
            kind::LINK => fields.text().map(Self::Link),
            kind::ACL => acl(&mut fields),
            other => return Err(CatalogueProtocolError::Type(other)),
        };
        reply
            .filter(|_| fields.is_empty())
            .ok_or(CatalogueProtocolError::Body(frame.kind))
    }
}

fn put_found(found: &EntryData, body: &mut Vec<u8>) {
    body.long(found.file);
    body.text(&found.guid);
    body.number(found.mode);
    body.long(found.size);
    body.number(found.owner);
    put_names(&found.replicas, body);
}

fn put_names(names: &[String], body: &mut Vec<u8>) {
    body.count(names.len());
    for name in names {
        body.text(name);
    }
}

fn result(fields: &mut Fields<'_>) -> Option<Reply> {
    Some(Reply::Result(Status(fields.number()?), fields.text()?))
}

fn entries(fields: &mut Fields<'_>) -> Option<Vec<Option<EntryData>>> {
    fields.list(MAX_BULK, |fields| match fields.byte()? {
        0 => Some(None),
        1 => found(fields).map(Some),
        _ => None,
    })
}

fn found(fields: &mut Fields<'_>) -> Option<EntryData> {
    Some(EntryData {
        file: fields.long()?,
        guid: fields.text()?,
        mode: fields.number()?,
        size: fields.long()?,
        owner: fields.number()?,
        replicas: fields.list(MAX_REPLICAS, Fields::text)?,
    })
}

fn directory(fields: &mut Fields<'_>) -> Option<Reply> {
    let is_last = match fields.byte()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let entries = fields.list(MAX_BULK, |fields| {
        Some(DirectoryEntry {
            name: fields.text()?,
            guid: fields.text()?,
            mode: fields.number()?,
            size: fields.long()?,
        })
    })?;
    Some(Reply::Directory { entries, is_last })
}

fn acl(fields: &mut Fields<'_>) -> Option<Reply> {
    Some(Reply::Acl {
        owner: fields.text()?,
        group: fields.text()?,
        acl: fields.text()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_decoded_as_it_was_encoded_and_not_if_it_is_cut() {
        let found = EntryData {
            file: 1 << 33,
            guid: "g".into(),
            mode: 0o100_644,
            size: 5,
            owner: 101,
            replicas: vec!["srm://a".into(), "srm://b".into()],
        };
        let entry = DirectoryEntry {
            name: "n".into(),
            guid: String::new(),
            mode: 0o40_755,
            size: 0,
        };
        for reply in [
            Reply::Result(Status::FORBIDDEN, "permission denied".into()),
            Reply::Results(vec![Status::OK, Status::EXISTS]),
            Reply::Entries(vec![Some(found), None]),
            Reply::Replicas(vec!["srm://a".into()]),
            Reply::Directory {
                entries: vec![entry],
                is_last: true,
            },
            Reply::Link("/grid/a".into()),
            Reply::Acl {
                owner: "/O=Lab/CN=a".into(),
                group: String::new(),
                acl: "user::rw-".into(),
            },
        ] {
            let mut bytes = Vec::new();
            reply.encode(&mut bytes);
            let frame = Frame::parse(&bytes).unwrap().unwrap();
            for length in 0..frame.body.len() {
                let body = &frame.body[..length];
                assert!(Reply::decode(Frame { body, ..frame }).is_err(), "{reply:?}");
            }
            assert_eq!(Reply::decode(frame), Ok(reply));
        }
    }

    #[test]
    fn a_page_is_the_last_one_or_it_is_not() {
        let page = |is_last: u8| {
            let body = [is_last, 0, 0];
            let kind = kind::DIRECTORY;
            Reply::decode(Frame { kind, body: &body }).is_ok()
        };
        assert_eq!([0, 1, 2].map(page), [true, true, false]);
    }
}
