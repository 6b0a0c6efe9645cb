//! Replies as JSON over HTTP. A request is a [`super::JobRequest`] as JSON.

use serde::{Deserialize, Serialize};

use super::error::BrokerProtocolError;
use super::reply::{Quality, Reply, Status};

/// Path of a request, whose method is POST.
pub const DECIDE_PATH: &str = "/decide";
/// Media type of requests and replies.
pub const MEDIA_TYPE: &str = "application/json";

/// The body of a response.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Body {
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    site: Option<u32>,
    /// Why there is no site.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The status as text; absent if the job was placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    misplaced: Option<bool>,
}

impl Reply {
    /// The status of the response: 200, 400 if the request is wrong, else 503.
    pub fn http_status(&self) -> u16 {
        match self {
            Self::Placed { .. } => 200,
            Self::Refused { status, .. } => match status {
                Status::InvalidJob | Status::InvalidMessage | Status::UnsupportedVersion => 400,
                Status::NoCapacity | Status::QueueFull | Status::GridFull | Status::GridFailure => 503,
            },
        }
    }

    /// The body of the response.
    pub fn to_json(&self) -> Vec<u8> {
        let quality = self.quality();
        let mut body = Body {
            accuracy: quality.map(|quality| quality.accuracy),
            misplaced: quality.map(|quality| quality.misplaced),
            ..Body::default()
        };
        match self {
            Self::Placed { job, site, .. } => (body.job, body.site) = (Some(*job), Some(*site)),
            Self::Refused { status, text, .. } => {
                body.error = Some(text.clone());
                body.status = Some(status.text().to_owned());
            }
        }
        // A struct of numbers and texts can always be converted.
        let mut json = serde_json::to_vec(&body).unwrap_or_default();
        json.push(b'\n');
        json
    }

    /// The reply in a response.
    ///
    /// # Errors
    /// The body is not JSON, or not that of a reply with this status of HTTP.
    pub fn from_json(http_status: u16, json: &[u8]) -> Result<Self, BrokerProtocolError> {
        let error = |why: String| BrokerProtocolError::Json {
            status: http_status,
            why,
        };
        let body: Body = serde_json::from_slice(json).map_err(|source| error(source.to_string()))?;
        let reply = body.reply().filter(|reply| reply.http_status() == http_status);
        reply.ok_or_else(|| error("it is not that of a broker with this status".into()))
    }
}

impl Body {
    /// None: the keys are not those of a reply, or the quality is out of range.
    fn reply(self) -> Option<Reply> {
        let quality = match (self.accuracy, self.misplaced) {
            (None, None) => None,
            (Some(accuracy), Some(misplaced)) => Some(Quality::new(accuracy, misplaced)?),
            _ => return None,
        };
        match (self.job, self.site, self.status) {
            (Some(job), Some(site), None) => Some(Reply::Placed {
                job,
                site,
                quality: quality?,
            }),
            (None, None, Some(status)) => Some(Reply::Refused {
                status: Status::of_text(&status)?,
                quality,
                text: self.error.unwrap_or_default(),
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::reply::tests::replies;
    use super::*;

    #[test]
    fn a_reply_is_the_same_in_json() {
        for reply in replies() {
            let (status, json) = (reply.http_status(), reply.to_json());
            assert_eq!(Reply::from_json(status, &json), Ok(reply));
        }
    }

    #[test]
    fn the_bodies_have_the_documented_keys() {
        let quality = Quality {
            accuracy: 0.93,
            misplaced: false,
        };
        let placed = Reply::Placed {
            job: 12,
            site: 7,
            quality,
        };
        let json = String::from_utf8(placed.to_json()).unwrap();
        assert_eq!(
            json,
            "{\"job\":12,\"site\":7,\"accuracy\":0.93,\"misplaced\":false}\n"
        );
        let refused = Reply::refused(Status::InvalidJob, "cpus: 0");
        let json = String::from_utf8(refused.to_json()).unwrap();
        assert_eq!(json, "{\"error\":\"cpus: 0\",\"status\":\"invalid job\"}\n");
    }

    #[test]
    fn bodies_that_no_point_sends_are_refused() {
        for (status, json) in [
            (200, "<html>"),
            (200, "{}"),
            (200, "[1]"),
            (503, r#"{"job": 1, "site": 2, "accuracy": 1, "misplaced": false}"#),
            (200, r#"{"job": 1, "site": 2, "accuracy": 1}"#),
            (200, r#"{"job": 1, "site": 2}"#),
            (200, r#"{"job": 1, "site": 2, "accuracy": 2, "misplaced": false}"#),
            (
                200,
                r#"{"job": 1, "site": -2, "accuracy": 1, "misplaced": false}"#,
            ),
            (200, r#"{"status": "queue full"}"#),
            (503, r#"{"status": "unknown"}"#),
            (503, r#"{"error": "full"}"#),
            (503, ""),
        ] {
            assert!(Reply::from_json(status, json.as_bytes()).is_err(), "{json}");
        }
        let nested = "[".repeat(100_000);
        let error = Reply::from_json(200, nested.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("status 200"), "{error}");
    }
}
