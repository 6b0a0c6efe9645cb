//! Requests as bytes, and the decoded ends of operations.

use bytes::BytesMut;
use lber::common::TagClass;
use lber::structure::{PL, StructureTag};
use lber::structures::{ASNTag, Boolean, Enumerated, Integer};

use super::filter::EncodedFilter;
use super::header::{INTEGER, OCTET_STRING, SEQUENCE, split};
use super::result::LdapResult;

const BIND: u64 = 0;
const UNBIND: u64 = 2;
const SEARCH: u64 = 3;
const EXTENDED: u64 = 23;
const BIND_DONE: u64 = 1;
const SEARCH_DONE: u64 = 5;
const EXTENDED_DONE: u64 = 24;
/// Version of the protocol.
const VERSION: u32 = 3;
const START_TLS: &[u8] = b"1.3.6.1.4.1.1466.20037";
const NOTICE_OF_DISCONNECTION: &[u8] = b"1.3.6.1.4.1.1466.20036";
const PAGED_RESULTS: &[u8] = b"1.2.840.113556.1.4.319";

/// How a client authenticates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bind {
    /// Without a name.
    Anonymous,
    /// With a name and a password.
    Simple {
        /// Distinguished name of the user.
        dn: String,
        /// Its password.
        password: String,
    },
    /// With the client certificate of the TLS connection (SASL EXTERNAL).
    External,
}

/// The entries among which a search looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The base itself.
    Base,
    /// The entries immediately below the base.
    One,
    /// The base and all entries below it.
    Sub,
}

/// A search, without its filter.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    /// Distinguished name of the entry at which the search begins.
    pub base: &'a [u8],
    /// The entries among which it looks.
    pub scope: Scope,
    /// Maximum number of entries; 0: no limit.
    pub size_limit: u32,
    /// Maximum duration, s; 0: no limit.
    pub time_limit_s: u32,
    /// Attributes that are returned; empty: all that users see. `1.1`: none.
    pub attributes: &'a [String],
}

/// A request for one page of the entries.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// Maximum number of entries of the page.
    pub size: u32,
    /// Cookie of the page before; empty: the first page.
    pub cookie: &'a [u8],
}

/// The end of an operation, or a notice of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Number of the request; 0 for a notice.
    pub id: u32,
    /// The operation that has ended.
    pub kind: ReplyKind,
    /// Its result.
    pub result: LdapResult,
    /// Cookie for the next page; none if the server sent no control of paged results or if this
    /// was the last page.
    pub cookie: Option<Vec<u8>>,
}

/// The operation that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyKind {
    /// A bind.
    Bind,
    /// A search.
    Done,
    /// An extended operation, such as `StartTLS`.
    Extended,
    /// None: the server announces that it closes the connection.
    Disconnection,
}

/// Appends a bind request.
pub fn bind(id: u32, how: &Bind, out: &mut BytesMut) {
    let (name, authentication) = match how {
        Bind::Anonymous => ("", context(0, "")),
        Bind::Simple { dn, password } => (dn.as_str(), context(0, password.as_str())),
        // The credentials are present and empty: the server takes the name from the certificate.
        // Without them, it may ask for them and so need another round trip.
        Bind::External => (
            "",
            constructed(TagClass::Context, 3, vec![text("EXTERNAL"), text("")]),
        ),
    };
    let parts = vec![integer(VERSION), text(name), authentication];
    message(id, constructed(TagClass::Application, BIND, parts), None, out);
}

/// Appends a request to begin TLS on the connection.
pub fn start_tls(id: u32, out: &mut BytesMut) {
    let parts = vec![context(0, START_TLS)];
    message(id, constructed(TagClass::Application, EXTENDED, parts), None, out);
}

/// Appends the announcement that the client closes the connection.
pub fn unbind(id: u32, out: &mut BytesMut) {
    message(id, primitive(TagClass::Application, UNBIND, ""), None, out);
}

/// Appends a search request, for one page if there is one.
pub fn search(
    id: u32,
    search: &Search<'_>,
    filter: &EncodedFilter,
    page: Option<&Page<'_>>,
    out: &mut BytesMut,
) {
    let attributes = search.attributes.iter().map(|name| text(name.as_str())).collect();
    let parts = vec![
        text(search.base),
        enumerated(search.scope as u32),
        enumerated(0), // aliases are not dereferenced
        integer(search.size_limit),
        integer(search.time_limit_s),
        boolean(false), // types and values
        filter.0.clone(),
        sequence(attributes),
    ];
    let operation = constructed(TagClass::Application, SEARCH, parts);
    message(id, operation, page.map(paged), out);
}

/// The control of paged results. It is critical: a server that does not support it must not send
/// all entries at once.
fn paged(page: &Page<'_>) -> StructureTag {
    let mut value = BytesMut::new();
    write(sequence(vec![integer(page.size), text(page.cookie)]), &mut value);
    sequence(vec![text(PAGED_RESULTS), boolean(true), text(value.to_vec())])
}

