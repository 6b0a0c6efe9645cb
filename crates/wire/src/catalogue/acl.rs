//! Access control lists after POSIX 1003.1e draft 17, in the long text form of the draft: one entry
//! per line, such as `user:/O=Lab/CN=reader:r--` or `default:group::r-x`.
//!
//! The name of an entry is between the first colon after its tag and the last colon of the line, so
//! that it may contain colons. Empty lines, and lines that begin with `#`, are skipped.

use std::fmt::{self, Display, Formatter};

/// Maximum number of entries of a list. With names of 255 bytes, the text of a list fits in a
/// message.
pub const MAX_ACL: usize = 200;
/// Maximum length of a name, bytes.
const MAX_NAME: usize = 255;
/// What precedes the entries that new entries of a directory inherit.
const DEFAULT: &str = "default:";
const PERMISSIONS: [(u32, u8); 3] = [(4, b'r'), (2, b'w'), (1, b'x')];

/// Whom an entry concerns. `N`: a name, or the number of a user or a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum AclTag<N> {
    /// The owner of the file.
    Owner,
    /// A user.
    User(N),
    /// The group of the file.
    OwningGroup,
    /// A group.
    Group(N),
    /// The greatest permissions of users, groups and the group of the file.
    Mask,
    /// Everybody else.
    Other,
}

/// An entry of a list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AclEntry<N> {
    /// Whether it belongs to the list that new entries of a directory inherit.
    pub is_default: bool,
    /// Whom it concerns.
    pub tag: AclTag<N>,
    /// Permissions of others, as in `st_mode`.
    pub permissions: u32,
}

/// A line of a list that is not an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected entries such as user::rw- or default:group:NAME:r-x, at most {MAX_ACL}, got {0:?}")]
pub struct AclTextError(pub String);

impl<N: Display> Display for AclEntry<N> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_default {
            f.write_str(DEFAULT)?;
        }
        match &self.tag {
            AclTag::Owner => f.write_str("user::"),
            AclTag::User(name) => write!(f, "user:{name}:"),
            AclTag::OwningGroup => f.write_str("group::"),
            AclTag::Group(name) => write!(f, "group:{name}:"),
            AclTag::Mask => f.write_str("mask::"),
            AclTag::Other => f.write_str("other::"),
        }?;
        PERMISSIONS.iter().try_for_each(|(bit, letter)| {
            let is_set = self.permissions & bit != 0;
            write!(f, "{}", char::from(if is_set { *letter } else { b'-' }))
        })
    }
}

/// The text of a list, without a newline at its end.
pub fn acl_text<N: Display>(entries: &[AclEntry<N>]) -> String {
    let lines: Vec<String> = entries.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// The entries of a text. Whether they are a complete list is not checked.
///
/// # Errors
/// A line is not an entry, or there are too many of them.
pub fn parse_acl(text: &str) -> Result<Vec<AclEntry<String>>, AclTextError> {
    let mut entries = Vec::new();
    for line in text.lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = entry(line).filter(|_| entries.len() < MAX_ACL);
        entries.push(entry.ok_or_else(|| AclTextError(line.to_owned()))?);
    }
    Ok(entries)
}

fn entry(line: &str) -> Option<AclEntry<String>> {
    let rest = line.strip_prefix(DEFAULT);
    let (tag, after) = rest.unwrap_or(line).split_once(':')?;
    let (name, letters) = after.rsplit_once(':')?;
    let is_named = !name.is_empty();
    let tag = match tag {
        "user" if is_named => AclTag::User(name.to_owned()),
        "group" if is_named => AclTag::Group(name.to_owned()),
        "user" => AclTag::Owner,
        "group" => AclTag::OwningGroup,
        "mask" if !is_named => AclTag::Mask,
        "other" if !is_named => AclTag::Other,
        _ => return None,
    };
    let is_valid = name.len() <= MAX_NAME && !name.chars().any(char::is_control);
    is_valid.then_some(AclEntry {
        is_default: rest.is_some(),
        tag,
        permissions: permissions(letters.as_bytes())?,
    })
}

fn permissions(letters: &[u8]) -> Option<u32> {
    if letters.len() != PERMISSIONS.len() {
        return None;
    }
    let bits = letters.iter().zip(PERMISSIONS);
    bits.map(|(found, (bit, letter))| match *found {
        b'-' => Some(0),
        found if found == letter => Some(bit),
        _ => None,
    })
    .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let text = "user::rwx\nuser:/O=Lab/CN=host:8443:r--\ngroup::r-x\ngroup:atlas:-wx\nmask::r-x\nother::---\n\
                    default:user::rw-\ndefault:group::---\ndefault:other::--x";
        let entries = parse_acl(text).unwrap();
        assert_eq!(acl_text(&entries), text);
        assert_eq!(
            entries[1],
            AclEntry {
                is_default: false,
                tag: AclTag::User("/O=Lab/CN=host:8443".into()),
                permissions: 4
            }
        );
        let commented = format!("# owner: a\n\n{text}\n");
        assert_eq!(parse_acl(&commented), Ok(entries));
    }

    #[test]
    fn what_is_no_entry_is_refused() {
        let long = format!("user:{}:r--", "a".repeat(256));
        for line in [
            "user",
            "user:r--",
            "user::rw",
            "user::rwxr",
            "user::wr-",
            "user::7",
            "mask:a:r--",
            "other:a:r--",
            "owner::r--",
            "default:default:user::r--",
            "user:a\tb:r--",
            &long,
        ] {
            assert_eq!(parse_acl(line), Err(AclTextError(line.into())), "{line}");
        }
        let many = "other::r--\n".repeat(MAX_ACL + 1);
        assert!(parse_acl(&many).is_err());
        assert_eq!(parse_acl(&many["other::r--\n".len()..]).unwrap().len(), MAX_ACL);
    }
}
