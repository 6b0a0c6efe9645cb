//! The worked example of the protocol, with bytes of the servlet 3.42, its C client and an
//! independent implementation.

use super::armor::{Armor, Digest, Seal};
use super::frame;
use super::payload::Encoder;
use super::request::Encoding;

pub const SQL: &str = "SELECT IOV_SINCE,IOV_UNTIL,PAYLOAD FROM F0001_IOVS WHERE CHANNEL_ID=7";
pub const P1: &str =
    "eNoLdvVxdQ5R8PQPiw-29HN21QGxQv1CPH10AhwjffwdXRTcgvx9FdwMDAwM44GSwQrhHq5BrgrOHo5.fq4.8Z4utuYApg4TCg__";
/// The two lines of base64 that the servlet sent for `BLOBzip5`.
pub const ZIPPED: &str = "eF5jY2Bg4MzML4svzsxLTmUD8lgy80os2GDCpXklmTkowuwFiZU5+YkpYMGS1IoSdhCL0QBEMhsa\n\
                          QOgyW0N2ZAFhSyMjY2NzIwNjMwtTE3NzUwsD8zZ2ABcbFos=";
pub const BLOB_DOCUMENT: &str = "<?xml version=\"1.0\" encoding=\"US-ASCII\"?>
<!DOCTYPE frontier SYSTEM \"http://frontier.fnal.gov/frontier.dtd\">
<frontier version=\"3.42\" xmlversion=\"1.0\">
 <transaction payloads=\"1\">
  <payload type=\"frontier_request\" version=\"1\" encoding=\"BLOB\">
   <data>BgAAAAlpb3Zfc2luY2UGAAAABGludDgGAAAACWlvdl91bnRpbAYAAAAEaW50OAYAAAAHcGF5bG9h
ZAYAAAAEdGV4dAcGAAAAATAGAAAAAzEwMAYAAAADdj0xBwYAAAADMTAwBgAAABM5MjIzMzcyMDM2
ODU0Nzc1ODA3hgc=</data>
   <quality error=\"0\" md5=\"8daa348815876d8f868f4b506ca6801b\" records=\"2\" full_size=\"125\"/>
  </payload>
 </transaction>
</frontier>
";

/// The 125 bytes of the result set, from the published hex.
pub fn plain() -> Vec<u8> {
    let hex = "0600000009696f765f73696e63650600000004696e74380600000009696f765f756e74696c0600000004696e7438\
               06000000077061796c6f616406000000047465787407\
               0600000001300600000003313030\
               0600000003763d3107\
               060000000331303006000000133932323333373230333638353437373538303786\
               07";
    (0..hex.len())
        .step_by(2)
        .map(|index| u8::from_str_radix(&hex[index..index + 2], 16).unwrap())
        .collect()
}

/// The same rows, encoded by [`Encoder`].
pub fn encode_rows() -> Vec<u8> {
    let mut encoder = Encoder::default();
    for (name, kind) in [("iov_since", "int8"), ("iov_until", "int8"), ("payload", "text")] {
        encoder.column(name, kind);
    }
    encoder.end_record();
    for row in [["0", "100", "v=1"], ["100", "9223372036854775807", ""]] {
        for value in row {
            encoder.value((!value.is_empty()).then_some(value.as_bytes()));
        }
        encoder.end_record();
    }
    encoder.buffer
}

pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// A document with two rows, packed by [`Armor`].
pub fn document(encoding: &str, plain: &[u8]) -> Vec<u8> {
    let mut armor = Armor::new(Encoding::parse(encoding).unwrap());
    let mut data = Vec::new();
    armor.push(plain, &mut data);
    let seal = armor.finish(&mut data);
    framed(encoding, &data, seal)
}

/// The document exactly as the servlet sent it for `BLOBzip5`.
pub fn zipped_document() -> Vec<u8> {
    let md5 = [
        0xc8, 0xb4, 0x8c, 0x24, 0x18, 0xa5, 0x13, 0xb0, 0x63, 0x11, 0x98, 0x28, 0x0d, 0xda, 0xb6, 0x53,
    ];
    framed(
        "BLOBzip5",
        ZIPPED.as_bytes(),
        Seal {
            digest: Digest::Md5(md5),
            full_size: 125,
        },
    )
}

fn framed(encoding: &str, data: &[u8], seal: Seal) -> Vec<u8> {
    let mut out = Vec::new();
    frame::begin(&mut out);
    frame::transaction(&mut out, 1);
    frame::payload(&mut out, "frontier_request", "1", encoding);
    out.extend_from_slice(data);
    frame::quality(
        &mut out,
        "S",
        &frame::Quality {
            error: None,
            max_age: 0,
            seal: Some(seal),
            signature: None,
            records: Some(2),
        },
    );
    frame::end_transaction(&mut out);
    frame::end(&mut out);
    out
}