fn message(id: u32, operation: StructureTag, control: Option<StructureTag>, out: &mut BytesMut) {
    let mut parts = vec![integer(id), operation];
    parts.extend(control.map(|control| constructed(TagClass::Context, 0, vec![control])));
    write(sequence(parts), out);
}

fn write(element: StructureTag, out: &mut BytesMut) {
    // Writing to memory cannot fail.
    let _ = lber::write::encode_into(out, element);
}

pub(super) fn constructed(class: TagClass, id: u64, parts: Vec<StructureTag>) -> StructureTag {
    StructureTag {
        class,
        id,
        payload: PL::C(parts),
    }
}

pub(super) fn primitive(class: TagClass, id: u64, bytes: impl Into<Vec<u8>>) -> StructureTag {
    StructureTag {
        class,
        id,
        payload: PL::P(bytes.into()),
    }
}

pub(super) fn sequence(parts: Vec<StructureTag>) -> StructureTag {
    constructed(TagClass::Universal, 16, parts)
}

/// An OCTET STRING.
pub(super) fn text(bytes: impl Into<Vec<u8>>) -> StructureTag {
    primitive(TagClass::Universal, 4, bytes)
}

/// An OCTET STRING with a tag of its context.
pub(super) fn context(id: u64, bytes: impl Into<Vec<u8>>) -> StructureTag {
    primitive(TagClass::Context, id, bytes)
}

fn integer(inner: u32) -> StructureTag {
    let inner = i64::from(inner);
    Integer {
        inner,
        ..Integer::default()
    }
    .into_structure()
}

fn enumerated(inner: u32) -> StructureTag {
    let inner = i64::from(inner);
    Enumerated {
        inner,
        ..Enumerated::default()
    }
    .into_structure()
}

fn boolean(inner: bool) -> StructureTag {
    Boolean {
        inner,
        ..Boolean::default()
    }
    .into_structure()
}

/// Decodes a message that is neither an entry nor a reference; none if it is invalid. The scanner
/// has checked lengths and depth: the decoder calls itself for each level.
pub(super) fn reply(bytes: &[u8]) -> Option<Reply> {
    let (_, message) = lber::parse::parse_tag(bytes).ok()?;
    let [id, operation, controls @ ..] = parts(&message)? else {
        return None;
    };
    let [code, _, diagnostic, further @ ..] = parts(operation)? else {
        return None;
    };
    let id = number(id)?;
    let kind = match operation.id {
        BIND_DONE => ReplyKind::Bind,
        SEARCH_DONE => ReplyKind::Done,
        EXTENDED_DONE if id == 0 => {
            find(further, 10).filter(|name| content(name) == Some(NOTICE_OF_DISCONNECTION))?;
            ReplyKind::Disconnection
        }
        EXTENDED_DONE => ReplyKind::Extended,
        _ => return None,
    };
    let result = LdapResult {
        code: number(code)?,
        message: String::from_utf8_lossy(content(diagnostic)?).into_owned(),
        referrals: find(further, 3).and_then(parts).map_or(0, <[_]>::len),
    };
    let cookie = controls.first().and_then(parts).and_then(cookie);
    Some(Reply {
        id,
        kind,
        result,
        cookie,
    })
}

/// The cookie in the control of paged results; none if it is empty.
fn cookie(controls: &[StructureTag]) -> Option<Vec<u8>> {
    controls.iter().find_map(|control| {
        let [oid, .., value] = parts(control)? else {
            return None;
        };
        if content(oid)? != PAGED_RESULTS {
            return None;
        }
        // Not by the decoder, which calls itself for each level: the scanner has not looked into
        // the value of a control.
        let (page, _) = split(SEQUENCE, content(value)?)?;
        let (_, cookie) = split(INTEGER, page)?;
        let (cookie, _) = split(OCTET_STRING, cookie)?;
        (!cookie.is_empty()).then(|| cookie.to_vec())
    })
}

fn find(parts: &[StructureTag], id: u64) -> Option<&StructureTag> {
    let is = |part: &&StructureTag| part.class == TagClass::Context && part.id == id;
    parts.iter().find(is)
}

fn parts(element: &StructureTag) -> Option<&[StructureTag]> {
    match &element.payload {
        PL::C(parts) => Some(parts),
        PL::P(_) => None,
    }
}

fn content(element: &StructureTag) -> Option<&[u8]> {
    match &element.payload {
        PL::P(bytes) => Some(bytes),
        PL::C(_) => None,
    }
}

/// A number from 0 to 2^31 - 1.
fn number(element: &StructureTag) -> Option<u32> {
    let bytes = content(element)?;
    let is_valid = (1..=4).contains(&bytes.len()) && bytes[0] < 0x80;
    is_valid.then(|| {
        bytes
            .iter()
            .fold(0, |number, &byte| (number << 8) | u32::from(byte))
    })
}

