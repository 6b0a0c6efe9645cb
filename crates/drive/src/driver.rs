//! The interface of drivers. Each driver is one folder of `drivers/`.
//!
//! A driver is created once per workload and process ([`AsyncDriver::prepare`]), which checks all
//! settings, templates and files. It creates the testers, and a tester carries out its transactions
//! one after the other. A tester connects within its first transaction, so that the time of
//! connecting is measured, and closes its connections when it is dropped.

use std::cell::RefCell;
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use plimsoll_model::{Codes, Endpoint, NameLookup};
use plimsoll_schedule::{Fill, Template, UsedValues, Values};
use serde::de::DeserializeOwned;

use crate::lane::reactor::Io;
use crate::net::error::HostError;
use crate::net::{Host, is_address};
use crate::setup_error::SetupError;
pub use crate::tester::attempt::{Attempt, Request};
pub use crate::tester::failure::Waiting;
pub use crate::tester::limit::{Due, Limit};

/// The inputs from which a driver is created.
pub struct Setup<'a> {
    /// `settings` of the workload.
    pub settings: &'a serde_json::Value,
    /// `request` of each operation.
    pub requests: Vec<&'a serde_json::Value>,
    /// Endpoints of the workload.
    pub endpoints: &'a [Endpoint],
    /// Generators of the workload's values.
    pub values: &'a Values,
    /// The agent's dictionary of codes.
    pub codes: &'a Codes,
    /// Seed of the run.
    pub seed: u64,
    /// Index of the workload in the run. Seed, workload and number of the tester determine a random
    /// sequence.
    pub workload: u64,
    /// Per operation: the values that its texts contain. [`Setup::template`] adds to it.
    pub(crate) used: RefCell<Vec<UsedValues>>,
    /// Lookups of the whole run. [`Setup::host`] adds to it.
    pub(crate) lookups: &'a RefCell<Vec<NameLookup>>,
}

impl Setup<'_> {
    /// Looks up a host, and records how long that took.
    pub fn host(&self, name: &str, port: u16) -> Result<Host, HostError> {
        let begun = Instant::now();
        let host = Host::resolve(name, port)?;
        if !is_address(name) {
            let (name, took_ns) = (name.to_owned(), begun.elapsed().as_nanos() as u64);
            self.lookups.borrow_mut().push(NameLookup { name, took_ns });
        }
        Ok(host)
    }

    /// The settings as the driver's own type.
    pub fn settings<T: DeserializeOwned>(&self) -> Result<T, SetupError> {
        T::deserialize(self.settings).map_err(SetupError::Settings)
    }

    /// The request of operation `index` as the driver's own type.
    pub fn request<T: DeserializeOwned>(&self, index: usize) -> Result<T, SetupError> {
        T::deserialize(self.requests[index]).map_err(|source| SetupError::Request {
            operation: index,
            source,
        })
    }

    /// Compiles a text of operation `operation`.
    pub fn template(&self, operation: usize, text: &str) -> Template {
        let template = Template::new(text, self.values);
        template.used(&mut self.used.borrow_mut()[operation]);
        template
    }

    /// Values for templates without placeholders.
    pub fn constant_fill(&self) -> Fill<'_> {
        Fill {
            tester: 0,
            n: 0,
            endpoint: "",
            now_us: 0,
            values: self.values,
            drawn: &[],
        }
    }

    /// Compiles a text of the settings. Its values are drawn for every operation.
    pub fn common_template(&self, text: &str) -> Template {
        let template = Template::new(text, self.values);
        for used in self.used.borrow_mut().iter_mut() {
            template.used(used);
        }
        template
    }
}

/// A driver whose testers are tasks of a lane.
pub trait AsyncDriver: Send + Sync + Sized + 'static {
    /// State of one tester: connections, buffers.
    type Tester: AsyncTester;
    /// Number of open files of a tester.
    const FILES: u64 = 1;
    /// Checks and compiles all settings. Opens no connection.
    ///
    /// # Errors
    /// The setting or request that cannot be used. The text begins with the key and states the
    /// problem and what to do.
    fn prepare(setup: &Setup<'_>) -> Result<Self, SetupError>;
    /// Creates the tester `number` (over all workloads and agents), on the lane that will run it.
    fn tester(self: &Arc<Self>, io: &Io, number: u32) -> Self::Tester;
    /// Number of open files of a tester, if it depends on the settings.
    fn files(&self) -> u64 {
        Self::FILES
    }
}

/// A tester of an [`AsyncDriver`].
pub trait AsyncTester: 'static {
    /// Carries out one transaction: fills in `attempt`, and ends with [`Attempt::finish`] or
    /// [`Attempt::conclude`]. At a timeout or at the end of the drain the future is dropped, and
    /// [`Self::reset`] is called.
    fn operate(&mut self, request: &Request<'_>, attempt: &mut Attempt) -> impl Future<Output = ()>;
    /// Drops everything whose state is unknown, because the last transaction was abandoned.
    fn reset(&mut self);
    /// Closes all connections, because the session of the tester has ended.
    fn end_session(&mut self) {
        self.reset();
    }
}

/// A driver whose testers are threads.
pub trait BlockingDriver: Send + Sync + Sized + 'static {
    /// State of one tester.
    type Tester: BlockingTester;
    /// Checks and compiles all settings, as [`AsyncDriver::prepare`] does.
    fn prepare(setup: &Setup<'_>) -> Result<Self, SetupError>;
    /// Creates the tester `number` (over all workloads and agents), on the thread that will run it.
    /// The run begins when all testers are created, without a time limit.
    ///
    /// # Errors
    /// What is missing, and what to do. The run does not start.
    fn tester(self: &Arc<Self>, number: u32) -> Result<Self::Tester, SetupError>;
    /// Removes what testers have created, after all of them have ended; this time is not measured.
    /// Returns messages for the user about what remains.
    fn tidy(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A tester of a [`BlockingDriver`].
pub trait BlockingTester: 'static {
    /// Prepares the next transaction. The time is not part of any transaction: a tester that works
    /// here calls [`Attempt::freed`], and the next transaction is planned from then.
    ///
    /// # Errors
    /// Why the tester cannot continue. It stops.
    fn renew(&mut self, attempt: &mut Attempt) -> Result<(), SetupError> {
        let _ = attempt;
        Ok(())
    }

    /// Closes all connections, because the session of the tester has ended.
    fn end_session(&mut self) {}

    /// Carries out one transaction. It must end by itself soon after `limit` is due, with
    /// [`Outcome::Timeout`] or [`Outcome::Cancelled`]: no other thread can end it.
    fn operate(&mut self, request: &Request<'_>, attempt: &mut Attempt, limit: &Limit<'_>);
}
