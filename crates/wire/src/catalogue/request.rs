//! Requests.

use super::error::CatalogueProtocolError;
use super::fields::{Fields, Put};
use super::frame::{self, Frame};

/// Maximum number of entries of a request.
pub const MAX_BULK: usize = 1000;

/// Types of requests. Those of LFC have its numbers.
mod kind {
    pub(super) const CREATE: u32 = 4;
    pub(super) const MAKE_DIRECTORY: u32 = 5;
    pub(super) const SET_MODE: u32 = 8;
    pub(super) const GET_ACL: u32 = 37;
    pub(super) const SET_ACL: u32 = 38;
    pub(super) const READ_LINK: u32 = 41;
    pub(super) const MAKE_LINK: u32 = 42;
    pub(super) const ADD_REPLICA: u32 = 43;
    pub(super) const DELETE_REPLICA: u32 = 44;
    pub(super) const LIST_REPLICAS: u32 = 45;
    pub(super) const START_TRANSACTION: u32 = 46;
    pub(super) const END_TRANSACTION: u32 = 47;
    pub(super) const ABORT_TRANSACTION: u32 = 48;
    pub(super) const STAT: u32 = 51;
    pub(super) const START_SESSION: u32 = 59;
    pub(super) const END_SESSION: u32 = 60;
    pub(super) const REGISTER: u32 = 1001;
    pub(super) const LOOKUP: u32 = 1002;
    pub(super) const LIST: u32 = 1003;
    pub(super) const DELETE: u32 = 1004;
}

/// What names an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// Its logical name: an absolute path.
    Path(String),
    /// Its GUID: 36 characters.
    Guid(String),
    /// The name of one of its replicas.
    Replica(String),
}

impl Key {
    fn put(&self, body: &mut Vec<u8>) {
        let (kind, text) = match self {
            Self::Path(text) => (0, text),
            Self::Guid(text) => (1, text),
            Self::Replica(text) => (2, text),
        };
        body.byte(kind);
        body.text(text);
    }

    fn take(fields: &mut Fields<'_>) -> Option<Self> {
        let kind = fields.byte()?;
        let text = fields.text()?;
        match kind {
            0 => Some(Self::Path(text)),
            1 => Some(Self::Guid(text)),
            2 => Some(Self::Replica(text)),
            _ => None,
        }
    }
}

/// An entry to register, with its first replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    /// Its logical name.
    pub path: String,
    /// Its GUID.
    pub guid: String,
    /// Size of the file, bytes.
    pub size: u64,
    /// Permissions.
    pub mode: u32,
    /// Name of the replica.
    pub replica: String,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Begins a session. `subject`: who the client is, for servers without security; with TLS, it
    /// is that of the certificate.
    StartSession {
        /// Subject of the client, such as `/O=Plimsoll/CN=tester`; empty: unknown.
        subject: String,
    },
    /// Ends the session. The server answers and closes the connection.
    EndSession,
    /// Begins a transaction, which ends with the session if it is not committed.
    StartTransaction,
    /// Commits the transaction.
    EndTransaction,
    /// Undoes the transaction.
    AbortTransaction,
    /// Creates an entry without a replica.
    Create {
        /// Its logical name.
        path: String,
        /// Its GUID.
        guid: String,
        /// Permissions.
        mode: u32,
        /// Size of the file, bytes.
        size: u64,
    },
    /// Creates a directory.
    MakeDirectory {
        /// Its logical name.
        path: String,
        /// Permissions.
        mode: u32,
    },
    /// Changes the permissions of an entry or a directory.
    SetMode {
        /// Its logical name.
        path: String,
        /// Permissions.
        mode: u32,
    },
    /// Creates a symbolic link.
    MakeLink {
        /// Its logical name.
        path: String,
        /// The path to which it leads: absolute, or relative to the directory of the link.
        target: String,
    },
    /// Reads the path to which a symbolic link leads.
    ReadLink {
        /// Its logical name.
        path: String,
    },
    /// Reads the ACL of an entry or a directory.
    GetAcl {
        /// Its logical name.
        path: String,
    },
    /// Replaces the ACL of an entry or a directory.
    SetAcl {
        /// Its logical name.
        path: String,
        /// The ACL in its text form ([`parse_acl`](super::parse_acl)).
        acl: String,
    },
    /// Adds a replica to an entry.
    AddReplica {
        /// GUID of the entry.
        guid: String,
        /// Name of the replica.
        replica: String,
    },
    /// Removes a replica.
    DeleteReplica {
        /// Name of the replica.
        replica: String,
    },
    /// Reads an entry.
    Stat(Key),
    /// Lists the replicas of an entry.
    ListReplicas(Key),
    /// Registers entries with their replicas. Each entry succeeds or fails on its own.
    Register(Vec<NewEntry>),
    /// Reads entries with their replicas.
    Lookup(Vec<Key>),
    /// Lists a directory, in pages.
    List {
        /// Path of the directory.
        path: String,
        /// Last name of the page before; empty: the first page.
        after: String,
        /// Maximum number of names, 1 to 1,000.
        max: u16,
    },
    /// Deletes entries with their replicas. Each entry succeeds or fails on its own.
    Delete(Vec<Key>),
}

