//! `MariaDB` and `MySQL`, protocol 10, `COM_QUERY`: every value is received as text.
//!
//! Sources: "Clients & Utilities / Client/Server Protocol" of `MariaDB`'s knowledge base, and the
//! protocol pages of `MySQL`'s source documentation. The client requests only those optional
//! capabilities that shorten the exchange or make it equal with both servers. It does not request
//! several statements in one query, so that a value in a query cannot become a statement.

mod auth;
mod binlog;
mod columns;
mod lenenc;
mod packets;

pub use self::binlog::LogEvent;

use self::auth::Method;
use self::binlog::Log;
use self::packets::{FULL, Packets};
use super::input::{Fields, MAX_LOGIN_BYTES, MAX_MESSAGE_BYTES, check_no_excess, no_tls};
use super::session::Common;
use super::{Column, Event, Login, Refusal, SqlProtocolError, TransactionStatus};

const LONG_PASSWORD: u32 = 1;
const LONG_FLAG: u32 = 1 << 2;
const CONNECT_WITH_DB: u32 = 1 << 3;
const PROTOCOL_41: u32 = 1 << 9;
const SSL: u32 = 1 << 11;
const TRANSACTIONS: u32 = 1 << 13;
const SECURE_CONNECTION: u32 = 1 << 15;
const MULTI_RESULTS: u32 = 1 << 17;
const PLUGIN_AUTH: u32 = 1 << 19;
const DEPRECATE_EOF: u32 = 1 << 24;
const NEEDED: u32 = PROTOCOL_41 | SECURE_CONNECTION;
const WANTED: u32 =
    NEEDED | LONG_PASSWORD | LONG_FLAG | TRANSACTIONS | MULTI_RESULTS | PLUGIN_AUTH | DEPRECATE_EOF;

/// `utf8mb4_general_ci`, which both servers support.
const CHARSET: u8 = 45;
/// Status flag: in a transaction, begun explicitly or by a statement without `autocommit`.
const IN_TRANSACTION: u16 = 1;
/// Status flag: another result follows.
const MORE_RESULTS: u16 = 8;
/// Maximum number of columns of a result; the limit of the servers is 4096.
const MAX_COLUMNS: u64 = 65_535;

const OK: u8 = 0;
const MORE_DATA: u8 = 1;
const EOF: u8 = 0xfe;
const ERR: u8 = 0xff;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Greeting,
    /// The caller performs the TLS handshake.
    Tls,
    Login,
    Idle,
    /// The first message of the response to a query follows.
    Response,
    /// The descriptions of this number of columns follow.
    Columns(u16),
    /// An EOF follows the descriptions, if EOF is not deprecated.
    ColumnsEnd,
    Rows,
    /// Events of the binary log follow, without end.
    Log,
    Over,
}

pub(super) struct Client {
    login: Login,
    tls: bool,
    phase: Phase,
    capabilities: u32,
    /// Method and nonce of the greeting, until TLS has started.
    pending_login: Option<(Method, Vec<u8>)>,
    packets: Packets,
    columns: Vec<Column>,
    log: Log,
}

fn nonsense(what: &'static str) -> SqlProtocolError {
    SqlProtocolError::Nonsense(what)
}

impl Client {
    pub(super) fn new(login: Login, tls: bool) -> Self {
        Self {
            login,
            tls,
            phase: Phase::Greeting,
            capabilities: 0,
            pending_login: None,
            packets: Packets::default(),
            columns: Vec::new(),
            log: Log::new(),
        }
    }

    pub(super) fn query(&mut self, sql: &str, common: &mut Common) {
        debug_assert!(self.phase == Phase::Idle, "a query before the session is ready");
        if self.phase == Phase::Idle {
            self.phase = Phase::Response;
            self.packets.begin();
            self.packets.send(&[&[3], sql.as_bytes()], &mut common.outgoing);
        }
    }

