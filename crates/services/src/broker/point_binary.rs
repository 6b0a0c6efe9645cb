//! A decision point over the binary protocol.
//!
//! Limits: a message [`MAX_BODY`](plimsoll_wire::broker::MAX_BODY) and 20 s, a reply 30 s, an idle
//! connection 5 minutes, as over HTTP.

use std::time::Duration;

use plimsoll_wire::broker::{BrokerProtocolError, Frame, JobRequest, Reply, Status};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::point_service::{NO_TLS, PointService};
use crate::http::{IDLE_TIMEOUT, WRITE_TIMEOUT, close_refused};

/// Capacity of the buffer for requests, bytes: more than a message, so that it does not grow.
const BUFFER: usize = 2048;

const TIMEOUTS: Timeouts = Timeouts {
    idle: IDLE_TIMEOUT,
    message: Duration::from_secs(20),
    write: WRITE_TIMEOUT,
};

/// Maximum times that a client may take.
#[derive(Debug, Clone, Copy)]
struct Timeouts {
    /// Between two requests.
    idle: Duration,
    /// From the first byte of a request to its last.
    message: Duration,
    /// To accept a reply.
    write: Duration,
}

/// Result of waiting for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Job(JobRequest),
    /// Something else has arrived, and was refused. The connection must be closed.
    Refused,
    /// The client has closed the connection, or was idle for too long.
    Closed,
}

struct BinaryConnection<S> {
    stream: S,
    input: Vec<u8>,
    output: Vec<u8>,
    timeouts: Timeouts,
}

