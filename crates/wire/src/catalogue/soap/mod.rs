//! The stateless protocol of the catalogue: SOAP 1.1 over HTTP, document/literal, in the manner of
//! `FiReMan`.
//!
//! The name space has no version: what is added has elements of its own, so that messages of older
//! clients do not change, and an older service answers a new message with a fault. Links and ACLs
//! were added in this way.
//!
//! A message contains up to [`MAX_BULK`](super::MAX_BULK) operations of one kind, which succeed or
//! fail as a whole. [`WSDL`] describes all messages. A [`Fault`] has a code of SOAP, and the
//! catalogue's status with the index of the first operation that failed.
//!
//! A client without a certificate states who it is in the header block `subject`.
//!
//! Messages are hostile until they are read: a document type, an entity that XML does not define, a
//! processing instruction, deep nesting and long tags are refused ([`XmlError`]), and nothing is
//! expanded, so that a message never needs more memory than a multiple of its length. The caller
//! limits the length ([`MAX_MESSAGE`]).

mod answer;
mod call;
mod envelope;
mod fault;
mod paths;
mod xml;

pub use answer::{Answer, failure};
pub use call::{Call, Message, Operation};
pub use fault::{Fault, FaultCode};
pub use xml::XmlError;

/// Maximum length of a message, bytes.
pub const MAX_MESSAGE: usize = 8 * 1024 * 1024;
/// Media type of messages.
pub const MEDIA_TYPE: &str = "text/xml; charset=utf-8";
/// Path at which clients send their messages. The service accepts any path.
pub const PATH: &str = "/catalogue";
/// Name space of the catalogue's elements.
pub const NAMESPACE: &str = "urn:plimsoll:catalogue";
/// The description of the service, with a place for its address.
pub const WSDL: &str = include_str!("catalogue.wsdl");

/// What [`WSDL`] contains instead of the address.
const ADDRESS: &str = "http://localhost:5010/catalogue";

/// The description of the service at this address.
pub fn wsdl(address: &str) -> String {
    let mut escaped = String::new();
    xml::put_escaped(&mut escaped, address);
    WSDL.replace(ADDRESS, &escaped)
}

/// The value of the field `SOAPAction`, with its quotation marks.
pub fn action(operation: Operation) -> String {
    format!("\"{NAMESPACE}#{}\"", operation.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_contains_every_operation_and_the_address() {
        let text = wsdl("http://[::1]:80/c?a&b");
        assert!(text.contains("location=\"http://[::1]:80/c?a&amp;b\""), "{text}");
        assert!(!text.contains("localhost"));
        for operation in Operation::ALL {
            let name = operation.name();
            for part in [
                format!("<xsd:element name=\"{name}\">"),
                format!("<xsd:element name=\"{name}Response\""),
                format!("soapAction={}", action(operation)),
            ] {
                assert!(WSDL.contains(&part), "{part}");
            }
        }
    }
}
