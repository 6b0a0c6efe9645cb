//! The one list of drivers: it feeds the check of experiment files, error messages and docs.

use std::sync::Arc;

use plimsoll_model::{Endpoint, Workload};

use crate::api::DriverInfo;
use crate::blocking_pool::{ErasedBlockingDriver, TypedBlockingDriver};
use crate::driver::{AsyncDriver, BlockingDriver, Setup};
use crate::drivers::{exec::Exec, frontier::Frontier, http::Http, null::Null, replay::Replay, sql, tcp::Tcp};
use crate::lane::{ErasedAsyncDriver, TypedAsyncDriver};

/// A driver prepared for one workload.
pub enum PreparedDriver {
    /// Its testers are tasks.
    Async(Arc<dyn ErasedAsyncDriver>),
    /// Its testers are threads.
    Blocking(Arc<dyn ErasedBlockingDriver>),
}

struct Entry {
    info: DriverInfo,
    make: fn(Setup<'_>) -> Result<PreparedDriver, String>,
    /// Whether testers that go to these endpoints are threads.
    blocks: fn(&[Endpoint]) -> bool,
}

const fn asynchronous<D: AsyncDriver>(name: &'static str, help: &'static str) -> Entry {
    Entry {
        info: DriverInfo {
            name,
            blocking: false,
            help,
        },
        make: make_async::<D>,
        blocks: |_| false,
    }
}

const fn blocking<D: BlockingDriver>(name: &'static str, help: &'static str) -> Entry {
    Entry {
        info: DriverInfo {
            name,
            blocking: true,
            help,
        },
        make: make_blocking::<D>,
        blocks: |_| true,
    }
}

const COUNT: usize = 7;
const ENTRIES: [Entry; COUNT] = [
    asynchronous::<Null>("null", "does nothing: measures the tester itself"),
    asynchronous::<Tcp>("tcp", "sends a text and reads bytes, a line, or to the end"),
    asynchronous::<Http>("http", "HTTP/1.1 and HTTPS requests"),
    Entry {
        info: DriverInfo {
            name: "sql",
            blocking: true,
            help: "queries to SQLite, PostgreSQL and MariaDB",
        },
        make: make_sql,
        blocks: sql::blocks,
    },
    asynchronous::<Frontier>("frontier", "SQL through a Frontier gateway, answers verified"),
    blocking::<Exec>("exec", "runs any executable, once per transaction or long-lived"),
    blocking::<Replay>(
        "replay",
        "replays a trace of file I/O in a directory, one job per transaction",
    ),
];

static INFOS: [DriverInfo; COUNT] = {
    let mut infos = [ENTRIES[0].info; COUNT];
    let mut at = 1;
    while at < COUNT {
        infos[at] = ENTRIES[at].info;
        at += 1;
    }
    infos
};

/// All drivers.
pub fn drivers() -> &'static [DriverInfo] {
    &INFOS
}

/// Whether the testers of a workload are threads. One of an unknown driver counts as tasks.
pub fn blocks(workload: &Workload) -> bool {
    let entry = ENTRIES.iter().find(|entry| entry.info.name == workload.driver);
    entry.is_some_and(|entry| (entry.blocks)(&workload.endpoints))
}

/// Prepares the driver `name`; none if there is none.
pub fn make(name: &str, setup: Setup<'_>) -> Option<Result<PreparedDriver, String>> {
    let entry = ENTRIES.iter().find(|entry| entry.info.name == name)?;
    Some((entry.make)(setup))
}

fn make_sql(setup: Setup<'_>) -> Result<PreparedDriver, String> {
    match sql::kind(setup.endpoints)? {
        sql::Kind::Sqlite => make_blocking::<sql::Sqlite>(setup),
        sql::Kind::Postgres | sql::Kind::Mariadb => make_async::<sql::Network>(setup),
    }
}

fn make_async<D: AsyncDriver>(setup: Setup<'_>) -> Result<PreparedDriver, String> {
    let driver = Arc::new(D::prepare(&setup)?);
    Ok(PreparedDriver::Async(Arc::new(TypedAsyncDriver {
        driver,
        used: Arc::new(setup.used.into_inner()),
    })))
}

fn make_blocking<D: BlockingDriver>(setup: Setup<'_>) -> Result<PreparedDriver, String> {
    let driver = Arc::new(D::prepare(&setup)?);
    Ok(PreparedDriver::Blocking(Arc::new(TypedBlockingDriver {
        driver,
        used: Arc::new(setup.used.into_inner()),
    })))
}
