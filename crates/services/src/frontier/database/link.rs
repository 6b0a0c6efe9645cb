//! A connection to a database server: a session of the crate `wire`, and its socket.

use std::fmt;
use std::io;

use plimsoll_wire::sql::{Address, CancelKey, Event, Refusal, Server, Session};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::MAX_ROW;

/// Maximum number of bytes per read.
const READ: usize = 64 * 1024;

/// Reason why a connection or a query failed.
#[derive(Debug)]
pub(in crate::frontier) enum Trouble {
    /// The server reported an error. The connection can be used again when the server is ready for
    /// a query.
    Refused(Refusal),
    /// The connection has ended.
    Dead(String),
    /// A message of the server is malformed or too long. The server may still run the query.
    Doubtful(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(f, "{}", refusal.message),
            Self::Dead(why) => write!(f, "the connection to the database was lost: {why}"),
            Self::Doubtful(why) => write!(f, "the connection to the database was closed: {why}"),
        }
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Dead(error.to_string())
    }
}

/// A connection.
pub(in crate::frontier) struct Link {
    stream: TcpStream,
    session: Session,
    read: Box<[u8]>,
    /// Number of bytes received since the last event: those of an incomplete message.
    held: usize,
    /// Whether the server is ready for a query.
    ready: bool,
    /// Whether the connection has answered a query before.
    pub(super) used: bool,
    /// `MariaDB`'s number of the connection, for KILL.
    number: Option<u64>,
}

impl Link {
    /// Connects and logs in.
    pub(in crate::frontier) async fn open(address: &Address) -> Result<Self, Trouble> {
        Self::log_in(address, Session::new(address.server, address.login.clone())).await
    }

    /// Connects and logs in, for commands of `PostgreSQL`'s replication.
    pub(in crate::frontier) async fn open_replication(address: &Address) -> Result<Self, Trouble> {
        Self::log_in(
            address,
            Session::replicating(address.server, address.login.clone()),
        )
        .await
    }

    async fn log_in(address: &Address, session: Session) -> Result<Self, Trouble> {
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
        stream.set_nodelay(true)?;
        let mut link = Self {
            stream,
            session,
            read: vec![0; READ].into_boxed_slice(),
            held: 0,
            ready: false,
            used: false,
            number: None,
        };
        match link.event().await? {
            Event::Ready => {}
            Event::Failed(refusal) => return Err(Trouble::Refused(refusal)),
            _ => return Err(Trouble::Doubtful("the login has no end".into())),
        }
        if address.server == Server::Mysql {
            let number = link.value("SELECT CONNECTION_ID()").await?;
            link.number = number.and_then(|text| text.parse().ok());
        }
        Ok(link)
    }

    /// Whether the server is ready for a query.
    pub(super) fn is_ready(&self) -> bool {
        self.ready
    }

    /// Whether the connection can be reused: the server is ready, and has neither sent data nor
    /// closed the connection since.
    pub(super) fn is_fresh(&self) -> bool {
        // tokio makes a system call only if data has arrived.
        let is_empty = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
        self.ready && self.stream.try_read(&mut [0; 1]).is_err_and(is_empty)
    }

    /// Starts a query. Events follow.
    pub(in crate::frontier) fn query(&mut self, sql: &str) {
        self.ready = false;
        self.session.query(sql);
    }

    /// Requests `MariaDB`'s binary log from this position on.
    pub(in crate::frontier) fn follow_log(&mut self, replica: u32, file: &str, position: u32) {
        self.ready = false;
        self.session.follow_log(replica, file, position);
    }

    /// Reports that the changes up to this position of `PostgreSQL`'s log were processed.
    pub(in crate::frontier) fn report_position(&mut self, position: u64) {
        self.session.report_position(position);
    }

    /// Values of the row that the last event announced.
    pub(in crate::frontier) fn row(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.session.row()
    }

    /// The next event that has already arrived, if any. It needs no system call, which saves time
    /// because most rows arrive many at a time.
    pub(super) fn arrived(&mut self) -> Result<Option<Event>, Trouble> {
        match self.session.next() {
            Ok(Some(event)) => {
                self.held = 0;
                if !matches!(event, Event::Notified { .. }) {
                    self.ready = event == Event::Ready;
                }
                Ok(Some(event))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(Trouble::Doubtful(error.to_string())),
        }
    }

    /// Waits for the next event. Cancel-safe.
    pub(in crate::frontier) async fn event(&mut self) -> Result<Event, Trouble> {
        loop {
            if let Some(event) = self.arrived()? {
                return Ok(event);
            }
            let outgoing = self.session.outgoing();
            if !outgoing.is_empty() {
                let sent = self.stream.write(outgoing).await?;
                outgoing.drain(..sent);
                continue;
            }
            let read = self.stream.read(&mut self.read).await?;
            if read == 0 {
                return Err(Trouble::Dead("the server closed it".into()));
            }
            self.held += read;
            if self.held > MAX_ROW + READ {
                return Err(Trouble::Doubtful("a row has more than 16 MiB".into()));
            }
            self.session.received(&self.read[..read]);
        }
    }

    /// The first value of the first row as text. `None` if there is no row, or NULL.
    pub(super) async fn value(&mut self, sql: &str) -> Result<Option<String>, Trouble> {
        self.query(sql);
        let mut value = None;
        let mut refused = None;
        loop {
            match self.event().await? {
                Event::Row if value.is_none() => {
                    let first = self.row().next().flatten();
                    value = Some(first.map(|bytes| String::from_utf8_lossy(bytes).into_owned()));
                }
                Event::Failed(refusal) => refused = Some(refusal),
                Event::Ready => {
                    return match refused {
                        Some(refusal) => Err(Trouble::Refused(refusal)),
                        None => Ok(value.flatten()),
                    };
                }
                _ => {}
            }
        }
    }

    /// Ends the session, if that is possible without waiting. Servers write a warning if a
    /// connection is closed without this message.
    pub(in crate::frontier) fn quit(mut self) {
        if self.ready {
            self.session.quit();
            let _ = self.stream.try_write(self.session.outgoing());
        }
    }

    /// The handle with which another connection can cancel the query of this one.
    pub(super) fn handle(&self) -> Option<Handle> {
        match (self.session.cancel_key(), self.number) {
            (Some(key), _) => Some(Handle::Key(key)),
            (None, Some(number)) => Some(Handle::Number(number)),
            (None, None) => None,
        }
    }
}

/// Identifies a connection to its server.
#[derive(Debug, Clone, Copy)]
pub(super) enum Handle {
    Key(CancelKey),
    Number(u64),
}

impl Handle {
    /// Cancels the query on the connection, over another connection.
    pub(super) async fn cancel(self, address: &Address) -> Result<(), Trouble> {
        match self {
            Self::Key(key) => {
                let mut stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
                stream.write_all(&key.request()).await?;
                // The server closes the connection without a response when it has passed the
                // request on.
                let _ = stream.read(&mut [0; 1]).await?;
            }
            Self::Number(number) => {
                let mut link = Self::open_boxed(address).await?;
                link.value(&format!("KILL {number}")).await?;
                link.quit();
            }
        }
        Ok(())
    }

    /// Opens a connection. Boxed, because the future would otherwise contain itself.
    fn open_boxed(
        address: &Address,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Link, Trouble>> + Send + '_>> {
        Box::pin(Link::open(address))
    }
}
