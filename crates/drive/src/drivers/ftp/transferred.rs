//! What the files of a transaction were.

/// The result of the transfers of a transaction.
#[derive(Debug, Default)]
pub(super) struct Transferred {
    /// Number of bytes of each file.
    pub(super) sizes: Vec<u64>,
    /// Checksum of the content of each file; empty if they are not verified.
    pub(super) checksums: Vec<String>,
    /// Number of data connections.
    pub(super) connections: usize,
    /// Number of those that were opened for these transfers.
    pub(super) opened: usize,
}

impl Transferred {
    pub(super) fn add(&mut self, size: u64, checksum: Option<String>) {
        self.sizes.push(size);
        self.checksums.extend(checksum);
    }

    /// Number of bytes of all files.
    pub(super) fn payload(&self) -> u64 {
        self.sizes.iter().sum()
    }
}
