//! The settings and requests of `ftp`, checked and compiled.

use std::net::IpAddr;
use std::sync::Arc;

use plimsoll_model::Endpoint;
use plimsoll_schedule::{Fill, Template};
use plimsoll_wire::ftp::ChecksumKind;
use serde::Deserialize;
use url::Url;

use super::FtpError;
use super::channels::Shape;
use super::content::Content;
use crate::driver::Setup;
use crate::drivers::connection::Connection;
use crate::net::{Host, source};
use crate::setup_error::{EndpointError, SetupError, UrlError};

/// Largest number of data connections of a transfer.
const MAX_STREAMS: u32 = 64;
/// Largest number of files of a transaction. Their commands are sent before the replies are read,
/// and must fit into the buffers of the connection.
const MAX_PIPELINED: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    pub(super) connection: Connection,
    login: Login,
    #[serde(default)]
    source_addresses: Vec<IpAddr>,
}

/// Name and password.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: String,
}

/// How the data of a file are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Mode {
    /// On one connection, whose end is the end of the file.
    Stream,
    /// In blocks with offsets, on any number of connections (MODE E).
    Extended,
}

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// Which bytes of a file are transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Range {
    /// All.
    Whole,
    /// A part.
    Part(Part),
    /// All from this offset on: the transfer of a file is continued.
    From(u64),
}

