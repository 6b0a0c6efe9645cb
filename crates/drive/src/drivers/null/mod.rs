//! `null`: does nothing. Measures the tester itself: schedule, stamps, books and recording.
//!
//! Stamps: start and end, around nothing. One item, no payload, no bytes. No codes.

use std::future::Future;
use std::sync::Arc;

use plimsoll_model::{Code, Outcome};
use serde::Deserialize;

use crate::api::DriverInfo;
use crate::driver::{AsyncDriver, AsyncTester, Attempt, Request, Setup};
use crate::reactor::Io;

/// See [`DriverInfo`].
pub(crate) const INFO: DriverInfo = DriverInfo::new("null", "does nothing: measures the tester itself");

/// The driver, and its tester: there is nothing to keep.
#[derive(Debug, Clone, Copy)]
pub struct Null;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl AsyncDriver for Null {
    type Tester = Self;
    const FILES: u64 = 0;

    fn prepare(setup: &Setup<'_>) -> Result<Self, String> {
        let Nothing {} = setup.settings()?;
        for operation in 0..setup.requests.len() {
            let Nothing {} = setup.request(operation)?;
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
