//! Messages in packets of up to 16 MiB.

use crate::sql::SqlProtocolError;
use crate::sql::input::{Input, check_length};

/// Body of a packet that is continued by the next one.
pub(super) const FULL: usize = 0xff_ffff;

/// Cuts messages into packets, and joins packets into messages.
#[derive(Default)]
pub(super) struct Packets {
    /// Number of the next packet to be sent.
    next: u8,
    /// Bytes of an arriving message that are already joined.
    joined: usize,
}

impl Packets {
    /// A command begins: packets are counted from 0.
    pub(super) fn begin(&mut self) {
        self.next = 0;
    }

    /// Appends a message in as many packets as it takes.
    pub(super) fn send(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) {
        let mut body: Vec<&[u8]> = parts.to_vec();
        let mut left: usize = parts.iter().map(|part| part.len()).sum();
        loop {
            let length = left.min(FULL);
            out.extend_from_slice(&(length as u32).to_le_bytes()[..3]);
            out.push(self.next);
            self.next = self.next.wrapping_add(1);
            let mut room = length;
            for part in &mut body {
                let (now, later) = part.split_at(room.min(part.len()));
                out.extend_from_slice(now);
                room -= now.len();
                *part = later;
            }
            left -= length;
            if length < FULL {
                return;
            }
        }
    }

    /// Holds the next whole message, its packets joined and without their headers; false if it is
    /// not there yet. A message over `limit` bytes is refused.
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
