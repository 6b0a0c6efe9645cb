//! The first byte of a connection to a sink, the remote end of a measurement of a network path.

/// The sink sends bytes until the client closes.
pub const SENDS: u8 = b'S';
/// The sink reads and discards all further bytes. It treats every other first byte in the same way.
pub const TAKES: u8 = b'T';
