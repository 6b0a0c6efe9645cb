//! `ftp`: downloads and uploads over FTP (RFC 959) and `GridFTP` without GSI (GFD.20), on a kept
//! control connection or with one per request. A tester has one control connection per endpoint.
//!
//! In stream mode, a file is sent on one data connection, which the tester opens (PASV, or EPSV
//! with IPv6). In extended block mode (MODE E), it is sent in blocks with offsets on several
//! connections, which the sender opens: for a download the tester listens (PORT, or EPRT), and the
//! server opens up to `streams` connections. With `data: kept`, they are used for the next transfer
//! in the same direction, too; otherwise every transaction has new ones. With `stripes`, an upload
//! has `streams` connections to each data server (SPAS), and a download as many for each stripe
//! (SPOR); the server distributes the stripes to its data servers.
//!
//! A transaction transfers a file, a part of it (ERET P, ESTO A), the rest of it (REST), or several
//! files. Their commands are sent at once, and the files follow each other on the same data
//! connections (pipelining).
//!
//! Stamps: start immediately before the first system call, which connects, or sends a command on a
//! kept connection; connected when the login is complete; first byte at the first byte of the data,
//! or for an upload at the first reply to the command; end at the final reply, or immediately after
//! the read that returned the last byte, whichever is later. A control connection per request is
//! ended after that. Its time is not part of the response time, and does not make the next
//! transaction late.
//!
//! Data are counted and discarded while they arrive, and generated while they are sent, so that a
//! file of any size needs no memory. Items: files of a correct transaction. Payload: their bytes.
//! Wire bytes: all, including commands, replies and headers of blocks.
//!
//! With `verify`, the checksum of the content is compared with that of the server (CKSM) after the
//! end. The server's checksum of a downloaded file is requested once and then known: a file must
//! not change during a run. That of an uploaded file is requested after each upload. A server that
//! does not reply within the timeout of the transaction is a timeout, because it is not known
//! whether the content is correct.
//!
//! A kept connection that the server has closed while it was idle is replaced once within the
//! transaction (`attempt` 1).
//!
//! Codes: `FTP N`, the code of a reply that is not a success (error; refused if it belongs to the
//! login). Its text becomes an event. `unexpected bytes` and `wrong checksum` (wrong); `bad
//! response`, `answer too long`, `invalid path`; `closed early`: a data connection ended before the
//! file did; those of failed exchanges.
//!
//! Metrics: `ftp_login_s`, for each new control connection, from the established TCP connection to
//! the end of the login; in extended block mode `ftp_streams`, the number of data connections of a
//! transaction, and `ftp_new_streams`, how many of them were opened for it.

mod channels;
mod content;
mod control;
mod download;
mod error;
mod settings;
mod transferred;
mod upload;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_model::{Code, NOT_HAPPENED, Outcome};

use self::content::Content;
use self::control::{Control, succeeded};
use self::error::TransferError;
use self::settings::{FtpServer, Mode, Operation, Settings, Transfer, has_line_end, operation};
use self::transferred::Transferred;
use crate::api::DriverInfo;
use crate::driver::{AsyncDriver, AsyncTester, Attempt, Request, Setup};
use crate::drivers::connection::Connection;
use crate::lane::reactor::Io;
use crate::net::round_trips::{Names, RoundTrips};
use crate::setup_error::SetupError;

pub use error::FtpError;

/// Description of the driver.
pub(crate) const INFO: DriverInfo = DriverInfo {
    schemes: &["ftp"],
    ..DriverInfo::new("ftp", "downloads and uploads over FTP and GridFTP")
};

/// Maximum number of checksums of files that are known.
const MAX_CHECKSUMS: usize = 10_000;

/// The driver.
pub struct Ftp {
    keep: bool,
    /// Per endpoint.
    servers: Vec<FtpServer>,
    operations: Vec<Operation>,
    content: Content,
    /// Checksums that servers have computed, by endpoint and command.
    checksums: Mutex<HashMap<(usize, Vec<u8>), String>>,
    names: Names,
    login: Code,
    streams: Code,
    new_streams: Code,
}

impl AsyncDriver for Ftp {
    type Tester = Tester;

    fn prepare(setup: &Setup<'_>) -> Result<Self, SetupError> {
        let settings: Settings = setup.settings()?;
        let content = Content::new(setup.seed);
        let operations = (0..setup.requests.len()).map(|index| operation(setup, index, &content));
        Ok(Self {
            keep: settings.connection == Connection::Kept,
            servers: settings.servers(setup)?,
            operations: operations.collect::<Result<_, _>>()?,
            content,
            checksums: Mutex::default(),
            names: Names::new(setup.codes),
            login: setup.codes.number("ftp_login_s"),
            streams: setup.codes.number("ftp_streams"),
            new_streams: setup.codes.number("ftp_new_streams"),
        })
    }

