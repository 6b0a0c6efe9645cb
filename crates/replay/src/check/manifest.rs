//! What was made beneath a root: `.plimsoll-prepared.json`.
//!
//! It is written before anything is made, and says what is about to be: whatever interrupts a
//! preparation, it can be repeated, and undone.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::beneath::Beneath;
use super::disk::Kind;
use super::prepare::PrepareError;

/// Version of the file.
pub const FORMAT: &str = "plimsoll.prepared/1";

/// Its name beneath the root.
pub const NAME: &[u8] = b".plimsoll-prepared.json";

/// Under this name it is written, and then renamed.
const NEW: &[u8] = b".plimsoll-prepared.new";

/// How far a preparation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It has begun. No replay has been: what is not as it is made is somebody else's.
    Making,
    /// It has ended. A replay may have changed what the trace changes, and made what it makes.
    Ready,
}

/// All that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: String,
    /// How far it is.
    pub state: State,
    /// Modification time of all files that were made, ns since the Unix epoch: one with another
    /// time was changed.
    pub stamp_ns: i64,
    /// Files, directories, links.
    pub made: Vec<ManifestEntry>,
    /// Files that were there, and were too small.
    pub grown: Vec<Grown>,
    /// Names that the trace makes, and that were not there.
    pub creates: Vec<Create>,
}

/// Something that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestEntry {
    /// Beneath the root.
    pub path: Name,
    /// What it is.
    pub kind: Kind,
    /// Of a file, bytes.
    pub size: u64,
    /// Permissions, where they matter.
    pub mode: Option<u32>,
    /// What a link holds.
    pub target: Option<Name>,
    /// The trace changes it.
    pub changed: bool,
}

/// A file that was too small.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grown {
    /// Beneath the root.
    pub path: Name,
    /// Its size before, bytes.
    pub from: u64,
    /// Its size afterwards.
    pub to: u64,
}

/// A name that a replay makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Create {
    /// Beneath the root.
    pub path: Name,
    /// A file that was there, and that a replay links or moves to this name: not ours to remove.
    pub of: Option<Name>,
}

/// A path: text, or bytes where it is none.
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
        enum Written {
            Text(String),
            Bytes(Vec<u8>),
        }
        Ok(Self(match Written::deserialize(from)? {
            Written::Text(text) => text.into_bytes().into(),
            Written::Bytes(bytes) => bytes.into(),
        }))
    }
}

/// What is read first, as nothing else is known of another format.
#[derive(Deserialize)]
struct Head {
    format: String,
}

impl Manifest {
    /// Of nothing.
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

    /// That of a root; none where nothing was prepared.
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

    /// Writes it so that it is there as a whole, also after a crash.
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

    /// Nothing is left of it.
    pub(super) fn remove(root: &Beneath) -> Result<(), PrepareError> {
        let failed = |source| PrepareError::io("remove", NAME, source);
        root.unlink(NAME).map_err(failed)
    }
}
