//! The control connection of a tester: login, commands and replies. It has one command at a time.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Poll, ready};

use plimsoll_model::Outcome;
use plimsoll_wire::ftp::{self, Reply, ReplyReader};

use super::channels::Channels;
use super::error::TransferError;
use super::settings::{FtpServer, Mode};
use crate::driver::{Attempt, Waiting};
use crate::lane::reactor::Io;
use crate::net::Stream;
use crate::net::round_trips::Names;
use crate::tester::failure::Failure;

/// Number of reads in a row before the other testers of the lane run.
pub(super) const MAX_READS: u32 = 16;

/// A control connection that is logged in.
pub(super) struct Control {
    stream: Stream,
    replies: ReplyReader,
    /// Complete replies that are not used yet: at most those of one read.
    pending: VecDeque<Reply>,
    /// Mode of the data connections, and the number of streams of downloads.
    mode: Mode,
    streams: u32,
    /// Data connections that the next transfer can use again.
    pub(super) channels: Option<Channels>,
    pub(super) local: IpAddr,
    peer: IpAddr,
    /// Number of the connection among its tester's, from 1.
    pub(super) number: u32,
}

impl Control {
    /// Connects and logs in. Bytes are counted; first byte and end are not stamped. Also returns
    /// how long the login took, s.
    pub(super) async fn open(
        io: &Io,
        server: &FtpServer,
        (number, names): (u32, Names),
        attempt: &mut Attempt,
    ) -> Result<(Self, f64), TransferError> {
        attempt.waiting = Waiting::Connect;
        let stream = names.connect(&server.host, io, attempt).await;
        let stream = stream.map_err(|error| Failure::connecting(&error))?;
        let address = |address: io::Result<SocketAddr>| match address {
            Ok(address) => Ok(address.ip()),
            Err(error) => Err(TransferError::talking(&error)),
        };
        let mut control = Self {
            local: address(stream.local_address())?,
            peer: address(stream.peer_address())?,
            stream,
            replies: ReplyReader::default(),
            pending: VecDeque::new(),
            mode: Mode::Stream,
            streams: 1,
            channels: None,
            number,
        };
        let begun = attempt.now();
        let greeting = control.final_reply(io, attempt).await?;
        succeeded(Outcome::Refused, greeting)?;
        let login = &server.login;
        let user = format!("USER {}", login.user);
        let mut reply = control.ask(io, user.as_bytes(), attempt).await?;
        if reply.code == 331 {
            let password = format!("PASS {}", login.password);
            reply = control.ask(io, password.as_bytes(), attempt).await?;
        }
        succeeded(Outcome::Refused, reply)?;
        // Without it, a server may convert line ends.
        let reply = control.ask(io, b"TYPE I", attempt).await?;
        succeeded(Outcome::Refused, reply)?;
        attempt.connected = attempt.now();
        Ok((control, (attempt.connected - begun) as f64 * 1e-9))
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Whether the connection can be used, as far as this is known without waiting. What the server
    /// has sent since the last transfer can only announce that it closes the connection.
    pub(super) fn check_alive(&mut self, io: &Io) -> bool {
        if self.stream.is_closed() || !self.pending.is_empty() {
            return false;
        }
        let mut buffer = io.buffer();
        self.stream.poll_recv(&mut buffer).is_pending()
    }

    /// Sets the mode of the data connections, and for downloads the number of streams, unless they
    /// are set.
    pub(super) async fn set_mode(
        &mut self,
        io: &Io,
        mode: Mode,
        streams: Option<u32>,
        attempt: &mut Attempt,
    ) -> Result<(), TransferError> {
        if self.mode != mode {
            let command: &[u8] = match mode {
                Mode::Stream => b"MODE S",
                Mode::Extended => b"MODE E",
            };
            let reply = self.ask(io, command, attempt).await?;
            succeeded(Outcome::Error, reply)?;
            self.mode = mode;
            self.channels = None;
        }
        if let Some(streams) = streams.filter(|&streams| mode == Mode::Extended && streams != self.streams) {
            let options = format!("OPTS RETR Parallelism={streams},{streams},{streams};");
            let reply = self.ask(io, options.as_bytes(), attempt).await?;
            succeeded(Outcome::Error, reply)?;
            self.streams = streams;
        }
        Ok(())
    }

    /// Lets the server listen, and returns its address. The host is that of the control connection.
    pub(super) async fn passive(
        &mut self,
        io: &Io,
        attempt: &mut Attempt,
    ) -> Result<SocketAddr, TransferError> {
        let is_ipv4 = self.peer.is_ipv4();
        let command: &[u8] = if is_ipv4 { b"PASV" } else { b"EPSV" };
        let reply = self.ask(io, command, attempt).await?;
        let text = succeeded(Outcome::Error, reply)?.text;
        let port = if is_ipv4 {
            ftp::passive_port(&text)
        } else {
            ftp::extended_passive_port(&text)
        };
        Ok(SocketAddr::new(self.peer, port?))
    }

    /// Lets each data server of a striped server listen, and returns their addresses, which may be
    /// those of other hosts.
    pub(super) async fn striped_passive(
        &mut self,
        io: &Io,
        max: u32,
        attempt: &mut Attempt,
    ) -> Result<Vec<SocketAddr>, TransferError> {
        let reply = self.ask(io, b"SPAS", attempt).await?;
        let text = succeeded(Outcome::Error, reply)?.text;
        let addresses = ftp::striped_passive_addresses(&text)?;
        if addresses.len() > max as usize {
            return Err(TransferError::stripes(addresses.len(), max));
        }
        Ok(addresses)
    }

    /// Names the address at which the tester listens, once for each stripe of a striped transfer.
    pub(super) async fn listens_at(
        &mut self,
        io: &Io,
        address: SocketAddr,
        stripes: Option<u32>,
        attempt: &mut Attempt,
    ) -> Result<(), TransferError> {
        let command = match stripes {
            None => ftp::port_command(address),
            Some(stripes) => {
                ftp::striped_port_command(address, stripes).ok_or_else(TransferError::not_ipv4)?
            }
        };
        let reply = self.ask(io, command.as_bytes(), attempt).await?;
        succeeded(Outcome::Error, reply)?;
        Ok(())
    }

    /// Lets the next transfer begin at `offset` of the file. Blocks have offsets, so that any bytes
    /// may already be known: in extended block mode, those before the offset are named.
    pub(super) async fn restart(
        &mut self,
        io: &Io,
        offset: u64,
        attempt: &mut Attempt,
    ) -> Result<(), TransferError> {
        let command = match self.mode {
            Mode::Stream => format!("REST {offset}"),
            Mode::Extended => format!("REST 0-{offset}"),
        };
        let reply = self.ask(io, command.as_bytes(), attempt).await?;
        // 350: the command that transfers the file is expected.
        if reply.code == 350 {
            return Ok(());
        }
        succeeded(Outcome::Error, reply)?;
        Ok(())
    }

    /// Sends the commands that transfer files, without a wait for the replies between them.
    pub(super) async fn send_transfers(
        &mut self,
        command: &str,
        paths: &[Vec<u8>],
        attempt: &mut Attempt,
    ) -> Result<(), TransferError> {
        let mut lines = Vec::new();
        for path in paths {
            lines.extend_from_slice(command.as_bytes());
            lines.extend_from_slice(path);
            lines.extend_from_slice(b"\r\n");
        }
        self.send(&lines, attempt).await
    }

    /// Sends a command, and returns its final reply.
    pub(super) async fn ask(
        &mut self,
        io: &Io,
        command: &[u8],
        attempt: &mut Attempt,
    ) -> Result<Reply, TransferError> {
        self.send(&[command, b"\r\n"].concat(), attempt).await?;
        self.final_reply(io, attempt).await
    }

    /// Sends lines.
    async fn send(&mut self, lines: &[u8], attempt: &mut Attempt) -> Result<(), TransferError> {
        let mut sent = 0;
        while sent < lines.len() {
            let count = poll_fn(|_| self.stream.poll_send(&lines[sent..])).await;
            let count = count.map_err(|error| TransferError::talking(&error))?;
            sent += count;
            attempt.sent += count as u64;
        }
        Ok(())
    }

    async fn final_reply(&mut self, io: &Io, attempt: &mut Attempt) -> Result<Reply, TransferError> {
        let mut replies = 0;
        loop {
            let reply = poll_fn(|_| self.poll_reply(io, attempt)).await?;
            if !reply.is_preliminary() {
                return Ok(reply);
            }
            replies += 1;
            if replies % MAX_READS == 0 {
                io.yield_now().await;
            }
        }
    }

    /// Reads the next reply.
    pub(super) fn poll_reply(
        &mut self,
        io: &Io,
        attempt: &mut Attempt,
    ) -> Poll<Result<Reply, TransferError>> {
        for _ in 0..MAX_READS {
            if let Some(reply) = self.pending.pop_front() {
                return Poll::Ready(Ok(reply));
            }
            let mut buffer = io.buffer();
            let read = ready!(self.stream.poll_recv(&mut buffer));
            let count = read.map_err(|error| TransferError::talking(&error))?;
            if count == 0 {
                return Poll::Ready(Err(TransferError::closed()));
            }
            attempt.received += count as u64;
            let mut bytes = &buffer[..count];
            while let Some(reply) = self.replies.next(&mut bytes)? {
                self.pending.push_back(reply);
            }
        }
        io.wake(io.current());
        Poll::Pending
    }

    /// As [`Self::leave`], and counts the bytes.
    pub(super) fn close(mut self, attempt: &mut Attempt) {
        if let Poll::Ready(Ok(count)) = self.stream.poll_send(b"QUIT\r\n") {
            attempt.sent += count as u64;
        }
    }

    /// Sends QUIT, if that is possible without waiting, and closes the connection.
    pub(super) fn leave(mut self) {
        let _ = self.stream.poll_send(b"QUIT\r\n");
    }
}

/// The reply, if the command has succeeded.
pub(super) fn succeeded(outcome: Outcome, reply: Reply) -> Result<Reply, TransferError> {
    if reply.is_success() {
        Ok(reply)
    } else {
        Err(TransferError::reply(outcome, reply))
    }
}
