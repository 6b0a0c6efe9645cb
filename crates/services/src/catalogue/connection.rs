//! One connection: from its first bytes to its end, on one thread.

mod soap;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plimsoll_grid_proxy::end_entity;
use plimsoll_wire::catalogue::{Frame, MAX_BULK, Reply, Request, Status, Subject};
use rustls::{ServerConnection, StreamOwned};

use super::ServiceState;
use super::config::Protocol;
use super::database::DatabaseError;
use super::store::{Store, User, result};
use super::stream::LimitedStream;

pub(super) use soap::description;

/// Maximum time from the start of the work for a connection to the end of the TLS handshake, and
/// from then to its first request.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time from the first byte of a request to its last, and for a client to read a reply.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of bytes of a read.
const PIECE: usize = 16 * 1024;
/// Buffers larger than this are released after the request.
const MAX_KEPT: usize = 256 * 1024;

/// A thread's state.
pub(super) struct Worker<'a> {
    pub(super) shared: &'a ServiceState,
    store: Option<Store<'a>>,
    input: Vec<u8>,
    output: Vec<u8>,
}

/// A client's session.
#[derive(Default)]
struct Session {
    /// Subject of the certificate of the end entity; none without security.
    certified: Option<Subject>,
    /// The user; none before the first request that needs it.
    user: Option<User>,
    /// Subject that the client has stated.
    stated: String,
    /// Whether the client has begun a session.
    is_open: bool,
}

/// What follows a reply.
#[derive(PartialEq, Eq)]
enum After {
    NextRequest,
    Close,
}

impl<'a> Worker<'a> {
    pub(super) fn new(shared: &'a ServiceState) -> Self {
        Self {
            shared,
            store: None,
            input: Vec::new(),
            output: Vec::new(),
        }
    }

    /// Serves a connection to its end.
    pub(super) fn serve(&mut self, stream: Arc<TcpStream>) {
        self.input.clear();
        let shared = self.shared;
        let mut stream = LimitedStream::new(stream, Instant::now() + BEGIN_TIMEOUT);
        let Some(config) = &shared.tls else {
            let mut session = Session::default();
            self.talk(&mut stream, LimitedStream::limit, &mut session);
            return self.end();
        };
        let Ok(mut connection) = ServerConnection::new(Arc::clone(config)) else {
            return;
        };
        while connection.is_handshaking() {
            if let Err(error) = connection.complete_io(&mut stream) {
                if let Some(line) = shared.tally.handshakes.fail(&error) {
                    log(&line);
                }
                // The alert states the reason to the client.
                let _ = connection.write_tls(&mut stream);
                return;
            }
        }
        shared.tally.handshakes.complete();
        // With a proxy, the client is the end entity that has issued it.
        let certificate = connection.peer_certificates().and_then(end_entity);
        let mut session = Session {
            certified: Some(
                certificate
                    .and_then(|certificate| Subject::of_certificate(certificate))
                    .unwrap_or_default(),
            ),
            ..Session::default()
        };
        let mut stream = StreamOwned::new(connection, stream);
        stream.sock.limit(Instant::now() + BEGIN_TIMEOUT);
        self.talk(
            &mut stream,
            |stream, until| stream.sock.limit(until),
            &mut session,
        );
        stream.conn.send_close_notify();
        let _ = stream.flush();
        self.end();
    }

    /// Undoes a transaction that was not committed.
    fn end(&mut self) {
        if let Some(store) = &mut self.store
            && store.end_session().is_err()
        {
            self.store = None;
        }
        for buffer in [&mut self.input, &mut self.output] {
            if buffer.capacity() > MAX_KEPT {
                *buffer = Vec::new();
            }
        }
    }

    fn talk<S: Read + Write>(
        &mut self,
        stream: &mut S,
        limit: impl Fn(&mut S, Instant),
        session: &mut Session,
    ) {
        match self.shared.protocol {
            Protocol::Stateful => self.converse(stream, limit, session),
            Protocol::Soap => self.converse_soap(stream, limit, session),
        }
    }

