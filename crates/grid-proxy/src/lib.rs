//! Grid proxies ([RFC 3820]): how a server verifies them, and how a client makes them.
//!
//! A proxy is a certificate that an end entity, such as a user, has signed with its own key for
//! another key, mostly a short-lived one. A proxy can sign further proxies. The chain that a client
//! presents begins with its proxy and ends with the certificate of the end entity, and possibly
//! those of intermediate authorities.
//!
//! [`verify`] is pure: bytes, authorities and a time as arguments, a [`Holder`] or a [`Refusal`] as
//! result. [`Verifier`] makes it available to `rustls`, and [`Delegator`] makes proxies.
//!
//! `rustls` has no support for proxies: it refuses the critical extension, and a user that signs.
//! Its library `webpki` verifies the certificate of the end entity here, so that only the rules of
//! RFC 3820 are our own. Rejected: OpenSSL for this path, because the engine would no longer be one
//! static binary, and because OpenSSL accepts limited proxies and extensions that are not critical
//! without telling.
//!
//! Not implemented: revocation lists, and policy languages that contain a policy.
//!
//! [RFC 3820]: https://www.rfc-editor.org/rfc/rfc3820

mod authorities;
mod certificate;
mod chain;
mod delegate;
mod der;
mod information;
mod refusal;
mod verifier;

pub use authorities::Authorities;
pub use certificate::public_key;
pub use chain::{Holder, MAX_BYTES, MAX_CERTIFICATES, end_entity, verify};
pub use delegate::{DelegateError, Delegator};
pub use information::{Language, ProxyInformation};
pub use refusal::{Reason, Refusal};
pub use verifier::Verifier;
