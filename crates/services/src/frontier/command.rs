//! Parses requests.

use std::sync::Arc;

use plimsoll_wire::frontier::request::{Command, Encoding, decode_p1, parse_target, signed_part};

use super::database::Query;
use super::files::FileRequest;
use crate::http::Head;

/// A requested payload. An unknown encoding is an error of this payload only.
pub(super) enum Work {
    Query(Query),
    File(FileRequest),
    /// Contains the message of the error.
    Wrong(String),
}

/// Content of a request.
pub(super) enum RequestKind {
    Payloads(Payloads),
    /// A request for the server's certificate.
    Certificate,
}

/// The payloads of a request, one per command.
pub(super) struct Payloads {
    pub(super) commands: Vec<Command>,
    pub(super) works: Vec<Work>,
}

/// Parses a request. The error is the message of a global error. `has_key`: the gateway has a key
/// for signatures.
pub(super) fn parse(head: &Head, has_key: bool) -> Result<RequestKind, String> {
    if head.field("x-frontier-id").is_none() {
        return Err("X-frontier-id header missing".into());
    }
    match head.method() {
        "GET" => {}
        "POST" => return Err("POST is not implemented yet!".into()),
        other => return Err(format!("Unsupported method [{other}]")),
    }
    let commands = parse_target(head.target()).map_err(|error| error.to_string())?;
    // As in the servlet, the first command decides.
    if commands
        .first()
        .is_some_and(|command| command.object == "cert_request" && command.version == "1")
    {
        return if has_key {
            Ok(RequestKind::Certificate)
        } else {
            Err("no CertFileName found".into())
        };
    }
    let signed = || Arc::from(signed_part(head.target()));
    let works = commands
        .iter()
        .map(|command| match (command.signed, has_key) {
            (true, false) => Err("No private key available for signing".into()),
            (is_signed, _) => work(command, is_signed.then(signed)),
        })
        .collect::<Result<_, _>>()?;
    Ok(RequestKind::Payloads(Payloads { commands, works }))
}

fn work(command: &Command, signed: Option<Arc<[u8]>>) -> Result<Work, String> {
    let is_file = match command.object.as_str() {
        "frontier_request" => false,
        "frontier_file" => true,
        _ => return Err(format!("Unsupported command: {}", command.object)),
    };
    if command.version != "1" {
        return Err(format!("Unsupported command: {}", command.object));
    }
    let p1 = command.p1.as_deref().ok_or("parameter p1 is missing")?;
    let encoding = Encoding::parse(&command.encoding);
    let wrong = || Work::Wrong(format!("Unsupported encoder: {}", command.encoding));
    let method = command.method.clone();
    if is_file {
        let path = p1.to_owned();
        return Ok(encoding.map_or_else(wrong, |encoding| {
            Work::File(FileRequest {
                method,
                path,
                encoding,
                signed,
            })
        }));
    }
    let sql = decode_p1(p1).map_err(|error| error.to_string())?;
    Ok(encoding.map_or_else(wrong, |encoding| {
        Work::Query(Query {
            method,
            sql,
            encoding,
            ttl: command.ttl,
            signed,
        })
    }))
}
