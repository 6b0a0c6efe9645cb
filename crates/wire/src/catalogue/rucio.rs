//! The part of Rucio's REST interface that has the operations of a file catalogue.
//!
//! Rucio has one level of names within a scope. A path of the data set, without its first `/`, is
//! such a name; a directory is a data set of Rucio, whose contents are the files. A replica has the
//! name of its storage element instead of a URL: `SE01`, `SE02`, ...; the server computes URLs.
//! An adler32 check sum is that of the data set: the first eight digits of the GUID.
//!
//! A list of replicas has `sort: random`. Otherwise Rucio sorts by distance, and looks up the
//! location of the client for it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};

/// Maximum length of the body of an answer, bytes.
pub const MAX_ANSWER: usize = 8 * 1024 * 1024;

/// Who a client is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The account of Rucio.
    pub account: String,
    /// The name of the identity.
    pub user: String,
    /// Its password.
    pub password: String,
}

/// What the requests of a client have in common.
#[derive(Debug, Clone, Copy)]
pub struct Session<'a> {
    /// Host and port for the field `Host`.
    pub host: &'a str,
    /// The scope of all names.
    pub scope: &'a str,
    /// The token; empty before there is one.
    pub token: &'a str,
    /// Whether the connection is kept.
    pub keep: bool,
}

/// A file to register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// Its name, without the scope.
    pub name: String,
    /// Its GUID: 36 characters.
    pub guid: String,
    /// Size, bytes.
    pub size: u64,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// Obtains a token. The answer has no body.
    Token(Login),
    /// Registers files, each with a replica at the first storage element.
    Add(Vec<NewFile>),
    /// Finds files with their replicas.
    Find(Vec<String>),
    /// Deletes the replicas at the first storage element, and files without other replicas.
    Delete(Vec<String>),
    /// Lists the files of a directory.
    List(String),
}

/// A file with its replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    /// Its name, without the scope.
    pub name: String,
    /// Its check sum: eight hexadecimal digits. None: it has none.
    pub adler32: Option<String>,
    /// Names of the storage elements with replicas, sorted.
    pub elements: Vec<String>,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It was carried out.
    Done,
    /// The files that were found, in any order.
    Files(Vec<FoundFile>),
    /// The names of a directory, without the scope.
    Names(Vec<String>),
    /// It was refused, or it failed.
    Failed {
        /// Name of the exception; empty: the answer is not one of Rucio.
        class: String,
        /// A text for people.
        message: String,
    },
}

/// The body of an answer is not one to the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("line {0} of the answer is not one of Rucio")]
pub struct RucioError(pub usize);

/// Name of a storage element, from 0.
pub fn element(number: u32) -> String {
    format!("SE{:02}", number + 1)
}

/// The name of a path of the data set.
pub fn name_of(path: &str) -> &str {
    path.trim_start_matches('/')
}

/// The check sum of the file with this GUID.
pub fn adler32_of(guid: &str) -> &str {
    guid.get(..8).unwrap_or_default()
}

/// The token in the head of an answer.
pub fn token_of(head: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(head).ok()?;
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let (_, token) = fields.find(|(name, _)| name.eq_ignore_ascii_case("X-Rucio-Auth-Token"))?;
    Some(token.trim()).filter(|token| !token.is_empty())
}

impl Call {
    /// Whether it changes the catalogue.
    pub fn is_change(&self) -> bool {
        matches!(self, Self::Add(_) | Self::Delete(_))
    }

    /// Appends the request.
    pub fn encode(&self, session: &Session<'_>, out: &mut Vec<u8>) {
        let scope = session.scope;
        let (method, path) = match self {
            Self::Token(_) => ("GET", "/auth/userpass".into()),
            Self::Add(_) => ("POST", "/replicas".into()),
            Self::Find(_) => ("POST", "/replicas/list".into()),
            Self::Delete(_) => ("DELETE", "/replicas".into()),
            Self::List(directory) => ("GET", format!("/dids/{scope}/{directory}/dids")),
        };
        let body = self.body(scope).map(|body| body.to_string());
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        let mut field = |name: &str, value: &str| head.extend([name, ": ", value, "\r\n"]);
        field("Host", session.host);
        if let Self::Token(login) = self {
            field("X-Rucio-Account", &login.account);
            field("X-Rucio-Username", &login.user);
            field("X-Rucio-Password", &login.password);
        } else {
            field("X-Rucio-Auth-Token", session.token);
        }
        if !session.keep {
            field("Connection", "close");
        }
        if let Some(body) = &body {
            field("Content-Type", "application/json");
            field("Content-Length", &body.len().to_string());
        }
        for part in [head, "\r\n".into(), body.unwrap_or_default()] {
            out.extend_from_slice(part.as_bytes());
        }
    }

