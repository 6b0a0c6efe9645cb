//! `PostgreSQL`, protocol 3.0, simple queries and prepared statements: every value is sent and
//! received as text.
//!
//! Messages are read and written by `postgres-protocol`, except rows, which are read in place.
//! Source: chapter "Frontend/Backend Protocol" of the documentation of `PostgreSQL`.

mod extended;
mod login;
mod replication;
mod types;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{
    DATA_ROW_TAG, ErrorResponseBody, Header, Message, RowDescriptionBody,
};
use postgres_protocol::message::frontend;

use self::login::Proof;
use self::types::type_name;
use super::input::{
    Fields, Input, MAX_LOGIN_BYTES, MAX_MESSAGE_BYTES, check_length, check_no_excess, no_tls,
};
use super::session::Common;
use super::{CancelKey, Column, Event, Login, Refusal, SqlProtocolError, StreamEvent, TransactionStatus};

const COPY_DATA_TAG: u8 = b'd';
const COPY_BOTH_TAG: u8 = b'W';
/// Maximum length of a message of `COPY` data, bytes.
const COPY_PIECE: usize = 16 * 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// TLS was requested; the response is one byte.
    Tls,
    Login,
    Idle,
    Query,
    CopyIn,
    /// The server sends its log, without an end.
    Stream,
    /// The login was refused, or the server ended the session.
    Over,
}

pub(super) struct Client {
    login: Proof,
    /// Whether the session accepts commands of replication.
    replicates: bool,
    phase: Phase,
    key: Option<CancelKey>,
}

/// All bytes of a cancel request.
pub(super) fn cancel_request(key: CancelKey) -> Vec<u8> {
    let mut buffer = BytesMut::new();
    frontend::cancel_request(key.process, key.secret, &mut buffer);
    buffer.to_vec()
}

fn nonsense(what: &'static str) -> SqlProtocolError {
    SqlProtocolError::Nonsense(what)
}

impl Client {
    pub(super) fn new(login: Login, tls: bool, replicates: bool, common: &mut Common) -> Self {
        let mut client = Self {
            login: Proof::new(login),
            replicates,
            phase: Phase::Tls,
            key: None,
        };
        if tls {
            common.outgoing.extend_from_slice(b"\0\0\0\x08\x04\xd2\x16\x2f");
        } else {
            client.tls_started(common);
        }
        client
    }

    /// Sends user and database.
    pub(super) fn tls_started(&mut self, common: &mut Common) {
        if self.phase != Phase::Tls {
            return;
        }
        let login = self.login.login();
        // Without client_encoding, text is received as the bytes that the database contains.
        let mut parameters = vec![("user", login.user.as_str()), ("application_name", "plimsoll")];
        if !login.database.is_empty() {
            parameters.push(("database", &login.database));
        }
        if self.replicates {
            parameters.push(("replication", "database"));
        }
        self.phase = Phase::Login;
        if put(common, |buffer| frontend::startup_message(parameters, buffer)).is_err() {
            // A name from a URL contains no NUL.
            common.queued.push_back(Event::Failed(Refusal {
                code: "28000".to_owned(),
                number: 0,
                message: "the name of the user or database contains a NUL".to_owned(),
            }));
            self.phase = Phase::Over;
        }
    }

    pub(super) fn cancel_key(&self) -> Option<CancelKey> {
        self.key
    }

    pub(super) fn query(&mut self, sql: &str, common: &mut Common) {
        debug_assert!(self.phase == Phase::Idle, "a query before the session is ready");
        if self.phase == Phase::Idle {
            self.phase = Phase::Query;
            // It fails only with a NUL or a message over 2 GiB; the session has excluded both.
            let _ = put(common, |buffer| frontend::query(sql, buffer));
        }
    }

    pub(super) fn prepare(&mut self, name: &str, sql: &str, common: &mut Common) {
        debug_assert!(
            self.phase == Phase::Idle,
            "a statement before the session is ready"
        );
        if self.phase == Phase::Idle {
            self.phase = Phase::Query;
            extended::prepare(name, sql, &mut common.outgoing);
        }
    }

