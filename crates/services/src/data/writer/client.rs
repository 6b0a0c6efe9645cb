//! A session with a database server over a blocking socket.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use plimsoll_wire::sql::{Address, Event, Refusal, Session};

use crate::ServiceError;

/// Maximum time for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time for the server to read a piece of data.
const WRITE_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum time for the server to respond. Creating an index on a large table takes long.
const READ_TIMEOUT: Duration = Duration::from_secs(3600);

pub(crate) struct Client {
    stream: TcpStream,
    session: Session,
    buffer: Vec<u8>,
    /// Host and port for messages, without the login.
    address: String,
    /// The first error that the server reported for the last statement.
    refusal: Option<Refusal>,
}

impl Client {
    pub(super) fn open(address: Address) -> Result<Self, ServiceError> {
        Self::open_within(address, READ_TIMEOUT)
    }

    /// Opens a session whose server must respond within `timeout`.
    pub(crate) fn open_within(address: Address, timeout: Duration) -> Result<Self, ServiceError> {
        let host_and_port = format!("{}:{}", address.host, address.port);
        let stream = connect(&address, timeout).map_err(|error| ServiceError::Server {
            what: format!("cannot connect to the database at {host_and_port}"),
            why: error.to_string(),
        })?;
        let mut client = Self {
            stream,
            session: Session::new(address.server, address.login),
            buffer: vec![0; 16 * 1024],
            address: host_and_port,
            refusal: None,
        };
        client.wait(|event| *event == Event::Ready)?;
        Ok(client)
    }

    fn failed(&self, why: &impl ToString) -> ServiceError {
        ServiceError::Server {
            what: format!("cannot write the database at {}", self.address),
            why: why.to_string(),
        }
    }

    fn query(&mut self, sql: &str) {
        self.refusal = None;
        self.session.query(sql);
    }

    /// Executes a statement.
    pub(crate) fn execute(&mut self, sql: &str) -> Result<(), ServiceError> {
        self.query(sql);
        self.wait(|event| *event == Event::Ready)
    }

    /// Queries a single value. Empty if there is no row, or NULL.
    pub(crate) fn value(&mut self, sql: &str) -> Result<String, ServiceError> {
        self.query(sql);
        self.wait(|event| matches!(event, Event::Row | Event::Complete))?;
        let value = self.session.row().next().flatten();
        let value = String::from_utf8_lossy(value.unwrap_or_default()).into_owned();
        self.wait(|event| *event == Event::Ready)?;
        Ok(value)
    }

    /// Passes the rows of a query to `each`, as text.
    pub(crate) fn rows(
        &mut self,
        sql: &str,
        each: impl FnMut(&mut dyn Iterator<Item = Option<&[u8]>>),
    ) -> Result<(), ServiceError> {
        self.query(sql);
        self.read_rows(each)
    }

    fn read_rows(
        &mut self,
        mut each: impl FnMut(&mut dyn Iterator<Item = Option<&[u8]>>),
    ) -> Result<(), ServiceError> {
        loop {
            self.wait(|event| matches!(event, Event::Row | Event::Ready))?;
            // After any other event than a row, there are no values.
            let mut row = self.session.row().peekable();
            if row.peek().is_none() {
                return Ok(());
            }
            each(&mut row);
        }
    }

    /// Prepares a statement of `PostgreSQL`, and returns the number of columns of its result.
    pub(crate) fn prepare(&mut self, name: &str, sql: &str) -> Result<usize, ServiceError> {
        self.refusal = None;
        self.session.prepare(name, sql);
        let mut columns = 0;
        let mut count = |event: &Event| {
            if let Event::Columns(described) = event {
                columns = described.len();
            }
            *event == Event::Ready
        };
        self.wait(&mut count)?;
        Ok(columns)
    }

    /// Executes a prepared statement, and passes the rows to `each`, as text.
    pub(crate) fn execute_prepared<'v>(
        &mut self,
        name: &str,
        values: impl Iterator<Item = &'v [u8]>,
        columns: usize,
        each: impl FnMut(&mut dyn Iterator<Item = Option<&[u8]>>),
    ) -> Result<(), ServiceError> {
        self.refusal = None;
        self.session.execute(name, values, columns);
        self.read_rows(each)
    }

    /// The first error that the server reported for the last statement.
    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    /// Begins a `COPY ... FROM STDIN`.
    pub(crate) fn copy(&mut self, sql: &str) -> Result<(), ServiceError> {
        self.query(sql);
        self.wait(|event| *event == Event::CopyIn)
    }

    /// Sends a part of the data of a copy.
    pub(crate) fn copy_data(&mut self, bytes: &[u8]) -> Result<(), ServiceError> {
        self.session.copy_data(bytes);
        self.send()
    }

    /// Ends the copy, and waits until the server has received it.
    pub(crate) fn copy_done(&mut self) -> Result<(), ServiceError> {
        self.session.copy_done();
        self.wait(|event| *event == Event::Ready)
    }

    fn send(&mut self) -> Result<(), ServiceError> {
        let outgoing = self.session.outgoing();
        let written = self.stream.write_all(outgoing);
        outgoing.clear();
        // A server sends the reason before it closes the connection.
        written.map_err(|error| match self.wait(|_| false) {
            Err(reason) => reason,
            Ok(()) => self.failed(&error),
        })
    }

    /// Waits for an event. If the server reports errors before it, returns the first one.
    fn wait(&mut self, mut until: impl FnMut(&Event) -> bool) -> Result<(), ServiceError> {
        let mut refused = None;
        loop {
            match self.session.next() {
                Err(error) => return Err(self.failed(&error)),
                Ok(Some(event)) => {
                    let done = until(&event) || (refused.is_some() && event == Event::Ready);
                    if let Event::Failed(refusal) = event
                        && refused.is_none()
                    {
                        refused = Some(self.failed(&refusal.message));
                        self.refusal = Some(refusal);
                    }
                    if done {
                        return refused.map_or(Ok(()), Err);
                    }
                    continue;
                }
                Ok(None) => {}
            }
            if !self.session.outgoing().is_empty() {
                self.send()?;
                continue;
            }
            let read = self.stream.read(&mut self.buffer);
            match read {
                Ok(read @ 1..) => self.session.received(&self.buffer[..read]),
                Ok(_) => {
                    return Err(refused.unwrap_or_else(|| self.failed(&"the server closed the connection")));
                }
                Err(error) => return Err(refused.unwrap_or_else(|| self.failed(&error))),
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.session.quit();
        let _ = self.stream.write_all(self.session.outgoing());
    }
}

/// Connects to an IP address. The lab resolves host names, because it uses the C library of this
/// host. That of the engine may be linked statically (see `net` of the drivers).
fn connect(address: &Address, timeout: Duration) -> std::io::Result<TcpStream> {
    let bare = address.host.trim_start_matches('[').trim_end_matches(']');
    let host: IpAddr = match bare.parse() {
        Ok(host) => host,
        Err(_) if bare == "localhost" => Ipv4Addr::LOCALHOST.into(),
        Err(_) => {
            return Err(std::io::Error::other(
                "expected an IP address or localhost as the host: replace the name by its address",
            ));
        }
    };
    let stream = TcpStream::connect_timeout(&SocketAddr::new(host, address.port), CONNECT_TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    Ok(stream)
}
