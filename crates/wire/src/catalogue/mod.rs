//! The protocol of the file catalogue: a compact binary protocol in the manner of LFC.
//!
//! LFC is the file catalogue that grids used from 2004 on. The frame is its frame, and an operation
//! of both has its number: all numbers are big-endian, and a message is
//!
//! ```text
//! u32 magic   u32 type   u32 length of the body   body
//! ```
//!
//! Bodies are our own: a text has a `u16` length, a list a `u16` count. A client sends one request
//! at a time. The security of LFC (GSI tokens before the first request) is TLS here.
//!
//! The differences from LFC: the length is that of the body in both directions; there is no current
//! directory; a cursor of a directory is the last name, so that the server stores nothing between
//! two pages; [`Request::Register`], [`Request::Lookup`] and [`Request::Delete`] perform in one
//! round trip what LFC's calls need several for; an ACL is a text with names instead of numbers.
//!
//! The protocol has no version. What is added has types of its own, so that the messages of older
//! clients and servers do not change: a server that does not know the type of a request closes the
//! connection. Links and ACLs were added in this way.

mod acl;
mod error;
mod fields;
mod frame;
mod names;
mod reply;
mod request;
pub mod rucio;
pub mod soap;
mod subject;

pub use acl::{AclEntry, AclTag, AclTextError, MAX_ACL, acl_text, parse_acl};
pub use error::{CatalogueProtocolError, Status};
pub use frame::{Frame, HEADER, MAX_BODY};
pub use names::{DataSet, ROOT_DIRECTORIES, guid_of};
pub use reply::{DirectoryEntry, EntryData, Reply};
pub use request::{Key, MAX_BULK, NewEntry, Request};
pub use subject::Subject;
