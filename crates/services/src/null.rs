//! `null`: what a load tool is measured with.
//!
//! Without `reply` it is a sink: it accepts every connection, reads everything and answers nothing;
//! the client closes. With `reply` it answers each line (ended by `\n`) with these bytes, a newline
//! added where they have none: the cheapest request and answer that TCP allows.

use std::future::Future;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use crate::ServiceError;
use crate::counters::{Counters, Question};
use crate::lines::LineConnection;
use crate::listen::serve_connections;

/// Longest reply: with it the answers to one read of short lines stay below 64 MB.
const MAX_REPLY: usize = 1024;
/// Answers are written when this many bytes have gathered, or no further line is waiting.
const BATCH: usize = 64 * 1024;

/// Configuration of `null`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NullConfig {
    /// Answer to each line, at most 1024 bytes; nothing is answered where absent.
    pub reply: Option<String>,
}

/// Serves until `shutdown`.
pub async fn serve(
    listener: TcpListener,
    config: NullConfig,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServiceError> {
    let reply = config.reply.map(|text| -> Arc<[u8]> {
        let end = if text.ends_with('\n') { "" } else { "\n" };
        Arc::from((text + end).into_bytes())
    });
    if reply.as_ref().is_some_and(|reply| reply.len() > MAX_REPLY) {
        return Err(ServiceError::Config {
            key: "reply",
            why: format!("at most {MAX_REPLY} bytes"),
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
