//! What talks to the agents: each agent's line ([`peer`]) over a command ([`carrier`]) or a link
//! that it made itself ([`door`]), the files that it sends ([`store`]), and the server that
//! responds to its probes ([`time_service`]). Makes no decisions about runs.

mod carrier;
pub(crate) mod door;
pub(crate) mod peer;
mod store;
pub(crate) mod time_service;
