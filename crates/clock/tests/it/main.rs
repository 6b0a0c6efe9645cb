//! The clock map against known truth: simulated hosts whose clocks drift, wander and jump, behind
//! links that delay.

mod accuracy;
mod hostile;
mod live;
mod simulate;
mod truth;
mod udp;