#[cfg(test)]
mod tests {
    use super::super::filter::Filter;
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b' ').collect();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    fn written(write: impl Fn(&mut BytesMut)) -> Vec<u8> {
        let mut out = BytesMut::new();
        write(&mut out);
        out.to_vec()
    }

    fn encoded(filter: &str) -> EncodedFilter {
        Filter::parse(filter)
            .unwrap()
            .encode(&mut |text, out| out.extend_from_slice(text.as_bytes()))
    }

    /// Requests that slapd 2.5 accepted.
    #[test]
    fn requests_have_the_bytes_that_a_server_accepted() {
        let anonymous = written(|out| bind(1, &Bind::Anonymous, out));
        assert_eq!(anonymous, hex("300c020101600702010304008000"));
        let attributes = ["1.1".to_owned()];
        let wanted = Search {
            base: b"o=grid",
            scope: Scope::Sub,
            size_limit: 0,
            time_limit_s: 0,
            attributes: &attributes,
        };
        let filter = encoded("(objectClass=*)");
        assert_eq!(
            written(|out| search(2, &wanted, &filter, None, out)),
            hex(
                "3030020102632b04066f3d677269640a01020a0100020100020100010100870b6f626a656374436c617373\
                 30050403312e31"
            )
        );
        assert_eq!(written(|out| unbind(3, out)), hex("3005 020103 4200"));
        assert_eq!(
            written(|out| start_tls(1, out)),
            [&hex("301d020101 7718 8016"), START_TLS].concat()
        );
    }

    #[test]
    fn binds_with_a_password_and_with_a_certificate() {
        let simple = Bind::Simple {
            dn: "cn=a".to_owned(),
            password: "b".to_owned(),
        };
        assert_eq!(
            written(|out| bind(1, &simple, out)),
            hex("3011020101600c020103 0404636e3d61 800162")
        );
        assert_eq!(
            written(|out| bind(1, &Bind::External, out)),
            hex("3018020101 6013 020103 0400 a30c 040845585445524e414c 0400")
        );
    }

    #[test]
    fn a_page_is_requested_with_a_critical_control() {
        let wanted = Search {
            base: b"",
            scope: Scope::Base,
            size_limit: 5,
            time_limit_s: 300,
            attributes: &[],
        };
        let page = Page {
            size: 200,
            cookie: b"12345678",
        };
        let bytes = written(|out| search(7, &wanted, &encoded("(cn=*)"), Some(&page), out));
        let (_, decoded) = lber::parse::parse_tag(&bytes).unwrap();
        let [_, operation, controls] = parts(&decoded).unwrap() else {
            panic!("{decoded:?}")
        };
        let limits: Vec<_> = parts(operation).unwrap()[3..5].iter().map(number).collect();
        assert_eq!(limits, [Some(5), Some(300)]);
        let control = parts(&parts(controls).unwrap()[0]).unwrap();
        assert_eq!(content(&control[0]), Some(PAGED_RESULTS));
        assert_eq!(content(&control[1]), Some(&[0xff][..]));
        assert_eq!(
            content(&control[2]),
            Some(&hex("300e 020200c8 04083132333435363738")[..])
        );
    }

    #[test]
    fn results_are_decoded() {
        let anonymous = reply(&hex("300c02010161070a010004000400")).unwrap();
        assert_eq!((anonymous.id, anonymous.kind), (1, ReplyKind::Bind));
        assert_eq!(anonymous.result.code, 0);
        let referral = reply(&hex(
            "3019 020102 6514 0a010a 0400 04026f6b a309 0403 6c3a61 0402 6c3a",
        ))
        .unwrap();
        let expected = LdapResult {
            code: 10,
            message: "ok".to_owned(),
            referrals: 2,
        };
        assert_eq!((referral.kind, referral.result), (ReplyKind::Done, expected));
        let begin = hex("3024 020100 781f 0a0134 0400 0400 8a16");
        let notice = reply(&[&begin, NOTICE_OF_DISCONNECTION].concat()).unwrap();
        assert_eq!(
            (notice.kind, notice.result.name()),
            (ReplyKind::Disconnection, Some("unavailable"))
        );
    }

    #[test]
    fn the_cookie_of_the_next_page_is_found() {
        let with = |value: &str| {
            let value = hex(value);
            let control = sequence(vec![text(PAGED_RESULTS), text(value)]);
            let done = constructed(
                TagClass::Application,
                SEARCH_DONE,
                vec![enumerated(0), text(""), text("")],
            );
            let bytes = written(|out| message(2, done.clone(), Some(control.clone()), out));
            reply(&bytes).unwrap().cookie
        };
        assert_eq!(with("3008 020100 0403 616263"), Some(b"abc".to_vec()));
        assert_eq!(with("3005 020100 0400"), None);
        // Nested elements in place of the cookie are not decoded.
        assert_eq!(with("3007 020100 3002 3000"), None);
        assert_eq!(with(""), None);
    }
}
