//! The settings and requests of `ftp`, checked and compiled.

use std::net::IpAddr;
use std::sync::Arc;

use plimsoll_model::Endpoint;
use plimsoll_schedule::{Fill, Template};
use plimsoll_wire::ftp::ChecksumKind;
use serde::Deserialize;
use url::Url;

use super::FtpError;
use super::content::Content;
use crate::driver::Setup;
use crate::drivers::connection::Connection;
use crate::net::{Host, source};
use crate::setup_error::{EndpointError, SetupError, UrlError};

/// Largest number of data connections of a transfer.
const MAX_STREAMS: u32 = 64;

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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestSettings {
    path: String,
    transfer: Direction,
    size: Option<u64>,
    part: Option<Part>,
    mode: Mode,
    streams: u32,
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
    path: Template,
    pub(super) transfer: Transfer,
    pub(super) mode: Mode,
    pub(super) streams: u32,
    pub(super) verify: Option<ChecksumKind>,
    /// Number of bytes of a correct download; none: any.
    pub(super) expected: Option<u64>,
}

/// What is transferred.
pub(super) enum Transfer {
    /// A file, or a part of it, to the tester.
    Download(Option<Part>),
    /// Generated content to the server.
    Upload {
        size: u64,
        /// Checksum of the content, if it is verified.
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
    let (operation, streams) = (index, request.streams);
    if !(1..=MAX_STREAMS).contains(&streams) {
        let (max, found) = (MAX_STREAMS, streams);
        return Err(FtpError::StreamCount {
            operation,
            max,
            found,
        }
        .into());
    }
    if streams > 1 && request.mode == Mode::Stream {
        return Err(FtpError::Streams { operation, streams }.into());
    }
    let verify = request.verify.map(|verify| match verify {
        Verify::Adler32 => ChecksumKind::Adler32,
        Verify::Md5 => ChecksumKind::Md5,
    });
    let is_download = request.transfer == Direction::Download;
    if is_download && verify == Some(ChecksumKind::Md5) && request.mode == Mode::Extended {
        return Err(FtpError::Order { operation }.into());
    }
    let transfer = match (request.transfer, request.size, request.part) {
        (Direction::Upload, Some(size), None) => Transfer::Upload {
            size,
            checksum: verify.map_or_else(String::new, |kind| content.checksum(kind, size)),
        },
        (Direction::Upload, _, _) => return Err(FtpError::Upload { operation }.into()),
        (Direction::Download, _, part) => {
            let end = part.map_or(Some(0), |part| part.offset.checked_add(part.length));
            if end.is_none_or(|end| i64::try_from(end).is_err()) {
                return Err(FtpError::Part { operation }.into());
            }
            Transfer::Download(part)
        }
    };
    Ok(Operation {
        path: setup.template(index, &request.path),
        transfer,
        mode: request.mode,
        streams,
        verify,
        expected: request.expect_bytes.or(request.part.map(|part| part.length)),
    })
}

impl Operation {
    /// Appends the path of the file on `server` to `out`.
    pub(super) fn fill(&self, server: &FtpServer, fill: &Fill<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(server.base.as_bytes());
        let begin = out.len();
        self.path.fill(fill, out);
        if out.get(begin) != Some(&b'/') {
            out.insert(begin, b'/');
        }
    }
}
