//! The token with which an agent dials in: addresses and pin of the controller, and the agent's own
//! keys.
//!
//! A token authorises its holder to be an agent of one experiment. The bootstrap channel transfers
//! it into a file that only its owner may read, or to standard input. It never appears on a command
//! line, which every user of a host can list.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use plimsoll_model::{format, grouped};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::identity::{Identity, Keys, Pin, Secret};
use crate::transport::Transport;

/// Name and version of the document.
pub const FORMAT: &str = "plimsoll.token/1";
/// Maximum size of the document, bytes. A token with 16 addresses has about 1,500.
pub const MAX_TOKEN_BYTES: usize = 64 * 1024;
/// How long standard input may take to end.
pub const TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of addresses in a token.
const MAX_ADDRESSES: usize = 64;
/// Length of the key of the time probes, bytes.
const TIME_KEY: usize = 32;

/// The authorisation to be an agent of one experiment. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct Token {
    /// Name of the experiment, for messages: 1 to 128 letters, digits and `._-+`.
    pub experiment: String,
    /// Version of the controller's engine. An agent of another version does not dial.
    pub engine: String,
    /// Addresses of the controller as `host:port`, 1 to 64, tried in this order.
    pub addresses: Vec<String>,
    /// Transports of the controller, 1 or 2, tried in this order at each address.
    pub transports: Vec<Transport>,
    /// Pin of the controller's certificate.
    pub controller: Pin,
    /// Identity of the agents.
    pub agent: Identity,
    /// Key of the time probes, 32 bytes.
    pub time_key: Secret,
    /// UDP port of the time service at the same hosts; 0 if there is none.
    pub time_port: u16,
}

/// Where a token is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file that only its owner may read or write.
    File(PathBuf),
    /// Standard input, to its end.
    Stdin,
}

impl From<&Path> for Source {
    /// `-` is standard input.
    fn from(path: &Path) -> Self {
        if path == Path::new("-") {
            Self::Stdin
        } else {
            Self::File(path.to_owned())
        }
    }
}

/// Why a token cannot be used. No message contains a part of the document.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The token cannot be read or written.
    #[error("cannot read or write the token {source_name}: {error}")]
    Io {
        /// The file, or "standard input".
        source_name: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// Other users can read the file, so they may have the token.
    #[error("other users can read or write {} (mode {mode:03o}): run chmod 600; if they had access for long, use a new token", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Permission bits of the file.
        mode: u32,
    },
    /// The path is a directory, a device or a pipe.
    #[error("{} is not a regular file", .0.display())]
    Kind(PathBuf),
    /// Standard input did not end. Contains the time limit.
    #[error("standard input did not end within {} s: write the token, then close it", .0.as_secs())]
    Slow(Duration),
    /// The document is longer than [`MAX_TOKEN_BYTES`].
    #[error("the token is too large: at most {} bytes are allowed", grouped(MAX_TOKEN_BYTES as u64))]
    Large,
    /// The document is not a JSON object.
    #[error("not a token: invalid JSON at line {line}, column {column}; the token may be incomplete")]
    Syntax {
        /// Line of the error, from 1.
        line: usize,
        /// Column of the error, from 1.
        column: usize,
    },
    /// The document has another format or a later version. Contains its format.
    #[error("not a token: expected format {FORMAT}, got \"{0}\"")]
    Version(String),
    /// A field is missing or invalid.
    #[error("field {field:?} of the token is missing or invalid: expected {expected}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Description of a valid value.
        expected: &'static str,
    },
}

impl Token {
    /// A token for the agents of `experiment`. The controller has `keys`, runs engine version
    /// `engine` and is reached at `addresses` (`host:port`).
    ///
    /// # Errors
    /// [`TokenError::Field`]: an argument that an agent would reject.
    pub fn new(
        experiment: &str,
        engine: &str,
        keys: &Keys,
        addresses: Vec<String>,
        transports: Vec<Transport>,
        time_port: u16,
    ) -> Result<Self, TokenError> {
        Self {
            experiment: experiment.to_owned(),
            engine: engine.to_owned(),
            addresses,
            transports,
            controller: keys.controller.pin(),
            agent: keys.agents.clone(),
            time_key: keys.time.clone(),
            time_port,
        }
        .checked()
    }

