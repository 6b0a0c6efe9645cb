//! Clocks: those of a host behind one trait, and the map from an agent's clock onto the
//! controller's.
//!
//! An agent stamps with its own `CLOCK_MONOTONIC_RAW` ("agent time"), the controller with another
//! ("controller time"). Nobody ever sets a clock; instead the difference θ(t) = controller − agent
//! is estimated as a function of agent time, with a bound that holds. Pure: stamps and bytes come
//! in as arguments.
//!
//! - [`source`]: the three clocks of a host, and one for tests
//! - [`probe`], [`packet`], [`schedule`]: what an exchange of four stamps says, its bytes, and when
//!   to make one
//! - [`estimate`]: after a run, all probes → a [`ClockMap`] with its pieces
//! - [`live`]: while it runs, the last probes → the time now or soon, for a common start
//! - [`map`]: offset, bound and inverse at any time
//! - [`steps`]: steps of the wall clock, which are events and change no number
//!
//! # Why the truth is inside the bound
//!
//! A probe leaves the agent at T1, is heard by the controller at T2, answered at T3, and received
//! at T4. No message arrives before it was sent, so that with one-way delays f, b ≥ 0
//!
//! ```text
//! θ(T1) = T2 − T1 − f ≤ T2 − T1 =: u        θ(T4) = T3 − T4 + b ≥ T3 − T4 =: l
//! ```
//!
//! Under the one assumption, that the rates of the two clocks differ by at most ρ (500 ppm unless
//! declared),
//! |θ(s) − θ(t)| ≤ ρ |s − t|, and every probe says something about every time t:
//!
//! ```text
//! L(t) = max_j (l_j − ρ |t − T4_j|)  ≤  θ(t)  ≤  min_i (u_i + ρ |t − T1_i|) = U(t)
//! ```
//!
//! The bound of an estimate e is B(t) = max(U(t) − e(t), e(t) − L(t)), whatever e is and wherever
//! it comes from: an estimator that errs makes B wide, never false. Half the difference of the two
//! one-way delays is in no probe of one path (Cristian 1989; RFC 5905 section 11.1 for the form of
//! the bound), so B is never much below half a round trip.

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

pub use estimate::{Begin, EstimateError, Estimated, Piece, estimate};
pub use live::{Live, Pushed};
pub use map::{ClockMap, Inverse, Mapped};
pub use probe::{Assumptions, Probe, Via};
pub use source::{Clock, SystemClock, TestClock};
