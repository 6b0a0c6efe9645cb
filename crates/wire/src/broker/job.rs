//! Requests.

use serde::{Deserialize, Serialize};

use super::error::BrokerProtocolError;
use super::frame::{self, Fields, Frame};

/// Type of the message.
const KIND: u8 = 1;

/// A job that needs a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    /// Number of the virtual organisation, from 0.
    pub vo: u16,
    /// Number of the group in the organisation, from 0.
    pub group: u16,
    /// Number of CPUs.
    #[serde(default = "one")]
    pub cpus: u32,
    /// Run time, ms.
    pub runtime_ms: u64,
}

fn one() -> u32 {
    1
}

impl JobRequest {
    /// Appends the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        frame::put(out, KIND, |body| {
            body.extend_from_slice(&self.vo.to_be_bytes());
            body.extend_from_slice(&self.group.to_be_bytes());
            body.extend_from_slice(&self.cpus.to_be_bytes());
            body.extend_from_slice(&self.runtime_ms.to_be_bytes());
        });
    }

    /// The request in a message.
    ///
    /// # Errors
    /// It is a message of another type, or its body has another length.
    pub fn decode(frame: Frame<'_>) -> Result<Self, BrokerProtocolError> {
        if frame.kind != KIND {
            return Err(BrokerProtocolError::Type(frame.kind));
        }
        let mut fields = Fields(frame.body);
        let job = Self::take(&mut fields).filter(|_| fields.0.is_empty());
        job.ok_or(BrokerProtocolError::Body(KIND))
    }

    fn take(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self {
            vo: fields.take().map(u16::from_be_bytes)?,
            group: fields.take().map(u16::from_be_bytes)?,
            cpus: fields.take().map(u32::from_be_bytes)?,
            runtime_ms: fields.take().map(u64::from_be_bytes)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobRequest = JobRequest {
        vo: 3,
        group: 0x0102,
        cpus: 4,
        runtime_ms: 60_000,
    };

    #[test]
    fn a_request_has_24_bytes_and_is_decoded_as_it_was_encoded() {
        let mut bytes = Vec::new();
        JOB.encode(&mut bytes);
        let expected = b"\x03B\x01\x01\0\0\0\x10\0\x03\x01\x02\0\0\0\x04\0\0\0\0\0\0\xea\x60";
        assert_eq!(bytes, expected);
        let frame = Frame::parse(&bytes).unwrap().unwrap();
        assert_eq!(JobRequest::decode(frame), Ok(JOB));
    }

    #[test]
    fn another_type_and_another_length_are_refused() {
        let body = [0; 17];
        let frame = |kind, length: usize| Frame {
            kind,
            body: &body[..length],
        };
        for length in [0, 15, 17] {
            let error = JobRequest::decode(frame(1, length)).unwrap_err();
            assert_eq!(error, BrokerProtocolError::Body(1));
        }
        let error = JobRequest::decode(frame(2, 16)).unwrap_err();
        assert_eq!(error, BrokerProtocolError::Type(2));
    }

    #[test]
    fn the_number_of_cpus_is_optional_in_json() {
        let job: JobRequest = serde_json::from_str(r#"{"vo": 3, "group": 7, "runtime_ms": 1}"#).unwrap();
        assert_eq!((job.vo, job.group, job.cpus, job.runtime_ms), (3, 7, 1, 1));
        assert!(serde_json::from_str::<JobRequest>(r#"{"vo": 3, "group": 7}"#).is_err());
    }
}
