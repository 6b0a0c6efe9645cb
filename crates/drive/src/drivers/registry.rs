//! The list of drivers. Each driver describes itself ([`DriverInfo`]).

use std::sync::Arc;

use plimsoll_model::{Endpoint, Workload};

use super::broker::{self, Broker};
use super::catalogue::{self, Catalogue};
use super::exec::{self, Exec};
use super::frontier::{self, Frontier};
use super::ftp::{self, Ftp};
use super::http::{self, Http};
use super::ldap::{self, Ldap};
use super::null::{self, Null};
use super::replay::{self, Replay};
use super::sql;
use super::tcp::{self, Tcp};
use crate::api::DriverInfo;
use crate::driver::{AsyncDriver, BlockingDriver, Setup};
use crate::lane::blocking_pool::{ErasedBlockingDriver, TypedBlockingDriver};
use crate::lane::{ErasedAsyncDriver, TypedAsyncDriver};
use crate::setup_error::SetupError;

/// A driver prepared for one workload.
pub enum PreparedDriver {
    /// A driver whose testers are tasks.
    Async(Arc<dyn ErasedAsyncDriver>),
    /// A driver whose testers are threads.
    Blocking(Arc<dyn ErasedBlockingDriver>),
}

struct Entry {
    info: DriverInfo,
    make: fn(Setup<'_>) -> Result<PreparedDriver, SetupError>,
    /// Whether the testers for these endpoints are threads.
    blocks: fn(&[Endpoint]) -> bool,
}

const fn asynchronous<D: AsyncDriver>(info: DriverInfo) -> Entry {
    Entry {
        info,
        make: make_async::<D>,
        blocks: |_| false,
    }
}

const fn blocking<D: BlockingDriver>(info: DriverInfo) -> Entry {
    Entry {
        info,
        make: make_blocking::<D>,
        blocks: |_| true,
    }
}

static ENTRIES: &[Entry] = &[
    asynchronous::<Null>(null::INFO),
    asynchronous::<Tcp>(tcp::INFO),
    asynchronous::<Http>(http::INFO),
    asynchronous::<Ldap>(ldap::INFO),
    asynchronous::<Broker>(broker::INFO),
    asynchronous::<Catalogue>(catalogue::INFO),
    asynchronous::<Ftp>(ftp::INFO),
    Entry {
        info: sql::INFO,
        make: make_sql,
        blocks: sql::blocks,
    },
    asynchronous::<Frontier>(frontier::INFO),
    blocking::<Exec>(exec::INFO),
    blocking::<Replay>(replay::INFO),
];

/// Descriptions of all drivers.
pub fn drivers() -> impl Iterator<Item = &'static DriverInfo> {
    ENTRIES.iter().map(|entry| &entry.info)
}

/// Description of the driver `name`; none if no driver has this name.
pub fn driver(name: &str) -> Option<&'static DriverInfo> {
    drivers().find(|info| info.name == name)
}

/// Whether the testers of a workload are threads; false if its driver is unknown.
pub fn blocks(workload: &Workload) -> bool {
    entry(&workload.driver).is_some_and(|entry| (entry.blocks)(&workload.endpoints))
}

fn entry(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.info.name == name)
}

/// Prepares the driver `name`; none if no driver has this name.
pub fn make(name: &str, setup: Setup<'_>) -> Option<Result<PreparedDriver, SetupError>> {
    entry(name).map(|entry| (entry.make)(setup))
}

fn make_sql(setup: Setup<'_>) -> Result<PreparedDriver, SetupError> {
    match sql::kind(setup.endpoints)? {
        sql::Kind::Sqlite => make_blocking::<sql::Sqlite>(setup),
        sql::Kind::Postgres | sql::Kind::Mariadb => make_async::<sql::Network>(setup),
    }
}

fn make_async<D: AsyncDriver>(setup: Setup<'_>) -> Result<PreparedDriver, SetupError> {
    let driver = Arc::new(D::prepare(&setup)?);
    Ok(PreparedDriver::Async(Arc::new(TypedAsyncDriver {
        driver,
        used: Arc::new(setup.used.into_inner()),
    })))
}

fn make_blocking<D: BlockingDriver>(setup: Setup<'_>) -> Result<PreparedDriver, SetupError> {
    let driver = Arc::new(D::prepare(&setup)?);
    Ok(PreparedDriver::Blocking(Arc::new(TypedBlockingDriver {
        driver,
        used: Arc::new(setup.used.into_inner()),
    })))
}
