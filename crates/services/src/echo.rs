//! `echo`: returns the data that it receives.
//!
//! A minimal HTTP server with keep-alive. The response to a request with a body contains that body;
//! any other response contains a fixed body of `body` bytes. Both have the configured status.
//! `/plimsoll/count` and `/plimsoll/stats` are described in [`crate::counters`]. With `http: false`
//! it returns every byte over TCP.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::ServiceError;
use crate::counters::{Counters, Question};
use crate::http::{Head, HttpConnection, Next, Response};
use crate::listen::serve_connections;

/// Maximum time for a TCP client to read the returned data.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of a body, in bytes.
const MAX_BODY: usize = 64 * 1024 * 1024;

/// Configuration of `echo`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EchoConfig {
    /// True (the default): HTTP. False: TCP.
    pub http: bool,
    /// HTTP: length of the fixed body in bytes, at most 64 MiB.
    pub body: usize,
    /// HTTP: status of every response, 200 to 599.
    pub status: u16,
    /// HTTP: maximum length of a request body in bytes, at most 64 MiB. The response to a longer
    /// body is 413.
    pub max_body: usize,
}

impl Default for EchoConfig {
    fn default() -> Self {
        Self {
            http: true,
            body: 0,
            status: 200,
            max_body: 1 << 20,
        }
    }
}

/// Serves until `shutdown` completes.
pub async fn serve(
    listener: TcpListener,
    config: EchoConfig,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServiceError> {
    if !(200..=599).contains(&config.status) {
        return Err(ServiceError::Config {
            key: "status",
            why: format!("expected 200 to 599, got {}", config.status),
        });
    }
    for (key, value) in [("body", config.body), ("max_body", config.max_body)] {
        if value > MAX_BODY {
            return Err(ServiceError::Config {
                key,
                why: format!("expected at most 67,108,864 bytes (64 MiB), got {value} bytes"),
            });
        }
    }
    let counters = Arc::new(Counters::default());
    let fixed: Arc<[u8]> = Arc::from(vec![b'x'; config.body]);
    let (status, max_body, is_http) = (config.status, config.max_body, config.http);
    serve_connections(listener, shutdown, move |stream| {
        counters.connection();
        let (fixed, counters) = (fixed.clone(), counters.clone());
        async move {
            if is_http {
                answer(HttpConnection::new(stream, max_body), status, &fixed, &counters).await;
            } else {
                echo(stream).await;
            }
        }
    })
    .await
}

async fn echo(mut stream: TcpStream) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        if !matches!(
            timeout(WRITE_TIMEOUT, stream.write_all(&buffer[..read])).await,
            Ok(Ok(()))
        ) {
            return;
        }
    }
}

async fn answer(mut connection: HttpConnection, status: u16, fixed: &[u8], counters: &Counters) {
    let mut head = Head::default();
    let mut body = Vec::new();
    loop {
        match connection.next(&mut head, &mut body).await {
            Next::Request => {}
            Next::Refused => return counters.refused(),
            Next::Closed => return,
        }
        let sent = if let Some(question) = Question::of_target(head.target()) {
            let text = question.answer(counters, || counters.counts());
            connection
                .respond(&head, &Response::text(200), text.as_bytes())
                .await
        } else {
            counters.received(1);
            counters.answered(1);
            let body: &[u8] = if body.is_empty() { fixed } else { &body };
            connection.respond(&head, &Response::text(status), body).await
        };
        if !sent {
            return;
        }
    }
}
