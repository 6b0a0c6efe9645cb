//! What talks to the agents: each agent's line ([`peer`]) and the task that makes its links
//! ([`handler`]), over a command ([`carrier`]) or a link that it made itself ([`door`]), the files
//! that it sends ([`store`]), and the server that responds to its probes ([`time_service`]). Makes
//! no decisions about runs.

mod carrier;
pub(crate) mod door;
mod handler;
pub(crate) mod peer;
mod store;
pub(crate) mod time_service;
