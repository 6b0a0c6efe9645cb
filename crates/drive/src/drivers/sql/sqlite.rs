//! `sql` with `sqlite:/absolute/path`, opened read-only; each tester is a thread with a connection
//! of its own.
//!
//! Stamps: start before the database is opened, or before the query is prepared on a kept
//! connection; connected when a newly opened connection is there (`SQLite` reads nothing of the
//! file before the first query); first byte after the first step, when there is a row or the query
//! has ended; end after the step that says that there are no more rows. Closing a connection comes
//! after the end, and counts neither as response nor as lateness of what follows.
//!
//! The whole result is fetched, and each value copied out as a client would. Items: rows. Payload:
//! bytes of the values as text; those of a BLOB as they are; NULL has none. Wire bytes: there is no
//! wire, 0. Kept connections keep their prepared statements ([`CACHED_STATEMENTS`]).
//!
//! Nothing is waited for that another process has locked: a busy database is an error at once. A
//! time-out interrupts the query between two steps of `SQLite`'s virtual machine; a single call of
//! an SQL function that takes long is not.
//!
//! Codes: `busy`, `locked`, `syntax error`, `no such table` and the like, `parameters` (the query
//! wants values), `several statements`, `read-only`, `not a database`, `corrupt`, `disk I/O`,
//! `interrupted`, `sqlite N`; `cannot open` (refused); time-outs say what was waited for.

use std::fmt::Write as _;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plimsoll_model::{Code, Endpoint, Outcome};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, ErrorCode, OpenFlags, Statement};

use super::{Query, keeps, queries};
use crate::driver::{Attempt, BlockingDriver, BlockingTester, Limit, Request, Setup, Waiting};
use crate::drivers::versions::Newest;

/// Statements that a kept connection keeps prepared.
const CACHED_STATEMENTS: usize = 256;
/// Virtual machine steps between two looks at the clock: some 10 us, of which the look is well
/// below 1 %.
const STEPS: i32 = 1000;
/// Time between two looks at whether the run has given up, ns: that look is a system call.
const LOOK_NS: u64 = 2_000_000;

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

    fn prepare(setup: &Setup<'_>) -> Result<Self, String> {
        let databases = setup.endpoints.iter().map(database).collect::<Result<_, _>>()?;
        Ok(Self {
            keep: keeps(setup)?,
            databases,
            queries: queries(setup)?,
        })
    }

    fn tester(self: &Arc<Self>, _: u32) -> Result<Tester, String> {
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

/// The file of an endpoint. That it is missing is seen when it is opened: it may be made before the
/// run begins.
fn database(endpoint: &Endpoint) -> Result<PathBuf, String> {
    endpoint
        .url
        .strip_prefix("sqlite:")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .ok_or_else(|| {
            let (name, url) = (&endpoint.name, &endpoint.url);
            format!("endpoint {name}: {url}: expected sqlite:/absolute/path")
        })
}

/// What a connection's progress handler looks at: when to give up. A watchdog thread would be
/// another thread per tester, or one that wakes for all of them.
#[derive(Debug)]
struct Watch {
    zero: Instant,
    /// ns since `zero`.
    deadline: AtomicU64,
    /// When to look at `cancel` again, likewise.
    look: AtomicU64,
    /// Becomes readable when the run gives up.
    cancel: AtomicI32,
}

impl Watch {
    fn new() -> Self {
        Self {
            zero: Instant::now(),
            deadline: AtomicU64::new(u64::MAX),
            look: AtomicU64::new(0),
            cancel: AtomicI32::new(-1),
        }
    }

    fn now(&self) -> u64 {
        self.zero.elapsed().as_nanos() as u64
    }

    /// Before each query. Everything is used on one thread only: `Relaxed` orders enough.
    fn arm(&self, limit: &Limit<'_>) {
        let deadline = self.now().saturating_add(limit.left_ns());
        self.deadline.store(deadline, Ordering::Relaxed);
        self.look.store(0, Ordering::Relaxed);
        self.cancel.store(limit.cancel_fd(), Ordering::Relaxed);
    }

    fn over(&self) -> bool {
        let now = self.now();
        if now >= self.deadline.load(Ordering::Relaxed) {
            return true;
        }
        if now < self.look.load(Ordering::Relaxed) {
            return false;
        }
        self.look.store(now + LOOK_NS, Ordering::Relaxed);
        readable(self.cancel.load(Ordering::Relaxed))
    }
}

fn readable(fd: RawFd) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: `poll` is one valid entry; a descriptor below 0 is ignored. Nothing is waited for.
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
                Err(error) => return failed(attempt, limit, &error),
            },
        };
        attempt.session = if driver.keep { kept.session } else { 0 };
        // Values are numbers and texts, so that what is filled in is text as well.
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
                    versions.note_read(&request.fill, newest.found(), attempt);
                }
            }
            Err(error) => failed(attempt, limit, &error),
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
        // A tester is one thread: `SQLite` needs no locks of its own. Without the flag for URIs any
        // path is a path.
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(Duration::ZERO)?;
        connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
        let watch = Arc::clone(&self.watch);
        connection.progress_handler(STEPS, Some(move || watch.over()))?;
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

