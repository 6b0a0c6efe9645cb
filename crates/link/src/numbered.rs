//! Messages that survive a broken link: numbered, kept until acknowledged, sent again over the next
//! link, taken once.
//!
//! Pure: no stream, no clock. Rejected: leaving it to TCP, which forgets what was in flight when a
//! connection breaks.

use std::collections::VecDeque;

use bytes::Bytes;

/// Bytes that may wait for an acknowledgement. An agent says a few kB a second, so that a minute
/// without a link fits many times; a peer that never acknowledges cannot take more of our memory.
const MAX_WAITING: usize = 64 * 1024 * 1024;

/// The other side does not acknowledge what we say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} bytes wait for the other side, which does not acknowledge them")]
pub struct Full(usize);

/// The other side acknowledges what we never said, or leaves a number out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("message {found} where {expected} was due")]
pub struct Gap {
    expected: u64,
    found: u64,
}

/// What was said and is not acknowledged yet.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Number of the last message said.
    last: u64,
    waiting: VecDeque<Bytes>,
    bytes: usize,
}

impl Outbox {
    /// Takes a message in.
    ///
    /// # Errors
    /// [`Full`]; the message is not taken.
    pub fn push(&mut self, body: Bytes) -> Result<(), Full> {
        if self.bytes + body.len() > MAX_WAITING {
            return Err(Full(self.bytes));
        }
        self.bytes += body.len();
        self.waiting.push_back(body);
        self.last += 1;
        Ok(())
    }

    /// The other side has everything up to `number`.
    ///
    /// # Errors
    /// [`Gap`] when we never said so much.
    pub fn acknowledge(&mut self, number: u64) -> Result<(), Gap> {
        if number > self.last {
            return Err(Gap {
                expected: self.last,
                found: number,
            });
        }
        while self.first() <= number {
            match self.waiting.pop_front() {
                Some(body) => self.bytes -= body.len(),
                None => break,
            }
        }
        Ok(())
    }

    /// The message after `number`, if it is still here: what a link sends next, `number` being the
    /// last it has sent.
    pub fn after(&self, number: u64) -> Option<(u64, Bytes)> {
        let next = (number + 1).max(self.first());
        let index = usize::try_from(next - self.first()).ok()?;
        self.waiting.get(index).map(|body| (next, body.clone()))
    }

    /// Whether everything that was said is acknowledged.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Number of the first message that waits.
    fn first(&self) -> u64 {
        self.last + 1 - self.waiting.len() as u64
    }
}

/// What was received.
#[derive(Debug, Default)]
pub struct Inbox {
    received: u64,
}

impl Inbox {
    /// Number of the last message received.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Whether message `number` is new; false for one that came over the former link already.
    ///
    /// # Errors
    /// [`Gap`].
    pub fn take(&mut self, number: u64) -> Result<bool, Gap> {
        if number > self.received + 1 {
            return Err(Gap {
                expected: self.received + 1,
                found: number,
            });
        }
        let new = number == self.received + 1;
        if new {
            self.received = number;
        }
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(number: u64) -> Bytes {
        Bytes::from(number.to_string())
    }

    #[test]
    fn over_links_that_break_anywhere_everything_arrives_once_and_in_order() {
        for seed in 0..500_u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut draw = |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % below
            };
            let (mut outbox, mut inbox) = (Outbox::default(), Inbox::default());
            let (mut said, mut found) = (0, Vec::new());
            while found.len() < 50 {
                // A new link begins with what the other side has received.
                outbox.acknowledge(inbox.received()).unwrap();
                let mut sent = inbox.received();
                for _ in 0..draw(12) {
                    if said < 50 && draw(2) == 0 {
                        said += 1;
                        outbox.push(body(said)).unwrap();
                    }
                    let Some((number, text)) = outbox.after(sent) else {
                        continue;
                    };
                    sent = number;
                    if draw(10) == 0 {
                        break; // sent, and lost with the link
                    }
                    if inbox.take(number).unwrap() {
                        found.push(text);
                    }
                    if draw(3) == 0 {
                        outbox.acknowledge(inbox.received()).unwrap();
                    }
                }
            }
            assert_eq!(found, (1..=50).map(body).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_came_twice_is_taken_once_and_what_is_missing_is_an_error() {
        let mut inbox = Inbox::default();
        assert_eq!(inbox.take(1), Ok(true));
        assert_eq!(inbox.take(1), Ok(false));
        let gap = inbox.take(3).unwrap_err();
        assert_eq!(gap.to_string(), "message 3 where 2 was due");
        let mut outbox = Outbox::default();
        assert!(outbox.acknowledge(1).is_err(), "nothing was said yet");
    }

    #[test]
    fn a_peer_that_never_acknowledges_costs_no_more_than_the_bound() {
        let mut outbox = Outbox::default();
        let large = Bytes::from(vec![0; 1024 * 1024]);
        (0..64).for_each(|_| outbox.push(large.clone()).unwrap());
        assert_eq!(outbox.push(body(1)), Err(Full(64 * 1024 * 1024)));
        outbox.acknowledge(64).unwrap();
        assert!(outbox.is_empty() && outbox.bytes == 0);
        outbox.push(body(1)).unwrap();
        assert_eq!(outbox.after(0), Some((65, body(1))));
    }
}
