//! The extension `proxyCertInfo`, RFC 3820 section 3.8.
//!
//! ```text
//! ProxyCertInfo ::= SEQUENCE { pCPathLenConstraint INTEGER (0..MAX) OPTIONAL, proxyPolicy ProxyPolicy }
//! ProxyPolicy ::= SEQUENCE { policyLanguage OBJECT IDENTIFIER, policy OCTET STRING OPTIONAL }
//! ```

use crate::der::{self, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE};
use crate::refusal::Reason;

/// 1.3.6.1.5.5.7.21.1
const INHERIT_ALL: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 21, 1];
/// 1.3.6.1.5.5.7.21.2
const INDEPENDENT: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 21, 2];
/// 1.3.6.1.4.1.3536.1.1.1.9, of the Globus Toolkit.
const LIMITED: &[u8] = &[0x2b, 6, 1, 4, 1, 0x9b, 0x50, 1, 1, 1, 9];

/// What a proxy may do on behalf of its issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// `id-ppl-inheritAll`: everything.
    InheritAll,
    /// `id-ppl-independent`: nothing. It has an identity of its own, and no rights of its issuer.
    Independent,
    /// The limited proxy of Globus: everything but the start of jobs.
    Limited,
}

/// Content of the extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyInformation {
    /// Maximum number of proxies below this one; none: no limit.
    pub path_length: Option<u32>,
    /// What the proxy may do.
    pub language: Language,
}

impl ProxyInformation {
    /// Reads the value of the extension.
    pub fn parse(mut value: &[u8]) -> Result<Self, Reason> {
        let mut body = der::expect(&mut value, SEQUENCE)
            .ok_or(Reason::Information)?
            .content;
        let path_length = match der::expect(&mut body, INTEGER) {
            Some(number) => Some(path_length(number.content)?),
            None => None,
        };
        let mut policy = der::expect(&mut body, SEQUENCE)
            .ok_or(Reason::Information)?
            .content;
        let language = der::expect(&mut policy, OBJECT_IDENTIFIER).ok_or(Reason::Information)?;
        let has_policy = der::expect(&mut policy, OCTET_STRING).is_some();
        if !(value.is_empty() && body.is_empty() && policy.is_empty()) {
            return Err(Reason::Information);
        }
        let language = match language.content {
            INHERIT_ALL => Language::InheritAll,
            INDEPENDENT => Language::Independent,
            LIMITED => Language::Limited,
            _ => return Err(Reason::Language),
        };
        if has_policy {
            return Err(Reason::Policy);
        }
        Ok(Self {
            path_length,
            language,
        })
    }

    /// Writes the value of the extension.
    pub fn encode(&self) -> Vec<u8> {
        let length = self.path_length.map(|length| der::integer(u64::from(length)));
        let language = der::value(
            OBJECT_IDENTIFIER,
            &[match self.language {
                Language::InheritAll => INHERIT_ALL,
                Language::Independent => INDEPENDENT,
                Language::Limited => LIMITED,
            }],
        );
        let policy = der::value(SEQUENCE, &[&language]);
        der::value(SEQUENCE, &[length.as_deref().unwrap_or_default(), &policy])
    }
}

/// A number that is not negative, in the shortest form. A greater one than fits is as good as none:
/// no chain is that long.
fn path_length(content: &[u8]) -> Result<u32, Reason> {
    match content {
        [] | [0x80..=0xff, ..] | [0, 0..=0x7f, ..] => Err(Reason::Information),
        digits => Ok(digits.iter().fold(0u32, |number, digit| {
            number.saturating_mul(256).saturating_add(u32::from(*digit))
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value that OpenSSL writes for `language:id-ppl-inheritAll,pathlen:0`.
    const OF_OPENSSL: &[u8] = &[
        0x30, 0x0f, 0x02, 0x01, 0x00, 0x30, 0x0a, 0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x15, 0x01,
    ];

    #[test]
    fn the_value_is_that_of_openssl() {
        let information = ProxyInformation {
            path_length: Some(0),
            language: Language::InheritAll,
        };
        assert_eq!(information.encode(), OF_OPENSSL);
        assert_eq!(ProxyInformation::parse(OF_OPENSSL), Ok(information));
        for end in 0..OF_OPENSSL.len() {
            assert_eq!(
                ProxyInformation::parse(&OF_OPENSSL[..end]),
                Err(Reason::Information)
            );
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for language in [Language::InheritAll, Language::Independent, Language::Limited] {
            for path_length in [None, Some(0), Some(1), Some(127), Some(128), Some(u32::MAX)] {
                let information = ProxyInformation {
                    path_length,
                    language,
                };
                assert_eq!(ProxyInformation::parse(&information.encode()), Ok(information));
            }
        }
    }

    #[test]
    fn a_number_is_not_negative_and_short() {
        assert_eq!(path_length(&[0xff]), Err(Reason::Information));
        assert_eq!(path_length(&[]), Err(Reason::Information));
        assert_eq!(path_length(&[0, 1]), Err(Reason::Information));
        assert_eq!(path_length(&[0, 0x80]), Ok(128));
        assert_eq!(path_length(&[1; 20]), Ok(u32::MAX));
    }
}
