//! Receives files: in one stream, or in blocks on connections that the server opens.

use std::future::poll_fn;
use std::task::Poll;

use plimsoll_model::Outcome;
use plimsoll_wire::ftp::{Block, BlockReader, Checksum, ChecksumKind, Ends, FtpProtocolError};

use super::channels::{Channels, Shape};
use super::control::{Control, MAX_READS, succeeded};
use super::error::TransferError;
use super::settings::{Mode, Operation};
use super::transferred::Transferred;
use crate::driver::{Attempt, Waiting};
use crate::lane::reactor::Io;
use crate::net::Stream;
use crate::net::listener::Listener;
use crate::tester::failure::Failure;

/// Receives the files `paths`, one after the other. The content is not kept.
pub(super) async fn download(
    io: &Io,
    control: &mut Control,
    (operation, paths): (&Operation, &[Vec<u8>]),
    attempt: &mut Attempt,
) -> Result<Transferred, TransferError> {
    control
        .set_mode(io, operation.mode, Some(operation.streams), attempt)
        .await?;
    let mut download = Download::prepare(io, control, operation, attempt).await?;
    let mut done = Transferred::default();
    if operation.first_offset() > 0 {
        control.restart(io, operation.first_offset(), attempt).await?;
    }
    attempt.waiting = Waiting::FirstByte;
    control
        .send_transfers(&operation.command(), paths, attempt)
        .await?;
    for rest in (0..paths.len()).rev() {
        download.is_last = rest == 0 && !operation.is_kept;
        download.begin(operation.verify)?;
        poll_fn(|_| download.poll(io, control, attempt)).await?;
        let file = std::mem::take(&mut download.file);
        done.add(file.payload, file.checksum.map(Checksum::text));
    }
    done.connections = download.connections.len();
    done.opened = download.opened;
    if operation.is_kept {
        control.channels = download.keep();
    }
    Ok(done)
}

/// Connections on which data arrive.
struct Download {
    /// Accepts connections of the server; none in stream mode.
    listener: Option<Listener>,
    /// All connections so far, in the order of their beginning.
    connections: Vec<DataConnection>,
    max_connections: usize,
    shape: Shape,
    /// Number of connections that were opened for this transaction.
    opened: usize,
    /// Offset of the first block.
    first_offset: u64,
    file: FileInProgress,
    /// No other file follows on the same connections.
    is_last: bool,
    /// The server has sent its final reply.
    is_confirmed: bool,
    /// A connection ended before its end of data.
    is_broken: bool,
}

struct DataConnection {
    stream: Stream,
    /// None in stream mode.
    blocks: Option<BlockReader>,
    /// No more bytes of this file are read.
    is_over: bool,
    /// Bytes of the next file, which were read with the last ones of this file: at most those of
    /// one read.
    next: Vec<u8>,
}

impl DataConnection {
    /// Whether another file can follow the one that has ended.
    fn is_reusable(&self) -> bool {
        self.blocks.as_ref().is_some_and(BlockReader::is_reusable)
    }
}

/// The file that is received.
#[derive(Default)]
struct FileInProgress {
    payload: u64,
    ends: Ends,
    /// Checksum of the content, if it is verified.
    checksum: Option<Checksum>,
}

