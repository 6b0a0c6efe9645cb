//! `sql` with `sqlite:/absolute/path`, opened read-only. Each tester is a thread with its own
//! connection.
//!
//! Stamps: start before the database is opened, or before the query is prepared on a kept
//! connection; connected when a new connection is open (`SQLite` does not read the file before the
//! first query); first byte after the first step, which returns a row or ends the query; end after
//! the step that ends the query. A connection is closed after the end. That time is not part of the
//! response time, and does not make the next transaction late.
//!
//! The whole result is read, and each value is copied, as a client does. Items: rows. Payload:
//! bytes of the values as text; a BLOB counts as it is; NULL has none. Wire bytes: 0, because there
//! is no network. Kept connections keep their prepared statements ([`CACHED_STATEMENTS`]).
//!
//! The tester does not wait for locks of other processes: if the database is busy, the transaction
//! fails at once. A timeout interrupts the query between two steps of `SQLite`'s virtual machine; a
//! single call of a slow SQL function is not interrupted.
//!
//! Codes: `busy`, `locked`, `syntax error`, `no such table` and other messages, `parameters` (the
//! query contains parameters), `several statements`, `read-only`, `not a database`, `corrupt`,
//! `disk I/O`, `interrupted`, `sqlite N`; `cannot open` (refused); the code of a timeout states
//! what the tester waited for.

use std::fmt::Write as _;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plimsoll_model::{Code, Endpoint, Outcome};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, ErrorCode, OpenFlags, Statement};

use super::{Query, keeps_connections, queries};
use crate::driver::{Attempt, BlockingDriver, BlockingTester, Limit, Request, Setup, Waiting};
use crate::drivers::versions::Newest;
use crate::setup_error::{EndpointError, SetupError, UrlError};

/// Number of prepared statements that a kept connection keeps.
const CACHED_STATEMENTS: usize = 256;
/// Number of steps of the virtual machine between two readings of the clock: about 10 µs. The
/// reading takes much less than 1 % of it.
const STEPS: i32 = 1000;
/// Interval at which a tester checks whether the run cancels transactions, ns. The check is a
/// system call.
const CANCEL_CHECK_NS: u64 = 2_000_000;

/// The driver.
pub struct Sqlite {
    keep: bool,
    /// Per endpoint.
    databases: Vec<PathBuf>,
    /// Per operation.
    queries: Vec<Query>,
}

impl BlockingDriver for Sqlite {
    type Tester = Tester;

    fn prepare(setup: &Setup<'_>) -> Result<Self, SetupError> {
        let databases = setup.endpoints.iter().map(database).collect::<Result<_, _>>()?;
        Ok(Self {
            keep: keeps_connections(setup)?,
            databases,
            queries: queries(setup)?,
        })
    }

    fn tester(self: &Arc<Self>, _: u32) -> Result<Tester, SetupError> {
        Ok(Tester {
            driver: Arc::clone(self),
            watch: Arc::new(Watch::new()),
            kept: self.databases.iter().map(|_| None).collect(),
            sessions: 0,
            text: Vec::new(),
            row: Vec::new(),
        })
    }
}

/// The file of an endpoint. Whether it exists is not checked here, because it may be created before
/// the run begins.
fn database(endpoint: &Endpoint) -> Result<PathBuf, EndpointError> {
    endpoint
        .url
        .strip_prefix("sqlite:")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .ok_or_else(|| {
            let url = UrlError::form("sqlite:/absolute/path", &endpoint.url);
            EndpointError::new(endpoint, url)
        })
}

/// When the progress handler of a connection ends a query. Rejected: a watchdog thread, which would
/// be another thread per tester, or one that wakes for all testers.
#[derive(Debug)]
struct Watch {
    zero: Instant,
    /// Timeout of the query, ns since `zero`.
    deadline: AtomicU64,
    /// Time of the next check of `cancel`, ns since `zero`.
    next_check: AtomicU64,
    /// Descriptor that becomes readable when the run cancels transactions.
    cancel: AtomicI32,
}

