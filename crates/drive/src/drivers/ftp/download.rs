//! Receives a file: in one stream, or in blocks on connections that the server opens.

use std::future::poll_fn;
use std::task::Poll;

use plimsoll_model::Outcome;
use plimsoll_wire::ftp::{self, Block, BlockReader, Checksum, Ends, FtpProtocolError};

use super::control::{Control, MAX_READS, succeeded};
use super::error::TransferError;
use super::settings::{Mode, Operation, Part};
use crate::driver::{Attempt, Waiting};
use crate::lane::reactor::Io;
use crate::net::Stream;
use crate::net::listener::Listener;
use crate::tester::failure::Failure;

/// What a download has returned. The content is not kept.
pub(super) struct DownloadResult {
    /// Bytes of the file.
    pub(super) payload: u64,
    /// Checksum of the content, if it is verified.
    pub(super) checksum: Option<Checksum>,
    /// Number of data connections.
    pub(super) connections: usize,
}

/// Receives the file `path`, or a part of it. The offsets of the blocks of a part count from its
/// beginning (seen with version 13.24 of the server), so that its checksum is that of these bytes.
pub(super) async fn download(
    io: &Io,
    control: &mut Control,
    (operation, part, path): (&Operation, Option<Part>, &[u8]),
    attempt: &mut Attempt,
) -> Result<DownloadResult, TransferError> {
    control
        .set_mode(io, operation.mode, Some(operation.streams), attempt)
        .await?;
    let mut download = Download::prepare(io, control, operation, attempt).await?;
    let command = match part {
        None => b"RETR ".to_vec(),
        Some(part) => format!("ERET P {} {} ", part.offset, part.length).into_bytes(),
    };
    attempt.waiting = Waiting::FirstByte;
    control
        .send(&[command.as_slice(), path].concat(), attempt)
        .await?;
    download.received.checksum = operation.verify.map(Checksum::new);
    poll_fn(|_| download.poll(io, control, attempt)).await?;
    download.received.connections = download.connections.len();
    Ok(download.received)
}

/// Connections on which data arrive.
struct Download {
    /// Accepts connections of the server; none in stream mode.
    listener: Option<Listener>,
    /// All connections so far, in the order of their beginning.
    connections: Vec<DataConnection>,
    max_connections: usize,
    ends: Ends,
    received: DownloadResult,
    /// The server has sent its final reply.
    is_confirmed: bool,
    /// A connection ended before its end of data.
    is_broken: bool,
}

struct DataConnection {
    stream: Stream,
    /// None in stream mode.
    blocks: Option<BlockReader>,
    /// No more bytes are read.
    is_over: bool,
}

impl Download {
    async fn prepare(
        io: &Io,
        control: &mut Control,
        operation: &Operation,
        attempt: &mut Attempt,
    ) -> Result<Self, TransferError> {
        let mut download = Self {
            listener: None,
            connections: Vec::new(),
            max_connections: operation.streams as usize,
            ends: Ends::default(),
            received: DownloadResult {
                payload: 0,
                checksum: None,
                connections: 0,
            },
            is_confirmed: false,
            is_broken: false,
        };
        match operation.mode {
            Mode::Stream => {
                let address = control.passive(io, attempt).await?;
                let stream = Stream::connect(io, address, Some(control.local)).await;
                let stream = stream.map_err(|error| Failure::connecting(&error))?;
                download.add(stream, None);
            }
            // The sender of the data connects.
            Mode::Extended => {
                let listener = Listener::bind(io, control.local);
                let listener = listener.map_err(|error| Failure::connecting(&error))?;
                let command = ftp::port_command(listener.address());
                let reply = control.ask(io, command.as_bytes(), attempt).await?;
                succeeded(Outcome::Error, reply)?;
                download.listener = Some(listener);
            }
        }
        Ok(download)
    }

    fn add(&mut self, stream: Stream, blocks: Option<BlockReader>) {
        self.connections.push(DataConnection {
            stream,
            blocks,
            is_over: false,
        });
    }

    fn poll(
        &mut self,
        io: &Io,
        control: &mut Control,
        attempt: &mut Attempt,
    ) -> Poll<Result<(), TransferError>> {
        for _ in 0..MAX_READS {
            let mut is_idle = true;
            if !self.is_confirmed
                && let Poll::Ready(reply) = control.poll_reply(io, attempt)
            {
                is_idle = false;
                let reply = reply?;
                if !reply.is_preliminary() {
                    attempt.end = attempt.now();
                    succeeded(Outcome::Error, reply)?;
                    self.is_confirmed = true;
                }
            }
            is_idle &= !self.accept()?;
            is_idle &= !self.read(io, attempt)?;
            if self.is_confirmed && self.is_broken {
                return Poll::Ready(Err(Failure::closed_early().into()));
            }
            if self.is_confirmed && self.is_complete() {
                return Poll::Ready(Ok(()));
            }
            if is_idle {
                return Poll::Pending;
            }
        }
        io.wake(io.current());
        Poll::Pending
    }

    fn is_complete(&self) -> bool {
        match self.listener {
            Some(_) => self.ends.is_complete(),
            None => self.connections.iter().all(|connection| connection.is_over),
        }
    }

    /// Accepts the connections that are waiting. Returns whether there was one.
    fn accept(&mut self) -> Result<bool, TransferError> {
        let mut has_accepted = false;
        while let Some(listener) = &self.listener
            && let Poll::Ready(stream) = listener.poll_accept()
        {
            let stream = stream.map_err(|error| Failure::connecting(&error))?;
            if self.connections.len() == self.max_connections {
                let error = FtpProtocolError::Block("the server opens more connections than requested");
                return Err(error.into());
            }
            self.add(stream, Some(BlockReader::default()));
            has_accepted = true;
        }
        Ok(has_accepted)
    }

    /// Reads once from each connection. Returns whether something was read.
    fn read(&mut self, io: &Io, attempt: &mut Attempt) -> Result<bool, TransferError> {
        let mut has_read = false;
        let max = self.max_connections as u64;
        for connection in &mut self.connections {
            if connection.is_over {
                continue;
            }
            let mut buffer = io.buffer();
            let Poll::Ready(read) = connection.stream.poll_recv(&mut buffer) else {
                continue;
            };
            has_read = true;
            let count = *read.as_ref().unwrap_or(&0);
            if count > 0 {
                attempt.read(count);
            }
            let mut bytes = &buffer[..count];
            match &mut connection.blocks {
                None => self.received.add(self.received.payload, bytes),
                Some(blocks) => {
                    while let Some(block) = blocks.next(&mut bytes)? {
                        match block {
                            Block::Data { offset, bytes } => self.received.add(offset, bytes),
                            Block::EndOfFile { connections } => self.ends.expect(connections, max)?,
                            Block::EndOfData => self.ends.add()?,
                        }
                    }
                    connection.is_over = blocks.is_ended();
                }
            }
            if count == 0 && !connection.is_over {
                connection.is_over = true;
                self.is_broken |= read.is_err() || connection.blocks.is_some();
            }
        }
        Ok(has_read)
    }
}

impl DownloadResult {
    fn add(&mut self, offset: u64, bytes: &[u8]) {
        self.payload += bytes.len() as u64;
        if let Some(checksum) = &mut self.checksum {
            checksum.add(offset, bytes);
        }
    }
}
