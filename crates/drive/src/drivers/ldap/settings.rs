//! The settings and requests of `ldap`, checked and compiled.

use std::net::IpAddr;
use std::sync::Arc;

use plimsoll_model::Endpoint;
use plimsoll_schedule::{Fill, Template};
use plimsoll_wire::ldap::{Bind, EncodedFilter, Filter, Scope, Search};
use serde::Deserialize;
use url::Url;

use super::LdapError;
use crate::driver::Setup;
use crate::drivers::connection::Connection;
use crate::net::identity::{Identity, ServerTls};
use crate::net::tls::{self, TlsSettings};
use crate::net::{Host, source};
use crate::setup_error::{EndpointError, SetupError, UrlError};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    pub(super) connection: Connection,
    bind: BindSettings,
    start_tls: bool,
    tls: Option<TlsSettings>,
    #[serde(default)]
    source_addresses: Vec<IpAddr>,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum BindSettings {
    Anonymous,
    Simple { dn: String, password: String },
    External,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestSettings {
    base: String,
    scope: ScopeName,
    filter: String,
    attributes: Vec<String>,
    size_limit: u32,
    time_limit_s: u32,
    page_size: Option<u32>,
    expect_entries: Option<u64>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ScopeName {
    Base,
    One,
    Sub,
}

/// A server: addresses, and how connections to it begin.
pub(super) struct LdapServer {
    pub(super) host: Host,
    /// TLS; none: without it.
    pub(super) tls: Option<ServerTls>,
    /// Whether TLS begins by a request on a plain connection.
    pub(super) start_tls: bool,
    pub(super) bind: Arc<Bind>,
}

/// A search of the workload.
pub(super) struct Operation {
    base: Template,
    filter: Filter<Template>,
    /// The filter if it is constant.
    ready: Option<EncodedFilter>,
    scope: Scope,
    attributes: Vec<String>,
    size_limit: u32,
    time_limit_s: u32,
    /// Number of entries of a page; none: all at once.
    pub(super) page_size: Option<u32>,
    /// Number of entries of a correct response; none: any.
    pub(super) expected: Option<u64>,
}

impl Settings {
    /// The servers of the endpoints. Opens no connection.
    pub(super) fn servers(&self, setup: &Setup<'_>) -> Result<Vec<LdapServer>, SetupError> {
        source::check_local(&self.source_addresses)?;
        let bind = Arc::new(self.bind());
        let mut servers = Vec::new();
        for endpoint in setup.endpoints {
            let identity = self.identity(endpoint)?;
            let server = self
                .server(setup, endpoint, identity, &bind)
                .map_err(|error| EndpointError::new(endpoint, error))?;
            servers.push(server);
        }
        source::check_families(&self.source_addresses, &servers.iter().map(|server| &server.host))?;
        Ok(servers)
    }

    /// TLS with an endpoint; none without it. Files that the settings do not name are those that
    /// the service has made for its clients, if its URL contains their directory.
    fn identity(&self, endpoint: &Endpoint) -> Result<Option<Identity>, SetupError> {
        let made = tls::made_directory(&endpoint.url)
            .filter(|directory| directory.is_dir())
            .map(|directory| TlsSettings::with_made(self.tls.as_ref(), directory));
        let settings = made.as_ref().or(self.tls.as_ref());
        let is_secure = match (endpoint.url.starts_with("ldaps:"), self.start_tls) {
            (true, true) => return Err(LdapError::TlsTwice(endpoint.name.clone()).into()),
            (is_secure, start_tls) => is_secure || start_tls,
        };
        if matches!(self.bind, BindSettings::External) {
            if settings.is_none_or(|tls| tls.cert.is_none()) {
                return Err(LdapError::NoCertificate.into());
            }
            if !is_secure {
                return Err(LdapError::NoTls(endpoint.name.clone()).into());
            }
        }
        if !is_secure && self.tls.is_none() {
            return Ok(None);
        }
        let identity = Identity::new(settings)?;
        Ok(is_secure.then_some(identity))
    }

    fn bind(&self) -> Bind {
        match &self.bind {
            BindSettings::Anonymous => Bind::Anonymous,
            BindSettings::Simple { dn, password } => Bind::Simple {
                dn: dn.clone(),
                password: password.clone(),
            },
            BindSettings::External => Bind::External,
        }
    }

    fn server(
        &self,
        setup: &Setup<'_>,
        endpoint: &Endpoint,
        identity: Option<Identity>,
        bind: &Arc<Bind>,
    ) -> Result<LdapServer, UrlError> {
        let form = || UrlError::form("ldap://HOST:PORT or ldaps://HOST:PORT", &endpoint.url);
        let url = Url::parse(&endpoint.url).map_err(|source| UrlError::Syntax {
            found: endpoint.url.clone(),
            source,
        })?;
        let port = match url.scheme() {
            "ldap" => 389,
            "ldaps" => 636,
            _ => return Err(form()),
        };
        let name = url.host_str().filter(|name| !name.is_empty()).ok_or_else(form)?;
        // A search is in the requests, not in the URL.
        let has_path = !matches!(url.path(), "" | "/") && tls::made_directory(&endpoint.url).is_none();
        if has_path || url.query().is_some() {
            return Err(form());
        }
        let mut host = setup.host(name, url.port().unwrap_or(port))?;
        host.connect_from(&self.source_addresses)?;
        let tls = match identity {
            Some(identity) => {
                let bare = name.trim_start_matches('[').trim_end_matches(']');
                let name = tls::server_name(bare)?;
                Some(ServerTls { identity, name })
            }
            None => None,
        };
        Ok(LdapServer {
            host,
            tls,
            start_tls: self.start_tls,
            bind: Arc::clone(bind),
        })
    }
}

/// The operation `index` of the workload.
pub(super) fn operation(setup: &Setup<'_>, index: usize) -> Result<Operation, SetupError> {
    let request: RequestSettings = setup.request(index)?;
    let filter = Filter::parse(&request.filter).map_err(|source| LdapError::Filter {
        operation: index,
        source,
    })?;
    let mut is_constant = true;
    let filter = filter.map(&mut |text: String| {
        let template = setup.template(index, &text);
        is_constant &= template.constant().is_some();
        template
    });
    let ready = is_constant.then(|| encode(&filter, &setup.constant_fill()));
    Ok(Operation {
        base: setup.template(index, &request.base),
        filter,
        ready,
        scope: match request.scope {
            ScopeName::Base => Scope::Base,
            ScopeName::One => Scope::One,
            ScopeName::Sub => Scope::Sub,
        },
        attributes: request.attributes,
        size_limit: request.size_limit,
        time_limit_s: request.time_limit_s,
        page_size: request.page_size,
        expected: request.expect_entries,
    })
}

fn encode(filter: &Filter<Template>, fill: &Fill<'_>) -> EncodedFilter {
    filter.encode(&mut |text: &Template, out: &mut Vec<u8>| text.fill(fill, out))
}

impl Operation {
    /// Appends the base of the search to `base`, and returns the filter with the values of the
    /// request; none if [`Self::ready`] has it.
    pub(super) fn fill(&self, fill: &Fill<'_>, base: &mut Vec<u8>) -> Option<EncodedFilter> {
        self.base.fill(fill, base);
        match self.ready {
            Some(_) => None,
            None => Some(encode(&self.filter, fill)),
        }
    }

    /// The constant filter.
    pub(super) fn ready(&self) -> Option<&EncodedFilter> {
        self.ready.as_ref()
    }

    /// The search below `base`.
    pub(super) fn search<'a>(&'a self, base: &'a [u8]) -> Search<'a> {
        Search {
            base,
            scope: self.scope,
            size_limit: self.size_limit,
            time_limit_s: self.time_limit_s,
            attributes: &self.attributes,
        }
    }
}
