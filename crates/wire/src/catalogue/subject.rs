//! The subject of an X.509 certificate as grids write it, `/O=Plimsoll/OU=lab/CN=tester`, and the
//! groups of its holder: its organisational units (`OU`), in their order.
//!
//! Grids have the groups of a user from attribute certificates (VOMS). Those need a service that
//! issues them; units are in any certificate.
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
/// The attribute whose values are groups.
const GROUP: &str = "OU";
/// Maximum number of groups of a subject. Further ones are left out.
const MAX_GROUPS: usize = 32;

/// Who a client is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// The subject as a text; empty: unknown.
    pub text: String,
    /// Names of its groups. The first one is its primary group.
    pub groups: Vec<String>,
}

impl Subject {
    /// The subject of a certificate in DER. None: the certificate does not have the usual form, or
    /// its subject is empty, too long, or has attributes without a known name.
    ///
    /// The groups are those of the attributes and not of the text: a name may contain `/OU=`.
    pub fn of_certificate(certificate: &[u8]) -> Option<Self> {
        let mut subject = Self::default();
        for (name, value) in attributes(certificate)? {
            subject.text.extend(["/", name, "=", value]);
            if name == GROUP {
                subject.add_group(value);
            }
        }
        (1..=MAX_SUBJECT).contains(&subject.text.len()).then_some(subject)
    }

    /// The subject that a client without a certificate states. A group ends at the next `/`.
    pub fn of_text(text: &str) -> Self {
        let mut subject = Self {
            text: text.to_owned(),
            groups: Vec::new(),
        };
        for part in text.split('/') {
            if let Some((GROUP, value)) = part.split_once('=') {
                subject.add_group(value);
            }
        }
        subject
    }

    fn add_group(&mut self, name: &str) {
        let is_new = !name.is_empty() && !self.groups.iter().any(|known| known == name);
        if is_new && self.groups.len() < MAX_GROUPS {
            self.groups.push(name.to_owned());
        }
    }
}

/// The attributes of the subject of a certificate: names and values.
fn attributes(certificate: &[u8]) -> Option<Vec<(&'static str, &str)>> {
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
    let mut attributes = Vec::new();
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
        attributes.push((*name, value));
        names = rest;
    }
    Some(attributes)
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

    fn subject_text(certificate: &[u8]) -> Option<String> {
        Subject::of_certificate(certificate).map(|subject| subject.text)
    }

    #[test]
    fn the_units_of_a_subject_are_its_groups() {
        let unit = |name: &str| {
            let length = name.len() as u8;
            let head = [
                SET,
                length + 9,
                SEQUENCE,
                length + 7,
                OBJECT_IDENTIFIER,
                3,
                0x55,
                4,
                11,
                0x0c,
                length,
            ];
            [&head[..], name.as_bytes()].concat()
        };
        // From `openssl req -subj '/O=Plimsoll/OU=atlas/OU=prod/OU=atlas/CN=tester'`.
        let units = [unit("atlas"), unit("prod"), unit("atlas")].concat();
        let whole = certificate(&[&SUBJECT[..19], &units, &SUBJECT[19..]].concat());
        let found = Subject::of_certificate(&whole).unwrap();
        assert_eq!(found.text, "/O=Plimsoll/OU=atlas/OU=prod/OU=atlas/CN=tester");
        assert_eq!(found.groups, ["atlas", "prod"]);
        assert_eq!(Subject::of_text(&found.text), found);

        // A name that looks like a unit makes no group.
        let name = b"\x31\x12\x30\x10\x06\x03\x55\x04\x03\x0c\x09a/OU=root";
        let found = Subject::of_certificate(&certificate(name)).unwrap();
        assert_eq!((found.text.as_str(), found.groups.len()), ("/CN=a/OU=root", 0));
        let units: Vec<String> = (0..40).map(|number| format!("/OU={number}")).collect();
        let many = units.concat();
        assert_eq!(Subject::of_text(&many).groups.len(), MAX_GROUPS);
        assert_eq!(Subject::of_text("/OU=").groups.len(), 0);
    }

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