impl Download {
    async fn prepare(
        io: &Io,
        control: &mut Control,
        operation: &Operation,
        attempt: &mut Attempt,
    ) -> Result<Self, TransferError> {
        let max_connections = operation.max_connections();
        let shape = operation.shape();
        let mut download = Self {
            listener: None,
            connections: Vec::new(),
            max_connections,
            shape,
            opened: 0,
            first_offset: operation.first_offset(),
            file: FileInProgress::default(),
            is_last: false,
            is_confirmed: false,
            is_broken: false,
        };
        let kept = Channels::receiving(control.channels.take().filter(|_| operation.is_kept), shape);
        match (operation.mode, kept) {
            (Mode::Stream, _) => {
                let address = control.passive(io, attempt).await?;
                let stream = Stream::connect(io, address, Some(control.local)).await;
                let stream = stream.map_err(|error| Failure::connecting(&error))?;
                download.add(stream, None);
                download.opened = 1;
            }
            (Mode::Extended, Some((listener, streams))) => {
                download.listener = Some(listener);
                for stream in streams {
                    download.add(stream, Some(BlockReader::default()));
                }
            }
            // The sender of the data connects.
            (Mode::Extended, None) => {
                let listener = Listener::bind(io, control.local);
                let listener = listener.map_err(|error| Failure::connecting(&error))?;
                control
                    .listens_at(io, listener.address(), operation.stripes, attempt)
                    .await?;
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
            next: Vec::new(),
        });
    }

    /// Begins the next file, with those of its bytes that were already read.
    fn begin(&mut self, verify: Option<ChecksumKind>) -> Result<(), TransferError> {
        self.file.checksum = verify.map(Checksum::new);
        self.file.ends = Ends::of_stripes(self.shape.1.unwrap_or(1).into());
        self.is_confirmed = false;
        // The server has closed the others.
        self.connections
            .retain(|connection| !connection.is_over || connection.is_reusable());
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
            if std::mem::take(&mut connection.is_over) {
                connection.blocks = Some(BlockReader::default());
            }
            let bytes = std::mem::take(&mut connection.next);
            self.take(index, &bytes)?;
        }
        Ok(())
    }

    /// The connections for the next transfer; none if they cannot be used again.
    fn keep(self) -> Option<Channels> {
        let is_clean = |connection: &DataConnection| {
            connection.next.is_empty() && (!connection.is_over || connection.is_reusable())
        };
        if !self.connections.iter().all(is_clean) {
            return None;
        }
        Some(Channels::Receiving {
            listener: self.listener?,
            streams: self
                .connections
                .into_iter()
                .map(|connection| connection.stream)
                .collect(),
            shape: self.shape,
        })
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
            Some(_) => self.file.ends.is_complete(),
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
            self.opened += 1;
            has_accepted = true;
        }
        Ok(has_accepted)
    }

    /// Reads once from each connection. Returns whether something was read.
    fn read(&mut self, io: &Io, attempt: &mut Attempt) -> Result<bool, TransferError> {
        let mut has_read = false;
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
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
            self.take(index, &buffer[..count])?;
            let connection = &mut self.connections[index];
            if count == 0 && !connection.is_over {
                connection.is_over = true;
                self.is_broken |= read.is_err() || connection.blocks.is_some();
            }
        }
        Ok(has_read)
    }

    /// Takes bytes of a connection. Those behind the end of the file belong to the next one.
    fn take(&mut self, index: usize, mut bytes: &[u8]) -> Result<(), TransferError> {
        let (file, max) = (&mut self.file, self.max_connections as u64);
        let connection = &mut self.connections[index];
        let Some(blocks) = &mut connection.blocks else {
            file.add(file.payload, bytes);
            return Ok(());
        };
        while let Some(block) = blocks.next(&mut bytes)? {
            match block {
                Block::Data { offset, bytes } => {
                    let before = FtpProtocolError::Block("a block is before the requested bytes");
                    file.add(offset.checked_sub(self.first_offset).ok_or(before)?, bytes);
                }
                Block::EndOfFile { connections } => file.ends.expect(connections, max)?,
                Block::EndOfData => {
                    file.ends.add()?;
                    connection.is_over = true;
                    if !self.is_last && blocks.is_reusable() {
                        connection.next.extend_from_slice(bytes);
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }
}

impl FileInProgress {
    fn add(&mut self, offset: u64, bytes: &[u8]) {
        self.payload += bytes.len() as u64;
        if let Some(checksum) = &mut self.checksum {
            checksum.add(offset, bytes);
        }
    }
}
