//! Clocks: the clocks of a host behind one trait, and the map from an agent's clock onto the
//! controller's.
//!
//! An agent reads its stamps from its own `CLOCK_MONOTONIC_RAW` ("agent time"), the controller from
//! another ("controller time"). Plimsoll never sets a clock. It estimates the difference θ(t) =
//! controller − agent as a function of agent time, with a bound that always holds. The module is
//! pure: stamps and bytes are arguments.
//!
//! - [`source`]: the three clocks of a host, and a clock for tests
//! - [`probe`], [`packet`], [`schedule`]: what an exchange of four stamps implies, its bytes, and
//!   when the agent sends one
//! - [`estimate`]: after a run, all probes → a [`ClockMap`] with its pieces
//! - [`live`]: during a run, the last probes → the current time and the near future, for a common
//!   start
//! - [`map`]: offset, bound and inverse at any time
//! - [`steps`]: steps of the wall clock, which are events and change no number
//!
//! # Why the truth is inside the bound
//!
//! The agent sends a probe at T1. The controller receives it at T2 and answers at T3. The agent
//! receives the answer at T4. No message arrives before it was sent, so that with one-way delays f,
//! b ≥ 0
//!
//! ```text
//! θ(T1) = T2 − T1 − f ≤ T2 − T1 =: u        θ(T4) = T3 − T4 + b ≥ T3 − T4 =: l
//! ```
//!
//! The only assumption is that the rates of the two clocks differ by at most ρ (500 ppm unless
//! declared). Then |θ(s) − θ(t)| ≤ ρ |s − t|, and every probe constrains every time t:
//!
//! ```text
//! L(t) = max_j (l_j − ρ |t − T4_j|)  ≤  θ(t)  ≤  min_i (u_i + ρ |t − T1_i|) = U(t)
//! ```
//!
//! The bound of an estimate e is B(t) = max(U(t) − e(t), e(t) − L(t)). This holds for every e, from
//! any source: a bad estimator makes B wide, never false. No probe of one path shows half the
//! difference of the two one-way delays (Cristian 1989; RFC 5905 section 11.1 for the form of the
//! bound), so B is never much below half a round trip.

mod change;
mod cones;
pub mod estimate;
mod fit;
mod hull;
pub mod live;
pub mod map;
pub mod packet;
pub mod probe;
mod regress;
pub mod schedule;
mod section;
pub mod source;
pub mod steps;

pub use estimate::{Begin, ClockEstimate, EstimateError, Piece, estimate};
pub use live::{Live, PushResult};
pub use map::{AgentTime, ClockMap, ControllerTime};
pub use probe::{Assumptions, Probe, Via};
pub use source::{Clock, SystemClock, TestClock};
