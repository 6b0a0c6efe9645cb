//! Bytes that are not LDAP.

/// Maximum length of a message that is neither an entry nor a reference, bytes.
pub const MAX_MESSAGE: u64 = 1 << 20;

/// Why the bytes are not LDAP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LdapProtocolError {
    /// The bytes are not a message of a server.
    #[error("expected an LDAP message, got other bytes: check that the URL is that of an LDAP server")]
    Invalid,
    /// A result is longer than [`MAX_MESSAGE`].
    #[error("expected a result of at most {MAX_MESSAGE} bytes, got one of {0} bytes")]
    TooLong(u64),
}
