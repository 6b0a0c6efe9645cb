//! Messages, which consist of packets of up to 16 MiB.

use crate::sql::SqlProtocolError;
use crate::sql::input::{Input, check_length};

/// Length of the body of a packet that the next packet continues, bytes.
pub(super) const FULL: usize = 0xff_ffff;

/// Splits messages into packets, and joins packets to messages.
#[derive(Default)]
pub(super) struct Packets {
    /// Number of the next packet to send.
    next: u8,
    /// Length of the joined part of a message that is being received, bytes.
    joined: usize,
}

impl Packets {
    /// Begins a command, whose packets are numbered from 0.
    pub(super) fn begin(&mut self) {
        self.next = 0;
    }

    /// Appends a message, in as many packets as necessary.
    pub(super) fn send(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) {
        let mut body: Vec<&[u8]> = parts.to_vec();
        let mut left: usize = parts.iter().map(|part| part.len()).sum();
        loop {
            let length = left.min(FULL);
            out.extend_from_slice(&(length as u32).to_le_bytes()[..3]);
            out.push(self.next);
            self.next = self.next.wrapping_add(1);
            let mut free = length;
            for part in &mut body {
                let (now, later) = part.split_at(free.min(part.len()));
                out.extend_from_slice(now);
                free -= now.len();
                *part = later;
            }
            left -= length;
            if length < FULL {
                return;
            }
        }
    }

    /// Makes the next complete message the message in use, with its packets joined and without
    /// their headers. Returns false if it is not complete. A message over `limit` bytes is refused.
    pub(super) fn hold(&mut self, input: &mut Input, limit: usize) -> Result<bool, SqlProtocolError> {
        loop {
            let rest = &input.rest()[self.joined..];
            let Some(header) = rest.first_chunk::<4>() else {
                return Ok(false);
            };
            let length = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
            check_length(self.joined + length, limit)?;
            if rest.len() < 4 + length {
                return Ok(false);
            }
            self.next = header[3].wrapping_add(1);
            if self.joined == 0 {
                input.skip(4);
            } else {
                input.cut(self.joined);
            }
            self.joined += length;
            if length < FULL {
                input.hold(self.joined);
                self.joined = 0;
                return Ok(true);
            }
        }
    }
}
