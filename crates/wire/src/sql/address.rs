//! Where a database is, and who logs in: URLs as the servers' own clients take them.

use std::fmt;

use percent_encoding::percent_decode_str;
use url::{Host, Url};

use super::{Login, Server};

/// A server's place, and a login there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Which server speaks there.
    pub server: Server,
    /// Name or address of the host; an IPv6 address has no brackets.
    pub host: String,
    /// TCP port, 1 to 65535.
    pub port: u16,
    /// Who logs in.
    pub login: Login,
}

/// What is wrong with a URL. It never holds the URL itself, in which there may be a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not a URL, or of another scheme.
    #[error(
        "expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE or mysql:// or mariadb:// with the same parts"
    )]
    Form,
    /// A part is missing.
    #[error("the {0} is missing")]
    Missing(&'static str),
    /// A part is not what can stand there.
    #[error("the {0} is not valid: percent-encode what is not a letter or digit")]
    Invalid(&'static str),
    /// A parameter after `?`.
    #[error("the parameter {0} is not known: only sslmode=disable, allow or prefer may be given")]
    Parameter(String),
    /// TLS is demanded.
    #[error("sslmode={0}: a URL does not ask for TLS; leave sslmode out (the driver sql has the key tls)")]
    Tls(String),
}

impl Address {
    /// Reads `postgresql://`, `postgres://`, `mysql://` and `mariadb://` URLs. User, password and
    /// database are percent-decoded; the port is 5432 or 3306 if none is given.
    pub fn from_url(url: &str) -> Result<Self, AddressError> {
        let url = Url::parse(url).map_err(|_| AddressError::Form)?;
        let (server, usual_port) = match url.scheme() {
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
        let port = url.port().unwrap_or(usual_port);
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
    /// Without the password: what is printed for debugging lands in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "..."))
            .field("database", &self.database)
            .finish()
    }
}

/// Both protocols end texts with a NUL, so none can stand in one.
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
    fn all_parts_are_read() {
        let found = address("postgresql://l%40b:p%3A%2Fw%20%C3%A9@db.example.org:6000/my%20data");
        assert_eq!((found.server, found.port), (Server::Postgres, 6000));
        assert_eq!(found.host, "db.example.org");
        assert_eq!(found.login.user, "l@b");
        assert_eq!(found.login.password.as_deref(), Some("p:/w é"));
        assert_eq!(found.login.database, "my data");
        assert!(!format!("{found:?}").contains("p:/w"), "{found:?}");
    }

    #[test]
    fn parts_may_be_left_out() {
        let found = address("mariadb://root@[::1]");
        assert_eq!((found.server, found.port), (Server::Mysql, 3306));
        assert_eq!((found.host.as_str(), found.login.database.as_str()), ("::1", ""));
        assert_eq!(found.login.password, None);
        assert_eq!(address("mysql://a:@h:1/x").login.password, None);
        let found = address("postgres://a@h/?sslmode=prefer");
        assert_eq!((found.port, found.login.database.as_str()), (5432, ""));
    }

    #[test]
    fn what_cannot_be_is_refused_without_the_password() {
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
