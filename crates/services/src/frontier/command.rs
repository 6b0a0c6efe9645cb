//! Parses requests.

use std::sync::Arc;

use plimsoll_wire::frontier::request::{
    Command, Encoding, RequestError, decode_p1, parse_target, signed_part,
};

use super::database::Query;
use super::files::FileRequest;
use crate::http::Head;

/// Why a request is refused: the messages of the servlet's global errors.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    /// The client does not identify itself.
    #[error("X-frontier-id header missing")]
    NoClient,
    /// The servlet does not implement this method.
    #[error("POST is not implemented yet!")]
    Post,
    /// The method is neither GET nor POST.
    #[error("Unsupported method [{0}]")]
    Method(String),
    /// The target or a parameter is malformed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The gateway has no certificate.
    #[error("no CertFileName found")]
    NoCertificate,
    /// A signature is requested, and the gateway has no key.
    #[error("No private key available for signing")]
    NoKey,
    /// The object or its version is unknown. Contains the object.
    #[error("Unsupported command: {0}")]
    Unsupported(String),
}

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

/// Parses a request. `has_key`: the gateway has a key for signatures.
///
/// # Errors
/// [`CommandError`].
pub(super) fn parse(head: &Head, has_key: bool) -> Result<RequestKind, CommandError> {
    if head.field("x-frontier-id").is_none() {
        return Err(CommandError::NoClient);
    }
    match head.method() {
        "GET" => {}
        "POST" => return Err(CommandError::Post),
        other => return Err(CommandError::Method(other.to_owned())),
    }
    let commands = parse_target(head.target())?;
    // As in the servlet, the first command decides.
    if commands
        .first()
        .is_some_and(|command| command.object == "cert_request" && command.version == "1")
    {
        return if has_key {
            Ok(RequestKind::Certificate)
        } else {
            Err(CommandError::NoCertificate)
        };
    }
    let signed = || Arc::from(signed_part(head.target()));
    let works = commands
        .iter()
        .map(|command| match (command.signed, has_key) {
            (true, false) => Err(CommandError::NoKey),
            (is_signed, _) => work(command, is_signed.then(signed)),
        })
        .collect::<Result<_, _>>()?;
    Ok(RequestKind::Payloads(Payloads { commands, works }))
}

fn work(command: &Command, signed: Option<Arc<[u8]>>) -> Result<Work, CommandError> {
    let unsupported = || CommandError::Unsupported(command.object.clone());
    let is_file = match command.object.as_str() {
        "frontier_request" => false,
        "frontier_file" => true,
        _ => return Err(unsupported()),
    };
    if command.version != "1" {
        return Err(unsupported());
    }
    let p1 = command.p1.as_deref().ok_or(RequestError::NoP1)?;
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
    let sql = decode_p1(p1)?;
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
