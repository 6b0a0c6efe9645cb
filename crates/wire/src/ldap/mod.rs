//! LDAP version 3 as a client speaks it (RFC 4511): bind, search, paged results (RFC 2696) and
//! `StartTLS`.
//!
//! [`Scanner`] splits the bytes of a server into messages. It counts entries and discards them, so
//! that an entry of any size needs no memory; all other messages are short. `lber` encodes requests
//! and decodes these messages.
//!
//! Rejected: a codec of whole messages for entries. It keeps an entry in memory before it returns
//! it, and most of its work is to copy values that nobody reads.

mod error;
mod filter;
mod header;
mod message;
mod result;
mod scanner;

pub use error::{LdapProtocolError, MAX_MESSAGE};
pub use filter::{EncodedFilter, Filter, FilterError};
pub use message::{Bind, Page, Reply, ReplyKind, Scope, Search, bind, search, start_tls, unbind};
pub use result::{LdapResult, SIZE_LIMIT_EXCEEDED, SUCCESS};
pub use scanner::{Event, Scanner};