    fn tester(self: &Arc<Self>, io: &Io, _: u32) -> Tester {
        Tester {
            kept: self.servers.iter().map(|_| None).collect(),
            trips: RoundTrips::new(self.names, self.servers.len()),
            driver: Arc::clone(self),
            io: Rc::clone(io),
            sessions: 0,
            paths: Vec::new(),
        }
    }

    /// Control connections, each with one listening socket and the data connections if they are
    /// kept.
    fn files(&self) -> u64 {
        let streams = self.operations.iter().map(Operation::max_connections).max();
        let data = 1 + streams.unwrap_or(1) as u64;
        let servers = self.servers.len() as u64;
        let is_kept = self.operations.iter().any(|operation| operation.is_kept);
        servers + data * if is_kept { servers } else { 1 }
    }
}

/// A tester: its control connections, one per endpoint.
pub struct Tester {
    driver: Arc<Ftp>,
    io: Io,
    kept: Vec<Option<Control>>,
    sessions: u32,
    trips: RoundTrips,
    /// Paths of the files of a transaction.
    paths: Vec<Vec<u8>>,
}

impl AsyncTester for Tester {
    async fn operate(&mut self, request: &Request<'_>, attempt: &mut Attempt) {
        let driver = Arc::clone(&self.driver);
        let operation = &driver.operations[request.operation];
        let mut paths = std::mem::take(&mut self.paths);
        operation.fill(&driver.servers[request.endpoint], &request.fill, &mut paths);
        attempt.begin();
        let result = if paths.iter().any(|path| has_line_end(path)) {
            Err(TransferError::path())
        } else {
            self.exchange(request.endpoint, operation, &paths, attempt).await
        };
        if let Err(error) = result {
            fail(attempt, &error);
        }
        if !driver.keep
            && let Some(control) = self.kept[request.endpoint].take()
        {
            control.close(attempt);
            attempt.freed();
        }
        self.paths = paths;
    }

    /// The connections of the abandoned transfer were dropped with it, and closed: the server ends
    /// the transfer. The others are not affected.
    fn reset(&mut self) {}

    fn end_session(&mut self) {
        self.kept
            .iter_mut()
            .filter_map(Option::take)
            .for_each(Control::leave);
    }
}

impl Tester {
    /// Transfers files on a kept control connection or a new one, and verifies them. The connection
    /// is kept if it can be used for another transfer.
    async fn exchange(
        &mut self,
        endpoint: usize,
        operation: &Operation,
        paths: &[Vec<u8>],
        attempt: &mut Attempt,
    ) -> Result<(), TransferError> {
        let (driver, io) = (Arc::clone(&self.driver), Rc::clone(&self.io));
        let mut kept = self.kept[endpoint].take();
        if kept.as_mut().is_some_and(|control| !control.check_alive(&io)) {
            kept = None;
        }
        loop {
            let reused = kept.is_some();
            let mut control = match kept.take() {
                Some(control) => control,
                None => Box::pin(self.open(endpoint, attempt)).await?,
            };
            attempt.session = if driver.keep { control.number } else { 0 };
            let result = match driver
                .transfer(&io, &mut control, (operation, paths), attempt)
                .await
            {
                // No byte was transferred, so that the transfer can be begun again.
                Err(error) if reused && error.is_closed && attempt.first_byte == NOT_HAPPENED => {
                    attempt.attempt = 1;
                    continue;
                }
                Ok(found) => {
                    self.trips.ended(endpoint, control.stream(), attempt);
                    let done = (operation, &found);
                    driver
                        .verify(&io, &mut control, (endpoint, paths), done, attempt)
                        .await
                }
                // The replies to the other commands would be taken for those of the next transfer.
                Err(error) if paths.len() > 1 => Err(error.unusable()),
                Err(error) => Err(error),
            };
            if result.as_ref().err().is_none_or(|error| error.is_usable) {
                self.kept[endpoint] = Some(control);
            }
            return result;
        }
    }

    async fn open(&mut self, endpoint: usize, attempt: &mut Attempt) -> Result<Control, TransferError> {
        let driver = Arc::clone(&self.driver);
        let number = self.sessions + 1;
        let server = &driver.servers[endpoint];
        let (control, login_s) = Control::open(&self.io, server, (number, driver.names), attempt).await?;
        attempt.metrics.push((driver.login, login_s));
        self.sessions = number;
        Ok(control)
    }
}

