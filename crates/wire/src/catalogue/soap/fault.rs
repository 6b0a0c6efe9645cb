//! Faults: why a message was not carried out.

use super::NAMESPACE;
use super::xml::{Space, Xml, XmlError, once, put_text, put_value};
use crate::catalogue::Status;

/// The codes of SOAP 1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultCode {
    /// The envelope is not that of SOAP 1.1.
    VersionMismatch,
    /// A header block is not understood.
    MustUnderstand,
    /// The message is the reason: it must not be sent again unchanged.
    Client,
    /// The service is the reason: the message may succeed later.
    Server,
}

impl FaultCode {
    const ALL: [Self; 4] = [
        Self::VersionMismatch,
        Self::MustUnderstand,
        Self::Client,
        Self::Server,
    ];

    /// Its local name.
    pub fn name(self) -> &'static str {
        match self {
            Self::VersionMismatch => "VersionMismatch",
            Self::MustUnderstand => "MustUnderstand",
            Self::Client => "Client",
            Self::Server => "Server",
        }
    }

    /// The code of a qualified name, such as `S:Client.Authentication`.
    fn of_text(text: &str) -> Option<Self> {
        let local = text.rsplit(':').next()?.trim();
        let name = local.split('.').next()?;
        Self::ALL.into_iter().find(|code| code.name() == name)
    }
}

/// Why nothing of a message was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Code of SOAP.
    pub code: FaultCode,
    /// A text for people.
    pub text: String,
    /// Result of the first operation that failed, and its index in the message; none: the message
    /// could not be read.
    pub failed: Option<(Status, usize)>,
}

impl Fault {
    /// The fault of an operation that failed.
    pub fn of(status: Status, index: usize, text: String) -> Self {
        let code = match status {
            Status::INTERNAL | Status::BUSY => FaultCode::Server,
            _ => FaultCode::Client,
        };
        Self {
            code,
            text,
            failed: Some((status, index)),
        }
    }

    pub(super) fn put(&self, out: &mut String) {
        out.push_str("<S:Fault><faultcode>S:");
        out.extend([self.code.name(), "</faultcode>"]);
        put_text(out, "faultstring", &self.text);
        if let Some((status, index)) = self.failed {
            out.extend(["<detail><catalogueFault xmlns=\"", NAMESPACE, "\">"]);
            put_value(out, "status", status.0);
            put_text(out, "text", status.text());
            put_value(out, "index", index);
            out.push_str("</catalogueFault></detail>");
        }
        out.push_str("</S:Fault>");
    }

    /// Reads the content of a fault.
    pub(super) fn take(xml: &mut Xml<'_>) -> Result<Self, XmlError> {
        let (mut code, mut text, mut failed) = (None, String::new(), None);
        while let Some(tag) = xml.start()? {
            match tag.name.as_str() {
                "faultcode" => code = FaultCode::of_text(&xml.text()?),
                "faultstring" => text = xml.text()?,
                "detail" => failed = detail(xml)?,
                _ => xml.skip()?,
            }
        }
        Ok(Self {
            code: code.ok_or(XmlError::Missing("faultcode"))?,
            text,
            failed,
        })
    }
}

fn detail(xml: &mut Xml<'_>) -> Result<Option<(Status, usize)>, XmlError> {
    let mut failed = None;
    while let Some(tag) = xml.start()? {
        if !tag.is(Space::Catalogue, "catalogueFault") {
            xml.skip()?;
            continue;
        }
        let (mut status, mut index) = (None, None);
        while let Some(tag) = xml.child()? {
            match tag.name.as_str() {
                "status" => once(&mut status, Status(xml.value(&tag)?), &tag)?,
                "index" => once(&mut index, xml.value(&tag)?, &tag)?,
                _ => xml.skip()?,
            }
        }
        failed = status.map(|status| (status, index.unwrap_or(0)));
    }
    Ok(failed)
}

impl From<XmlError> for Fault {
    fn from(error: XmlError) -> Self {
        let code = match error {
            XmlError::Version => FaultCode::VersionMismatch,
            XmlError::MustUnderstand(_) => FaultCode::MustUnderstand,
            _ => FaultCode::Client,
        };
        Self {
            code,
            text: error.to_string(),
            failed: None,
        }
    }
}
