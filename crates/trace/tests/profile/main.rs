//! Compares the profile of a trace with hand-made events and with simple, slow computations.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![allow(clippy::float_cmp, reason = "sums without any term are exactly 0")]

mod any;
mod by_hand;
mod choice;
mod findings;
mod naive;
mod points;
mod scene;
mod text;