    /// Answers requests until the client or the service ends the connection.
    fn converse<S: Read + Write>(
        &mut self,
        stream: &mut S,
        limit: impl Fn(&mut S, Instant),
        session: &mut Session,
    ) {
        let counters = &self.shared.counters;
        loop {
            let request = match self.receive(stream, &limit) {
                Ok(Some(request)) => request,
                Ok(None) => return,
                Err(InvalidRequest) => return counters.refused(),
            };
            // Requests that begin or end a session are not counted: they carry out no operation.
            let count = u64::from(!matches!(
                request,
                Request::StartSession { .. } | Request::EndSession
            ));
            counters.received(count);
            let (reply, after) = self.answer(session, &request);
            self.output.clear();
            reply.encode(&mut self.output);
            counters.answered(count);
            limit(stream, Instant::now() + MESSAGE_TIMEOUT);
            if stream
                .write_all(&self.output)
                .and_then(|()| stream.flush())
                .is_err()
                || after == After::Close
            {
                return;
            }
            limit(stream, Instant::now() + self.shared.idle_timeout);
        }
    }

    /// The next request. None: the connection has ended, or the client was silent for too long.
    fn receive<S: Read + Write>(
        &mut self,
        stream: &mut S,
        limit: &impl Fn(&mut S, Instant),
    ) -> Result<Option<Request>, InvalidRequest> {
        let mut is_begun = false;
        loop {
            if let Some(frame) = Frame::parse(&self.input).map_err(|_| InvalidRequest)? {
                let request = Request::decode(frame).map_err(|_| InvalidRequest)?;
                let length = frame.length();
                self.input.drain(..length);
                return Ok(Some(request));
            }
            if !is_begun && !self.input.is_empty() {
                is_begun = true;
                limit(stream, Instant::now() + MESSAGE_TIMEOUT);
            }
            let length = self.input.len();
            self.input.resize(length + PIECE, 0);
            let read = stream.read(&mut self.input[length..]);
            self.input.truncate(length + read.as_ref().copied().unwrap_or(0));
            match read {
                Ok(0) if length == 0 => return Ok(None),
                Ok(0) => return Err(InvalidRequest),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) if length == 0 => return Ok(None),
                Err(_) => return Err(InvalidRequest),
            }
        }
    }

    fn answer(&mut self, session: &mut Session, request: &Request) -> (Reply, After) {
        match request {
            Request::StartSession { .. } if session.is_open => {
                return (result(Status::INVALID), After::NextRequest);
            }
            Request::StartSession { subject } => {
                session.is_open = true;
                session.stated.clone_from(subject);
                session.user = None;
                return (result(Status::OK), After::NextRequest);
            }
            Request::EndSession => return (result(Status::OK), After::Close),
            _ => {}
        }
        // As in LFC, an operation without a session has a connection of its own.
        let mut after = if session.is_open {
            After::NextRequest
        } else {
            After::Close
        };
        let in_transaction = self.store.as_ref().is_some_and(Store::is_in_transaction);
        let reply = match self.carry_out(session, request) {
            Ok(reply) => reply,
            Err(error) => {
                if in_transaction {
                    // It is undone. Further requests of this client must not be carried out alone.
                    after = After::Close;
                }
                let (status, text) = self.database_failed(&error);
                Reply::Result(status, text)
            }
        };
        self.shared.tally.count(request);
        (reply, after)
    }

    /// Gives up the session with the database, and returns the result for the client.
    fn database_failed(&mut self, error: &DatabaseError) -> (Status, String) {
        let tally = &self.shared.tally;
        tally.database_errors.fetch_add(1, Ordering::Relaxed);
        self.store = None;
        let status = match error {
            DatabaseError::Busy | DatabaseError::Deadlock => Status::BUSY,
            DatabaseError::Failed(_) => Status::INTERNAL,
        };
        (status, format!("{}: {error}", status.text()))
    }

    fn carry_out(&mut self, session: &mut Session, request: &Request) -> Result<Reply, DatabaseError> {
        let shared = self.shared;
        let store = match &mut self.store {
            Some(store) => store,
            empty => empty.insert(Store::open(&shared.database, &shared.tables)?),
        };
        let user = match &mut session.user {
            Some(user) => user,
            None if store.is_in_transaction() => return Ok(result(Status::INVALID)),
            unknown => {
                let user = match &session.certified {
                    Some(subject) => store.user(subject)?,
                    None => store.user(&Subject::of_text(&session.stated))?,
                };
                unknown.insert(user)
            }
        };
        store.answer(user, request)
    }
}

#[allow(clippy::print_stderr, reason = "the log of a service is its stderr")]
fn log(text: &str) {
    eprintln!("catalogue: {text}");
}

/// The client sent something else than requests, or too slowly.
struct InvalidRequest;

/// Number of entries that a request concerns.
pub(super) fn entries_of(request: &Request) -> u64 {
    let count = match request {
        Request::Register(entries) => entries.len(),
        Request::Lookup(keys) | Request::Delete(keys) => keys.len(),
        _ => 1,
    };
    count.min(MAX_BULK) as u64
}
