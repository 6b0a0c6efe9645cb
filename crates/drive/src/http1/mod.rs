//! HTTP/1.1 from the client's side, for all drivers that speak it: heads, bodies, connections.

pub mod answer;
pub mod body;
pub mod connection;
pub mod head;
pub mod patience;
