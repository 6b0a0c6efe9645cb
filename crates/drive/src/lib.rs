//! Testers and drivers: everything that issues requests and stamps them. Writes no files but those
//! that a replay is about.
//!
//! A [`Drive`] owns one thread per lane. An async driver's testers are tasks on the lane's own
//! single-threaded runtime; a blocking driver's testers are threads of their own, kept together by
//! one further lane. Finished transactions leave by a [`Sink`] in batches, everything else as
//! [`DriveEvent`]s.

mod api;
mod arrivals;
mod attempt;
mod blocking_pool;
mod control;
mod cycle;
mod driver;
mod drivers;
mod failure;
mod host;
mod http1;
mod lane;
mod lane_stats;
mod limit;
mod net;
mod own_delays;
mod plan;
mod policy;
mod program;
mod reactor;
mod registry;
mod round_trips;
mod run;

pub use api::{DriveError, DriveEvent, DriverInfo, Portions, Share, Sink};
pub use plimsoll_model::MetricRow;
pub use registry::{driver, drivers};
pub use run::{Drive, lanes_for};