    pub(super) fn execute<'v>(
        &mut self,
        name: &str,
        values: impl Iterator<Item = &'v [u8]>,
        columns: usize,
        common: &mut Common,
    ) {
        debug_assert!(
            self.phase == Phase::Idle,
            "a statement before the session is ready"
        );
        if self.phase == Phase::Idle {
            self.phase = Phase::Query;
            common.columns = columns;
            extended::execute(name, values, &mut common.outgoing);
        }
    }

    pub(super) fn copy_data(&mut self, bytes: &[u8], common: &mut Common) {
        if self.phase == Phase::CopyIn {
            for piece in bytes.chunks(COPY_PIECE) {
                common.outgoing.push(b'd');
                let length = piece.len() as u32 + 4;
                common.outgoing.extend_from_slice(&length.to_be_bytes());
                common.outgoing.extend_from_slice(piece);
            }
        }
    }

    pub(super) fn copy_done(&mut self, common: &mut Common) {
        if self.phase == Phase::CopyIn {
            self.phase = Phase::Query;
            common.outgoing.extend_from_slice(b"c\0\0\0\x04");
        }
    }

    pub(super) fn copy_fail(&mut self, common: &mut Common) {
        if self.phase == Phase::CopyIn {
            self.phase = Phase::Query;
            let _ = put(common, |buffer| frontend::copy_fail("given up", buffer));
        }
    }

    pub(super) fn report_position(&mut self, position: u64, common: &mut Common) {
        if self.phase == Phase::Stream {
            replication::report(position, &mut common.outgoing);
        }
    }

    pub(super) fn quit(&mut self, common: &mut Common) {
        self.phase = Phase::Over;
        common.outgoing.extend_from_slice(b"X\0\0\0\x04");
    }

    pub(super) fn next(&mut self, common: &mut Common) -> Result<Option<Event>, SqlProtocolError> {
        if self.phase == Phase::Tls {
            return begin_tls(&mut common.input);
        }
        loop {
            let limit = if self.phase == Phase::Login {
                MAX_LOGIN_BYTES
            } else {
                MAX_MESSAGE_BYTES
            };
            let Some(tag) = message(&mut common.input, limit)? else {
                return Ok(None);
            };
            if self.phase == Phase::Over {
                common.input.release();
                continue;
            }
            if tag == DATA_ROW_TAG {
                if self.phase != Phase::Query {
                    return Err(nonsense("row without a query"));
                }
                read_row(common)?;
                return Ok(Some(Event::Row));
            }
            if self.phase == Phase::Query && extended::is_acknowledgement(tag) {
                common.input.release();
                continue;
            }
            // `postgres-protocol` does not know this message.
            if tag == COPY_BOTH_TAG && self.phase == Phase::Query {
                self.phase = Phase::Stream;
                common.input.release();
                return Ok(Some(Event::Stream(StreamEvent::Begins)));
            }
            if tag == COPY_DATA_TAG && self.phase == Phase::Stream {
                let message = common.input.message();
                return replication::read(&message[5..]).map(|event| Some(Event::Stream(event))); // without the header
            }
            if let Some(event) = self.message(common)? {
                return Ok(Some(event));
            }
            common.input.release();
        }
    }

    /// Processes a message that is not a row. There are only a few of them.
    fn message(&mut self, common: &mut Common) -> Result<Option<Event>, SqlProtocolError> {
        let mut copy = BytesMut::from(common.input.message());
        let message = Message::parse(&mut copy)
            .map_err(|_| nonsense("invalid message"))?
            .ok_or(nonsense("incomplete message"))?;
        let event = match (message, self.phase) {
            (Message::NoticeResponse(_) | Message::ParameterStatus(_), _)
            | (Message::CopyOutResponse(_) | Message::CopyDone, Phase::Query) => None,
            // The server sends one message for each row.
            (Message::CopyData(body), Phase::Query) => Some(Event::CopyRow(body.data().len() as u64)),
            (Message::NotificationResponse(body), _) => {
                let text = |part: std::io::Result<&str>| {
                    part.map(str::to_owned)
                        .map_err(|_| nonsense("notification that is not UTF-8 text"))
                };
                Some(Event::Notified {
                    channel: text(body.channel())?,
                    payload: text(body.message())?,
                })
            }
            (Message::ErrorResponse(body), _) => Some(self.refused(&body)?),
            (Message::BackendKeyData(body), Phase::Login) => {
                self.key = Some(CancelKey {
                    process: body.process_id(),
                    secret: body.secret_key(),
                });
                None
            }
            (Message::ReadyForQuery(body), Phase::Login | Phase::Query) => {
                self.phase = Phase::Idle;
                common.transaction = match body.status() {
                    b'I' => TransactionStatus::Idle,
                    b'T' => TransactionStatus::Open,
                    b'E' => TransactionStatus::Failed,
                    _ => return Err(nonsense("unknown transaction status")),
                };
                Some(Event::Ready)
            }
            (message, Phase::Login) => {
                self.login.answer(&message, common)?;
                None
            }
            (Message::RowDescription(body), Phase::Query) => Some(columns(&body, common)?),
            (Message::CommandComplete(_) | Message::EmptyQueryResponse, Phase::Query) => {
                Some(Event::Complete)
            }
            (Message::CopyInResponse(_), Phase::Query) => {
                self.phase = Phase::CopyIn;
                Some(Event::CopyIn)
            }
            _ => return Err(nonsense("unexpected message")),
        };
        Ok(event)
    }

    fn refused(&mut self, body: &ErrorResponseBody) -> Result<Event, SqlProtocolError> {
        let (mut code, mut message) = (String::new(), String::new());
        let mut fields = body.fields();
        while let Some(field) = fields.next().map_err(|_| nonsense("invalid error message"))? {
            let text = || String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                b'C' => code = text(),
                b'M' => message = text(),
                _ => {}
            }
        }
        match self.phase {
            // An error between two queries is the last message before the server closes.
            Phase::Tls | Phase::Login | Phase::Idle => self.phase = Phase::Over,
            Phase::CopyIn | Phase::Stream => self.phase = Phase::Query,
            Phase::Query | Phase::Over => {}
        }
        Ok(Event::Failed(Refusal {
            code,
            number: 0,
            message,
        }))
    }
}

