//! The settings and requests of `broker`, checked and compiled.

use std::str::FromStr;
use std::sync::Arc;

use plimsoll_model::Endpoint;
use plimsoll_schedule::{Fill, Template};
use plimsoll_wire::broker::{DECIDE_PATH, JobRequest, MEDIA_TYPE};
use serde::Deserialize;
use url::Url;

use super::error::{BrokerError, DecisionError};
use crate::driver::Setup;
use crate::drivers::connection::Connection;
use crate::http1::connection::Route;
use crate::setup_error::{EndpointError, SetupError, UrlError};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    pub(super) connection: Connection,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestSettings {
    vo: String,
    group: String,
    cpus: String,
    runtime_ms: u64,
}

/// A decision point.
pub(super) struct PointAddress {
    pub(super) route: Route,
    /// Over HTTP: the head of a request up to the length of its body. None: the binary protocol.
    pub(super) http_head: Option<String>,
}

/// The jobs of an operation.
pub(super) struct JobTemplate {
    vo: Number<u16>,
    group: Number<u16>,
    cpus: Number<u32>,
    runtime_ms: u64,
}

/// A number that is constant, or a text with placeholders.
enum Number<T> {
    Constant(T),
    Text(&'static str, Template),
}

impl Settings {
    /// The points of the endpoints. Opens no connection.
    pub(super) fn points(&self, setup: &Setup<'_>) -> Result<Vec<PointAddress>, SetupError> {
        let keep = self.connection == Connection::Kept;
        let address = |endpoint: &Endpoint| {
            address(setup, &endpoint.url, keep)
                .map_err(|error| SetupError::from(EndpointError::new(endpoint, error)))
        };
        setup.endpoints.iter().map(address).collect()
    }
}

fn address(setup: &Setup<'_>, text: &str, keep: bool) -> Result<PointAddress, UrlError> {
    let form = || UrlError::form("broker://HOST:PORT or http://HOST[:PORT]", text);
    let url = Url::parse(text).map_err(|source| UrlError::Syntax {
        found: text.to_owned(),
        source,
    })?;
    let name = url.host_str().filter(|name| !name.is_empty()).ok_or_else(form)?;
    if !matches!(url.path(), "" | "/") || url.query().is_some() {
        return Err(form());
    }
    let (port, is_http) = match url.scheme() {
        "broker" => (url.port().ok_or_else(form)?, false),
        "http" => (url.port_or_known_default().unwrap_or(80), true),
        _ => return Err(form()),
    };
    let close = if keep { "" } else { "Connection: close\r\n" };
    let http_head = is_http.then(|| {
        format!(
            "POST {DECIDE_PATH} HTTP/1.1\r\nHost: {name}:{port}\r\nContent-Type: {MEDIA_TYPE}\r\n{close}\
             Content-Length: "
        )
    });
    let route = Route {
        host: Arc::new(setup.host(name, port)?),
        tunnel: None,
        tls: None,
    };
    Ok(PointAddress { route, http_head })
}

/// The jobs of operation `index`.
pub(super) fn job(setup: &Setup<'_>, index: usize) -> Result<JobTemplate, SetupError> {
    let request: RequestSettings = setup.request(index)?;
    let short = "a number from 0 to 65,535";
    Ok(JobTemplate {
        vo: Number::new(setup, index, ("vo", short), request.vo)?,
        group: Number::new(setup, index, ("group", short), request.group)?,
        cpus: Number::new(
            setup,
            index,
            ("cpus", "a number from 0 to 4,294,967,295"),
            request.cpus,
        )?,
        runtime_ms: request.runtime_ms,
    })
}

impl<T: FromStr + Copy> Number<T> {
    fn new(
        setup: &Setup<'_>,
        operation: usize,
        (key, expected): (&'static str, &'static str),
        text: String,
    ) -> Result<Self, BrokerError> {
        let template = setup.template(operation, &text);
        match template.constant().map(str::parse) {
            None => Ok(Self::Text(key, template)),
            Some(Ok(number)) => Ok(Self::Constant(number)),
            Some(Err(_)) => Err(BrokerError::Number {
                key,
                operation,
                expected,
                found: text,
            }),
        }
    }

    fn fill(&self, fill: &Fill<'_>, buffer: &mut Vec<u8>) -> Result<T, DecisionError> {
        let (key, template) = match self {
            Self::Constant(number) => return Ok(*number),
            Self::Text(key, template) => (*key, template),
        };
        buffer.clear();
        template.fill(fill, buffer);
        let number = std::str::from_utf8(buffer)
            .ok()
            .and_then(|text| text.parse().ok());
        number.ok_or_else(|| DecisionError::Value {
            key,
            found: String::from_utf8_lossy(buffer).into_owned(),
        })
    }
}

impl JobTemplate {
    /// The job of a request. `buffer`: for texts.
    pub(super) fn fill(&self, fill: &Fill<'_>, buffer: &mut Vec<u8>) -> Result<JobRequest, DecisionError> {
        Ok(JobRequest {
            vo: self.vo.fill(fill, buffer)?,
            group: self.group.fill(fill, buffer)?,
            cpus: self.cpus.fill(fill, buffer)?,
            runtime_ms: self.runtime_ms,
        })
    }
}
