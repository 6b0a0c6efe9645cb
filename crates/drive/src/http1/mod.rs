//! An HTTP/1.1 client for the drivers that use it: heads, bodies, connections.

pub mod body;
pub mod connection;
pub mod head;
pub mod response;
pub mod timeouts;
