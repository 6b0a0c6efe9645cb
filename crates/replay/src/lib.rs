//! Replays a trace: makes the same calls on a file system, with the same number of threads, in an
//! equivalent order.
//!
//! [`names`] maps the names of the trace beneath a directory, and selects the names that are
//! ignored. [`check`] reports what that directory lacks, makes it, and removes what was made.
//! [`root`] is a sandbox: no call leaves the directory. [`plan`] converts the events of a trace
//! into the actions of each worker, [`order`] determines for which other actions they wait, and
//! [`timing`] when they begin. [`mod@run`] carries out a plan with `perform`, and [`result`]
//! reports the result. [`job`] combines these parts. Plans are pure: only `root`, `perform`, `run`
//! and `check` access files, and only `timing::pace` reads clocks.

pub mod action;
pub mod check;
pub mod job;
pub mod names;
pub mod order;
mod perform;
pub mod plan;
pub mod result;
pub mod root;
pub mod run;
pub mod timing;
