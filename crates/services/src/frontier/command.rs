//! What a request asks for.

use std::sync::Arc;

use plimsoll_wire::frontier::request::{Command, Encoding, decode_p1, parse_target, signed_part};

use super::database::Query;
use super::files::FileRequest;
use crate::http::Head;

/// One payload to make. An encoding that does not exist is an error of its payload alone.
pub(super) enum Work {
    Query(Query),
    File(FileRequest),
    Wrong(String),
}

/// What a request is about.
pub(super) enum RequestKind {
    Payloads(Payloads),
    /// The server's certificate.
    Certificate,
}

/// A request's payloads, one command each.
pub(super) struct Payloads {
    pub(super) commands: Vec<Command>,
    pub(super) works: Vec<Work>,
}

/// The payloads, or the text of a global error. `signs`: there is a key for signatures.
pub(super) fn understand(head: &Head, signs: bool) -> Result<RequestKind, String> {
    if head.field("x-frontier-id").is_none() {
        return Err("X-frontier-id header missing".into());
    }
    match head.method() {
        "GET" => {}
        "POST" => return Err("POST is not implemented yet!".into()),
        other => return Err(format!("Unsupported method [{other}]")),
    }
    let commands = parse_target(head.target()).map_err(|error| error.to_string())?;
    // As in the servlet, the first one decides.
    if commands
        .first()
        .is_some_and(|command| command.object == "cert_request" && command.version == "1")
    {
        return if signs {
            Ok(RequestKind::Certificate)
        } else {
            Err("no CertFileName found".into())
        };
    }
    let signed = || Arc::from(signed_part(head.target()));
    let works = commands
        .iter()
        .map(|command| match (command.signed, signs) {
            (true, false) => Err("No private key available for signing".into()),
            (wanted, _) => work(command, wanted.then(signed)),
        })
        .collect::<Result<_, _>>()?;
    Ok(RequestKind::Payloads(Payloads { commands, works }))
}

fn work(command: &Command, signed: Option<Arc<[u8]>>) -> Result<Work, String> {
    let file = match command.object.as_str() {
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
    if file {
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
