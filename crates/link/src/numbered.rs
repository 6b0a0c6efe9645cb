//! Delivery of messages over links that may break: each message has a number, is kept until it is
//! acknowledged, is sent again over the next link, and is accepted once.
//!
//! This module has no stream and no clock. Rejected alternative: to rely on TCP, which loses the
//! bytes in flight when a connection breaks.

use std::collections::VecDeque;

use bytes::Bytes;
use plimsoll_model::grouped;

/// Maximum number of bytes that wait for an acknowledgement. An agent sends a few kB per second, so
/// the messages of many minutes without a link fit. The limit bounds the memory that a peer can
/// use by never acknowledging.
const MAX_WAITING: usize = 64 * 1024 * 1024;

/// Too many bytes wait for an acknowledgement. Contains their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the other side does not acknowledge messages: {} bytes are waiting", grouped(*.0 as u64))]
pub struct Full(usize);

/// The other side acknowledged a message that was not sent, or skipped a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("message number {found} instead of {expected}")]
pub struct Gap {
    expected: u64,
    found: u64,
}

/// The messages that were sent and are not yet acknowledged.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Number of the last message that was added.
    last: u64,
    waiting: VecDeque<Bytes>,
    bytes: usize,
}

impl Outbox {
    /// Adds a message.
    ///
    /// # Errors
    /// [`Full`]; the message is not added.
    pub fn push(&mut self, body: Bytes) -> Result<(), Full> {
        if self.bytes + body.len() > MAX_WAITING {
            return Err(Full(self.bytes));
        }
        self.bytes += body.len();
        self.waiting.push_back(body);
        self.last += 1;
        Ok(())
    }

    /// Removes all messages up to `number`: the other side has received them.
    ///
    /// # Errors
    /// [`Gap`] if no message of this number was added.
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

    /// The message that a link sends next, with its number, if `number` was the last that it sent.
    /// `None` if there is no later message.
    pub fn after(&self, number: u64) -> Option<(u64, Bytes)> {
        let next = (number + 1).max(self.first());
        let index = usize::try_from(next - self.first()).ok()?;
        self.waiting.get(index).map(|body| (next, body.clone()))
    }

    /// Whether all messages are acknowledged.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Number of the first message that is not acknowledged.
    fn first(&self) -> u64 {
        self.last + 1 - self.waiting.len() as u64
    }
}

/// The numbers of the messages that were received.
#[derive(Debug, Default)]
pub struct Inbox {
    received: u64,
}

impl Inbox {
    /// Number of the last message received; 0 if none.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Records message `number`. Returns false if it was already received over an earlier link.
    ///
    /// # Errors
    /// [`Gap`] if a number was skipped.
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
    fn messages_arrive_once_and_in_order_over_links_that_break() {
        for seed in 0..500_u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut draw = |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % below
            };
            let (mut outbox, mut inbox) = (Outbox::default(), Inbox::default());
            let (mut sent_count, mut received) = (0, Vec::new());
            while received.len() < 50 {
                // A new link begins with the number of the last message that was received.
                outbox.acknowledge(inbox.received()).unwrap();
                let mut sent = inbox.received();
                for _ in 0..draw(12) {
                    if sent_count < 50 && draw(2) == 0 {
                        sent_count += 1;
                        outbox.push(body(sent_count)).unwrap();
                    }
                    let Some((number, text)) = outbox.after(sent) else {
                        continue;
                    };
                    sent = number;
                    if draw(10) == 0 {
                        break; // sent, and lost with the link
                    }
                    if inbox.take(number).unwrap() {
                        received.push(text);
                    }
                    if draw(3) == 0 {
                        outbox.acknowledge(inbox.received()).unwrap();
                    }
                }
            }
            assert_eq!(received, (1..=50).map(body).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_repeated_message_is_accepted_once_and_a_gap_is_an_error() {
        let mut inbox = Inbox::default();
        assert_eq!(inbox.take(1), Ok(true));
        assert_eq!(inbox.take(1), Ok(false));
        let gap = inbox.take(3).unwrap_err();
        assert_eq!(gap.to_string(), "message number 3 instead of 2");
        let mut outbox = Outbox::default();
        assert!(outbox.acknowledge(1).is_err(), "no message was sent");
    }

    #[test]
    fn messages_without_acknowledgement_are_limited() {
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