impl Watch {
    fn new() -> Self {
        Self {
            zero: Instant::now(),
            deadline: AtomicU64::new(u64::MAX),
            next_check: AtomicU64::new(0),
            cancel: AtomicI32::new(-1),
        }
    }

    fn now(&self) -> u64 {
        self.zero.elapsed().as_nanos() as u64
    }

    /// Sets the limits of a query, before it starts. Only one thread uses them, so that `Relaxed`
    /// is sufficient.
    fn arm(&self, limit: &Limit<'_>) {
        let deadline = self.now().saturating_add(limit.left_ns());
        self.deadline.store(deadline, Ordering::Relaxed);
        self.next_check.store(0, Ordering::Relaxed);
        self.cancel.store(limit.cancel_fd(), Ordering::Relaxed);
    }

    /// Checks whether the query must end.
    fn check_over(&self) -> bool {
        let now = self.now();
        if now >= self.deadline.load(Ordering::Relaxed) {
            return true;
        }
        if now < self.next_check.load(Ordering::Relaxed) {
            return false;
        }
        self.next_check.store(now + CANCEL_CHECK_NS, Ordering::Relaxed);
        is_readable(self.cancel.load(Ordering::Relaxed))
    }
}

fn is_readable(fd: RawFd) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: `poll` is one valid entry; a descriptor below 0 is ignored. The call does not wait.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 && poll.revents & libc::POLLIN != 0 }
}

/// An open connection.
struct OpenConnection {
    connection: Connection,
    session: u32,
}

/// A tester: its connections and buffers.
pub struct Tester {
    driver: Arc<Sqlite>,
    watch: Arc<Watch>,
    /// Per endpoint.
    kept: Vec<Option<OpenConnection>>,
    sessions: u32,
    text: Vec<u8>,
    row: Vec<u8>,
}

impl BlockingTester for Tester {
    fn end_session(&mut self) {
        self.kept.fill_with(|| None);
    }

    fn operate(&mut self, request: &Request<'_>, attempt: &mut Attempt, limit: &Limit<'_>) {
        let driver = Arc::clone(&self.driver);
        let query = &driver.queries[request.operation];
        let template = &query.text;
        if template.constant().is_none() {
            self.text.clear();
            template.fill(&request.fill, &mut self.text);
        }
        if let Some(versions) = &query.versions {
            versions.note_written(&request.fill, attempt);
        }
        let mut newest = query.column().map(Newest::of);
        attempt.begin();
        self.watch.arm(limit);
        let kept = match self.kept[request.endpoint].take() {
            Some(kept) => kept,
            None => match self.open(&driver.databases[request.endpoint], attempt) {
                Ok(kept) => kept,
                Err(error) => return fail(attempt, limit, &error),
            },
        };
        attempt.session = if driver.keep { kept.session } else { 0 };
        // Values are numbers and texts, so that the filled template is valid UTF-8.
        let sql = match template.constant() {
            Some(text) => text,
            None => std::str::from_utf8(&self.text).unwrap_or_default(),
        };
        let statement = (sql, driver.keep);
        let result = run(&kept.connection, statement, &mut self.row, &mut newest, attempt);
        match result {
            Ok(()) => {
                attempt.conclude(Outcome::Ok, Code::NONE);
                if let (Some(versions), Some(newest)) = (&query.versions, newest) {
                    versions.note_read(&request.fill, newest.version(), attempt);
                }
            }
            Err(error) => fail(attempt, limit, &error),
        }
        if driver.keep {
            self.kept[request.endpoint] = Some(kept);
        } else {
            drop(kept);
            attempt.freed();
        }
    }
}

impl Tester {
    fn open(&mut self, path: &Path, attempt: &mut Attempt) -> Result<OpenConnection, Error> {
        attempt.waiting = Waiting::Connect;
        // A tester is one thread, so that `SQLite` needs no mutex. The flag for URIs is not set, so
        // that every path is used as it is.
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(Duration::ZERO)?;
        connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
        let watch = Arc::clone(&self.watch);
        connection.progress_handler(STEPS, Some(move || watch.check_over()))?;
        attempt.connected = attempt.now();
        self.sessions += 1;
        Ok(OpenConnection {
            connection,
            session: self.sessions,
        })
    }
}

