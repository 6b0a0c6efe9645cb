//! Numbers of variable length (LEB128): seven bits per byte, the lowest first. The eighth bit
//! states that more bytes follow.

/// Appends a number: 1 to 10 bytes.
#[inline]
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Maps numbers of small magnitude to small numbers: 0, -1, 1, -2 ... become 0, 1, 2, 3 ...
#[inline]
pub(super) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
#[inline]
pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Bytes that are read in order. A read past the end returns None.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads a number. None also if it has more than 64 bits.
    #[inline]
    pub fn number(&mut self) -> Option<u64> {
        let first = self.byte()?;
        if first < 0x80 {
            return Some(u64::from(first));
        }
        self.long_number(first)
    }

    /// Reads a length or an index.
    pub fn size(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    fn long_number(&mut self, first: u8) -> Option<u64> {
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_was_written_is_read_back() {
        let mut numbers = vec![0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        numbers.extend((0..64).map(|bit| 1_u64 << bit));
        let mut out = Vec::new();
        for &number in &numbers {
            put(&mut out, number);
            assert_eq!(unzigzag(zigzag(number as i64)), number as i64);
        }
        let mut bytes = Bytes(&out);
        let back: Vec<u64> = std::iter::from_fn(|| bytes.number()).collect();
        assert_eq!(back, numbers);
        assert!(bytes.is_empty());
        assert_eq!([0, -1, 1, -2].map(zigzag), [0, 1, 2, 3]);
    }

    #[test]
    fn a_cut_or_too_long_number_is_none() {
        assert_eq!(Bytes(&[0x80]).number(), None);
        assert_eq!(Bytes(&[0xff; 12]).number(), None);
        assert_eq!(
            Bytes(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2]).number(),
            None
        );
    }
}
