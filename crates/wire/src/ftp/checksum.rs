//! Checksums of the content of a file, as the command CKSM returns them (GFD.20, 3.1).

use md5::{Digest, Md5};

/// The modulus of Adler-32: the largest prime below 2^16 (RFC 1950).
const MODULUS: u64 = 65_521;
/// Length of a part whose weighted sum fits into 32 bits: 255 * 2048 * 2047 / 2 < 2^32.
const PART: usize = 2048;

/// The algorithm of a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChecksumKind {
    /// Adler-32 (RFC 1950). The bytes may arrive in any order.
    Adler32,
    /// MD5 (RFC 1321). The bytes must arrive in their order.
    Md5,
}

impl ChecksumKind {
    /// The name in the command CKSM.
    pub fn name(self) -> &'static str {
        match self {
            Self::Adler32 => "ADLER32",
            Self::Md5 => "MD5",
        }
    }
}

/// The checksum of a content in progress.
#[derive(Debug, Clone)]
pub enum Checksum {
    /// Adler-32.
    Adler32(Adler32),
    /// MD5.
    Md5(Box<Md5>),
}

impl Checksum {
    /// The checksum of no bytes.
    pub fn new(kind: ChecksumKind) -> Self {
        match kind {
            ChecksumKind::Adler32 => Self::Adler32(Adler32::default()),
            ChecksumKind::Md5 => Self::Md5(Box::default()),
        }
    }

    /// Adds bytes. `offset`: that of the first of them in the content, which MD5 does not use.
    pub fn add(&mut self, offset: u64, bytes: &[u8]) {
        match self {
            Self::Adler32(sums) => sums.add(offset, bytes),
            Self::Md5(state) => state.update(bytes),
        }
    }

    /// The checksum in hexadecimal digits.
    pub fn text(self) -> String {
        match self {
            Self::Adler32(sums) => format!("{:08x}", sums.value()),
            Self::Md5(state) => hexadecimal(&state.finalize()),
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
        }
        text
    })
}

/// Adler-32 of bytes that arrive in any order.
///
/// With n bytes d(0), d(1), ..., Adler-32 consists of 1 + S and n + n S - T, where S is the sum of
/// all d(i), and T that of all i d(i). Both sums do not depend on the order.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Adler32 {
    /// S modulo [`MODULUS`].
    sum: u64,
    /// T modulo [`MODULUS`].
    weighted: u64,
    /// n.
    length: u64,
}

impl Adler32 {
    fn add(&mut self, offset: u64, bytes: &[u8]) {
        let mut offset = offset % MODULUS;
        for part in bytes.chunks(PART) {
            let (mut sum, mut weighted) = (0_u32, 0_u32);
            for (index, &byte) in (0_u32..).zip(part) {
                sum += u32::from(byte);
                weighted += index * u32::from(byte);
            }
            let (sum, weighted) = (u64::from(sum), u64::from(weighted));
            self.sum = (self.sum + sum) % MODULUS;
            self.weighted = (self.weighted + offset * sum + weighted) % MODULUS;
            offset = (offset + part.len() as u64) % MODULUS;
        }
        self.length = self.length.wrapping_add(bytes.len() as u64);
    }

    fn value(self) -> u32 {
        let length = self.length % MODULUS;
        let low = (1 + self.sum) % MODULUS;
        let high = (length + length * self.sum + MODULUS - self.weighted) % MODULUS;
        (high << 16 | low) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adler(parts: &[(u64, &[u8])]) -> String {
        let mut checksum = Checksum::new(ChecksumKind::Adler32);
        for &(offset, bytes) in parts {
            checksum.add(offset, bytes);
        }
        checksum.text()
    }

    #[test]
    fn adler_32_has_its_published_values() {
        // The first one is that of Wikipedia's article, the others are those of Python's zlib.
        assert_eq!(adler(&[(0, b"Wikipedia")]), "11e60398");
        assert_eq!(adler(&[]), "00000001");
        assert_eq!(adler(&[(0, b"a")]), "00620062");
        // zlib.adler32(b"\xff" * 1_000_000)
        assert_eq!(adler(&[(0, &vec![0xff; 1_000_000])]), "3843e1be");
    }

    #[test]
    fn adler_32_does_not_depend_on_the_order() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
        let whole = adler(&[(0, &bytes)]);
        let (first, rest) = bytes.split_at(70_001);
        let (second, third) = rest.split_at(100_000);
        assert_eq!(adler(&[(170_001, third), (0, first), (70_001, second)]), whole);
        assert_ne!(adler(&[(0, third), (170_001, first), (70_001, second)]), whole);
    }

    #[test]
    fn md5_has_the_values_of_its_rfc() {
        let mut checksum = Checksum::new(ChecksumKind::Md5);
        checksum.add(0, b"message ");
        checksum.add(8, b"digest");
        assert_eq!(checksum.text(), "f96b697d7cb7938d525a2f31aaf161d0");
    }
}