    /// Reads and checks a token.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn read(source: &Source) -> Result<Self, TokenError> {
        match source {
            Source::File(path) => Self::parse(&read_private(path)?),
            Source::Stdin => Self::parse(&read_within(io::stdin(), TIMEOUT)?),
        }
    }

    /// Parses and checks the document of a token.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn parse(document: &[u8]) -> Result<Self, TokenError> {
        if document.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::Large);
        }
        // The messages of the library are not used: they quote values, which may be the key.
        let mut fields: Map<String, Value> =
            serde_json::from_slice(document).map_err(|error| TokenError::Syntax {
                line: error.line(),
                column: error.column(),
            })?;
        let name: String = take_field(&mut fields, "format", "the name of the format")?;
        if !format::readable(FORMAT, &name) {
            return Err(TokenError::Version(name.escape_default().take(64).collect()));
        }
        let fields = &mut fields;
        Self {
            experiment: take_field(fields, "experiment", "a name")?,
            engine: take_field(fields, "engine", "a version")?,
            addresses: take_field(fields, "addresses", "a list of host:port")?,
            transports: take_field(fields, "transports", "a list of tcp and quic")?,
            controller: take_field(fields, "controller", "64 hexadecimal digits")?,
            agent: Identity::from_parts(
                take_base64(fields, "certificate")?,
                Secret::new(take_base64(fields, "key")?),
            ),
            time_key: Secret::new(take_base64(fields, "time_key")?),
            time_port: take_field(fields, "time_port", "a port, or 0")?,
        }
        .checked()
    }

    /// The document, including its secrets. Use it only for the bootstrap channel.
    pub fn reveal(&self) -> String {
        json!({
            "format": FORMAT,
            "experiment": self.experiment,
            "engine": self.engine,
            "addresses": self.addresses,
            "transports": self.transports,
            "controller": self.controller,
            "certificate": BASE64_STANDARD.encode(self.agent.certificate()),
            "key": BASE64_STANDARD.encode(self.agent.key().reveal()),
            "time_key": BASE64_STANDARD.encode(self.time_key.reveal()),
            "time_port": self.time_port,
        })
        .to_string()
    }

    /// Writes the document to a file that only its owner can read (mode 600). A reader sees the
    /// whole document or none.
    ///
    /// # Errors
    /// [`TokenError::Io`].
    pub fn write(&self, path: &Path) -> Result<(), TokenError> {
        let failed = |error| io_error(path, error);
        let name = path
            .file_name()
            .ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        let temporary = path.with_file_name(format!(".{}.{}", name.display(), std::process::id()));
        let done = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)
            .and_then(|mut file| {
                file.write_all(self.reveal().as_bytes())?;
                file.sync_all()?;
                fs::rename(&temporary, path)
            });
        if done.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        done.map_err(failed)
    }

    /// Checks all fields. Names appear in messages and events, so they may only contain word
    /// characters.
    fn checked(self) -> Result<Self, TokenError> {
        let rules = [
            (
                is_word(&self.experiment),
                "experiment",
                "1 to 128 letters, digits and . _ - +",
            ),
            (is_word(&self.engine), "engine", "a version"),
            (
                (1..=MAX_ADDRESSES).contains(&self.addresses.len())
                    && self.addresses.iter().all(|address| is_address(address)),
                "addresses",
                "1 to 64 of host:port, IPv6 as [::1]:port",
            ),
            (
                (1..=2).contains(&self.transports.len()),
                "transports",
                "tcp, quic or both",
            ),
            (
                self.agent.client(self.controller).is_ok(),
                "key",
                "the PKCS #8 key of the certificate, both in base64",
            ),
            (
                self.time_key.reveal().len() == TIME_KEY,
                "time_key",
                "32 bytes in base64",
            ),
        ];
        match rules.into_iter().find(|(holds, ..)| !holds) {
            None => Ok(self),
            Some((_, field, expected)) => Err(TokenError::Field { field, expected }),
        }
    }
}

/// Host and port of `host:port`, without the brackets of IPv6.
pub(crate) fn host_and_port(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    Some((host, port.parse().ok()?))
}