fn run(
    connection: &Connection,
    (sql, keep): (&str, bool),
    row: &mut Vec<u8>,
    newest: &mut Option<Newest<'_>>,
    attempt: &mut Attempt,
) -> Result<(), Error> {
    attempt.waiting = Waiting::FirstByte;
    if keep {
        let mut statement = connection.prepare_cached(sql)?;
        fetch(&mut statement, row, newest, attempt)
    } else {
        fetch(&mut connection.prepare(sql)?, row, newest, attempt)
    }
}

/// Reads all rows; stamps first byte and end.
fn fetch(
    statement: &mut Statement<'_>,
    row: &mut Vec<u8>,
    newest: &mut Option<Newest<'_>>,
    attempt: &mut Attempt,
) -> Result<(), Error> {
    let columns = statement.column_count();
    if let Some(newest) = newest {
        newest.set_columns(statement.column_names());
    }
    let mut rows = statement.query([])?;
    let mut next = rows.next()?;
    attempt.first_byte = attempt.now();
    attempt.waiting = Waiting::Body;
    while let Some(values) = next {
        row.clear();
        for index in 0..columns {
            attempt.payload += copy_value(values.get_ref(index)?, row);
        }
        std::hint::black_box(&*row);
        if let Some(newest) = newest
            && let Some(index) = newest.index()
        {
            match values.get_ref(index)? {
                ValueRef::Integer(number) => newest.add_number(number),
                ValueRef::Text(text) => newest.add_text(text),
                _ => {}
            }
        }
        attempt.items += 1;
        next = rows.next()?;
    }
    attempt.end = attempt.now();
    Ok(())
}

/// Appends a value to `row`, and returns the length of its text, bytes.
fn copy_value(value: ValueRef<'_>, row: &mut Vec<u8>) -> u64 {
    match value {
        ValueRef::Null => 0,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            row.extend_from_slice(bytes);
            bytes.len() as u64
        }
        ValueRef::Integer(number) => {
            row.extend_from_slice(&number.to_ne_bytes());
            let digits = number.unsigned_abs().checked_ilog10().map_or(1, |log| log + 1);
            u64::from(digits) + u64::from(number < 0)
        }
        ValueRef::Real(number) => {
            row.extend_from_slice(&number.to_ne_bytes());
            // The shortest text with a point that is parsed as the same number, as Plimsoll's
            // Frontier gateway sends it.
            let mut length = Length(0);
            // Counting cannot fail.
            let _ = write!(length, "{number:?}");
            length.0
        }
    }
}

/// Counts the bytes that are written to it.
struct Length(u64);

impl std::fmt::Write for Length {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0 += text.len() as u64;
        Ok(())
    }
}

/// Ends the attempt with a failure. Rows that were read before the failure do not count.
fn fail(attempt: &mut Attempt, limit: &Limit<'_>, error: &Error) {
    (attempt.items, attempt.payload) = (0, 0);
    let interrupted = error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted);
    if let Some(due) = limit.due().filter(|_| interrupted) {
        return limit.finish(attempt, due);
    }
    let outcome = match error.sqlite_error_code() {
        Some(ErrorCode::CannotOpen) => Outcome::Refused,
        _ => Outcome::Error,
    };
    attempt.finish_text(outcome, &code(error));
    attempt.note = Some(match error {
        // The Display of this error repeats the query, which may be long.
        Error::SqlInputError { msg, .. } => format!("sql: {msg}"),
        other => format!("sql: {other}"),
    });
}

