//! Does to a file system what a trace tells: the same calls, by as many threads, in an order that
//! means the same.
//!
//! [`names`] says which name of the trace becomes which one beneath a directory, and which are left
//! out; [`check`] tells what that directory lacks, makes it, and takes away again what was made.
//! [`root`] keeps everything beneath it. [`plan`] makes of the events of a trace what each worker
//! is to do, [`order`] whom it waits for meanwhile, [`timing`] when it does it. [`mod@run`] carries
//! a plan out by `perform`, and [`result`] tells how it went. [`job`] puts all of it together.
//! Plans are pure; only `root`, `perform`, `run` and `check` touch files, and only `timing::pace`
//! looks at clocks.

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
