//! Tests of the clock map with known truth: simulated hosts whose clocks drift, wander and jump,
//! behind links with delay.

mod accuracy;
mod hostile;
mod live;
mod simulate;
mod truth;
mod udp;
