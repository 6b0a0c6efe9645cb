//! The `FroNtier` protocol (servlet 3.42): SQL in a cacheable GET URL, a typed binary result set in
//! an XML document out.
//!
//! | part | module |
//! |---|---|
//! | the request URL, and the SQL inside it | [`request`] |
//! | the typed binary result set | [`payload`] |
//! | deflating, digesting and base64 of a payload, as a stream | [`armor`] |
//! | the XML frame, exact to the byte | [`frame`] |
//! | reading and verifying a whole document, for a client | [`document`] |

pub mod armor;
pub mod document;
pub mod frame;
pub mod payload;
pub mod request;

mod markup;

#[cfg(test)]
mod example;
#[cfg(test)]
mod fuzz;

use std::sync::OnceLock;

use base64::engine::{DecodePaddingMode, GeneralPurposeConfig, Simd};

/// The base64 engine of this protocol: standard alphabet, padding written, and not insisted on when
/// reading.
fn base64() -> &'static Simd {
    static ENGINE: OnceLock<Simd> = OnceLock::new();
    ENGINE.get_or_init(|| {
        Simd::standard(GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent))
    })
}