    fn body(&self, scope: &str) -> Option<Value> {
        let identifier = |name: &String| json!({"scope": scope, "name": name});
        Some(match self {
            Self::Token(_) | Self::List(_) => return None,
            Self::Add(files) => {
                let file = |file: &NewFile| {
                    json!({
                        "scope": scope, "name": file.name, "bytes": file.size,
                        "adler32": adler32_of(&file.guid), "meta": {"guid": file.guid},
                    })
                };
                json!({"rse": element(0), "files": files.iter().map(file).collect::<Vec<_>>()})
            }
            Self::Find(names) => {
                let dids: Vec<_> = names.iter().map(identifier).collect();
                json!({"dids": dids, "sort": "random"})
            }
            Self::Delete(names) => {
                let files: Vec<_> = names.iter().map(identifier).collect();
                json!({"rse": element(0), "files": files})
            }
        })
    }
}

/// A line of a list of replicas.
#[derive(Deserialize)]
struct ReplicasLine {
    name: String,
    adler32: Option<String>,
    #[expect(
        clippy::zero_sized_map_values,
        reason = "the values of the object are read over"
    )]
    rses: BTreeMap<String, IgnoredAny>,
}

/// A line of the contents of a data set.
#[derive(Deserialize)]
struct NameLine {
    name: String,
}

/// The body of an error.
#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct Exception {
    exception_class: String,
    exception_message: String,
}

impl Answer {
    /// The answer with this status and this body.
    pub fn decode(call: &Call, status: u16, body: &[u8]) -> Result<Self, RucioError> {
        if !(200..300).contains(&status) {
            // The body of a proxy's answer is not JSON.
            let found: Exception = serde_json::from_slice(body).unwrap_or_default();
            return Ok(Self::Failed {
                class: found.exception_class,
                message: found.exception_message,
            });
        }
        Ok(match call {
            Call::Token(_) | Call::Add(_) | Call::Delete(_) => Self::Done,
            Call::Find(_) => Self::Files(lines(body, |line: ReplicasLine| FoundFile {
                name: line.name,
                adler32: line.adler32,
                elements: line.rses.into_keys().collect(),
            })?),
            Call::List(_) => Self::Names(lines(body, |line: NameLine| line.name)?),
        })
    }
}

