//! Pure codecs that drivers and reference services share: bytes in, values out, no I/O and no
//! clock.
//!
//! A protocol lives here once, so that our client and our server cannot agree on a private mistake
//! without the published worked examples of the tests noticing.

pub mod frontier;
pub mod sql;
