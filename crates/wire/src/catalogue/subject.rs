//! The subject of an X.509 certificate as grids write it: `/O=Plimsoll/CN=tester`.
//!
//! The certificate has been verified before, so that this is no verification: a certificate that
//! does not have the usual form has no subject.

/// Names of the attributes of subjects, by their object identifiers.
const ATTRIBUTES: [(&[u8], &str); 8] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID"),
];
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// Tag of the version, which certificates of version 1 do not have.
const VERSION: u8 = 0xa0;
/// Maximum length of a subject, bytes: that of a column of names.
const MAX_SUBJECT: usize = 255;

/// The subject of a certificate in DER. None: the certificate does not have the usual form, or its
/// subject is empty, too long, or has attributes without a known name.
pub fn subject_text(certificate: &[u8]) -> Option<String> {
    let (_, certificate) = Der(certificate).expect(SEQUENCE)?;
    let (_, mut body) = Der(certificate).expect(SEQUENCE)?;
    if body.first() == Some(&VERSION) {
        (body, _) = Der(body).expect(VERSION)?;
    }
    // Serial number, signature, issuer, validity.
    for _ in 0..4 {
        (body, _) = Der(body).skip()?;
    }
    let (_, mut names) = Der(body).expect(SEQUENCE)?;
    let mut text = String::new();
    while !names.is_empty() {
        let (rest, set) = Der(names).expect(SET)?;
        let (_, attribute) = Der(set).expect(SEQUENCE)?;
        let (value, identifier) = Der(attribute).expect(OBJECT_IDENTIFIER)?;
        let (_, value) = Der(value).skip()?;
        let (_, name) = ATTRIBUTES.iter().find(|(known, _)| *known == identifier)?;
        let value = std::str::from_utf8(value).ok()?;
        if value.chars().any(char::is_control) {
            return None;
        }
        text.extend(["/", name, "=", value]);
        names = rest;
    }
    (1..=MAX_SUBJECT).contains(&text.len()).then_some(text)
}

/// Values in DER, one after the other.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The bytes after the next value, and its content.
    fn skip(self) -> Option<(&'a [u8], &'a [u8])> {
        let (&first, rest) = self.0.get(1..)?.split_first()?;
        let (length, rest) = if first < 0x80 {
            (usize::from(first), rest)
        } else {
            let count = usize::from(first & 0x7f);
            if !(1..=3).contains(&count) {
                return None;
            }
            let (bytes, rest) = rest.split_at_checked(count)?;
            let length = bytes
                .iter()
                .fold(0, |length, byte| length << 8 | usize::from(*byte));
            (length, rest)
        };
        let (content, rest) = rest.split_at_checked(length)?;
        Some((rest, content))
    }

    /// As [`Self::skip`], if the next value has this tag.
    fn expect(self, tag: u8) -> Option<(&'a [u8], &'a [u8])> {
        if self.0.first() == Some(&tag) {
            self.skip()
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The beginning of a certificate of OpenSSL up to its subject, with lengths that fit.
    fn certificate(subject: &[u8]) -> Vec<u8> {
        let value = |tag: u8, content: &[u8]| {
            let mut bytes = vec![tag];
            if content.len() < 0x80 {
                bytes.push(content.len() as u8);
            } else {
                bytes.extend([0x82, (content.len() >> 8) as u8, content.len() as u8]);
            }
            bytes.extend_from_slice(content);
            bytes
        };
        let fields = [
            value(VERSION, &value(2, &[2])),
            value(2, &[7]),
            value(SEQUENCE, b""),
            value(SEQUENCE, b"issuer"),
            value(SEQUENCE, &[0; 200]),
            value(SEQUENCE, subject),
            value(SEQUENCE, b"key"),
        ];
        let body = value(SEQUENCE, &fields.concat());
        value(SEQUENCE, &body)
    }

    /// From `openssl req -subj '/O=Plimsoll/CN=tester'`.
    const SUBJECT: &[u8] = b"\x31\x11\x30\x0f\x06\x03\x55\x04\x0a\x0c\x08Plimsoll\
        \x31\x0f\x30\x0d\x06\x03\x55\x04\x03\x0c\x06tester";

    #[test]
    fn a_subject_is_written_as_grids_do() {
        let whole = certificate(SUBJECT);
        assert_eq!(subject_text(&whole).as_deref(), Some("/O=Plimsoll/CN=tester"));
        for length in 0..whole.len() {
            assert_eq!(subject_text(&whole[..length]), None);
        }
        assert_eq!(subject_text(&certificate(b"")), None);
        let unknown = b"\x31\x0d\x30\x0b\x06\x03\x55\x04\x63\x0c\x04name";
        assert_eq!(subject_text(&certificate(unknown)), None);
    }
}
