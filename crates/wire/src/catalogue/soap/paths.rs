//! Messages and answers about links and ACLs.

use super::xml::{Xml, XmlError, once, put_text};
use crate::catalogue::{Reply, Request};

/// Appends a request about a link or an ACL.
pub(super) fn put(request: &Request, out: &mut String) {
    match request {
        Request::ReadLink { path } | Request::GetAcl { path } => put_text(out, "path", path),
        Request::MakeLink { path, target } => put_two(out, "link", path, ("target", target)),
        Request::SetAcl { path, acl } => put_two(out, "acl", path, ("entries", acl)),
        _ => {}
    }
}

fn put_two(out: &mut String, name: &str, path: &str, (second, text): (&str, &str)) {
    out.extend(["<", name, ">"]);
    put_text(out, "path", path);
    put_text(out, second, text);
    out.extend(["</", name, ">"]);
}

/// The path of a message about one entry.
pub(super) fn path(xml: &mut Xml<'_>) -> Result<String, XmlError> {
    let [path] = texts(xml, ["path"])?;
    Ok(path)
}

/// A new link.
pub(super) fn link(xml: &mut Xml<'_>) -> Result<Request, XmlError> {
    let [path, target] = texts(xml, ["path", "target"])?;
    Ok(Request::MakeLink { path, target })
}

/// A new ACL.
pub(super) fn acl(xml: &mut Xml<'_>) -> Result<Request, XmlError> {
    let [path, acl] = texts(xml, ["path", "entries"])?;
    Ok(Request::SetAcl { path, acl })
}

/// Appends the content of a link.
pub(super) fn put_target(target: &str, out: &mut String) {
    put_text(out, "target", target);
}

/// The content of a link.
pub(super) fn target(xml: &mut Xml<'_>) -> Result<Reply, XmlError> {
    let [target] = texts(xml, ["target"])?;
    Ok(Reply::Link(target))
}

/// Appends an ACL with its owner and its group.
pub(super) fn put_acl(owner: &str, group: &str, acl: &str, out: &mut String) {
    put_text(out, "owner", owner);
    put_text(out, "group", group);
    put_text(out, "entries", acl);
}

/// An ACL with its owner and its group.
pub(super) fn found_acl(xml: &mut Xml<'_>) -> Result<Reply, XmlError> {
    let [owner, group, acl] = texts(xml, ["owner", "group", "entries"])?;
    Ok(Reply::Acl { owner, group, acl })
}

/// The texts of the current element's children, which have these names, each once.
fn texts<const N: usize>(xml: &mut Xml<'_>, names: [&'static str; N]) -> Result<[String; N], XmlError> {
    let mut found = [const { None }; N];
    while let Some(tag) = xml.child()? {
        let place = names.iter().position(|name| *name == tag.name);
        let place = place.ok_or_else(|| tag.unexpected())?;
        once(&mut found[place], xml.text()?, &tag)?;
    }
    for (text, name) in found.iter().zip(names) {
        if text.is_none() {
            return Err(XmlError::Missing(name));
        }
    }
    Ok(found.map(Option::unwrap_or_default))
}
