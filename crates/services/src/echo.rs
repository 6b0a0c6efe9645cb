//! `echo`: gives back what it gets.
//!
//! A lean HTTP server with keep-alive: a request with a body gets that body back, any other gets a
//! fixed body of `body` bytes, both with the configured status. `/plimsoll/count` and
//! `/plimsoll/stats` are answered as described in [`crate::counters`]. With `http: false`, TCP,
//! byte for byte.

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

/// How long a TCP client may take to accept what it sent.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest fixed body.
const MAX_BODY: usize = 64 * 1024 * 1024;

/// Configuration of `echo`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EchoConfig {
    /// HTTP (the default), or plain TCP.
    pub http: bool,
    /// HTTP: bytes of the fixed body, at most 64 MiB.
    pub body: usize,
    /// HTTP: status of every answer, 200 to 599.
    pub status: u16,
    /// HTTP: largest body accepted (and echoed), bytes, at most 64 MiB; a larger one is answered
    /// with 413.
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

/// Serves until `shutdown`.
pub async fn serve(
    listener: TcpListener,
    config: EchoConfig,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServiceError> {
    if !(200..=599).contains(&config.status) {
        return Err(ServiceError::Config {
            key: "status",
            why: format!("200 to 599, not {}", config.status),
        });
    }
    for (key, value) in [("body", config.body), ("max_body", config.max_body)] {
        if value > MAX_BODY {
            return Err(ServiceError::Config {
                key,
                why: format!("at most {MAX_BODY} bytes, not {value}"),
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
        let taken = if let Some(question) = Question::of_target(head.target()) {
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
        if !taken {
            return;
        }
    }
}
