//! Codecs of protocols that drivers and services share. No I/O and no clock.
//!
//! Each protocol is implemented once, for client and server. The tests compare it with published
//! examples, so that client and server cannot share an undetected mistake.

pub mod broker;
pub mod catalogue;
pub mod frontier;
pub mod ftp;
pub mod ldap;
pub mod sink;
pub mod sql;
