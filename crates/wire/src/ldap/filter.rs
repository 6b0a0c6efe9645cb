//! Filters of searches: their text (RFC 4515) and their bytes (RFC 4511, section 4.5.1.7).

use lber::common::TagClass;
use lber::structure::StructureTag;

use super::message::{constructed, context, primitive, sequence, text};

/// Maximum number of filters that are nested in each other.
const MAX_DEPTH: usize = 32;

/// A filter. Its values contain texts of type `T`: as written, or as templates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter<T> {
    /// All of these.
    And(Vec<Self>),
    /// At least one of these.
    Or(Vec<Self>),
    /// Not this one.
    Not(Box<Self>),
    /// The attribute exists.
    Present(String),
    /// A value of the attribute compares with this value.
    Compare(Comparison, String, Value<T>),
    /// A value of the attribute contains these parts in this order.
    Substrings {
        /// Name of the attribute.
        attribute: String,
        /// Its beginning.
        initial: Option<Value<T>>,
        /// Parts between.
        any: Vec<Value<T>>,
        /// Its end.
        last: Option<Value<T>>,
    },
    /// A value matches by a rule.
    Extensible {
        /// Name of the attribute.
        attribute: Option<String>,
        /// Name of the rule.
        rule: Option<String>,
        /// Whether the attributes of the distinguished name count as well.
        dn: bool,
        /// The value.
        value: Value<T>,
    },
}

/// How a value of an attribute is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `=`.
    Equal,
    /// `>=`.
    GreaterOrEqual,
    /// `<=`.
    LessOrEqual,
    /// `~=`.
    Approximate,
}

/// A value: texts, and bytes that were written as escapes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value<T>(Vec<Piece<T>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece<T> {
    Text(T),
    Bytes(Vec<u8>),
}

/// A filter in the form in which it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedFilter(pub(super) StructureTag);

/// Why a text is not a filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected} at character {position} of \"{filter}\"")]
pub struct FilterError {
    /// The text.
    pub filter: String,
    /// Number of the character at which it cannot be read, from 1.
    pub position: usize,
    /// What it must contain there.
    pub expected: &'static str,
}

impl Filter<String> {
    /// Reads a filter such as `(&(objectClass=GlueCE)(GlueCEUniqueID=ce1*))`.
    pub fn parse(filter: &str) -> Result<Self, FilterError> {
        let mut parser = Parser {
            rest: filter,
            depth: 0,
        };
        let parsed = match parser.filter() {
            Ok(parsed) if parser.rest.is_empty() => return Ok(parsed),
            Ok(_) => "the end",
            Err(expected) => expected,
        };
        let read = &filter[..filter.len() - parser.rest.len()];
        Err(FilterError {
            filter: filter.to_owned(),
            position: read.chars().count() + 1,
            expected: parsed,
        })
    }
}

impl<T> Filter<T> {
    /// Converts the texts of its values.
    pub fn map<U>(self, convert: &mut impl FnMut(T) -> U) -> Filter<U> {
        match self {
            Self::And(filters) => Filter::And(filters.into_iter().map(|each| each.map(convert)).collect()),
            Self::Or(filters) => Filter::Or(filters.into_iter().map(|each| each.map(convert)).collect()),
            Self::Not(filter) => Filter::Not(Box::new(filter.map(convert))),
            Self::Present(attribute) => Filter::Present(attribute),
            Self::Compare(how, attribute, value) => Filter::Compare(how, attribute, value.map(convert)),
            Self::Substrings {
                attribute,
                initial,
                any,
                last,
            } => Filter::Substrings {
                attribute,
                initial: initial.map(|value| value.map(convert)),
                any: any.into_iter().map(|value| value.map(convert)).collect(),
                last: last.map(|value| value.map(convert)),
            },
            Self::Extensible {
                attribute,
                rule,
                dn,
                value,
            } => Filter::Extensible {
                attribute,
                rule,
                dn,
                value: value.map(convert),
            },
        }
    }

    /// The filter as it is sent. `fill` appends the bytes of a text.
    pub fn encode(&self, fill: &mut impl FnMut(&T, &mut Vec<u8>)) -> EncodedFilter {
        EncodedFilter(self.element(fill))
    }

