//! Does to a file system what a trace tells: the same calls, by as many threads, in an order that means the same.
//!
//! [`root`] keeps everything beneath one directory. [`plan`] makes of the events of a trace what each worker is to do, [`order`]
//! whom it waits for meanwhile, [`timing`] when it does it. [`mod@run`] carries a plan out by `perform`, and [`result`] tells how
//! it went. Plans are pure; only `root`, `perform` and `run` touch files, and only `timing::pace` looks at clocks.

pub mod action;
pub mod order;
mod perform;
pub mod plan;
pub mod result;
pub mod root;
pub mod run;
pub mod timing;