    /// `COM_PING`: its response contains the transaction status.
    pub(super) fn ping(&mut self, common: &mut Common) {
        debug_assert!(self.phase == Phase::Idle, "a ping before the session is ready");
        if self.phase == Phase::Idle {
            self.phase = Phase::Response;
            self.packets.begin();
            self.packets.send(&[&[0x0e]], &mut common.outgoing);
        }
    }

    /// `COM_BINLOG_DUMP`.
    pub(super) fn follow_log(&mut self, replica: u32, file: &str, position: u32, common: &mut Common) {
        debug_assert!(self.phase == Phase::Idle, "the log before the session is ready");
        if self.phase == Phase::Idle {
            self.phase = Phase::Log;
            self.log = Log::new();
            self.packets.begin();
            let (position, replica) = (position.to_le_bytes(), replica.to_le_bytes());
            let body: [&[u8]; 5] = [&[0x12], &position, &[0, 0], &replica, file.as_bytes()];
            self.packets.send(&body, &mut common.outgoing);
        }
    }

    pub(super) fn quit(&mut self, common: &mut Common) {
        // Before the login the server does not accept commands.
        if !matches!(self.phase, Phase::Greeting | Phase::Tls | Phase::Over) {
            self.packets.begin();
            self.packets.send(&[&[1]], &mut common.outgoing);
        }
        self.phase = Phase::Over;
    }

    pub(super) fn next(&mut self, common: &mut Common) -> Result<Option<Event>, SqlProtocolError> {
        loop {
            let limit = match self.phase {
                Phase::Greeting | Phase::Tls | Phase::Login => MAX_LOGIN_BYTES,
                _ => MAX_MESSAGE_BYTES,
            };
            if !self.packets.hold(&mut common.input, limit)? {
                return Ok(None);
            }
            if let Some(event) = self.step(common)? {
                return Ok(Some(event));
            }
            common.input.release();
        }
    }

    fn step(&mut self, common: &mut Common) -> Result<Option<Event>, SqlProtocolError> {
        let first = *common.input.message().first().ok_or(nonsense("empty packet"))?;
        if self.phase == Phase::Over {
            return Ok(None);
        }
        if first == ERR && !matches!(self.phase, Phase::Columns(_)) {
            return self.refused(common).map(Some);
        }
        match self.phase {
            Phase::Greeting => self.greeting(common),
            Phase::Login => self.login(first, common),
            Phase::Response => self.response(first, common),
            Phase::Columns(left) => self.column(left, common),
            Phase::ColumnsEnd => {
                if first != EOF || common.input.message().len() > 8 {
                    return Err(nonsense("no EOF after the descriptions of columns"));
                }
                Ok(Some(self.begin_rows(common)))
            }
            Phase::Rows => self.row(first, common),
            Phase::Log => self.log_event(first, common).map(Some),
            Phase::Tls | Phase::Idle | Phase::Over => Err(nonsense("unexpected packet")),
        }
    }

    fn refused(&mut self, common: &mut Common) -> Result<Event, SqlProtocolError> {
        let mut fields = Fields::new(common.input.message());
        fields.byte()?;
        let number = u16::from_le_bytes(fields.array()?);
        // Before the server knows the client's capabilities, it omits the SQLSTATE.
        let code = if fields.rest().first() == Some(&b'#') {
            fields.byte()?;
            String::from_utf8_lossy(fields.take(5)?).into_owned()
        } else if number == 1040 {
            "08004".to_owned()
        } else {
            "HY000".to_owned()
        };
        let message = String::from_utf8_lossy(fields.rest()).into_owned();
        self.phase = match self.phase {
            Phase::Greeting | Phase::Tls | Phase::Login | Phase::Idle | Phase::Log | Phase::Over => {
                Phase::Over
            }
            Phase::Response | Phase::Columns(_) | Phase::ColumnsEnd | Phase::Rows => {
                common.queued.push_back(Event::Ready);
                // A deadlock ends the transaction, a duplicate key does not, and an error message
                // contains no status.
                common.transaction = TransactionStatus::Unknown;
                Phase::Idle
            }
        };
        Ok(Event::Failed(Refusal {
            code,
            number,
            message,
        }))
    }

