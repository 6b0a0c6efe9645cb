//! Testers and drivers: the code that issues requests and stamps them. It writes no files, except
//! those of the trace that a `replay` workload performs.
//!
//! A [`Drive`] owns one thread per lane. The testers of an async driver are tasks on the reactor of
//! a lane. The testers of a blocking driver are threads, for which one further lane keeps counters
//! and time. Finished transactions are passed to a [`Sink`] in batches; seconds, notes and totals
//! are sent as [`DriveEvent`]s.

mod api;
mod driver;
mod drivers;
mod http1;
mod lane;
mod net;
mod run;
mod setup_error;
mod tester;

pub use api::{AgentPortion, DriveError, DriveEvent, DriverInfo, Portions, Sink};
pub use drivers::exec::ExecError;
pub use drivers::frontier::FrontierError;
pub use drivers::http::HttpError;
pub use drivers::registry::{driver, drivers};
pub use drivers::replay::ReplayError;
pub use drivers::sql::SqlError;
pub use net::error::{HostError, LookupError, ServerNameError, TlsError};
pub use net::look_up;
pub use plimsoll_model::MetricRow;
pub use run::{Drive, lanes_for};
pub use setup_error::{EndpointError, SetupError, UrlError};
