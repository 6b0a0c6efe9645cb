//! Names beneath the root, split once for all calls.

use std::ffi::{CStr, CString};

/// A name that begins at the root. It may contain `..` and links: its resolution shows whether it
/// stays beneath the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    whole: CString,
    /// The part before the last component; none if the component is in the root.
    parent: Option<CString>,
    /// Offset of the last component, bytes.
    last: usize,
}

impl Name {
    /// A name from bytes with slashes between components. Leading and doubled slashes and `.` are
    /// removed. An empty name is the root itself. None if it contains a zero byte.
    pub fn new(relative: &[u8]) -> Option<Self> {
        let parts: Vec<_> = relative
            .split(|&byte| byte == b'/')
            .filter(|part| !part.is_empty() && *part != b".")
            .collect();
        let Some((last, before)) = parts.split_last() else {
            return Some(Self {
                whole: c".".to_owned(),
                parent: None,
                last: 0,
            });
        };
        let parent = before.join(&b'/');
        let mut whole = parent.clone();
        if !parent.is_empty() {
            whole.push(b'/');
        }
        let offset = whole.len();
        whole.extend_from_slice(last);
        Some(Self {
            whole: CString::new(whole).ok()?,
            parent: if parent.is_empty() {
                None
            } else {
                Some(CString::new(parent).ok()?)
            },
            last: offset,
        })
    }

    /// The whole name; `.` for the root.
    pub fn whole(&self) -> &CStr {
        &self.whole
    }

    pub(super) fn parent(&self) -> Option<&CStr> {
        self.parent.as_deref()
    }

    /// The last component.
    pub(super) fn last(&self) -> &CStr {
        &self.whole.as_c_str()[self.last..]
    }

    /// Whether the last component is a name that a directory can contain.
    pub(super) fn has_last(&self) -> bool {
        !matches!(self.last().to_bytes(), b"." | b"..")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_split_before_its_last_component() {
        let name = Name::new(b"/a//./b/c/").unwrap();
        assert_eq!(name.whole(), c"a/b/c");
        assert_eq!(name.parent(), Some(c"a/b"));
        assert_eq!(name.last(), c"c");
        let name = Name::new(b"a").unwrap();
        assert_eq!((name.parent(), name.last()), (None, c"a"));
        assert!(!Name::new(b"").unwrap().has_last());
        assert!(!Name::new(b"a/..").unwrap().has_last());
        assert_eq!(Name::new(b"a\0b"), None);
    }
}
