//! Messages to the catalogue.

use super::NAMESPACE;
use super::envelope;
use super::fault::Fault;
use super::paths;
use super::xml::{Space, Tag, Xml, XmlError, items, once, put_text, put_value};
use crate::catalogue::{Key, MAX_BULK, NewEntry, Request};

/// A kind of operations. The names follow those of `FiReMan`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Registers entries with their replicas.
    Create,
    /// Reads entries with their replicas.
    ListReplicas,
    /// Whether there are entries.
    HasEntry,
    /// A page of the names of one directory.
    ReadDirectory,
    /// Deletes entries with their replicas.
    Remove,
    /// Creates directories.
    MakeDirectory,
    /// Changes the permissions of entries and directories.
    SetPermission,
    /// Adds replicas to entries.
    AddReplica,
    /// Removes replicas.
    RemoveReplica,
    /// Creates symbolic links.
    MakeLink,
    /// The path to which one symbolic link leads.
    ReadLink,
    /// The ACL of one entry or directory.
    GetAcl,
    /// Replaces the ACLs of entries and directories.
    SetAcl,
}

impl Operation {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::Create,
        Self::ListReplicas,
        Self::HasEntry,
        Self::ReadDirectory,
        Self::Remove,
        Self::MakeDirectory,
        Self::SetPermission,
        Self::AddReplica,
        Self::RemoveReplica,
        Self::MakeLink,
        Self::ReadLink,
        Self::GetAcl,
        Self::SetAcl,
    ];

    /// Name of the element of its messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::ListReplicas => "listReplicas",
            Self::HasEntry => "hasEntry",
            Self::ReadDirectory => "readDir",
            Self::Remove => "remove",
            Self::MakeDirectory => "mkdir",
            Self::SetPermission => "setPermission",
            Self::AddReplica => "addReplica",
            Self::RemoveReplica => "removeReplica",
            Self::MakeLink => "symlink",
            Self::ReadLink => "readLink",
            Self::GetAcl => "getAcl",
            Self::SetAcl => "setAcl",
        }
    }

    /// Whether it changes the catalogue.
    pub fn is_change(self) -> bool {
        !matches!(
            self,
            Self::ListReplicas | Self::HasEntry | Self::ReadDirectory | Self::ReadLink | Self::GetAcl
        )
    }

    /// The kind of a request; none if no message contains it.
    fn of(request: &Request) -> Option<Self> {
        Some(match request {
            Request::Register(_) => Self::Create,
            Request::Lookup(_) => Self::ListReplicas,
            Request::List { .. } => Self::ReadDirectory,
            Request::Delete(_) => Self::Remove,
            Request::MakeDirectory { .. } => Self::MakeDirectory,
            Request::SetMode { .. } => Self::SetPermission,
            Request::AddReplica { .. } => Self::AddReplica,
            Request::DeleteReplica { .. } => Self::RemoveReplica,
            Request::MakeLink { .. } => Self::MakeLink,
            Request::ReadLink { .. } => Self::ReadLink,
            Request::GetAcl { .. } => Self::GetAcl,
            Request::SetAcl { .. } => Self::SetAcl,
            _ => return None,
        })
    }
}

/// The operations of a message, as requests of the stateful protocol: one request with all entries,
/// or one request for each operation of a kind that has no bulk there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    operation: Operation,
    requests: Vec<Request>,
}

impl Call {
    /// The message for requests of one kind. None: they are of several kinds, or no message
    /// contains them.
    pub fn of(requests: Vec<Request>) -> Option<Self> {
        let operation = Operation::of(requests.first()?)?;
        let is_one = matches!(operation, Operation::ReadLink | Operation::GetAcl);
        if is_one && requests.len() > 1 {
            return None;
        }
        let is_same = |request| Operation::of(request) == Some(operation);
        requests
            .iter()
            .all(is_same)
            .then_some(Self { operation, requests })
    }

    /// The message that asks whether there are entries.
    pub fn existence(keys: Vec<Key>) -> Self {
        Self {
            operation: Operation::HasEntry,
            requests: vec![Request::Lookup(keys)],
        }
    }