/// How long data connections are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DataConnections {
    /// For one transfer.
    PerFile,
    /// For all transfers of a control connection.
    Kept,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestSettings {
    paths: Vec<String>,
    transfer: Direction,
    size: Option<u64>,
    part: Option<Part>,
    restart_at: Option<u64>,
    mode: Mode,
    streams: u32,
    stripes: Option<u32>,
    data: DataConnections,
    verify: Option<Verify>,
    expect_bytes: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Direction {
    Download,
    Upload,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Verify {
    Adler32,
    Md5,
}

/// A server: addresses, the directory of its URL, and the login.
pub(super) struct FtpServer {
    pub(super) host: Host,
    pub(super) login: Arc<Login>,
    /// Path of the URL as written, without a slash at its end.
    base: String,
}

/// A transfer of the workload.
pub(super) struct Operation {
    /// One file, or several that are pipelined.
    paths: Vec<Template>,
    pub(super) transfer: Transfer,
    pub(super) range: Range,
    pub(super) mode: Mode,
    /// Number of data connections, to each data server of a striped transfer.
    pub(super) streams: u32,
    /// Of an upload, the largest number of data servers; of a download, the number of stripes that
    /// the server distributes to its data servers. None: not striped.
    pub(super) stripes: Option<u32>,
    /// Whether the data connections are kept for the next transaction.
    pub(super) is_kept: bool,
    pub(super) verify: Option<ChecksumKind>,
    /// Number of bytes of each correct download; none: any.
    pub(super) expected: Option<u64>,
}

/// What is transferred.
pub(super) enum Transfer {
    /// From the server to the tester.
    Download,
    /// Generated content to the server.
    Upload {
        /// Number of bytes that are sent.
        length: u64,
        /// Checksum of these bytes, if it is verified.
        checksum: String,
    },
}

impl Settings {
    /// The servers of the endpoints. Opens no connection.
    pub(super) fn servers(&self, setup: &Setup<'_>) -> Result<Vec<FtpServer>, SetupError> {
        source::check_local(&self.source_addresses)?;
        for (what, text) in [("user", &self.login.user), ("password", &self.login.password)] {
            if has_line_end(text.as_bytes()) {
                return Err(FtpError::Login(what).into());
            }
        }
        let login = Arc::new(self.login.clone());
        let mut servers = Vec::new();
        for endpoint in setup.endpoints {
            let server = self
                .server(setup, endpoint, &login)
                .map_err(|error| EndpointError::new(endpoint, error))?;
            servers.push(server);
        }
        source::check_families(&self.source_addresses, &servers.iter().map(|server| &server.host))?;
        Ok(servers)
    }

    fn server(
        &self,
        setup: &Setup<'_>,
        endpoint: &Endpoint,
        login: &Arc<Login>,
    ) -> Result<FtpServer, UrlError> {
        let form = || UrlError::form("ftp://HOST:PORT/DIRECTORY", &endpoint.url);
        let url = Url::parse(&endpoint.url).map_err(|source| UrlError::Syntax {
            found: endpoint.url.clone(),
            source,
        })?;
        let name = url.host_str().filter(|name| !name.is_empty()).ok_or_else(form)?;
        if url.scheme() != "ftp" || url.query().is_some() || url.fragment().is_some() {
            return Err(form());
        }
        // The text of the URL: its parser escapes spaces and other signs, which a server does not
        // replace.
        let (_, rest) = endpoint.url.split_once("://").ok_or_else(form)?;
        let base = rest.find('/').map_or("", |at| rest[at..].trim_end_matches('/'));
        if has_line_end(base.as_bytes()) {
            return Err(form());
        }
        let mut host = setup.host(name, url.port().unwrap_or(21))?;
        host.connect_from(&self.source_addresses)?;
        Ok(FtpServer {
            host,
            login: Arc::clone(login),
            base: base.to_owned(),
        })
    }
}

/// Whether a text would end the command that contains it.
pub(super) fn has_line_end(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
}

/// The operation `index` of the workload.
pub(super) fn operation(setup: &Setup<'_>, index: usize, content: &Content) -> Result<Operation, SetupError> {
    let request: RequestSettings = setup.request(index)?;
    request.check(index)?;
    let verify = request.verify.map(|verify| match verify {
        Verify::Adler32 => ChecksumKind::Adler32,
        Verify::Md5 => ChecksumKind::Md5,
    });
    let range = match (request.part, request.restart_at) {
        (Some(part), _) => Range::Part(part),
        (None, Some(offset)) => Range::From(offset),
        (None, None) => Range::Whole,
    };
    let transfer = match request.transfer {
        Direction::Upload => {
            let (begin, end) = request.sent().ok_or(FtpError::Upload { operation: index })?;
            Transfer::Upload {
                length: end - begin,
                checksum: verify.map_or_else(String::new, |kind| content.checksum(kind, begin..end)),
            }
        }
        Direction::Download => Transfer::Download,
    };
    let paths = request.paths.iter().map(|path| setup.template(index, path));
    Ok(Operation {
        paths: paths.collect(),
        transfer,
        range,
        mode: request.mode,
        streams: request.streams,
        stripes: request.stripes,
        is_kept: request.data == DataConnections::Kept,
        verify,
        expected: request.expect_bytes.or(request.part.map(|part| part.length)),
    })
}

impl RequestSettings {
    /// Refuses what cannot be combined.
    fn check(&self, operation: usize) -> Result<(), FtpError> {
        let (files, streams) = (self.paths.len(), self.streams);
        let found = streams.saturating_mul(self.stripes.unwrap_or(1));
        if !(1..=MAX_STREAMS).contains(&found) {
            let max = MAX_STREAMS;
            return Err(FtpError::StreamCount {
                operation,
                max,
                found,
            });
        }
        if !(1..=MAX_PIPELINED).contains(&files) {
            let (max, found) = (MAX_PIPELINED, files);
            return Err(FtpError::FileCount {
                operation,
                max,
                found,
            });
        }
        if self.mode == Mode::Stream {
            let wanted = [
                (streams > 1, "more than one stream"),
                (self.stripes.is_some(), "a striped transfer"),
                (self.data == DataConnections::Kept, "data: kept"),
                (files > 1, "a transaction of several files"),
            ];
            if let Some(&(_, what)) = wanted.iter().find(|(is_wanted, _)| *is_wanted) {
                return Err(FtpError::Extended { operation, what });
            }
        }
        let is_download = self.transfer == Direction::Download;
        if is_download && matches!(self.verify, Some(Verify::Md5)) && self.mode == Mode::Extended {
            return Err(FtpError::Order { operation });
        }
        if self.restart_at.is_some() && (files > 1 || self.part.is_some()) {
            return Err(FtpError::Restart { operation });
        }
        let end = self
            .part
            .map_or(self.restart_at, |part| part.offset.checked_add(part.length));
        let has_overflow = self.part.is_some() && end.is_none();
        if has_overflow || end.is_some_and(|end| i64::try_from(end).is_err()) {
            return Err(FtpError::Part { operation });
        }
        Ok(())
    }

    /// Offsets in the generated content of the bytes that an upload sends. None: it is not known
    /// how many these are.
    fn sent(&self) -> Option<(u64, u64)> {
        match (self.part, self.size) {
            // The content of a part begins at its first byte, because the offsets of its blocks do.
            (Some(part), None) => Some((0, part.length)),
            (None, Some(size)) => {
                let begin = self.restart_at.unwrap_or(0);
                (begin <= size).then_some((begin, size))
            }
            _ => None,
        }
    }
}

impl Operation {
    /// Of the data connections.
    pub(super) fn shape(&self) -> Shape {
        (self.streams, self.stripes)
    }

    /// Maximum number of data connections of a transfer.
    pub(super) fn max_connections(&self) -> usize {
        (self.streams * self.stripes.unwrap_or(1)) as usize
    }

    /// Writes the paths of the files on `server` to `out`.
    pub(super) fn fill(&self, server: &FtpServer, fill: &Fill<'_>, out: &mut Vec<Vec<u8>>) {
        out.resize_with(self.paths.len(), Vec::new);
        for (template, path) in self.paths.iter().zip(out) {
            path.clear();
            path.extend_from_slice(server.base.as_bytes());
            let begin = path.len();
            template.fill(fill, path);
            if path.get(begin) != Some(&b'/') {
                path.insert(begin, b'/');
            }
        }
    }

    /// The command that transfers a file, up to its path.
    pub(super) fn command(&self) -> String {
        match (&self.transfer, self.range) {
            (Transfer::Download, Range::Part(Part { offset, length })) => {
                format!("ERET P {offset} {length} ")
            }
            (Transfer::Download, _) => "RETR ".to_owned(),
            // Unlike STOR, it does not truncate the file.
            (Transfer::Upload { .. }, Range::Part(Part { offset, .. })) => format!("ESTO A {offset} "),
            (Transfer::Upload { .. }, _) => "STOR ".to_owned(),
        }
    }

    /// The command for the checksum of what is transferred, up to the path.
    pub(super) fn checksum_command(&self, kind: ChecksumKind) -> String {
        let name = kind.name();
        match self.range {
            Range::Whole => format!("CKSM {name} 0 -1 "),
            Range::Part(Part { offset, length }) => format!("CKSM {name} {offset} {length} "),
            Range::From(offset) => format!("CKSM {name} {offset} -1 "),
        }
    }

    /// Offset of the first block of a transfer. Those of a part count from its beginning (seen with
    /// version 13.24 of the server), so that its checksum is that of these bytes.
    pub(super) fn first_offset(&self) -> u64 {
        match self.range {
            Range::From(offset) => offset,
            Range::Whole | Range::Part(_) => 0,
        }
    }
}
