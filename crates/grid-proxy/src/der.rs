//! Values in DER: a tag, a length, a content.

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(crate) const PRINTABLE_STRING: u8 = 0x13;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// A value.
pub(crate) struct Value<'a> {
    pub(crate) content: &'a [u8],
    /// Tag, length and content.
    pub(crate) whole: &'a [u8],
}

/// Takes the first value from `input`. None, and `input` is unchanged: it is not a value in DER, or
/// one with a tag of several bytes, or longer than 16 MB.
pub(crate) fn next<'a>(input: &mut &'a [u8]) -> Option<Value<'a>> {
    let bytes = *input;
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    if tag & 0x1f == 0x1f {
        return None;
    }
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let count = usize::from(first & 0x7f);
        if !(1..=3).contains(&count) {
            return None;
        }
        let (octets, rest) = rest.split_at_checked(count)?;
        let length = octets
            .iter()
            .fold(0, |length, octet| length << 8 | usize::from(*octet));
        // DER has the shortest form of a length only.
        if octets[0] == 0 || length < 0x80 {
            return None;
        }
        (length, rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    *input = rest;
    let whole = &bytes[..bytes.len() - rest.len()];
    Some(Value { content, whole })
}

/// As [`next`], if the first value has this tag.
pub(crate) fn expect<'a>(input: &mut &'a [u8], tag: u8) -> Option<Value<'a>> {
    if input.first() == Some(&tag) {
        next(input)
    } else {
        None
    }
}

/// Encodes a value. The content is the concatenation of `parts`.
pub(crate) fn value(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut bytes = vec![tag];
    if length < 0x80 {
        bytes.push(length as u8);
    } else {
        let octets = length.to_be_bytes();
        let zeros = octets.iter().take_while(|octet| **octet == 0).count();
        bytes.push(0x80 | (octets.len() - zeros) as u8);
        bytes.extend_from_slice(&octets[zeros..]);
    }
    for part in parts {
        bytes.extend_from_slice(part);
    }
    bytes
}

/// Encodes a number that is not negative.
pub(crate) fn integer(number: u64) -> Vec<u8> {
    let octets = number.to_be_bytes();
    let zeros = octets
        .iter()
        .take_while(|octet| **octet == 0)
        .count()
        .min(octets.len() - 1);
    let digits = &octets[zeros..];
    // The first bit is that of the sign.
    let sign: &[u8] = if digits[0] >= 0x80 { &[0] } else { &[] };
    value(INTEGER, &[sign, digits])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for length in [0, 1, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x1_0000] {
            let content = vec![7; length];
            let bytes = value(OCTET_STRING, &[&content]);
            let mut input = bytes.as_slice();
            let found = expect(&mut input, OCTET_STRING).unwrap();
            assert_eq!((found.content, found.whole), (&content[..], &bytes[..]));
            assert!(input.is_empty());
            for end in 0..bytes.len().min(40) {
                assert!(next(&mut &bytes[..end]).is_none());
            }
        }
    }

    #[test]
    fn a_length_that_is_not_the_shortest_is_refused() {
        for bytes in [
            &[4, 0x81, 1, 0][..],
            &[4, 0x82, 0, 0x80],
            &[4, 0x80, 0, 0],
            &[4, 0x84, 0, 0, 0, 1, 0],
            &[0x1f, 1, 0],
        ] {
            let mut input = bytes;
            assert!(next(&mut input).is_none(), "{bytes:x?}");
        }
    }

    #[test]
    fn integers_have_a_sign() {
        assert_eq!(integer(0), [2, 1, 0]);
        assert_eq!(integer(0x7f), [2, 1, 0x7f]);
        assert_eq!(integer(0x80), [2, 2, 0, 0x80]);
        assert_eq!(
            integer(u64::MAX),
            [2, 9, 0, 255, 255, 255, 255, 255, 255, 255, 255]
        );
    }
}
