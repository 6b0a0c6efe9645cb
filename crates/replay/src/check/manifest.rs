//! The manifest of the names that were made beneath a root: `.plimsoll-prepared.json`.
//!
//! It is written before a name is made, and lists all names that are about to be made. A
//! preparation that was interrupted can therefore be repeated and undone.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::beneath::Beneath;
use super::disk::Kind;
use super::prepare::PrepareError;

/// Format and version of the manifest.
pub const FORMAT: &str = "plimsoll.prepared/1";

/// File name of the manifest beneath the root.
pub const NAME: &[u8] = b".plimsoll-prepared.json";

/// Temporary name of the manifest until it is complete.
const NEW: &[u8] = b".plimsoll-prepared.new";

/// Progress of a preparation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The preparation has begun, and no replay has run. A name that differs from the manifest
    /// belongs to another process.
    Making,
    /// The preparation has ended. A replay may have changed the files that the trace changes, and
    /// made the names that it makes.
    Ready,
}

/// All names that were made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: String,
    /// Progress of the preparation.
    pub state: State,
    /// Modification time of all files that were made, ns since the Unix epoch. A file with another
    /// time was changed.
    pub stamp_ns: i64,
    /// Files, directories and links that were made.
    pub made: Vec<ManifestEntry>,
    /// Existing files that were enlarged.
    pub grown: Vec<EnlargedFile>,
    /// Names that the trace makes and that did not exist.
    pub creates: Vec<Create>,
}

/// A name that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestEntry {
    /// Path beneath the root.
    pub path: Name,
    /// Type.
    pub kind: Kind,
    /// Size of a file, bytes.
    pub size: u64,
    /// Permissions, if they matter.
    pub mode: Option<u32>,
    /// Target of a link.
    pub target: Option<Name>,
    /// Whether the trace changes it.
    pub changed: bool,
}

/// A file that was enlarged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnlargedFile {
    /// Path beneath the root.
    pub path: Name,
    /// Previous size, bytes.
    pub from: u64,
    /// New size, bytes.
    pub to: u64,
}

/// A name that a replay makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Create {
    /// Path beneath the root.
    pub path: Name,
    /// Path of an existing file that a replay links or moves to this name; it must not be removed.
    pub of: Option<Name>,
}

/// A path. Stored as text, or as bytes if it is not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(pub Box<[u8]>);

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => to.serialize_str(text),
            Err(_) => self.0.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum StoredName {
            Text(String),
            Bytes(Vec<u8>),
        }
        Ok(Self(match StoredName::deserialize(from)? {
            StoredName::Text(text) => text.into_bytes().into(),
            StoredName::Bytes(bytes) => bytes.into(),
        }))
    }
}

/// The part that is read first: the other fields of another format are unknown.
#[derive(Deserialize)]
struct Head {
    format: String,
}

impl Manifest {
    /// A manifest without names.
    pub(super) fn new(stamp_ns: i64) -> Self {
        Self {
            format: FORMAT.into(),
            state: State::Making,
            stamp_ns,
            made: Vec::new(),
            grown: Vec::new(),
            creates: Vec::new(),
        }
    }

    /// The manifest of a root; none if the root was not prepared.
    pub fn read(root: &Beneath) -> Result<Option<Self>, PrepareError> {
        let failed = |source| PrepareError::io("read", NAME, source);
        if root.stat(NAME).map_err(failed)?.is_none() {
            return Ok(None);
        }
        let mut text = String::new();
        let file = root.read(NAME).map_err(failed)?;
        File::from(file).read_to_string(&mut text).map_err(failed)?;
        let head: Head = serde_json::from_str(&text)?;
        if head.format != FORMAT {
            return Err(PrepareError::Format(head.format));
        }
        Ok(Some(serde_json::from_str(&text)?))
    }

    /// Writes the manifest so that it is complete or absent, also after a crash.
    pub(super) fn write(&self, root: &Beneath) -> Result<(), PrepareError> {
        let failed = |source| PrepareError::io("write", NAME, source);
        if root.stat(NEW).map_err(failed)?.is_some() {
            root.unlink(NEW).map_err(failed)?;
        }
        let file: OwnedFd = root.create(NEW).map_err(failed)?;
        let mut file = File::from(file);
        let text = serde_json::to_vec_pretty(self)?;
        let written = file.write_all(&text).and_then(|()| file.sync_all());
        written.map_err(failed)?;
        root.rename(NEW, NAME).map_err(failed)?;
        root.sync().map_err(failed)
    }

    /// Removes the manifest.
    pub(super) fn remove(root: &Beneath) -> Result<(), PrepareError> {
        let failed = |source| PrepareError::io("remove", NAME, source);
        root.unlink(NAME).map_err(failed)
    }
}
