//! A decision point over HTTP with JSON: jobs, exchanges of other points, and counters.

use plimsoll_wire::broker::{DECIDE_PATH, Reply, Status};
use tokio::io::{AsyncRead, AsyncWrite};

use super::client::Client;
use super::point_service::{NO_TLS, PointService};
use super::{ErrorBody, MAX_BODY, respond, respond_json};
use crate::counters::Question;
use crate::http::{Head, HttpConnection, Next, Response};

impl PointService {
    /// `accepts_jobs`: false for clients without TLS of a point that requires it.
    pub(super) async fn serve_http<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S, accepts_jobs: bool) {
        let mut connection = HttpConnection::new(stream, MAX_BODY);
        let mut head = Head::default();
        let mut body = Vec::new();
        let mut grid = self.grid_client();
        loop {
            match connection.next(&mut head, &mut body).await {
                Next::Request => {}
                Next::Refused => return self.counters.refused(),
                Next::Closed => return,
            }
            let sent = if let Some(question) = Question::of_target(head.target()) {
                let text = question.answer(&self.counters, || self.stats());
                let response = Response::text(200);
                connection.respond(&head, &response, text.as_bytes()).await
            } else if (head.method(), head.target()) == ("POST", "/exchange") {
                self.send_exchange(&mut connection, &head, &body).await
            } else if !accepts_jobs {
                self.counters.refused();
                let error = ErrorBody::new(NO_TLS);
                respond(&mut connection, &head, 403, String::new(), &error).await
            } else {
                self.counters.received(1);
                self.send_decision(&mut grid, &mut connection, &head, &body).await
            };
            if !sent {
                return;
            }
        }
    }

    async fn send_decision<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        grid: &mut Client,
        connection: &mut HttpConnection<S>,
        head: &Head,
        body: &[u8],
    ) -> bool {
        if (head.method(), head.target()) != ("POST", DECIDE_PATH) {
            self.counters.answered(1);
            let error = ErrorBody::new("expected POST /decide");
            return respond(connection, head, 404, String::new(), &error).await;
        }
        let reply = match serde_json::from_slice(body) {
            Ok(job) => self.decide(grid, &job).await,
            Err(error) => Reply::refused(Status::InvalidMessage, error),
        };
        self.counters.answered(1);
        let (status, fields) = (reply.http_status(), quality_fields(&reply));
        respond_json(connection, head, status, fields, &reply.to_json()).await
    }

    async fn send_exchange<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        connection: &mut HttpConnection<S>,
        head: &Head,
        body: &[u8],
    ) -> bool {
        let answer = serde_json::from_slice(body)
            .map_err(ErrorBody::new)
            .and_then(|request| {
                let answer = self.answer_exchange(&request, body.len());
                answer.map_err(ErrorBody::new)
            });
        match answer {
            Ok(text) => respond_json(connection, head, 200, String::new(), &text).await,
            Err(error) => respond(connection, head, 400, String::new(), &error).await,
        }
    }
}

/// The header fields with the quality of a decision, if it has one.
fn quality_fields(reply: &Reply) -> String {
    let Some(quality) = reply.quality() else {
        return String::new();
    };
    format!(
        "Plimsoll-Accuracy: {:.6}\r\nPlimsoll-Misplaced: {}\r\nPlimsoll-Queue-Full: {}\r\n",
        quality.accuracy,
        u8::from(quality.misplaced),
        u8::from(reply.is_queue_full())
    )
}