impl Ftp {
    /// Transfers files, and fills in `attempt` as for a correct transfer.
    async fn transfer(
        &self,
        io: &Io,
        control: &mut Control,
        (operation, paths): (&Operation, &[Vec<u8>]),
        attempt: &mut Attempt,
    ) -> Result<Transferred, TransferError> {
        // Boxed, because connections with their buffers would make every task larger.
        let done = match &operation.transfer {
            Transfer::Download => {
                Box::pin(download::download(io, control, (operation, paths), attempt)).await?
            }
            Transfer::Upload { length, .. } => {
                let transfer = (operation, *length, paths);
                Box::pin(upload::upload(io, control, transfer, &self.content, attempt)).await?
            }
        };
        // A file without bytes.
        if attempt.first_byte == NOT_HAPPENED {
            attempt.first_byte = attempt.end;
        }
        if operation.mode == Mode::Extended {
            attempt.metrics.push((self.streams, done.connections as f64));
            attempt.metrics.push((self.new_streams, done.opened as f64));
        }
        (attempt.items, attempt.payload) = (paths.len() as u64, done.payload());
        attempt.conclude(Outcome::Ok, Code::NONE);
        Ok(done)
    }

    /// Compares what was transferred with what was expected. The time for this is not part of the
    /// response time.
    async fn verify(
        &self,
        io: &Io,
        control: &mut Control,
        (endpoint, paths): (usize, &[Vec<u8>]),
        (operation, done): (&Operation, &Transferred),
        attempt: &mut Attempt,
    ) -> Result<(), TransferError> {
        if let Some(expected) = operation.expected
            && let Some(found) = done.sizes.iter().find(|&&size| size != expected)
        {
            let message = format!("expected {expected} bytes, got {found}");
            return Err(TransferError::wrong("unexpected bytes", message));
        }
        let Some(kind) = operation.verify else {
            return Ok(());
        };
        let command = operation.checksum_command(kind);
        for (index, path) in paths.iter().enumerate() {
            let key = (endpoint, [command.as_bytes(), path].concat());
            let found = match &operation.transfer {
                Transfer::Download => &done.checksums[index],
                Transfer::Upload { checksum, .. } => checksum,
            };
            let expected = self.checksum_of(io, control, key, operation, attempt).await?;
            if !is_same(&expected, found) {
                let message = format!("{}: the server has {expected}, the content {found}", kind.name());
                return Err(TransferError::wrong("wrong checksum", message));
            }
        }
        Ok(())
    }

    /// The checksum that the server has computed. `key`: endpoint and command.
    async fn checksum_of(
        &self,
        io: &Io,
        control: &mut Control,
        key: (usize, Vec<u8>),
        operation: &Operation,
        attempt: &mut Attempt,
    ) -> Result<String, TransferError> {
        let is_download = matches!(operation.transfer, Transfer::Download);
        // An upload to the same path may have stored another content.
        let known = self.known_checksums().get(&key).cloned();
        if let Some(known) = known.filter(|_| is_download) {
            attempt.freed();
            return Ok(known);
        }
        // Until the reply, the transaction has no result: a timeout ends it without one.
        let counted = (attempt.items, attempt.payload);
        (attempt.items, attempt.payload) = (0, 0);
        attempt.free = NOT_HAPPENED;
        let reply = control.ask(io, &key.1, attempt).await;
        (attempt.items, attempt.payload) = counted;
        attempt.freed();
        let reply = succeeded(Outcome::Error, reply?)?;
        let text = reply.text.trim().to_ascii_lowercase();
        let mut known = self.known_checksums();
        if is_download && known.len() < MAX_CHECKSUMS {
            known.insert(key, text.clone());
        }
        Ok(text)
    }

    fn known_checksums(&self) -> MutexGuard<'_, HashMap<(usize, Vec<u8>), String>> {
        self.checksums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether two checksums in hexadecimal digits are equal. Servers leave out zeros at the beginning.
fn is_same(one: &str, other: &str) -> bool {
    one.trim_start_matches('0') == other.trim_start_matches('0')
}

/// Ends the attempt with a failure. Bytes that were read before the failure do not count.
fn fail(attempt: &mut Attempt, error: &TransferError) {
    let code = attempt.code_of(&error.code);
    // The end of a transfer whose content is wrong is that of the transfer.
    if attempt.end == NOT_HAPPENED || (!attempt.is_over() && error.outcome != Outcome::Wrong) {
        attempt.end = attempt.now();
    }
    attempt.items = 0;
    attempt.conclude(error.outcome, code);
    if !error.message.is_empty() {
        attempt.quote("ftp", &error.message.replace(char::is_control, " "));
    }
}
