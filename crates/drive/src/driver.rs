//! What a driver is. Each driver is one folder of `drivers/`.
//!
//! A driver is made once per workload and process ([`AsyncDriver::prepare`]), where everything
//! about settings, templates and files is checked; it makes one tester per tester of the run, and a
//! tester carries out its transactions one after the other. A tester connects within its first
//! transaction, so that the time of connecting is seen, and closes when it is dropped.

use std::cell::RefCell;
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use plimsoll_model::{Codes, Endpoint, NameLookup};
use plimsoll_schedule::{Template, Used, Values};
use serde::de::DeserializeOwned;

pub use crate::attempt::{Attempt, Request};
pub use crate::failure::Waiting;
pub use crate::limit::{Due, Limit};
use crate::net::{Host, is_address};
use crate::reactor::Io;

/// What a driver is made from.
pub struct Setup<'a> {
    /// `settings` of the workload.
    pub settings: &'a serde_json::Value,
    /// `request` of each operation.
    pub requests: Vec<&'a serde_json::Value>,
    /// Where requests go.
    pub endpoints: &'a [Endpoint],
    /// The workload's values.
    pub values: &'a Values,
    /// The agent's dictionary.
    pub codes: &'a Codes,
    /// Seed of the run.
    pub seed: u64,
    /// Index of the workload in the run; with a seed and a tester's number it names a random
    /// sequence.
    pub workload: u64,
    /// Per operation: what stands in its texts. Filled by [`Setup::template`].
    pub(crate) used: RefCell<Vec<Used>>,
    /// Of the whole run. Filled by [`Setup::host`].
    pub(crate) lookups: &'a RefCell<Vec<NameLookup>>,
}

impl Setup<'_> {
    /// Looks a host up, and records how long that took.
    pub fn host(&self, name: &str, port: u16) -> Result<Host, String> {
        let begun = Instant::now();
        let host = Host::resolve(name, port)?;
        if !is_address(name) {
            let (name, took_ns) = (name.to_owned(), begun.elapsed().as_nanos() as u64);
            self.lookups.borrow_mut().push(NameLookup { name, took_ns });
        }
        Ok(host)
    }

    /// The settings as the driver's own type.
    pub fn settings<T: DeserializeOwned>(&self) -> Result<T, String> {
        T::deserialize(self.settings).map_err(|error| format!("settings: {error}"))
    }

    /// The request of operation `index` as the driver's own type.
    pub fn request<T: DeserializeOwned>(&self, index: usize) -> Result<T, String> {
        T::deserialize(self.requests[index]).map_err(|error| format!("request of operation {index}: {error}"))
    }

    /// Compiles a text of operation `operation`.
    pub fn template(&self, operation: usize, text: &str) -> Template {
        let template = Template::new(text, self.values);
        template.used(&mut self.used.borrow_mut()[operation]);
        template
    }

    /// Compiles a text that stands in the settings: its values are drawn for every operation.
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
    /// One tester's state: connection, buffers.
    type Tester: AsyncTester;
    /// Open files of a tester.
    const FILES: u64 = 1;
    /// Checks and compiles everything. Opens no connection. The error names the key, what is wrong,
    /// and what to do.
    fn prepare(setup: &Setup<'_>) -> Result<Self, String>;
    /// A tester, on the lane that will run it.
    fn tester(self: &Arc<Self>, io: &Io, number: u32) -> Self::Tester;
}

/// A tester of an [`AsyncDriver`].
pub trait AsyncTester: 'static {
    /// Carries out one transaction: fills `attempt`, ending with [`Attempt::finish`]. The future is
    /// dropped when its time is up or the run ends, and [`Self::reset`] called.
    fn operate(&mut self, request: &Request<'_>, attempt: &mut Attempt) -> impl Future<Output = ()>;
    /// The last transaction was abandoned: drop whatever is in an unknown state.
    fn reset(&mut self);
}

/// A driver whose testers are threads.
pub trait BlockingDriver: Send + Sync + Sized + 'static {
    /// One tester's state.
    type Tester: BlockingTester;
    /// As [`AsyncDriver::prepare`].
    fn prepare(setup: &Setup<'_>) -> Result<Self, String>;
    /// A tester, made on the thread that will run it. The run begins when all are made, however
    /// long that takes.
    ///
    /// # Errors
    /// What it lacks, and what to do: there is no run then.
    fn tester(self: &Arc<Self>, number: u32) -> Result<Self::Tester, String>;
    /// Removes what testers have made, when all of them have ended, outside of all that is
    /// measured. Gives what a person should know of what is left.
    fn tidy(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A tester of a [`BlockingDriver`].
pub trait BlockingTester: 'static {
    /// Gets ready for another transaction. It is in none of them: a tester that works here says so
    /// by [`Attempt::freed`], and the next one is planned from then.
    ///
    /// # Errors
    /// Why it cannot go on: it is taken out.
    fn renew(&mut self, attempt: &mut Attempt) -> Result<(), String> {
        let _ = attempt;
        Ok(())
    }

    /// Carries out one transaction. It must end soon after `limit` says so, by itself, with
    /// [`Outcome::Timeout`] or [`Outcome::Cancelled`]; nobody else can end it.
    fn operate(&mut self, request: &Request<'_>, attempt: &mut Attempt, limit: &Limit<'_>);
}
