//! FTP (RFC 959) with the extensions of `GridFTP` (GFD.20) as a client uses them: replies,
//! addresses of data connections, blocks of extended block mode, and checksums of the content.
//!
//! Everything works on the bytes as they arrive. Data are never kept, so that a file of any size
//! needs no memory.
//!
//! Left out: SPOR, with which several data servers send.

mod address;
mod block;
mod checksum;
mod error;
mod reply;

pub use address::{
    extended_passive_port, passive_port, port_command, striped_passive_addresses, striped_port_command,
};
pub use block::{Block, BlockReader, CLOSE, END_OF_DATA, END_OF_FILE, Ends, HEADER, header};
pub use checksum::{Checksum, ChecksumKind};
pub use error::{FtpProtocolError, MAX_REPLY};
pub use reply::{Reply, ReplyReader};
