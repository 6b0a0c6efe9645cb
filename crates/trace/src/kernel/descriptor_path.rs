//! Parses the texts that strace writes after descriptors with `-y` and `-yy`.

use std::borrow::Cow;

use crate::names::Kind;
use crate::text::value;

/// The kind and the path (or other name) of the text in `3<...>`.
pub(super) fn parse(name: &[u8]) -> (Kind, Cow<'_, [u8]>) {
    if name.first() == Some(&b'/') {
        // `/dev/pts/0<char 136:0>`
        let plain = memchr::memchr(b'<', name).map_or(name, |angle| &name[..angle]);
        let kind =
            if plain.len() < name.len() || plain.starts_with(b"/dev/") && !plain.starts_with(b"/dev/shm/") {
                Kind::Device
            } else {
                Kind::File
            };
        return (kind, value::unescaped(plain));
    }
    let is = |prefixes: &[&[u8]]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let kind = if is(&[b"pipe:"]) {
        Kind::Pipe
    } else if is(&[b"socket:", b"TCP", b"UDP", b"UNIX", b"NETLINK", b"RAW", b"PACKET"]) {
        Kind::Socket
    } else {
        Kind::Other
    };
    (kind, Cow::Borrowed(name))
}