/// One value of each line that is not empty.
fn lines<L: DeserializeOwned, T>(body: &[u8], value: impl Fn(L) -> T) -> Result<Vec<T>, RucioError> {
    let lines = body.split(|byte| *byte == b'\n').zip(1..);
    lines
        .filter(|(line, _)| !line.trim_ascii().is_empty())
        .map(|(line, number)| {
            serde_json::from_slice(line)
                .map_err(|_| RucioError(number))
                .map(&value)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUID: &str = "940549e9-6508-53f0-a48a-842f119c3fb9";

    fn text(call: &Call, token: &str, keep: bool) -> String {
        let session = Session {
            host: "[::1]:80",
            scope: "plimsoll",
            token,
            keep,
        };
        let mut out = Vec::new();
        call.encode(&session, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_login_has_a_password_and_no_token() {
        let login = Login {
            account: "root".into(),
            user: "u".into(),
            password: "p".into(),
        };
        assert_eq!(
            text(&Call::Token(login), "old", true),
            "GET /auth/userpass HTTP/1.1\r\nHost: [::1]:80\r\nX-Rucio-Account: root\r\nX-Rucio-Username: u\r\n\
             X-Rucio-Password: p\r\n\r\n"
        );
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nx-rucio-auth-token: root-u-1\r\n\r\n";
        assert_eq!(token_of(head), Some("root-u-1"));
        assert_eq!(token_of(b"HTTP/1.1 200 OK\r\nX-Rucio-Auth-Token: \r\n\r\n"), None);
        assert_eq!(token_of(b"HTTP/1.1 200 OK\r\n\r\n"), None);
    }

    #[test]
    fn a_request_has_its_length_and_a_token() {
        let names = vec!["grid/a".to_owned()];
        let file = NewFile {
            name: "grid/a".into(),
            guid: GUID.into(),
            size: 5,
        };
        for (call, line, expected) in [
            (
                Call::Add(vec![file]),
                "POST /replicas HTTP/1.1",
                json!({"rse": "SE01", "files": [{"scope": "plimsoll", "name": "grid/a", "bytes": 5,
                       "adler32": "940549e9", "meta": {"guid": GUID}}]}),
            ),
            (
                Call::Find(names.clone()),
                "POST /replicas/list HTTP/1.1",
                json!({"sort": "random", "dids": [{"scope": "plimsoll", "name": "grid/a"}]}),
            ),
            (
                Call::Delete(names),
                "DELETE /replicas HTTP/1.1",
                json!({"rse": "SE01", "files": [{"scope": "plimsoll", "name": "grid/a"}]}),
            ),
        ] {
            let text = text(&call, "t", false);
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with(line), "{head}");
            let length = format!("\r\nContent-Length: {}", body.len());
            assert!(
                head.contains("\r\nX-Rucio-Auth-Token: t\r\n") && head.contains(&length),
                "{head}"
            );
            assert!(head.contains("\r\nConnection: close\r\n"));
            assert_eq!(serde_json::from_str::<Value>(body).unwrap(), expected);
        }
        let list = text(&Call::List("grid/data/d000001".into()), "t", true);
        assert_eq!(
            list,
            "GET /dids/plimsoll/grid/data/d000001/dids HTTP/1.1\r\nHost: [::1]:80\r\nX-Rucio-Auth-Token: t\r\n\r\n"
        );
    }

    #[test]
    fn an_answer_has_one_file_in_each_line() {
        let find = Call::Find(vec!["a".into()]);
        let line = r#"{"scope": "plimsoll", "name": "a", "bytes": 5, "md5": null, "adler32": "0123abcd",
            "pfns": {}, "rses": {"SE02": ["davs://b"], "SE01": ["davs://a"]}, "states": {}}"#;
        let body = format!("{}\n\n", line.replace('\n', " "));
        let file = FoundFile {
            name: "a".into(),
            adler32: Some("0123abcd".into()),
            elements: vec!["SE01".into(), "SE02".into()],
        };
        assert_eq!(
            Answer::decode(&find, 200, body.as_bytes()),
            Ok(Answer::Files(vec![file]))
        );
        assert_eq!(Answer::decode(&find, 200, b""), Ok(Answer::Files(vec![])));
        assert_eq!(
            Answer::decode(&find, 200, b"\n{\"name\": 5}\n"),
            Err(RucioError(2))
        );
        let list = Call::List("d".into());
        let names = b"{\"scope\": \"s\", \"name\": \"a\"}\n{\"name\": \"b\"}\n";
        assert_eq!(
            Answer::decode(&list, 200, names),
            Ok(Answer::Names(vec!["a".into(), "b".into()]))
        );
        assert_eq!(Answer::decode(&Call::Add(vec![]), 201, b"x"), Ok(Answer::Done));
    }

    #[test]
    fn a_failure_has_the_name_of_its_exception() {
        let call = Call::Delete(vec![]);
        let body = br#"{"ExceptionClass": "ReplicaNotFound", "ExceptionMessage": "none"}"#;
        let failed = |class: &str, message: &str| {
            Ok(Answer::Failed {
                class: class.into(),
                message: message.into(),
            })
        };
        assert_eq!(
            Answer::decode(&call, 404, body),
            failed("ReplicaNotFound", "none")
        );
        assert_eq!(Answer::decode(&call, 502, b"<html>"), failed("", ""));
    }
}
