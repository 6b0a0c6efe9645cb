//! The profile of a trace, against hand-made events, and against second computations that are
//! simple and slow.
#![allow(clippy::unwrap_used, reason = "what a scene does not have fails its test")]
#![allow(clippy::float_cmp, reason = "nothing times anything is exactly nothing")]

mod any;
mod by_hand;
mod choice;
mod findings;
mod naive;
mod points;
mod scene;
mod text;
