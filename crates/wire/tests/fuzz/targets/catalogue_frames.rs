//! Reads any bytes as messages of the stateful protocol of the catalogue.

use plimsoll_wire::catalogue::{Frame, Reply, Request};

/// Reads each message as a request and as a reply. What can be read is encoded to the same bytes.
pub fn run(mut data: &[u8]) {
    while let Ok(Some(frame)) = Frame::parse(data) {
        let (message, rest) = data.split_at(frame.length());
        let mut encoded = Vec::new();
        if let Ok(request) = Request::decode(frame) {
            request.encode(&mut encoded);
            assert_eq!(encoded, message);
        }
        if let Ok(reply) = Reply::decode(frame) {
            encoded.clear();
            reply.encode(&mut encoded);
            assert_eq!(encoded, message);
        }
        data = rest;
    }
}
