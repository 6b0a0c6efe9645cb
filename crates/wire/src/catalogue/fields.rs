//! Fields of bodies.

/// Maximum length of a text, bytes.
pub(super) const MAX_TEXT: usize = u16::MAX as usize;

/// Appends fields to a body.
pub(super) trait Put {
    fn byte(&mut self, value: u8);
    fn short(&mut self, value: u16);
    fn number(&mut self, value: u32);
    fn long(&mut self, value: u64);
    /// A text longer than [`MAX_TEXT`] is cut: a server refuses such paths.
    fn text(&mut self, text: &str);
    /// The count of a list. Longer lists are not encoded: see [`super::request::MAX_BULK`].
    fn count(&mut self, count: usize);
}

impl Put for Vec<u8> {
    fn byte(&mut self, value: u8) {
        self.push(value);
    }

    fn short(&mut self, value: u16) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn number(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn long(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn text(&mut self, text: &str) {
        let text = &text.as_bytes()[..text.len().min(MAX_TEXT)];
        self.short(text.len() as u16);
        self.extend_from_slice(text);
    }

    fn count(&mut self, count: usize) {
        self.short(u16::try_from(count).unwrap_or(u16::MAX));
    }
}

/// Reads the fields of a body. None: the body is too short, or a field is invalid.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*bytes)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(super) fn short(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    pub(super) fn number(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    pub(super) fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    /// A text. One with a NUL is invalid: no database stores it.
    pub(super) fn text(&mut self) -> Option<String> {
        let length = usize::from(self.short()?);
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        let text = std::str::from_utf8(bytes).ok()?;
        (!text.contains('\0')).then(|| text.to_owned())
    }

    /// A list of at most `max` items. The items of a message exist when they are read, so that the
    /// count alone reserves no memory.
    pub(super) fn list<T>(
        &mut self,
        max: usize,
        mut item: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count = usize::from(self.short()?);
        if count > max {
            return None;
        }
        (0..count).map(|_| item(self)).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
