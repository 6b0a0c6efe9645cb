//! URLs of databases with host and login, as the servers' own clients accept them.

use std::fmt;

use percent_encoding::percent_decode_str;
use url::{Host, Url};

use super::{Login, Server};

/// The address of a database server, and a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Kind of the server.
    pub server: Server,
    /// Name or IP address of the host; an IPv6 address has no brackets.
    pub host: String,
    /// TCP port, 1 to 65535.
    pub port: u16,
    /// User, password and database.
    pub login: Login,
}

/// Why a URL is refused. It does not contain the URL, which may contain a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The text is not a URL, or its scheme is not supported.
    #[error(
        "expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE or mysql:// or mariadb:// with the same parts"
    )]
    Form,
    /// A part is missing.
    #[error("the {0} is missing")]
    Missing(&'static str),
    /// A part is not valid.
    #[error("the {0} is not valid: percent-encode all characters except letters and digits")]
    Invalid(&'static str),
    /// A parameter after `?` is not supported.
    #[error("the parameter {0} is not known: expected sslmode=disable, sslmode=allow or sslmode=prefer")]
    Parameter(String),
    /// The URL requests TLS.
    #[error("sslmode={0}: a URL cannot request TLS: remove sslmode, and use the key tls of the driver sql")]
    Tls(String),
}

impl Address {
    /// Parses `postgresql://`, `postgres://`, `mysql://` and `mariadb://` URLs. User, password and
    /// database are percent-decoded. The default port is 5432 or 3306.
    pub fn from_url(url: &str) -> Result<Self, AddressError> {
        let url = Url::parse(url).map_err(|_| AddressError::Form)?;
        let (server, default_port) = match url.scheme() {
            "postgresql" | "postgres" => (Server::Postgres, 5432),
            "mysql" | "mariadb" => (Server::Mysql, 3306),
            _ => return Err(AddressError::Form),
        };
        if url.fragment().is_some() {
            return Err(AddressError::Form);
        }
        check_parameters(&url)?;
        let host = match url.host() {
            Some(Host::Domain(name)) => decoded(name, "host")?,
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            None => String::new(),
        };
        if host.is_empty() {
            return Err(AddressError::Missing("host"));
        }
        if host.contains('/') {
            return Err(AddressError::Invalid("host"));
        }
        let port = url.port().unwrap_or(default_port);
        if port == 0 {
            return Err(AddressError::Invalid("port"));
        }
        Ok(Self {
            server,
            host,
            port,
            login: Login::from_url(&url)?,
        })
    }
}

impl Login {
    fn from_url(url: &Url) -> Result<Self, AddressError> {
        let user = decoded(url.username(), "user")?;
        if user.is_empty() {
            return Err(AddressError::Missing("user"));
        }
        let path = url.path();
        let name = path.strip_prefix('/').unwrap_or(path);
        if name.contains('/') {
            return Err(AddressError::Invalid("database"));
        }
        let password = url.password().map(|text| decoded(text, "password")).transpose()?;
        Ok(Self {
            user,
            password,
            database: decoded(name, "database")?,
        })
    }
}

impl fmt::Debug for Login {
    /// Without the password, because the output of `Debug` can appear in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "..."))
            .field("database", &self.database)
            .finish()
    }
}

/// Percent-decodes a part. A NUL is refused, because both protocols end texts with it.
fn decoded(text: &str, part: &'static str) -> Result<String, AddressError> {
    let text = percent_decode_str(text)
        .decode_utf8()
        .map_err(|_| AddressError::Invalid(part))?;
    if text.contains('\0') {
        return Err(AddressError::Invalid(part));
    }
    Ok(text.into_owned())
}

fn check_parameters(url: &Url) -> Result<(), AddressError> {
    for (name, value) in url.query_pairs() {
        match (&*name, &*value) {
            ("sslmode", "disable" | "allow" | "prefer") => {}
            ("sslmode", _) => return Err(AddressError::Tls(value.into_owned())),
            _ => return Err(AddressError::Parameter(name.into_owned())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(url: &str) -> Address {
        Address::from_url(url).unwrap()
    }

    #[test]
    fn all_parts_are_parsed() {
        let address = address("postgresql://l%40b:p%3A%2Fw%20%C3%A9@db.example.org:6000/my%20data");
        assert_eq!((address.server, address.port), (Server::Postgres, 6000));
        assert_eq!(address.host, "db.example.org");
        assert_eq!(address.login.user, "l@b");
        assert_eq!(address.login.password.as_deref(), Some("p:/w é"));
        assert_eq!(address.login.database, "my data");
        assert!(!format!("{address:?}").contains("p:/w"), "{address:?}");
    }

    #[test]
    fn optional_parts_have_defaults() {
        let local = address("mariadb://root@[::1]");
        assert_eq!((local.server, local.port), (Server::Mysql, 3306));
        assert_eq!((local.host.as_str(), local.login.database.as_str()), ("::1", ""));
        assert_eq!(local.login.password, None);
        assert_eq!(address("mysql://a:@h:1/x").login.password, None);
        let remote = address("postgres://a@h/?sslmode=prefer");
        assert_eq!((remote.port, remote.login.database.as_str()), (5432, ""));
    }

    #[test]
    fn invalid_urls_are_refused_without_showing_the_password() {
        for (url, part) in [
            ("http://a:secret@h/x", "expected postgresql://"),
            ("postgresql:a", "host is missing"),
            ("nothing", "expected"),
            ("mysql://:secret@h/x", "user is missing"),
            ("mysql:///x", "host is missing"),
            ("mysql://a:secret@h:99999/x", "expected"),
            ("mysql://a:secret@h:0/x", "port"),
            ("mysql://a:secret%00@h/x", "password is not valid"),
            ("mysql://a:secret%ff@h/x", "password is not valid"),
            ("mysql://a:secret@h/x/y", "database is not valid"),
            ("postgresql://a:secret@%2Fvar%2Frun/x", "host"),
            ("postgresql://a:secret@h/x?sslmode=require", "TLS"),
            ("postgresql://a:secret@h/x?options=-c", "options"),
            ("postgresql://a:secret@h/x#y", "expected"),
        ] {
            let message = Address::from_url(url).unwrap_err().to_string();
            assert!(message.contains(part), "{url}: {message}");
            assert!(!message.contains("secret"), "{url}: {message}");
        }
    }
}
