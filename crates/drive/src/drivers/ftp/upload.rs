//! Sends generated content to files: in one stream, or in blocks on several connections.

use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::task::Poll;

use plimsoll_model::{NOT_HAPPENED, Outcome};
use plimsoll_wire::ftp::{CLOSE, END_OF_DATA, END_OF_FILE, HEADER, header};

use super::channels::Channels;
use super::content::Content;
use super::control::{Control, MAX_READS, succeeded};
use super::error::TransferError;
use super::settings::{Mode, Operation};
use super::transferred::Transferred;
use crate::driver::{Attempt, Waiting};
use crate::lane::reactor::Io;
use crate::net::Stream;
use crate::tester::failure::Failure;

/// Length of a block, bytes: that of the server's own blocks.
const BLOCK: u64 = 256 * 1024;

/// Sends `length` bytes to each of `paths`, one after the other.
pub(super) async fn upload(
    io: &Io,
    control: &mut Control,
    (operation, length, paths): (&Operation, u64, &[Vec<u8>]),
    content: &Content,
    attempt: &mut Attempt,
) -> Result<Transferred, TransferError> {
    control.set_mode(io, operation.mode, None, attempt).await?;
    let shape = operation.shape();
    let kept = Channels::sending(control.channels.take().filter(|_| operation.is_kept), shape);
    let opened = kept.is_none();
    let streams = if let Some(streams) = kept {
        streams
    } else {
        let addresses = match operation.stripes {
            Some(max) => control.striped_passive(io, max, attempt).await?,
            None => vec![control.passive(io, attempt).await?],
        };
        connect_all(io, &addresses, control.local, operation.streams).await?
    };
    let mut done = Transferred {
        connections: streams.len(),
        opened: if opened { streams.len() } else { 0 },
        ..Transferred::default()
    };
    let begin = operation.first_offset();
    if begin > 0 {
        control.restart(io, begin, attempt).await?;
    }
    attempt.waiting = Waiting::FirstByte;
    control
        .send_transfers(&operation.command(), paths, attempt)
        .await?;
    let mut upload = Upload {
        content,
        end: begin + length,
        next: begin,
        mode: operation.mode,
        closes: false,
        per_server: operation.streams as usize,
        streams: streams.into_iter().map(UploadStream::new).collect(),
        is_accepted: false,
        is_broken: false,
    };
    for rest in (0..paths.len()).rev() {
        upload.closes = rest == 0 && !operation.is_kept;
        upload.begin(begin);
        poll_fn(|_| upload.poll(io, control, attempt)).await?;
        done.add(length, None);
    }
    if operation.is_kept {
        let streams = upload.streams.into_iter().filter_map(|sending| sending.stream);
        control.channels = Some(Channels::Sending {
            streams: streams.collect(),
            shape,
        });
    }
    Ok(done)
}

/// Opens `count` connections to each address at the same time: one after the other, they would take
/// as many round trips. Returns those to the first address first.
async fn connect_all(
    io: &Io,
    addresses: &[SocketAddr],
    local: IpAddr,
    count: u32,
) -> Result<Vec<Stream>, TransferError> {
    let mut pending: Vec<_> = addresses
        .iter()
        .enumerate()
        .flat_map(|(server, &address)| (0..count).map(move |_| (server, address)))
        .map(|(server, address)| (server, Box::pin(Stream::connect(io, address, Some(local)))))
        .collect();
    let mut streams = Vec::new();
    let connected = poll_fn(|context| {
        let mut index = 0;
        while let Some((server, future)) = pending.get_mut(index) {
            match future.as_mut().poll(context) {
                Poll::Ready(Ok(stream)) => {
                    streams.push((*server, stream));
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
    streams.sort_by_key(|(server, _)| *server);
    Ok(streams.into_iter().map(|(_, stream)| stream).collect())
}

/// Connections to which a file is sent.
struct Upload<'a> {
    content: &'a Content,
    /// Offset behind the last byte.
    end: u64,
    /// Offset of the first byte that no connection sends yet.
    next: u64,
    mode: Mode,
    /// The connections are not used for another file.
    closes: bool,
    /// Number of connections to each data server.
    per_server: usize,
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
    /// Begins the next file at the offset `begin`.
    fn begin(&mut self, begin: u64) {
        self.next = begin;
        self.is_accepted = false;
        for sending in &mut self.streams {
            (sending.is_last, sending.is_over) = (false, false);
        }
    }

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
        self.next == self.end && self.streams.iter().all(is_sent)
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
        // Each data server receives a transfer of its own, with an end of the file.
        let (is_first, connections) = (index.is_multiple_of(self.per_server), self.per_server as u64);
        let sending = &mut self.streams[index];
        let rest = self.end - self.next;
        let close = if self.closes { CLOSE } else { 0 };
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
                sending.begin(if is_first {
                    header(END_OF_FILE | END_OF_DATA | close, 0, connections)
                } else {
                    header(END_OF_DATA | close, 0, 0)
                });
            }
        }
        self.next += sending.rest;
    }
}
