//! Replaces the header of a trace file with values that are known only after the recording.

use std::io::{self, Read, Write};

use super::frame::{self, Frames, NextFrame, Source};
use super::reader::first_line;
use super::{FORMAT, FileError};
use crate::header::Header;

/// Copies a trace file. `change` returns the new header. The data after the header are not changed.
///
/// # Errors
/// [`FileError`] if the header cannot be read, or if reading or writing fails.
pub fn with_header<R: Read, W: Write>(
    mut input: R,
    mut out: W,
    change: impl FnOnce(Header) -> Header,
) -> Result<W, FileError> {
    let mut body = Vec::new();
    let at = first_line(&mut input, &mut body)?;
    let mut source = Source::new(input, at);
    let is_header = source.read(&mut body)? == NextFrame::Frame(frame::kind::HEADER);
    let header = is_header.then(|| serde_json::from_slice(&body).ok()).flatten();
    let Some(header) = header else {
        return Err(FileError::Damaged {
            at,
            why: "the first frame is not a header",
        });
    };
    out.write_all(FORMAT.as_bytes())?;
    out.write_all(b"\n")?;
    frame::begin(&mut body);
    serde_json::to_writer(&mut body, &change(header))?;
    let mut frames = Frames::new(out);
    frames.write(frame::kind::HEADER, &mut body)?;
    io::copy(&mut source.into_rest(), &mut frames.out)?;
    Ok(frames.out)
}