    fn element(&self, fill: &mut impl FnMut(&T, &mut Vec<u8>)) -> StructureTag {
        let part = |id, parts| constructed(TagClass::Context, id, parts);
        match self {
            Self::And(filters) => part(0, filters.iter().map(|each| each.element(fill)).collect()),
            Self::Or(filters) => part(1, filters.iter().map(|each| each.element(fill)).collect()),
            Self::Not(filter) => part(2, vec![filter.element(fill)]),
            Self::Present(attribute) => context(7, attribute.as_str()),
            Self::Compare(how, attribute, value) => {
                let id = match how {
                    Comparison::Equal => 3,
                    Comparison::GreaterOrEqual => 5,
                    Comparison::LessOrEqual => 6,
                    Comparison::Approximate => 8,
                };
                part(id, vec![text(attribute.as_str()), text(value.bytes(fill))])
            }
            Self::Substrings {
                attribute,
                initial,
                any,
                last,
            } => {
                let mut parts = Vec::new();
                parts.extend(initial.iter().map(|value| context(0, value.bytes(fill))));
                parts.extend(any.iter().map(|value| context(1, value.bytes(fill))));
                parts.extend(last.iter().map(|value| context(2, value.bytes(fill))));
                part(4, vec![text(attribute.as_str()), sequence(parts)])
            }
            Self::Extensible {
                attribute,
                rule,
                dn,
                value,
            } => {
                let mut parts = Vec::new();
                parts.extend(rule.iter().map(|rule| context(1, rule.as_str())));
                parts.extend(attribute.iter().map(|name| context(2, name.as_str())));
                parts.push(context(3, value.bytes(fill)));
                parts.extend(dn.then(|| primitive(TagClass::Context, 4, [0xff])));
                part(9, parts)
            }
        }
    }
}

impl<T> Value<T> {
    fn map<U>(self, convert: &mut impl FnMut(T) -> U) -> Value<U> {
        let piece = |piece| match piece {
            Piece::Text(text) => Piece::Text(convert(text)),
            Piece::Bytes(bytes) => Piece::Bytes(bytes),
        };
        Value(self.0.into_iter().map(piece).collect())
    }

    fn bytes(&self, fill: &mut impl FnMut(&T, &mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => fill(text, &mut out),
                Piece::Bytes(bytes) => out.extend_from_slice(bytes),
            }
        }
        out
    }
}

/// Reads a filter. An error states what was expected at the beginning of `rest`.
struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

type Parsing<T> = Result<T, &'static str>;

