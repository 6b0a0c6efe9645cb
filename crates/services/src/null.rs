//! `null`: a service for measurements of the load generator itself.
//!
//! Without `reply` it accepts every connection, reads all input and does not respond; the client
//! closes the connection. With `reply` it answers each line (ended by `\n`) with these bytes, and
//! adds a newline if they have none. This is the cheapest request and response over TCP.

use std::future::Future;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use crate::ServiceError;
use crate::counters::{Counters, Question};
use crate::lines::LineConnection;
use crate::listen::serve_connections;

/// Maximum length of a reply, in bytes.
const MAX_REPLY: usize = 1024;
/// Responses are written when they have this number of bytes, or no further line has arrived.
const BATCH: usize = 64 * 1024;

/// Configuration of `null`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NullConfig {
    /// Response to each line, at most 1,024 bytes with its newline. None: no response.
    pub reply: Option<String>,
}

/// Serves until `shutdown` completes.
pub async fn serve(
    listener: TcpListener,
    config: NullConfig,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServiceError> {
    let reply = config.reply.map(|text| -> Arc<[u8]> {
        let end = if text.ends_with('\n') { "" } else { "\n" };
        Arc::from((text + end).into_bytes())
    });
    if let Some(length) = reply.as_ref().map(|reply| reply.len())
        && length > MAX_REPLY
    {
        return Err(ServiceError::Config {
            key: "reply",
            why: format!("expected at most 1,024 bytes with the newline, got {length} bytes"),
        });
    }
    let counters = Arc::new(Counters::default());
    serve_connections(listener, shutdown, move |stream| {
        counters.connection();
        let (reply, counters) = (reply.clone(), counters.clone());
        async move {
            match reply {
                Some(reply) => answer(LineConnection::new(stream), &reply, &counters).await,
                None => discard(stream).await,
            }
        }
    })
    .await
}

async fn discard(mut stream: TcpStream) {
    let mut buffer = vec![0; 64 * 1024];
    while matches!(stream.read(&mut buffer).await, Ok(read) if read > 0) {}
}

async fn answer(mut connection: LineConnection, reply: &[u8], counters: &Counters) {
    let mut out = Vec::with_capacity(reply.len());
    loop {
        while out.len() < BATCH
            && let Some(line) = connection.buffered()
        {
            if let Some(question) = Question::of_line(line) {
                out.extend_from_slice(question.answer(counters, || counters.counts()).as_bytes());
            } else {
                counters.received(1);
                counters.answered(1);
                out.extend_from_slice(reply);
            }
        }
        if out.is_empty() {
            if !connection.fill().await {
                return;
            }
        } else if !connection.write(&out).await {
            return;
        }
        out.clear();
    }
}
