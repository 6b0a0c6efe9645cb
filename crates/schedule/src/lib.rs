//! Start times and contents of requests. Pure functions of elapsed time and counts: no clock, no
//! sleep. Times are nanoseconds since the start of the run.
//!
//! Everything random is seeded, and does not depend on the number of agents and lanes that share
//! the load.
#![forbid(unsafe_code)]

mod arrivals;
mod closed;
mod mix;
mod random;
mod session;
mod slots;
mod values;

pub use arrivals::{Arrival, ArrivalStream, RateCurve};
pub use closed::{Presence, Think};
pub use mix::{Mix, MixState};
pub use random::{Rng, Stream, portion, rng, uniform, unit};
pub use session::Sessions;
pub use slots::{NextSlot, Slots};
pub use values::{Draws, Fill, Template, UsedValues, Value, Values};
