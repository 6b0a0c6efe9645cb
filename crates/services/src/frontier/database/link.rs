//! One connection to a database server: the session of the wire crate, with a socket.

use std::fmt;
use std::io;

use plimsoll_wire::sql::{Address, CancelKey, Event, Refusal, Server, Session};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::MAX_ROW;

/// Bytes read in one go.
const READ: usize = 64 * 1024;

/// Why a connection, or what is asked over it, does not go on.
#[derive(Debug)]
pub(in crate::frontier) enum Trouble {
    /// The server says no; the connection is good if it comes to take queries again.
    Refused(Refusal),
    /// The connection has ended.
    Dead(String),
    /// What comes is not understood, or too much. The server may still be at work.
    Doubtful(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(f, "{}", refusal.message),
            Self::Dead(why) => write!(f, "the connection to the database was lost: {why}"),
            Self::Doubtful(why) => write!(f, "the connection to the database was ended: {why}"),
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
    /// Bytes that came since the last event: those of one message.
    held: usize,
    /// Takes a query.
    ready: bool,
    /// Has answered a query before.
    pub(super) used: bool,
    /// `MariaDB`'s number of the connection, to be killed by.
    number: Option<u64>,
}

impl Link {
    /// Connects and logs in.
    pub(in crate::frontier) async fn open(address: &Address) -> Result<Self, Trouble> {
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
        stream.set_nodelay(true)?;
        let mut link = Self {
            stream,
            session: Session::new(address.server, address.login.clone()),
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

    /// It takes a query.
    pub(super) fn is_ready(&self) -> bool {
        self.ready
    }

    /// It is as it was left. Something that came unasked, or the end of the connection, makes it
    /// doubtful.
    pub(super) fn is_fresh(&self) -> bool {
        // Costs a system call only where something has come.
        let nothing = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
        self.ready && self.stream.try_read(&mut [0; 1]).is_err_and(nothing)
    }

    /// Asks; events follow.
    pub(in crate::frontier) fn query(&mut self, sql: &str) {
        self.ready = false;
        self.session.query(sql);
    }

    /// Asks for `MariaDB`'s binary log from this place on.
    pub(in crate::frontier) fn follow_log(&mut self, replica: u32, file: &str, position: u32) {
        self.ready = false;
        self.session.follow_log(replica, file, position);
    }

    /// Values of the row that the last event announced.
    pub(in crate::frontier) fn row(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.session.row()
    }

    /// What has come already, if anything. Cheap: most rows arrive many at a time.
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

    /// What comes next. May be given up and called again.
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

    /// The first value of the first row as text; `None` where there is no row, or NULL.
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

    /// Says good-bye, if that is possible at once: a connection that is merely closed makes servers
    /// write warnings.
    pub(in crate::frontier) fn quit(mut self) {
        if self.ready {
            self.session.quit();
            let _ = self.stream.try_write(self.session.outgoing());
        }
    }

    /// What it takes to end what runs on this connection.
    pub(super) fn handle(&self) -> Option<Handle> {
        match (self.session.cancel_key(), self.number) {
            (Some(key), _) => Some(Handle::Key(key)),
            (None, Some(number)) => Some(Handle::Number(number)),
            (None, None) => None,
        }
    }
}

/// Names a connection to its server.
#[derive(Debug, Clone, Copy)]
pub(super) enum Handle {
    Key(CancelKey),
    Number(u64),
}

impl Handle {
    /// Ends what runs on the connection, over another one.
    pub(super) async fn cancel(self, address: &Address) -> Result<(), Trouble> {
        match self {
            Self::Key(key) => {
                let mut stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
                stream.write_all(&key.request()).await?;
                // The server closes when it has passed the request on, and says nothing.
                let _ = stream.read(&mut [0; 1]).await?;
            }
            Self::Number(number) => {
                let mut link = Self::spare(address).await?;
                link.value(&format!("KILL {number}")).await?;
                link.quit();
            }
        }
        Ok(())
    }

    /// Boxed: `Link::open` and this would otherwise be one endless type.
    fn spare(
        address: &Address,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Link, Trouble>> + Send + '_>> {
        Box::pin(Link::open(address))
    }
}
