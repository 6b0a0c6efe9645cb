//! Bytes that are not the protocol, and the results that a catalogue reports.

use super::frame::MAX_BODY;

/// Why bytes are not a message of the protocol. The connection cannot be used afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueProtocolError {
    /// The first bytes are not those of a message.
    #[error("expected a message of the catalogue protocol, got other bytes")]
    Magic,
    /// The body is too long.
    #[error("expected a message of at most {MAX_BODY} bytes, got one of {0} bytes")]
    TooLong(u32),
    /// The type is not known.
    #[error("a message has the unknown type {0}")]
    Type(u32),
    /// The body does not have the form of its type.
    #[error("the body of a message of type {0} does not have the form of this type")]
    Body(u32),
}

/// The result of an operation: numbers of errors of Linux, as in LFC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u32);

impl Status {
    /// The operation was carried out.
    pub const OK: Self = Self(0);
    /// There is no such entry.
    pub const NO_ENTRY: Self = Self(libc_number::ENOENT);
    /// The client may not do this.
    pub const FORBIDDEN: Self = Self(libc_number::EACCES);
    /// Another session holds what the operation needs.
    pub const BUSY: Self = Self(libc_number::EBUSY);
    /// The entry exists.
    pub const EXISTS: Self = Self(libc_number::EEXIST);
    /// A part of the path is not a directory.
    pub const NOT_DIRECTORY: Self = Self(libc_number::ENOTDIR);
    /// The entry is a directory.
    pub const IS_DIRECTORY: Self = Self(libc_number::EISDIR);
    /// A value of the request is invalid.
    pub const INVALID: Self = Self(libc_number::EINVAL);
    /// The path has too many symbolic links.
    pub const LINKS: Self = Self(libc_number::ELOOP);
    /// The database failed (LFC: internal error).
    pub const INTERNAL: Self = Self(1015);

    /// The text of the result.
    pub fn text(self) -> &'static str {
        match self {
            Self::OK => "done",
            Self::NO_ENTRY => "no such entry",
            Self::FORBIDDEN => "permission denied",
            Self::BUSY => "busy",
            Self::EXISTS => "entry exists",
            Self::NOT_DIRECTORY => "not a directory",
            Self::IS_DIRECTORY => "is a directory",
            Self::INVALID => "invalid request",
            Self::LINKS => "too many links",
            Self::INTERNAL => "catalogue error",
            _ => "unknown result",
        }
    }
}

/// Numbers of Linux. They are part of the protocol, so they do not depend on the platform.
mod libc_number {
    pub(super) const ENOENT: u32 = 2;
    pub(super) const EACCES: u32 = 13;
    pub(super) const EBUSY: u32 = 16;
    pub(super) const EEXIST: u32 = 17;
    pub(super) const ENOTDIR: u32 = 20;
    pub(super) const EISDIR: u32 = 21;
    pub(super) const EINVAL: u32 = 22;
    pub(super) const ELOOP: u32 = 40;
}
