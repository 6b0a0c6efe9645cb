//! Lab, controller and agents as real processes.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails; its helpers are tests too"
)]

mod control;
mod door;
mod export;
mod harness;
mod hosts;
mod leaving;
mod time;
mod wall;