fn code(error: &Error) -> String {
    let known = |failure: &rusqlite::ffi::Error| match failure.code {
        ErrorCode::DatabaseBusy => Some("busy"),
        ErrorCode::DatabaseLocked => Some("locked"),
        ErrorCode::CannotOpen => Some("cannot open"),
        ErrorCode::PermissionDenied => Some("permission denied"),
        ErrorCode::ReadOnly => Some("read-only"),
        ErrorCode::OperationInterrupted => Some("interrupted"),
        ErrorCode::SystemIoFailure => Some("disk I/O"),
        ErrorCode::DatabaseCorrupt => Some("corrupt"),
        ErrorCode::NotADatabase => Some("not a database"),
        ErrorCode::OutOfMemory => Some("out of memory"),
        ErrorCode::TooBig => Some("too big"),
        _ => None,
    };
    match error {
        Error::SqlInputError { error, msg, .. } => {
            known(error).map_or_else(|| of_message(msg), str::to_owned)
        }
        Error::SqliteFailure(failure, message) => match (known(failure), message) {
            (Some(known), _) => known.to_owned(),
            (None, Some(message)) => of_message(message),
            (None, None) => format!("sqlite {}", failure.extended_code),
        },
        Error::InvalidParameterCount(..) => "parameters".to_owned(),
        Error::MultipleStatement => "several statements".to_owned(),
        _ => "sqlite".to_owned(),
    }
}

/// The kind of an error in a query, without the names that it contains: there must be only a few
/// different codes.
fn of_message(message: &str) -> String {
    if ["syntax error", "unrecognized token", "incomplete input"]
        .iter()
        .any(|words| message.contains(words))
    {
        return "syntax error".to_owned();
    }
    message.split(": ").next().unwrap_or(message).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_value_is_that_of_its_text() {
        let mut row = Vec::new();
        for number in [0, 7, -1, 10, 99, -100, i64::MAX, i64::MIN] {
            let length = copy_value(ValueRef::Integer(number), &mut row);
            assert_eq!(length, number.to_string().len() as u64, "{number}");
        }
        for (number, text) in [(1.0, "1.0"), (-0.1, "-0.1"), (1e300, "1e300")] {
            assert_eq!(
                copy_value(ValueRef::Real(number), &mut row),
                text.len() as u64,
                "{text}"
            );
        }
        row.clear();
        assert_eq!(copy_value(ValueRef::Text("é".as_bytes()), &mut row), 2);
        assert_eq!(copy_value(ValueRef::Blob(&[0, 255]), &mut row), 2);
        assert_eq!(copy_value(ValueRef::Null, &mut row), 0);
        assert_eq!(row, [0xc3, 0xa9, 0, 255]);
    }

    #[test]
    fn messages_become_few_codes() {
        for (message, code) in [
            ("near \"a: b\": syntax error", "syntax error"),
            ("unrecognized token: \"'x\"", "syntax error"),
            ("incomplete input", "syntax error"),
            ("no such table: secret: x", "no such table"),
            ("no such column: y", "no such column"),
            ("out of cheese", "out of cheese"),
        ] {
            assert_eq!(of_message(message), code);
        }
    }

    #[test]
    fn a_watch_ends_a_query_at_its_deadline_or_when_its_descriptor_is_readable() {
        let watch = Watch::new();
        assert!(!watch.check_over());
        watch.deadline.store(0, Ordering::Relaxed);
        assert!(watch.check_over());
        watch.deadline.store(u64::MAX, Ordering::Relaxed);
        let fd = crate::lane::reactor::event_fd().unwrap();
        watch
            .cancel
            .store(std::os::fd::AsRawFd::as_raw_fd(&fd), Ordering::Relaxed);
        watch.next_check.store(0, Ordering::Relaxed);
        assert!(!watch.check_over());
        let increment = 1_u64.to_ne_bytes();
        // SAFETY: the descriptor is open, and the buffer has eight bytes.
        unsafe {
            libc::write(
                std::os::fd::AsRawFd::as_raw_fd(&fd),
                increment.as_ptr().cast(),
                increment.len(),
            )
        };
        assert!(
            !watch.check_over(),
            "the descriptor was checked less than 2 ms ago"
        );
        watch.next_check.store(0, Ordering::Relaxed);
        assert!(watch.check_over());
    }
}
