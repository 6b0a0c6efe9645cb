//! Authentication of `MariaDB` and `MySQL` that does not send the password.

use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::sql::SqlProtocolError;

/// Authentication methods that need no TLS; `caching_sha2_password` only if the server has the hash
/// of the password in its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    /// `mysql_native_password`.
    Native,
    /// `caching_sha2_password`.
    CachingSha2,
}

impl Method {
    /// The method with this name; none if it is not supported.
    pub(super) fn from_name(name: &[u8]) -> Option<Self> {
        match name {
            b"mysql_native_password" => Some(Self::Native),
            b"caching_sha2_password" => Some(Self::CachingSha2),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Native => "mysql_native_password",
            Self::CachingSha2 => "caching_sha2_password",
        }
    }

    /// The proof for `nonce`, the server's 20 random bytes; empty for an empty password.
    pub(super) fn proof(self, password: &str, nonce: &[u8]) -> Vec<u8> {
        if password.is_empty() {
            return Vec::new();
        }
        match self {
            Self::Native => native(password, nonce),
            Self::CachingSha2 => caching_sha2(password, nonce),
        }
    }
}

/// SHA1(password) xor SHA1(nonce, SHA1(SHA1(password))).
fn native(password: &str, nonce: &[u8]) -> Vec<u8> {
    let once = Sha1::digest(password.as_bytes());
    let twice = Sha1::digest(once);
    let mask = Sha1::new().chain_update(nonce).chain_update(twice).finalize();
    once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

/// SHA256(password) xor SHA256(SHA256(SHA256(password)), nonce).
fn caching_sha2(password: &str, nonce: &[u8]) -> Vec<u8> {
    let once = Sha256::digest(password.as_bytes());
    let twice = Sha256::digest(once);
    let mask = Sha256::new().chain_update(twice).chain_update(nonce).finalize();
    once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

/// The error for a method that is not supported.
pub(super) fn unknown(name: &[u8]) -> SqlProtocolError {
    SqlProtocolError::Login(format!(
        "the server requests {}: set the method of the user to mysql_native_password or caching_sha2_password",
        String::from_utf8_lossy(name)
    ))
}

/// The error for a server that does not have the hash of the password in its cache and requests the
/// password itself.
pub(super) fn full() -> SqlProtocolError {
    SqlProtocolError::Login(
        "caching_sha2_password requests the password itself, which is sent only over TLS: connect with TLS \
         (sql.tls); or log in once with the server's own client, which puts the password into the server's \
         cache; or set the method of the user to mysql_native_password"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        use std::fmt::Write as _;
        bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// Computed with Python's hashlib from the formulas in the manuals of the servers.
    #[test]
    fn proofs_equal_those_of_a_second_implementation() {
        let nonce: Vec<u8> = (1..=20).collect();
        assert_eq!(
            hex(&Method::Native.proof("secret", &nonce)),
            "b32bb3a583e1340c0a1108d58b1be49781ad8c2f"
        );
        assert_eq!(
            hex(&Method::CachingSha2.proof("secret", &nonce)),
            "746ebe205d56a0707acb3e796e834e0dd7b1d61743b26bd5202c7a623230c7c9"
        );
        assert!(Method::Native.proof("", &nonce).is_empty());
        assert!(Method::CachingSha2.proof("", &nonce).is_empty());
    }
}
