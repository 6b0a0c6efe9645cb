//! When does the next request start, and what does it ask? Pure functions of elapsed time and
//! counts: no clock, no sleep. Times are nanoseconds since the start of the run.
//!
//! Everything random is seeded, and the same whatever the number of agents and lanes that share the
//! work.
#![forbid(unsafe_code)]

mod arrivals;
mod closed;
mod mix;
mod share;
mod values;

pub use arrivals::{Arrival, ArrivalStream, RateCurve};
pub use closed::{NextSlot, Presence, Slots, Think};
pub use mix::{Mix, MixState};
pub use share::{Rng, Stream, rng, share, uniform, unit};
pub use values::{Draws, Fill, Template, Used, Value, Values};