impl Request {
    /// Appends the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        frame::put(out, self.kind(), |body| self.put(body));
    }

    fn kind(&self) -> u32 {
        match self {
            Self::StartSession { .. } => kind::START_SESSION,
            Self::EndSession => kind::END_SESSION,
            Self::StartTransaction => kind::START_TRANSACTION,
            Self::EndTransaction => kind::END_TRANSACTION,
            Self::AbortTransaction => kind::ABORT_TRANSACTION,
            Self::Create { .. } => kind::CREATE,
            Self::MakeDirectory { .. } => kind::MAKE_DIRECTORY,
            Self::SetMode { .. } => kind::SET_MODE,
            Self::MakeLink { .. } => kind::MAKE_LINK,
            Self::ReadLink { .. } => kind::READ_LINK,
            Self::GetAcl { .. } => kind::GET_ACL,
            Self::SetAcl { .. } => kind::SET_ACL,
            Self::AddReplica { .. } => kind::ADD_REPLICA,
            Self::DeleteReplica { .. } => kind::DELETE_REPLICA,
            Self::Stat(_) => kind::STAT,
            Self::ListReplicas(_) => kind::LIST_REPLICAS,
            Self::Register(_) => kind::REGISTER,
            Self::Lookup(_) => kind::LOOKUP,
            Self::List { .. } => kind::LIST,
            Self::Delete(_) => kind::DELETE,
        }
    }

    fn put(&self, body: &mut Vec<u8>) {
        match self {
            Self::EndSession | Self::StartTransaction | Self::EndTransaction | Self::AbortTransaction => {}
            Self::StartSession { subject: text }
            | Self::DeleteReplica { replica: text }
            | Self::ReadLink { path: text }
            | Self::GetAcl { path: text } => body.text(text),
            Self::Create {
                path,
                guid,
                mode,
                size,
            } => {
                body.text(path);
                body.text(guid);
                body.number(*mode);
                body.long(*size);
            }
            Self::MakeDirectory { path, mode } | Self::SetMode { path, mode } => {
                body.text(path);
                body.number(*mode);
            }
            Self::AddReplica {
                guid: name,
                replica: text,
            }
            | Self::MakeLink {
                path: name,
                target: text,
            }
            | Self::SetAcl {
                path: name,
                acl: text,
            } => {
                body.text(name);
                body.text(text);
            }
            Self::Stat(key) | Self::ListReplicas(key) => key.put(body),
            Self::Register(entries) => {
                body.count(entries.len());
                for entry in entries {
                    body.text(&entry.path);
                    body.text(&entry.guid);
                    body.long(entry.size);
                    body.number(entry.mode);
                    body.text(&entry.replica);
                }
            }
            Self::Lookup(keys) | Self::Delete(keys) => {
                body.count(keys.len());
                for key in keys {
                    key.put(body);
                }
            }
            Self::List { path, after, max } => {
                body.text(path);
                body.text(after);
                body.short(*max);
            }
        }
    }

    /// The request in a message.
    ///
    /// # Errors
    /// The type is unknown, or the body does not have its form.
    pub fn decode(frame: Frame<'_>) -> Result<Self, CatalogueProtocolError> {
        let mut fields = Fields(frame.body);
        let request = Self::take(frame.kind, &mut fields)?;
        request
            .filter(|_| fields.is_empty())
            .ok_or(CatalogueProtocolError::Body(frame.kind))
    }

    fn take(kind: u32, fields: &mut Fields<'_>) -> Result<Option<Self>, CatalogueProtocolError> {
        Ok(match kind {
            kind::START_SESSION => fields.text().map(|subject| Self::StartSession { subject }),
            kind::END_SESSION => Some(Self::EndSession),
            kind::START_TRANSACTION => Some(Self::StartTransaction),
            kind::END_TRANSACTION => Some(Self::EndTransaction),
            kind::ABORT_TRANSACTION => Some(Self::AbortTransaction),
            kind::CREATE => create(fields),
            kind::MAKE_DIRECTORY => {
                path_and_mode(fields).map(|(path, mode)| Self::MakeDirectory { path, mode })
            }
            kind::SET_MODE => path_and_mode(fields).map(|(path, mode)| Self::SetMode { path, mode }),
            kind::ADD_REPLICA => two_texts(fields).map(|(guid, replica)| Self::AddReplica { guid, replica }),
            kind::MAKE_LINK => two_texts(fields).map(|(path, target)| Self::MakeLink { path, target }),
            kind::SET_ACL => two_texts(fields).map(|(path, acl)| Self::SetAcl { path, acl }),
            kind::READ_LINK => fields.text().map(|path| Self::ReadLink { path }),
            kind::GET_ACL => fields.text().map(|path| Self::GetAcl { path }),
            kind::DELETE_REPLICA => fields.text().map(|replica| Self::DeleteReplica { replica }),
            kind::STAT => Key::take(fields).map(Self::Stat),
            kind::LIST_REPLICAS => Key::take(fields).map(Self::ListReplicas),
            kind::REGISTER => fields.list(MAX_BULK, entry).map(Self::Register),
            kind::LOOKUP => fields.list(MAX_BULK, Key::take).map(Self::Lookup),
            kind::DELETE => fields.list(MAX_BULK, Key::take).map(Self::Delete),
            kind::LIST => page(fields),
            other => return Err(CatalogueProtocolError::Type(other)),
        })
    }
}