    fn greeting(&mut self, common: &mut Common) -> Result<Option<Event>, SqlProtocolError> {
        let mut fields = Fields::new(common.input.message());
        if fields.byte()? != 10 {
            return Err(nonsense("greeting of a protocol version other than 10"));
        }
        fields.until_nul()?; // version of the server
        fields.take(4)?; // number of the connection
        let mut nonce = fields.take(8)?.to_vec();
        fields.byte()?;
        let low: [u8; 2] = fields.array()?;
        fields.take(3)?; // character set, status
        let high: [u8; 2] = fields.array()?;
        let offered = u32::from_le_bytes([low[0], low[1], high[0], high[1]]);
        if offered & NEEDED != NEEDED {
            return Err(nonsense("server before version 4.1"));
        }
        let length = usize::from(fields.byte()?);
        fields.take(10)?;
        let second = fields.take(length.saturating_sub(8).max(13))?;
        nonce.extend_from_slice(&second[..12]);
        let method = if offered & PLUGIN_AUTH == 0 {
            Method::Native
        } else {
            // An unknown method is not an error yet: the user may have another one, to which the
            // server then switches.
            Method::from_name(fields.until_nul()?).unwrap_or(Method::Native)
        };
        self.capabilities = offered & WANTED;
        if !self.login.database.is_empty() {
            self.capabilities |= CONNECT_WITH_DB & offered;
        }
        if self.tls {
            if offered & SSL == 0 {
                return Err(no_tls("ssl_cert, ssl_key"));
            }
            check_no_excess(&common.input)?;
            self.capabilities |= SSL;
            // The first part of the handshake response, which is sent again completely through TLS.
            self.packets.send(&[&self.head()], &mut common.outgoing);
            self.pending_login = Some((method, nonce));
            self.phase = Phase::Tls;
            return Ok(Some(Event::StartTls));
        }
        self.respond(method, &nonce, common);
        self.phase = Phase::Login;
        Ok(None)
    }

    /// Sends user and proof of the password.
    pub(super) fn tls_started(&mut self, common: &mut Common) {
        if let Some((method, nonce)) = self.pending_login.take() {
            self.respond(method, &nonce, common);
            self.phase = Phase::Login;
        }
    }

    /// The first part of a handshake response, which is also the whole TLS request.
    fn head(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(128);
        body.extend_from_slice(&self.capabilities.to_le_bytes());
        body.extend_from_slice(&(MAX_MESSAGE_BYTES as u32).to_le_bytes());
        body.push(CHARSET);
        body.extend_from_slice(&[0; 23]);
        body
    }

    /// Sends a `HandshakeResponse41`.
    fn respond(&mut self, method: Method, nonce: &[u8], common: &mut Common) {
        let proof = method.proof(self.login.password.as_deref().unwrap_or_default(), nonce);
        let mut body = self.head();
        push_text(&mut body, &self.login.user);
        body.push(proof.len() as u8); // 32 at most
        body.extend_from_slice(&proof);
        if self.capabilities & CONNECT_WITH_DB != 0 {
            push_text(&mut body, &self.login.database);
        }
        if self.capabilities & PLUGIN_AUTH != 0 {
            push_text(&mut body, method.name());
        }
        self.packets.send(&[&body], &mut common.outgoing);
    }

    fn login(&mut self, first: u8, common: &mut Common) -> Result<Option<Event>, SqlProtocolError> {
        let mut fields = Fields::new(common.input.message());
        fields.byte()?;
        match first {
            OK => {
                self.phase = Phase::Idle;
                Ok(Some(Event::Ready))
            }
            MORE_DATA => match fields.rest() {
                [3] => Ok(None),
                [4] if self.tls => {
                    let password = self.login.password.as_deref().unwrap_or_default();
                    self.packets
                        .send(&[password.as_bytes(), b"\0"], &mut common.outgoing);
                    Ok(None)
                }
                [4] => Err(auth::full()),
                _ => Err(nonsense("unexpected step of the login")),
            },
            EOF if fields.is_empty() => Err(auth::unknown(b"mysql_old_password")),
            EOF => {
                let name = fields.until_nul()?;
                let method = Method::from_name(name).ok_or_else(|| auth::unknown(name))?;
                let nonce = fields.rest().get(..20).ok_or(nonsense("too few random bytes"))?;
                let password = self.login.password.as_deref().unwrap_or_default();
                let proof = method.proof(password, nonce);
                self.packets.send(&[&proof], &mut common.outgoing);
                Ok(None)
            }
            _ => Err(nonsense("unexpected packet during the login")),
        }
    }