    /// Its kind.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Its operations.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Appends the message. `subject`: who the client is; empty: it has a certificate, or is
    /// unknown.
    pub fn encode(&self, subject: &str, out: &mut String) {
        let mut header = String::new();
        if !subject.is_empty() {
            header.extend(["<subject xmlns=\"", NAMESPACE, "\">"]);
            super::xml::put_escaped(&mut header, subject);
            header.push_str("</subject>");
        }
        envelope::put(out, &header, |out| {
            let name = self.operation.name();
            out.extend(["<", name, " xmlns=\"", NAMESPACE, "\">"]);
            for request in &self.requests {
                put(request, out);
            }
            out.extend(["</", name, ">"]);
        });
    }
}

fn put(request: &Request, out: &mut String) {
    match request {
        Request::Register(entries) => {
            for entry in entries {
                out.push_str("<entry>");
                put_text(out, "path", &entry.path);
                put_text(out, "guid", &entry.guid);
                put_value(out, "size", entry.size);
                put_value(out, "mode", entry.mode);
                put_text(out, "replica", &entry.replica);
                out.push_str("</entry>");
            }
        }
        Request::Lookup(keys) | Request::Delete(keys) => {
            for key in keys {
                out.push_str("<key>");
                match key {
                    Key::Path(text) => put_text(out, "path", text),
                    Key::Guid(text) => put_text(out, "guid", text),
                    Key::Replica(text) => put_text(out, "replica", text),
                }
                out.push_str("</key>");
            }
        }
        Request::List { path, after, max } => {
            put_text(out, "path", path);
            put_text(out, "after", after);
            put_value(out, "max", max);
        }
        Request::MakeDirectory { path, mode } => put_permission(out, "directory", path, *mode),
        Request::SetMode { path, mode } => put_permission(out, "permission", path, *mode),
        Request::AddReplica { guid, replica } => {
            out.push_str("<replica>");
            put_text(out, "guid", guid);
            put_text(out, "name", replica);
            out.push_str("</replica>");
        }
        Request::DeleteReplica { replica } => put_text(out, "replica", replica),
        _ => paths::put(request, out),
    }
}

fn put_permission(out: &mut String, name: &str, path: &str, mode: u32) {
    out.extend(["<", name, ">"]);
    put_text(out, "path", path);
    put_value(out, "mode", mode);
    out.extend(["</", name, ">"]);
}

/// A message of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who the client states to be; empty: it does not.
    pub subject: String,
    /// What is to be carried out.
    pub call: Call,
}

impl Message {
    /// The message in a text.
    ///
    /// # Errors
    /// The fault with which the service answers it.
    pub fn decode(message: &[u8]) -> Result<Self, Fault> {
        let mut subject = None;
        let header = |xml: &mut Xml<'_>, tag: &Tag| {
            if tag.is(Space::Catalogue, "subject") {
                return once(&mut subject, xml.text()?, tag);
            }
            if tag.must_understand {
                return Err(XmlError::MustUnderstand(tag.name.clone()));
            }
            xml.skip()
        };
        let call = envelope::read(message, header, body)?;
        Ok(Self {
            subject: subject.unwrap_or_default(),
            call,
        })
    }
}

fn body(xml: &mut Xml<'_>, tag: &Tag) -> Result<Call, XmlError> {
    let known = |operation: &Operation| tag.is(Space::Catalogue, operation.name());
    let operation = Operation::ALL
        .into_iter()
        .find(known)
        .ok_or_else(|| tag.unexpected())?;
    let requests = match operation {
        Operation::Create => vec![Request::Register(list(xml, "entry", |xml, _| entry(xml))?)],
        Operation::ListReplicas | Operation::HasEntry => {
            vec![Request::Lookup(list(xml, "key", |xml, _| key(xml))?)]
        }
        Operation::Remove => vec![Request::Delete(list(xml, "key", |xml, _| key(xml))?)],
        Operation::ReadDirectory => vec![page(xml)?],
        Operation::MakeDirectory => list(xml, "directory", |xml, _| {
            let (path, mode) = permission(xml)?;
            Ok(Request::MakeDirectory { path, mode })
        })?,
        Operation::SetPermission => list(xml, "permission", |xml, _| {
            let (path, mode) = permission(xml)?;
            Ok(Request::SetMode { path, mode })
        })?,
        Operation::AddReplica => list(xml, "replica", |xml, _| replica(xml))?,
        Operation::RemoveReplica => list(xml, "replica", |xml, _| {
            Ok(Request::DeleteReplica { replica: xml.text()? })
        })?,
        Operation::MakeLink => list(xml, "link", |xml, _| paths::link(xml))?,
        Operation::SetAcl => list(xml, "acl", |xml, _| paths::acl(xml))?,
        Operation::ReadLink => vec![Request::ReadLink {
            path: paths::path(xml)?,
        }],
        Operation::GetAcl => vec![Request::GetAcl {
            path: paths::path(xml)?,
        }],
    };
    Ok(Call { operation, requests })
}