fn path_and_mode(fields: &mut Fields<'_>) -> Option<(String, u32)> {
    Some((fields.text()?, fields.number()?))
}

fn two_texts(fields: &mut Fields<'_>) -> Option<(String, String)> {
    Some((fields.text()?, fields.text()?))
}

fn create(fields: &mut Fields<'_>) -> Option<Request> {
    Some(Request::Create {
        path: fields.text()?,
        guid: fields.text()?,
        mode: fields.number()?,
        size: fields.long()?,
    })
}

fn entry(fields: &mut Fields<'_>) -> Option<NewEntry> {
    Some(NewEntry {
        path: fields.text()?,
        guid: fields.text()?,
        size: fields.long()?,
        mode: fields.number()?,
        replica: fields.text()?,
    })
}

fn page(fields: &mut Fields<'_>) -> Option<Request> {
    let (path, after, max) = (fields.text()?, fields.text()?, fields.short()?);
    (1..=MAX_BULK)
        .contains(&usize::from(max))
        .then_some(Request::List { path, after, max })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests() -> Vec<Request> {
        let text = |text: &str| text.to_owned();
        vec![
            Request::StartSession {
                subject: text("/O=Plimsoll/CN=tester"),
            },
            Request::EndSession,
            Request::StartTransaction,
            Request::EndTransaction,
            Request::AbortTransaction,
            Request::Create {
                path: text("/grid/a"),
                guid: text("g"),
                mode: 0o644,
                size: 1 << 40,
            },
            Request::MakeDirectory {
                path: text("/grid/d"),
                mode: 0o755,
            },
            Request::SetMode {
                path: text("/grid/ä"),
                mode: 0o600,
            },
            Request::AddReplica {
                guid: text("g"),
                replica: text("srm://h/f"),
            },
            Request::DeleteReplica { replica: text("r") },
            Request::MakeLink {
                path: text("/grid/l"),
                target: text("../d"),
            },
            Request::ReadLink {
                path: text("/grid/l"),
            },
            Request::GetAcl {
                path: text("/grid/d"),
            },
            Request::SetAcl {
                path: text("/grid/d"),
                acl: text("user::rwx"),
            },
            Request::Stat(Key::Path(text("/"))),
            Request::ListReplicas(Key::Guid(text("g"))),
            Request::Register(vec![NewEntry {
                path: text("/grid/b"),
                guid: text("h"),
                size: 0,
                mode: 0o664,
                replica: text("s"),
            }]),
            Request::Lookup(vec![Key::Replica(text("s")), Key::Path(text("/grid"))]),
            Request::List {
                path: text("/grid"),
                after: String::new(),
                max: 100,
            },
            Request::Delete(Vec::new()),
        ]
    }

    #[test]
    fn a_request_is_decoded_as_it_was_encoded() {
        for request in requests() {
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            let frame = Frame::parse(&bytes).unwrap().unwrap();
            assert_eq!(frame.length(), bytes.len());
            assert_eq!(Request::decode(frame), Ok(request));
        }
    }

    #[test]
    fn a_body_that_is_cut_or_too_long_is_refused() {
        for request in requests() {
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            let frame = Frame::parse(&bytes).unwrap().unwrap();
            let wrong = Err(CatalogueProtocolError::Body(frame.kind));
            for length in 0..frame.body.len() {
                let body = &frame.body[..length];
                assert_eq!(Request::decode(Frame { body, ..frame }), wrong, "{request:?}");
            }
            let longer = [frame.body, b"x"].concat();
            let body = &longer;
            assert_eq!(Request::decode(Frame { body, ..frame }), wrong, "{request:?}");
        }
        let unknown = Frame { kind: 7, body: b"" };
        assert_eq!(Request::decode(unknown), Err(CatalogueProtocolError::Type(7)));
    }

    #[test]
    fn limits_of_lists_and_texts_are_checked() {
        let mut bytes = Vec::new();
        Request::Lookup(vec![Key::Guid(String::new()); MAX_BULK + 1]).encode(&mut bytes);
        let frame = Frame::parse(&bytes).unwrap().unwrap();
        assert!(Request::decode(frame).is_err());
        bytes.clear();
        Request::Stat(Key::Path("a\0b".into())).encode(&mut bytes);
        let frame = Frame::parse(&bytes).unwrap().unwrap();
        assert!(Request::decode(frame).is_err());
    }

    /// The bytes of LFC's session request, but for the magic and the fields of the body.
    #[test]
    fn the_numbers_are_those_of_lfc() {
        let mut bytes = Vec::new();
        let subject = "x".to_owned();
        Request::StartSession { subject }.encode(&mut bytes);
        assert_eq!(bytes, b"\x03PLC\0\0\0\x3b\0\0\0\x03\0\x01x");
    }
}
