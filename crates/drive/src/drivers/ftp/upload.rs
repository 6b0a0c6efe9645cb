//! Sends generated content: in one stream, or in blocks on several connections.

use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::task::Poll;

use plimsoll_model::{NOT_HAPPENED, Outcome};
use plimsoll_wire::ftp::{CLOSE, END_OF_DATA, END_OF_FILE, HEADER, header};

use super::content::Content;
use super::control::{Control, MAX_READS, succeeded};
use super::error::TransferError;
use super::settings::{Mode, Operation};
use crate::driver::{Attempt, Waiting};
use crate::lane::reactor::Io;
use crate::net::Stream;
use crate::tester::failure::Failure;

/// Length of a block, bytes: that of the server's own blocks.
const BLOCK: u64 = 256 * 1024;

/// Sends a file of `size` bytes to `path`. Returns the number of data connections.
pub(super) async fn upload(
    io: &Io,
    control: &mut Control,
    (operation, size, path): (&Operation, u64, &[u8]),
    content: &Content,
    attempt: &mut Attempt,
) -> Result<usize, TransferError> {
    control.set_mode(io, operation.mode, None, attempt).await?;
    let address = control.passive(io, attempt).await?;
    let streams = connect_all(io, address, control.local, operation.streams).await?;
    let count = streams.len();
    attempt.waiting = Waiting::FirstByte;
    control.send(&[b"STOR ", path].concat(), attempt).await?;
    let mut upload = Upload {
        content,
        size,
        next: 0,
        mode: operation.mode,
        streams: streams.into_iter().map(UploadStream::new).collect(),
        is_accepted: false,
        is_broken: false,
    };
    poll_fn(|_| upload.poll(io, control, attempt)).await?;
    Ok(count)
}

/// Opens `count` connections at the same time: one after the other, they would take as many round
/// trips.
async fn connect_all(
    io: &Io,
    address: SocketAddr,
    local: IpAddr,
    count: u32,
) -> Result<Vec<Stream>, TransferError> {
    let mut pending: Vec<_> = (0..count)
        .map(|_| Box::pin(Stream::connect(io, address, Some(local))))
        .collect();
    let mut streams = Vec::new();
    let connected = poll_fn(|context| {
        let mut index = 0;
        while let Some(future) = pending.get_mut(index) {
            match future.as_mut().poll(context) {
                Poll::Ready(Ok(stream)) => {
                    streams.push(stream);
                    drop(pending.swap_remove(index));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => index += 1,
            }
        }
        if pending.is_empty() {
            Poll::Ready(Ok(()))
        } else {
            Poll::Pending
        }
    });
    connected.await.map_err(|error| Failure::connecting(&error))?;
    Ok(streams)
}

/// Connections to which a file is sent.
struct Upload<'a> {
    content: &'a Content,
    size: u64,
    /// Offset of the first byte that no connection sends yet.
    next: u64,
    mode: Mode,
    streams: Vec<UploadStream>,
    /// The server has replied that it expects the data.
    is_accepted: bool,
    /// A connection has failed.
    is_broken: bool,
}

/// A connection, and the block that it sends.
struct UploadStream {
    /// None: everything was sent, and the connection is closed.
    stream: Option<Stream>,
    header: [u8; HEADER],
    /// Number of bytes of `header` that were sent; [`HEADER`]: there is none.
    header_sent: usize,
    offset: u64,
    rest: u64,
    /// The current block is the last one.
    is_last: bool,
    is_over: bool,
}

impl UploadStream {
    fn new(stream: Stream) -> Self {
        Self {
            stream: Some(stream),
            header: [0; HEADER],
            header_sent: HEADER,
            offset: 0,
            rest: 0,
            is_last: false,
            is_over: false,
        }
    }

    fn begin(&mut self, header: [u8; HEADER]) {
        (self.header, self.header_sent) = (header, 0);
    }
}

impl Upload<'_> {
    fn poll(
        &mut self,
        io: &Io,
        control: &mut Control,
        attempt: &mut Attempt,
    ) -> Poll<Result<(), TransferError>> {
        for _ in 0..MAX_READS {
            let mut is_idle = true;
            if let Poll::Ready(reply) = control.poll_reply(io, attempt) {
                is_idle = false;
                let reply = reply?;
                attempt.end = attempt.now();
                if attempt.first_byte == NOT_HAPPENED {
                    attempt.first_byte = attempt.end;
                    attempt.waiting = Waiting::Body;
                }
                if !reply.is_preliminary() {
                    succeeded(Outcome::Error, reply)?;
                    return Poll::Ready(if self.is_sent() && !self.is_broken {
                        Ok(())
                    } else {
                        Err(Failure::closed_early().into())
                    });
                }
                self.is_accepted = true;
            }
            if self.is_accepted && !self.is_broken {
                is_idle &= !self.write(attempt);
            }
            if is_idle {
                return Poll::Pending;
            }
        }
        io.wake(io.current());
        Poll::Pending
    }

    /// Whether everything was sent.
    fn is_sent(&self) -> bool {
        let is_sent =
            |sending: &UploadStream| sending.is_over || (sending.is_last && sending.header_sent == HEADER);
        self.next == self.size && self.streams.iter().all(is_sent)
    }

    /// Writes once to each connection. Returns whether something was written.
    fn write(&mut self, attempt: &mut Attempt) -> bool {
        let mut has_written = false;
        for index in 0..self.streams.len() {
            let sending = &self.streams[index];
            if sending.header_sent == HEADER && sending.rest == 0 {
                self.assign(index);
            }
            let sending = &mut self.streams[index];
            let Some(stream) = sending.stream.as_mut().filter(|_| !sending.is_over) else {
                continue;
            };
            let is_header = sending.header_sent < HEADER;
            let bytes = if is_header {
                &sending.header[sending.header_sent..]
            } else {
                self.content.at(sending.offset, sending.rest)
            };
            match stream.poll_send(bytes) {
                Poll::Pending => continue,
                Poll::Ready(Ok(count)) => {
                    attempt.sent += count as u64;
                    if is_header {
                        sending.header_sent += count;
                    } else {
                        sending.offset += count as u64;
                        sending.rest -= count as u64;
                    }
                }
                // The final reply states why.
                Poll::Ready(Err(_)) => self.is_broken = true,
            }
            has_written = true;
        }
        has_written
    }

    /// Assigns the next block to a connection that has sent its block.
    fn assign(&mut self, index: usize) {
        let connections = self.streams.len() as u64;
        let sending = &mut self.streams[index];
        let rest = self.size - self.next;
        (sending.offset, sending.rest) = (self.next, 0);
        match self.mode {
            Mode::Stream if rest > 0 => sending.rest = rest,
            // The end of the stream is the end of the file.
            Mode::Stream => {
                sending.stream = None;
                sending.is_over = true;
            }
            Mode::Extended if rest > 0 => {
                sending.rest = rest.min(BLOCK);
                sending.begin(header(0, sending.rest, self.next));
            }
            Mode::Extended if sending.is_last => sending.is_over = true,
            Mode::Extended => {
                sending.is_last = true;
                sending.begin(if index == 0 {
                    header(END_OF_FILE | END_OF_DATA | CLOSE, 0, connections)
                } else {
                    header(END_OF_DATA | CLOSE, 0, 0)
                });
            }
        }
        self.next += sending.rest;
    }
}