impl Parser<'_> {
    fn accept(&mut self, sign: &str) -> bool {
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, sign: &str, expected: &'static str) -> Parsing<()> {
        if self.accept(sign) { Ok(()) } else { Err(expected) }
    }

    fn filter(&mut self) -> Parsing<Filter<String>> {
        self.expect("(", "(")?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("at most 32 nested filters");
        }
        let filter = if self.accept("&") {
            Filter::And(self.filters()?)
        } else if self.accept("|") {
            Filter::Or(self.filters()?)
        } else if self.accept("!") {
            Filter::Not(Box::new(self.filter()?))
        } else {
            self.item()?
        };
        self.depth -= 1;
        self.expect(")", ")")?;
        Ok(filter)
    }

    fn filters(&mut self) -> Parsing<Vec<Filter<String>>> {
        let mut filters = Vec::new();
        while self.rest.starts_with('(') {
            filters.push(self.filter()?);
        }
        Ok(filters)
    }

    fn item(&mut self) -> Parsing<Filter<String>> {
        let attribute = self.name();
        if self.rest.starts_with(':') {
            return self.extensible(attribute);
        }
        if attribute.is_empty() {
            return Err("the name of an attribute");
        }
        let how = if self.accept(">=") {
            Comparison::GreaterOrEqual
        } else if self.accept("<=") {
            Comparison::LessOrEqual
        } else if self.accept("~=") {
            Comparison::Approximate
        } else {
            self.expect("=", "=, >=, <=, ~= or :=")?;
            return self.equal(attribute);
        };
        Ok(Filter::Compare(how, attribute, self.value()?))
    }

    /// The value of `=`, which is a pattern if it contains stars.
    fn equal(&mut self, attribute: String) -> Parsing<Filter<String>> {
        let mut parts = vec![self.value()?];
        while self.accept("*") {
            parts.push(self.value()?);
        }
        let last = parts.pop().filter(|value| !value.0.is_empty());
        let mut parts = parts.into_iter();
        let Some(initial) = parts.next() else {
            return Ok(Filter::Compare(
                Comparison::Equal,
                attribute,
                last.unwrap_or(Value(Vec::new())),
            ));
        };
        let initial = Some(initial).filter(|value| !value.0.is_empty());
        let any: Vec<_> = parts.filter(|value| !value.0.is_empty()).collect();
        if initial.is_none() && any.is_empty() && last.is_none() {
            return Ok(Filter::Present(attribute));
        }
        Ok(Filter::Substrings {
            attribute,
            initial,
            any,
            last,
        })
    }

    fn extensible(&mut self, attribute: String) -> Parsing<Filter<String>> {
        let dn = self.rest.starts_with(":dn:") && self.accept(":dn");
        let mut rule = None;
        if !self.rest.starts_with(":=") {
            self.expect(":", ":=")?;
            rule = Some(self.name()).filter(|name| !name.is_empty());
            if rule.is_none() {
                return Err("the name of a matching rule");
            }
        }
        self.expect(":=", ":=")?;
        let attribute = Some(attribute).filter(|name| !name.is_empty());
        if attribute.is_none() && rule.is_none() {
            return Err("the name of an attribute or of a matching rule");
        }
        Ok(Filter::Extensible {
            attribute,
            rule,
            dn,
            value: self.value()?,
        })
    }

    /// A name with options, or the number of an attribute; empty if there is none.
    fn name(&mut self) -> String {
        let is_part = |sign: char| sign.is_ascii_alphanumeric() || "-.;_".contains(sign);
        let end = self.rest.find(|sign| !is_part(sign)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        name.to_owned()
    }

    /// A value up to a parenthesis or a star. An escape is a backslash and two hexadecimal digits.
    fn value(&mut self) -> Parsing<Value<String>> {
        let mut pieces = Vec::new();
        loop {
            let end = self
                .rest
                .find(['\\', '*', '(', ')', '\0'])
                .unwrap_or(self.rest.len());
            let (plain, rest) = self.rest.split_at(end);
            self.rest = rest;
            if !plain.is_empty() {
                pieces.push(Piece::Text(plain.to_owned()));
            }
            if !self.rest.starts_with('\\') {
                return Ok(Value(pieces));
            }
            // A number may have a sign, which an escape may not.
            let digits = self.rest.get(1..3).filter(|digits| !digits.starts_with('+'));
            let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            let byte = byte.ok_or("a backslash with two hexadecimal digits, such as \\2a for *")?;
            self.rest = &self.rest[3..];
            match pieces.last_mut() {
                Some(Piece::Bytes(bytes)) => bytes.push(byte),
                _ => pieces.push(Piece::Bytes(vec![byte])),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;

    fn bytes(filter: &str) -> Vec<u8> {
        let filter = Filter::parse(filter).unwrap();
        let encoded = filter.encode(&mut |text, out| out.extend_from_slice(text.as_bytes()));
        let mut out = BytesMut::new();
        lber::write::encode_into(&mut out, encoded.0).unwrap();
        out.to_vec()
    }

    /// A tag and its content, whose length is written here.
    fn tag(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        [&[tag, content.len() as u8], content.as_slice()].concat()
    }

    #[test]
    fn filters_have_the_bytes_of_rfc_4511() {
        let cn = tag(4, &[b"cn"]);
        let equal = tag(0xa3, &[&cn, &tag(4, &[b"x"])]);
        for (text, expected) in [
            ("(objectClass=*)", tag(0x87, &[b"objectClass"])),
            ("(cn=x)", equal.clone()),
            ("(cn=)", tag(0xa3, &[&cn, &[4, 0]])),
            ("(cn>=x)", tag(0xa5, &[&cn, &tag(4, &[b"x"])])),
            ("(cn<=x)", tag(0xa6, &[&cn, &tag(4, &[b"x"])])),
            ("(cn~=x)", tag(0xa8, &[&cn, &tag(4, &[b"x"])])),
            ("(!(cn=x))", tag(0xa2, &[&equal])),
            ("(&(cn=x)(cn=x))", tag(0xa0, &[&equal, &equal])),
            ("(|(cn=x)(!(cn=x)))", tag(0xa1, &[&equal, &tag(0xa2, &[&equal])])),
            ("(&)", tag(0xa0, &[])),
            (
                "(cn=a*b*c*d)",
                tag(
                    0xa4,
                    &[
                        &cn,
                        &tag(
                            0x30,
                            &[
                                &tag(0x80, &[b"a"]),
                                &tag(0x81, &[b"b"]),
                                &tag(0x81, &[b"c"]),
                                &tag(0x82, &[b"d"]),
                            ],
                        ),
                    ],
                ),
            ),
            ("(cn=*b*)", tag(0xa4, &[&cn, &tag(0x30, &[&tag(0x81, &[b"b"])])])),
            ("(cn=*d)", tag(0xa4, &[&cn, &tag(0x30, &[&tag(0x82, &[b"d"])])])),
            // Examples of RFC 4515, section 4.
            (
                "(o=Parens R Us \\28for all your parenthetical needs\\29)",
                tag(
                    0xa3,
                    &[
                        &tag(4, &[b"o"]),
                        &tag(4, &[b"Parens R Us (for all your parenthetical needs)"]),
                    ],
                ),
            ),
            (
                "(bin=\\00\\00\\ff\\04)",
                tag(0xa3, &[&tag(4, &[b"bin"]), &[4, 4, 0, 0, 0xff, 4]]),
            ),
            (
                "(cn:caseExactMatch:=x)",
                tag(
                    0xa9,
                    &[
                        &tag(0x81, &[b"caseExactMatch"]),
                        &tag(0x82, &[b"cn"]),
                        &tag(0x83, &[b"x"]),
                    ],
                ),
            ),
            (
                "(o:dn:=x)",
                tag(
                    0xa9,
                    &[&tag(0x82, &[b"o"]), &tag(0x83, &[b"x"]), &[0x84, 1, 0xff]],
                ),
            ),
            (
                "(:dn:2.4.6.8.10:=x)",
                tag(
                    0xa9,
                    &[
                        &tag(0x81, &[b"2.4.6.8.10"]),
                        &tag(0x83, &[b"x"]),
                        &[0x84, 1, 0xff],
                    ],
                ),
            ),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_filters_are_refused_with_their_position() {
        for (text, position, expected) in [
            ("", 1, "("),
            ("objectClass=*", 1, "("),
            ("(cn=x", 6, ")"),
            ("(cn=x))", 7, "the end"),
            ("(cn)", 4, "=, >=, <=, ~= or :="),
            ("(=x)", 2, "the name of an attribute"),
            (
                "(cn=é\\2)",
                6,
                "a backslash with two hexadecimal digits, such as \\2a for *",
            ),
            ("(cn=a(b)", 6, ")"),
            ("(!cn=x)", 3, "("),
            ("(cn>=a*)", 7, ")"),
            ("(:=x)", 4, "the name of an attribute or of a matching rule"),
        ] {
            let error = Filter::parse(text).unwrap_err();
            assert_eq!((error.position, error.expected), (position, expected), "{text}");
        }
        let deep = "(!".repeat(100_000);
        assert_eq!(
            Filter::parse(&deep).unwrap_err().expected,
            "at most 32 nested filters"
        );
    }

    #[test]
    fn a_drawn_value_cannot_change_the_structure() {
        let filter = Filter::parse("(&(objectClass=GlueCE)(cn={key}))").unwrap();
        let filter = filter.map(&mut |text| text.replace("{key}", "x)(cn=*"));
        let encoded = filter.encode(&mut |text: &String, out| out.extend_from_slice(text.as_bytes()));
        let mut out = BytesMut::new();
        lber::write::encode_into(&mut out, encoded.0).unwrap();
        let equal = tag(0xa3, &[&tag(4, &[b"cn"]), &tag(4, &[b"x)(cn=*"])]);
        assert!(out.ends_with(&equal), "{out:x?}");
    }
}