/// Reads the response to the TLS request.
fn begin_tls(input: &mut Input) -> Result<Option<Event>, SqlProtocolError> {
    match input.rest().first() {
        None => Ok(None),
        Some(b'S') => {
            input.skip(1);
            check_no_excess(input)?;
            Ok(Some(Event::StartTls))
        }
        Some(b'N') => Err(no_tls("ssl = on")),
        Some(_) => Err(nonsense("invalid response to the TLS request")),
    }
}

/// Appends a message.
fn put(
    common: &mut Common,
    write: impl FnOnce(&mut BytesMut) -> std::io::Result<()>,
) -> Result<(), SqlProtocolError> {
    let mut buffer = BytesMut::new();
    write(&mut buffer)
        .map_err(|_| SqlProtocolError::Login("the user name or password contains a NUL".to_owned()))?;
    common.outgoing.extend_from_slice(&buffer);
    Ok(())
}

/// Makes the next complete message, including its header, the message in use. Returns its tag; none
/// if it is not complete.
fn message(input: &mut Input, limit: usize) -> Result<Option<u8>, SqlProtocolError> {
    let header = Header::parse(input.rest()).map_err(|_| nonsense("message without a valid length"))?;
    let Some(header) = header else { return Ok(None) };
    let length = header.len() as usize + 1;
    check_length(length, limit)?;
    if input.rest().len() < length {
        return Ok(None);
    }
    input.hold(length);
    Ok(Some(header.tag()))
}

fn columns(body: &RowDescriptionBody, common: &mut Common) -> Result<Event, SqlProtocolError> {
    let columns: Vec<Column> = body
        .fields()
        .map(|field| {
            Ok(Column {
                name: field.name().to_owned(),
                type_name: type_name(field.type_oid()),
            })
        })
        .collect()
        .map_err(|_| nonsense("invalid description of columns"))?;
    common.columns = columns.len();
    Ok(Event::Columns(columns))
}

/// Stores the ranges of a row's values.
fn read_row(common: &mut Common) -> Result<(), SqlProtocolError> {
    let mut fields = Fields::new(common.input.message());
    fields.take(5)?; // the header
    let count = usize::from(u16::from_be_bytes(fields.array()?));
    if count != common.columns {
        return Err(nonsense("row with more or fewer values than columns"));
    }
    for _ in 0..count {
        let range = match i32::from_be_bytes(fields.array()?) {
            -1 => None,
            length => {
                let length = usize::try_from(length).map_err(|_| nonsense("value of negative length"))?;
                let start = fields.offset();
                fields.take(length)?;
                Some(start..start + length)
            }
        };
        common.row.push(range);
    }
    if !fields.is_empty() {
        return Err(nonsense("row with excess bytes"));
    }
    Ok(())
}
