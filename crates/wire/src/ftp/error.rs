//! Bytes that are not FTP.

/// Maximum length of a reply with all its lines, bytes.
pub const MAX_REPLY: usize = 64 * 1024;

/// Why the bytes of a server are not FTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FtpProtocolError {
    /// A line of a control connection does not begin with a code.
    #[error(
        "expected a reply with a code of three digits, got other bytes: check that the URL is that of an FTP \
         server"
    )]
    NoReply,
    /// A reply is longer than [`MAX_REPLY`].
    #[error("expected a reply of at most {MAX_REPLY} bytes, got a longer one")]
    LongReply,
    /// A reply does not contain the address that it must contain.
    #[error("expected an address for the data connection in the server's reply, found none")]
    NoAddress,
    /// A block of extended block mode contradicts the protocol.
    #[error("the blocks of extended block mode (MODE E) contradict the protocol: {0}")]
    Block(&'static str),
}