/// Fetches all rows; stamps first byte and end.
fn fetch(
    statement: &mut Statement<'_>,
    row: &mut Vec<u8>,
    newest: &mut Option<Newest<'_>>,
    attempt: &mut Attempt,
) -> Result<(), Error> {
    let columns = statement.column_count();
    if let Some(newest) = newest {
        newest.columns(statement.column_names());
    }
    let mut rows = statement.query([])?;
    let mut next = rows.next()?;
    attempt.first_byte = attempt.now();
    attempt.waiting = Waiting::Body;
    while let Some(values) = next {
        row.clear();
        for index in 0..columns {
            attempt.payload += take(values.get_ref(index)?, row);
        }
        std::hint::black_box(&*row);
        if let Some(newest) = newest
            && let Some(at) = newest.at()
        {
            match values.get_ref(at)? {
                ValueRef::Integer(number) => newest.number(number),
                ValueRef::Text(text) => newest.text(text),
                _ => {}
            }
        }
        attempt.items += 1;
        next = rows.next()?;
    }
    attempt.end = attempt.now();
    Ok(())
}

/// Copies a value; gives the bytes of its text.
fn take(value: ValueRef<'_>, row: &mut Vec<u8>) -> u64 {
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
            // The shortest text that reads back as the same number, with a point, as our Frontier
            // gateway sends it.
            let mut length = Length(0);
            // Counting cannot fail.
            let _ = write!(length, "{number:?}");
            length.0
        }
    }
}

/// Counts what is written.
struct Length(u64);

impl std::fmt::Write for Length {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0 += text.len() as u64;
        Ok(())
    }
}

/// Ends the attempt. What was fetched before it failed is no answer, and does not count.
fn failed(attempt: &mut Attempt, limit: &Limit<'_>, error: &Error) {
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
        // Its Display repeats the query, which may be long.
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

/// The kind of an error in a query, without the names in it: codes must stay few.
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
            let length = take(ValueRef::Integer(number), &mut row);
            assert_eq!(length, number.to_string().len() as u64, "{number}");
        }
        for (number, text) in [(1.0, "1.0"), (-0.1, "-0.1"), (1e300, "1e300")] {
            assert_eq!(
                take(ValueRef::Real(number), &mut row),
                text.len() as u64,
                "{text}"
            );
        }
        row.clear();
        assert_eq!(take(ValueRef::Text("é".as_bytes()), &mut row), 2);
        assert_eq!(take(ValueRef::Blob(&[0, 255]), &mut row), 2);
        assert_eq!(take(ValueRef::Null, &mut row), 0);
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
    fn a_watch_goes_off_by_its_time_or_by_its_descriptor() {
        let watch = Watch::new();
        assert!(!watch.over());
        watch.deadline.store(0, Ordering::Relaxed);
        assert!(watch.over());
        watch.deadline.store(u64::MAX, Ordering::Relaxed);
        let fd = crate::reactor::event_fd().unwrap();
        watch
            .cancel
            .store(std::os::fd::AsRawFd::as_raw_fd(&fd), Ordering::Relaxed);
        watch.look.store(0, Ordering::Relaxed);
        assert!(!watch.over());
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the descriptor is open, the buffer holds the eight bytes.
        unsafe {
            libc::write(
                std::os::fd::AsRawFd::as_raw_fd(&fd),
                one.as_ptr().cast(),
                one.len(),
            )
        };
        assert!(!watch.over(), "looked a moment ago");
        watch.look.store(0, Ordering::Relaxed);
        assert!(watch.over());
    }
}
