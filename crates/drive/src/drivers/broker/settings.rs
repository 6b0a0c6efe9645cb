//! The settings and requests of `broker`, checked and compiled.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use plimsoll_model::Endpoint;
use plimsoll_schedule::{Fill, Template};
use plimsoll_wire::broker::{DECIDE_PATH, JobRequest, MEDIA_TYPE};
use serde::Deserialize;

use super::error::{BrokerError, DecisionError};
use crate::driver::Setup;
use crate::drivers::connection::Connection;
use crate::http1::connection::Route;
use crate::net::identity::{Identity, ServerTls};
use crate::net::tls::{ServiceUrl, TlsSettings};
use crate::net::{Host, source};
use crate::setup_error::{EndpointError, SetupError, UrlError};

/// Forms of the URLs of endpoints.
const FORMS: &str = "broker://HOST:PORT or http://HOST[:PORT] (with TLS: brokers or https)";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    pub(super) connection: Connection,
    tls: Option<TlsSettings>,
    #[serde(default)]
    source_addresses: Vec<IpAddr>,
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
    host: Arc<Host>,
    tls: Option<ServerTls>,
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

impl PointAddress {
    /// The route of a tester, whose number is from 0.
    pub(super) fn route(&self, number: u32) -> Route {
        Route {
            host: Arc::clone(&self.host),
            tunnel: None,
            tls: self.tls.as_ref().map(|tls| tls.of_tester(number)),
        }
    }
}

impl Settings {
    /// The points of the endpoints. Opens no connection.
    pub(super) fn points(&self, setup: &Setup<'_>) -> Result<Vec<PointAddress>, SetupError> {
        source::check_local(&self.source_addresses)?;
        let mut points = Vec::with_capacity(setup.endpoints.len());
        for endpoint in setup.endpoints {
            points.push(self.point(setup, endpoint)?);
        }
        let hosts = points.iter().map(|point| point.host.as_ref());
        source::check_families(&self.source_addresses, &hosts)?;
        Ok(points)
    }

    fn point(&self, setup: &Setup<'_>, endpoint: &Endpoint) -> Result<PointAddress, SetupError> {
        let wrong = |error| SetupError::from(EndpointError::new(endpoint, error));
        let form = || wrong(UrlError::form(FORMS, &endpoint.url));
        let place = ServiceUrl::parse(&endpoint.url, FORMS).map_err(wrong)?;
        let is_http = match place.url.scheme() {
            "broker" | "brokers" => false,
            "http" | "https" => true,
            _ => return Err(form()),
        };
        // The URL of the binary protocol has no default port.
        let port = place.url.port_or_known_default().ok_or_else(form)?;
        let tls = if place.is_secure {
            let name = place.server_name().map_err(|error| wrong(error.into()))?;
            let settings = TlsSettings::certified(self.tls.as_ref(), &endpoint.url)
                .ok_or_else(|| BrokerError::NoCertificate(endpoint.name.clone()))?;
            let identity = Identity::new(Some(&settings))?;
            Some(ServerTls { identity, name })
        } else {
            None
        };
        let name = place.host.as_str();
        let mut host = setup.host(name, port).map_err(|error| wrong(error.into()))?;
        host.connect_from(&self.source_addresses)
            .map_err(|error| wrong(error.into()))?;
        Ok(PointAddress {
            host: Arc::new(host),
            tls,
            http_head: is_http.then(|| self.http_head(name, port)),
        })
    }

    /// The head of a request up to the length of its body.
    fn http_head(&self, name: &str, port: u16) -> String {
        let close = match self.connection {
            Connection::Kept => "",
            Connection::PerRequest => "Connection: close\r\n",
        };
        format!(
            "POST {DECIDE_PATH} HTTP/1.1\r\nHost: {name}:{port}\r\nContent-Type: {MEDIA_TYPE}\r\n{close}\
             Content-Length: "
        )
    }
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