impl PointService {
    pub(super) async fn serve_binary<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) {
        let mut connection = BinaryConnection::new(stream, TIMEOUTS);
        let mut grid = self.grid_client();
        loop {
            let job = match connection.next().await {
                Next::Job(job) => job,
                Next::Refused => return self.counters.refused(),
                Next::Closed => return,
            };
            self.counters.received(1);
            let reply = self.decide(&mut grid, &job).await;
            self.counters.answered(1);
            if !connection.send(&reply).await {
                return;
            }
        }
    }

    /// Refuses a client without TLS.
    pub(super) async fn refuse_binary(&self, stream: TcpStream) {
        let mut connection = BinaryConnection::new(stream, TIMEOUTS);
        let refusal = Reply::refused(Status::InvalidMessage, NO_TLS);
        if connection.send(&refusal).await {
            close_refused(&mut connection.stream).await;
        }
        self.counters.refused();
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> BinaryConnection<S> {
    fn new(stream: S, timeouts: Timeouts) -> Self {
        Self {
            stream,
            input: Vec::with_capacity(BUFFER),
            output: Vec::new(),
            timeouts,
        }
    }

    async fn next(&mut self) -> Next {
        match self.read().await {
            Ok(Some(job)) => Next::Job(job),
            Ok(None) => Next::Closed,
            Err(refusal) => {
                if self.send(&refusal).await {
                    close_refused(&mut self.stream).await;
                }
                Next::Refused
            }
        }
    }

    /// None: the connection is closed.
    async fn read(&mut self) -> Result<Option<JobRequest>, Reply> {
        let Timeouts { idle, message, .. } = self.timeouts;
        let mut deadline = Instant::now() + if self.input.is_empty() { idle } else { message };
        loop {
            if let Some(frame) = Frame::parse(&self.input).map_err(refusal)? {
                let job = JobRequest::decode(frame).map_err(refusal)?;
                let length = frame.length();
                self.input.drain(..length);
                return Ok(Some(job));
            }
            let is_first = self.input.is_empty();
            match timeout_at(deadline, self.stream.read_buf(&mut self.input)).await {
                Ok(Ok(1..)) if is_first => deadline = Instant::now() + message,
                Ok(Ok(1..)) => {}
                Err(_) if !is_first => {
                    let text = format!("the request did not arrive within {} s", message.as_secs());
                    return Err(Reply::refused(Status::InvalidMessage, text));
                }
                _ => return Ok(None),
            }
        }
    }

    /// Sends a reply. Returns false if the connection must be closed.
    async fn send(&mut self, reply: &Reply) -> bool {
        self.output.clear();
        reply.encode(&mut self.output);
        let sent = timeout(self.timeouts.write, self.stream.write_all(&self.output)).await;
        matches!(sent, Ok(Ok(())))
    }
}

fn refusal(error: BrokerProtocolError) -> Reply {
    Reply::refused(error.status(), error)
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, duplex};

    use super::*;

    const JOB: JobRequest = JobRequest {
        vo: 1,
        group: 2,
        cpus: 3,
        runtime_ms: 4,
    };
    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(60);
    const PATIENT: Timeouts = Timeouts {
        idle: LONG,
        message: LONG,
        write: LONG,
    };

    fn connection(timeouts: Timeouts, buffer: usize) -> (DuplexStream, BinaryConnection<DuplexStream>) {
        let (client, server) = duplex(buffer);
        (client, BinaryConnection::new(server, timeouts))
    }

    fn message() -> Vec<u8> {
        let mut bytes = Vec::new();
        JOB.encode(&mut bytes);
        bytes
    }

    /// The reply in what a client has received.
    async fn reply(client: &mut DuplexStream) -> Reply {
        let mut bytes = Vec::new();
        loop {
            if let Some(frame) = Frame::parse(&bytes).unwrap() {
                return Reply::decode(frame).unwrap();
            }
            assert!(client.read_buf(&mut bytes).await.unwrap() > 0);
        }
    }

    #[tokio::test]
    async fn requests_may_arrive_in_pieces_and_together() {
        let (mut client, mut connection) = connection(PATIENT, 4096);
        let whole = [message(), message(), message()].concat();
        let writer = async {
            for byte in &whole[..30] {
                client.write_all(&[*byte]).await.unwrap();
            }
            client.write_all(&whole[30..]).await.unwrap();
            drop(client);
        };
        let reader = async {
            for _ in 0..3 {
                assert_eq!(connection.next().await, Next::Job(JOB));
            }
            assert_eq!(connection.next().await, Next::Closed);
        };
        tokio::join!(writer, reader);
    }

    #[tokio::test]
    async fn a_client_that_is_silent_or_sends_half_a_message_is_not_waited_for() {
        let timeouts = Timeouts {
            idle: SHORT,
            ..PATIENT
        };
        let (client, mut silent) = connection(timeouts, 4096);
        assert_eq!(silent.next().await, Next::Closed);
        drop(client);
        let timeouts = Timeouts {
            message: SHORT,
            ..PATIENT
        };
        let (mut client, mut slow) = connection(timeouts, 4096);
        client.write_all(&message()[..20]).await.unwrap();
        let (next, reply) = tokio::join!(slow.next(), async {
            let reply = reply(&mut client).await;
            drop(client);
            reply
        });
        assert_eq!(next, Next::Refused);
        let Reply::Refused { status, text, .. } = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(status, Status::InvalidMessage);
        assert!(text.contains("did not arrive"), "{text}");
    }

    #[tokio::test]
    async fn a_client_that_reads_no_reply_is_not_waited_for() {
        let timeouts = Timeouts {
            write: SHORT,
            ..PATIENT
        };
        let (_client, mut connection) = connection(timeouts, 8);
        assert!(!connection.send(&Reply::refused(Status::NoCapacity, "full")).await);
    }

    #[tokio::test]
    async fn a_message_of_1_gib_is_refused_by_its_header_and_not_stored() {
        let (mut client, mut connection) = connection(PATIENT, 64 * 1024);
        let mut bytes = b"\x03B\x01\x01\x40\0\0\0".to_vec();
        bytes.resize(60_000, 7);
        client.write_all(&bytes).await.unwrap();
        let client = async {
            let reply = reply(&mut client).await;
            drop(client);
            reply
        };
        let (next, reply) = tokio::join!(connection.next(), client);
        assert_eq!(next, Next::Refused);
        assert!(
            matches!(&reply, Reply::Refused { text, .. } if text.contains("1073741824")),
            "{reply:?}"
        );
        assert!(connection.input.capacity() <= BUFFER);
    }
}