fn is_address(address: &str) -> bool {
    host_and_port(address).is_some_and(|(host, port)| {
        port != 0
            && (1..=253).contains(&host.len())
            && host
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte))
    })
}

fn is_word(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-+".contains(&byte))
}

fn take_field<T: DeserializeOwned>(
    fields: &mut Map<String, Value>,
    field: &'static str,
    expected: &'static str,
) -> Result<T, TokenError> {
    let value = fields.remove(field).unwrap_or(Value::Null);
    serde_json::from_value(value).map_err(|_| TokenError::Field { field, expected })
}

fn take_base64(fields: &mut Map<String, Value>, field: &'static str) -> Result<Vec<u8>, TokenError> {
    let expected = "base64";
    let text: String = take_field(fields, field, expected)?;
    BASE64_STANDARD
        .decode(text)
        .map_err(|_| TokenError::Field { field, expected })
}

fn read_private(path: &Path) -> Result<Vec<u8>, TokenError> {
    let failed = |error| io_error(path, error);
    // Checked before the open, because the open of a pipe waits for its writer. Checked again after
    // the open, because the path may name another file by then.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(TokenError::Kind(path.to_owned()));
    }
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(TokenError::Kind(path.to_owned()));
    }
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(TokenError::Open {
            path: path.to_owned(),
            mode,
        });
    }
    read_bounded(file).map_err(failed)
}

/// Reads in a separate thread, which is abandoned at the time limit. There is no other way to stop
/// waiting for a standard input that may be a terminal, a pipe or a file.
fn read_within(input: impl Read + Send + 'static, max_wait: Duration) -> Result<Vec<u8>, TokenError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::spawn(move || sender.send(read_bounded(input)));
    match receiver.recv_timeout(max_wait) {
        Ok(read) => read.map_err(|error| io_error("standard input", error)),
        Err(_) => Err(TokenError::Slow(max_wait)),
    }
}

/// Reads one byte more than is allowed, which shows that the document is too large.
fn read_bounded(input: impl Read) -> io::Result<Vec<u8>> {
    let mut document = Vec::new();
    input
        .take(MAX_TOKEN_BYTES as u64 + 1)
        .read_to_end(&mut document)?;
    Ok(document)
}

