//! Frames: `u32` length of what follows (little endian), `u8` kind, JSON.
//!
//! The kind stands outside the JSON so that bulk data can become a kind of its own without a second framing; today
//! there is one.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Largest frame, kind included, in bytes.
pub const MOST: usize = 16 * 1024 * 1024;
/// Kind of a frame that holds a JSON message.
const JSON: u8 = 1;
const HEAD: usize = 4;

/// Why bytes are not frames. The stream is of no use afterwards.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Longer than [`MOST`].
    #[error("a frame of {0} bytes is too large (at most {MOST})")]
    TooLarge(usize),
    /// Without even a kind.
    #[error("an empty frame")]
    Empty,
    /// Of a kind that this version does not know.
    #[error("a frame of unknown kind {0}")]
    Kind(u8),
    /// Not the message that was expected.
    #[error("a frame that cannot be understood: {0}")]
    Json(#[from] serde_json::Error),
}

/// One message as a frame.
///
/// # Errors
/// [`FrameError::TooLarge`]; [`FrameError::Json`] for what JSON cannot say.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let mut frame = vec![0, 0, 0, 0, JSON];
    serde_json::to_writer(&mut frame, message)?;
    let length = frame.len() - HEAD;
    if length > MOST {
        return Err(FrameError::TooLarge(length));
    }
    frame[..HEAD].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(frame)
}

/// Gathers bytes and gives messages.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// Bytes of it that were given already.
    used: usize,
}

impl Decoder {
    /// Appends what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.used > 0 {
            self.bytes.drain(..self.used);
            self.used = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message; none when more bytes are needed.
    ///
    /// # Errors
    /// [`FrameError`]; the stream is of no use afterwards.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let rest = &self.bytes[self.used..];
        let Some(head) = rest.first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*head) as usize;
        if length > MOST {
            return Err(FrameError::TooLarge(length));
        }
        let Some(frame) = rest.get(HEAD..HEAD + length) else {
            return Ok(None);
        };
        let (&kind, body) = frame.split_first().ok_or(FrameError::Empty)?;
        if kind != JSON {
            return Err(FrameError::Kind(kind));
        }
        let message = serde_json::from_slice(body)?;
        self.used += HEAD + length;
        Ok(Some(message))
    }

    /// Whether bytes of an unfinished frame are waiting.
    pub fn is_partial(&self) -> bool {
        self.used < self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_any_cut() {
        let messages = [
            vec!["one".to_owned()],
            vec![],
            vec!["two".to_owned(), "ü".repeat(1000)],
        ];
        let bytes: Vec<u8> = messages
            .iter()
            .flat_map(|message| encode(message).unwrap())
            .collect();
        for size in [1, 2, 3, 7, 64, bytes.len()] {
            let mut decoder = Decoder::default();
            let mut found: Vec<Vec<String>> = Vec::new();
            for part in bytes.chunks(size) {
                decoder.push(part);
                while let Some(message) = decoder.next_message().unwrap() {
                    found.push(message);
                }
            }
            assert_eq!(found, messages, "pieces of {size}");
            assert!(!decoder.is_partial());
        }
    }

    #[test]
    fn rubbish_is_refused_before_it_costs_memory() {
        let cases: [(&[u8], &str); 5] = [
            (&[0xff, 0xff, 0xff, 0xff, 1], "too large"),
            (&[0, 0, 0, 0, 1], "empty"),
            (&[1, 0, 0, 0, 9], "unknown kind 9"),
            (&[3, 0, 0, 0, 1, b'{', b'?'], "cannot be understood"),
            (b"GET / HTTP/1.1\r\n", "too large"),
        ];
        for (bytes, expected) in cases {
            let mut decoder = Decoder::default();
            decoder.push(bytes);
            let error = decoder.next_message::<Vec<String>>().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(matches!(encode(&"x".repeat(MOST)), Err(FrameError::TooLarge(_))));
    }

    #[test]
    fn mutated_frames_never_panic() {
        let good = encode(&vec!["some", "words"]).unwrap();
        let mut seed = 7_u64;
        for _ in 0..10_000 {
            let mut bytes = good.clone();
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (seed >> 33) as usize % bytes.len();
            bytes[at] = (seed >> 24) as u8;
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            let _ = decoder.next_message::<Vec<String>>();
        }
    }
}
