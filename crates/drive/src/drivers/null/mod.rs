//! `null`: a driver without requests. It measures the load generator itself: schedule, stamps,
//! counters and recording.
//!
//! Stamps: start and end, immediately after each other. One item, no payload, no bytes. No codes.

use std::future::Future;
use std::sync::Arc;

use plimsoll_model::{Code, Outcome};
use serde::Deserialize;

use crate::api::DriverInfo;
use crate::driver::{AsyncDriver, AsyncTester, Attempt, Request, Setup};
use crate::lane::reactor::Io;
use crate::setup_error::SetupError;

/// Description of the driver.
pub(crate) const INFO: DriverInfo = DriverInfo::new("null", "does nothing: measures the tester itself");

/// The driver, which is also its tester, because there is no state.
#[derive(Debug, Clone, Copy)]
pub struct Null;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoSettings {}

impl AsyncDriver for Null {
    type Tester = Self;
    const FILES: u64 = 0;

    fn prepare(setup: &Setup<'_>) -> Result<Self, SetupError> {
        let NoSettings {} = setup.settings()?;
        for operation in 0..setup.requests.len() {
            let NoSettings {} = setup.request(operation)?;
        }
        Ok(Self)
    }

    fn tester(self: &Arc<Self>, _: &Io, _: u32) -> Self {
        Self
    }
}

impl AsyncTester for Null {
    fn operate(&mut self, _: &Request<'_>, attempt: &mut Attempt) -> impl Future<Output = ()> {
        attempt.items = 1;
        attempt.finish(Outcome::Ok, Code::NONE);
        std::future::ready(())
    }

    fn reset(&mut self) {}
}