fn io_error(source: impl AsRef<Path>, error: io::Error) -> TokenError {
    TokenError::Io {
        source_name: source.as_ref().display().to_string(),
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        let addresses = vec!["controller.example:4000".into(), "[::1]:4000".into()];
        let transports = vec![Transport::Quic, Transport::Tcp];
        Token::new(
            "study-1",
            "0.1.0",
            &Keys::generate().unwrap(),
            addresses,
            transports,
            4001,
        )
        .unwrap()
    }

    /// A directory for one test, which the test removes at its end.
    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("plimsoll-token-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn altered(change: impl FnOnce(&mut Map<String, Value>)) -> Result<Token, TokenError> {
        let mut document: Map<String, Value> = serde_json::from_str(&token().reveal()).unwrap();
        change(&mut document);
        Token::parse(&serde_json::to_vec(&document).unwrap())
    }

    #[test]
    fn a_written_token_is_private_and_is_read_again() {
        let directory = directory("roundtrip");
        let path = directory.join("token");
        let token = token();
        token.write(&path).unwrap();
        token.write(&path).unwrap(); // again, over the old one
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        let read = Token::read(&Source::File(path)).unwrap();
        assert_eq!(read.reveal(), token.reveal());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_file_that_other_users_can_access_is_refused() {
        let directory = directory("open");
        let path = directory.join("token");
        token().write(&path).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o601, 0o644] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = Token::read(&Source::File(path.clone())).unwrap_err();
            assert!(
                matches!(error, TokenError::Open { mode: found, .. } if found == mode),
                "{error}"
            );
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert!(Token::read(&Source::File(path)).is_ok());
        let error = Token::read(&Source::File(directory.clone())).unwrap_err();
        assert!(matches!(error, TokenError::Kind(_)), "{error}");
        let error = Token::read(&Source::File(directory.join("none"))).unwrap_err();
        assert!(error.to_string().contains("none"), "{error}");
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn an_incomplete_document_is_refused_without_showing_the_key() {
        let token = token();
        let document = token.reveal();
        let key = BASE64_STANDARD.encode(token.agent.key().reveal());
        for end in 0..document.len() {
            let error = Token::parse(&document.as_bytes()[..end]).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(matches!(error, TokenError::Syntax { .. }), "{end}: {shown}");
            assert!(!shown.contains(&key[..16]));
        }
    }

    #[test]
    fn other_formats_are_refused_and_unknown_fields_are_accepted() {
        for other in [
            "plimsoll.token/2",
            "plimsoll.run/1",
            "nothing",
            &"\u{1b}".repeat(9999),
        ] {
            let error = altered(|fields| {
                fields.insert("format".into(), other.into());
            })
            .unwrap_err();
            assert!(matches!(error, TokenError::Version(_)), "{error}");
            assert!(
                error.to_string().is_ascii() && error.to_string().len() < 300,
                "{error}"
            );
        }
        let later = |fields: &mut Map<String, Value>| {
            fields.insert("new in a minor version".into(), true.into());
        };
        assert!(altered(later).is_ok());
    }

    #[test]
    fn each_field_is_checked_and_no_message_shows_a_value() {
        let marker = "c2VjcmV0LXNlY3JldA==";
        let names = [
            "experiment",
            "engine",
            "addresses",
            "transports",
            "controller",
            "certificate",
            "key",
            "time_key",
            "time_port",
        ];
        for name in names {
            for wrong in [Value::Null, json!({ marker: marker }), json!([marker]), json!(-1)] {
                let error = altered(|fields| {
                    fields.insert(name.into(), wrong);
                })
                .unwrap_err();
                let shown = format!("{error} {error:?}");
                assert!(
                    matches!(error, TokenError::Field { field, .. } if field == name),
                    "{shown}"
                );
                assert!(!shown.contains(marker), "{shown}");
            }
            let missing = altered(|fields| drop(fields.remove(name))).unwrap_err();
            assert!(missing.to_string().contains(name), "{missing}");
        }
        let swapped = altered(|fields| {
            let other = BASE64_STANDARD.encode(Identity::generate().unwrap().key().reveal());
            fields.insert("key".into(), other.into());
        });
        assert!(swapped.is_err());
    }

    #[test]
    fn addresses_are_hosts_with_ports() {
        let with =
            |address: &str| altered(|fields| drop(fields.insert("addresses".into(), json!([address]))));
        for good in ["h:1", "10.0.0.1:65535", "[fe80::1%eth0]:80", "a-b.c_d:9"] {
            assert!(with(good).is_ok(), "{good}");
        }
        for wrong in [
            "h", "h:0", "h:65536", ":80", "::1:80", "[::1:80", "a b:1", "a\n:1", "-o;x/y:1", "",
        ] {
            assert!(with(wrong).is_err(), "{wrong}");
        }
        assert!(altered(|fields| drop(fields.insert("addresses".into(), json!([])))).is_err());
        assert!(altered(|fields| drop(fields.insert("addresses".into(), json!(vec!["h:1"; 65])))).is_err());
    }

    #[test]
    fn endless_and_silent_input_end_the_read() {
        assert!(matches!(
            Token::parse(&vec![b' '; MAX_TOKEN_BYTES + 1]),
            Err(TokenError::Large)
        ));
        let endless = read_within(io::repeat(b' '), TIMEOUT).unwrap();
        assert_eq!(endless.len(), MAX_TOKEN_BYTES + 1);
        let (silent, _open) = io::pipe().unwrap();
        let error = read_within(silent, Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, TokenError::Slow(_)), "{error}");
    }

    #[test]
    fn debug_shows_no_secret() {
        let token = token();
        let shown = format!("{token:?}");
        assert!(shown.contains("study-1"), "{shown}");
        for secret in [token.agent.key(), &token.time_key] {
            assert!(
                !shown.contains(&BASE64_STANDARD.encode(secret.reveal())),
                "{shown}"
            );
            assert!(!shown.contains(&format!("{:?}", secret.reveal())), "{shown}");
        }
    }
}
