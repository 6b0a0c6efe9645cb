//! Metrics of a tester's own connections.
//!
//! Of each new one: `tcp_connect_s`, from the call of connect(2) until it is established, and
//! `tls_handshake_s`. A kept connection costs nothing for them. A connection that fails has
//! neither.
//!
//! What the kernel knows of the connections: metrics `tcp_rtt` (s), the least round-trip time so
//! far, and `tcp_retransmits`, how many segments were sent anew since the connection was made.
//!
//! Rejected: the smoothed round-trip time. An acknowledgement waits for the service's answer where
//! that comes within the delay of acknowledgements, so that it has the service's own time in it;
//! the handshake waits for nobody.
//!
//! A connection is asked after a transaction has ended, and then what the asking takes is the
//! tester's own time; never between the stamps of a transaction. The first one of a tester on each
//! of its ways is followed by a look, and those that end a second or more after the last look: so
//! that also a short run has one, and that their number is bounded by time, however many requests
//! or connections there are. Rejected: a look at the end of each connection. Who is cut off has
//! none, and a server that closes after each answer would make them as many as the requests.

use std::io;

use plimsoll_model::{Code, Codes};

use crate::attempt::Attempt;
use crate::net::transport::{Security, Transport};
use crate::net::{Host, Stream};
use crate::reactor::Io;

/// From the end of a transaction that a look has followed, ns.
const PAUSE: i64 = 1_000_000_000;

/// Names of the metrics.
#[derive(Debug, Clone, Copy)]
pub struct Names {
    round_trip: Code,
    retransmits: Code,
    connect: Code,
    handshake: Code,
}

impl Names {
    /// Enters them, before any server can have filled the dictionary.
    pub fn new(codes: &Codes) -> Self {
        Self {
            round_trip: codes.number("tcp_rtt"),
            retransmits: codes.number("tcp_retransmits"),
            connect: codes.number("tcp_connect_s"),
            handshake: codes.number("tls_handshake_s"),
        }
    }

    /// Connects, and records how long that took: with several addresses, the time of those that
    /// failed is part of it.
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
        security: &Security,
        attempt: &mut Attempt,
    ) -> io::Result<Transport> {
        let begun = attempt.now();
        let transport = Transport::secure(stream, security).await?;
        record(self.handshake, begun, attempt);
        Ok(transport)
    }
}

fn record(metric: Code, begun: i64, attempt: &mut Attempt) {
    let seconds = (attempt.now() - begun) as f64 * 1e-9;
    attempt.metrics.push((metric, seconds));
}

/// Says when a tester's connections are looked at.
pub struct RoundTrips {
    names: Names,
    /// Per way: from when on (raw, ns) the end of a transaction is followed by a look.
    due: Box<[i64]>,
}

impl RoundTrips {
    /// For a tester with `ways` ways to go, each with a connection at a time.
    pub fn new(names: Names, ways: usize) -> Self {
        Self {
            names,
            due: vec![0; ways].into(),
        }
    }

    /// Whether a transaction on `way` that ended at `end` (raw, ns; not at all: -1) is followed by
    /// a look.
    #[inline]
    pub fn due(&self, way: usize, end: i64) -> bool {
        end >= self.due[way]
    }

    /// The transaction has ended, on `stream`: looks at the connection if it is time to.
    #[inline]
    pub fn ended(&mut self, way: usize, stream: &Stream, attempt: &mut Attempt) {
        if self.due(way, attempt.end) {
            self.look(way, stream, attempt);
        }
    }

    /// Looks at the connection; there is no other look before a second has passed.
    #[cold]
    pub fn look(&mut self, way: usize, stream: &Stream, attempt: &mut Attempt) {
        self.due[way] = attempt.end.saturating_add(PAUSE);
        if let Some(found) = stream.measured() {
            attempt.metrics.push((self.names.round_trip, found.round_trip_s));
            attempt
                .metrics
                .push((self.names.retransmits, f64::from(found.retransmits)));
        }
        attempt.freed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_end_is_followed_by_a_look_and_no_end_is_not() {
        let trips = RoundTrips::new(Names::new(&Codes::default()), 2);
        assert!(trips.due(0, 0) && trips.due(1, i64::MAX));
        assert!(!trips.due(0, plimsoll_model::NOT_HAPPENED));
    }
}
