//! The names of the entries of the data set `catalogue`. The engine writes the data set, and the
//! driver computes the names, so that it needs no list of them and can verify every reply.

use std::fmt::Write as _;

use sha1::{Digest, Sha1};

/// The directories above those of the entries, with the permissions of each. Nobody but its owner,
/// who has the number 0, may use `/grid/private`.
pub const ROOT_DIRECTORIES: [(&str, u32); 5] = [
    ("/", 0o755),
    ("/grid", 0o755),
    ("/grid/data", 0o777),
    ("/grid/new", 0o777),
    ("/grid/private", 0o700),
];

/// A data set. Entry `n` (from 0) is in the directory `n / directory`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataSet {
    /// Number of entries.
    pub entries: u64,
    /// Number of entries of each directory, except for the last one.
    pub directory: u64,
    /// Number of replicas of each entry.
    pub replicas: u32,
    /// Seed of GUIDs and names.
    pub seed: u64,
}

impl DataSet {
    /// Number of directories.
    pub fn directories(&self) -> u64 {
        self.entries.div_ceil(self.directory.max(1))
    }

    /// Number of entries of a directory.
    pub fn entries_of(&self, directory: u64) -> u64 {
        let before = directory.saturating_mul(self.directory);
        self.entries.saturating_sub(before).min(self.directory)
    }

    /// Name of a directory, without its path.
    pub fn directory_name(directory: u64) -> String {
        format!("d{directory:06}")
    }

    /// Path of a directory.
    pub fn directory_path(directory: u64) -> String {
        format!("/grid/data/{}", Self::directory_name(directory))
    }

    /// GUID of an entry: a name-based UUID.
    pub fn guid(&self, entry: u64) -> String {
        guid_of(&format!("{}/{entry}", self.seed))
    }

    /// Name of an entry with this GUID, without its path. The names of a directory are not in the
    /// order of their numbers.
    pub fn name(entry: u64, guid: &str) -> String {
        format!("f{}.{entry:09}", guid.get(..4).unwrap_or_default())
    }

    /// Path of an entry with this GUID.
    pub fn path(&self, entry: u64, guid: &str) -> String {
        let directory = Self::directory_path(entry / self.directory.max(1));
        format!("{directory}/{}", Self::name(entry, guid))
    }

    /// Host of a replica, from 0.
    pub fn host(replica: u32) -> String {
        format!("se{:02}.example.org", replica + 1)
    }

    /// Name of a replica of the entry with this GUID.
    pub fn replica(guid: &str, replica: u32) -> String {
        format!("srm://{}/data/{guid}", Self::host(replica))
    }
}

/// The GUID of a text: a UUID of version 5, without its name space.
pub fn guid_of(text: &str) -> String {
    let mut digest: [u8; 20] = Sha1::digest(text.as_bytes()).into();
    digest[6] = 0x50 | (digest[6] & 0x0f);
    digest[8] = 0x80 | (digest[8] & 0x3f);
    let mut guid = String::with_capacity(36);
    for (index, byte) in digest.iter().take(16).enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            guid.push('-');
        }
        // Writing to a String cannot fail.
        let _ = write!(guid, "{byte:02x}");
    }
    guid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_follow_from_the_seed() {
        let set = DataSet {
            entries: 2_500,
            directory: 1_000,
            replicas: 2,
            seed: 1,
        };
        assert_eq!(set.directories(), 3);
        assert_eq!(
            [0, 2, 3].map(|directory| set.entries_of(directory)),
            [1_000, 500, 0]
        );
        let guid = set.guid(2_001);
        let bytes = guid.as_bytes();
        assert_eq!((guid.len(), bytes[14]), (36, b'5'));
        assert!(matches!(bytes[19], b'8' | b'9' | b'a' | b'b'));
        let path = set.path(2_001, &guid);
        assert_eq!(path, format!("/grid/data/d000002/f{}.000002001", &guid[..4]));
        assert_ne!(DataSet { seed: 2, ..set }.guid(2_001), guid);
        assert_eq!(
            DataSet::replica(&guid, 1),
            format!("srm://se02.example.org/data/{guid}")
        );
    }

    /// Computed with Python's hashlib: SHA-1 of `1/0`, with the version and the variant set.
    #[test]
    fn a_guid_is_the_sha1_of_its_text() {
        assert_eq!(guid_of("1/0"), "940549e9-6508-53f0-a48a-842f119c3fb9");
    }
}
