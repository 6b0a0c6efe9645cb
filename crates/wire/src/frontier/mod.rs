//! The `FroNtier` protocol (servlet 3.42): a request is SQL in the URL of a cacheable GET, a
//! response is a typed binary result set in an XML document.
//!
//! | part | module |
//! |---|---|
//! | the request URL, and the SQL in it | [`request`] |
//! | the typed binary result set | [`payload`] |
//! | compression, digest and base64 of a payload, as a stream | [`armor`] |
//! | the XML document around the payloads, exact to the byte | [`frame`] |
//! | reading and verifying a document, for a client | [`document`] |

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

/// The base64 engine of this protocol: standard alphabet, padding written, but optional when
/// reading.
fn base64() -> &'static Simd {
    static ENGINE: OnceLock<Simd> = OnceLock::new();
    ENGINE.get_or_init(|| {
        Simd::standard(GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent))
    })
}
