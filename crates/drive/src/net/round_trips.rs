//! Metrics of a tester's own connections.
//!
//! Metrics of each new connection: `tcp_connect_s`, from the call of connect(2) until the
//! connection is established, and `tls_handshake_s`. A reused connection has neither. A connection
//! that fails has neither.
//!
//! Metrics from the kernel (`TCP_INFO`): `tcp_rtt` (s), the minimum round-trip time so far, and
//! `tcp_retransmits`, the number of segments retransmitted since the connection was established.
//!
//! Rejected: the smoothed round-trip time. A delayed acknowledgement is sent together with the
//! service's response if that is fast enough, so that the smoothed value contains the time of the
//! service. The handshake is acknowledged at once.
//!
//! `TCP_INFO` is read after a transaction has ended, never between its stamps; the time of the call
//! belongs to the tester. It is read after a tester's first transaction on each route, and then
//! after a transaction that ends a second or more after the last reading. So even a short run has a
//! reading, and the number of readings is bounded by time, independent of the number of requests or
//! connections. Rejected: a reading at the end of each connection. A connection that is reset would
//! have none, and a server that closes after each response would cause as many readings as
//! requests.

use std::io;

use plimsoll_model::{Code, Codes};
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::transport::Transport;
use super::{Host, Stream};
use crate::lane::reactor::Io;
use crate::tester::attempt::Attempt;

/// Minimum time between the ends of two transactions after which `TCP_INFO` is read, ns.
const READ_INTERVAL: i64 = 1_000_000_000;

/// Codes of the names of the metrics.
#[derive(Debug, Clone, Copy)]
pub struct Names {
    round_trip: Code,
    retransmits: Code,
    connect: Code,
    handshake: Code,
}

impl Names {
    /// Adds the names to the dictionary, before responses of servers can fill it.
    pub fn new(codes: &Codes) -> Self {
        Self {
            round_trip: codes.number("tcp_rtt"),
            retransmits: codes.number("tcp_retransmits"),
            connect: codes.number("tcp_connect_s"),
            handshake: codes.number("tls_handshake_s"),
        }
    }

    /// Connects, and records how long that took, including the time for addresses that failed.
    pub async fn connect(self, host: &Host, io: &Io, attempt: &mut Attempt) -> io::Result<Stream> {
        let begun = attempt.now();
        let stream = host.connect(io).await?;
        record(self.connect, begun, attempt);
        Ok(stream)
    }

    /// Begins TLS on a connection, and records how long the handshake took.
    pub async fn secure(
        self,
        stream: Stream,
        (connector, name): (&TlsConnector, &ServerName<'static>),
        attempt: &mut Attempt,
    ) -> io::Result<Transport> {
        let begun = attempt.now();
        let transport = Transport::secure(stream, connector, name).await?;
        record(self.handshake, begun, attempt);
        Ok(transport)
    }
}

fn record(metric: Code, begun: i64, attempt: &mut Attempt) {
    let seconds = (attempt.now() - begun) as f64 * 1e-9;
    attempt.metrics.push((metric, seconds));
}

/// Decides when `TCP_INFO` of a tester's connections is read.
pub struct RoundTrips {
    names: Names,
    /// Per route: `TCP_INFO` is read after a transaction that ends at this time or later (raw, ns).
    due: Box<[i64]>,
}

impl RoundTrips {
    /// For a tester with `ways` routes, each with one connection at a time.
    pub fn new(names: Names, ways: usize) -> Self {
        Self {
            names,
            due: vec![0; ways].into(),
        }
    }

    /// Whether `TCP_INFO` is read after a transaction on route `way` that ended at `end` (raw, ns;
    /// -1 if it did not end).
    #[inline]
    pub fn due(&self, way: usize, end: i64) -> bool {
        end >= self.due[way]
    }

    /// The transaction has ended, on `stream`: reads `TCP_INFO` if it is due.
    #[inline]
    pub fn ended(&mut self, way: usize, stream: &Stream, attempt: &mut Attempt) {
        if self.due(way, attempt.end) {
            self.read(way, stream, attempt);
        }
    }

    /// Reads `TCP_INFO` of the connection. The next reading is due after [`READ_INTERVAL`].
    #[cold]
    pub fn read(&mut self, way: usize, stream: &Stream, attempt: &mut Attempt) {
        self.due[way] = attempt.end.saturating_add(READ_INTERVAL);
        if let Some(info) = stream.tcp_info() {
            attempt.metrics.push((self.names.round_trip, info.round_trip_s));
            attempt
                .metrics
                .push((self.names.retransmits, f64::from(info.retransmits)));
        }
        attempt.freed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_due_after_the_first_end_but_not_without_an_end() {
        let trips = RoundTrips::new(Names::new(&Codes::default()), 2);
        assert!(trips.due(0, 0) && trips.due(1, i64::MAX));
        assert!(!trips.due(0, plimsoll_model::NOT_HAPPENED));
    }
}