/// The elements of a message, all of this name, at least one.
fn list<T>(
    xml: &mut Xml<'_>,
    name: &str,
    item: impl FnMut(&mut Xml<'_>, &Tag) -> Result<T, XmlError>,
) -> Result<Vec<T>, XmlError> {
    let items = items(xml, name, item)?;
    if items.is_empty() {
        return Err(XmlError::Count);
    }
    Ok(items)
}

fn entry(xml: &mut Xml<'_>) -> Result<NewEntry, XmlError> {
    let (mut path, mut guid, mut size, mut mode, mut replica) = (None, None, None, None, None);
    while let Some(tag) = xml.child()? {
        match tag.name.as_str() {
            "path" => once(&mut path, xml.text()?, &tag)?,
            "guid" => once(&mut guid, xml.text()?, &tag)?,
            "size" => once(&mut size, xml.value(&tag)?, &tag)?,
            "mode" => once(&mut mode, xml.value(&tag)?, &tag)?,
            "replica" => once(&mut replica, xml.text()?, &tag)?,
            _ => return Err(tag.unexpected()),
        }
    }
    Ok(NewEntry {
        path: path.ok_or(XmlError::Missing("path"))?,
        guid: guid.ok_or(XmlError::Missing("guid"))?,
        size: size.ok_or(XmlError::Missing("size"))?,
        mode: mode.ok_or(XmlError::Missing("mode"))?,
        replica: replica.ok_or(XmlError::Missing("replica"))?,
    })
}

fn key(xml: &mut Xml<'_>) -> Result<Key, XmlError> {
    let tag = xml.child()?.ok_or(XmlError::Missing("path"))?;
    let key = match tag.name.as_str() {
        "path" => Key::Path(xml.text()?),
        "guid" => Key::Guid(xml.text()?),
        "replica" => Key::Replica(xml.text()?),
        _ => return Err(tag.unexpected()),
    };
    match xml.child()? {
        None => Ok(key),
        Some(tag) => Err(tag.unexpected()),
    }
}

fn page(xml: &mut Xml<'_>) -> Result<Request, XmlError> {
    let (mut path, mut after, mut max) = (None, None, None);
    while let Some(tag) = xml.child()? {
        match tag.name.as_str() {
            "path" => once(&mut path, xml.text()?, &tag)?,
            "after" => once(&mut after, xml.text()?, &tag)?,
            "max" => {
                let number: u16 = xml.value(&tag)?;
                if !(1..=MAX_BULK).contains(&usize::from(number)) {
                    return Err(XmlError::Value(tag.name));
                }
                once(&mut max, number, &tag)?;
            }
            _ => return Err(tag.unexpected()),
        }
    }
    Ok(Request::List {
        path: path.ok_or(XmlError::Missing("path"))?,
        after: after.unwrap_or_default(),
        max: max.ok_or(XmlError::Missing("max"))?,
    })
}

fn permission(xml: &mut Xml<'_>) -> Result<(String, u32), XmlError> {
    let (mut path, mut mode) = (None, None);
    while let Some(tag) = xml.child()? {
        match tag.name.as_str() {
            "path" => once(&mut path, xml.text()?, &tag)?,
            "mode" => once(&mut mode, xml.value(&tag)?, &tag)?,
            _ => return Err(tag.unexpected()),
        }
    }
    let path = path.ok_or(XmlError::Missing("path"))?;
    Ok((path, mode.ok_or(XmlError::Missing("mode"))?))
}

fn replica(xml: &mut Xml<'_>) -> Result<Request, XmlError> {
    let (mut guid, mut name) = (None, None);
    while let Some(tag) = xml.child()? {
        match tag.name.as_str() {
            "guid" => once(&mut guid, xml.text()?, &tag)?,
            "name" => once(&mut name, xml.text()?, &tag)?,
            _ => return Err(tag.unexpected()),
        }
    }
    Ok(Request::AddReplica {
        guid: guid.ok_or(XmlError::Missing("guid"))?,
        replica: name.ok_or(XmlError::Missing("name"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::FaultCode;
    use super::*;

    fn calls() -> Vec<Call> {
        let text = |text: &str| text.to_owned();
        let keys = || {
            vec![
                Key::Path(text("/grid/a & b")),
                Key::Guid(text("g")),
                Key::Replica(text("srm://h/f")),
            ]
        };
        let entry = NewEntry {
            path: text("/grid/<a>"),
            guid: text("g"),
            size: 1 << 40,
            mode: 0o644,
            replica: text("srm://h/f"),
        };
        let mode = |path: &str| Request::SetMode {
            path: text(path),
            mode: 0o600,
        };
        let directory = Request::MakeDirectory {
            path: text("/grid/d"),
            mode: 0o755,
        };
        let page = Request::List {
            path: text("/grid"),
            after: String::new(),
            max: 1000,
        };
        let add = Request::AddReplica {
            guid: text("g"),
            replica: text("r"),
        };
        let remove = Request::DeleteReplica { replica: text("r") };
        let link = Request::MakeLink {
            path: text("/grid/l"),
            target: text("../<a>"),
        };
        let acl = Request::SetAcl {
            path: text("/grid/d"),
            acl: text("user::rwx\nuser:/O=a&b:r--"),
        };
        let read = Request::ReadLink {
            path: text("/grid/l"),
        };
        let get = Request::GetAcl {
            path: text("/grid/d"),
        };
        let mut calls: Vec<Call> = [
            vec![Request::Register(vec![entry; 3])],
            vec![Request::Lookup(keys())],
            vec![page],
            vec![Request::Delete(keys())],
            vec![directory.clone(), directory],
            vec![mode("/a"), mode("/ä")],
            vec![add],
            vec![remove.clone(), remove],
            vec![link.clone(), link],
            vec![acl.clone(), acl],
            vec![read],
            vec![get],
        ]
        .into_iter()
        .map(|requests| Call::of(requests).unwrap())
        .collect();
        calls.push(Call::existence(keys()));
        calls
    }

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let all = calls();
        assert_eq!(all.len(), Operation::ALL.len());
        for call in all {
            for subject in ["", "/O=Plimsoll/CN=a&b"] {
                let mut text = String::new();
                call.encode(subject, &mut text);
                let read = Message::decode(text.as_bytes()).unwrap();
                assert_eq!((read.subject.as_str(), &read.call), (subject, &call), "{text}");
                for length in (0..text.len()).filter(|length| text.is_char_boundary(*length)) {
                    assert!(Message::decode(&text.as_bytes()[..length]).is_err());
                }
            }
        }
    }

    /// Changed messages are read or refused, and never end the program.
    #[test]
    fn bytes_may_change_on_their_way() {
        use rand::{RngExt, SeedableRng};
        let mut draws = rand_pcg::Pcg64::seed_from_u64(7);
        for call in calls() {
            let mut text = String::new();
            call.encode("/O=a", &mut text);
            for _ in 0..300 {
                let mut bytes = text.clone().into_bytes();
                for _ in 0..draws.random_range(1..4) {
                    let index = draws.random_range(0..bytes.len());
                    match draws.random_range(0..3) {
                        0 => bytes[index] = draws.random_range(0..=255),
                        1 => drop(bytes.remove(index)),
                        _ => bytes.insert(index, b"<>/&;'\"![]-?"[draws.random_range(0..12)]),
                    }
                }
                let _ = Message::decode(&bytes);
            }
        }
    }

    #[test]
    fn a_message_has_operations_of_one_kind() {
        let remove = || Request::DeleteReplica { replica: "r".into() };
        assert_eq!(Call::of(vec![]), None);
        assert_eq!(Call::of(vec![Request::StartTransaction]), None);
        assert_eq!(Call::of(vec![remove(), Request::Lookup(vec![])]), None);
        let get = || Request::GetAcl { path: "/a".into() };
        assert_eq!(Call::of(vec![get(), get()]), None);
        let mut text = String::new();
        Call::of(vec![remove(); MAX_BULK + 1])
            .unwrap()
            .encode("", &mut text);
        let fault = Message::decode(text.as_bytes()).unwrap_err();
        assert!(fault.text.contains("1 to 1,000"), "{}", fault.text);
    }

    /// As SOAP clients write them: prefixes, header blocks, white space.
    fn message(header: &str, body: &str) -> String {
        format!(
            "<?xml version='1.0' encoding='UTF-8'?>\n<soap-env:Envelope \
             xmlns:soap-env=\"http://schemas.xmlsoap.org/soap/envelope/\" xmlns:c=\"urn:plimsoll:catalogue\">{header}\n \
             <soap-env:Body>\n  {body}\n </soap-env:Body>\n</soap-env:Envelope>\n"
        )
    }

    #[test]
    fn other_clients_may_write_a_message_in_another_way() {
        let text = message(
            "<soap-env:Header><t:trace xmlns:t='urn:t'><a/></t:trace></soap-env:Header>",
            "<c:readDir>\n<c:max> 10 </c:max><!-- a --><c:path>/grid</c:path></c:readDir>",
        );
        let read = Message::decode(text.as_bytes()).unwrap();
        assert_eq!(
            read.call.requests(),
            [Request::List {
                path: "/grid".into(),
                after: String::new(),
                max: 10
            }]
        );
    }

    #[test]
    fn a_message_that_cannot_be_carried_out_is_a_fault() {
        let fault = |text: &str| Message::decode(text.as_bytes()).unwrap_err();
        for body in [
            "",
            "<c:rename/>",
            "<mkdir/>",
            "<c:mkdir/>",
            "<c:mkdir><c:directory><c:path>/a</c:path></c:directory></c:mkdir>",
            "<c:mkdir><c:directory><c:path>/a</c:path><c:mode>x</c:mode></c:directory></c:mkdir>",
            "<c:mkdir><c:directory><c:path>/a</c:path><c:path>/a</c:path></c:directory></c:mkdir>",
            "<c:listReplicas><c:key/></c:listReplicas>",
            "<c:listReplicas><c:key><c:guid>a</c:guid><c:path>/a</c:path></c:key></c:listReplicas>",
            "<c:readDir><c:path>/a</c:path><c:max>1001</c:max></c:readDir>",
            "<c:removeReplica><c:replica>a<c:b/></c:replica></c:removeReplica>",
            "<c:symlink><c:link><c:path>/a</c:path></c:link></c:symlink>",
            "<c:setAcl><c:acl><c:path>/a</c:path><c:mode>7</c:mode></c:acl></c:setAcl>",
            "<c:getAcl><c:path>/a</c:path><c:path>/b</c:path></c:getAcl>",
            "<c:removeReplica><c:replica>a</c:replica></c:removeReplica><c:mkdir/>",
        ] {
            let found = fault(&message("", body));
            assert_eq!((found.code, found.failed), (FaultCode::Client, None), "{body}");
        }
        let must = "<soap-env:Header><t:lock xmlns:t='urn:t' soap-env:mustUnderstand='1'/></soap-env:Header>";
        assert_eq!(
            fault(&message(must, "<c:mkdir/>")).code,
            FaultCode::MustUnderstand
        );
        let other = "<e:Envelope xmlns:e='http://www.w3.org/2003/05/soap-envelope'><e:Body/></e:Envelope>";
        assert_eq!(fault(other).code, FaultCode::VersionMismatch);
    }
}
