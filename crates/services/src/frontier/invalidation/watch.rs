//! Learning of changes: one task, whose connections to the database are its own and may write.
//!
//! A session ends with the first trouble. From then on nothing may be kept, as changes may be lost;
//! when the next session listens, everything is purged once.

mod mariadb;
mod postgres;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_wire::sql::{Address, Event, Server};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::super::database::{Link, Trouble};
use super::catalogue::Listing;
use super::keys::Name;
use super::known::Renewed;
use super::{Shared, say};

/// After a session; doubled up to the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// For the database to answer one of our own statements.
const ANSWER: Duration = Duration::from_secs(10);
/// For connecting and logging in.
const CONNECT: Duration = Duration::from_secs(5);

/// What requests ask of the watcher; it says whether it is done.
pub(super) enum Ask {
    /// To look which tables there are.
    Look(oneshot::Sender<bool>),
    /// To have the changes of these units told.
    Watch(Vec<Name>, oneshot::Sender<bool>),
}

impl Ask {
    pub(super) fn look(told: oneshot::Sender<bool>) -> Self {
        Self::Look(told)
    }

    fn refuse(self) {
        let (Self::Look(told) | Self::Watch(_, told)) = self;
        let _ = told.send(false);
    }
}

/// Why a session has ended.
enum SessionEnd {
    /// The next one may do better.
    Trouble(String),
    /// The server is there, and must be told something first.
    Unfit(String),
    /// The gateway ends.
    Over,
}

impl From<Trouble> for SessionEnd {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble.to_string())
    }
}

/// Tells at the first success or failure which it was.
type First = Option<oneshot::Sender<Result<(), String>>>;

/// Watches as long as the service lives.
pub(super) async fn watch(
    shared: Arc<Shared>,
    database: String,
    mut asks: mpsc::Receiver<Ask>,
    first: oneshot::Sender<Result<(), String>>,
) {
    let Ok(address) = Address::from_url(&database) else {
        return; // the pool has refused it already
    };
    let mut first = Some(first);
    let mut pause = PAUSE.0;
    let mut said = String::new();
    loop {
        let ended = match address.server {
            Server::Postgres => postgres::session(&shared, &address, &mut asks, &mut first).await,
            Server::Mysql => mariadb::session(&shared, &address, &mut asks, &mut first).await,
        };
        if shared.is_up() {
            shared.ends();
            said.clear();
            pause = PAUSE.0;
        }
        let why = match ended {
            SessionEnd::Over => return,
            SessionEnd::Trouble(why) => {
                tell(&mut first, Ok(()));
                why
            }
            SessionEnd::Unfit(why) => {
                tell(&mut first, Err(why.clone()));
                why
            }
        };
        if said != why {
            say(&format!(
                "caches may keep nothing, as changes cannot be seen: {why}"
            ));
            said = why;
        }
        if !wait(&mut asks, pause).await {
            return;
        }
        pause = (2 * pause).min(PAUSE.1);
    }
}

fn tell(first: &mut First, what: Result<(), String>) {
    if let Some(first) = first.take() {
        let _ = first.send(what);
    }
}

/// Refuses what is asked meanwhile. False where nobody will ask any more.
async fn wait(asks: &mut mpsc::Receiver<Ask>, pause: Duration) -> bool {
    let refuse = async {
        while let Some(ask) = asks.recv().await {
            ask.refuse();
        }
    };
    timeout(pause, refuse).await.is_err()
}

/// Takes a look at the database, and makes up for what has been made anew.
fn renew(shared: &Shared, listing: &Listing) {
    let renewed = shared.known().renew(listing);
    match renewed {
        Renewed::All => shared.all_changed(),
        Renewed::Units(units) if units.is_empty() => {}
        Renewed::Units(units) => shared.units_changed(&units),
    }
}

/// A connection for statements of our own.
struct Desk {
    link: Link,
    /// What was told between the rows of answers.
    notified: HashSet<String>,
}

type Row = Vec<Option<String>>;

impl Desk {
    async fn open(address: &Address) -> Result<Self, SessionEnd> {
        match timeout(CONNECT, Link::open(address)).await {
            Ok(link) => Ok(Self {
                link: link?,
                notified: HashSet::new(),
            }),
            Err(_) => Err(SessionEnd::Trouble(format!(
                "no answer within {} s",
                CONNECT.as_secs()
            ))),
        }
    }

    /// All rows of an answer.
    async fn rows(&mut self, sql: &str) -> Result<Vec<Row>, Trouble> {
        match timeout(ANSWER, self.ask(sql)).await {
            Ok(rows) => rows,
            Err(_) => Err(Trouble::Dead(format!("no answer within {} s", ANSWER.as_secs()))),
        }
    }

    async fn ask(&mut self, sql: &str) -> Result<Vec<Row>, Trouble> {
        self.link.query(sql);
        let mut rows = Vec::new();
        let mut refused = None;
        loop {
            match self.link.event().await? {
                Event::Row => {
                    let text = |value: Option<&[u8]>| value.map(|v| String::from_utf8_lossy(v).into_owned());
                    rows.push(self.link.row().map(text).collect());
                }
                Event::Notified { payload, .. } => drop(self.notified.insert(payload)),
                Event::Failed(refusal) => refused = Some(refusal),
                Event::Ready => return refused.map_or(Ok(rows), |refusal| Err(Trouble::Refused(refusal))),
                _ => {}
            }
        }
    }
}

/// A value of a row; NULL is an empty text.
fn value(row: &Row, at: usize) -> String {
    row.get(at).cloned().flatten().unwrap_or_default()
}