    fn response(&mut self, first: u8, common: &mut Common) -> Result<Option<Event>, SqlProtocolError> {
        match first {
            OK => self.complete(common).map(Some),
            lenenc::NULL => Err(nonsense("request for a local file")),
            _ => {
                let mut fields = Fields::new(common.input.message());
                let count = lenenc::number(&mut fields)?;
                if count == 0 || count > MAX_COLUMNS || !fields.is_empty() {
                    return Err(nonsense("result without a valid number of columns"));
                }
                self.columns = Vec::new();
                self.phase = Phase::Columns(count as u16);
                Ok(None)
            }
        }
    }

    fn column(&mut self, left: u16, common: &mut Common) -> Result<Option<Event>, SqlProtocolError> {
        self.columns.push(columns::column(common.input.message())?);
        if left > 1 {
            self.phase = Phase::Columns(left - 1);
            return Ok(None);
        }
        if self.capabilities & DEPRECATE_EOF == 0 {
            self.phase = Phase::ColumnsEnd;
            return Ok(None);
        }
        Ok(Some(self.begin_rows(common)))
    }

    fn begin_rows(&mut self, common: &mut Common) -> Event {
        self.phase = Phase::Rows;
        common.columns = self.columns.len();
        Event::Columns(std::mem::take(&mut self.columns))
    }

    fn row(&mut self, first: u8, common: &mut Common) -> Result<Option<Event>, SqlProtocolError> {
        let message = common.input.message();
        // If the length of a value begins with the same byte, the message is longer than a packet.
        if first == EOF && message.len() < FULL {
            return self.complete(common).map(Some);
        }
        let mut fields = Fields::new(message);
        for _ in 0..common.columns {
            let range = if fields.rest().first() == Some(&lenenc::NULL) {
                fields.byte()?;
                None
            } else {
                let length = lenenc::bytes(&mut fields)?.len();
                Some(fields.offset() - length..fields.offset())
            };
            common.row.push(range);
        }
        if !fields.is_empty() {
            return Err(nonsense("row with excess bytes"));
        }
        Ok(Some(Event::Row))
    }

    fn log_event(&mut self, first: u8, common: &Common) -> Result<Event, SqlProtocolError> {
        match first {
            OK => {
                let event = common.input.message().get(1..).unwrap_or_default();
                self.log.event(event).map(Event::Log)
            }
            EOF => Err(nonsense("end of the binary log")),
            _ => Err(nonsense("unexpected packet in the binary log")),
        }
    }

    /// Reads OK or the old EOF, which end a statement or result.
    fn complete(&mut self, common: &mut Common) -> Result<Event, SqlProtocolError> {
        let message = common.input.message();
        let mut fields = Fields::new(message);
        let is_old_eof = fields.byte()? == EOF && self.capabilities & DEPRECATE_EOF == 0;
        if is_old_eof {
            fields.take(2)?; // warnings
        } else {
            lenenc::number(&mut fields)?; // affected rows
            lenenc::number(&mut fields)?; // last insert id
        }
        let status = u16::from_le_bytes(fields.array()?);
        common.transaction = if status & IN_TRANSACTION == 0 {
            TransactionStatus::Idle
        } else {
            TransactionStatus::Open
        };
        self.phase = if status & MORE_RESULTS == 0 {
            common.queued.push_back(Event::Ready);
            Phase::Idle
        } else {
            Phase::Response
        };
        Ok(Event::Complete)
    }
}

fn push_text(body: &mut Vec<u8>, text: &str) {
    body.extend_from_slice(text.as_bytes());
    body.push(0);
}
