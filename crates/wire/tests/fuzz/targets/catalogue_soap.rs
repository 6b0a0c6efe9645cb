//! Reads any bytes as SOAP messages of the catalogue.

use plimsoll_wire::catalogue::soap::{Answer, Fault, Message, Operation};

/// Reads a message of a client, and an answer to each kind of messages. What can be read is encoded
/// to a message with the same content.
pub fn run(data: &[u8]) {
    match Message::decode(data) {
        Ok(message) => {
            let mut encoded = String::new();
            message.call.encode(&message.subject, &mut encoded);
            assert_eq!(Message::decode(encoded.as_bytes()).as_ref(), Ok(&message));
        }
        Err(fault) => check(&fault),
    }
    for operation in Operation::ALL {
        if let Ok(Answer::Fault(fault)) = Answer::decode(operation, data) {
            check(&fault);
        }
    }
}

/// A fault can be sent and read again. Characters of its text that XML cannot express are replaced.
fn check(fault: &Fault) {
    let mut encoded = String::new();
    Answer::Fault(fault.clone()).encode(Operation::Create, 1, &mut encoded);
    let Ok(Answer::Fault(read)) = Answer::decode(Operation::Create, encoded.as_bytes()) else {
        panic!("{encoded} is no fault");
    };
    assert_eq!((read.code, read.failed), (fault.code, fault.failed));
}
